"""Is what is installed known, pinned, and fit for the pair?"""

from dflash_doctor.testing import assert_check, parametrize_checks


@parametrize_checks("DF0")
def test_environment(dflash_contract, code):
    assert_check(dflash_contract, code)

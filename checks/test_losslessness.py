"""Is the output still the target's own?"""

from dflash_doctor.testing import assert_check, parametrize_checks


@parametrize_checks("DF3")
def test_losslessness(dflash_run, code):
    assert_check(dflash_run, code)

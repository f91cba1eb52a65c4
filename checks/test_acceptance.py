"""Are drafts made, and accepted?"""

from dflash_doctor.testing import assert_check, parametrize_checks


@parametrize_checks("DF4")
def test_acceptance(dflash_run, code):
    assert_check(dflash_run, code)

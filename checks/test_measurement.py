"""Can the numbers of this run be trusted?"""

from dflash_doctor.testing import assert_check, parametrize_checks


@parametrize_checks("DF8")
def test_measurement(dflash_run, code):
    assert_check(dflash_run, code)

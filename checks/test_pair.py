"""Do target, drafter and settings fit each other?"""

from dflash_doctor.testing import assert_check, parametrize_checks


@parametrize_checks("DF1")
def test_pair(dflash_contract, code):
    assert_check(dflash_contract, code)

"""Do target and drafter turn conversations into the same tokens?"""

from dflash_doctor.testing import assert_check, parametrize_checks


@parametrize_checks("DF2")
def test_text(dflash_contract, code):
    assert_check(dflash_contract, code)

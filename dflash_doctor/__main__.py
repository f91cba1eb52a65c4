"""`python -m dflash_doctor` is the command `dflash-doctor`."""

from dflash_doctor.cli.main import main

if __name__ == "__main__":
    main()

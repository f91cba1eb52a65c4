"""The command `dflash-doctor`. Each sub-command is a module that is imported only when it is used.

This is the one place where exceptions become exit codes.
"""

from __future__ import annotations

import difflib
import importlib
import os
import sys
from typing import Any

import click

from dflash_doctor import __version__
from dflash_doctor.errors import EXIT_INTERRUPTED, EXIT_NO_VERDICT, DoctorError

COMMANDS = {
    "demo": "Run the bundled tiny pair on the real engine and show the report.",
    "diagnose": "Run a pair, judge it, and say what to change.",
    "check": "Find what files, packages and settings tell of a pair; no engine needed.",
    "report": "Write a recorded run as HTML, JSON, SARIF or text.",
    "selftest": "Put known faults into healthy pairs and see whether they are named.",
    "explain": "Show the page of a check or a cause.",
    "env": "Show this environment, lock it, compare it with a lock, or show the settings in force.",
}
"""Name and summary of each sub-command; `--help` needs nothing else."""


class LazyGroup(click.Group):
    """A group that lists its commands without importing them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command's module."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"dflash_doctor.cli.{cmd_name}_command")
        command: click.Command = module.command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does, with the nearest names when there is no such command."""
        name = args[0] if args else ""
        if name and not name.startswith("-") and name not in COMMANDS:
            near = difflib.get_close_matches(name, COMMANDS, n=2)
            hint = f" Did you mean {' or '.join(near)}?" if near else f" Commands: {', '.join(COMMANDS)}."
            ctx.fail(f"No such command {name!r}.{hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The table itself, so that `--help` imports no command."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="dflash-doctor")
def cli() -> None:
    """Diagnostics and regression testing for DFlash-style speculative decoding.

    Exit status: 0 all passed, 1 findings, 2 bad usage, 3 could not judge, 130 interrupted.
    """


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit."""
    given = sys.argv[1:] if arguments is None else arguments
    debug = "--debug" in given
    try:
        code = _run(given)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader is gone (`| head`); Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except KeyboardInterrupt as interrupt:
        click.echo(": ".join(("interrupted", *map(str, interrupt.args))), err=True)
        code = EXIT_INTERRUPTED
    except DoctorError as error:
        if debug:
            raise
        click.echo(f"error: {error}", err=True)
        code = error.exit_code
    except Exception as error:
        if debug:
            raise
        click.echo(
            f"error: dflash-doctor itself failed\n  seen: {type(error).__name__}: {error}\n"
            "  do:   run again with --debug and report what it prints",
            err=True,
        )
        code = EXIT_NO_VERDICT
    sys.exit(code)


def _run(arguments: list[str]) -> int:
    """Exit code of a command; click's own usage errors are printed by click and are 2."""
    try:
        result: Any = cli.main(args=arguments, prog_name="dflash-doctor", standalone_mode=False)
    except click.Abort as abort:
        cause = abort.__cause__ or abort.__context__
        raise KeyboardInterrupt(*(cause.args if isinstance(cause, KeyboardInterrupt) else ())) from None
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.exceptions.Exit as stop:
        return stop.exit_code
    return result if isinstance(result, int) else 0


if __name__ == "__main__":
    main()

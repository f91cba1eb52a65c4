"""`dflash-doctor demo`."""

from __future__ import annotations

from typing import Any

import click

from dflash_doctor.bundled import bundled_fixtures
from dflash_doctor.cli.options import run_options, setting_options
from dflash_doctor.settings import resolve

_OUTPUT = "dflash-demo"
_FIXED = ("target", "draft", "method", "replay")


@click.command("demo")
@click.option("--where", is_flag=True, help="Only print the folder of the bundled pair (target/, draft/).")
@setting_options(leave_out=_FIXED, explain={"output": f"Folder for the run. Default: {_OUTPUT}."})
@run_options
def command(
    *, where: bool, config: str | None, as_json: bool, quiet: bool, strict: bool, debug: bool, **given: Any
) -> int:
    """Run the bundled tiny pair on the real engine: no GPU, no network, a minute or two."""
    pair = bundled_fixtures() / "tiny_pair"
    if where:
        click.echo(pair)
        return 0
    given = {**given, "target": str(pair / "target"), "draft": str(pair / "draft")}
    resolved = resolve({**given, "output": given.get("output") or _OUTPUT}, config=config)
    from dflash_doctor.cli.run_and_show import run_and_show

    return run_and_show(resolved.settings, resolved.origins, as_json=as_json, quiet=quiet, strict=strict)

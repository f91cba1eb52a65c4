"""`dflash-doctor diagnose`."""

from __future__ import annotations

from typing import Any

import click

from dflash_doctor.cli.options import run_options, setting_options
from dflash_doctor.settings import resolve


@click.command("diagnose")
@setting_options()
@run_options
def command(
    *, config: str | None, as_json: bool, quiet: bool, strict: bool, debug: bool, **given: Any
) -> int:
    """Run a pair with and without speculation, judge it, and say what to change."""
    resolved = resolve(given, config=config)
    from dflash_doctor.cli.run_and_show import run_and_show

    return run_and_show(resolved.settings, resolved.origins, as_json=as_json, quiet=quiet, strict=strict)

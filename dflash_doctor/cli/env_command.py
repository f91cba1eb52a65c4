"""`dflash-doctor env`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from dflash_doctor.settings import options, resolve

CPU_LOCK = Path(__file__).resolve().parent.parent / "environment" / "cpu-engine.lock.txt"


@click.command("env")
@click.option("--settings", "show_settings", is_flag=True, help="Each setting, and where it came from.")
@click.option("--cpu-lock", is_flag=True, help="The pinned CPU engine set, for pip install --no-deps -r.")
@click.option("--config", metavar="FILE", help="Settings file (TOML), for --settings.")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@click.option("--debug", is_flag=True, help="Show a traceback when something fails.")
def command(*, show_settings: bool, cpu_lock: bool, config: str | None, as_json: bool, debug: bool) -> int:
    """Show this environment, the settings in force, or the CPU engine's lock file."""
    if cpu_lock:
        click.echo(CPU_LOCK.read_text(encoding="utf-8"), nl=False)
        return 0
    if show_settings:
        _show_settings(config, as_json=as_json)
        return 0
    from dflash_doctor.environment.snapshot import environment_snapshot

    snapshot = environment_snapshot()
    if as_json:
        click.echo(json.dumps(snapshot, indent=2))
        return 0
    for name, value in snapshot.items():
        if isinstance(value, dict):
            click.echo(f"{name}:")
            for key, item in value.items():
                click.echo(f"  {key:<38} {item}")
        else:
            shown = ", ".join(value) if isinstance(value, list) else value
            click.echo(f"{name + ':':<40} {'none' if shown in (None, '') else shown}")
    return 0


def _show_settings(config: str | None, *, as_json: bool) -> None:
    resolved = resolve(config=config)
    values: dict[str, Any] = {item.name: getattr(resolved.settings, item.name) for item in options()}
    if as_json:
        table = {name: {"value": value, "from": resolved.origins[name]} for name, value in values.items()}
        click.echo(json.dumps(table, indent=2))
        return
    for name, value in values.items():
        shown = "not set" if value in (None, ()) else value
        click.echo(f"{name:<26} {shown!s:<30} {resolved.origins[name]}")

"""`dflash-doctor env`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from dflash_doctor.errors import EXIT_FINDINGS, EXIT_PASSED, UsageError
from dflash_doctor.settings import options, resolve

CPU_LOCK = Path(__file__).resolve().parent.parent / "environment" / "cpu-engine.lock.txt"


@click.command("env")
@click.option("--lock", metavar="FILE", help="Write this environment to a lock file.")
@click.option("--check", metavar="FILE", help="Compare with a lock file; exit 1 where results may differ.")
@click.option("--probe", is_flag=True, help="Import engines and compiled packages and ask them (slow).")
@click.option("--settings", "show_settings", is_flag=True, help="Each setting, and where it came from.")
@click.option("--cpu-lock", is_flag=True, help="The pinned CPU engine set, for pip install --no-deps -r.")
@click.option("--config", metavar="FILE", help="Settings file (TOML), for --settings.")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@click.option("--debug", is_flag=True, help="Show a traceback when something fails.")
def command(
    *,
    lock: str | None,
    check: str | None,
    probe: bool,
    show_settings: bool,
    cpu_lock: bool,
    config: str | None,
    as_json: bool,
    debug: bool,
) -> int:
    """Show this environment, lock it, compare it with a lock, or show the settings in force."""
    _require_one(lock=lock, check=check, settings=show_settings, cpu_lock=cpu_lock)
    if cpu_lock:
        click.echo(CPU_LOCK.read_text(encoding="utf-8"), nl=False)
        return EXIT_PASSED
    if show_settings:
        _show_settings(config, as_json=as_json)
        return EXIT_PASSED
    if check is not None:
        return _compare(Path(check), probe=probe, as_json=as_json)
    snapshot = _snapshot(probe=probe)
    if lock is not None:
        from dflash_doctor.environment.lock import write_lock

        write_lock(Path(lock), snapshot)
        click.echo(f"locked {len(snapshot['packages'])} packages in {lock}")
        return EXIT_PASSED
    problems = _problems(probe=probe)
    if as_json:
        click.echo(json.dumps(snapshot | {"problems": problems}, indent=2))
        return EXIT_PASSED
    _show(snapshot)
    for line in problems:
        click.echo(f"problem: {line}")
    return EXIT_PASSED


def _require_one(**modes: object) -> None:
    chosen = ["--" + name.replace("_", "-") for name, value in modes.items() if value]
    if len(chosen) > 1:
        raise UsageError(
            "only one of these at a time", seen=" ".join(chosen), remedy="run the command once for each"
        )


def _snapshot(*, probe: bool) -> dict[str, Any]:
    from dflash_doctor.environment.snapshot import environment_snapshot

    return environment_snapshot(ask_driver_tool=True, with_registries=True, probe=probe)


def _problems(*, probe: bool) -> list[str]:
    """What does not work together: ranges always, imports where somebody has tried them."""
    from dflash_doctor.environment.conflicts import import_problems, version_conflicts
    from dflash_doctor.environment.installed import find_all

    found = find_all()
    conflicts, _ = version_conflicts(found)
    broken = import_problems(found, tries="all" if probe else "none")[0]
    lines = [f"{item.package} {item.version} cannot be imported: {item.meaning}" for item in broken]
    return lines + [
        f"{item.package} is {item.version}; {item.required_by} asks for {item.requirement}"
        for item in conflicts
    ]


def _compare(path: Path, *, probe: bool, as_json: bool) -> int:
    from dflash_doctor.environment.lock import compare, read_lock

    locked = read_lock(path)
    differences = compare(locked, _snapshot(probe=probe))
    matters = [item for item in differences if item.weight != "harmless"]
    if as_json:
        table = {
            "lock": str(path),
            "differences": [
                {name: getattr(item, name) for name in item.__struct_fields__} for item in differences
            ],
        }
        click.echo(json.dumps(table, indent=2))
    elif not differences:
        click.echo(f"as locked ({path})")
    else:
        for item in differences:
            before, after = item.in_words()
            click.echo(f"{item.weight:<9} {item.what}: {before} -> {after}")
            click.echo(f"{'':<9} {item.reason}")
    return EXIT_FINDINGS if matters else EXIT_PASSED


def _show(snapshot: dict[str, Any]) -> None:
    for name, value in snapshot.items():
        if name == "engines":
            _show_engines(value)
        elif isinstance(value, dict):
            click.echo(f"{name}:" + ("" if value else f"{'':<{39 - len(name)}} none"))
            for key, item in value.items():
                click.echo(f"  {key:<38} {'none' if item is None else item}")
        else:
            shown = ", ".join(value) if isinstance(value, list) else value
            click.echo(f"{name + ':':<40} {'none' if shown in (None, '') else shown}")


def _show_engines(engines: dict[str, Any]) -> None:
    for engine, facts in engines.items():
        click.echo(f"registered by {engine} ({facts['asked']}):")
        if "error" in facts:
            click.echo(f"  not known: {facts['error']}")
            continue
        for part in ("methods", "draft_architectures"):
            words = ", ".join(facts[part]) or "none"
            click.echo(click.wrap_text(words, 100, f"  {part + ':':<21} ", " " * 24))


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

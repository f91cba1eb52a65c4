"""Every setting, declared once: command line, pytest options, config files and environment derive from it.

Precedence: defaults < file < environment (`DFLASH_DOCTOR_*`) < command line. The file is the one named
with `--config`, else `dflash-doctor.toml` in the working folder, else `[tool.dflash-doctor]` of a
`pyproject.toml` there or in a parent folder: one file, so a `dflash-doctor.toml` hides the table beside it.
Relative paths in a file start at that file's folder. An unknown key is an error that lists the valid ones.

Standard library only: the pytest plugin imports this in every session.
"""

from __future__ import annotations

import dataclasses
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dflash_doctor.checkpoints.hub_cache import HUB_ID
from dflash_doctor.checkpoints.semantics.table import engine_readers
from dflash_doctor.engines.catalog import engine_names
from dflash_doctor.errors import UsageError

ENVIRONMENT_PREFIX = "DFLASH_DOCTOR_"
DRAFTLESS_METHODS = ("ngram", "suffix", "mtp")
"""Methods whose drafts come from the prompt or from the target itself."""
FAIL_ON = ("error", "warning")
THINKING_MODES = ("off", "on", "template")
EXPERIMENT_MODES = ("auto", "off")


@dataclass(frozen=True)
class Option:
    """How one setting is spelled and explained; the type is the field's own."""

    name: str
    type: type
    default: Any
    help: str
    metavar: str | None = None
    choices: tuple[str, ...] | None = None
    multiple: bool = False
    minimum: float | None = None
    names: str | None = None
    """`path`, or `model`: a path or a hub id."""

    @property
    def flag(self) -> str:
        """`num_speculative_tokens` -> `--num-speculative-tokens`."""
        return "--" + self.name.replace("_", "-")


def _option(
    default: Any,
    text: str,
    *,
    type: type,
    metavar: str | None = None,
    choices: tuple[str, ...] | None = None,
    minimum: float | None = None,
    names: str | None = None,
) -> Any:
    metadata = {
        "help": text,
        "type": type,
        "metavar": metavar,
        "choices": choices,
        "minimum": minimum,
        "names": names,
    }
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings in force for one run."""

    target: str | None = _option(
        None, "Target model: a folder or a hub id.", type=str, metavar="MODEL", names="model"
    )
    draft: str | None = _option(
        None, "Drafter: a folder or a hub id.", type=str, metavar="MODEL", names="model"
    )
    method: str = _option("dflash", "Speculation method, as the engine names it.", type=str, metavar="NAME")
    engine: str = _option("vllm", "Engine that runs the pair.", type=str, choices=engine_names())
    served_by: str | None = _option(
        None,
        "Engine whose reading of the checkpoints the static checks judge. Default: the one that runs.",
        type=str,
        choices=engine_readers(),
    )
    engine_arg: tuple[str, ...] = _option(
        (),
        "Engine argument, passed through unchanged; `speculative_config.X=V` reaches the nested "
        "one. Values are read as JSON, else as text. Repeatable.",
        type=str,
        metavar="KEY=VALUE",
    )
    num_speculative_tokens: int | None = _option(
        None,
        "Draft tokens per step (K). Default: the drafter's block_size - 1.",
        type=int,
        metavar="K",
        minimum=1,
    )
    prompts: str | None = _option(
        None,
        "JSON Lines of prompts. Default: prompts.jsonl beside the target folder, else the bundled set.",
        type=str,
        metavar="FILE",
        names="path",
    )
    max_prompts: int | None = _option(
        None,
        "At most this many prompts, drawn evenly over the categories.",
        type=int,
        metavar="N",
        minimum=1,
    )
    max_tokens: int = _option(256, "Output tokens per request, at most.", type=int, metavar="N", minimum=1)
    temperature: float = _option(
        0.0, "Sampling temperature; 0 is greedy.", type=float, metavar="T", minimum=0.0
    )
    thinking: str = _option(
        "off",
        "Chat template's thinking switch: off, on, or as the template does by itself.",
        type=str,
        choices=THINKING_MODES,
    )
    seed: int = _option(0, "Seed for prompt choice and sampling.", type=int, metavar="N")
    experiments: str = _option(
        "auto",
        "Look for causes by experiment: auto where torch and transformers are installed, off never.",
        type=str,
        choices=EXPERIMENT_MODES,
    )
    budget: float = _option(
        300.0, "Seconds that experiments may take in all.", type=float, metavar="S", minimum=1
    )
    replay: str | None = _option(
        None, "Recorded run to judge again (engine replay).", type=str, metavar="RUN", names="path"
    )
    output: str | None = _option(
        None, "Folder for the run. Default: .dflash/runs/RUN_ID.", type=str, metavar="DIR", names="path"
    )
    environment_lock: str | None = _option(
        None,
        "Environment lock file (written by env --lock) to compare with.",
        type=str,
        metavar="FILE",
        names="path",
    )
    start_timeout: float = _option(
        900.0, "Seconds an engine may take to start.", type=float, metavar="S", minimum=1
    )
    stall_timeout: float = _option(
        300.0,
        "Seconds without progress after which an engine counts as hung.",
        type=float,
        metavar="S",
        minimum=1,
    )
    fail_on: str = _option(
        "error",
        "Mildest finding that fails a check, and with it the run.",
        type=str,
        choices=FAIL_ON,
    )
    min_acceptance_length: float = _option(
        1.1,
        "Acceptance length at or below which the drafter counts as not working.",
        type=float,
        metavar="AL",
        minimum=1.0,
    )

    @property
    def reader(self) -> str:
        """The engine whose reading of the checkpoints counts: the one named, else the one that runs."""
        known = engine_readers()
        return self.served_by or (self.engine if self.engine in known else known[0])


def options() -> tuple[Option, ...]:
    """Every setting, in declaration order."""
    found = []
    for item in dataclasses.fields(Settings):
        found.append(
            Option(
                name=item.name,
                default=item.default,
                multiple=isinstance(item.default, tuple),
                help=item.metadata["help"],
                type=item.metadata["type"],
                metavar=item.metadata["metavar"],
                choices=item.metadata["choices"],
                minimum=item.metadata["minimum"],
                names=item.metadata["names"],
            )
        )
    return tuple(found)


@dataclass(frozen=True)
class Resolved:
    """Settings, and where each value came from (`default`, a file name, a variable, `command line`)."""

    settings: Settings
    origins: Mapping[str, str]


def resolve(
    given: Mapping[str, Any] | None = None,
    *,
    config: str | Path | None = None,
    environ: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Resolved:
    """Settle every setting.

    Args:
        given: values from the command line or pytest; `None` and `()` count as not given.
        config: the file named by the user, if any.
        environ: the environment; the process's own by default.
        folder: where config files are looked for; the working folder by default.

    Raises:
        UsageError: an unknown key, a value of the wrong type, or a file that cannot be read.
    """
    known = {item.name: item for item in options()}
    values: dict[str, Any] = {}
    origins = dict.fromkeys(known, "default")

    def take(name: str, value: Any, origin: str) -> None:
        values[name] = _convert(known[name], value, origin)
        origins[name] = origin

    here = folder or Path.cwd()
    path, table = _file_table(config, here)
    for key, value in table.items():
        name = key.replace("-", "_")
        _require_known(name, key, known, f"in {path}")
        take(name, value, str(path))
        if path is not None and known[name].names and path.parent.resolve() != here.resolve():
            values[name] = _beside(path.parent, values[name], may_be_hub_id=known[name].names == "model")
    source = os.environ if environ is None else environ
    for variable in sorted(source):
        if not variable.startswith(ENVIRONMENT_PREFIX):
            continue
        name = variable.removeprefix(ENVIRONMENT_PREFIX).lower()
        _require_known(name, variable, known, "in the environment")
        take(name, source[variable], variable)
    for name, value in (given or {}).items():
        _require_known(name, name, known, "on the command line")
        if value is not None and value != ():
            take(name, value, "command line")
    return Resolved(Settings(**values), origins)


def _beside(folder: Path, value: str, *, may_be_hub_id: bool) -> str:
    """A path of a config file, from that file's folder; what is a hub id there stays."""
    is_hub_id = may_be_hub_id and HUB_ID.fullmatch(value) and not (folder / value).exists()
    return value if not value or is_hub_id else str(folder / value)


def _require_known(name: str, shown: str, known: Mapping[str, Option], place: str) -> None:
    if name not in known:
        raise UsageError(f"unknown setting {place}", seen=shown, remedy="valid: " + ", ".join(known))


def _file_table(config: str | Path | None, folder: Path) -> tuple[Path | None, dict[str, Any]]:
    """The settings table of the file in force, and that file."""
    if config is not None:
        path = Path(config)
        if not path.is_file():
            raise UsageError("the config file does not exist", seen=str(path), remedy="name a TOML file")
        return path, _table_in(path)
    own = folder / "dflash-doctor.toml"
    if own.is_file():
        return own, _table_in(own)
    for parent in (folder, *folder.parents):
        project = parent / "pyproject.toml"
        if project.is_file():
            return project, _table_in(project)
    return None, {}


def _table_in(path: Path) -> dict[str, Any]:
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(
            "the config file cannot be read", seen=f"{path}: {error}", remedy="correct it"
        ) from error
    if path.name == "pyproject.toml":
        document = document.get("tool", {}).get("dflash-doctor", {})
    if not isinstance(document, dict):
        raise UsageError(
            "the settings are not a table",
            seen=f"{path}: tool.dflash-doctor",
            remedy="write it as [tool.dflash-doctor]",
        )
    return document


def _convert(item: Option, value: Any, origin: str) -> Any:
    """The value in the setting's own type.

    Raises:
        UsageError: it does not fit; names the setting, the value and what fits.
    """
    if item.multiple:
        parts = value.split(",") if isinstance(value, str) else value
        if not isinstance(parts, list | tuple):
            raise _misfit(item, value, origin, "a list")
        return tuple(str(part).strip() for part in parts)
    if isinstance(value, bool | list | dict):
        raise _misfit(item, value, origin, f"one {item.type.__name__}")
    try:
        converted = item.type(value)
    except (TypeError, ValueError):
        raise _misfit(item, value, origin, f"one {item.type.__name__}") from None
    if item.type is int and isinstance(value, float) and value != converted:
        raise _misfit(item, value, origin, "a whole number")
    if isinstance(converted, float) and converted != converted:
        raise _misfit(item, value, origin, "a number")
    if item.choices is not None and converted not in item.choices:
        raise _misfit(item, value, origin, " or ".join(item.choices))
    if item.minimum is not None and converted < item.minimum:
        raise _misfit(item, value, origin, f"at least {item.minimum:g}")
    return converted


def _misfit(item: Option, value: Any, origin: str, expected: str) -> UsageError:
    return UsageError(
        f"{item.flag} has a value that does not fit",
        seen=f"{value!r} ({origin})",
        remedy=f"give {expected}",
    )

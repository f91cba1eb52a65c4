"""The pytest plugin. Without `--dflash` it adds options and markers and nothing else.

Only the standard library and the settings table are imported here; the work is in `plugin_run`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from dflash_doctor.settings import Option, options

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dflash_doctor.evidence import Generation
    from dflash_doctor.inspection import InspectionResult
    from dflash_doctor.records import PairRecord
    from dflash_doctor.session import RunResult

_STATE = "dflash_run"


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--dflash`, and every setting with `--dflash-` before it."""
    group = parser.getgroup("dflash", "speculative decoding checks (dflash-doctor)")
    group.addoption(
        "--dflash",
        action="store_true",
        default=False,
        help="Run a target and drafter and check them; with no path named, the built-in checks.",
    )
    group.addoption("--dflash-config", metavar="FILE", default=None, help="Settings file (TOML).")
    for item in options():
        group.addoption(
            plugin_flag(item),
            dest=plugin_dest(item),
            action="append" if item.multiple else "store",
            default=None,
            metavar=item.metavar or item.type.__name__.upper(),
            help=item.help.replace("%", "%%"),
        )


def plugin_flag(item: Option) -> str:
    """`--dflash-target` for the setting `target`."""
    return "--dflash-" + item.name.replace("_", "-")


def plugin_dest(item: Option) -> str:
    """Where pytest keeps the option's value."""
    return "dflash_setting_" + item.name


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker; with `--dflash` settle the settings and what is collected."""
    config.addinivalue_line("markers", "dflash: needs the pair given with --dflash-target and --dflash-draft")
    if config.getoption("--dflash"):
        from dflash_doctor.plugin_run import PluginRun

        run = PluginRun.from_config(config)
        config.pluginmanager.register(run, _STATE)


def _run_of(config: pytest.Config) -> Any:
    run = config.pluginmanager.get_plugin(_STATE)
    if run is None:
        pytest.skip("give --dflash to run a target and drafter")
    return run


@pytest.fixture(scope="session")
def dflash_pair(request: pytest.FixtureRequest) -> PairRecord:
    """The pair under test: `target`, `draft`, `method`, and content hashes. Nothing is started for it."""
    pair: PairRecord = _run_of(request.config).pair
    return pair


@pytest.fixture(scope="session")
def dflash_contract(request: pytest.FixtureRequest) -> InspectionResult:
    """What files, packages and settings say: `record` (static checks) and `evidence`. No engine starts."""
    result: InspectionResult = _run_of(request.config).contract()
    return result


@pytest.fixture(scope="session")
def dflash_run(request: pytest.FixtureRequest) -> RunResult:
    """The finished run: `record`, `evidence`, `folder`. The engine works once per session.

    Skips where the engine is not installed.
    """
    result: RunResult = _run_of(request.config).result(request.config)
    return result


@pytest.fixture(scope="session")
def dflash_target_only(dflash_run: RunResult) -> Generation:
    """The same prompts decoded by the target alone."""
    generation = dflash_run.evidence.target_only
    if generation is None:
        pytest.skip(f"the target-only arm was not run: {dflash_run.record.incomplete}")
    return generation


def given_settings(config: pytest.Config) -> Mapping[str, Any]:
    """What was given on pytest's command line, by setting name."""
    return {item.name: config.getoption(plugin_dest(item)) for item in options()}

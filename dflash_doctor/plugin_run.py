"""What the pytest plugin does when `--dflash` is on: one run per session, its checks as tests, a summary."""

from __future__ import annotations

import shutil
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dflash_doctor import session
from dflash_doctor.bundled import bundled_checks, bundled_fixtures
from dflash_doctor.checks.catalog import failing_on
from dflash_doctor.engines.catalog import engine_names
from dflash_doctor.errors import DoctorError, EngineMissingError, UsageError
from dflash_doctor.evidence import Evidence
from dflash_doctor.inspection import InspectionResult, inspect
from dflash_doctor.plan import make_plan
from dflash_doctor.plugin import given_settings
from dflash_doctor.records import PairRecord, RunRecord
from dflash_doctor.reports.terminal import render_terminal
from dflash_doctor.runs import read_record
from dflash_doctor.settings import Resolved, options, resolve

_PATTERNS = {"python_files": "test_*.py", "python_functions": "test_*"}


class PluginRun:
    """Settings, and the run once a test has asked for it."""

    def __init__(self, resolved: Resolved, *, bundled_pair: bool, builtin_checks: bool) -> None:
        self._resolved = resolved
        self._bundled_pair = bundled_pair
        self._builtin_checks = builtin_checks
        self._result: session.RunResult | None = None
        self._failure: DoctorError | None = None
        self._contract: InspectionResult | None = None
        # Settled now, so that bad usage is told before anything is collected.
        self.pair: PairRecord = make_plan(resolved.settings, run_id="plan").pair

    @classmethod
    def from_config(cls, config: pytest.Config) -> PluginRun:
        """Settle settings and collection.

        Raises:
            pytest.UsageError: bad settings, or parallel workers.
        """
        if getattr(config.option, "numprocesses", None) or hasattr(config, "workerinput"):
            raise pytest.UsageError(
                "--dflash runs its engine once and cannot be split over xdist workers; "
                "leave out -n, or give -n 0"
            )
        given = dict(given_settings(config))
        try:
            resolved = resolve(given, config=config.getoption("--dflash-config"))
            settings = resolved.settings
            bundled = settings.target is None and settings.draft is None and settings.engine != "replay"
            if bundled:
                pair = bundled_fixtures() / "tiny_pair"
                given |= {"target": str(pair / "target"), "draft": str(pair / "draft")}
                resolved = resolve(given, config=config.getoption("--dflash-config"))
            builtin = _collect_builtin_checks(config)
            return cls(resolved, bundled_pair=bundled, builtin_checks=builtin)
        except UsageError as error:
            raise pytest.UsageError(str(error)) from error

    def result(self, config: pytest.Config) -> session.RunResult:
        """The run, made at the first call; a failed one fails every test that asks."""
        if self._failure is not None:
            self._raise(self._failure)
        if self._result is None:
            capture = config.pluginmanager.getplugin("capturemanager")
            try:
                with capture.global_and_fixture_disabled():
                    result = session.run(self._resolved.settings, origins=self._resolved.origins)
                if result.missing_engine is not None:
                    raise result.missing_engine
                self._result = result
            except DoctorError as error:
                self._failure = error
                self._raise(error)
        assert self._result is not None, "made above"
        return self._result

    def contract(self) -> InspectionResult:
        """The static checks of the pair; of a recorded run, what its record says of them."""
        if self._contract is None:
            settings = self._resolved.settings
            self._contract = (
                _recorded_contract(settings.replay, fail_on=settings.fail_on)
                if settings.engine == "replay" and settings.replay is not None
                else inspect(settings, origins=self._resolved.origins)
            )
        return self._contract

    def _raise(self, error: DoctorError) -> None:
        if isinstance(error, EngineMissingError):
            pytest.skip(str(error))
        pytest.fail(str(error), pytrace=False)

    def pytest_report_header(self, config: pytest.Config) -> list[str]:
        """Which pair, and the settings that are not defaults."""
        settings, origins = self._resolved.settings, self._resolved.origins
        note = " (bundled tiny pair: give --dflash-target and --dflash-draft for yours)"
        lines = [
            f"dflash: target {self.pair.target}" + (note if self._bundled_pair else ""),
            f"dflash: draft {self.pair.draft}, method {self.pair.method}, engine {settings.engine} "
            f"(of {', '.join(engine_names())})",
        ]
        changed = [
            f"{item.name}={getattr(settings, item.name)} ({origins[item.name]})"
            for item in options()
            if origins[item.name] != "default" and item.name not in ("target", "draft")
        ]
        if changed:
            lines.append("dflash: " + ", ".join(changed))
        return lines

    def pytest_pycollect_makemodule(self, module_path: Path, parent: Any) -> pytest.Module | None:
        """Built-in checks get ids without the path of the environment they are installed in."""
        checks = bundled_checks()
        if not self._builtin_checks or not module_path.is_relative_to(checks):
            return None
        name = module_path.relative_to(checks.parent).as_posix()
        module: pytest.Module = pytest.Module.from_parent(parent, path=module_path, nodeid=name)
        return module

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        """A test that asked for the run, or the contract, has its numbers in JUnit XML, however it ended."""
        try:
            return (yield)
        finally:
            asked = getattr(item, "fixturenames", ())
            results = {"dflash_run": self._result, "dflash_contract": self._contract}
            for name, result in results.items():
                if result is not None and name in asked:
                    call = getattr(item, "callspec", None)
                    code = call.params.get("code") if call is not None else None
                    item.user_properties.extend(_properties(result.record, code))

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """The whole report under the test results."""
        if self._result is None:
            return
        terminalreporter.section("dflash")
        width = shutil.get_terminal_size((100, 24)).columns
        color = bool(getattr(terminalreporter, "hasmarkup", False))
        terminalreporter.write(render_terminal(self._result.record, width=width, color=color))
        report = self._result.record.artifacts.report
        if report is not None:
            terminalreporter.write_line(f"report: {self._result.folder / report}")


def _recorded_contract(folder: str, *, fail_on: str) -> InspectionResult:
    record, _ = read_record(folder)
    checks = tuple(failing_on(check, fail_on) for check in record.checks)
    record = msgspec.structs.replace(record, checks=checks)
    return InspectionResult(record, Evidence(contract=record.contract))


def _collect_builtin_checks(config: pytest.Config) -> bool:
    """With no path named, collect the built-in checks, whatever the project's own patterns are."""
    if config.args_source is pytest.Config.ArgsSource.ARGS:
        return False
    config.args = [str(bundled_checks())]
    for name, pattern in _PATTERNS.items():
        patterns: Sequence[str] = config.getini(name)
        if pattern not in patterns:
            config.addinivalue_line(name, pattern)
    return True


def _properties(record: RunRecord, code: str | None) -> Iterator[tuple[str, object]]:
    """Names and values for JUnit XML: the run, its acceptance length, and the verdict of one check."""
    yield "dflash_run_id", record.run_id
    overall = record.metrics.overall
    if overall is not None and overall.mean_acceptance_length.value is not None:
        yield "dflash_mean_acceptance_length", round(overall.mean_acceptance_length.value, 4)
    for check in record.checks:
        if check.code == code:
            yield "dflash_code", check.code
            yield "dflash_verdict", check.verdict

"""Prints after the tests how long each kind of them took, in the seconds of a clock and of a processor."""

import os
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import pytest

__all__ = ["kind_of"]

CPU_PROPERTY: Final = "cpu_s"
LONGEST_FILES: Final = 25

_begun_cpu_s: dict[str, float] = {}


def kind_of(nodeid: str) -> str:
    """A test's folder, two levels deep: `unit/agent`, `fault`, `integration/ingest`."""
    _, *folders = nodeid.split("::")[0].split("/")[:-1]
    return "/".join(folders[:2])


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    _begun_cpu_s[item.nodeid] = _cpu_s()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    yield
    item.user_properties.append((CPU_PROPERTY, round(_cpu_s() - _begun_cpu_s.pop(item.nodeid, _cpu_s()), 3)))


def _cpu_s() -> float:
    """Of this process and of those it started and saw end."""
    return sum(os.times()[:4])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = [report for group in terminalreporter.stats.values() for report in group if _is_of_a_test(report)]
    if not reports:
        return
    terminalreporter.section("time of each kind of test")
    _write_table(terminalreporter, reports, kind_of)
    terminalreporter.line("")
    _write_table(terminalreporter, reports, lambda nodeid: nodeid.split("::")[0])


def _is_of_a_test(report: object) -> bool:
    return isinstance(report, pytest.TestReport)


def _write_table(terminal: pytest.TerminalReporter, reports: list[Any], name_of: Any) -> None:
    tests, clock_s, cpu_s = Counter[str](), Counter[str](), Counter[str]()
    for report in reports:
        name = name_of(report.nodeid)
        clock_s[name] += report.duration
        tests[name] += report.when == "teardown"
        if report.when == "teardown":
            cpu_s[name] += dict(report.user_properties).get(CPU_PROPERTY, 0.0)
    terminal.line(f"{'seconds':>8} {'cpu':>8} {'tests':>6}")
    for name, seconds in clock_s.most_common(LONGEST_FILES):
        terminal.line(f"{seconds:8.1f} {cpu_s[name]:8.1f} {tests[name]:6d}  {name}")

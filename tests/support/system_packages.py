"""Tests that run a program from a system package say so: `@pytest.mark.needs("xmllint", "libxml2-utils")`.

`python -m tests.support.system_packages` installs what any test needs and the machine lacks, where that is possible
(`tests/support/programs.py`); `make` runs it before the tests start. A pytest without workers installs what its own
tests lack. Where that is not possible, those tests do not run; the summary names each with the package it needs, and
with CI=true it is a failure.
"""

import ast
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.support.programs import Need, missing, provide, search_system_directories

__all__ = ["needs_of_all_tests"]

TESTS: Final = Path(__file__).parents[1]
LACKS: Final = "lacks"  # the property of a report that names the packages


def needs_of_all_tests() -> set[Need]:
    """What the marks in the sources name, found without importing them: within a second."""
    return {need for path in TESTS.rglob("*.py") for need in _needs_in(path.read_text(encoding="utf-8"))}


def _needs_in(source: str) -> Iterator[Need]:
    for node in ast.walk(ast.parse(source)) if "mark.needs(" in source else ():
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.needs":
            yield Need(*(str(ast.literal_eval(argument)) for argument in node.args))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):  # several would wait for one lock
        search_system_directories()
    else:
        provide(need for item in items for need in _needs(item))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    absent = missing(_needs(item))
    if not absent:
        return
    item.user_properties.append((LACKS, " ".join(need.package for need in absent)))
    reason = "needs " + ", ".join(map(str, absent))
    if os.environ.get("CI") == "true":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = [report for group in terminalreporter.stats.values() for report in group]
    lacking = {report.nodeid: dict(getattr(report, "user_properties", ())).get(LACKS) for report in reports}
    unmet = sorted((test, packages) for test, packages in lacking.items() if packages)
    if not unmet:
        return
    terminalreporter.section("could not run for want of a system package")
    for test, packages in unmet:
        terminalreporter.line(f"{test}: apt-get install {packages}")


def _needs(item: pytest.Item) -> list[Need]:
    return [Need(*mark.args) for mark in item.iter_markers("needs")]


if __name__ == "__main__":
    for absent in provide(needs_of_all_tests()):
        print(f"missing, so tests that need it will not run: {absent}", file=sys.stderr)

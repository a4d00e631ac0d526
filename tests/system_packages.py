"""Tests that run a program from a system package say so: `@pytest.mark.needs("xmllint", "libxml2-utils")`.

What the chosen tests need and the machine lacks is installed by apt-get before the first test runs, where that is
possible (root, or sudo without a password). Where it is not, those tests do not run; the summary names each with the
package it wants, and with CI=true it is a failure.
"""

import os
import shutil
import subprocess
from typing import NamedTuple

import pytest


class Need(NamedTuple):
    command: str
    package: str


_unmet: dict[str, list[Need]] = {}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    wanted = {need for item in items for need in _needs(item)}
    missing = sorted(need.package for need in wanted if shutil.which(need.command) is None)
    if missing:
        _apt_install(missing)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    missing = [need for need in _needs(item) if shutil.which(need.command) is None]
    if not missing:
        return
    _unmet[item.nodeid] = missing
    reason = "needs " + ", ".join(f"{need.command} (package {need.package})" for need in missing)
    if os.environ.get("CI") == "true":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not _unmet:
        return
    terminalreporter.section("could not run for want of a system package")
    for test, needs in sorted(_unmet.items()):
        terminalreporter.line(f"{test}: apt-get install {' '.join(need.package for need in needs)}")


def _needs(item: pytest.Item) -> list[Need]:
    return [Need(*mark.args) for mark in item.iter_markers("needs")]


def _apt_install(packages: list[str]) -> None:
    """Try; whether it worked shows when the tests look for their programs."""
    as_root = [] if os.geteuid() == 0 else ["sudo", "--non-interactive"]
    if shutil.which("apt-get") is None or (as_root and shutil.which("sudo") is None):
        return
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (
        ["update", "--quiet"],
        ["install", "--quiet", "--yes", "--no-install-recommends", *packages],
    ):
        done = subprocess.run(
            [*as_root, "apt-get", *command], env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            print(f"apt-get {command[0]} failed: {done.stderr.strip()[-500:]}")

"""Programs from system packages: which of them are missing, and their installation by apt-get.

Tests and benchmarks name the programs that they need. Missing ones are installed before the first of them runs, if that
is possible (as root, or with sudo without a password). Otherwise the caller reports what could not run.
"""

import glob
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from typing import Final, NamedTuple

SYSTEM_DIRECTORIES: Final = ("/usr/sbin", "/sbin")  # some packages have their program there; a user's PATH lacks them
MAX_ERROR_CHARACTERS: Final = 500


class Need(NamedTuple):
    """A program, or a file by its absolute path (a pattern), and the Debian package that contains it."""

    command: str
    package: str

    @property
    def is_met(self) -> bool:
        if self.command.startswith("/"):
            return bool(glob.glob(self.command))  # noqa: PTH207 - an absolute pattern
        return shutil.which(self.command) is not None

    def __str__(self) -> str:
        return f"{self.command} (package {self.package})"


def missing(needs: Iterable[Need]) -> list[Need]:
    return [need for need in sorted(set(needs)) if not need.is_met]


def provide(needs: Iterable[Need]) -> list[Need]:
    """Install what is missing, if that is possible. Returns what is still missing."""
    wanted = set(needs)
    search_system_directories()
    if absent := missing(wanted):
        _apt_install(sorted({need.package for need in absent}))
    return missing(wanted)


def search_system_directories() -> None:
    """Find programs also in the directories that a user's PATH lacks."""
    directories = os.environ.get("PATH", os.defpath).split(os.pathsep)
    more = [each for each in SYSTEM_DIRECTORIES if each not in directories]
    os.environ["PATH"] = os.pathsep.join([*directories, *more])


def _apt_install(packages: list[str]) -> None:
    as_root = [] if os.geteuid() == 0 else ["sudo", "--non-interactive"]
    if shutil.which("apt-get") is None or (as_root and shutil.which("sudo") is None):
        return
    print(f"installing system packages: {' '.join(packages)}", file=sys.stderr, flush=True)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (
        ["update", "--quiet"],
        ["install", "--quiet", "--yes", "--no-install-recommends", *packages],
    ):
        done = subprocess.run(
            [*as_root, "apt-get", *command], env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            error = done.stderr.strip()[-MAX_ERROR_CHARACTERS:]
            print(f"apt-get {command[0]} failed: {error}", file=sys.stderr)

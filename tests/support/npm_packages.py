"""Packages of the npm registry that tests use: installed once for all runs, in the user's cache.

`python -m tests.support.npm_packages` installs all of them; `make` runs it before the tests start. A test whose package
is still missing installs it; one worker at a time. Native parts, which need a compiler, are left out.
"""

import fcntl
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

__all__ = ["CLIENTS", "REAL_NODES", "installed"]

INTEGRATION: Final = Path(__file__).parents[1] / "integration"
CLIENTS: Final = INTEGRATION / "node_clients"
REAL_NODES: Final = INTEGRATION / "real_nodes"
STAND_INS: Final = "uws"  # packages of ours in the place of native ones, where a manifest names them
CACHE: Final = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "headgate-tests"
INSTALL: Final = ("npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
INSTALL_TIMEOUT_S: Final = 600


def installed(manifest: Path, release: str = "") -> Path:
    """The folder in which the packages of `manifest`, a folder with a package.json, are installed.

    Args:
        release: of the first package, instead of the release that the manifest names.
    """
    package = json.loads((manifest / "package.json").read_text())
    name, version = next(iter(package["dependencies"].items()))
    package["dependencies"][name] = release or version
    folder = CACHE / f"{name}-{release or version}"
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            _install(json.dumps(package), manifest.parent / STAND_INS, folder)
    return folder


def _install(package: str, stand_ins: Path, folder: Path) -> None:
    print(f"installing npm packages: {folder.name}", file=sys.stderr, flush=True)
    making = folder.with_name(".making")
    shutil.rmtree(making, ignore_errors=True)  # what an interrupted run left
    making.mkdir()
    (making / "package.json").write_text(package)
    if stand_ins.exists():
        shutil.copytree(stand_ins, making / STAND_INS)
    subprocess.run(INSTALL, cwd=making, check=True, capture_output=True, timeout=INSTALL_TIMEOUT_S)
    making.rename(folder)


def install_all() -> None:
    for each in sorted([*CLIENTS.glob("*/package.json"), *REAL_NODES.glob("release*/package.json")]):
        try:
            installed(each.parent)
        except (OSError, subprocess.SubprocessError) as error:
            print(f"not installed, so tests that need it will try again: {each.parent.name}: {error}", file=sys.stderr)


if __name__ == "__main__":
    install_all()

"""What several suites of this folder share."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

MAKE_DEB = Path(__file__).parents[2] / "systemd" / "make-deb.sh"


@pytest.fixture(scope="session")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package for devices, built once, without the compression that takes most of the time."""
    folder = tmp_path_factory.mktemp("dist")
    environment = {**os.environ, "PYTHON": sys.executable, "COMPRESSION": "none"}
    subprocess.run([MAKE_DEB, folder], env=environment, check=True, capture_output=True)
    (built,) = folder.glob("headgate_*.deb")
    return built

"""The unit is one that systemd understands, and leaves the service little to do harm with."""

import argparse
import re
import subprocess
from pathlib import Path

import pytest

from ingest.collector import cli

UNIT = Path(__file__).parents[3] / "systemd" / "headgate-collector.service"
MAX_EXPOSURE = 1.5

pytestmark = pytest.mark.needs("systemd-analyze", "systemd")


@pytest.fixture
def unit(tmp_path: Path) -> Path:
    """With a program that exists on every machine."""
    path = tmp_path / UNIT.name
    path.write_text(UNIT.read_text().replace("/opt/headgate/current/bin/headgate", "/bin/true"))
    return path


def analyze(*arguments: str) -> str:
    done = subprocess.run(["systemd-analyze", *arguments], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def test_systemd_finds_nothing_to_complain_of(unit: Path) -> None:
    assert analyze("verify", str(unit)) == ""


def test_the_service_is_hardened(unit: Path) -> None:
    exposure = re.search(r"exposure level for \S+: ([0-9.]+)", analyze("security", "--offline=true", str(unit)))
    assert exposure is not None
    assert float(exposure[1]) <= MAX_EXPOSURE


def test_the_command_in_the_unit_is_one_that_headgate_understands() -> None:
    (command,) = re.findall(r"^ExecStart=/opt/headgate/current/bin/headgate collector (.*)$", UNIT.read_text(), re.MULTILINE)
    parser = argparse.ArgumentParser()
    cli.add_arguments(parser)
    arguments = parser.parse_args(command.removesuffix(" $HEADGATE_COLLECTOR_OPTIONS").split())
    assert (arguments.action, arguments.listen) == ("run", "127.0.0.1:8440")

"""The units are ones that systemd understands, and leave the services little to do harm with; the scripts are clean."""

import argparse
import importlib
import re
import subprocess
from pathlib import Path

import pytest

from agent.cli import COMMANDS, CommandModule
from agent.config.configuration import load_config
from agent.operator.unit_drop_in import compose_drop_in
from tests.support.systemd_machine import AS_ROOT

FOLDER = Path(__file__).parents[2] / "systemd"
PROGRAM = "/opt/headgate/current/bin/headgate"
UNITS = ["headgate.service", "headgate-collector.service", "headgate-node.service"]
FIRST_BOOT = "headgate-firstboot.service"
MAX_EXPOSURE = 1.5
MAX_EXPOSURE_WITH_PORTS = 1.7  # who may open a port cannot have a /dev without any
PORT = (
    '[device]\nname = "bench"\n[drivers.gps]\ndriver = "nmea"\nport = "/dev/ttyUSB0"\n'
    '[journal]\ndirectory = "/mnt/a b$1/100%"\n'
)

needs_systemd = pytest.mark.needs("systemd-analyze", "systemd")


def copy_unit(name: str, folder: Path) -> Path:
    """With a program that exists on every machine."""
    path = folder / name
    path.write_text((FOLDER / name).read_text().replace(PROGRAM, "/bin/true"))
    return path


def add_drop_in(folder: Path) -> None:
    (folder / "headgate.toml").write_text(PORT)
    (folder / "headgate.service.d").mkdir()
    text = compose_drop_in(load_config(folder / "headgate.toml"))
    (folder / "headgate.service.d" / "headgate.conf").write_text(text)


def run(*command: str | Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def exposure(unit: Path) -> float:
    found = re.search(r"exposure level for \S+: ([0-9.]+)", run("systemd-analyze", "security", "--offline=true", unit))
    assert found is not None
    return float(found[1])


@needs_systemd
@pytest.mark.parametrize("name", [*UNITS, FIRST_BOOT])
def test_systemd_finds_no_problem(name: str, tmp_path: Path) -> None:
    assert run("systemd-analyze", "verify", copy_unit(name, tmp_path)) == ""


@needs_systemd
@pytest.mark.parametrize("name", UNITS)
def test_a_service_is_hardened(name: str, tmp_path: Path) -> None:
    assert exposure(copy_unit(name, tmp_path)) <= MAX_EXPOSURE


@needs_systemd
def test_what_is_made_of_a_configuration_fits_the_unit_and_opens_little(tmp_path: Path) -> None:
    unit = copy_unit("headgate.service", tmp_path)
    add_drop_in(tmp_path)
    assert run("systemd-analyze", "verify", unit) == ""
    assert MAX_EXPOSURE < exposure(unit) <= MAX_EXPOSURE_WITH_PORTS


@pytest.mark.parametrize("name", [*UNITS, FIRST_BOOT])
def test_the_commands_in_a_unit_are_ones_that_headgate_understands(name: str) -> None:
    commands = re.findall(rf"^Exec\w+=.*?{PROGRAM} ([^'\n]*)", (FOLDER / name).read_text(), re.MULTILINE)
    assert commands
    for command in commands:
        word, *arguments = [each for each in command.split() if not each.startswith("$")]
        module: CommandModule = importlib.import_module(COMMANDS[word].module)
        parser = argparse.ArgumentParser()
        module.add_arguments(parser)
        parser.parse_args(arguments)


@pytest.mark.parametrize("name", UNITS)
def test_every_service_restarts_is_watched_and_stops_at_a_wrong_configuration(name: str) -> None:
    text = (FOLDER / name).read_text()
    assert "\nType=notify\n" in text
    assert "\nRestartPreventExitStatus=78\n" in text
    assert re.search(r"^Restart=(always|on-failure)$", text, re.MULTILINE)
    for limit in ("WatchdogSec", "MemoryMax", "CPUQuota", "TasksMax", "TimeoutStopSec", "LimitNOFILE", "LimitCORE"):
        assert f"\n{limit}=" in text, limit


@needs_systemd
def test_users_and_folders_are_made_as_the_units_expect_them(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    for name in ("headgate", "headgate-collector"):
        made = run(*AS_ROOT, "systemd-sysusers", f"--root={tmp_path}", FOLDER / f"{name}.sysusers.conf")
        assert f"Creating user '{name}'" in made
    assert "dialout:" in (tmp_path / "etc" / "group").read_text()
    assert run(*AS_ROOT, "systemd-tmpfiles", "--create", f"--root={tmp_path}", FOLDER / "headgate.tmpfiles.conf") == ""
    assert run(*AS_ROOT, "stat", "--format=%a", tmp_path / "var/lib/headgate/keys") == "700\n"


def test_the_udev_rules_are_well_formed_and_jump_to_a_label_that_is_there() -> None:
    text = (FOLDER / "70-headgate.rules").read_text()
    rules = [line for line in text.splitlines() if line and not line.startswith("#")]
    for rule in rules:
        assert re.fullmatch(
            r'[A-Z]+(\{\w+\})?(==|!=|\+=|:=|=)"[^"]*"(, [A-Z]+(\{\w+\})?(==|!=|\+=|:=|=)"[^"]*")*', rule
        ), rule
    assert set(re.findall(r'GOTO="(\w+)"', text)) == set(re.findall(r'LABEL="(\w+)"', text))


@pytest.mark.needs("shellcheck", "shellcheck")
@pytest.mark.parametrize("name", ["install.sh", "make-deb.sh"])
def test_the_scripts_are_clean(name: str) -> None:
    assert run("shellcheck", FOLDER / name) == ""


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--role", "king"], "no role king"),
        (["--rolle", "agent"], "unknown option --rolle"),
        (["--role"], "--role requires a value"),
        (["--purge"], "--purge goes with --uninstall"),
        (["--from", "/nowhere"], "neither a wheel nor a checkout"),
        (["--from", "/nowhere/a.whl"], "no such wheel"),
    ],
)
def test_the_installer_says_what_is_wrong_and_changes_nothing(
    arguments: list[str], problem: str, tmp_path: Path
) -> None:
    done = subprocess.run(
        [FOLDER / "install.sh", "--root", tmp_path, *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert problem in done.stderr
    assert list(tmp_path.iterdir()) == []

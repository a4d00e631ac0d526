"""An image that install.sh made, booted under a real systemd: each copy of it becomes a device of its own."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.systemd_machine import Machine, booted_machine, can_boot

KEY_FILE = "/var/lib/headgate/keys/device.keys"
OTHER_ID = "0123456789abcdef0123456789abcdef"
PREPARE = """
: > "$1/etc/machine-id"
dpkg-deb --extract "{package}" "$1"
"$1/usr/lib/headgate/install.sh" --root "$1" --wheels "$1/usr/lib/headgate/wheels" --start
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.needs("systemd-nspawn", "systemd-container"),
    pytest.mark.needs("dpkg-deb", "dpkg"),
]


@pytest.fixture(scope="module")
def machine(package: Path) -> Iterator[Machine]:
    if not can_boot():
        reason = "this machine does not let its root mount anything, so no container can be booted"
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(reason)
    with booted_machine(prepare=PREPARE.format(package=package)) as machine:
        yield machine


def test_an_image_runs_with_its_own_interpreter_at_its_own_paths(machine: Machine) -> None:
    current = machine.run("readlink", "--canonicalize", "/opt/headgate/current").stdout.strip()
    assert current.startswith("/opt/headgate/versions/")
    assert machine.read(f"{current}/bin/headgate").startswith(f"#!{current}/bin/python")
    assert machine.run("headgate", "--version").stdout.startswith("headgate ")
    left_over = machine.run("sh", "-c", "ls /tmp/source /tmp/wheels 2>/dev/null", check=False).stdout
    assert left_over == "", "nothing of the building machine stays"


def test_the_identity_is_made_at_the_first_boot_and_stays(machine: Machine) -> None:
    assert machine.run("test", "-e", KEY_FILE, check=False).returncode == 1, "the image has none"
    machine.run("systemctl", "is-enabled", "headgate")
    machine.run("systemctl", "start", "headgate")
    machine.wait_until("headgate", "status", what="it runs")
    owners = machine.run("stat", "--format=%U:%G %a", "/etc/headgate/headgate.toml", KEY_FILE).stdout.splitlines()
    assert owners == ["root:headgate 640", "headgate:headgate 600"]
    assert "machine      this one" in machine.run("headgate", "keys", "show").stdout
    keys = machine.run("sha256sum", KEY_FILE).stdout
    machine.run("systemctl", "restart", "headgate")
    assert machine.run("sha256sum", KEY_FILE).stdout == keys
    assert machine.property("headgate-firstboot", "ConditionResult") == "no"


def test_a_device_whose_card_is_copied_to_another_machine_does_not_run_there(machine: Machine) -> None:
    machine.run("systemctl", "stop", "headgate")
    machine.run("sh", "-c", f"umount /etc/machine-id; echo {OTHER_ID} > /etc/machine-id")
    assert machine.run("systemctl", "start", "headgate", check=False).returncode != 0
    assert machine.property("headgate", "ExecMainStatus") == "78"
    assert "these keys were made on another machine" in machine.run("headgate", "check", check=False).stderr
    machine.run("headgate", "keys", "adopt")
    machine.run("systemctl", "start", "headgate")


def test_a_device_that_lost_its_keys_does_not_become_another(machine: Machine) -> None:
    machine.run("systemctl", "stop", "headgate")
    machine.run("rm", KEY_FILE)
    assert machine.run("systemctl", "start", "headgate", check=False).returncode != 0
    refused = machine.run("headgate", "init", "--missing", "--non-interactive", check=False)
    assert "a device ran here before" in refused.stderr
    assert machine.run("test", "-e", KEY_FILE, check=False).returncode == 1

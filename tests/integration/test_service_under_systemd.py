"""The package, the unit and install.sh under a real systemd, in a container of their own.

The tests share one machine, on which the package was installed without a network; the last of them takes it away.
"""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from protocol.streamr.stream_message import parse_stream_message
from testbed.cable import PtyPort
from tests.support.running_agent import assert_whole
from tests.support.systemd_machine import Machine, booted_machine, can_boot

ROOT = Path(__file__).parents[2]
CONFIGURATION = "/etc/headgate/headgate.toml"
DROP_IN = "/etc/systemd/system/headgate.service.d/headgate.conf"
HURRY = "/etc/systemd/system/headgate.service.d/test.conf"
KEY_FILE = "/var/lib/headgate/keys/device.keys"
MESSAGES = "/var/lib/headgate/messages.jsonl"
RESTARTED = '[ "$(systemctl show -P NRestarts headgate)" -ge 1 ]'
INSTALLER = ("/usr/lib/headgate/install.sh", "--wheels")
DEVICE = """
[device]
name = "bench"
[journal]
max_megabytes = 16
segment_kilobytes = 256
commit_interval_s = 0.05
positions_interval_s = 0.2
[publishers.file]
kind = "file"
path = "/var/lib/headgate/messages.jsonl"
"""
SIMULATED = """
[drivers.boiler]
driver = "simulated"
rate_hz = 50.0
signals = [{ quantity = "temperature", kind = "walk", unit = "Cel" }]
"""
SERIAL = """
[drivers.scales]
driver = "serial_line"
port = "/dev/ttyUSB7"
format = "regex"
pattern = 'W=(?P<weight>[0-9.]+)'
[drivers.scales.quantities.weight]
field = "weight"
unit = "kg"
[[streams]]
stream = "{address}/scales"
content = "json"
"""
SPOIL = """
import sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as good, zipfile.ZipFile(sys.argv[2], "w") as bad:
    for item in good.infolist():
        is_run = item.filename == "agent/operator/commands/run.py"
        bad.writestr(item, b"raise SystemExit(1)" if is_run else good.read(item))
"""
FROZEN_DISK = """
set -e
mkdir -p /srv/disk
truncate --size=48M /srv/disk.img
mkfs.ext4 -q -F /srv/disk.img
for number in $(seq 0 63); do [ -e /dev/loop$number ] || mknod /dev/loop$number b 7 $number; done
[ -e /dev/loop-control ] || mknod /dev/loop-control c 10 237
mount -o loop /srv/disk.img /srv/disk
chown headgate:headgate /srv/disk
"""
PROBE = """
import os
from agent.clock import read_kernel_clock
for name in ("ttyUSB9", "ttyACM9", "kvm9", "null"):
    try:
        os.close(os.open(f"/dev/{name}", os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK))
        print(name, "opened")
    except OSError as error:
        print(name, error.strerror)
for path in ("/srv/open/written", "/var/lib/headgate/written"):
    try:
        open(path, "w").close()
        print(path, "written")
    except OSError as error:
        print(path, error.strerror)
print("clock", read_kernel_clock().max_error_ms >= 0)
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.needs("systemd-nspawn", "systemd-container"),
    pytest.mark.needs("dpkg-deb", "dpkg"),
    pytest.mark.needs("udevadm", "udev"),
    pytest.mark.needs("fuser", "psmisc"),
]


@pytest.fixture(scope="module")
def cable(tmp_path_factory: pytest.TempPathFactory) -> PtyPort:
    return PtyPort(tmp_path_factory.mktemp("dev") / "port")


@pytest.fixture(scope="module")
def machine(package: Path, cable: PtyPort) -> Iterator[Machine]:
    if not can_boot():
        reason = "this machine does not let its root mount anything, so no container can be booted"
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(reason)
    binds = (f"--bind-ro={package.parent}:/mnt", f"--bind={cable.link.resolve()}:/dev/ttyUSB7")
    with booted_machine(*binds) as machine:
        machine.run("dpkg", "--install", f"/mnt/{package.name}")
        yield machine


def configure(machine: Machine, *parts: str) -> None:
    """A configuration, what the service may touch for it, and a stopped service."""
    machine.run("systemctl", "stop", "headgate")
    machine.run("systemctl", "reset-failed", "headgate", check=False)
    machine.write(CONFIGURATION, "".join(parts))
    machine.run("headgate", "systemd", "--write")
    machine.write(HURRY, "[Service]\nRestartSec=100ms\nWatchdogSec=2\n")
    machine.run("systemctl", "daemon-reload")


def lines(machine: Machine) -> list[str]:
    return [line for line in machine.read(MESSAGES).split("\n")[:-1] if line.endswith("]")]


def wait_for_more(machine: Machine) -> None:
    many = str(len(lines(machine)) + 20)
    machine.wait_until("sh", "-c", f'[ "$(wc -l < {MESSAGES})" -gt {many} ]', what="messages are published")


def start(machine: Machine) -> str:
    """Its process."""
    machine.run("systemctl", "start", "headgate")
    machine.wait_until("test", "-s", MESSAGES, what="something is published")
    return machine.property("headgate", "MainPID")


def test_the_package_makes_a_user_a_configuration_and_keys_that_are_its_own(machine: Machine) -> None:
    owner = machine.run("stat", "--format=%U:%G %a", CONFIGURATION, "/var/lib/headgate/keys/device.keys").stdout
    assert owner.split("\n")[:2] == ["root:headgate 640", "headgate:headgate 600"]
    assert machine.run("headgate", "check").stdout.startswith(f"{CONFIGURATION}: OK")
    assert "baudrate" in machine.run("headgate", "drivers", "modbus").stdout, "settings and samples are in the package"
    assert machine.property("headgate", "ActiveState") == "inactive", "nothing runs before it is configured"
    assert machine.run("find", "/opt/headgate", "-not", "-user", "root").stdout == "", "it cannot change its own code"


def test_the_service_starts_says_so_and_stops_in_time(machine: Machine) -> None:
    configure(machine, DEVICE, SIMULATED)
    start(machine)
    assert machine.property("headgate", "SubState") == "running"
    machine.wait_until("headgate", "status", what="it tells how it is")
    machine.wait_until("headgate", "doctor", what="the doctor finds no error")
    machine.run("systemctl", "stop", "headgate")
    assert machine.property("headgate", "Result") == "success"
    assert "INFO stopped" in machine.log_of("headgate")


def test_a_reload_takes_the_new_configuration_within_the_same_process(machine: Machine) -> None:
    configure(machine, DEVICE, SIMULATED)
    before = start(machine)
    machine.write(CONFIGURATION, DEVICE + SIMULATED.replace("boiler", "furnace"))
    machine.run("systemctl", "reload", "headgate")
    assert "new configuration in use" in machine.log_of("headgate"), "the reload returns when it is done"
    machine.wait_until("sh", "-c", "journalctl --unit headgate | grep -q 'device=furnace'", what="it is read")
    assert machine.property("headgate", "MainPID") == before


def test_what_the_service_cannot_read_is_found_before_it_costs_the_gateway(machine: Machine) -> None:
    """A token that root made for itself: check, doctor and reload refuse it, and their advice repairs it."""
    configure(machine, DEVICE, SIMULATED)
    before = start(machine)
    machine.run("sh", "-c", "umask 077; openssl rand -hex 24 > /etc/headgate/page.token")
    machine.write(CONFIGURATION, DEVICE + SIMULATED + '[page]\ntoken_file = "page.token"\n')
    checked = machine.run("headgate", "check", check=False)
    assert checked.returncode == 78
    assert "/etc/headgate/page.token: the service's user headgate cannot read it" in checked.stderr
    assert "headgate cannot read it" in machine.run("headgate", "doctor", check=False).stdout
    assert machine.run("systemctl", "reload", "headgate", check=False).returncode != 0
    assert "page.token_file" in machine.log_of("headgate"), "the log says why"
    assert "configuration rejected" in machine.run("systemctl", "status", "headgate").stdout
    assert machine.property("headgate", "ActiveState") == "active"
    machine.run("sh", "-c", checked.stderr.strip().split("; ")[1])
    assert machine.run("headgate", "check").stdout.startswith(f"{CONFIGURATION}: OK")
    machine.run("systemctl", "reload", "headgate")
    assert "configuration rejected" not in machine.run("systemctl", "status", "headgate").stdout
    assert machine.property("headgate", "MainPID") == before
    machine.run("systemctl", "restart", "headgate")


def test_the_recipe_of_the_manual_makes_a_token_that_the_service_can_read(machine: Machine) -> None:
    manual = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    (recipe,) = re.findall(r"^    (openssl rand .*page\.token)$", manual, re.MULTILINE)
    configure(machine, DEVICE, SIMULATED, '[page]\nlisten = "0.0.0.0:7080"\ntoken_file = "page.token"\n')
    machine.run("rm", "--force", "/etc/headgate/page.token")
    machine.run("sh", "-c", recipe.replace("sudo ", ""))
    assert machine.run("headgate", "check").stdout.startswith(f"{CONFIGURATION}: OK")
    start(machine)


def test_a_process_that_stands_still_is_killed_and_the_next_goes_on_with_its_data(machine: Machine) -> None:
    configure(machine, DEVICE, SIMULATED)
    pid = start(machine)
    wait_for_more(machine)
    before, bites = lines(machine), machine.log_of("headgate").count("Watchdog timeout")
    machine.run("kill", "-STOP", pid)
    machine.wait_until("sh", "-c", RESTARTED, what="it is started again")
    machine.wait_until("systemctl", "is-active", "headgate", what="it is up again")
    wait_for_more(machine)
    machine.run("systemctl", "stop", "headgate")
    assert machine.log_of("headgate").count("Watchdog timeout") == bites + 1
    after = lines(machine)
    assert after[: len(before)] == before
    assert_whole([parse_stream_message(line.encode()) for line in dict.fromkeys(after)])


def test_a_process_whose_disk_does_not_answer_is_killed_though_it_is_alive(machine: Machine) -> None:
    """Only the journal is on the disk that is frozen: nothing but the pipeline stands still."""
    machine.run("sh", "-c", FROZEN_DISK)
    try:
        configure(machine, DEVICE.replace("[journal]", '[journal]\ndirectory = "/srv/disk/journal"'), SIMULATED)
        start(machine)
        bites = machine.log_of("headgate").count("Watchdog timeout")
        machine.run("fsfreeze", "--freeze", "/srv/disk")
        bitten = '[ "$(systemctl show -P SubState headgate)" != running ]'
        machine.wait_until("sh", "-c", bitten, what="the watchdog bites")
        assert machine.log_of("headgate").count("Watchdog timeout") == bites + 1
        machine.run("fsfreeze", "--unfreeze", "/srv/disk")
        machine.wait_until("sh", "-c", RESTARTED, what="it is started again")
        machine.wait_until("systemctl", "is-active", "headgate", what="it is up again")
        wait_for_more(machine)
    finally:
        machine.run("fsfreeze", "--unfreeze", "/srv/disk", check=False)
        machine.run("systemctl", "stop", "headgate")
        machine.run("umount", "/srv/disk")


def test_a_process_that_is_killed_comes_back(machine: Machine) -> None:
    configure(machine, DEVICE, SIMULATED)
    pid = start(machine)
    machine.run("kill", "-KILL", pid)
    machine.wait_until("sh", "-c", RESTARTED, what="it is started again")
    machine.wait_until("systemctl", "is-active", "headgate", what="it is up again")
    wait_for_more(machine)


def test_a_wrong_configuration_is_reported_once_and_not_tried_again(machine: Machine) -> None:
    configure(machine, DEVICE, SIMULATED)
    machine.write(CONFIGURATION, DEVICE + SIMULATED + "\n[jurnal]\n")
    assert machine.run("systemctl", "start", "headgate", check=False).returncode != 0
    assert machine.property("headgate", "ActiveState") == "failed"
    assert machine.property("headgate", "ExecMainStatus") == "78"
    assert machine.property("headgate", "NRestarts") == "0"
    assert "did you mean journal?" in machine.log_of("headgate")


def test_a_serial_port_of_the_configuration_can_be_read(machine: Machine, cable: PtyPort) -> None:
    machine.run("sh", "-c", "chgrp dialout /dev/ttyUSB7 && chmod 660 /dev/ttyUSB7")
    configure(machine, DEVICE, SERIAL)
    machine.run("systemctl", "start", "headgate")
    machine.wait_until("sh", "-c", "fuser --silent /dev/ttyUSB7", what="the port is open")
    cable.send(b"W=12.5\n")
    machine.wait_until("grep", "--quiet", "/scales.*weight", MESSAGES, what="the reading is published")


def test_nothing_but_what_the_configuration_names_can_be_opened_or_written(machine: Machine) -> None:
    """In a unit that is the agent's in all but its command; also where the kernel knows no such port yet."""
    configure(machine, DEVICE, SERIAL.replace("/dev/ttyUSB7", "/dev/ttyUSB9"))
    nodes = "mknod /dev/ttyUSB9 c 188 9; mknod /dev/ttyACM9 c 166 9; mknod /dev/kvm9 c 10 232"
    machine.run("sh", "-c", f"{nodes}; chown root:dialout /dev/*9; chmod 660 /dev/*9; install -d -m 777 /srv/open")
    unit = machine.read("/etc/systemd/system/headgate.service") + machine.read(DROP_IN)
    unit = unit.replace("Type=notify", "Type=oneshot").replace("Restart=always", "Restart=no")
    python = "/opt/headgate/current/bin/python /etc/headgate/probe.py"
    machine.write("/etc/headgate/probe.py", PROBE)
    machine.write("/etc/systemd/system/probe.service", re.sub("ExecStart=.*", f"ExecStart={python}", unit))
    machine.run("systemctl", "daemon-reload")
    machine.run("systemctl", "start", "probe")
    said = re.findall(r"python\[\d+\]: (.*)", machine.log_of("probe"))
    assert said[0] in ("ttyUSB9 No such device or address", "ttyUSB9 No such device"), "it is let through to the kernel"
    assert said[1:] == [
        "ttyACM9 Operation not permitted",
        "kvm9 Operation not permitted",
        "null opened",
        "/srv/open/written Read-only file system",
        "/var/lib/headgate/written written",
        "clock True",
    ]


def test_a_passphrase_comes_from_the_credential_store(machine: Machine) -> None:
    configure(machine, DEVICE, SIMULATED)
    machine.write("/etc/credstore/headgate.passphrase", "open sesame\n")
    machine.run("chmod", "-R", "go=", "/etc/credstore")
    keys = ("--keys", "/var/lib/headgate/keys/device.keys")
    new = ("--new-passphrase-file", "/etc/credstore/headgate.passphrase")
    machine.run("headgate", "keys", "change-passphrase", *keys, *new)
    assert "none" not in machine.run("headgate", "keys", "show", *keys).stdout
    start(machine)
    machine.run("systemctl", "stop", "headgate")


def test_the_rules_for_stable_names_are_ones_that_udev_understands(machine: Machine) -> None:
    done = machine.run("udevadm", "test", "/sys/class/tty/tty0", check=False)
    assert "70-headgate.rules" in done.stdout + done.stderr, "they are read"
    problems = [line for line in (done.stdout + done.stderr).splitlines() if re.search(r"70-headgate.rules:\d+", line)]
    assert problems == []


def test_a_backup_makes_a_new_machine_the_same_device_whose_service_starts(machine: Machine) -> None:
    configure(machine, DEVICE, SIMULATED, '[page]\nlisten = "127.0.0.1:0"\ntoken_file = "page.token"\n')
    machine.run("sh", "-c", "openssl rand -hex 24 | install -m 640 -g headgate /dev/stdin /etc/headgate/page.token")
    start(machine)
    wait_for_more(machine)
    machine.run("systemctl", "stop", "headgate")
    last = parse_stream_message(lines(machine)[-1].encode()).message_id
    machine.run("sh", "-c", "umask 077; echo open sesame > /root/passphrase")
    machine.run("headgate", "backup", "/root/device.backup", "--passphrase-file", "/root/passphrase")
    machine.run("sh", "-c", "rm -rf /var/lib/headgate /etc/headgate")
    machine.run("headgate", "restore", "/root/device.backup", "--passphrase-file", "/root/passphrase")
    owners = machine.run("stat", "--format=%U:%G %a", CONFIGURATION, "/etc/headgate/page.token", KEY_FILE).stdout
    assert owners.splitlines() == ["root:headgate 640", "root:headgate 640", "headgate:headgate 600"]
    assert machine.run("headgate", "check").stdout.startswith(f"{CONFIGURATION}: OK")
    start(machine)
    wait_for_more(machine)
    first = parse_stream_message(lines(machine)[0].encode()).message_id
    assert first.publisher_id == last.publisher_id
    assert first.timestamp > last.timestamp, "no reference is used again"


def test_a_collector_is_installed_and_starts_the_first_time(machine: Machine) -> None:
    """With keys of its own, which are made once."""
    done = machine.run(*INSTALLER, "/usr/lib/headgate/wheels", "--role", "collector", "--start")
    assert machine.property("headgate-collector", "ActiveState") == "active"
    public = json.loads(machine.read("/var/lib/headgate-collector/keys/public.json"))
    assert public["signing_key"] in done.stdout
    machine.run("systemctl", "restart", "headgate-collector")
    assert json.loads(machine.read("/var/lib/headgate-collector/keys/public.json")) == public
    machine.run("systemctl", "stop", "headgate-collector")
    assert machine.property("headgate-collector", "Result") == "success"
    machine.run("rm", "-r", "/var/lib/headgate-collector/keys")
    assert machine.run("systemctl", "start", "headgate-collector", check=False).returncode != 0, "lost, not new"
    machine.run(INSTALLER[0], "--uninstall", "--purge", "--role", "collector")


def test_another_role_brings_an_upgrade_for_all_and_the_data_stay(machine: Machine) -> None:
    configure(machine, DEVICE, SIMULATED)
    pid = start(machine)
    first, before = machine.run("readlink", "/opt/headgate/current").stdout, lines(machine)
    machine.run(*INSTALLER, "/usr/lib/headgate/wheels", "--role", "node", "--start")
    assert machine.run("readlink", "/opt/headgate/current").stdout != first
    assert machine.property("headgate", "ActiveState") == "active"
    assert machine.property("headgate", "MainPID") != pid
    assert machine.property("headgate-node", "ActiveState") == "active"
    wait_for_more(machine)
    assert lines(machine)[: len(before)] == before
    machine.run(INSTALLER[0], "--uninstall", "--purge", "--role", "node")
    assert machine.property("headgate", "ActiveState") == "active"
    assert machine.run("test", "-e", "/var/lib/private/headgate-node", check=False).returncode == 1


def test_a_version_that_does_not_start_is_replaced_by_the_previous_one(machine: Machine) -> None:
    configure(machine, DEVICE, SIMULATED)
    start(machine)
    good = machine.run("readlink", "/opt/headgate/current").stdout
    machine.run("cp", "-r", "/usr/lib/headgate/wheels", "/root/bad")
    (wheel,) = machine.run("sh", "-c", "cd /root/bad && ls headgate-*.whl").stdout.split()
    machine.run("python3", "-c", SPOIL, f"/usr/lib/headgate/wheels/{wheel}", f"/root/bad/{wheel}")
    done = machine.run(*INSTALLER, "/root/bad", check=False)
    assert done.returncode == 1
    assert "the previous version is restored" in done.stderr
    assert machine.run("readlink", "/opt/headgate/current").stdout == good
    machine.wait_until("systemctl", "is-active", "headgate", what="the good version is up")


def test_removal_keeps_data_and_keys_and_purging_does_not(machine: Machine) -> None:
    machine.run("dpkg", "--remove", "headgate")
    assert machine.run("systemctl", "cat", "headgate", check=False).returncode != 0
    assert machine.run("test", "-e", "/opt/headgate", check=False).returncode == 1
    assert machine.run("test", "-e", "/usr/local/bin/headgate", check=False).returncode == 1
    machine.run("test", "-s", "/var/lib/headgate/keys/device.keys")
    machine.run("dpkg", "--purge", "headgate")
    for gone in ("/var/lib/headgate", "/etc/headgate", "/usr/lib/headgate"):
        assert machine.run("test", "-e", gone, check=False).returncode == 1, gone

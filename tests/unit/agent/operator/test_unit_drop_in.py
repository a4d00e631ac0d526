from pathlib import Path

import pytest

from agent.cli import main
from agent.config.configuration import Config, load_config
from agent.errors import ConfigError
from agent.operator.unit_drop_in import compose_drop_in, device_groups

SERIAL = '[drivers.{name}]\ndriver = "serial_line"\nport = "{port}"\nformat = "raw"\nmime_type = "text/plain"\n'


def _config(folder: Path, text: str = "", device: str = "") -> Config:
    path = folder / "headgate.toml"
    path.write_text(f'[device]\nname = "bench"\n{device}\n{text}')
    return load_config(path)


def _settings(drop_in: str) -> list[str]:
    return [line for line in drop_in.splitlines() if line and not line.startswith("#")]


@pytest.mark.parametrize(
    ("port", "groups"),
    [
        ("/dev/ttyUSB0", ["char-188"]),
        ("/dev/ttyACM12", ["char-166"]),
        ("/dev/ttyS0", ["char-4"]),
        ("/dev/ttyAMA0", ["char-204"]),
        ("/dev/ttyTHS1", ["char-ttyTHS"]),
        ("/dev/serial0", ["char-204", "char-4"]),
        ("/dev/serial/by-id/usb-FTDI_FT232R_A10K5LZ7-if00-port0", ["char-188", "char-166"]),
        ("/dev/headgate/boiler", ["char-188", "char-166"]),
        ("usb:0403:6001:A10K5LZ7", ["char-188", "char-166"]),
        ("/dev/pts/3", ["char-pts"]),
        ("/dev/modbus", ["/dev/modbus"]),
        ("/dev/ttyACM*", ["char-166"]),
        ("/dev/tty[AU]*", ["char-166", "char-188", "char-204"]),
        ("/dev/serial/by-id/usb-Arduino*", ["char-188", "char-166"]),
    ],
)
def test_a_port_is_granted_by_its_kind_for_its_node_may_change(port: str, groups: list[str]) -> None:
    assert device_groups(port) == groups


def test_a_configuration_without_ports_and_other_paths_needs_nothing(tmp_path: Path) -> None:
    assert _settings(compose_drop_in(_config(tmp_path))) == ["[Service]"]


def test_two_ports_of_one_kind_are_granted_once(tmp_path: Path) -> None:
    ports = SERIAL.format(name="a", port="/dev/ttyUSB0") + SERIAL.format(name="b", port="/dev/ttyUSB1")
    assert _settings(compose_drop_in(_config(tmp_path, ports))) == [
        "[Service]",
        "PrivateDevices=no",
        "DevicePolicy=closed",
        "SupplementaryGroups=dialout",
        "DeviceAllow=char-188 rw",
    ]


def test_modbus_asks_for_its_port_and_a_device_behind_tcp_for_none(tmp_path: Path) -> None:
    modbus = '[drivers.m]\ndriver = "modbus"\nport = "{port}"\nregisters = [{{ quantity = "t", address = 1 }}]\n'
    assert "DeviceAllow=char-204 rw" in compose_drop_in(_config(tmp_path, modbus.format(port="/dev/ttyAMA0")))
    assert _settings(compose_drop_in(_config(tmp_path, modbus.format(port="tcp://plc:502")))) == ["[Service]"]


def test_paths_outside_the_state_directory_are_opened_and_those_within_are_not_named_twice(tmp_path: Path) -> None:
    text = (
        '[journal]\ndirectory = "/mnt/ssd/journal"\n[archive]\ndirectory = "/mnt/ssd/journal/archives"\n'
        '[ship]\ndirectory = "/media/usb stick/100%"\n'
        '[publishers.f]\nkind = "file"\npath = "/var/lib/headgate/out.jsonl"\n'
    )
    assert _settings(compose_drop_in(_config(tmp_path, text))) == [
        "[Service]",
        "ExecStartPre=+/usr/bin/install -d -o headgate -g headgate -m 0750 /mnt/ssd/journal",
        'ReadWritePaths="-/media/usb stick/100%%"',
        "ReadWritePaths=-/mnt/ssd/journal",
        "[Unit]",
        "RequiresMountsFor=/mnt/ssd/journal",
    ]


def test_a_path_cannot_add_a_setting_of_its_own(tmp_path: Path) -> None:
    text = '[ship]\ndirectory = "/media/a\\nUser=root"\n[archive]\n'
    drop_in = compose_drop_in(_config(tmp_path, text))
    assert "User=root" not in drop_in.splitlines()
    assert r'ReadWritePaths="-/media/a\nUser=root"' in drop_in.splitlines()


def test_paths_that_the_service_cannot_see_are_reported_all_at_once(tmp_path: Path) -> None:
    text = '[publishers.f]\nkind = "file"\npath = "/tmp/out.jsonl"\n'
    with pytest.raises(ConfigError) as caught:
        compose_drop_in(_config(tmp_path, text, 'data_directory = "/home/pi/data"'))
    assert "device.data_directory: /home/pi/data" in str(caught.value)
    assert "publishers.f.path: /tmp" in str(caught.value)


def test_the_command_prints_it_or_writes_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = _config(tmp_path, SERIAL.format(name="a", port="/dev/ttyUSB0"))
    assert main(["systemd", "--config", str(config.path)]) == 0
    printed = capsys.readouterr().out
    target = tmp_path / "headgate.service.d" / "headgate.conf"
    assert main(["systemd", "--config", str(config.path), "--write", str(target)]) == 0
    assert target.read_text() == printed
    assert "daemon-reload" in capsys.readouterr().err

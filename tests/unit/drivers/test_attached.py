"""`headgate devices` and `headgate probe`, as an operator meets them."""

import json
import tomllib
from pathlib import Path

import pytest

from agent.cli import main
from drivers import build_driver
from drivers.attached import attached_devices, changes
from tests.support.driver_samples import write_tree
from tests.unit.drivers.test_ports import built_in, plug_usb

LOAD = ["file=/proc/loadavg", "quantity=load", "interval_s=0.001"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    plug_usb(tmp_path, "ttyUSB0", "1-1", vendor="0403", product="6001", serial="A10K")
    plug_usb(tmp_path, "ttyUSB1", "1-2", vendor="1a86", product="7523")
    built_in(tmp_path, "ttyAMA0", "32")
    files = {
        "sys/bus/w1/devices/28-0316a279f1ff/temperature": "21437\n",
        "sys/bus/iio/devices/iio:device0/name": "bme280\n",
        "sys/bus/iio/devices/iio:device0/in_temp_input": "21340\n",
        "sys/bus/iio/devices/iio:device0/in_pressure_input": "101.3\n",
        "sys/class/hwmon/hwmon0/name": "cpu_thermal\n",
        "sys/class/hwmon/hwmon0/temp1_input": "48312\n",
    }
    write_tree(tmp_path, files)
    return tmp_path


def test_devices_lists_ports_with_identity_and_the_sensors_of_the_kernel(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["devices", "--root", str(root)]) == 0
    shown = capsys.readouterr().out
    by_id = "/dev/serial/by-id/usb-FTDI_FT232R_USB_UART_A10K-if00-port0"
    assert f"/dev/ttyUSB0  serial  {by_id}  USB 0403:6001  A10K  FTDI FT232R USB UART" in shown
    assert f'    port = "{by_id}"' in shown
    assert "28-0316a279f1ff  w1  temperature Cel" in shown
    assert "bme280  iio  pressure hPa, temperature Cel" in shown


def test_every_snippet_builds_a_driver(root: Path) -> None:
    devices = attached_devices(root)
    assert [device.kind for device in devices] == ["serial", "serial", "serial", "w1", "iio", "hwmon"]
    for device in devices:
        ((name, table),) = tomllib.loads(device.settings)["drivers"].items()
        assert build_driver(name, table).name == name


def test_devices_as_json_is_one_object_per_line(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["devices", "--json", "--root", str(root)]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {row["name"]: row["usb_serial"] for row in rows}["/dev/ttyUSB0"] == "A10K"


def test_a_bare_machine_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["devices", "--root", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "no attached devices found\n"


def test_watching_tells_what_was_pulled_and_plugged(root: Path) -> None:
    before = attached_devices(root)
    (root / "sys/bus/w1/devices/28-0316a279f1ff/temperature").unlink()
    plug_usb(root, "ttyUSB2", "1-3", vendor="10c4", product="ea60", serial="B")
    found = [(event, device.name) for event, device in changes(before, attached_devices(root))]
    assert found == [("pulled", "28-0316a279f1ff"), ("plugged", "/dev/ttyUSB2")]


def test_probe_shows_a_few_values(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["probe", "example", *LOAD, "--count", "3"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert all("example" in line and "load" in line for line in lines)


def test_probe_shows_bytes_cut_short_and_as_json_in_full(capsys: pytest.CaptureFixture[str]) -> None:
    blob = ["probe", "simulated", 'signals=[{kind="blob", quantity="photo", payload_bytes=100}]', "--count", "1"]
    assert main(blob) == 0
    assert "image/jpeg" in capsys.readouterr().out
    assert main([*blob, "--json"]) == 0
    row = json.loads(capsys.readouterr().out)
    assert (row["mime_type"], row["value"][:8]) == ("image/jpeg", "ffd8ffe0")


def test_probe_takes_a_table_of_a_configuration_and_changes_to_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "headgate.toml"
    config.write_text('[drivers.load]\ndriver = "example"\nfile = "/proc/loadavg"\nquantity = "load"\n')
    assert main(["probe", "--config", str(config), "load", "unit=%", "--count", "1"]) == 0
    assert capsys.readouterr().out.endswith(" %\n")


@pytest.mark.parametrize(
    ("arguments", "exit_code", "words"),
    [
        (["nmea"], 78, "nmea.port: missing"),
        (["nmae", "port=/dev/x"], 78, "did you mean nmea?"),
        (["nmea", "port=/dev/absent"], 69, "nmea: /dev/absent is absent; check that it is plugged in"),
        (["example", "file=/proc/loadavg", "quantity"], 78, "write KEY=VALUE"),
        (["example", "quantity.x=1", "quantity.x.y=1"], 78, "x is not a table"),
        (["--config", "/absent.toml", "x"], 66, "/absent.toml"),
        (["--config", "/proc/loadavg", "x"], 78, "/proc/loadavg: "),
        (["--config", "/dev/null", "x"], 78, "there is no table [drivers.x]"),
    ],
)
def test_a_problem_is_reported_with_its_exit_code(
    arguments: list[str], exit_code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["probe", *arguments]) == exit_code
    assert words in capsys.readouterr().err


def test_probe_of_a_silent_device_ends_in_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "fault").write_text("garbage")
    signals = 'signals=[{kind="walk", quantity="x"}]'
    command = ["probe", "simulated", signals, f"fault_file={tmp_path / 'fault'}", "rate_hz=1000", "--timeout", "0.3"]
    assert main(command) == 69
    assert "simulated: no reading within 0.3 s" in capsys.readouterr().err

"""What a configuration says as a whole: refused where it loses data, remarked upon where it is rarely meant."""

import json
import logging
from pathlib import Path

import pytest

from agent.cli import main
from agent.config.configuration import load_config
from agent.config.files import check_files, log_remarks, missing_files
from agent.config.review import warnings_of
from agent.errors import ConfigError

READER = "0x7f3c9b1de0a54c2e8fb1d2a3c4e5f60718293a4b"
BASE = """
[device]
name = "bench"
data_directory = "data"
[drivers.boiler]
driver = "system"
[publishers.out]
kind = "file"
path = "out.jsonl"
"""
ENCRYPTED = f"""
[[streams]]
stream = "{{address}}/secret"
encryption = "aes"
readers = ["{READER}"]
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "headgate.toml"
    path.write_text(BASE + text)
    return path


def warnings(folder: Path, text: str) -> list[str]:
    return warnings_of(load_config(written(folder, text)))


def refusal(folder: Path, text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load_config(written(folder, text))
    return str(caught.value)


def test_a_plain_configuration_has_no_remarks(tmp_path: Path) -> None:
    assert warnings(tmp_path, "") == []


def test_a_driver_whose_readings_match_no_rule_is_refused(tmp_path: Path) -> None:
    reported = refusal(tmp_path, '[[streams]]\nstream = "a"\ndriver = "boilr"\n')
    assert "streams: no rule matches readings of drivers.boiler: they would be dropped; add a rule with" in reported


def test_a_rule_for_a_driver_that_is_not_there_is_remarked_upon(tmp_path: Path) -> None:
    rules = '[[streams]]\nstream = "a"\ndriver = "boilr"\n[[streams]]\nstream = "b"\n'
    assert warnings(tmp_path, rules) == ["streams[0].driver: 'boilr' is not a configured driver; did you mean boiler?"]
    other = rules.replace("boilr", "turbine-*")
    assert warnings(tmp_path, other) == [
        "streams[0].driver: 'turbine-*' is not a configured driver; correct it, or remove the rule"
    ]


def test_a_rule_behind_one_that_matches_everything_gives_a_warning(tmp_path: Path) -> None:
    rules = '[[streams]]\nstream = "a"\n' + ENCRYPTED
    assert warnings(tmp_path, rules) == ["streams[1]: never used: streams[0] matches first; move this rule before it"]
    assert warnings(tmp_path, ENCRYPTED + '[[streams]]\nstream = "a"\nquantity = "x"\n') != []
    assert warnings(tmp_path, '[[streams]]\nstream = "a"\nquantity = "x"\n' + ENCRYPTED) == []


def test_encrypted_streams_and_bare_iomessages_are_refused_together(tmp_path: Path) -> None:
    broker = '[publishers.broker]\nkind = "mqtt"\nhost = "h"\npayload = "io_message"\n'
    reported = refusal(tmp_path, broker + ENCRYPTED)
    assert "publishers.broker.payload: io_message cannot carry encrypted messages (streams[0])" in reported
    assert warnings(tmp_path, broker) == []
    assert warnings(tmp_path, broker.replace("io_message", "stream_message") + ENCRYPTED) == []


def test_contradictions_are_reported_with_other_problems(tmp_path: Path) -> None:
    reported = refusal(tmp_path, '[publishers.x]\nkind = "zzz"\n[[streams]]\nstream = "a"\ndriver = "b"\n')
    assert "publishers.x.kind: " in reported
    assert "streams: no rule matches readings of drivers.boiler" in reported


def test_an_encrypted_stream_without_readers_gives_a_warning(tmp_path: Path) -> None:
    text = ENCRYPTED.replace(f'readers = ["{READER}"]', "")
    assert warnings(tmp_path, text) == [
        "streams[0].readers: empty: no other device can decrypt the stream; list addresses"
    ]


def test_units_that_are_not_ucum_are_remarked_upon_wherever_they_stand(tmp_path: Path) -> None:
    text = """
[drivers.meter]
driver = "modbus"
port = "tcp://10.0.0.5:502"
registers = [{quantity = "a", address = 0, unit = "V"}, {quantity = "b", address = 1, unit = "kWh"}]
[drivers.line]
driver = "serial_line"
port = "/dev/ttyS0"
format = "json"
quantities = {t = {unit = "°C"}}
"""
    first, second = warnings(tmp_path, text)
    assert first.startswith("drivers.meter.registers[1].unit: 'kWh' is not UCUM: ")
    assert second == ("drivers.line.quantities.t.unit: '°C' is not UCUM: '°C' is not allowed there; did you mean Cel?")


def test_readings_that_nothing_carries_away_are_remarked_upon(tmp_path: Path) -> None:
    path = tmp_path / "headgate.toml"
    path.write_text('[device]\nname = "x"\n')
    assert [remark.partition(":")[0] for remark in warnings_of(load_config(path))] == ["publishers"]


def test_a_stick_that_is_required_and_not_mounted_is_remarked_upon(tmp_path: Path) -> None:
    ship = f'[archive]\n[ship]\ndirectory = "{tmp_path}/stick"\nrequire_mount = '
    [warning] = warnings(tmp_path, ship + "true\n")
    assert warning.startswith(f"ship.directory: {tmp_path}/stick: no file system is mounted there")
    assert warnings(tmp_path, ship + "false\n") == []


def test_files_of_links_and_drivers_that_are_missing_are_named_with_their_settings(tmp_path: Path) -> None:
    text = """
[publishers.node]
kind = "websocket"
url = "wss://node.example"
ca_file = "node-ca.pem"
[publishers.broker]
kind = "mqtt"
host = "h"
username = "u"
password_file = "password"
tls = "on"
ca_file = "there.pem"
[drivers.source]
driver = "mqtt"
host = "h"
username = "u"
password_file = "."
presets = ["tasmota"]
[archive]
[ship]
url = "https://h:1"
collector_key = "collector.pub"
ca_file = "ship-ca.pem"
"""
    config = load_config(written(tmp_path, text))
    (tmp_path / "there.pem").touch()
    missing = missing_files(config)
    assert [line.partition(":")[0] for line in missing] == [
        "ship.ca_file", "publishers.node.ca_file", "publishers.broker.password_file", "drivers.source.password_file",
    ]  # fmt: skip
    assert missing[1].endswith("node-ca.pem: no such file; create it, or correct the path")
    assert missing[3].endswith(": not a file; create it, or correct the path")
    (tmp_path / "password").write_text("geheim")
    (tmp_path / "password").chmod(0o644)
    assert "password: others can read or change it (mode 0644); chmod 600 it" in missing_files(config)[2]
    (tmp_path / "password").chmod(0o600)
    assert len(missing_files(config)) == 3
    with pytest.raises(ConfigError, match=r"publishers\.node\.ca_file"):
        check_files(config)
    with pytest.raises(ConfigError) as caught:
        check_files(config, with_links=False)
    assert "ca_file" not in str(caught.value)


NODE = '[publishers.node]\nkind = "http"\nurl = "https://node.example"\nca_file = "ca.pem"\n'
METER = """
[drivers.meter]
driver = "modbus"
port = "/dev/x"
registers = [{quantity = "a", address = 0, unit = "kWh"}]
"""


@pytest.fixture
def doubtful(tmp_path: Path) -> Path:
    """A configuration that is good, but for a unit."""
    path = tmp_path / "headgate.toml"
    assert main(["init", "--config", str(path), "--data", str(tmp_path / "data"), "--non-interactive"]) == 0
    path.write_text(path.read_text() + METER)
    return path


def test_check_shows_warnings_and_is_content(doubtful: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["check", "--config", str(doubtful)]) == 0
    out, err = capsys.readouterr()
    assert "OK; " in out
    assert "headgate: warning: drivers.meter.registers[0].unit: 'kWh' is not UCUM" in err
    assert main(["check", "--json", "--config", str(doubtful)]) == 0
    assert len(json.loads(capsys.readouterr().out)["warnings"]) == 1


def test_check_refuses_where_the_file_of_a_link_is_missing(doubtful: Path, capsys: pytest.CaptureFixture[str]) -> None:
    doubtful.write_text(doubtful.read_text() + NODE)
    assert main(["check", "--config", str(doubtful)]) == 78
    assert "publishers.node.ca_file: " in capsys.readouterr().err


def test_run_logs_problems_that_do_not_stop_it(doubtful: Path, caplog: pytest.LogCaptureFixture) -> None:
    doubtful.write_text(doubtful.read_text() + NODE)
    log_remarks(load_config(doubtful))
    found = {(record.levelno, record.getMessage().split("; ")[1].partition(":")[0]) for record in caplog.records}
    assert found == {(logging.ERROR, "publishers.node.ca_file"), (logging.WARNING, "drivers.meter.registers[0].unit")}


def test_doctor_shows_warnings_and_missing_files(doubtful: Path, capsys: pytest.CaptureFixture[str]) -> None:
    doubtful.write_text(doubtful.read_text() + NODE)
    main(["doctor", "--config", str(doubtful)])
    shown = capsys.readouterr().out
    assert "'kWh' is not UCUM" in shown
    assert "ca.pem: no such file" in shown

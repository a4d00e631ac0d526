import json
from pathlib import Path

import pytest

from agent.cli import main
from agent.errors import ExitCode
from ingest.collector.cli import DEFAULT_STATE, find_state
from protocol.ethereum import checksum_address
from tests.support.archives import BINDING

ADDRESS = checksum_address(BINDING.address)


def collector(tmp_path: Path, *arguments: str) -> int:
    return main(["collector", *arguments, "--state", str(tmp_path / "state")])


def devices(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    capsys.readouterr()
    assert collector(tmp_path, "devices", "--json") == ExitCode.OK
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_keys_are_made_once_and_shown_without_their_secrets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert collector(tmp_path, "keys", "init") == ExitCode.OK
    first = capsys.readouterr().out
    assert collector(tmp_path, "keys", "init") == ExitCode.BAD_CONFIG
    assert "were not changed" in capsys.readouterr().err
    assert collector(tmp_path, "keys", "show") == ExitCode.OK
    assert capsys.readouterr().out == first
    assert collector(tmp_path, "keys", "show", "--json") == ExitCode.OK
    shown = capsys.readouterr().out
    assert set(json.loads(shown)) == {"signing_key", "encryption_key"}
    for name in ("signing.key", "decryption.key"):
        assert (tmp_path / "state" / "keys" / name).read_bytes()[9:41].hex() not in first + shown


def test_a_device_is_enrolled_by_its_address_and_revoked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert collector(tmp_path, "enrol", ADDRESS.lower(), "--label", "boiler house") == ExitCode.OK
    assert capsys.readouterr().out == f"{ADDRESS}  enrolled  key not known yet  boiler house\n"
    assert collector(tmp_path, "revoke", ADDRESS) == ExitCode.OK
    assert "revoked" in capsys.readouterr().out
    (device,) = devices(tmp_path, capsys)
    assert (device["device"], device["label"]) == (ADDRESS, "boiler house")
    assert device["revoked_at_ms"] is not None


def test_a_device_is_enrolled_with_its_key_by_what_it_exported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "device").mkdir(mode=0o700)
    keys, public = str(tmp_path / "device" / "device.keys"), str(tmp_path / "boiler.json")
    assert main(["keys", "init", "--keys", keys]) == ExitCode.OK
    assert main(["keys", "export-public", "--keys", keys, "--out", public]) == ExitCode.OK
    assert collector(tmp_path, "enrol", public) == ExitCode.OK
    exported = json.loads(Path(public).read_text())
    (device,) = devices(tmp_path, capsys)
    assert (device["device"], device["archive_key"]) == (exported["device"], exported["archive_key"])


def test_a_device_enrolled_by_its_address_is_confirmed_by_the_key_that_the_device_shows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key = "ab" * 32
    assert collector(tmp_path, "enrol", ADDRESS) == ExitCode.OK
    assert "uploads are refused until the key that it offers is confirmed" in capsys.readouterr().err
    assert collector(tmp_path, "confirm", ADDRESS, key) == ExitCode.OK
    assert capsys.readouterr().out == f"{ADDRESS}  enrolled  key abababababababab…\n"
    (device,) = devices(tmp_path, capsys)
    assert (device["archive_key"], device["offered_key"]) == (key, None)
    assert collector(tmp_path, "confirm", ADDRESS, "cd" * 32) == ExitCode.BAD_CONFIG
    assert collector(tmp_path, "enrol", ADDRESS, "--archive-key", "cd" * 32) == ExitCode.OK
    (device,) = devices(tmp_path, capsys)
    assert device["archive_key"] == "cd" * 32


@pytest.mark.parametrize(
    ("arguments", "exit_code"),
    [
        (["confirm", ADDRESS, "ab" * 32], ExitCode.BAD_CONFIG),
        (["enrol", ADDRESS, "--archive-key", "ab"], ExitCode.BAD_CONFIG),
        (["enrol", "boiler.json", "--archive-key", "ab" * 32], ExitCode.BAD_CONFIG),
        (["enrol", "0x12"], ExitCode.BAD_CONFIG),
        (["enrol", "no-such-file.json"], ExitCode.NO_INPUT),
        (["enrol", ADDRESS, "--label", "two\nlines"], ExitCode.BAD_CONFIG),
        (["revoke", ADDRESS], ExitCode.BAD_CONFIG),
        (["keys", "show"], ExitCode.BAD_CONFIG),
    ],
)
def test_an_invalid_command_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], exit_code: ExitCode
) -> None:
    assert collector(tmp_path, *arguments) == exit_code
    assert capsys.readouterr().err.startswith("headgate: ")


def test_the_state_is_where_the_operator_or_the_service_manager_says() -> None:
    assert find_state({}) == DEFAULT_STATE
    assert find_state({"STATE_DIRECTORY": "/var/lib/x"}) == Path("/var/lib/x")
    assert find_state({"STATE_DIRECTORY": "/var/lib/x", "HEADGATE_COLLECTOR_STATE": "/y"}) == Path("/y")

"""Whatever an operator types: one clear line and the right exit code, never a traceback."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent.cli import main
from agent.errors import ExitCode

CONFIGURATION = """
[device]
name = "bench"
data_directory = "data"
[drivers.boiler]
driver = "simulated"
rate_hz = 50
signals = [{ quantity = "temperature", kind = "walk" }]
"""


@pytest.mark.parametrize(
    ("arguments", "exit_code"),
    [
        (["archive", "cat", "folder"], ExitCode.NO_INPUT),
        (["archive", "export", "folder"], ExitCode.NO_INPUT),
        (["archive", "list", "pipe"], ExitCode.IO_ERROR),
        (["archive", "verify", "pipe"], ExitCode.IO_ERROR),
        (["capacity", "--journal", "folder"], ExitCode.NO_INPUT),
        (["firmware", "keygen", ""], ExitCode.BAD_CONFIG),
        (["firmware", "list", "--port", "tcp://nowhere"], ExitCode.USAGE),
        (["firmware", "list", "--port", "tcp://a..b:5"], ExitCode.USAGE),
        (["probe", "nmea", "port=tcp://a..b:5"], ExitCode.BAD_CONFIG),
        (["probe", "modbus", "port=tcp://[::1]:99999", 'registers=[{quantity="p",address=0}]'], ExitCode.BAD_CONFIG),
        (["init", "--config", "new.toml", "--data", "\udcff", "--non-interactive"], ExitCode.BAD_CONFIG),
        (["journal", "repair", "folder"], ExitCode.NO_INPUT),
        (["keys", "import", "folder"], ExitCode.IO_ERROR),
        (["probe", "--config", "large", "boiler"], ExitCode.BAD_CONFIG),
        (["probe", "--config", "nested.toml", "boiler"], ExitCode.BAD_CONFIG),
        (["probe", "--config", "number.toml", "boiler"], ExitCode.BAD_CONFIG),
        (["probe", "serial_line", "port=/dev/x", "format=regex", "pattern=(?P<a>x){99999999999}"], ExitCode.BAD_CONFIG),
        (["probe", "simulated", "signals=" + "[" * 5000], ExitCode.BAD_CONFIG),
        (["subscribe", "stream", "--node", "http://a..b:80"], ExitCode.USAGE),
        (["tap", "--config", "headgate.toml", "--count", "9" * 30], ExitCode.USAGE),
    ],
    ids=lambda each: " ".join(each)[:40] if isinstance(each, list) else "",
)
def test_what_makes_no_sense_is_reported_in_a_line(
    arguments: list[str],
    exit_code: ExitCode,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "headgate.toml").write_text(CONFIGURATION)
    (tmp_path / "large").write_bytes(bytes(2 << 20))
    (tmp_path / "nested.toml").write_text("a = " + "[" * 5000)
    (tmp_path / "number.toml").write_text("drivers = 3")
    try:
        assert main(arguments) == exit_code
    except SystemExit as ended:
        assert ended.code == exit_code  # noqa: PT017 - argparse ends in one way, commands in another
    reported = capsys.readouterr().err
    assert "Traceback" not in reported
    assert bool(reported) == (exit_code != ExitCode.OK)
    assert list((tmp_path / "folder").iterdir()) == []


def test_a_folder_where_a_private_file_is_wanted_is_called_by_its_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["keys", "import", str(tmp_path)]) == ExitCode.IO_ERROR
    assert str(tmp_path) in capsys.readouterr().err


def test_what_a_device_says_is_shown_and_not_obeyed(capsys: pytest.CaptureFixture[str]) -> None:
    signal = '{quantity="text\\u001b[2J", kind="walk"}'
    assert main(["probe", "simulated", f"signals=[{signal}]", "--count", "1"]) == ExitCode.OK
    assert "text\\x1b[2J" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["capacity", "--rate", "1"], ["run", "--dry-run", "--seconds", "0.5"]])
def test_a_closed_stdout_is_no_fault(tmp_path: Path, arguments: list[str]) -> None:
    done = _headgate(tmp_path, arguments, ">&-")
    assert done.returncode == ExitCode.OK
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("arguments", [["capacity", "--rate", "1"], ["run", "--dry-run", "--seconds", "9"]])
def test_a_disk_that_refuses_output_is_reported(tmp_path: Path, arguments: list[str]) -> None:
    done = _headgate(tmp_path, arguments, ">/dev/full")
    assert done.returncode == ExitCode.IO_ERROR
    assert b"No space left on device" in done.stderr
    assert b"Traceback" not in done.stderr


def test_names_that_are_no_text_can_be_shown(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"\xff.hga")).write_bytes(b"no archive")
    done = _headgate(tmp_path, ["archive", "list", "."], "")
    assert done.returncode == ExitCode.BAD_DATA
    assert b"Traceback" not in done.stderr


def _headgate(folder: Path, arguments: list[str], redirection: str) -> "subprocess.CompletedProcess[bytes]":
    config = folder / "headgate.toml"
    config.write_text(CONFIGURATION)
    script = f'exec "$0" -m agent "$@" {redirection}'
    environment = {**os.environ, "HEADGATE_CONFIG": str(config), "PYTHONPATH": str(Path.cwd())}
    return subprocess.run(
        ["sh", "-c", script, sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, check=False
    )

import subprocess
import sys
from pathlib import Path

import pytest

from agent import cli
from agent.errors import ExitCode
from protocol.errors import Corrupt
from tests.support.iomessage_samples import message

HEAVY = {
    "orjson",
    "defusedxml",
    "asyncio",
    "protocol.iomessage",
    "coincurve",
    "nacl",
    "cryptography",
    "eth_keys",
    "pyspark",
}


def headgate(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([sys.executable, "-m", "agent", *arguments], capture_output=True, text=True, check=False)


def test_help_lists_every_command_and_loads_nothing_heavy() -> None:
    script = (
        "import sys; from agent.cli import main\ntry: main(['--help'])\nfinally: print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == ExitCode.OK
    for name, command in cli.COMMANDS.items():
        assert f"{name:<12}{command.summary}" in done.stdout
    assert HEAVY.isdisjoint(done.stderr.split())


def test_version_is_printed() -> None:
    done = headgate("--version")
    assert done.stdout.startswith("headgate 0.")
    assert done.returncode == ExitCode.OK


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_command_explains_itself(name: str) -> None:
    done = headgate(name, "--help")
    assert done.returncode == ExitCode.OK
    assert f"usage: headgate {name}" in done.stdout


def test_every_action_of_a_command_says_what_it_does() -> None:
    done = headgate("collector", "keys", "init", "--help")
    assert "\n\nCreate new keys; existing keys are never replaced.\n\n" in done.stdout


def test_an_unknown_command_is_a_usage_error_with_a_hint() -> None:
    done = headgate("mesage")
    assert done.returncode == ExitCode.USAGE
    assert "unknown command 'mesage'; did you mean message?" in done.stderr


def test_no_command_is_a_usage_error() -> None:
    done = headgate()
    assert done.returncode == ExitCode.USAGE
    assert "no command given" in done.stderr


@pytest.mark.parametrize(
    ("error", "exit_code", "text"),
    [
        (Corrupt("bad bytes", offset=7), ExitCode.BAD_DATA, "headgate: bad bytes (at byte 7)"),
        (
            FileNotFoundError(2, "No such file or directory", "x.bin"),
            ExitCode.NO_INPUT,
            "headgate: x.bin: No such file",
        ),
        (
            PermissionError(13, "Permission denied", "x.bin"),
            ExitCode.NO_PERMISSION,
            "headgate: x.bin: Permission denied",
        ),
        (OSError(28, "No space left on device"), ExitCode.IO_ERROR, "headgate: No space left on device"),
        (KeyboardInterrupt(), ExitCode.INTERRUPTED, ""),
        (ZeroDivisionError("oops"), ExitCode.BUG, "ZeroDivisionError: oops"),
    ],
)
def test_each_error_has_its_exit_code_and_text(
    error: BaseException, exit_code: int, text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_argv: list[str]) -> int:
        raise error

    monkeypatch.setattr(cli, "_dispatch", fail)
    assert cli.main([]) == exit_code
    assert text in capsys.readouterr().err


@pytest.mark.parametrize(
    ("module", "missing", "extra"),
    [
        ("no_such_room.cli", "no_such_room", "node,ingest"),
        ("ingest.no_such_part", "ingest.no_such_part", "ingest"),
        ("node.no_such_part", "node.no_such_part", "node"),
    ],
)
def test_a_command_that_needs_more_than_is_installed_says_what_to_install(
    module: str, missing: str, extra: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(cli.COMMANDS, "lacking", cli.Command(module, "is not here"))
    assert cli.main(["lacking"]) == ExitCode.BAD_CONFIG
    assert f"{missing} is not installed; pip install 'headgate[{extra}]'" in capsys.readouterr().err


def test_a_reader_that_goes_away_is_no_traceback(tmp_path: Path) -> None:
    many = tmp_path / "many.bin"
    many.write_bytes(message().to_bytes() * 2000)
    script = f"{sys.executable} -m agent message decode {many} | head -n 1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == ExitCode.IO_ERROR
    assert done.stderr == ""

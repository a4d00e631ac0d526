"""`headgate init`, `check` and `status`, as an operator meets them."""

import json
import os
import re
import time
from pathlib import Path
from typing import Any

import pytest

from agent.cli import main
from agent.operator.commands.init import serial_ports


def _init(folder: Path, *more: str) -> Path:
    path = folder / "etc" / "headgate.toml"
    arguments = ["init", "--config", str(path), "--data", str(folder / "data"), "--name", "bench", "--non-interactive"]
    assert main([*arguments, *more]) == 0
    return path


@pytest.mark.parametrize(
    "more", [[], ["--simulated"], ["--node", "ws://127.0.0.1:1"], ["--node", "https://node.example"]]
)
def test_what_init_writes_passes_check(tmp_path: Path, capsys: pytest.CaptureFixture[str], more: list[str]) -> None:
    path = _init(tmp_path, *more)
    assert main(["check", "--config", str(path), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert answer["device"].startswith("0x")
    assert (tmp_path / "data" / "keys" / "device.keys").stat().st_mode & 0o777 == 0o600
    assert not (tmp_path / "data" / "journal").exists(), "nothing is opened"


def test_init_replaces_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = _init(tmp_path)
    before = path.read_bytes()
    assert main(["init", "--config", str(path), "--data", str(tmp_path / "data"), "--name", "other"]) == 78
    assert path.read_bytes() == before
    assert "already exists and was not changed" in capsys.readouterr().err


def test_init_keeps_keys_that_are_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = _init(tmp_path)
    first = capsys.readouterr().out
    path.unlink()
    _init(tmp_path)
    assert capsys.readouterr().out == first


def test_a_name_that_cannot_be_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "headgate.toml"
    assert main(["init", "--config", str(path), "--data", str(tmp_path / "data"), "--name", "a b"]) == 78
    assert not path.exists()


def test_check_tells_of_missing_keys_and_wrong_settings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = _init(tmp_path)
    (tmp_path / "data" / "keys" / "device.keys").unlink()
    assert main(["check", "--config", str(path)]) == 78
    reported = capsys.readouterr().err
    assert f"{path}: 1 problem\n" in reported
    assert f"device.key_file: {tmp_path / 'data' / 'keys' / 'device.keys'}: no keys" in reported
    path.write_text(path.read_text() + "\n[jurnal]\n")
    assert main(["run", "--config", str(path)]) == 78
    assert "did you mean journal?" in capsys.readouterr().err


NODE = '[publishers.node]\nkind = "http"\nurl = "https://node.example"\nca_file = "ca.pem"\n'
SETTINGS = "[jurnal]\n[log]\nlevel = 3\n[publishers.other]\nkind = 1\n"


def test_check_lists_the_problems_of_settings_and_of_files_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = _init(tmp_path)
    (tmp_path / "data" / "keys" / "device.keys").unlink()
    path.write_text(path.read_text().replace("[log]", "") + NODE + SETTINGS)
    capsys.readouterr()
    assert main(["check", "--json", "--config", str(path)]) == 78
    out, err = capsys.readouterr()
    answer = json.loads(out)
    assert answer["configuration"] == str(path)
    assert {problem.partition(":")[0] for problem in answer["problems"]} == {
        "jurnal", "log.level", "publishers.other.kind", "publishers.node.ca_file", "device.key_file",
    }  # fmt: skip
    assert err == "\n  ".join([f"headgate: {path}: 5 problems", *answer["problems"]]) + "\n"


@pytest.mark.parametrize("text", ["[", '[device]\nname = "a b"\n', None])
def test_check_prints_json_also_for_a_file_that_it_cannot_use(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str | None
) -> None:
    path = tmp_path / "headgate.toml"
    if text is not None:
        path.write_text(text)
    assert main(["check", "--json", "--config", str(path)]) == (66 if text is None else 78)
    out, err = capsys.readouterr()
    assert len(json.loads(out)["problems"]) == 1
    assert json.loads(out)["problems"][0] in err


def test_serial_ports_are_offered_by_their_identity(tmp_path: Path) -> None:
    (tmp_path / "usb-Arduino-if00").touch()
    assert serial_ports(tmp_path) == [tmp_path / "usb-Arduino-if00"]
    assert serial_ports(tmp_path / "nowhere") == []


STATUS: dict[str, Any] = {
    "version": 1,
    "pid": os.getpid(),
    "device": {"name": "bench", "address": "0xAb"},
    "started_at_ms": 1,
    "is_making_progress": True,
    "readings": 12,
    "messages": 5,
    "refused_readings": 0,
    "unrouted_readings": 0,
    "storage_problem": "",
    "clock": {"is_synchronised": True, "max_error_ms": 250},
    "devices": {
        "boiler": {
            "state": "up",
            "reason": "",
            "readings": 12,
            "last": {"sensor": "s", "quantity": "temperature", "value": 20.5, "unit": "Cel", "taken_at_ms": 1},
        }
    },
    "journal": {"bytes_on_disk": 1, "max_bytes": 100, "shed_readings": 0, "damaged_readings": 0, "pending": {"out": 3}},
    "links": {
        "out": {
            "is_up": False,
            "problem": "refused",
            "readings_acknowledged": 9,
            "messages_acknowledged": 4,
            "readings_quarantined": 0,
            "messages_removed": 3,
            "blocked": "",
        }
    },
    "archives": {"pending": 2, "shipped": 1, "problem": "", "ship_problem": ""},
}


def test_status_fits_one_screen_and_names_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = _init(tmp_path)
    status = {**STATUS, "written_at_ms": time.time_ns() // 1_000_000}
    (tmp_path / "data" / "status.json").write_text(json.dumps(status))
    capsys.readouterr()
    assert main(["status", "--config", str(path)]) == 0
    screen = capsys.readouterr().out
    assert "running" in screen
    assert "out: DOWN, 9 readings acknowledged, in 4 messages, 0 readings quarantined, 3 messages removed at" in screen
    assert "readings     12 in 5 messages; refused 0, unrouted 0" in screen
    assert "pending      out: 3 readings" in screen
    assert "boiler: up, 12 readings, last temperature 20.5 Cel" in screen
    assert len(screen.splitlines()) < 24


@pytest.mark.parametrize("asked", ["builtins.input", "getpass.getpass"])
def test_a_prompt_that_is_cancelled_prints_nothing_and_leaves_nothing(
    tmp_path: Path, asked: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def end(_: str) -> str:
        raise EOFError

    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr(asked, end)
    name = [] if asked == "builtins.input" else ["--name", "bench", "--with-passphrase"]
    assert main(["init", "--config", str(tmp_path / "headgate.toml"), "--data", str(tmp_path / "data"), *name]) == 130
    assert capsys.readouterr().err == ""
    assert not (tmp_path / "headgate.toml").exists()


def test_an_init_that_cannot_make_keys_leaves_nothing_in_the_way_of_the_next(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    path = tmp_path / "headgate.toml"
    command = ["init", "--config", str(path), "--name", "bench", "--non-interactive", "--data"]
    assert main([*command, str(tmp_path / "file" / "data")]) == 74
    assert not path.exists()
    assert main([*command, str(tmp_path / "data")]) == 0


def test_what_a_device_says_is_shown_and_not_obeyed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = _init(tmp_path)
    spoken = {"state": "up", "reason": "", "readings": 1, "last": {"quantity": "text", "value": "\x1b[2J", "unit": ""}}
    (tmp_path / "data" / "status.json").write_text(
        json.dumps({**STATUS, "written_at_ms": 1, "devices": {"door": spoken}})
    )
    capsys.readouterr()
    main(["status", "--config", str(path)])
    assert "last text \\x1b[2J" in capsys.readouterr().out


def test_an_old_status_is_an_agent_that_does_not_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = _init(tmp_path)
    (tmp_path / "data" / "status.json").write_text(json.dumps({**STATUS, "written_at_ms": 1}))
    assert main(["status", "--config", str(path)]) == 1
    assert "NOT RUNNING" in capsys.readouterr().out


def test_after_a_regular_stop_links_are_closed_and_not_down(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = _init(tmp_path)
    stopped = {**STATUS, "written_at_ms": 1, "links": {"out": {**STATUS["links"]["out"], "problem": ""}}}
    (tmp_path / "data" / "status.json").write_text(json.dumps(stopped))
    assert main(["status", "--config", str(path)]) == 1
    screen = capsys.readouterr().out
    assert "out: closed, 9 readings acknowledged" in screen
    assert "boiler: was up, 12 readings" in screen


def test_a_clock_that_is_not_synchronised_is_on_the_screen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = _init(tmp_path)
    for is_synchronised in (True, False):
        clock = {"is_synchronised": is_synchronised, "max_error_ms": 0}
        status = {**STATUS, "written_at_ms": time.time_ns() // 1_000_000, "clock": clock}
        (tmp_path / "data" / "status.json").write_text(json.dumps(status))
        main(["status", "--config", str(path)])
        assert ("NOT SYNCHRONISED" in capsys.readouterr().out) is not is_synchronised


def test_a_status_that_is_none_is_refused(tmp_path: Path) -> None:
    path = _init(tmp_path)
    assert main(["status", "--config", str(path)]) == 66
    for garbage in ("[]", "", "{", 100_000 * "["):
        (tmp_path / "data" / "status.json").write_text(garbage)
        assert main(["status", "--config", str(path)]) == 78


@pytest.mark.parametrize("command", ["check", "run", "status", "top", "tap", "capacity", "rekey", "systemd"])
def test_without_a_configuration_the_way_to_one_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    assert main([command, "--config", str(tmp_path / "headgate.toml")]) == 66
    reported = capsys.readouterr().err
    assert reported.startswith(
        f"headgate: {tmp_path / 'headgate.toml'}: no configuration file; create one with 'headgate init'"
    )


@pytest.mark.parametrize("command", ["status", "top", "tap", "capacity"])
def test_an_agent_that_never_ran_is_reported_as_that(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    path = _init(tmp_path)
    assert main([command, "--config", str(path)]) == 66
    assert re.search("the agent (has not run yet|creates it when it first runs)", capsys.readouterr().err)


def test_a_folder_that_is_no_journal_is_not_taken_for_an_empty_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "notes.txt").touch()
    for action in ("stat", "verify", "repair", "export", "tail"):
        assert main(["journal", action, str(tmp_path)]) == 66
        assert f"{tmp_path}: there is no journal" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"], "looking made nothing"


def test_the_first_boot_makes_what_is_missing_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, data = tmp_path / "headgate.toml", tmp_path / "data"
    command = ["init", "--missing", "--non-interactive", "--config", str(path), "--data", str(data)]
    assert main(command) == 0
    first = (data / "keys" / "device.keys").read_bytes()
    assert main(command) == 0
    assert (data / "keys" / "device.keys").read_bytes() == first
    (data / "keys" / "device.keys").unlink()
    assert main(command) == 0, "the configuration came with the image, the keys did not"
    assert (data / "keys" / "device.keys").read_bytes() != first
    assert main(["check", "--config", str(path)]) == 0


@pytest.mark.parametrize("has_config", [True, False])
def test_a_device_that_lost_its_keys_does_not_become_another(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], has_config: bool
) -> None:
    path, data = tmp_path / "headgate.toml", tmp_path / "data"
    command = ["init", "--missing", "--non-interactive", "--config", str(path), "--data", str(data)]
    assert main(command) == 0
    (data / "keys" / "device.keys").unlink()
    (data / "journal").mkdir()
    if not has_config:
        path.unlink()
    assert main(command) == 78
    assert "a device ran here before" in capsys.readouterr().err
    assert not (data / "keys" / "device.keys").exists()

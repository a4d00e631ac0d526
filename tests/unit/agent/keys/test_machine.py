import json
from pathlib import Path

import pytest

from agent.cli import main
from agent.errors import ConfigError
from agent.keys.machine import (
    BOARD_SERIAL,
    MACHINE_ID,
    Machine,
    adopt_keys,
    check_machine,
    free_keys,
    machine_of_keys,
    this_machine,
)

PI = "10000000a1b2c3d4\0"
ID = "0123456789abcdef0123456789abcdef\n"


def machine(root: Path, *, serial: str = "", machine_id: str = "") -> Machine:
    for path, text in ((root / BOARD_SERIAL, serial), (root / MACHINE_ID, machine_id)):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return this_machine(root)


def test_a_machine_is_known_by_its_board_or_else_by_its_system(tmp_path: Path) -> None:
    pi = machine(tmp_path, serial=PI, machine_id=ID)
    assert pi.is_same(machine(tmp_path, serial=PI, machine_id=ID.replace("0", "f"))), "its system was installed anew"
    assert not pi.is_same(machine(tmp_path, serial=PI.replace("a1", "a2"), machine_id=ID)), "its card was copied"
    pc = machine(tmp_path, machine_id=ID)
    assert pc.is_same(machine(tmp_path, machine_id=ID))
    assert not pc.is_same(machine(tmp_path, machine_id=ID.replace("0", "f")))
    assert "a1b2" not in str(pi)
    assert ID.strip() not in str(pi)


@pytest.mark.parametrize("unset", ["", "uninitialized\n", "no id\n"])
def test_a_machine_without_an_identity_is_no_reason_to_refuse(tmp_path: Path, unset: str) -> None:
    nothing = machine(tmp_path, machine_id=unset)
    assert nothing == Machine()
    assert nothing.is_same(machine(tmp_path, machine_id=ID))
    assert this_machine(tmp_path / "nowhere") == Machine()


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    path = tmp_path / "keys" / "device.keys"
    assert main(["keys", "init", "--keys", str(path)]) == 0
    return path


def note(key_file: Path) -> Path:
    return key_file.with_name("device.keys.machine")


def test_new_keys_are_of_this_machine_and_of_no_other(key_file: Path) -> None:
    assert machine_of_keys(key_file) == this_machine()
    check_machine(key_file)
    with pytest.raises(ConfigError, match="keys adopt"):
        check_machine(key_file, Machine(board="other", system="other"))


def test_keys_that_were_adopted_or_freed_are_used(key_file: Path) -> None:
    note(key_file).write_text(json.dumps({"board": "", "system": "another"}))
    with pytest.raises(ConfigError, match="made on another machine"):
        check_machine(key_file)
    adopt_keys(key_file)
    check_machine(key_file)
    free_keys(key_file)
    check_machine(key_file, Machine(board="other", system="other"))


@pytest.mark.parametrize("text", ["", "[]", "{}", "[" * 5000, "\0"])
def test_a_damaged_note_is_an_error_that_says_what_to_do(key_file: Path, text: str) -> None:
    note(key_file).write_text(text)
    with pytest.raises(ConfigError, match="keys adopt"):
        check_machine(key_file)


def test_a_cloned_device_neither_checks_nor_runs_until_its_keys_are_adopted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config, data = tmp_path / "headgate.toml", tmp_path / "data"
    assert main(["init", "--config", str(config), "--data", str(data), "--non-interactive"]) == 0
    key_file = data / "keys" / "device.keys"
    note(key_file).write_text(json.dumps({"board": "", "system": "another"}))
    for command in (["check"], ["run", "--once", "--seconds", "0.1"]):
        assert main([*command, "--config", str(config)]) == 78
        assert "made on another machine" in capsys.readouterr().err
    assert not (data / "journal").exists()
    assert main(["keys", "show", "--keys", str(key_file)]) == 0
    assert "machine      another" in capsys.readouterr().out
    assert main(["keys", "adopt", "--keys", str(key_file)]) == 0
    assert main(["check", "--config", str(config)]) == 0
    assert main(["keys", "adopt", "--any-machine", "--keys", str(key_file)]) == 0
    assert main(["keys", "show", "--keys", str(key_file), "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["machine"] == "any"

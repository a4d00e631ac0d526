import hashlib
import os
import traceback
from pathlib import Path

import pytest

from agent.errors import ConfigError
from agent.keys import (
    DeviceKeys,
    Secret,
    create_key_file,
    find_key_file,
    load_keys,
    new_passphrase_from,
    passphrase_from,
    read_binding,
    read_key_file,
    replace_key_file,
)
from agent.keys.key_file import PassphraseCost
from protocol.ethereum.secp256k1 import default_backend

KEYS = DeviceKeys.generate(lambda count: b"\x11" * count)
OTHER_KEYS = DeviceKeys.generate(lambda count: b"\x22" * count)
CHEAP = PassphraseCost(opslimit=1, memlimit_bytes=8192)


@pytest.fixture
def key_path(tmp_path: Path) -> Path:
    return tmp_path / "keys" / "device.keys"


def no_passphrase() -> Secret:
    raise AssertionError("asked for a passphrase that is not needed")


def test_a_new_key_file_is_private_in_a_private_folder_whatever_the_umask(key_path: Path) -> None:
    before = os.umask(0)
    try:
        create_key_file(key_path, KEYS, None)
    finally:
        os.umask(before)
    assert key_path.stat().st_mode & 0o777 == 0o600
    assert key_path.parent.stat().st_mode & 0o777 == 0o700
    assert load_keys(key_path, no_passphrase).binding == KEYS.binding
    assert {each.name for each in key_path.parent.iterdir()} <= {"device.keys", "device.keys.machine"}


def test_nothing_is_ever_overwritten_by_new_keys_not_even_rubbish(key_path: Path) -> None:
    key_path.parent.mkdir(mode=0o700)
    key_path.write_bytes(b"rubbish")
    key_path.chmod(0o600)
    with pytest.raises(ConfigError, match="was not changed"):
        create_key_file(key_path, KEYS, None)
    assert key_path.read_bytes() == b"rubbish"


def test_a_damaged_file_is_an_error_that_names_it_and_stays_as_it_is(key_path: Path) -> None:
    create_key_file(key_path, KEYS, None)
    damaged = key_path.read_bytes()[:-1] + b"?"
    key_path.write_bytes(damaged)
    with pytest.raises(ConfigError, match=r"device\.keys: the key file is damaged.*restore"):
        load_keys(key_path, no_passphrase)
    assert key_path.read_bytes() == damaged


def forge_archive_key(key_path: Path) -> None:
    forged = key_path.read_bytes()[:-32].replace(KEYS.binding.archive_key, bytes(32))
    key_path.write_bytes(forged + hashlib.sha256(forged).digest())


def test_a_public_part_that_the_device_did_not_sign_is_noticed_without_the_secrets_too(key_path: Path) -> None:
    create_key_file(key_path, KEYS, None)
    forge_archive_key(key_path)
    with pytest.raises(ConfigError, match=r"device\.keys: .*not signed by.*restore"):
        read_binding(key_path)


def test_who_has_the_secrets_needs_no_recovery_to_check_the_public_part(
    key_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_key_file(key_path, KEYS, None)
    monkeypatch.setattr(type(default_backend()), "recover", None)  # its tables are nearly a megabyte
    assert load_keys(key_path, no_passphrase).address == KEYS.address


def test_no_traceback_of_a_file_that_cannot_be_used_has_its_secrets(key_path: Path) -> None:
    create_key_file(key_path, KEYS, None)
    forge_archive_key(key_path)
    with pytest.raises(ConfigError, match="belong to different devices") as caught:
        load_keys(key_path, no_passphrase)
    shown = "".join(traceback.TracebackException.from_exception(caught.value, capture_locals=True).format())
    assert "\\x11" * 8 not in shown
    assert "11" * 8 not in shown


def test_a_missing_file_is_an_error_not_a_new_identity(key_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=f"no keys; .* headgate keys init --keys {key_path}"):
        load_keys(key_path, no_passphrase)
    assert not key_path.exists()


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o601, 0o660])
def test_a_file_that_others_could_use_is_refused(key_path: Path, mode: int) -> None:
    create_key_file(key_path, KEYS, None)
    key_path.chmod(mode)
    with pytest.raises(ConfigError, match=f"mode {mode:04o}"):
        read_key_file(key_path)


@pytest.mark.parametrize("mode", [0o750, 0o701, 0o777])
def test_a_folder_that_others_could_enter_is_refused(key_path: Path, mode: int) -> None:
    create_key_file(key_path, KEYS, None)
    key_path.parent.chmod(mode)
    with pytest.raises(ConfigError, match="accessible to other users"):
        read_key_file(key_path)
    with pytest.raises(ConfigError, match="accessible to other users"):
        create_key_file(key_path.with_name("second.keys"), KEYS, None)


def test_a_pipe_in_place_of_the_file_is_refused_and_not_waited_for(key_path: Path) -> None:
    key_path.parent.mkdir(mode=0o700)
    os.mkfifo(key_path, 0o600)
    with pytest.raises(ConfigError, match="not a plain file"):
        read_key_file(key_path)


def test_changing_the_passphrase_keeps_the_identity(key_path: Path) -> None:
    create_key_file(key_path, KEYS, None)
    replace_key_file(key_path, KEYS, Secret(b"new"), cost=CHEAP)
    assert read_key_file(key_path).has_passphrase
    assert load_keys(key_path, lambda: Secret(b"new")).secrets() == KEYS.secrets()
    with pytest.raises(ConfigError, match="another device"):
        replace_key_file(key_path, OTHER_KEYS, None)
    assert read_key_file(key_path).binding == KEYS.binding


def test_what_root_writes_is_given_to_the_owner_of_the_folder(key_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[tuple[int, int]] = []
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr("os.fchown", lambda _, user, group: given.append((user, group)))
    create_key_file(key_path, KEYS, None)
    replace_key_file(key_path, KEYS, None)
    owner = key_path.parent.stat()
    assert set(given) == {(owner.st_uid, owner.st_gid)}


def test_a_file_of_another_user_is_refused_unless_root_asks(key_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    create_key_file(key_path, KEYS, None)
    stranger = key_path.stat().st_uid + 1
    real_fstat = os.fstat

    def fstat_of_stranger(descriptor: int) -> os.stat_result:
        return os.stat_result((*real_fstat(descriptor)[:4], stranger, *real_fstat(descriptor)[5:]))

    monkeypatch.setattr("os.fstat", fstat_of_stranger)
    monkeypatch.setattr("os.geteuid", lambda: stranger + 1)
    with pytest.raises(ConfigError, match=f"belongs to user {stranger}"):
        read_key_file(key_path)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert read_key_file(key_path).binding == KEYS.binding


def test_a_leftover_of_a_crash_does_not_stand_in_the_way(key_path: Path) -> None:
    key_path.parent.mkdir(mode=0o700)
    key_path.with_name(".device.keys.new").write_bytes(b"half")
    create_key_file(key_path, KEYS, None)
    assert load_keys(key_path, no_passphrase).binding == KEYS.binding


def test_the_service_manager_may_hand_in_the_key_file_and_grant_access_by_list(tmp_path: Path) -> None:
    create_key_file(tmp_path / "keys" / "device.keys", KEYS, None)
    credential = tmp_path / "credentials" / "headgate.keys"
    credential.parent.mkdir(mode=0o750)
    credential.write_bytes((tmp_path / "keys" / "device.keys").read_bytes())
    credential.chmod(0o440)
    environment = {"CREDENTIALS_DIRECTORY": str(credential.parent), "HEADGATE_KEYS": "/elsewhere"}
    assert find_key_file(environment) == credential
    assert load_keys(credential, no_passphrase).binding == KEYS.binding
    credential.chmod(0o444)
    with pytest.raises(ConfigError, match="readable by other users"):
        load_keys(credential, no_passphrase)


def test_the_key_file_is_named_by_the_environment_or_at_its_usual_place() -> None:
    assert find_key_file({"HEADGATE_KEYS": "/some/where"}) == Path("/some/where")
    assert find_key_file({}) == Path("/var/lib/headgate/keys/device.keys")
    assert find_key_file({}, usual=Path("/else/where")) == Path("/else/where")


def test_a_passphrase_comes_from_a_file_then_a_credential_then_the_terminal(tmp_path: Path) -> None:
    def ask(prompt: str) -> str:
        assert prompt == "Passphrase: "
        return "typed"

    folder = tmp_path / "private"
    folder.mkdir(mode=0o700)
    file, credential = folder / "passphrase", folder / "headgate.passphrase"
    file.write_bytes(b"from a file\r\n")
    file.chmod(0o600)
    credential.write_bytes(b"from systemd")
    credential.chmod(0o400)
    environment = {"CREDENTIALS_DIRECTORY": str(folder)}
    assert passphrase_from(file, environment, prompt="Passphrase: ", ask=ask) == Secret(b"from a file")
    assert passphrase_from(None, environment, prompt="Passphrase: ", ask=ask) == Secret(b"from systemd")
    assert passphrase_from(None, {}, prompt="Passphrase: ", ask=ask) == Secret(b"typed")


@pytest.mark.parametrize("answer", ["", "x" * 1025])
def test_an_empty_or_endless_passphrase_is_refused(answer: str) -> None:
    with pytest.raises(ConfigError, match="1 to 1024 bytes"):
        passphrase_from(None, {}, prompt="", ask=lambda _: answer)


def test_a_new_passphrase_is_asked_for_twice() -> None:
    answers = iter(["one", "one", "one", "two"])
    assert new_passphrase_from(None, {}, ask=lambda _: next(answers)) == Secret(b"one")
    with pytest.raises(ConfigError, match="do not match"):
        new_passphrase_from(None, {}, ask=lambda _: next(answers))


def test_without_a_terminal_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    with pytest.raises(ConfigError, match="--passphrase-file"):
        passphrase_from(None, {}, prompt="")

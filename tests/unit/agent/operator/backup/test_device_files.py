"""`headgate backup` and `headgate restore`, from one device's folders into another's."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from agent.cli import main
from agent.clock.ceiling import encode_ceiling_file, read_ceiling
from agent.errors import ConfigError, ExitCode, StorageError
from agent.journal.lock import DataLock
from agent.keys import read_binding
from agent.keys.machine import machine_of_keys, this_machine
from agent.operator.backup.backup_file import Backup
from agent.operator.backup.device_files import destinations_of, restore_backup
from runtime import durable_files
from tests.unit.agent.operator.backup.test_backup_file import BACKUP

GROUP_KEYS = "ab" * 16 + ".group-keys"


@pytest.fixture
def device(tmp_path: Path) -> Path:
    """A device that has run, with a token and group keys."""
    folder = tmp_path / "old"
    config = folder / "etc" / "headgate.toml"
    assert main(["init", "--config", str(config), "--data", str(folder / "data"), "--non-interactive"]) == 0
    (folder / "etc" / "page.token").write_text("a" * 32)
    (folder / "etc" / "page.token").chmod(0o600)
    config.write_text(config.read_text() + '[page]\nlisten = "127.0.0.1:0"\ntoken_file = "page.token"\n')
    groups = folder / "data" / "keys" / "groups"
    groups.mkdir(mode=0o700)
    (groups / GROUP_KEYS).write_bytes(b"locked")
    (folder / "data" / "clock.ceiling").write_bytes(encode_ceiling_file(1_900_000_000_000))
    passphrase = folder / "passphrase"
    passphrase.write_text("open sesame\n")
    passphrase.chmod(0o600)
    return folder


def backup(device: Path, file: Path) -> int:
    config, passphrase = device / "etc" / "headgate.toml", device / "passphrase"
    return main(["backup", str(file), "--config", str(config), "--passphrase-file", str(passphrase)])


def restore(device: Path, file: Path, new: Path, *more: str) -> int:
    places = ("--config", str(new / "etc" / "headgate.toml"), "--data", str(new / "data"))
    return main(["restore", str(file), *places, "--passphrase-file", str(device / "passphrase"), *more])


def files_below(folder: Path) -> dict[str, bytes]:
    return {str(each.relative_to(folder)): each.read_bytes() for each in folder.rglob("*") if each.is_file()}


def test_a_restored_device_is_the_same_device_on_this_machine(device: Path, tmp_path: Path) -> None:
    file, new = tmp_path / "device.backup", tmp_path / "new"
    assert backup(device, file) == ExitCode.OK
    assert file.stat().st_mode & 0o777 == 0o600
    assert restore(device, file, new) == ExitCode.OK
    assert (new / "etc" / "headgate.toml").read_bytes() == (device / "etc" / "headgate.toml").read_bytes()
    for name in ("data/keys/device.keys", f"data/keys/groups/{GROUP_KEYS}", "etc/page.token"):
        assert (new / name).read_bytes() == (device / name).read_bytes()
        assert (new / name).stat().st_mode & 0o007 == 0
    for folder in ("data/keys", "data/keys/groups"):
        assert (new / folder).stat().st_mode & 0o777 == 0o700
    key_file = new / "data" / "keys" / "device.keys"
    assert read_binding(key_file).address == read_binding(device / "data" / "keys" / "device.keys").address
    assert machine_of_keys(key_file) == this_machine()
    assert (read_ceiling(new / "data" / "clock.ceiling") or 0) >= 1_900_000_000_000, "no reference is used again"
    text = (new / "etc" / "headgate.toml").read_text().replace(str(device), str(new))
    (new / "etc" / "headgate.toml").write_text(text)
    assert main(["check", "--config", str(new / "etc" / "headgate.toml")]) == ExitCode.OK


def test_nothing_is_overwritten_unless_that_is_asked_for(
    device: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, new = tmp_path / "device.backup", tmp_path / "new"
    assert backup(device, file) == ExitCode.OK
    assert backup(device, file) == ExitCode.BAD_CONFIG, "nor is a backup"
    assert main(["init", "--config", str(new / "etc" / "headgate.toml"), "--data", str(new / "data")]) == 0
    before = files_below(new)
    capsys.readouterr()
    assert restore(device, file, new) == ExitCode.BAD_CONFIG
    assert "--force" in (printed := capsys.readouterr().err)
    assert str(new / "data" / "keys" / "device.keys") in printed
    assert files_below(new) == before
    assert restore(device, file, new, "--force") == ExitCode.OK
    assert (new / "data/keys/device.keys").read_bytes() == (device / "data/keys/device.keys").read_bytes()


def test_what_is_in_it_can_be_shown_without_writing(
    device: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, new = tmp_path / "device.backup", tmp_path / "new"
    backup(device, file)
    capsys.readouterr()
    assert restore(device, file, new, "--list") == ExitCode.OK
    printed = capsys.readouterr().out
    assert "0x" in printed
    assert str(new / "etc" / "page.token") in printed
    assert not new.exists()


def test_a_file_outside_the_configuration_s_folder_is_named_as_left_out(
    device: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = device / "etc" / "headgate.toml"
    (device / "etc" / "page.token").rename(tmp_path / "page.token")
    config.write_text(config.read_text().replace('"page.token"', f'"{tmp_path / "page.token"}"'))
    assert backup(device, tmp_path / "device.backup") == ExitCode.OK
    assert f"page.token_file: {tmp_path / 'page.token'}" in capsys.readouterr().err


@pytest.mark.parametrize("missing", ["etc/page.token", "data/keys/device.keys"])
def test_a_device_that_lacks_a_file_is_not_half_backed_up(device: Path, tmp_path: Path, missing: str) -> None:
    (device / missing).unlink()
    assert backup(device, tmp_path / "device.backup") != ExitCode.OK
    assert not (tmp_path / "device.backup").exists()


@pytest.mark.parametrize(
    ("data", "exit_code"),
    [(b"", ExitCode.BAD_DATA), (b"HGBKUP", ExitCode.BAD_DATA), (b"HGBKUP\0\2", ExitCode.BAD_DATA), (b"x" * 99, 65)],
)
def test_a_file_that_is_no_backup_is_refused_by_name(
    device: Path, tmp_path: Path, data: bytes, exit_code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "bad.backup"
    file.write_bytes(data)
    assert restore(device, file, tmp_path / "new") == exit_code
    assert str(file) in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def places(tmp_path: Path) -> tuple[Path, Path]:
    return tmp_path / "etc" / "headgate.toml", tmp_path / "data"


def put_back(tmp_path: Path, backup: Backup = BACKUP, *, is_forced: bool = False) -> list[Path]:
    return restore_backup(backup, *places(tmp_path), 0, is_forced=is_forced)


def test_a_running_agent_is_left_alone(tmp_path: Path) -> None:
    lock = DataLock(tmp_path / "data")
    with pytest.raises(StorageError, match="another agent"):
        put_back(tmp_path)
    lock.close()
    put_back(tmp_path)


def test_a_link_that_leads_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "tls").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match="a symbolic link"):
        put_back(tmp_path)
    assert list((tmp_path / "elsewhere").iterdir()) == []
    assert not (tmp_path / "data" / "keys").exists()


def test_a_link_in_the_place_of_a_file_is_replaced_and_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "page.token").symlink_to(victim)
    put_back(tmp_path, is_forced=True)
    assert victim.read_text() == "precious"


def test_a_disk_that_fails_at_any_file_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_back(tmp_path)
    before = files_below(tmp_path)
    count = len(destinations_of(BACKUP, *places(tmp_path), 0))
    write = durable_files.write_all
    for failing in range(count):
        seen = iter(range(count))

        def fail(descriptor: int, data: bytes, failing: int = failing) -> None:
            if next(seen) == failing:  # noqa: B023 - used before the next round
                raise OSError(28, "No space left on device")
            write(descriptor, data)

        monkeypatch.setattr(durable_files, "write_all", fail)
        with pytest.raises(OSError, match="No space"):
            put_back(tmp_path, is_forced=True)
        monkeypatch.undo()
        assert files_below(tmp_path) == before, "also without left-overs"


def test_the_keys_take_their_place_last(tmp_path: Path) -> None:
    assert put_back(tmp_path)[-1] == tmp_path / "data" / "keys" / "device.keys"


def test_the_ceiling_never_sinks(tmp_path: Path) -> None:
    put_back(tmp_path)
    assert read_ceiling(tmp_path / "data" / "clock.ceiling") == BACKUP.ceiling_ms
    (tmp_path / "data" / "clock.ceiling").write_bytes(encode_ceiling_file(1_999_999_999_999))
    put_back(tmp_path, is_forced=True)
    assert read_ceiling(tmp_path / "data" / "clock.ceiling") == 1_999_999_999_999
    restore_backup(BACKUP, *places(tmp_path), 2_000_000_000_000, is_forced=True)
    assert read_ceiling(tmp_path / "data" / "clock.ceiling") == 2_000_000_000_000


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_what_root_restores_belongs_to_the_owner_of_the_folders(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir(mode=0o750)
    os.chown(tmp_path / "data", 65534, 65534)
    (tmp_path / "etc").mkdir()
    os.chown(tmp_path / "etc", 0, 65534)
    put_back(tmp_path)
    for each in (tmp_path / "data").rglob("*"):
        assert (each.stat().st_uid, each.stat().st_gid) == (65534, 65534), each
    token = (tmp_path / "etc" / "page.token").stat()
    assert (token.st_uid, token.st_gid, token.st_mode & 0o777) == (0, 65534, 0o640)


def test_a_configuration_that_this_version_does_not_accept_is_restored_all_the_same(tmp_path: Path) -> None:
    put_back(tmp_path, replace(BACKUP, configuration=b"[jurnal]\n"))
    assert (tmp_path / "etc" / "headgate.toml").read_bytes() == b"[jurnal]\n"
    assert (tmp_path / "data" / "keys" / "device.keys").exists()

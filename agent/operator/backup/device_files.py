"""Collects the files of a device for a backup, and restores them.

Collecting changes nothing, and the agent may be running. On a restore every file is written beside its place first, and
the keys are put in place last. So a restore that fails or is interrupted leaves either the previous files, or a device
without keys, which does not start; the same command with --force completes it. Nothing is written outside the
configuration's folder and the data directory.
"""

import contextlib
import grp
import os
import pwd
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from agent.clock.ceiling import encode_ceiling_file, read_ceiling
from agent.config.configuration import Config
from agent.config.files import CONFIGURATION, KEY_FILE, key_file_of, named_files
from agent.errors import ConfigError, error_text
from agent.journal.lock import DataLock
from agent.keys import read_key_file
from agent.keys.machine import adopt_keys
from agent.keys.secret import Secret
from agent.operator.backup.backup_file import MAX_BACKUP_BYTES, Backup
from agent.version import VERSION
from runtime.durable_files import replace_files
from runtime.private_files import SERVICE_USER

USUAL_KEY_PATH = "data/keys/device.keys"


class Gathered(NamedTuple):
    backup: Backup
    left_out: list[str]  # files that the configuration names outside its folder


def gather_backup(config: Config, now_ms: int) -> Gathered:
    """Raises: ConfigError for a file that is missing, unreadable or too large, or whose name a backup cannot hold."""
    folder, data = config.path.absolute().parent, config.device.data_directory.absolute()
    key_file = key_file_of(config).absolute()
    others = {name: path for name, path in named_files(config).items() if name not in (CONFIGURATION, KEY_FILE)}
    inside = {path for path in others.values() if path.is_relative_to(folder)}
    left_out = [f"{name}: {path}" for name, path in others.items() if path not in inside]
    key_path = _key_path(key_file, folder, data)
    if key_path is None:
        left_out.append(f"{KEY_FILE}: restored as {data / 'keys' / 'device.keys'}; move it to {key_file} then")
    try:
        backup = Backup(
            device=read_key_file(key_file).public.address,
            made_at_ms=now_ms,
            headgate=VERSION,
            data_directory=str(data),
            configuration=_read(config.path),
            key_file=Secret(_read(key_file)),
            key_path=key_path or USUAL_KEY_PATH,
            group_keys={each.name: _read(each) for each in sorted((data / "keys" / "groups").glob("*.group-keys"))},
            named_files={str(path.relative_to(folder)): Secret(_read(path)) for path in sorted(inside)},
            ceiling_ms=read_ceiling(data / "clock.ceiling"),
        )
    except OSError as error:
        raise ConfigError(f"{error_text(error)}; nothing was backed up") from None
    except ValueError as error:
        raise ConfigError(f"{config.path}: this device cannot be backed up: {error}") from None
    return Gathered(backup, left_out)


def _key_path(key_file: Path, folder: Path, data: Path) -> str | None:
    for name, base in (("data", data), ("configuration", folder)):
        if key_file.is_relative_to(base) and key_file.suffix == ".keys":
            return f"{name}/{key_file.relative_to(base)}"
    return None


def _read(path: Path) -> bytes:
    """Raises: OSError."""
    with path.open("rb") as file:
        return file.read(MAX_BACKUP_BYTES)


CONFIG_MODE: Final = 0o640
SHARED_MODE: Final = 0o640  # of root, for the group of the service
PRIVATE_MODE: Final = 0o600
DATA_FOLDER_MODE: Final = 0o750
KEY_FOLDER_MODE: Final = 0o700
FOLDER_MODE: Final = 0o755


class Destination(NamedTuple):
    path: Path
    content: bytes
    mode: int

    def __repr__(self) -> str:
        return f"Destination({self.path})"


def restore_backup(backup: Backup, config: Path, data: Path, now_ms: int, *, is_forced: bool) -> list[Path]:
    """Write the files of the backup, and return their paths. `now_ms`: 0 if the clock is not synchronised.

    Raises: ConfigError if anything would be overwritten and `is_forced` is not given, or if a folder leads elsewhere;
    StorageError if an agent runs there; OSError.
    """
    files = destinations_of(backup, config, data, now_ms)
    if not is_forced and (there := [str(each.path) for each in files if each.path.exists()]):
        raise ConfigError("\n  ".join(["these files exist and were not changed; --force overwrites them:", *there]))
    for each in files:
        _check_place(each.path, data, config.parent)
    _make_folder(config.parent, FOLDER_MODE, group=SERVICE_USER)
    _make_folder(data, DATA_FOLDER_MODE, owner=SERVICE_USER, group=SERVICE_USER)
    files = destinations_of(backup, config, data, now_ms)  # modes depend on the folder that is there now
    with contextlib.closing(DataLock(data)):
        for each in reversed(files):  # the folder of the keys first, with its private mode
            is_secret = each.path == files[-1].path or each.path.is_relative_to(data / "keys")
            _make_folder(each.path.parent, KEY_FOLDER_MODE if is_secret else FOLDER_MODE)
        replace_files([(each.path, each.content, each.mode) for each in files])
        adopt_keys(files[-1].path)
    return [each.path for each in files]


def destinations_of(backup: Backup, config: Path, data: Path, now_ms: int) -> list[Destination]:
    """The files to write, in the order in which they are put in place."""
    return [*_files_before_the_keys(backup, config, data, now_ms), _key_file(backup, config.parent, data)]


def _files_before_the_keys(backup: Backup, config: Path, data: Path, now_ms: int) -> Iterator[Destination]:
    ceiling_path = data / "clock.ceiling"
    known = (backup.ceiling_ms or 0, backup.made_at_ms, now_ms, read_ceiling(ceiling_path) or 0)
    yield Destination(ceiling_path, encode_ceiling_file(max(known)), PRIVATE_MODE)
    for name, content in backup.group_keys.items():
        yield Destination(data / "keys" / "groups" / name, content, PRIVATE_MODE)
    for name, secret in backup.named_files.items():
        yield Destination(config.parent / name, secret.reveal(), _secret_mode(config.parent))
    yield Destination(config, backup.configuration, CONFIG_MODE)


def _key_file(backup: Backup, folder: Path, data: Path) -> Destination:
    place, _, rest = backup.key_path.partition("/")
    return Destination((data if place == "data" else folder) / rest, backup.key_file.reveal(), PRIVATE_MODE)


def _secret_mode(folder: Path) -> int:
    """The mode of a secret: its group may read it in a folder of root and the service's group, else only its owner."""
    is_shared = folder.exists() and folder.stat().st_uid == 0 and folder.stat().st_gid != 0
    return SHARED_MODE if is_shared else PRIVATE_MODE


def _check_place(path: Path, *bases: Path) -> None:
    """Raises: ConfigError if a symbolic link below one of the folders leads out of it."""
    base = next(each for each in bases if path.is_relative_to(each))
    if not path.parent.resolve().is_relative_to(base.resolve()):
        raise ConfigError(f"{path}: a symbolic link leads out of {base}; remove it first")


def _make_folder(folder: Path, mode: int, *, owner: str = "", group: str = "") -> None:
    """Create a folder, owned by `owner` and `group` if they exist, else like the folder above."""
    if folder.exists():
        return
    _make_folder(folder.parent, FOLDER_MODE)
    folder.mkdir(mode=mode)
    folder.chmod(mode)  # regardless of the umask
    if os.geteuid() == 0:
        above = folder.parent.stat()
        os.chown(folder, _uid(owner, above.st_uid), _gid(group, above.st_gid))


def _uid(name: str, otherwise: int) -> int:
    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError:
        return otherwise


def _gid(name: str, otherwise: int) -> int:
    try:
        return grp.getgrnam(name).gr_gid
    except KeyError:
        return otherwise

"""Whole small files that appear, or change, all at once or not at all, even if the power fails.

Temporary name → write → fsync → final name → fsync of the directory. A leftover of a crash begins with a dot and is
never taken for the file itself; the next write of the same file removes it.
"""

import os
from pathlib import Path

PRIVATE_FILE = 0o600


def create_file(path: Path, data: bytes, *, mode: int = PRIVATE_FILE) -> None:
    """Raises: FileExistsError, and leaves what is there as it is."""
    temporary = _write_temporary(path, data, mode)
    try:
        os.link(temporary, path)  # unlike a rename, this never replaces
    finally:
        temporary.unlink()
    sync_directory(path.parent)


def replace_file(path: Path, data: bytes, *, mode: int = PRIVATE_FILE) -> None:
    temporary = _write_temporary(path, data, mode)
    temporary.replace(path)
    sync_directory(path.parent)


def sync_directory(directory: Path) -> None:
    """Make the names in it durable."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_temporary(path: Path, data: bytes, mode: int) -> Path:
    temporary = path.with_name(f".{path.name}.new")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    with os.fdopen(descriptor, "wb") as file:
        os.fchmod(descriptor, mode)  # whatever the umask says
        give_to_the_owner(descriptor, of=path if path.exists() else path.parent)
        file.write(data)
        file.flush()
        os.fsync(descriptor)
    return temporary


def give_to_the_owner(descriptor: int, *, of: Path) -> None:
    """What root writes for a service stays readable for it: it belongs to the owner of the old file, or the folder."""
    if os.geteuid() == 0:
        owner = of.stat()
        os.fchown(descriptor, owner.st_uid, owner.st_gid)

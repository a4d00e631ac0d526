"""Files that appear, or change, all at once or not at all, even if the power fails.

Temporary name → write → fsync → final name → fsync of the directory. A leftover of a crash begins with a dot and is
never taken for the file itself; the next write of the same file replaces it.
"""

import os
from pathlib import Path

PRIVATE_FILE = 0o600
PRIVATE_FOLDER = 0o700


def create_file(path: Path, data: bytes, *, mode: int = PRIVATE_FILE) -> None:
    """Raises: FileExistsError, and leaves what is there as it is."""
    temporary = _write_temporary(path, data, mode)
    try:
        os.link(temporary, path)  # unlike a rename, this never replaces
    finally:
        temporary.unlink()
    sync_folder(path.parent)


def replace_file(path: Path, data: bytes, *, mode: int = PRIVATE_FILE) -> None:
    _write_temporary(path, data, mode).replace(path)
    sync_folder(path.parent)


def make_folder(folder: Path, *, mode: int = PRIVATE_FOLDER) -> None:
    """Make it, and what it stands in, unless it is there; its name is durable when this returns."""
    if not folder.is_dir():
        folder.mkdir(mode=mode, parents=True, exist_ok=True)
        sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in it durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_temporary(path: Path, data: bytes, mode: int) -> Path:
    temporary = path.with_name(f".{path.name}.new")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, mode)
    with os.fdopen(descriptor, "wb") as file:
        os.fchmod(descriptor, mode)  # whatever the umask says
        file.write(data)
        file.flush()
        os.fsync(descriptor)
    return temporary

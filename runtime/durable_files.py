"""Durable directories, and small files that are created or replaced as a whole or not at all, even if power fails.

Temporary name → write → fsync → final name → fsync of the directory. Writers of one file, threads or processes, each
have a temporary name of their own, with a lock. The name of a leftover of a crash begins with a dot, so it is not read
as the file itself; it is not locked, so the next write of the same file removes it.
"""

import contextlib
import errno
import fcntl
import itertools
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

PRIVATE_FILE: Final = 0o600
PRIVATE_DIRECTORY: Final = 0o700
# of a directory that belongs to another user, or is read-only
_SYNC_NOT_PERMITTED: Final = (errno.EACCES, errno.EPERM, errno.EINVAL, errno.ENOTSUP, errno.EROFS)
_NO_LOCKS: Final = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS)


def create_file(path: Path, data: bytes, *, mode: int = PRIVATE_FILE) -> None:
    """Create a file. Raises: FileExistsError; then the existing file is unchanged."""
    with _written(path, data, mode) as temporary:
        os.link(temporary, path)  # unlike a rename, this never replaces
        temporary.unlink()
    sync_directory(path.parent)


def replace_file(path: Path, data: bytes, *, mode: int = PRIVATE_FILE) -> None:
    replace_files([(path, data, mode)])


def replace_files(files: Sequence[tuple[Path, bytes, int]]) -> None:
    """Replace files, given as paths, contents and modes. All are on the disk under temporary names before the first is
    renamed; then they are renamed in this order. Raises: OSError; before the first rename nothing is changed.
    """
    with contextlib.ExitStack() as held:
        written = [(held.enter_context(_written(path, data, mode)), path) for path, data, mode in files]
        for temporary, path in written:
            temporary.replace(path)
            sync_directory(path.parent)


def make_directory(path: Path, *, mode: int = 0o777) -> None:
    """Create a directory and its missing parents; each name is durable before anything is created below it.

    The last existing parent is synced, too: a process may have been killed after creating it and before syncing it.
    """
    missing = [each for each in (path, *path.parents) if not each.is_dir()]
    last_existing = missing[-1].parent if missing else path
    try:
        sync_directory(last_existing.parent)
    except OSError as error:
        if error.errno not in _SYNC_NOT_PERMITTED:
            raise
    for each in reversed(missing):
        each.mkdir(mode=mode if each == path else 0o777, exist_ok=True)
        sync_directory(each.parent)


def sync_directory(directory: Path) -> None:
    """Make the names in a directory durable."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _written(path: Path, data: bytes, mode: int) -> Iterator[Path]:
    """Write the data under a temporary name, for the caller to rename; it is removed if the caller fails."""
    temporary, descriptor = _create_temporary(path, mode)
    try:
        os.fchmod(descriptor, mode)  # regardless of the umask
        change_owner(descriptor, of=path if path.exists() else path.parent)
        write_all(descriptor, data)
        os.fsync(descriptor)
        yield temporary
    except BaseException:
        if _is_named(descriptor, temporary):
            temporary.unlink()
        raise
    finally:
        os.close(descriptor)


def _create_temporary(path: Path, mode: int) -> tuple[Path, int]:
    """The first temporary name that no other writer has locked, and its locked descriptor."""
    for number in itertools.count():
        temporary = path.with_name(f".{path.name}.{number}.new" if number else f".{path.name}.new")
        while _remove_leftover(temporary):
            with contextlib.suppress(FileExistsError):  # another writer was faster
                descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
                if _lock(descriptor) and _is_named(descriptor, temporary):
                    return temporary, descriptor
                os.close(descriptor)  # another writer removed it as a leftover before it was locked
    raise AssertionError("unreachable: the loop has no end")


def _remove_leftover(temporary: Path) -> bool:
    """Whether the name is free now; False if a writer has locked it."""
    try:
        descriptor = os.open(temporary, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    except OSError:  # a link, or a file of another user
        temporary.unlink(missing_ok=True)
        return True
    try:
        if not _lock(descriptor):
            return False
        if _is_named(descriptor, temporary):
            temporary.unlink(missing_ok=True)
        return True
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> bool:
    """Lock a file. False if another writer has the lock. On a file system without locks nothing is locked."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
    return True


def _is_named(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False


def write_all(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def change_owner(descriptor: int, *, of: Path) -> None:
    """If root writes for a service, give the file to the owner of the old file or of the directory."""
    if os.geteuid() == 0:
        owner = of.stat()
        os.fchown(descriptor, owner.st_uid, owner.st_gid)

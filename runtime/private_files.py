"""Reads files that hold a secret, and refuses them if other users of the machine can read or change them.

The rule of `privacy_problem`:

| user | may |
|---|---|
| the owner, which is the reader itself or root | read and write |
| the reader's own group, if root owns the file: `root:headgate 0640` for a service that runs as `headgate` | read |
| everybody else | nothing |

A file that the reader owns must have no access for its group. Root may read the file of any user; the group of the
user `headgate` then counts as the reader's own, so that a command run by root gives the same result as the service.
"""

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Final, NamedTuple

from runtime.errors import ConfigError

SERVICE_USER: Final = "headgate"
MAX_SECRET_BYTES: Final = 4096
_OTHERS: Final = 0o007
_GROUP_READS: Final = 0o040
_GROUP_CHANGES: Final = 0o030
_ROOT: Final = 0


class Reader(NamedTuple):
    """The process that will read the file: its user and its groups.

    The groups are looked up only for a file that a group can read: the database of users is half a megabyte of
    libraries.
    """

    uid: int
    groups: Callable[[], frozenset[int]]

    @classmethod
    def this_process(cls) -> "Reader":
        return cls(os.geteuid(), _groups_of_this_process)


_judged_groups: ContextVar[frozenset[int]] = ContextVar("judged_groups", default=frozenset())


@contextmanager
def judging_for_group(gid: int | None) -> Iterator[None]:
    """While it is open, a command run by root judges secrets for a service of this group; None: of `headgate`."""
    token = _judged_groups.set(frozenset() if gid is None else frozenset({gid}))
    try:
        yield
    finally:
        _judged_groups.reset(token)


def privacy_problem(status: os.stat_result, reader: Reader) -> str:
    """The problem of a file with this owner, group and mode as a secret of `reader`; "" if there is none."""
    mode = f"mode {stat.S_IMODE(status.st_mode):04o}"
    if not stat.S_ISREG(status.st_mode):
        return "not a plain file"
    is_exposed = bool(status.st_mode & (_OTHERS | _GROUP_CHANGES))
    if not is_exposed and status.st_mode & _GROUP_READS:
        is_exposed = status.st_uid != _ROOT or status.st_gid not in reader.groups()
    if is_exposed:
        return f"others can read or change it ({mode}); chmod 600 it, and if it was exposed, replace the secret"
    if reader.uid != _ROOT and status.st_uid not in (reader.uid, _ROOT):
        return f"belongs to user {status.st_uid}, not to {reader.uid} or root"
    return ""


def read_private_file(path: Path, *, max_bytes: int) -> bytes:
    """Read at most one byte more than `max_bytes`. Raises: ConfigError if it is not private, OSError if unreadable."""
    with open(path, "rb", opener=_open_non_blocking) as file:
        if problem := privacy_problem(os.fstat(file.fileno()), Reader.this_process()):
            raise ConfigError(f"{path}: {problem}")
        return file.read(max_bytes + 1)


def check_private_file(path: Path) -> None:
    """Check a file that a library will open by its name. Raises: ConfigError, OSError."""
    read_private_file(path, max_bytes=0)


def read_secret_text(path: Path) -> str:
    """A password or token: one line of text, without the line's end. Raises: ConfigError, OSError."""
    data = read_private_file(path, max_bytes=MAX_SECRET_BYTES)
    try:
        text = data.decode().rstrip("\r\n")
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: not UTF-8 text") from None
    if not text or len(data) > MAX_SECRET_BYTES:
        raise ConfigError(f"{path}: expected a secret of 1 to {MAX_SECRET_BYTES} bytes on one line")
    return text


def _open_non_blocking(path: str, flags: int) -> int:
    """A named pipe would otherwise block until something writes to it."""
    return os.open(path, flags | os.O_NONBLOCK)


def _groups_of_this_process() -> frozenset[int]:
    return _judged_groups.get() or _groups_of_service() if os.geteuid() == _ROOT else frozenset({os.getegid()})


def _groups_of_service() -> frozenset[int]:
    import pwd

    try:
        return frozenset({pwd.getpwnam(SERVICE_USER).pw_gid})
    except KeyError:
        return frozenset()

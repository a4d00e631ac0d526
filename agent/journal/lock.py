"""The lock of a directory: one process at a time writes to it.

The kernel releases the lock when the process ends; the file only names the process that holds it, for the error
message. `DataLock` covers everything below the data directory that two agents would spoil for each other, wherever
their journals are: the clock's ceiling, the token log, group keys, quarantine and the status file.
"""

import contextlib
import fcntl
import os
from pathlib import Path
from typing import Final

from agent.errors import StorageError
from runtime.durable_files import change_owner, make_directory

DATA_LOCK_NAME: Final = "agent.lock"
DATA_DIRECTORY_MODE: Final = 0o750
DATA_LOCK_MODE: Final = 0o640
_MAX_PID_BYTES: Final = 16


class DirectoryLock:
    def __init__(self, file: Path, *, mode: int, problem: str) -> None:
        """`problem` may contain `{holder}`. Raises: StorageError with it if another process has the lock, OSError."""
        self._descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, mode)
        change_owner(self._descriptor, of=file.parent)  # the service could not open a lock that root left behind
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self._descriptor, _MAX_PID_BYTES, 0).decode(errors="replace").strip() or "unknown"
            self.close()
            raise StorageError(f"{file.parent}: {problem.format(holder=holder)}") from None
        with contextlib.suppress(OSError):  # a full disk costs the name of the holder only
            os.ftruncate(self._descriptor, os.pwrite(self._descriptor, b"%d\n" % os.getpid(), 0))

    def close(self) -> None:
        """May be called more than once."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


class DataLock(DirectoryLock):
    def __init__(self, directory: Path) -> None:
        """Creates the directory if it is missing. Raises: StorageError if another agent has the lock, OSError."""
        make_directory(directory, mode=DATA_DIRECTORY_MODE)
        super().__init__(
            directory / DATA_LOCK_NAME,
            mode=DATA_LOCK_MODE,
            problem="another agent (process {holder}) is using this data directory; stop it,"
            " or set a different device.data_directory",
        )

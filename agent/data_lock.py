"""The lock of the data directory: one agent at a time, wherever its journal is.

It covers everything below the directory that two agents would spoil for each other: the clock's ceiling, the token log,
group keys, quarantine and the status file. The lock is the kernel's and ends with the process; the file only names the
process that holds it, for the error message.
"""

import fcntl
import os
from pathlib import Path
from typing import Final

from agent.errors import StorageError
from runtime.durable_files import give_to_the_owner, make_directory

LOCK_NAME: Final = "agent.lock"
DIRECTORY_MODE: Final = 0o750
LOCK_MODE: Final = 0o640
_MAX_PID_BYTES: Final = 16


class DataLock:
    def __init__(self, directory: Path) -> None:
        """Makes the directory if it is missing. Raises: StorageError if another process has the lock, OSError."""
        make_directory(directory, mode=DIRECTORY_MODE)
        self._descriptor = os.open(directory / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, LOCK_MODE)
        give_to_the_owner(self._descriptor, of=directory)  # the service could not open a lock that root left behind
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self._descriptor, _MAX_PID_BYTES, 0).decode(errors="replace").strip() or "unknown"
            self.close()
            raise StorageError(
                f"{directory}: another agent (process {holder}) is using this data directory; stop it,"
                " or set a different device.data_directory"
            ) from None
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, b"%d\n" % os.getpid(), 0)

    def close(self) -> None:
        """May be called more than once."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

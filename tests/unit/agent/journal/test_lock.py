import errno
import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from agent.errors import StorageError
from agent.journal.lock import DataLock
from tests.support.processes import ended

HOLDER = """
import sys
from contextlib import closing
from pathlib import Path
from agent.journal.lock import DataLock
lock = DataLock(Path(sys.argv[1]))
print("locked", flush=True)
sys.stdin.read()
"""


def test_a_second_process_is_refused_and_the_error_names_the_first(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with ended(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"locked\n"
        with pytest.raises(StorageError, match=rf"another agent \(process {holder.pid}\).*data_directory"):
            DataLock(tmp_path)
        holder.communicate()
    DataLock(tmp_path).close()


def test_a_lock_that_was_let_go_can_be_taken_again(tmp_path: Path) -> None:
    lock = DataLock(tmp_path / "new" / "folder")
    lock.close()
    lock.close()
    with (
        closing(DataLock(tmp_path / "new" / "folder")),
        pytest.raises(StorageError, match=str(os.getpid())),
    ):
        DataLock(tmp_path / "new" / "folder")


def test_a_full_disk_does_not_keep_the_lock_from_being_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr(os, "pwrite", refuse)
    with closing(DataLock(tmp_path)), pytest.raises(StorageError, match="process unknown"):
        DataLock(tmp_path)

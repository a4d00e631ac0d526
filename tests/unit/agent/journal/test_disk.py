import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from agent.errors import StorageError
from agent.journal import DirectoryDisk
from agent.journal.disk import MAX_OPEN_FILES


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[DirectoryDisk]:
    with closing(DirectoryDisk(tmp_path / "new" / "journal")) as disk:
        yield disk


def test_what_is_written_is_read_back(disk: DirectoryDisk) -> None:
    disk.create("a", 8192)
    disk.write("a", 4096, b"hello")
    disk.sync("a")
    disk.sync_names()
    assert disk.read("a", 4094, 9) == b"\0\0hello\0\0"
    assert disk.read("a", 8190, 100) == b"\0\0"
    assert (disk.names(), disk.size("a")) == (["a"], 8192)
    disk.remove("a")
    disk.remove("a")
    assert disk.names() == []


def test_only_one_process_may_write_and_any_may_read(tmp_path: Path) -> None:
    writer = DirectoryDisk(tmp_path)
    with pytest.raises(StorageError, match=r"another process .* writes"):
        DirectoryDisk(tmp_path)
    DirectoryDisk(tmp_path, read_only=True).close()
    writer.close()
    DirectoryDisk(tmp_path).close()


def test_a_reader_cannot_write(disk: DirectoryDisk, tmp_path: Path) -> None:
    disk.create("a", 4096)
    with (
        closing(DirectoryDisk(tmp_path / "new" / "journal", read_only=True)) as reader,
        pytest.raises(OSError, match="Bad file descriptor"),
    ):
        reader.write("a", 0, b"x")


def test_the_directory_and_its_files_are_private(disk: DirectoryDisk, tmp_path: Path) -> None:
    directory = tmp_path / "new" / "journal"
    disk.create("a", 4096)
    assert directory.stat().st_mode & 0o777 == 0o700
    assert (directory / "a").stat().st_mode & 0o777 == 0o600


def test_open_files_are_bounded(disk: DirectoryDisk) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    for number in range(3 * MAX_OPEN_FILES):
        disk.create(str(number), 4096)
        disk.write(str(number), 0, b"x")
    assert len(list(Path("/proc/self/fd").iterdir())) <= before + MAX_OPEN_FILES


def test_what_root_writes_belongs_to_the_owner_of_the_directory(tmp_path: Path) -> None:
    """As in a repair: what the service could not read afterwards, it would take for damage."""
    directory = tmp_path / "journal"
    directory.mkdir(mode=0o700)
    if os.geteuid() == 0:
        os.chown(directory, 12_345, 12_345)
    disk = DirectoryDisk(directory)
    disk.create("a", 4096)
    disk.close()
    owner = directory.stat().st_uid
    assert {path.name: path.stat().st_uid for path in directory.iterdir()} == {"a": owner, "lock": owner}

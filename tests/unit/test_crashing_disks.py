"""The two models of a disk that crashes agree on what survives."""

import errno
import os
import random
from pathlib import Path

import pytest

from runtime.durable_files import replace_file
from tests.support.crashing_folder import CrashingFolder
from tests.support.simulated_disk import SimulatedDisk

OLD, NEW = b"o" * 2048, b"n" * 2048


def _after_a_failed_sync() -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.create("file", len(OLD))
    disk.write("file", 0, OLD)
    disk.sync("file")
    disk.sync_names()
    disk.write("file", 0, NEW)
    disk.fault = lambda operation, _: errno.EIO if operation == "sync" else None
    with pytest.raises(OSError, match="Input/output"):
        disk.sync("file")
    disk.fault = lambda _operation, _name: None
    return disk


def test_what_a_failed_sync_dropped_is_read_but_no_later_sync_makes_it_durable() -> None:
    disk = _after_a_failed_sync()
    disk.sync("file")
    assert disk.read("file", 0, 4096) == NEW
    assert disk.after_power_loss(random.Random(1)).read("file", 0, 4096) != NEW


def test_what_is_written_again_after_a_failed_sync_becomes_durable() -> None:
    disk = _after_a_failed_sync()
    disk.write("file", 0, NEW)
    disk.sync("file")
    assert disk.after_power_loss(random.Random(1)).read("file", 0, 4096) == NEW


def test_pages_that_a_failed_sync_dropped_may_be_evicted() -> None:
    found = {bytes(_after_a_failed_sync().after_kill(random.Random(seed)).files["file"].content) for seed in range(9)}
    assert len(found) > 1


def test_two_folders_of_one_disk_share_its_space_and_sync_their_names_separately() -> None:
    disk = SimulatedDisk(capacity_bytes=1000)
    journal, archives = disk.folder("journal/"), disk.archive_folder("archives/")
    journal.create("segment", 900)
    with pytest.raises(OSError, match="No space"):
        archives.create("archive").write(bytes(200))
    journal.sync_names()
    assert {tuple(disk.after_power_loss(random.Random(seed)).files) for seed in range(9)} == {
        ("journal/segment",),
        ("journal/segment", "archives/archive"),
    }


def _write_in_place(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_RDWR)
    try:
        os.pwrite(descriptor, data, 0)
        os.fdatasync(descriptor)
    finally:
        os.close(descriptor)


def test_a_folder_keeps_what_was_synced_and_mixes_what_was_not(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "file").write_bytes(OLD)
    with CrashingFolder(tmp_path / "data") as folder:
        (folder.path / "file").write_bytes(NEW)
        chances = [random.Random(seed) for seed in range(9)]
        found = [folder.after_power_loss(tmp_path / str(n), chance) for n, chance in enumerate(chances)]
        assert len({(each / "file").read_bytes() for each in found}) > 1
        _write_in_place(folder.path / "file", NEW)
        assert (folder.after_power_loss(tmp_path / "last", chances[0]) / "file").read_bytes() == NEW


def test_a_folder_believes_a_failed_sync_only_after_the_bytes_are_written_again(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "file").write_bytes(OLD)
    with CrashingFolder(tmp_path / "data") as folder:
        folder.fault = lambda operation, _: errno.EIO if operation == "sync" else None
        with pytest.raises(OSError, match="Input/output"):
            _write_in_place(folder.path / "file", NEW)
        folder.fault = lambda _operation, _path: None
        os.sync()
        with (folder.path / "file").open("rb") as file:
            os.fsync(file.fileno())
        assert (folder.after_power_loss(tmp_path / "before", random.Random(1)) / "file").read_bytes() != NEW
        _write_in_place(folder.path / "file", NEW)
        assert (folder.after_power_loss(tmp_path / "after", random.Random(1)) / "file").read_bytes() == NEW


def test_a_name_in_a_folder_may_vanish_until_its_directory_is_synced(tmp_path: Path) -> None:
    with CrashingFolder(tmp_path / "data") as folder:
        (folder.path / "loose").write_bytes(OLD)
        seen = {(folder.after_power_loss(tmp_path / f"a{n}", random.Random(n)) / "loose").exists() for n in range(9)}
        replace_file(folder.path / "whole", NEW)
        found = [folder.after_power_loss(tmp_path / f"b{n}", random.Random(n)) for n in range(9)]
    assert seen == {True, False}
    assert {(each / "whole").read_bytes() for each in found} == {NEW}
    assert all((each / "loose").exists() for each in found), "the same sync made this name durable, too"

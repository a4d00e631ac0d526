"""Promise 3 of the journal: a full disk costs the least important records, and heals by itself when space returns."""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.errors import StorageError
from agent.journal import DirectoryDisk, Disk, Entry, Journal, JournalSettings, Record
from agent.journal.repair import verify
from protocol.losses import Cause
from tests.support.simulated_disk import SimulatedDisk

NOW_MS = 1_700_000_000_000
DISK_BYTES = 1 << 20
SEGMENT_BYTES = 64 * 1024
READINGS = [1 + at % 5 for at in range(20)]  # of the messages of a batch
SETTINGS = JournalSettings(max_bytes=8 << 20, segment_bytes=SEGMENT_BYTES, compression="none", spare_segments=1)


class SmallDisk:
    """One megabyte that something else can fill: a real file system where one may be mounted, else a simulated one."""

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory
        self._simulated = SimulatedDisk(capacity_bytes=DISK_BYTES)
        self._opened: list[DirectoryDisk] = []

    def open(self) -> Disk:
        if self._directory is None:
            return self._simulated
        self._opened.append(DirectoryDisk(self._directory / "journal"))
        return self._opened[-1]

    def close(self) -> None:
        """Let go of what journals that were not closed hold open."""
        for disk in self._opened:
            disk.close()

    def fill(self, leave_bytes: int = 0) -> None:
        """Take all the free space but `leave_bytes` for something that is not the journal."""
        if self._directory is None:
            self._simulated.capacity_bytes = self._simulated.used_bytes + leave_bytes
            return
        ballast = os.open(self._directory / "ballast", os.O_CREAT | os.O_WRONLY)
        free = os.statvfs(self._directory)
        os.posix_fallocate(ballast, 0, max(1, free.f_bavail * free.f_bsize - leave_bytes))
        os.close(ballast)

    def free(self) -> None:
        self._simulated.capacity_bytes = DISK_BYTES
        if self._directory is not None:
            (self._directory / "ballast").unlink()


def _mount(directory: Path) -> bool:
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(directory)]
    with contextlib.suppress(FileNotFoundError):
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    return False


@pytest.fixture(params=["file system", "simulated"])
def small_disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SmallDisk]:
    if request.param == "simulated" or not _mount(tmp_path):
        yield SmallDisk(None)
        return
    disk = SmallDisk(tmp_path)
    try:
        yield disk
    finally:
        disk.close()
        subprocess.run(["umount", "--lazy", str(tmp_path)], check=True)


def _open(disk: SmallDisk) -> Journal:
    return Journal(disk.open(), SETTINGS, new_journal_id=5, now_ms=NOW_MS)


def _commit(journal: Journal, lane: int, batches: int) -> None:
    for number in range(batches):
        journal.append_many(lane, [_entry(f"{lane}/{number}/{at}/", number, at) for at in range(len(READINGS))])
        journal.commit(NOW_MS)


def _entry(text: str, number: int, at: int) -> Entry:
    return Entry(text.encode().ljust(900, b"x"), "chain", number, at, READINGS[at])


def _readings(records: list[Record]) -> int:
    return sum(record.readings for record in records)


def _depth(journal: Journal) -> int:
    return journal.stats(NOW_MS).cursors["publisher"].depth


def _read_all(journal: Journal) -> list[Record]:
    cursor = journal.cursor("publisher")
    cursor.rewind()
    records: list[Record] = []
    while taken := cursor.take(1000):
        records += taken
    return records


def test_a_full_disk_sheds_the_least_important_and_tells_of_every_loss(small_disk: SmallDisk) -> None:
    journal = _open(small_disk)
    _commit(journal, 0, 5)
    _commit(journal, 6, 15)
    small_disk.fill()
    _commit(journal, 0, 12)
    _commit(journal, 6, 5)
    records = _read_all(journal)
    assert sum(record.lane == 0 for record in records) == 17 * 20, "what is important was shed"
    gaps = journal.pending_losses()
    assert gaps
    assert {gap.loss.lane for gap in gaps} == {6}
    assert {gap.loss.cause for gap in gaps} <= {Cause.SHED, Cause.JOURNAL_FULL}
    assert _readings(records) + sum(gap.loss.count for gap in gaps) == 37 * sum(READINGS)


def test_a_full_disk_damages_nothing_and_the_journal_opens_on_it(small_disk: SmallDisk) -> None:
    journal = _open(small_disk)
    _commit(journal, 3, 10)
    small_disk.fill()
    _commit(journal, 3, 30)
    journal.close(NOW_MS)
    journal = _open(small_disk)
    _commit(journal, 3, 10)
    depth = _depth(journal)
    records = _read_all(journal)
    assert _readings(records) == depth
    journal.close(NOW_MS)
    verdict = verify(small_disk.open())
    assert verdict.is_sound
    assert (verdict.records, verdict.known) == (len(records), ())


def test_the_journal_grows_again_by_itself_when_space_returns(small_disk: SmallDisk) -> None:
    journal = _open(small_disk)
    _commit(journal, 3, 10)
    small_disk.fill()
    _commit(journal, 3, 30)
    shed = journal.stats(NOW_MS).shed_readings
    assert shed > 0
    small_disk.free()
    before = _depth(journal)
    _commit(journal, 3, 15)
    assert journal.stats(NOW_MS).shed_readings <= shed + 4 * sum(
        READINGS
    )  # one segment at the most, begun while the disk was full
    assert _depth(journal) >= before + 11 * sum(READINGS)


def test_a_new_journal_on_a_full_disk_opens_and_works_once_there_is_room(small_disk: SmallDisk) -> None:
    small_disk.fill()
    journal = _open(small_disk)
    journal.append(0, Entry(b"kept in memory", "chain", 1, 1))
    with pytest.raises(StorageError):
        journal.commit(NOW_MS)
    small_disk.free()
    journal.commit(NOW_MS)
    assert [record.payload for record in _read_all(journal)] == [b"kept in memory"]
    journal.close(NOW_MS)
    assert [record.payload for record in _read_all(_open(small_disk))] == [b"kept in memory"]

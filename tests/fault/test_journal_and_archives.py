"""The journal and its archives on one disk: crashed together, and filled together."""

import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace

import pytest
from nacl.signing import SigningKey

from agent.archive.archiver import Archiver, ArchiverSettings
from agent.archive.reading import to_archive_record
from agent.archive.settings import reserve_bytes
from agent.archive.store import ArchiveStore
from agent.errors import StorageError
from agent.journal import Entry, Journal, JournalSettings, PendingLoss
from agent.keys import DeviceKeys
from protocol.archive.records import Record
from protocol.losses import Loss
from tests.effort import seeds
from tests.support.archives import read_archive
from tests.support.device_logs import make_receipt
from tests.support.simulated_disk import SimulatedDisk

CURSOR = "archive"
LANES = (0, 4)
NOW_MS = 1_700_000_000_000
KEYS = DeviceKeys.generate(lambda count: b"\x11" * count)
COLLECTOR = SigningKey(b"c" * 32)
SETTINGS = JournalSettings(
    max_bytes=4 << 20, segment_bytes=64 * 1024, cursors=(CURSOR,), compression="none", spare_segments=1
)


class CrashError(Exception):
    pass


class Gateway:
    """Journal, archiver and shipping of one device, as `agent.archive.stage` wires them, in one thread."""

    def __init__(self, disk: SimulatedDisk, settings: JournalSettings, collected: dict[str, bytes]) -> None:
        self.collected = collected
        self.settings = settings
        self.journal = Journal(disk.folder("journal/"), settings, new_journal_id=9, now_ms=NOW_MS)
        self.cursor = self.journal.cursor(CURSOR)
        self.folder = disk.archive_folder("archives/")
        self.store = ArchiveStore(self.folder, b"journal-of-tests")
        for lane, position in self.store.stated_positions().items():
            self.journal.advance_to(lane, position, NOW_MS)
        using = ArchiverSettings(reserve_bytes=reserve_bytes(settings), max_text_bytes=100_000)
        self.archiver = Archiver(self.store, self.folder, KEYS, using)
        self._acknowledge()

    def write(self, lane: int, sequence: int, count: int, size: int = 700) -> range:
        """So many messages, of one to four readings; gives the positions of all these readings."""
        entries = [
            Entry(b"%d " % at + bytes(size), "chain", NOW_MS, at, 1 + at % 4)
            for at in range(sequence, sequence + count)
        ]
        positions = self.journal.append_many(lane, entries)
        self.journal.commit(NOW_MS)
        return range(positions[0], positions[-1] + entries[-1].readings)

    def archive(self) -> bool:
        self.cursor.rewind()
        self.cursor.note_copied(self.store.state.copied_up_to())
        made = self.archiver.archive(self._records(), self._losses, now_ms=NOW_MS)
        return made is not None

    def _records(self) -> Iterator[Record]:
        while taken := self.cursor.take(50):
            yield from map(to_archive_record, taken)

    def _losses(self) -> list[Loss]:
        return [gap.loss for gap in self.journal.pending_losses() if not self._is_archived(gap)]

    def _is_archived(self, gap: PendingLoss) -> bool:
        loss = gap.loss
        is_covered = self.store.state.covers(loss.lane, loss.first_position, loss.last_position)
        return CURSOR in gap.copied_by and is_covered

    def ship(self) -> None:
        for archive in self.store.state.kept[:1]:
            self.collected[archive.file_name] = self.folder.read(archive.file_name, 0, archive.size_bytes)
            receipt = make_receipt(
                archive=archive.sha256, size_bytes=archive.size_bytes, device=KEYS.address, key=COLLECTOR
            )
            self.store.release(receipt, device=KEYS.address, collector_key=bytes(COLLECTOR.verify_key))
            self.archiver.restore_reserve()
            for number in archive.losses:
                self.journal.acknowledge_loss(number)
        self._acknowledge()

    def _acknowledge(self) -> None:
        lanes = self.journal.stats(NOW_MS).lanes
        for lane, position in self.store.state.released_up_to().items():
            if lane in lanes and 0 <= position < lanes[lane].next_position:
                self.cursor.acknowledge(lane, position)
        with suppress(StorageError):
            self.journal.tick(NOW_MS)


def _contents(collected: dict[str, bytes]) -> tuple[Counter[tuple[int, int]], set[tuple[int, int]]]:
    """How often each position is at the collector, and the positions that manifests report as lost."""
    records: Counter[tuple[int, int]] = Counter()
    lost: set[tuple[int, int]] = set()
    for data in collected.values():
        archive, found = read_archive(data)
        records.update((each.lane, at) for each in found for at in range(each.position, each.position + each.readings))
        for loss in archive.manifest.losses:
            lost.update((loss.lane, at) for at in range(loss.first_position, loss.last_position + 1))
    return records, lost


@pytest.mark.parametrize("has_min_free", [False, True], ids=["journal takes all", "journal leaves some"])
def test_on_a_full_disk_archives_and_journal_let_each_other_go_on(has_min_free: bool) -> None:
    disk = SimulatedDisk(capacity_bytes=2 << 20)
    using = replace(SETTINGS, when_full="stop_reading", positions_interval_ms=0)
    if has_min_free:
        using = replace(using, min_free_bytes=reserve_bytes(using))
    gateway = Gateway(disk, using, {})
    written = 0
    with suppress(StorageError):
        while True:
            written = gateway.write(4, written, 20).stop
    for _ in range(200):
        with suppress(StorageError):
            gateway.archive()
        gateway.ship()
        if disk.free_bytes() > reserve_bytes(using):
            break
    gateway.journal.commit(NOW_MS)
    written = gateway.write(4, written, 20).stop  # behind those that were refused, which waited
    for _ in range(200):
        with suppress(StorageError):
            gateway.archive()
        gateway.ship()
    records, lost = _contents(gateway.collected)
    assert records == Counter({(4, position): 1 for position in range(written)})
    assert lost == set()


def _crash_after(operations: int) -> Callable[[], None]:
    left = iter(range(operations))

    def count() -> None:
        if next(left, None) is None:
            raise CrashError

    return count


@pytest.mark.parametrize("seed", seeds(test=3, soak=2000))
def test_journal_and_archives_that_crash_together_deliver_everything_committed_once(seed: int) -> None:
    chance = random.Random(seed)
    using = replace(SETTINGS, max_bytes=512 * 1024, positions_interval_ms=0)
    disk, collected = SimulatedDisk(), dict[str, bytes]()
    committed: set[tuple[int, int]] = set()
    sequence = 0
    for _life in range(12):
        disk.before_each = _crash_after(chance.randint(5, 250))
        try:
            gateway = Gateway(disk, using, collected)
            while True:
                match chance.choice(("write", "write", "archive", "ship")):
                    case "write":
                        lane = chance.choice(LANES)
                        sequence += 20
                        committed.update((lane, at) for at in gateway.write(lane, sequence, 20))
                    case "archive":
                        gateway.archive()
                    case _:
                        gateway.ship()
        except CrashError:
            disk = disk.after_power_loss(chance) if chance.random() < 0.6 else disk.after_kill(chance)
    gateway = Gateway(disk, using, collected)
    while gateway.archive():
        gateway.ship()
    while gateway.store.state.kept:
        gateway.ship()
    records, lost = _contents(collected)
    assert set(records.values()) <= {1}, "a record is in two archives"
    assert committed <= set(records) | lost
    used = {(lane, at) for lane in LANES for at in range(gateway.journal.durable_position(lane))}
    assert used == set(records) | lost, "each position is that of a reading or is in a loss"

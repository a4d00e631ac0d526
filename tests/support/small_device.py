"""A journal on a disk in memory, its archives in a folder, and a collector that is a dictionary."""

from collections.abc import Callable, Iterator
from pathlib import Path

from nacl.signing import SigningKey

from agent.archive.settings import ARCHIVE_CURSOR, ArchiveConfig
from agent.archive.stage import Archiving
from agent.archive.state import KeptArchive
from agent.clock import SystemClock
from agent.journal import Entry, Journal, JournalSettings, PendingLoss
from agent.journal.thread import JournalThread
from agent.keys import DeviceKeys
from protocol.devicelog.checkpoint import Checkpoint, Relation
from protocol.losses import Loss
from tests.support.archives import read_archive
from tests.support.device_logs import make_receipt
from tests.support.journal_helpers import settings
from tests.support.simulated_disk import SimulatedDisk

LANE = 4
MAX_ARCHIVES = 40  # that one test leaves waiting
COLLECTOR = SigningKey(b"c" * 32)
KEYS = DeviceKeys.generate(lambda count: b"\x11" * count)


class SmallDevice:
    """Has room for a few segments only, so that much of what is written is shed."""

    def __init__(self, folder: Path, using: JournalSettings | None = None) -> None:
        self.disk = SimulatedDisk()
        self.collected: dict[str, bytes] = {}
        self.stated: list[Checkpoint] = []
        self.written = 0
        self._folder = folder
        self._settings = using or settings(segments=6, compression="none", cursors=("out", ARCHIVE_CURSOR))
        self._open()

    def _open(self) -> None:
        clock = SystemClock()
        self.journal = Journal(self.disk, self._settings, new_journal_id=5, now_ms=0)
        self._thread = JournalThread(self.journal, clock)
        config = ArchiveConfig(every_s=1)
        self.archiving = Archiving(
            config, self._folder, self._thread, bytes(16), KEYS, clock, configuration=lambda: bytes(32)
        )

    async def restart(self, harm: Callable[[SimulatedDisk], None] | None = None) -> None:
        await self.close()
        if harm is not None:
            harm(self.disk)
        self._open()

    async def close(self) -> None:
        await self.archiving.close()
        await self._thread.close()

    def write(self, count: int) -> None:
        entries = [Entry(b"%d" % at + bytes(900), f"chain {at % 2}", 1000 + at, 0) for at in self._next(count)]
        self.journal.append_many(LANE, entries)
        self.journal.commit(0)

    def _next(self, count: int) -> Iterator[int]:
        for _ in range(count):
            yield self.written
            self.written += 1

    def rot(self, where: int) -> None:
        """One bit of what stands in a segment."""
        written = [
            (file.content, offset)
            for name, file in sorted(self.disk.files.items())
            if name.endswith(".segment")
            for offset, value in enumerate(file.content)
            if value
        ]
        content, offset = written[where % len(written)]
        content[offset] ^= 1

    async def rot_archive(self) -> None:
        """The oldest that waits is found damaged."""
        for archive in self.archiving.kept[:1]:
            await self.archiving.archive_again(archive)

    async def ship(self) -> None:
        """The oldest that waits; then the journal may forget what it need not tell any more."""
        for archive in self.archiving.kept[:1]:
            self.collected[archive.file_name] = self.read(archive)
            receipt = make_receipt(
                archive=archive.sha256, size_bytes=archive.size_bytes, device=KEYS.address, key=COLLECTOR
            )
            assert await self.archiving.release(receipt, bytes(COLLECTOR.verify_key)) == archive
        for gap in filter(self.archiving.is_receipted, self.gaps):
            self.journal.acknowledge_loss(gap.number)

    async def state_checkpoint(self) -> None:
        """A checkpoint states at least what the last one of the same log did."""
        checkpoint = await self.archiving.checkpoint()
        last = self.stated[-1] if self.stated else checkpoint
        if checkpoint.log == last.log:
            assert checkpoint.relation_to(last) in (Relation.NEWER, Relation.EQUAL)
        self.stated.append(checkpoint)

    def publish(self) -> None:
        """The other reader meets what there is on its own way, and is never acknowledged."""
        cursor = self.journal.cursor("out")
        while cursor.take(1000):
            pass
        cursor.rewind()

    async def settle(self) -> None:
        for _ in range(MAX_ARCHIVES):
            await self.archiving.archive_all()
            await self.ship()

    def read(self, archive: KeptArchive) -> bytes:
        return (self._folder / archive.file_name).read_bytes()

    def losses_in(self, archive: KeptArchive) -> tuple[Loss, ...]:
        return read_archive(self.read(archive))[0].manifest.losses

    @property
    def gaps(self) -> tuple[PendingLoss, ...]:
        return self.journal.pending_losses()

    def reported(self) -> list[Loss]:
        """What the manifests at the collector tell."""
        return [loss for data in self.collected.values() for loss in read_archive(data)[0].manifest.losses]

    def unaccounted(self) -> set[int]:
        """Positions of which the collector has neither the record nor the loss."""
        there = {record.position for data in self.collected.values() for record in read_archive(data)[1]}
        for loss in self.reported():
            there.update(range(loss.first_position, loss.last_position + 1))
        return set(range(self.written)) - there

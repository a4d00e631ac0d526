"""Turn journal records into archive files.

The journal deletes what an archive holds, and on a full disk no archive could be written: so space for one is
reserved in a file of its own. It is used when nothing else waits for a receipt, for an archive that is small enough,
and reserved again when the disk has space.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass

from nacl.public import PublicKey

from agent.archive.state import KeptArchive
from agent.archive.store import ENCRYPTED_SUFFIX, PLAIN_SUFFIX, RESERVE_NAME, ArchiveStore, Directory, NewFile
from agent.errors import StorageError
from agent.keys import DeviceKeys
from protocol.archive.encryption import Encryptor, derive_encryption_keys
from protocol.archive.header import Header
from protocol.archive.manifest import LaneEntry
from protocol.archive.records import Record
from protocol.archive.writer import ArchiveWriter
from protocol.devicelog.entry import LogEntry
from protocol.losses import Loss
from protocol.reference import MAX_TIMESTAMP_MS

PLAIN_NAME = ".writing"
ENCRYPTED_NAME = ".encrypting"
COPY_BYTES = 256 * 1024
MEBI = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiverSettings:
    max_text_bytes: int = 64 * MEBI  # of the messages in one archive; then it is closed and the next begins
    max_records: int = 200_000
    encrypt_to: PublicKey | None = None  # the collector's key; None leaves archives readable
    min_free_bytes: int = 0  # of the disk: with less than this, no archive is begun while another one waits
    reserve_bytes: int = 0  # reserved for one archive on a full disk


class Archiver:
    """Writes one archive at a time from records in the order of the journal."""

    def __init__(self, store: ArchiveStore, directory: Directory, keys: DeviceKeys, settings: ArchiverSettings) -> None:
        self._store = store
        self._directory = directory
        self._keys = keys
        self._settings = settings
        self._must_recover = False
        self._max_text_bytes = settings.max_text_bytes  # of the next archive, by the free space
        self.restore_reserve()

    def archive(
        self,
        records: Iterator[Record],
        losses: Callable[[], Iterable[Loss]],
        *,
        now_ms: int,
        read_up_to: Callable[[], Mapping[int, int]] = dict,
    ) -> KeptArchive | None:
        """One more archive of what is not archived yet, or None if there is nothing.

        It consumes from `records` what fits into one archive and not one more: call it again until it returns None.
        `losses` is called after the records were read, so that damage found among them is reported in the same archive;
        losses in an archive that waits for its receipt are left out. `read_up_to` is called then too: lane → the
        position before which nothing more comes from `records`, so that the archive covers what was lost at the end.
        When it returns, the archive is durable under its final name. Raises: StorageError if the disk fails; then call
        it again, with records from the last known position.
        """
        if self._must_recover:
            self._recover()
        wanted = (record for record in records if self._store.state.is_wanted(record.lane, record.position))
        first = next(wanted, None)
        if first is None and not self._unreported(losses) and not self._store.state.is_replaced(read_up_to()):
            return None
        if self._store.is_full:
            raise StorageError(
                f"{len(self._store.state.kept)} archives wait for a receipt, which is the limit; ship them"
            )
        try:
            self._free_space()
            return self._write(first, wanted, losses, read_up_to, now_ms)
        except OSError as error:
            self._must_recover = True
            with suppress(StorageError):  # the first failure is the one to report
                self._recover()
            raise StorageError(f"archiving failed: {error.strerror or error}") from error

    def restore_reserve(self) -> None:
        """Reserve the space for one archive, unless the disk has none."""
        if self._settings.reserve_bytes:
            with suppress(OSError):
                self._directory.reserve(RESERVE_NAME, self._settings.reserve_bytes)

    def _free_space(self) -> None:
        """Limit the next archive to the free space. Raises: StorageError if there is too little, OSError.

        With too little space, a small archive may still be written into the reserve if no other one waits for its
        receipt. Otherwise the journal, which releases what was received, and the archiver, which needs the space that
        the journal releases, would wait for each other.
        """
        settings, free_bytes = self._settings, self._directory.free_bytes()
        required_bytes = settings.min_free_bytes + settings.reserve_bytes
        if free_bytes >= required_bytes:
            self.restore_reserve()
            self._max_text_bytes = min(settings.max_text_bytes, max(free_bytes // 2, settings.reserve_bytes // 4))
        elif settings.reserve_bytes and not self._store.state.kept:
            self._directory.remove(RESERVE_NAME)
            self._max_text_bytes = settings.reserve_bytes // 4
        else:
            raise StorageError(
                f"{free_bytes >> 20} MiB of the disk are free, {required_bytes >> 20} MiB must stay free; ship archives"
            )

    def _recover(self) -> None:
        """Load the state from the disk again after a failed write. Raises: StorageError."""
        try:
            self._store.recover()
        except OSError as error:
            raise StorageError(f"archiving failed: {error.strerror or error}") from error
        self._must_recover = False

    def _unreported(self, losses: Callable[[], Iterable[Loss]]) -> list[Loss]:
        reported = self._store.state.reported_losses()
        return [loss for loss in losses() if loss.number not in reported]

    def _write(
        self,
        first: Record | None,
        rest: Iterator[Record],
        losses: Callable[[], Iterable[Loss]],
        read_up_to: Callable[[], Mapping[int, int]],
        now_ms: int,
    ) -> KeptArchive:
        created_at_ms = min(max(now_ms, 0), MAX_TIMESTAMP_MS)  # the clock may be anywhere
        header = Header(
            binding=self._keys.binding, journal_id=self._store.state.journal_id, created_at_ms=created_at_ms
        )
        writer = ArchiveWriter(header, sign=self._keys.sign_archive)
        with closing(self._directory.create(PLAIN_NAME)) as file:
            file.write(writer.begin())
            if first is not None:
                self._add_records(writer, file, first, rest)
            reported = _add_losses(writer, self._unreported(losses))
            entry = self._store.state.next_entry(_furthest(read_up_to(), writer.reached))
            file.write(writer.finish(entry))
            file.sync()
        return self._publish(writer, entry, reported)

    def _add_records(self, writer: ArchiveWriter, file: NewFile, first: Record, rest: Iterator[Record]) -> None:
        """Add records up to the limits, which are checked before the next record is consumed, so that none is lost."""
        text_bytes = len(first.text)
        file.write(writer.add(first))
        while not (
            writer.is_full
            or writer.records >= self._settings.max_records
            or text_bytes >= self._max_text_bytes
            or (record := next(rest, None)) is None
        ):
            text_bytes += len(record.text)
            file.write(writer.add(record))

    def _encrypt(self, collector: PublicKey, plain_sha256: bytes, plain_size: int) -> tuple[bytes, int]:
        """Write the encrypted copy of the plain file. Its digest and size."""
        secret = self._keys.derive(b"sealing")
        encryptor = Encryptor(derive_encryption_keys(secret.reveal(), plain_sha256, collector), collector)
        sha256, size_bytes = hashlib.sha256(), 0
        with closing(self._directory.create(ENCRYPTED_NAME)) as file:
            for piece in self._encrypted_pieces(encryptor, plain_size):
                sha256.update(piece)
                size_bytes += len(piece)
                file.write(piece)
            file.sync()
        return sha256.digest(), size_bytes

    def _encrypted_pieces(self, encryptor: Encryptor, plain_size: int) -> Iterator[bytes]:
        yield encryptor.begin()
        for offset in range(0, plain_size, COPY_BYTES):
            yield encryptor.update(self._directory.read(PLAIN_NAME, offset, COPY_BYTES))
        yield encryptor.finish()

    def _publish(self, writer: ArchiveWriter, entry: LogEntry, losses: tuple[int, ...]) -> KeptArchive:
        temporary, suffix, sha256, size_bytes = PLAIN_NAME, PLAIN_SUFFIX, writer.sha256, writer.size_bytes
        if self._settings.encrypt_to is not None:
            temporary, suffix = ENCRYPTED_NAME, ENCRYPTED_SUFFIX
            sha256, size_bytes = self._encrypt(self._settings.encrypt_to, sha256, size_bytes)
            self._directory.remove(PLAIN_NAME)
        archive = KeptArchive(
            file_name=sha256.hex() + suffix,
            sha256=sha256,
            size_bytes=size_bytes,
            entry=entry,
            losses=losses,
            lost=_count_lost(entry, writer.lanes),
        )
        self._store.publish(temporary, archive)
        return archive


def _furthest(*positions: Mapping[int, int]) -> dict[int, int]:
    lanes = {lane for each in positions for lane in each}
    return {lane: max(each.get(lane, 0) for each in positions) for lane in lanes}


def _count_lost(entry: LogEntry, lanes: Iterable[LaneEntry]) -> tuple[tuple[int, int], ...]:
    """Lane, and how many of the readings that an archive covers there are not in it."""
    readings = {lane.lane: lane.readings for lane in lanes}
    counts = ((each.lane, each.next - each.first - readings.get(each.lane, 0)) for each in entry.lanes)
    return tuple((lane, count) for lane, count in counts if count)


def _add_losses(writer: ArchiveWriter, losses: list[Loss]) -> tuple[int, ...]:
    """Add as many as fit, by rising number. Returns their numbers."""
    added = []
    for loss in sorted(losses, key=lambda loss: loss.number):
        if writer.is_full:
            break
        writer.add_loss(loss)
        added.append(loss.number)
    return tuple(added)

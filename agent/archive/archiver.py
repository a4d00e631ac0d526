"""Turn journal records into archive files."""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass

from nacl.public import PublicKey

from agent.archive.directory import Directory, NewFile
from agent.archive.state import KeptArchive
from agent.archive.store import PLAIN_SUFFIX, SEALED_SUFFIX, ArchiveStore
from agent.errors import StorageError
from agent.keys import DeviceKeys
from protocol.archive import ArchiveWriter, Header, LaneEntry, Loss, Record, Sealer, derive_sealing_keys
from protocol.reference import MAX_TIMESTAMP_MS

PLAIN_NAME = ".writing"
SEALED_NAME = ".sealing"
COPY_BYTES = 256 * 1024
MEBI = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiverSettings:
    max_text_bytes: int = 64 * MEBI  # of the messages in one archive; then it is closed and the next begins
    max_records: int = 200_000
    seal_to: PublicKey | None = None  # the collector's key; None leaves archives readable
    leave_free_bytes: int = 0  # of the disk: with less than this, no archive is begun


class Archiver:
    """Writes one archive at a time from records in the order of the journal."""

    def __init__(self, store: ArchiveStore, directory: Directory, keys: DeviceKeys, settings: ArchiverSettings) -> None:
        self._store = store
        self._directory = directory
        self._keys = keys
        self._settings = settings
        self._must_recover = False

    def archive(
        self, records: Iterator[Record], losses: Callable[[], Iterable[Loss]], *, now_ms: int
    ) -> KeptArchive | None:
        """One more archive of what is not archived yet, or None if there is nothing.

        It takes from `records` what fits into one archive and not one more: call it again until it gives None. `losses`
        is asked when the records are read, so that what was found damaged among them is told in the same archive; what
        an archive that waits for its receipt tells of is left out. When it returns, the archive is durable under its
        final name. Raises: StorageError if the disk fails; then call it again, with records from the last known
        position.
        """
        if self._must_recover:
            self._recover()
        fresh = (record for record in records if not self._store.is_archived(record.lane, record.position))
        first = next(fresh, None)
        if first is None and not self._untold(losses):
            return None
        if self._store.is_full:
            raise StorageError(f"{len(self._store.state.kept)} archives wait for a receipt; ship them")
        try:
            self._check_room()
            return self._write(first, fresh, losses, now_ms)
        except OSError as error:
            self._must_recover = True
            with suppress(StorageError):  # the first failure is the one to tell
                self._recover()
            raise StorageError(f"archiving failed: {error.strerror or error}") from error

    def _check_room(self) -> None:
        """Archives wait as long as no receipt comes, and must not take the room that all others need to go on."""
        free_bytes, wanted_bytes = self._directory.free_bytes(), self._settings.leave_free_bytes
        if free_bytes < wanted_bytes:
            raise StorageError(
                f"{free_bytes >> 20} MiB of the disk are free, and {wanted_bytes >> 20} are to be left; ship archives"
            )

    def _recover(self) -> None:
        """Only the disk knows how far a failed write got."""
        try:
            self._store.recover()
        except OSError as error:
            raise StorageError(f"archiving failed: {error.strerror or error}") from error
        self._must_recover = False

    def _untold(self, losses: Callable[[], Iterable[Loss]]) -> list[Loss]:
        told = self._store.state.told_losses()
        return [loss for loss in losses() if loss.number not in told]

    def _write(
        self, first: Record | None, rest: Iterator[Record], losses: Callable[[], Iterable[Loss]], now_ms: int
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
            told = _add_losses(writer, self._untold(losses))
            file.write(writer.finish())
            file.sync()
        if self._settings.seal_to is None:
            return self._publish(PLAIN_NAME, writer.sha256, writer.size_bytes, writer.lanes, told)
        sha256, size_bytes = self._seal(self._settings.seal_to, writer.sha256, writer.size_bytes)
        self._directory.remove(PLAIN_NAME)
        return self._publish(SEALED_NAME, sha256, size_bytes, writer.lanes, told)

    def _add_records(self, writer: ArchiveWriter, file: NewFile, first: Record, rest: Iterator[Record]) -> None:
        """Limits are looked at before the next record is taken, so that none is taken and left out."""
        text_bytes = len(first.text)
        file.write(writer.add(first))
        while not (
            writer.is_full
            or writer.records >= self._settings.max_records
            or text_bytes >= self._settings.max_text_bytes
            or (record := next(rest, None)) is None
        ):
            text_bytes += len(record.text)
            file.write(writer.add(record))

    def _seal(self, collector: PublicKey, plain_sha256: bytes, plain_size: int) -> tuple[bytes, int]:
        """Write the sealed copy of the plain file. Its digest and size."""
        secret = self._keys.derive(b"sealing")
        sealer = Sealer(derive_sealing_keys(secret.reveal(), plain_sha256, collector), collector)
        sha256, size_bytes = hashlib.sha256(), 0
        with closing(self._directory.create(SEALED_NAME)) as file:
            for piece in self._sealed_pieces(sealer, plain_size):
                sha256.update(piece)
                size_bytes += len(piece)
                file.write(piece)
            file.sync()
        return sha256.digest(), size_bytes

    def _sealed_pieces(self, sealer: Sealer, plain_size: int) -> Iterator[bytes]:
        yield sealer.begin()
        for offset in range(0, plain_size, COPY_BYTES):
            yield sealer.update(self._directory.read(PLAIN_NAME, offset, COPY_BYTES))
        yield sealer.finish()

    def _publish(
        self, temporary: str, sha256: bytes, size_bytes: int, lanes: tuple[LaneEntry, ...], told: tuple[int, ...]
    ) -> KeptArchive:
        suffix = PLAIN_SUFFIX if temporary == PLAIN_NAME else SEALED_SUFFIX
        archive = KeptArchive(
            file_name=sha256.hex() + suffix,
            sha256=sha256,
            size_bytes=size_bytes,
            lanes=lanes,
            losses=told,
            follows=self._store.state.last_archived(lanes),
        )
        self._store.publish(temporary, archive)
        return archive


def _add_losses(writer: ArchiveWriter, losses: list[Loss]) -> tuple[int, ...]:
    """As many as there is room for, by rising number. Their numbers."""
    added = []
    for loss in sorted(losses, key=lambda loss: loss.number):
        if writer.is_full:
            break
        writer.add_loss(loss)
        added.append(loss.number)
    return tuple(added)

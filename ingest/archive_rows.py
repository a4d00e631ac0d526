"""Decode one archive file into batches of rows: messages, which go their own way, quarantine, and one summary.

The file's name, header, manifest and signature are checked before anything in it is believed, and each block by the
digest that was signed. What fails is a row in quarantine and costs nothing else: a bad record its block's other records
nothing, a bad block the other blocks nothing, a bad archive the other archives nothing.
"""

import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, Final

import pyarrow as pa
from nacl.public import PrivateKey
from pyspark.sql.pandas.types import to_arrow_schema

from ingest.keyring import GroupKeys, Keyring
from ingest.reasons import Reason, Rejected
from ingest.records import ROW_COLUMNS, Decoded, Readers, decode_records
from ingest.schemas import DECODED, MESSAGES_IN_FILES
from ingest.spans import Span
from ingest.summary import DAMAGED, KNOWN, RETRIED, ArchiveSummary, ChainSummary, Correction, Notice
from protocol.archive import Block, BlockEntry, Loss, OpenArchive, Opener, Record, is_sealed, open_archive
from protocol.clock import ClockCorrection
from protocol.errors import Truncated, Unsupported, WireError
from protocol.events import GapNotice

__all__ = ["DECODED_SCHEMA", "MESSAGE_SCHEMA", "DecodeSettings", "TakeMessages", "decode_archive"]

MAX_QUARANTINED_BYTES: Final = 64 * 1024  # kept of a record or block; the whole stays in its archive
_NAMED_BY_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_QUARANTINE_COLUMNS: Final = (
    "record", "chain", "timestamp_ms", "sequence", "arrived_at", "offset", "records", "reason", "detail", "bytes",
)  # fmt: skip
DECODED_SCHEMA: Final = to_arrow_schema(DECODED, timezone="UTC")
MESSAGE_SCHEMA: Final = to_arrow_schema(MESSAGES_IN_FILES, timezone="UTC")
_readers: Final = Readers()

TakeMessages = Callable[[pa.RecordBatch], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeSettings:
    """What decoding depends on besides the archive. It travels to the workers."""

    devices: frozenset[str] | None = None  # addresses in lower case; None takes every device
    group_keys: GroupKeys = field(default_factory=dict, repr=False)
    unsealing_key: bytes | None = field(default=None, repr=False)
    known: dict[str, str] = field(default_factory=dict, repr=False)  # archives in the tables, with their verdicts


def decode_archive(
    path: str, data: bytes, landed_at_ms: int, settings: DecodeSettings, take_messages: TakeMessages
) -> Iterator[pa.RecordBatch]:
    """Rows of the decoded schema. Messages are handed over as they come, at most one block's at a time.

    Nothing about the file makes it raise.
    """
    file_digest = hashlib.sha256(data).hexdigest()
    summary = ArchiveSummary(archive=file_digest, path=path, landed_at_ms=landed_at_ms, size_bytes=len(data))
    rows = _RowBatches(summary)
    try:
        _check_name(path, file_digest)
        data = _unseal(data, settings.unsealing_key)
        summary.archive = hashlib.sha256(data).hexdigest()
        archive = _open(data)
        _describe(summary, archive)
        _check_device(archive, settings.devices)
    except Rejected as problem:
        summary.verdict = problem.reason
        if not _is_known(summary, settings):
            yield rows.quarantine([_whole_archive(problem, data)])
    else:
        if not _is_known(summary, settings):
            yield from _decode_blocks(archive, rows, Keyring(settings.group_keys), take_messages)
    yield rows.summary_row(KNOWN if _is_known(summary, settings) else summary.verdict)


def _is_known(summary: ArchiveSummary, settings: DecodeSettings) -> bool:
    """Whether the tables hold all that can be had of it. A verdict that another setting changes is looked at again."""
    known = settings.known.get(summary.archive)
    return known is not None and (known not in RETRIED or known == summary.verdict)


def _check_name(path: str, digest: str) -> None:
    named = PurePosixPath(path).name.split(".")[0]
    if _NAMED_BY_DIGEST.fullmatch(named) and named != digest:
        raise Rejected(Reason.ARCHIVE_MISNAMED, f"the file's digest is {digest}")


def _unseal(data: bytes, key: bytes | None) -> bytes:
    if not is_sealed(data):
        return data
    if key is None:
        raise Rejected(Reason.ARCHIVE_SEALED, "it is sealed, and no key was given")
    opener = Opener(PrivateKey(key))
    try:
        return b"".join(opener.feed(data)) + opener.finish()
    except Unsupported as error:
        raise Rejected(Reason.ARCHIVE_SEALED, str(error)) from None
    except WireError as error:
        raise _rejected_archive(error) from None


def _open(data: bytes) -> OpenArchive:
    try:
        return open_archive(lambda offset, count: data[offset : offset + count], len(data))
    except WireError as error:
        raise _rejected_archive(error) from None


def _rejected_archive(error: WireError) -> Rejected:
    match error:
        case Truncated():
            reason = Reason.ARCHIVE_TRUNCATED
        case Unsupported():
            reason = Reason.ARCHIVE_UNSUPPORTED
        case _:
            reason = Reason.ARCHIVE_CORRUPT
    return Rejected(reason, str(error), offset=error.offset)


def _describe(summary: ArchiveSummary, archive: OpenArchive) -> None:
    header, manifest = archive.header, archive.manifest
    summary.device = f"0x{header.binding.address.hex()}"
    summary.journal = header.journal_id.hex()
    summary.created_at_ms = header.created_at_ms
    summary.records = manifest.records


def _check_device(archive: OpenArchive, devices: frozenset[str] | None) -> None:
    device = f"0x{archive.header.binding.address.hex()}"
    if devices is not None and device not in devices:
        raise Rejected(Reason.DEVICE_UNKNOWN, f"{device} is not on the list of devices")


def _whole_archive(problem: Rejected, data: bytes) -> tuple[Any, ...]:
    """The file stays in the landing area, so its beginning is enough here."""
    detail = _storable(problem.detail)
    return (None, None, None, None, None, problem.offset, None, problem.reason, detail, data[:MAX_QUARANTINED_BYTES])


def _decode_blocks(
    archive: OpenArchive, rows: "_RowBatches", keyring: Keyring, take_messages: TakeMessages
) -> Iterator[pa.RecordBatch]:
    summary = rows.summary
    summary.chains = {entry.chain: ChainSummary(archived=entry.records) for entry in archive.manifest.chains}
    summary.notices = [_notice_of_loss(summary, loss) for loss in archive.manifest.losses]
    walk = _Walk(summary, keyring)
    for index, entry in enumerate(archive.manifest.blocks):
        try:
            block = archive.block(index)
        except WireError as error:
            summary.verdict = DAMAGED
            yield rows.quarantine([_whole_block(error, entry, archive)])
            continue
        valid, rejected = walk.decode_block(block)
        if valid:
            take_messages(rows.messages(valid))
        if rejected:
            yield rows.quarantine(rejected)
    walk.finish()


def _whole_block(error: WireError, entry: BlockEntry, archive: OpenArchive) -> tuple[Any, ...]:
    data = archive.read_at(entry.offset, min(entry.frame_bytes, MAX_QUARANTINED_BYTES))
    return (None, None, None, None, None, entry.offset, entry.records, Reason.BLOCK_DAMAGED, str(error), data)


def _notice_of_loss(summary: ArchiveSummary, loss: Loss) -> Notice:
    return Notice(
        journal=summary.journal or "",
        number=loss.number,
        chain=loss.chain,
        count=loss.count,
        first=loss.first and (loss.first.timestamp_ms, loss.first.sequence),
        last=loss.last and (loss.last.timestamp_ms, loss.last.sequence),
        cause=loss.reason,
    )


class _Walk:
    """The records of one archive in order: each is decoded, and its place in its chains is noted in the summary."""

    def __init__(self, summary: ArchiveSummary, keyring: Keyring) -> None:
        self._summary = summary
        self._device = summary.device or ""
        self._keyring = keyring
        self._runs: dict[str, _Run] = {}
        self._boots: dict[str, None] = {}
        self._links: dict[tuple[str, str | None], tuple[int, str]] = {}

    def decode_block(self, block: Block) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
        """The rows of its valid records and of its rejected ones."""
        valid, rejected = [], []
        decoded = decode_records(block.records, block.first_record, self._device, self._keyring, _readers)
        for number, (record, found) in enumerate(zip(block.records, decoded, strict=True), block.first_record):
            judged = self._check_chain(record, found) if isinstance(found, Decoded) else found
            if isinstance(judged, Rejected):
                rejected.append(_rejected_row(record, number, block.entry.offset, judged))
                self._note_rejected(record)
            else:
                valid.append((*judged.row, self._link(record.chain, judged)))
                self._note(record, judged)
        return valid, rejected

    def finish(self) -> None:
        for chain, run in self._runs.items():
            self._summary.chains[chain].spans.append(run.span())
        self._summary.boots = list(self._boots)
        if self._summary.verdict == DAMAGED:
            for found in self._summary.chains.values():
                found.damaged = max(0, found.archived - found.valid - found.rejected)

    def _check_chain(self, record: Record, decoded: Decoded) -> Decoded | Rejected:
        """A chain's name stands for one chain of messages."""
        run = self._runs.get(record.chain)
        if run is not None and run.identity != decoded.opened.identity:
            return Rejected(Reason.MISFILED, f"it is filed under a chain of {run.identity}")
        return decoded

    def _link(self, chain: str, decoded: Decoded) -> str:
        """How it goes on from the message before it in the ioMessage chain, where that is in this archive."""
        io = decoded.io
        if io is None or io.hash is None or io.chain_position is None:
            return "unsealed"
        name = (chain, io.publisher)
        before = self._links.get(name)
        self._links[name] = (io.chain_position, io.hash)
        if before is None or io.chain_position != before[0] + 1:
            return "first"
        if io.previous_hash == before[1]:
            return "linked"
        self._summary.chains[chain].forked += 1
        return "forked"

    def _note(self, record: Record, decoded: Decoded) -> None:
        chain = self._summary.chains[record.chain]
        chain.valid += 1
        run = self._runs.get(record.chain)
        if run is None:
            self._runs[record.chain] = _Run(decoded)
        elif not run.extend(decoded):
            chain.spans.append(run.span())
            chain.unordered |= decoded.opened.ref <= run.last
            self._runs[record.chain] = _Run(decoded)
        if decoded.boot is not None:
            self._boots.setdefault(decoded.boot)
        if decoded.event is not None:
            self._note_event(decoded.event)

    def _note_rejected(self, record: Record) -> None:
        chain = self._summary.chains[record.chain]
        chain.rejected += 1
        chain.held.append((record.timestamp_ms, record.sequence))

    def _note_event(self, event: GapNotice | ClockCorrection) -> None:
        if isinstance(event, ClockCorrection):
            self._summary.corrections.append(Correction(event.boot_id.hex(), event.monotonic_ms, event.offset_ms))
            return
        notice = Notice(
            journal=event.journal.hex(),
            number=event.number,
            chain=event.chain,
            count=event.count,
            first=event.first,
            last=event.last,
            cause=event.cause,
        )
        self._summary.notices.append(notice)


class _Run:
    """A span that grows."""

    __slots__ = ("counted", "first", "identity", "last", "last_hash", "positions", "previous", "previous_hash")

    def __init__(self, decoded: Decoded) -> None:
        self.identity, self.first, self.previous, _ = decoded.opened
        self.last = self.first
        io = decoded.io
        position = None if io is None or io.hash is None else io.chain_position
        self.counted = position is not None
        self.positions = [position, position]
        self.previous_hash = io.previous_hash if self.counted and io is not None else None
        self.last_hash = io.hash if self.counted and io is not None else None

    def extend(self, decoded: Decoded) -> bool:
        """Take the next message of the chain, unless it names another predecessor than the last one."""
        (_, ref, previous, _), io = decoded.opened, decoded.io
        if previous != self.last:
            return False
        self.last = ref
        position = None if io is None or io.hash is None else io.chain_position
        self.counted = self.counted and position == self.positions[1] + 1  # type: ignore[operator]  # counted: a number
        self.positions[1] = position
        self.last_hash = None if io is None else io.hash
        return True

    def span(self) -> Span:
        first_position, last_position = self.positions if self.counted else (None, None)
        return Span(
            self.first,
            self.last,
            self.previous,
            first_position,
            last_position,
            self.previous_hash,
            self.last_hash if self.counted else None,
        )


def _rejected_row(record: Record, number: int, offset: int, problem: Rejected) -> tuple[Any, ...]:
    return (
        number, record.chain, record.timestamp_ms, record.sequence, record.arrived_at_ms * 1000, offset, 1,
        problem.reason, _storable(problem.detail), record.text[:MAX_QUARANTINED_BYTES],
    )  # fmt: skip


def _storable(text: str) -> str:
    """Half a character of hostile input must not stop the table that tells of it."""
    return text.encode(errors="backslashreplace").decode()


class _RowBatches:
    """Lay rows out as Arrow batches of the decoded schema; what a kind of row lacks is null."""

    def __init__(self, summary: ArchiveSummary) -> None:
        self.summary = summary

    def messages(self, rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
        return self._batch(MESSAGE_SCHEMA, "message", (*ROW_COLUMNS, "link"), rows)

    def quarantine(self, rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
        return self._batch(DECODED_SCHEMA, "quarantine", _QUARANTINE_COLUMNS, rows)

    def summary_row(self, verdict: str) -> pa.RecordBatch:
        self.summary.verdict = verdict
        return self._batch(DECODED_SCHEMA, "summary", ("summary",), [(self.summary.to_json(),)])

    def _batch(
        self, schema: pa.Schema, kind: str, names: tuple[str, ...], rows: list[tuple[Any, ...]]
    ) -> pa.RecordBatch:
        columns = dict(zip(names, zip(*rows, strict=True), strict=True))
        summary = self.summary
        same = {
            "kind": kind,
            "archive": summary.archive,
            "path": summary.path,
            "device": summary.device,
            "landed_at": summary.landed_at_ms * 1000,
        }
        arrays = [_array(field, columns.get(field.name), same.get(field.name), len(rows)) for field in schema]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _array(field: pa.Field, column: tuple[Any, ...] | None, same: Any, count: int) -> pa.Array:
    if column is not None:
        return pa.array(column, field.type)
    return pa.nulls(count, field.type) if same is None else pa.repeat(pa.scalar(same, field.type), count)

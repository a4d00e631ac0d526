"""Decode one archive file into batches of rows: messages, which go their own way, quarantine, and one summary.

The file's name, header, manifest and signature are checked before anything in it is believed, and each block by the
digest that was signed. What fails is a row in quarantine and costs nothing else: a bad record its block's other records
nothing, a bad block the other blocks nothing, a bad archive the other archives nothing.
"""

import gc
import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Final, Protocol

import pyarrow as pa
from nacl.public import PrivateKey
from pyspark.sql.pandas.types import to_arrow_schema

from ingest.blocks import BlockDecoder, DamagedBlock, DecodedBlocks, read_blocks
from ingest.claims import other_uploaders
from ingest.decoded import ROW_COLUMNS, arrival_us
from ingest.keyring import GroupKeys, Keyring, LearnedKeys
from ingest.quick import QuickReader
from ingest.reading_columns import Spread
from ingest.reasons import Quarantined, Reason
from ingest.schemas import DECODED, MESSAGES_IN_FILES
from ingest.summary import DAMAGED, KNOWN, RETRIED, ArchiveSummary, ChainSummary
from ingest.walk import Walk
from protocol.archive.encryption import Decryptor, is_encrypted
from protocol.archive.random_access import OpenArchive, open_archive
from protocol.archive.records import Record
from protocol.errors import Truncated, Unsupported, WireError

MAX_QUARANTINED_BYTES: Final = 64 * 1024  # kept of a record or block; the whole stays in its archive
_NAMED_BY_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_QUARANTINE_COLUMNS: Final = (
    "record", "chain", "timestamp_ms", "sequence", "arrived_at", "offset", "records", "readings",
    "reason", "detail", "bytes",
)  # fmt: skip
_NOWHERE: Final = (None,) * 5  # the first five of them, of what is no record
DECODED_SCHEMA: Final = to_arrow_schema(DECODED, timezone="UTC")
MESSAGE_SCHEMA: Final = to_arrow_schema(MESSAGES_IN_FILES, timezone="UTC")

Row = tuple[Any, ...]
TakeMessages = Callable[[pa.RecordBatch], None]


class KnownVerdicts(Protocol):
    """Verdicts of the archives in the tables, by their digests."""

    def get(self, archive: str, /) -> str | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeSettings:
    """What decoding depends on besides the archive. It travels to the workers."""

    devices: frozenset[str] | None = None  # addresses in lower case; None takes every device
    group_keys: GroupKeys = field(default_factory=dict, repr=False)
    learned: LearnedKeys = field(default_factory=dict, repr=False)
    decryption_key: bytes | None = field(default=None, repr=False)
    landing: str = ""  # files are named from here on, so that the landing area can be moved
    receipts: Path | None = None  # the collector's, to know who brought what is encrypted
    known: KnownVerdicts = field(default_factory=dict[str, str], repr=False)


def decode_archive(
    path: str,
    data: bytes,
    landed_at_ms: int,
    settings: DecodeSettings,
    take_messages: TakeMessages,
    learned: LearnedKeys | None = None,
) -> Iterator[pa.RecordBatch]:
    """Rows of the decoded schema. Messages are handed over as they come, those of a few blocks at a time.

    `learned` are the group keys that messages of other archives handed over; this one's are added.

    Nothing about the file makes it raise.
    """
    file_digest = hashlib.sha256(data).hexdigest()
    name = _name_within(path, settings.landing)
    summary = ArchiveSummary(archive=file_digest, path=name, landed_at_ms=landed_at_ms, size_bytes=len(data))
    rows = _RowBatches(summary)
    try:
        _check_name(path, file_digest)
        if is_encrypted(data):
            data = _decrypt(data, settings.decryption_key)
            summary.archive = hashlib.sha256(data).hexdigest()
        archive = _open(data)
        _describe(summary, archive)
        _check_device(archive, settings.devices)
        if summary.archive != file_digest and settings.receipts is not None:
            _check_bringer(archive, settings.receipts, file_digest)
    except Quarantined as problem:
        summary.verdict = problem.reason
        summary.chains, summary.entry = {}, None
        if not _is_known(summary, settings):
            yield rows.quarantine([_whole_archive(problem, data)])
    else:
        if not _is_known(summary, settings):
            own = None if learned is None else learned.setdefault(summary.device or "", {})
            keyring = Keyring(settings.group_keys, own)
            yield from _decode_blocks(archive, rows, keyring, take_messages)
            summary.locked = keyring.locked()
            summary.handed_over = [(stream, key.group_key_id, key.key.hex()) for stream, key in keyring.handed_over]
    yield rows.summary_row(KNOWN if _is_known(summary, settings) else summary.verdict)


def _name_within(path: str, landing: str) -> str:
    _, found, name = path.partition(f"{landing}/") if landing else ("", "", "")
    return name if found else path


def _is_known(summary: ArchiveSummary, settings: DecodeSettings) -> bool:
    """Whether the tables hold all that can be had of it. A verdict that another setting changes is looked at again."""
    known = settings.known.get(summary.archive)
    return known is not None and (known not in RETRIED or known == summary.verdict)


def _check_name(path: str, digest: str) -> None:
    named = PurePosixPath(path).name.split(".")[0]
    if _NAMED_BY_DIGEST.fullmatch(named) and named != digest:
        raise Quarantined(Reason.ARCHIVE_MISNAMED, f"the file's digest is {digest}")


def _decrypt(data: bytes, key: bytes | None) -> bytes:
    if key is None:
        raise Quarantined(Reason.ARCHIVE_ENCRYPTED, "it is encrypted, and no key was given")
    decryptor = Decryptor(PrivateKey(key))
    try:
        return b"".join(decryptor.feed(data)) + decryptor.finish()
    except Unsupported as error:
        raise Quarantined(Reason.ARCHIVE_ENCRYPTED, str(error)) from None
    except WireError as error:
        raise _rejected_archive(error) from None


def _open(data: bytes) -> OpenArchive:
    try:
        return open_archive(lambda offset, count: data[offset : offset + count], len(data))
    except WireError as error:
        raise _rejected_archive(error) from None


def _rejected_archive(error: WireError) -> Quarantined:
    match error:
        case Truncated():
            reason = Reason.ARCHIVE_TRUNCATED
        case Unsupported():
            reason = Reason.ARCHIVE_UNSUPPORTED
        case _:
            reason = Reason.ARCHIVE_CORRUPT
    return Quarantined(reason, str(error), offset=error.offset)


def _describe(summary: ArchiveSummary, archive: OpenArchive) -> None:
    header, manifest = archive.header, archive.manifest
    summary.device = f"0x{header.binding.address.hex()}"
    summary.journal = header.journal_id.hex()
    summary.created_at_ms = header.created_at_ms
    summary.records = manifest.records
    summary.entry = manifest.entry
    summary.lane_readings = {lane.lane: lane.readings for lane in manifest.lanes}
    summary.readings = manifest.readings
    summary.chains = {entry.chain: ChainSummary(archived=entry.readings) for entry in manifest.chains}


def _check_device(archive: OpenArchive, devices: frozenset[str] | None) -> None:
    device = f"0x{archive.header.binding.address.hex()}"
    if devices is not None and device not in devices:
        raise Quarantined(Reason.DEVICE_UNKNOWN, f"{device} is not on the list of devices")


def _check_bringer(archive: OpenArchive, receipts: Path, file_digest: str) -> None:
    uploaders = other_uploaders(receipts, file_digest, archive.header.binding.address)
    if uploaders:
        own = f"0x{archive.header.binding.address.hex()}"
        raise Quarantined(Reason.DEVICE_MISMATCH, f"an archive of {own}, uploaded by {', '.join(uploaders)}")


def _whole_archive(problem: Quarantined, data: bytes) -> Row:
    """The file stays in the landing area, so its beginning is enough here."""
    detail = _storable(problem.detail)
    counts = (None, None)
    return (*_NOWHERE, problem.offset, *counts, problem.reason, detail, data[:MAX_QUARANTINED_BYTES])


def _decode_blocks(
    archive: OpenArchive, rows: "_RowBatches", keyring: Keyring, take_messages: TakeMessages
) -> Iterator[pa.RecordBatch]:
    summary = rows.summary
    summary.losses = [(summary.journal or "", loss) for loss in archive.manifest.losses]
    walk = Walk(summary)
    decoder = BlockDecoder(summary.device or "", walk, keyring, QuickReader(archive.header.binding))
    for blocks in read_blocks(archive):
        if isinstance(blocks, DamagedBlock):
            summary.verdict = DAMAGED
            yield rows.quarantine([_whole_block(blocks, archive)])
            continue
        with _no_search_for_cycles():
            decoded = decoder.decode(blocks)
            for batch in rows.messages(decoded):
                take_messages(batch)
        if decoded.rejected:
            yield rows.quarantine([_rejected_row(*each, archive) for each in decoded.rejected])
    walk.finish()
    if summary.verdict == DAMAGED:
        for found in summary.chains.values():
            found.damaged = max(0, found.archived - found.valid - found.rejected)


@contextmanager
def _no_search_for_cycles() -> Iterator[None]:
    """A block becomes many thousands of small tuples, none of them in a cycle: to look through them costs a tenth."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _whole_block(damaged: DamagedBlock, archive: OpenArchive) -> Row:
    entry, error = damaged
    data = archive.read_at(entry.offset, min(entry.frame_bytes, MAX_QUARANTINED_BYTES))
    counts = (entry.records, entry.readings)
    return (*_NOWHERE, entry.offset, *counts, Reason.BLOCK_DAMAGED, str(error), data)


def _rejected_row(number: int, record: Record, problem: Quarantined, archive: OpenArchive) -> Row:
    offset = archive.manifest.blocks[archive.index_of(number)].offset
    return (
        number, record.chain, record.timestamp_ms, record.sequence, arrival_us(record.arrived_at_ms), offset, 1,
        record.readings, problem.reason, _storable(problem.detail), record.text[:MAX_QUARANTINED_BYTES],
    )  # fmt: skip


def _storable(text: str) -> str:
    """Half a character of hostile input must not stop the table that tells of it."""
    return text.encode(errors="backslashreplace").decode()


class _RowBatches:
    """Lay rows out as Arrow batches of the decoded schema; what a kind of row lacks is null."""

    def __init__(self, summary: ArchiveSummary) -> None:
        self.summary = summary

    def messages(self, blocks: DecodedBlocks) -> Iterator[pa.RecordBatch]:
        for columns in blocks.columns:
            yield self._batch(MESSAGE_SCHEMA, "message", columns, len(columns["message_id"]))
        if blocks.rows:
            columns = {**_columns(ROW_COLUMNS, blocks.rows), "link": blocks.links}
            yield self._batch(MESSAGE_SCHEMA, "message", columns, len(blocks.rows))

    def quarantine(self, rows: list[Row]) -> pa.RecordBatch:
        return self._batch(DECODED_SCHEMA, "quarantine", _columns(_QUARANTINE_COLUMNS, rows), len(rows))

    def summary_row(self, verdict: str) -> pa.RecordBatch:
        self.summary.verdict = verdict
        return self._batch(DECODED_SCHEMA, "summary", {"summary": [self.summary.to_json()]}, 1)

    def _batch(self, schema: pa.Schema, kind: str, columns: Mapping[str, Any], count: int) -> pa.RecordBatch:
        summary = self.summary
        same = {
            "kind": kind,
            "archive": summary.archive,
            "path": summary.path,
            "device": summary.device,
            "landed_at": summary.landed_at_ms * 1000,
        }
        arrays = [_array(field, columns.get(field.name), same.get(field.name), count) for field in schema]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _columns(names: Sequence[str], rows: list[Row]) -> dict[str, Sequence[Any]]:
    return dict(zip(names, zip(*rows, strict=True), strict=True))


def _array(field: pa.Field, column: Any, same: Any, count: int) -> pa.Array:
    if isinstance(column, pa.Array):
        return column.cast(field.type)
    if isinstance(column, Spread) and len(set(column.values)) > 1:
        return pa.array(column.values, field.type).take(column.places)
    if isinstance(column, Spread):
        same = column.values[0]
    elif column is not None:
        return pa.array(column, field.type)
    return pa.nulls(count, field.type) if same is None else pa.repeat(pa.scalar(same, field.type), count)

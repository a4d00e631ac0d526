"""The format of a block: the records of one commit in one lane, as whole pages.

Pure functions; `docs/wire-formats.md` has an example. A block starts on a page of the segment file and fills whole
pages, so writing one never touches a page that holds another. All numbers are little-endian.

    head | chain table | body | zeros | chain table | foot

`head` and `foot` are the same 96 bytes but for the magic, and the table stands at both ends: no single damaged place
hides a block.

    offset  size  field
         0     4  magic: "HGJB" in the head, "HGJE" in the foot
         4     1  version, 2
         5     1  codec of the body: 0 as it is, 1 zstd
         6     1  lane
         7     1  1 if the block was rewritten when its lane was thinned or repaired, else 0
         8     8  journal id: random, the same in every block of a journal
        16     8  segment id: a new one each time a file is used anew, so that old blocks are never taken for new
        24     4  page of the file at which the block starts
        28     4  pages in the block
        32     8  first position that the block covers
        40     8  when the block was written, ms since 1970 by the clock of that moment
        48     8  positions the block covers; more than it has readings where the lane was thinned
        56     8  positions that were left out of the segment before this block
        64     4  records in the block
        68     4  readings in the block
        72     4  size of the body before compression
        76     4  size of the body as stored
        80     4  CRC-32 of the body's index (rows and record checksums), before compression
        84     4  CRC-32 of the body as stored if it is compressed, else 0
        88     4  size of the chain table
        92     4  CRC-32 of bytes 4 to 92 and the chain table

What was left out on purpose, because it is lost or was thinned, is not counted as damage again.

The chain table is, per chain, one byte of length and the name in UTF-8. The body is three columns:

    rows       16 bytes per record: payload size (3 bytes), number of the chain in the table (1), timestamp in ms (8),
               sequence (4); in a block that covers more positions than it has records 10 more: position of its first
               reading (8), number of its readings (2), which otherwise follow from its place
    checksums  4 bytes per record: CRC-32 of its row and payload
    payloads   one after the other

The record, index and body checksums start from the CRC-32 of journal id, segment id and page, so that bytes left over
from an earlier use of the file never pass for a record. A record is found from the front of the payloads, or, if a row
before it is damaged, from their end.
"""

import functools
import itertools
import operator
import struct
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from enum import IntEnum
from typing import NamedTuple
from zlib import crc32

import zstandard

from agent.journal.records import (
    MAX_CHAIN_BYTES,
    MAX_LANES,
    MAX_POSITION,
    MAX_RECORD_READINGS,
    Entry,
    Record,
    damage,
    loss_of,
    positions_from,
)
from protocol.losses import Cause, Loss

PAGE_BYTES = 4096
MAX_BODY_BYTES = 1 << 20
MAX_BLOCK_RECORDS = 1 << 14
MAX_BLOCK_READINGS = MAX_RECORD_READINGS  # so a page that cannot be read had no more
MAX_BLOCK_CHAINS = 64
MAX_TABLE_BYTES = MAX_BLOCK_CHAINS * (1 + MAX_CHAIN_BYTES)
MAX_OVERHEAD_BYTES = 30  # of a record's row and checksum
_CHECKSUM_BYTES = 4

HEAD_MAGIC = b"HGJB"
FOOT_MAGIC = b"HGJE"
VERSION = 2
HEAD = struct.Struct("<4sBBBBQQIIQQQQIIIIIIII")
HEAD_BYTES = HEAD.size
_ROW = struct.Struct("<IQI")
_LONG_ROW = struct.Struct("<IQIQH")
_SIZE_BITS = 24
_SIZE_MASK = (1 << _SIZE_BITS) - 1
_SEED = struct.Struct("<QQI")
_BEFORE_HEAD_CRC = HEAD_BYTES - 4
_new_record = functools.partial(tuple.__new__, Record)  # from all its fields at once, a third faster


class _Decompressor(threading.local):
    """One for each thread: it releases the interpreter's lock while it works, and must not be shared then."""

    def __init__(self) -> None:
        self.decompress = zstandard.ZstdDecompressor().decompress


_DECOMPRESSOR = _Decompressor()

Compress = Callable[[bytes], bytes]
_Row = tuple[int, ...]


class Codec(IntEnum):
    RAW = 0
    ZSTD = 1


class Place(NamedTuple):
    """The place of a block, and the time it is written."""

    journal_id: int
    segment_id: int
    lane: int
    page: int
    written_at_ms: int
    left_out: int = 0  # positions of the segment before the block


class Head(NamedTuple):
    """The fields of the head or foot of a block whose checksum is right."""

    codec: int
    lane: int
    rewritten: int
    journal_id: int
    segment_id: int
    page: int
    pages: int
    first_position: int
    written_at_ms: int
    span: int
    left_out: int
    records: int
    readings: int
    raw_bytes: int
    stored_bytes: int
    index_crc: int
    body_crc: int
    table_bytes: int
    chains: tuple[str, ...]

    @property
    def row(self) -> struct.Struct:
        return _ROW if self.span == self.records else _LONG_ROW

    @property
    def rows_bytes(self) -> int:
        return self.records * self.row.size

    @property
    def index_bytes(self) -> int:
        return self.rows_bytes + self.records * _CHECKSUM_BYTES

    @property
    def end_page(self) -> int:
        return self.page + self.pages

    @property
    def end_position(self) -> int:
        return self.first_position + self.span

    @property
    def left_out_at_end(self) -> int:
        return self.left_out + self.span - self.readings


class Contents(NamedTuple):
    """The whole records of a block, and its losses: one for each lost record, or one for all if they are not known."""

    records: list[Record]
    losses: list[Loss]


# Writing


def fits_one_block(
    records: int, readings: int, payload_bytes: int, chains: Collection[str], max_body_bytes: int
) -> bool:
    if records > MAX_BLOCK_RECORDS or readings > MAX_BLOCK_READINGS or len(chains) > MAX_BLOCK_CHAINS:
        return False
    tables_bytes = 2 * sum([1 + len(chain.encode()) for chain in chains])
    return tables_bytes + payload_bytes + MAX_OVERHEAD_BYTES * records <= max_body_bytes


def split_into_blocks(entries: Sequence[Entry], max_body_bytes: int) -> Iterator[Sequence[Entry]]:
    """The entries in order, in as many parts as the limits of a block ask for. One entry always fits."""
    payload_bytes, chains = sum(len(entry.payload) for entry in entries), {entry.chain for entry in entries}
    readings = sum(entry.readings for entry in entries)
    if len(entries) == 1 or fits_one_block(len(entries), readings, payload_bytes, chains, max_body_bytes):
        yield entries
        return
    middle = len(entries) // 2
    yield from split_into_blocks(entries[:middle], max_body_bytes)
    yield from split_into_blocks(entries[middle:], max_body_bytes)


def encode_block(
    place: Place,
    first_position: int,
    entries: Sequence[Entry],
    compress: Compress | None,
    kept_positions: Sequence[int] | None = None,
    end_position: int | None = None,
) -> bytes:
    """Whole pages holding `entries`. In a rewritten block they keep their positions, and it covers those between.

    The columns are made by `map` over whole lists: a loop in Python would cost more than the checksums.
    """
    payloads, chains, timestamps_ms, sequences, readings = zip(*entries, strict=True)
    *positions, counted_end = positions_from(first_position, readings)
    numbers = {chain: number << _SIZE_BITS for number, chain in enumerate(dict.fromkeys(chains))}
    sizes_and_chains = map(operator.or_, map(len, payloads), map(numbers.__getitem__, chains))
    columns = (sizes_and_chains, timestamps_ms, sequences)
    span = (end_position or counted_end) - first_position
    if span == len(entries):
        rows = list(map(_ROW.pack, *columns))
    else:
        rows = list(map(_LONG_ROW.pack, *columns, kept_positions or positions, readings))
    seed = _seed(place.journal_id, place.segment_id, place.page)
    checksums = map(crc32, payloads, map(crc32, rows, itertools.repeat(seed)))
    index = b"".join((*rows, struct.pack(f"<{len(rows)}I", *checksums)))
    codec, stored = _smaller([index, *payloads], compress)
    raw_bytes = len(index) + sum(map(len, payloads))
    stored_bytes = raw_bytes if codec is Codec.RAW else len(stored[0])
    table = b"".join(map(_table_entry, numbers))
    pages = -(-(2 * (HEAD_BYTES + len(table)) + stored_bytes) // PAGE_BYTES)
    fields = (
        VERSION,
        codec,
        place.lane,
        kept_positions is not None,
        place.journal_id,
        place.segment_id,
        place.page,
        pages,
        first_position,
        place.written_at_ms,
        span,
        place.left_out,
        len(entries),
        counted_end - first_position,
        raw_bytes,
        stored_bytes,
        crc32(index, seed),
        0 if codec is Codec.RAW else crc32(stored[0], seed),
        len(table),
    )
    return _assemble(fields, table, stored, pages * PAGE_BYTES - stored_bytes - 2 * (HEAD_BYTES + len(table)))


def _assemble(fields: tuple[int, ...], table: bytes, stored: Sequence[bytes], padding_bytes: int) -> bytes:
    head = HEAD.pack(HEAD_MAGIC, *fields, 0)[:_BEFORE_HEAD_CRC]
    checksum = struct.pack("<I", crc32(table, crc32(head[4:])))
    return b"".join((head, checksum, table, *stored, bytes(padding_bytes), table, FOOT_MAGIC, head[4:], checksum))


def _smaller(body: Sequence[bytes], compress: Compress | None) -> tuple[Codec, Sequence[bytes]]:
    if compress is not None:
        joined_body = b"".join(body)
        compressed = compress(joined_body)
        if len(compressed) < len(joined_body):
            return Codec.ZSTD, [compressed]
    return Codec.RAW, body


def _table_entry(chain: str) -> bytes:
    name = chain.encode()
    return bytes((len(name),)) + name


def _seed(journal_id: int, segment_id: int, page: int) -> int:
    return crc32(_SEED.pack(journal_id, segment_id, page))


# Reading


def parse_head(data: bytes) -> Head | None:
    """The head that `data` begins with, or None. The table behind it must be in `data` too."""
    if data[:4] != HEAD_MAGIC or len(data) < HEAD_BYTES:
        return None
    return _parse(data, 0, data[HEAD_BYTES : HEAD_BYTES + MAX_TABLE_BYTES])


def parse_foot(data: bytes) -> Head | None:
    """The foot that `data` ends with, or None. The table before it must be in `data` too."""
    offset = len(data) - HEAD_BYTES
    if offset < 0 or data[offset : offset + 4] != FOOT_MAGIC:
        return None
    table_bytes: int = HEAD.unpack_from(data, offset)[19]
    if table_bytes > offset:
        return None
    return _parse(data, offset, data[offset - table_bytes : offset])


def _parse(data: bytes, offset: int, table_onwards: bytes) -> Head | None:
    _, version, *fields, table_bytes, checksum = HEAD.unpack_from(data, offset)
    table = table_onwards[:table_bytes]
    if checksum != crc32(table, crc32(data[offset + 4 : offset + _BEFORE_HEAD_CRC])):
        return None
    chains = _parse_table(table)
    if version != VERSION or chains is None:
        return None
    head = Head._make((*fields, table_bytes, chains))
    return head if _is_plausible(head) else None


def _parse_table(table: bytes) -> tuple[str, ...] | None:
    chains, offset = [], 0
    while offset < len(table):
        end = offset + 1 + table[offset]
        try:
            chains.append(table[offset + 1 : end].decode())
        except UnicodeDecodeError:
            return None
        offset = end
    return tuple(chains)


def _is_plausible(head: Head) -> bool:
    """Bounds that every writer keeps, so that a forged head with a right checksum cannot request unbounded memory."""
    needed = 2 * (HEAD_BYTES + head.table_bytes) + head.stored_bytes
    return (
        head.lane < MAX_LANES
        and 0 < len(head.chains) <= MAX_BLOCK_CHAINS
        and 0 < head.records <= MAX_BLOCK_RECORDS
        and head.records <= head.readings <= MAX_BLOCK_READINGS
        and head.readings <= head.span
        and (head.rewritten != 0 or head.readings == head.span)
        and head.index_bytes <= head.raw_bytes <= MAX_BODY_BYTES
        and head.stored_bytes <= head.raw_bytes
        and needed <= head.pages * PAGE_BYTES < needed + PAGE_BYTES
        and head.end_position < MAX_POSITION
    )


def decode_block(head: Head, block: bytes) -> Contents:
    """The whole records of the block, and its losses. Never raises, whatever the bytes."""
    start = HEAD_BYTES + head.table_bytes
    stored = block[start : start + head.stored_bytes]
    seed = _seed(head.journal_id, head.segment_id, head.page)
    if head.codec == Codec.RAW:
        records = _records(head, stored, seed)
        if records is None or not _has_checksums(head, stored, seed, records):
            return _salvage(head, stored, seed)
        return Contents(records, [])
    body = _decompress(head, stored) if crc32(stored, seed) == head.body_crc else None
    records = None if body is None else _records(head, body, seed)  # one checksum has covered all of them
    return _all_lost(head) if records is None else Contents(records, [])


def _decompress(head: Head, stored: bytes) -> bytes | None:
    try:
        if zstandard.frame_content_size(stored) != head.raw_bytes:
            return None
        return _DECOMPRESSOR.decompress(stored, max_output_size=head.raw_bytes)
    except zstandard.ZstdError:
        return None


def _records(head: Head, body: bytes, seed: int) -> list[Record] | None:
    """All records of a body, by whole columns; None if its index is damaged or it contradicts itself."""
    index_end = head.index_bytes
    if len(body) != head.raw_bytes or crc32(body[:index_end], seed) != head.index_crc:
        return None
    sizes_and_chains, timestamps_ms, sequences, positions, readings = _columns(head, body)
    numbers = [value >> _SIZE_BITS for value in sizes_and_chains]
    ends = list(itertools.accumulate([value & _SIZE_MASK for value in sizes_and_chains], initial=index_end))
    if ends[-1] != len(body) or max(numbers) >= len(head.chains) or not _covers(head, positions, readings):
        return None
    payloads = [body[start:end] for start, end in itertools.pairwise(ends)]
    chains = map(head.chains.__getitem__, numbers)
    lanes, written_at_ms = itertools.repeat(head.lane), itertools.repeat(head.written_at_ms)
    described = (payloads, chains, timestamps_ms, sequences, written_at_ms, readings)
    return list(map(_new_record, zip(positions, lanes, *described, strict=False)))


def _columns(head: Head, body: bytes) -> list[Sequence[int]]:
    """The columns of the rows; also positions and readings where the rows leave them out."""
    columns: list[Sequence[int]] = list(zip(*head.row.iter_unpack(body[: head.rows_bytes]), strict=True))
    if head.row is _ROW:
        columns += [range(head.first_position, head.end_position), (1,) * head.records]
    return columns


def _has_checksums(head: Head, body: bytes, seed: int, records: Sequence[Record]) -> bool:
    """Whether every record matches its own checksum."""
    payloads = [record.payload for record in records]
    checksums = struct.unpack_from(f"<{head.records}I", body, head.rows_bytes)
    return tuple(map(crc32, payloads, map(crc32, _raw_rows(head, body), itertools.repeat(seed)))) == checksums


def _raw_rows(head: Head, body: bytes) -> list[bytes]:
    return [body[at : at + head.row.size] for at in range(0, head.rows_bytes, head.row.size)]


def _covers(head: Head, positions: Sequence[int], readings: Sequence[int]) -> bool:
    """Whether these may be all records of the block."""
    return sum(readings) == head.readings and _is_within(head, positions, readings)


def _is_within(head: Head, positions: Sequence[int], readings: Sequence[int]) -> bool:
    """Whether these may be some records of the block: one after the other, in the positions that it covers."""
    ends = [head.first_position, *map(operator.add, positions, readings)]
    is_rising = all(map(operator.le, ends, positions)) and 0 not in readings
    return is_rising and ends[-1] <= head.end_position


# Damage


def _all_lost(head: Head) -> Contents:
    return Contents([], [damage(head.lane, head.first_position, head.end_position, count=head.readings)])


def _salvage(head: Head, body: bytes, seed: int) -> Contents:
    """The records of a damaged raw body that are whole, each by its own checksum."""
    if len(body) != head.raw_bytes:
        return _all_lost(head)
    rows = list(zip(*_columns(head, body), strict=True))
    payloads = list(_whole_payloads(head, body, seed, rows))
    if crc32(body[: head.index_bytes], seed) == head.index_crc and _covers(head, *_positions_and_readings(rows)):
        return _salvage_by_index(head, rows, payloads)
    return _salvage_without_index(head, rows, payloads)


def _salvage_by_index(head: Head, rows: Sequence[_Row], payloads: Sequence[bytes | None]) -> Contents:
    contents = Contents([], [])
    for row, payload in zip(rows, payloads, strict=True):
        if payload is None:
            contents.losses.append(loss_of(_record(head, row, b""), Cause.DAMAGED))
        else:
            contents.records.append(_record(head, row, payload))
    return contents


def _salvage_without_index(head: Head, rows: Sequence[_Row], payloads: Sequence[bytes | None]) -> Contents:
    """A row without its payload cannot be trusted, but the head says how many readings there were in all.

    They are lost between the whole records before the first such row and after the last one.
    """
    lost = [number for number, payload in enumerate(payloads) if payload is None]
    whole = [(row, payload) for row, payload in zip(rows, payloads, strict=True) if payload is not None]
    if not lost or not _is_within(head, *_positions_and_readings([row for row, _ in whole])):
        return _all_lost(head)
    found = [_record(head, row, payload) for row, payload in whole]
    before, after = found[: lost[0]], found[lost[-1] + 1 - len(lost) :]
    first = before[-1].next_position if before else head.first_position
    end = after[0].position if after else head.end_position
    count = head.readings - sum([record.readings for record in found])
    is_possible = len(lost) <= count <= end - first
    return Contents(found, [damage(head.lane, first, end, count=count)]) if is_possible else _all_lost(head)


def _positions_and_readings(rows: Sequence[_Row]) -> tuple[Sequence[int], Sequence[int]]:
    return [row[3] for row in rows], [row[4] for row in rows]


def _record(head: Head, row: _Row, payload: bytes) -> Record:
    size_and_chain, timestamp_ms, sequence, position, readings = row
    chain = head.chains[min(size_and_chain >> _SIZE_BITS, len(head.chains) - 1)]
    return Record(position, head.lane, payload, chain, timestamp_ms, sequence, head.written_at_ms, readings)


def _whole_payloads(head: Head, body: bytes, seed: int, rows: Sequence[_Row]) -> Iterator[bytes | None]:
    """The payload of each row, or None where the checksum is wrong."""
    checksums = struct.unpack_from(f"<{head.records}I", body, head.rows_bytes)
    sizes = [row[0] & _SIZE_MASK for row in rows]
    from_front = itertools.accumulate(sizes, initial=head.index_bytes)
    from_end = [len(body) - rest for rest in itertools.accumulate(reversed(sizes))][::-1]
    row_crcs = map(crc32, _raw_rows(head, body), itertools.repeat(seed))
    for front, end, size, checksum, row_crc in zip(from_front, from_end, sizes, checksums, row_crcs, strict=False):
        yield _payload_at(body, (front, end), size, checksum, row_crc)


def _payload_at(body: bytes, starts: Sequence[int], size: int, checksum: int, row_crc: int) -> bytes | None:
    for start in starts:
        payload = body[start : start + size] if start >= 0 else b""
        if len(payload) == size and crc32(payload, row_crc) == checksum:
            return payload
    return None

"""The content of a block before compression: a table of records, stored by columns.

| bytes | content |
|---|---|
| 4 | n, the number of records |
| 4 | c, the number of chain keys |
| 2 × c | length of each chain key |
| 2 × n | each record's chain, as an index into the keys |
| 1 × n | lane |
| 8 × n | position |
| 8 × n | timestamp_ms |
| 4 × n | sequence |
| 8 × n | arrived_at_ms |
| 2 × n | readings |
| 4 × n | length of each text |
| … | the chain keys in UTF-8, in order of first use, one after the other |
| … | the texts, one after the other |

All numbers are unsigned and big-endian. Columns compress better than rows, and a reader splits a block into texts with
a few calls instead of several per record. Every block contains its chain keys, so each block can be read alone.
"""

import hashlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import NamedTuple

import zstandard

from protocol.archive.errors import CorruptArchive
from protocol.archive.layout import FRAME_HEAD
from protocol.archive.limits import (
    MAX_CHAIN_BYTES,
    MAX_RAW_BLOCK_BYTES,
    MAX_READINGS_PER_RECORD,
    MAX_RECORDS_PER_BLOCK,
    MAX_TEXT_BYTES,
)
from protocol.archive.manifest import BlockEntry
from protocol.archive.records import Columns, Record, check_chain
from protocol.checks import check_within
from protocol.losses import MAX_LANE, MAX_POSITION
from protocol.reference import MAX_SEQUENCE, MAX_TIMESTAMP_MS

_COUNTS = struct.Struct(">II")
RECORD_OVERHEAD_BYTES = 2 + 1 + 8 + 8 + 4 + 8 + 2 + 4


def _fixed_part(records: int, chains: int) -> struct.Struct:
    n = records
    return struct.Struct(f">{chains}H{n}H{n}B{n}Q{n}Q{n}I{n}Q{n}H{n}I")


def encode_block(columns: Columns) -> bytes:
    """Raises: ValueError, naming record and field, for a record that does not fit the format."""
    n = len(columns.texts)
    check_within("records in a block", n, 1, MAX_RECORDS_PER_BLOCK)
    index_of = {chain: index for index, chain in enumerate(dict.fromkeys(columns.chains))}
    keys = [_encode_chain(chain) for chain in index_of]
    lengths = tuple(map(len, columns.texts))
    if (misfit := _first_misfit(columns, lengths)) is not None:
        raise ValueError(f"record {misfit.record}: {misfit.problem}")
    fixed = _fixed_part(n, len(keys)).pack(
        *map(len, keys),
        *map(index_of.__getitem__, columns.chains),
        *columns.lanes,
        *columns.positions,
        *columns.timestamps_ms,
        *columns.sequences,
        *columns.arrivals_ms,
        *columns.readings,
        *lengths,
    )
    raw = b"".join((_COUNTS.pack(n, len(keys)), fixed, *keys, *columns.texts))
    check_within("bytes in a block", len(raw), 1, MAX_RAW_BLOCK_BYTES)
    return raw


def decode_block(raw: bytes) -> Columns:
    """Raises: CorruptArchive, naming the record if one is wrong."""
    if len(raw) < _COUNTS.size:
        raise CorruptArchive(f"a block of {len(raw)} bytes is too short for its counts")
    n, chain_count = _COUNTS.unpack_from(raw)
    if not 1 <= n <= MAX_RECORDS_PER_BLOCK or not 1 <= chain_count <= n:
        raise CorruptArchive(f"a block of {n} records in {chain_count} chains")
    fixed = _fixed_part(n, chain_count)
    keys_start = _COUNTS.size + fixed.size
    if keys_start > len(raw):
        raise CorruptArchive(f"{n} records do not fit into a block of {len(raw)} bytes")
    numbers = fixed.unpack_from(raw, _COUNTS.size)
    keys = _decode_chains(raw, keys_start, numbers[:chain_count])
    of_record, lanes, positions, timestamps, sequences, arrivals, readings, lengths = (
        numbers[chain_count + n * column : chain_count + n * (column + 1)] for column in range(8)
    )
    _check_chain_indexes(of_record, chain_count)
    texts = _cut_texts(raw, keys_start + sum(numbers[:chain_count]), lengths)
    chains = [keys[index] for index in of_record]
    columns = Columns(texts, chains, timestamps, sequences, lanes, positions, arrivals, readings)
    if (misfit := _first_misfit(columns, lengths)) is not None:
        raise CorruptArchive(misfit.problem, record=misfit.record)
    return columns


class _Misfit(NamedTuple):
    record: int
    problem: str


def _first_misfit(columns: Columns, lengths: Sequence[int]) -> _Misfit | None:
    """The first record with a number out of range. Whole columns are checked by their extremes."""
    limits = (
        ("text bytes", lengths, 0, MAX_TEXT_BYTES),
        ("timestamp_ms", columns.timestamps_ms, 0, MAX_TIMESTAMP_MS),
        ("sequence", columns.sequences, 0, MAX_SEQUENCE),
        ("lane", columns.lanes, 0, MAX_LANE),
        ("position", columns.positions, 0, MAX_POSITION),
        ("arrived_at_ms", columns.arrivals_ms, 0, MAX_TIMESTAMP_MS),
        ("readings", columns.readings, 1, MAX_READINGS_PER_RECORD),
    )
    for name, column, low, high in limits:
        if min(column) < low or max(column) > high:
            record = next(index for index, value in enumerate(column) if not low <= value <= high)
            return _Misfit(record, f"{name} {column[record]} is not within {low}..{high}")
    return None


def _encode_chain(chain: str) -> bytes:
    check_chain(chain)
    return chain.encode()


def _decode_chains(raw: bytes, start: int, lengths: tuple[int, ...]) -> list[str]:
    ends = list(accumulate(lengths, initial=start))
    if ends[-1] > len(raw) or not all(1 <= length <= MAX_CHAIN_BYTES for length in lengths):
        raise CorruptArchive("a chain key is empty, too long or runs past the block's end")
    try:
        chains = [raw[begin:end].decode() for begin, end in pairwise(ends)]
    except UnicodeDecodeError as error:
        raise CorruptArchive("a chain key is not UTF-8") from error
    if len(set(chains)) != len(chains):
        raise CorruptArchive("a chain key is repeated in one block")
    return chains


def _check_chain_indexes(of_record: Sequence[int], chain_count: int) -> None:
    if max(of_record) >= chain_count:
        record = next(index for index, value in enumerate(of_record) if value >= chain_count)
        raise CorruptArchive(f"chain {of_record[record]} of {chain_count}", record=record)
    if list(dict.fromkeys(of_record)) != list(range(chain_count)):
        raise CorruptArchive("chain keys are not in order of first use")


def _cut_texts(raw: bytes, start: int, lengths: Sequence[int]) -> list[bytes]:
    ends = list(accumulate(lengths, initial=start))
    if ends[-1] > len(raw):
        record = next(index for index, end in enumerate(ends[1:]) if end > len(raw))
        raise CorruptArchive(f"text of {lengths[record]} bytes runs past the block's end", record=record)
    if ends[-1] < len(raw):
        raise CorruptArchive(f"{len(raw) - ends[-1]} bytes after the block's last text")
    return [raw[begin:end] for begin, end in pairwise(ends)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """The records of one block. `first_record` is the number of the first of them within the archive, from 0."""

    index: int
    entry: BlockEntry
    first_record: int
    columns: Columns

    @property
    def records(self) -> list[Record]:
        """The records as rows, built by each call. For one field of all records, use its column."""
        return self.columns.records()


def decode_block_frame(frame: bytes, *, index: int, offset: int, first_record: int) -> Block:
    """Decode a frame with its head, which is at `offset` of the file. Raises: CorruptArchive, naming the block."""
    try:
        raw = decompress(frame[FRAME_HEAD.size :])
        columns = decode_block(raw)
    except CorruptArchive as error:
        raise CorruptArchive(error.problem, block=index, record=error.record, offset=offset) from error
    entry = BlockEntry(
        offset=offset,
        frame_bytes=len(frame),
        raw_bytes=len(raw),
        records=len(columns.texts),
        readings=sum(columns.readings),
        sha256=hashlib.sha256(frame).digest(),
    )
    return Block(index=index, entry=entry, first_record=first_record, columns=columns)


DEFAULT_ZSTD_LEVEL = 3


def compressor(level: int) -> zstandard.ZstdCompressor:
    return zstandard.ZstdCompressor(level=level, write_content_size=True, write_checksum=False)


def decompress(payload: bytes) -> bytes:
    """The content of exactly one zstd frame that declares its size.

    The declared size is checked before anything is allocated, and zstd writes no more than that.

    Raises: CorruptArchive, also if the content has another size.
    """
    try:
        declared = zstandard.get_frame_parameters(payload).content_size
        if not 1 <= declared <= MAX_RAW_BLOCK_BYTES:  # an absent size is a huge number
            raise CorruptArchive(f"block declares {declared} bytes, not within 1..{MAX_RAW_BLOCK_BYTES}")
        raw = zstandard.ZstdDecompressor().decompress(payload, max_output_size=declared, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise CorruptArchive(f"block cannot be decompressed: {error}") from error
    if len(raw) != declared:
        raise CorruptArchive(f"block declares {declared} bytes and holds {len(raw)}")
    return raw

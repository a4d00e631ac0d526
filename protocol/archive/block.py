"""The content of a block before compression: a table of records, stored by columns.

| bytes | what |
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
| 4 × n | length of each text |
| … | the chain keys in UTF-8, in order of first use, one after the other |
| … | the texts, one after the other |

All numbers are unsigned and big-endian. Columns compress better than rows, and let a reader split a block into texts
with a handful of calls instead of several per record. Chain keys stand in every block, so each block can be read alone.
"""

import struct
from itertools import accumulate, pairwise

from protocol.archive.errors import CorruptArchive
from protocol.archive.limits import (
    MAX_CHAIN_BYTES,
    MAX_RAW_BLOCK_BYTES,
    MAX_RECORDS_PER_BLOCK,
    MAX_TEXT_BYTES,
)
from protocol.archive.records import (
    MAX_LANE,
    MAX_POSITION,
    Record,
    check_chain,
    check_within,
)
from protocol.reference import MAX_SEQUENCE, MAX_TIMESTAMP_MS

_COUNTS = struct.Struct(">II")
RECORD_OVERHEAD_BYTES = 2 + 1 + 8 + 8 + 4 + 8 + 4


def _fixed_part(records: int, chains: int) -> struct.Struct:
    n = records
    return struct.Struct(f">{chains}H{n}H{n}B{n}Q{n}Q{n}I{n}Q{n}I")


def encode_block(records: list[Record]) -> bytes:
    """Raises: ValueError, naming record and field, for a record that does not fit the format."""
    n = len(records)
    check_within("records in a block", n, 1, MAX_RECORDS_PER_BLOCK)
    texts, chains, timestamps, sequences, lanes, positions, arrivals = zip(*records, strict=True)
    index_of = {chain: index for index, chain in enumerate(dict.fromkeys(chains))}
    keys = [chain.encode() for chain in index_of]
    _check_columns(records, keys)
    fixed = _fixed_part(n, len(keys)).pack(
        *map(len, keys),
        *map(index_of.__getitem__, chains),
        *lanes,
        *positions,
        *timestamps,
        *sequences,
        *arrivals,
        *map(len, texts),
    )
    raw = b"".join((_COUNTS.pack(n, len(keys)), fixed, *keys, *texts))
    check_within("bytes in a block", len(raw), 1, MAX_RAW_BLOCK_BYTES)
    return raw


def _check_columns(records: list[Record], keys: list[bytes]) -> None:
    """Whole columns by their extremes; only when one is wrong are the records looked at one by one."""
    texts, _, timestamps, sequences, lanes, positions, arrivals = zip(*records, strict=True)
    fine = (
        1 <= min(map(len, keys)) <= max(map(len, keys)) <= MAX_CHAIN_BYTES
        and max(map(len, texts)) <= MAX_TEXT_BYTES
        and 0 <= min(timestamps) <= max(timestamps) <= MAX_TIMESTAMP_MS
        and 0 <= min(arrivals) <= max(arrivals) <= MAX_TIMESTAMP_MS
        and 0 <= min(sequences) <= max(sequences) <= MAX_SEQUENCE
        and 0 <= min(positions) <= max(positions) <= MAX_POSITION
        and 0 <= min(lanes) <= max(lanes) <= MAX_LANE
    )
    if not fine:
        for index, record in enumerate(records):
            _check_record(index, record)


def _check_record(index: int, record: Record) -> None:
    try:
        check_record(record)
    except ValueError as error:
        raise ValueError(f"record {index}: {error}") from error


def check_record(record: Record) -> None:
    """Raises: ValueError, naming the field, the limit and the value."""
    check_chain(record.chain)
    check_within("text bytes", len(record.text), 0, MAX_TEXT_BYTES)
    check_within("timestamp_ms", record.timestamp_ms, 0, MAX_TIMESTAMP_MS)
    check_within("arrived_at_ms", record.arrived_at_ms, 0, MAX_TIMESTAMP_MS)
    check_within("sequence", record.sequence, 0, MAX_SEQUENCE)
    check_within("position", record.position, 0, MAX_POSITION)
    check_within("lane", record.lane, 0, MAX_LANE)


def decode_block(raw: bytes) -> list[Record]:
    """Raises: CorruptArchive, naming the record to blame where one is."""
    if len(raw) < _COUNTS.size:
        raise CorruptArchive(f"a block of {len(raw)} bytes has no room for its counts")
    n, chain_count = _COUNTS.unpack_from(raw)
    if not 1 <= n <= MAX_RECORDS_PER_BLOCK or not 1 <= chain_count <= n:
        raise CorruptArchive(f"a block of {n} records in {chain_count} chains")
    fixed = _fixed_part(n, chain_count)
    keys_start = _COUNTS.size + fixed.size
    if keys_start > len(raw):
        raise CorruptArchive(f"{n} records do not fit into a block of {len(raw)} bytes")
    numbers = fixed.unpack_from(raw, _COUNTS.size)
    chains = _decode_chains(raw, keys_start, numbers[:chain_count])
    of_record, lanes, positions, timestamps, sequences, arrivals, lengths = (
        numbers[chain_count + n * column : chain_count + n * (column + 1)] for column in range(7)
    )
    ends = list(accumulate(lengths, initial=keys_start + sum(numbers[:chain_count])))
    _check_lengths(raw, lengths, ends)
    _check_ranges(of_record, chain_count, positions, timestamps, arrivals)
    texts = [raw[start:end] for start, end in pairwise(ends)]
    keys = map(chains.__getitem__, of_record)
    columns = zip(texts, keys, timestamps, sequences, lanes, positions, arrivals, strict=True)
    return list(map(Record._make, columns))


def _decode_chains(raw: bytes, start: int, lengths: tuple[int, ...]) -> list[str]:
    ends = list(accumulate(lengths, initial=start))
    if ends[-1] > len(raw) or not all(1 <= length <= MAX_CHAIN_BYTES for length in lengths):
        raise CorruptArchive("a chain key is empty, too long or runs past the block's end")
    try:
        chains = [raw[begin:end].decode() for begin, end in pairwise(ends)]
    except UnicodeDecodeError as error:
        raise CorruptArchive("a chain key is not UTF-8") from error
    if len(set(chains)) != len(chains):
        raise CorruptArchive("a chain key stands twice in one block")
    return chains


def _check_lengths(raw: bytes, lengths: tuple[int, ...], ends: list[int]) -> None:
    if ends[-1] == len(raw) and max(lengths) <= MAX_TEXT_BYTES:
        return
    for record, length in enumerate(lengths):
        if length > MAX_TEXT_BYTES or ends[record + 1] > len(raw):
            raise CorruptArchive(f"text of {length} bytes runs past the block's end or the limit", record=record)
    raise CorruptArchive(f"{len(raw) - ends[-1]} bytes after the block's last text")


def _check_ranges(
    of_record: tuple[int, ...],
    chain_count: int,
    positions: tuple[int, ...],
    timestamps: tuple[int, ...],
    arrivals: tuple[int, ...],
) -> None:
    bounds = (
        ("chain", of_record, chain_count - 1),
        ("position", positions, MAX_POSITION),
        ("timestamp_ms", timestamps, MAX_TIMESTAMP_MS),
        ("arrived_at_ms", arrivals, MAX_TIMESTAMP_MS),
    )
    for name, column, high in bounds:
        if max(column) > high:
            record = next(index for index, value in enumerate(column) if value > high)
            raise CorruptArchive(f"{name} {column[record]} is above {high}", record=record)
    if list(dict.fromkeys(of_record)) != list(range(chain_count)):
        raise CorruptArchive("chain keys are not in order of first use")

"""Many usual messages of one chain at once: as columns, without a Python value per field.

What nearly every chain of a block is: a run of readings of one sensor, of the same layout byte for byte, each a double,
each sealed and linked to the one before it. The first is decoded alone; the others can differ from it in a few fields
only, and these are cut out of all texts (`ingest/texts.py`) and all ioMessages together. A run that is not perfect in
all of this is not taken: its messages are decoded one by one, which gives the same rows.
"""

import hashlib
from collections.abc import Callable, Sequence
from itertools import accumulate, chain, pairwise
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ingest.decoded import EARLIEST_MS, LATEST_MS, ROW_COLUMNS, Decoded, Ref, Seal
from ingest.texts import Bytes, differ_only_within, read_texts
from protocol.archive import Columns
from protocol.iomessage.as_bytes import HEADER, HEADER_BYTES

__all__ = ["MIN_RUN", "Run", "Spread", "Verify", "join_runs", "lay_out_run"]

MIN_RUN: Final = 16  # messages; fewer are as quickly decoded one by one
_DOUBLE_HEAD: Final = 0xFB
_DOUBLE_BYTES: Final = 9
_DIGEST_BYTES: Final = 32
_HASH_BYTES: Final = 64  # a digest in hexadecimal
_HASH_LENGTH_AT: Final = slice(16, 18)  # in the header
_NAMES: Final = (
    "id", "tag", "group_id", "sequence_number", "sequence_total", "priority", "timestamp", "publisher", "auth_id",
    "auth_group", "chain_position", "hash", "previous_hash", "nonce", "difficulty_target", "info_type", "info_format",
    "context_data", "content_data",
)  # fmt: skip
_VARYING: Final = ("id", "timestamp", "chain_position", "hash", "previous_hash", "content_data")

Numbers = npt.NDArray[np.int64]
Verify = Callable[[Sequence[bytes], Sequence[bytes]], Sequence[bool]]  # digests, signatures


class Run(NamedTuple):
    """Its messages in columns, and where the chain stands behind the last."""

    columns: dict[str, Any]  # by names of `ROW_COLUMNS`: arrays or lists
    shared: dict[str, Any]  # what is the same in all of its messages
    messages: int
    last: Ref
    last_seal: Seal


class Spread(NamedTuple):
    """A column that says for each row which of a few values it has."""

    values: list[Any]
    places: pa.Array


def join_runs(runs: Sequence[tuple[Run, list[str]]]) -> dict[str, Any]:
    """The columns of several runs as one: an array costs as much as a hundred of its values."""
    counts = [run.messages for run, _ in runs]
    places = pa.array(np.repeat(np.arange(len(runs), dtype=np.int32), counts))
    joined: dict[str, Any] = {
        name: Spread([run.shared[name] for run, _ in runs], places) for name in ROW_COLUMNS if name in runs[0][0].shared
    }
    for name in runs[0][0].columns:
        joined[name] = _join([run.columns[name] for run, _ in runs])
    return joined


def _join(parts: list[Any]) -> Any:
    match parts[0]:
        case np.ndarray():
            return pa.array(np.concatenate(parts))
        case pa.Array():
            return pa.concat_arrays(parts)
    return list(chain.from_iterable(parts))


def lay_out_run(first: Decoded, numbers: Sequence[int], records: Columns, verify: Verify) -> Run | None:
    """All of these records, of which `first` is the first, if they are a perfect run and their signatures hold.

    `numbers` are those of the records within the archive. Signatures are checked last, so that what is no perfect run
    costs little before its messages are looked at one by one.
    """
    seal, row = first.seal, dict(zip(ROW_COLUMNS, first.row, strict=True))
    if seal is None or seal.previous_hash is None or row["value"] is None or max(records.arrivals_ms) >= LATEST_MS:
        return None
    texts = read_texts(records)
    readings = None if texts is None else _read_messages(texts.messages)
    timestamps_ms, sequences = np.array(records.timestamps_ms, np.int64), np.array(records.sequences, np.int64)
    if texts is None or readings is None or not _is_timely(timestamps_ms):
        return None
    if not all(verify(texts.digests, texts.signatures)):
        return None
    columns = {
        "record": np.array(numbers),
        "timestamp_ms": timestamps_ms,
        "sequence": sequences,
        "arrived_at": np.array(records.arrivals_ms, np.int64) * 1000,
        "previous_timestamp_ms": _of_the_one_before(timestamps_ms, row["previous_timestamp_ms"]),
        "previous_sequence": _of_the_one_before(sequences, row["previous_sequence"]),
        "message_id": readings.ids,
        "value": readings.values,
        "chain_position": readings.positions,
        "hash": _equally_long(pa.binary(), readings.digests, _DIGEST_BYTES),
        "event_time": readings.made_at_ms * 1000,
    }
    last = (int(timestamps_ms[-1]), int(sequences[-1]))
    hashes = readings.digests[-2 * _DIGEST_BYTES :].hex()
    last_seal = Seal(seal.publisher, int(readings.positions[-1]), hashes[_HASH_BYTES:], hashes[:_HASH_BYTES])
    return Run(columns, row, len(numbers), last, last_seal)


def _of_the_one_before(numbers: Numbers, first: int) -> Numbers:
    return np.concatenate((np.array([first], np.int64), numbers[:-1]))


class _Readings(NamedTuple):
    """ioMessages whose seals hold and which are linked to each other, in columns."""

    ids: pa.Array
    values: npt.NDArray[np.float64]
    positions: Numbers
    digests: bytes  # one after the other
    made_at_ms: Numbers


def _read_messages(matrix: Bytes) -> _Readings | None:
    """None unless all of them are perfect; the first was decoded before."""
    fields = _fields(matrix[0, :HEADER_BYTES].tobytes())
    if not _is_alike(matrix, fields):
        return None
    made_at_ms, positions = _integers(matrix, fields["timestamp"]), _integers(matrix, fields["chain_position"])
    digests = _sealed_digests(matrix, fields["hash"])
    if not (_is_timely(made_at_ms) and _is_linked(matrix, fields, positions, digests)):
        return None
    ids = matrix[:, fields["id"]]
    return _Readings(
        ids=_equally_long(pa.string(), ids.tobytes(), ids.shape[1]),
        values=_doubles(matrix, fields["content_data"]),
        positions=positions,
        digests=digests,
        made_at_ms=made_at_ms,
    )


def _fields(header: bytes) -> dict[str, slice]:
    """Where each value stands."""
    ends = accumulate(HEADER.unpack(header)[1:], initial=HEADER_BYTES)
    return {name: slice(*ends) for name, ends in zip(_NAMES, pairwise(ends), strict=True)}


def _is_alike(matrix: Bytes, fields: dict[str, slice]) -> bool:
    """Whether nothing differs from the first but what may, and that is of the usual kind."""
    value, claimed = fields["content_data"], fields["hash"]
    double = slice(value.start + 1, value.stop)
    varying = [double if name == "content_data" else fields[name] for name in _VARYING]
    return (
        value.stop - value.start == _DOUBLE_BYTES
        and claimed.stop - claimed.start == _HASH_BYTES
        and matrix[0, value.start] == _DOUBLE_HEAD
        and differ_only_within(matrix, varying)
        and bool((matrix[:, fields["id"]] < 0x80).all())
    )


def _integers(matrix: Bytes, field: slice) -> Numbers:
    total = np.zeros(len(matrix), np.int64)
    for column in range(field.start, field.stop):
        total = (total << 8) | matrix[:, column]
    return total


def _doubles(matrix: Bytes, field: slice) -> npt.NDArray[np.float64]:
    """Behind the byte that says that each is one."""
    written = np.ascontiguousarray(matrix[:, field.start + 1 : field.stop])
    return written.view(">f8").ravel().astype(np.float64)


def _is_timely(times_ms: Numbers) -> bool:
    return bool(times_ms.min() >= EARLIEST_MS and times_ms.max() < LATEST_MS)


def _sealed_digests(matrix: Bytes, claimed: slice) -> bytes:
    """The SHA-256 of each message with its hash field empty, one after the other."""
    header = bytearray(matrix[0, :HEADER_BYTES].tobytes())
    header[_HASH_LENGTH_AT] = b"\x00\x00"
    hashed = np.concatenate((matrix[:, : claimed.start], matrix[:, claimed.stop :]), axis=1)
    hashed[:, :HEADER_BYTES] = np.frombuffer(bytes(header), np.uint8)
    data, size = hashed.tobytes(), hashed.shape[1]
    return b"".join([hashlib.sha256(data[start : start + size]).digest() for start in range(0, len(data), size)])


def _is_linked(matrix: Bytes, fields: dict[str, slice], positions: Numbers, digests: bytes) -> bool:
    """Whether every seal holds, and each message goes on from the one before it."""
    claimed, previous = (matrix[:, fields[name]].tobytes() for name in ("hash", "previous_hash"))
    return (
        claimed == digests.hex().encode()
        and previous[_HASH_BYTES:] == claimed[:-_HASH_BYTES]
        and bool((positions[1:] - positions[:-1] == 1).all())
    )


def _equally_long(kind: pa.DataType, values: bytes, width: int) -> pa.Array:
    """A column of texts or bytes that stand one after the other."""
    ends = np.arange(0, len(values) + 1, width, dtype=np.int32)
    return pa.Array.from_buffers(kind, len(ends) - 1, [None, pa.py_buffer(ends), pa.py_buffer(values)])

"""Many usual messages of one chain at once: as columns, without a Python value per field.

What nearly every chain of a block is: a run of readings of one sensor, of the same layout byte for byte, each a double,
each sealed and linked to the one before it. The first is decoded alone; the others can differ from it in six fields
only, and these are cut out of all messages together. A run that is not perfect in all of this is not taken: its
messages are decoded one by one, which gives the same rows.
"""

import binascii
import hashlib
from collections.abc import Sequence
from itertools import accumulate, chain, pairwise
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ingest.decoded import EARLIEST_MS, LATEST_MS, ROW_COLUMNS, Decoded, Ref, Seal
from ingest.quick import Parsed
from protocol.archive import Record
from protocol.iomessage.as_bytes import HEADER, HEADER_BYTES

__all__ = ["MIN_RUN", "Run", "Spread", "join_runs", "lay_out_run"]

MIN_RUN: Final = 16  # messages; fewer are as quickly decoded one by one
_DOUBLE_HEAD: Final = 0xFB
_DOUBLE_BYTES: Final = 9
_HASH_BYTES: Final = 64
_HASH_LENGTH_AT: Final = slice(16, 18)  # in the header
_NAMES: Final = (
    "id", "tag", "group_id", "sequence_number", "sequence_total", "priority", "timestamp", "publisher", "auth_id",
    "auth_group", "chain_position", "hash", "previous_hash", "nonce", "difficulty_target", "info_type", "info_format",
    "context_data", "content_data",
)  # fmt: skip
_VARYING: Final = ("id", "timestamp", "chain_position", "hash", "previous_hash", "content_data")

_Bytes = npt.NDArray[np.uint8]


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


def lay_out_run(
    first: Decoded, numbers: Sequence[int], records: Sequence[Record], parsed: Sequence[Parsed]
) -> Run | None:
    """All of these messages, whose signatures hold, of which `first` is the first; None where they are no perfect run.

    `numbers` are those of the records within the archive.
    """
    seal, row = first.seal, dict(zip(ROW_COLUMNS, first.row, strict=True))
    is_usual = seal is not None and seal.previous_hash is not None and row["value"] is not None
    if seal is None or not is_usual or not _is_one_after_the_other(records, parsed):
        return None
    try:
        messages = [binascii.a2b_base64(each[4], strict_mode=True) for each in parsed]
    except ValueError:
        return None
    size = len(messages[0])
    if any(len(each) != size for each in messages):
        return None
    matrix = np.frombuffer(b"".join(messages), np.uint8).reshape(len(messages), size)
    fields = _fields(messages[0][:HEADER_BYTES])
    if not _is_alike(matrix, fields):
        return None
    made_at_ms, positions = _integers(matrix, fields["timestamp"]), _integers(matrix, fields["chain_position"])
    digests = _sealed_digests(matrix, fields["hash"])
    if not (_is_timely(made_at_ms, records) and _is_linked(matrix, fields, positions, digests)):
        return None
    columns = {
        "record": numbers,
        "timestamp_ms": [each.timestamp_ms for each in records],
        "sequence": [each.sequence for each in records],
        "arrived_at": [each.arrived_at_ms * 1000 for each in records],
        "previous_timestamp_ms": [each[3] and each[3][0] for each in parsed],
        "previous_sequence": [each[3] and each[3][1] for each in parsed],
        "message_id": _texts(matrix[:, fields["id"]]),
        "value": np.ascontiguousarray(matrix[:, fields["content_data"]][:, 1:]).view(">f8").ravel().astype(np.float64),
        "chain_position": positions,
        "hash": digests,
        "event_time": made_at_ms * 1000,
    }
    last = records[-1]
    tail = bytes(matrix[-1, fields["previous_hash"]]).decode()
    last_seal = Seal(seal.publisher, int(positions[-1]), digests[-1].hex(), tail)
    return Run(columns, row, len(records), (last.timestamp_ms, last.sequence), last_seal)


def _is_one_after_the_other(records: Sequence[Record], parsed: Sequence[Parsed]) -> bool:
    """Whether they are of one stream, each naming the one before it as its predecessor."""
    identity = parsed[0][2]
    return all(
        each[2] is identity and each[3] == (before.timestamp_ms, before.sequence)
        for before, each in zip(records[:-1], parsed[1:], strict=True)
    )


def _fields(header: bytes) -> dict[str, slice]:
    """Where each value stands."""
    ends = accumulate(HEADER.unpack(header)[1:], initial=HEADER_BYTES)
    return {name: slice(*ends) for name, ends in zip(_NAMES, pairwise(ends), strict=True)}


def _is_alike(matrix: _Bytes, fields: dict[str, slice]) -> bool:
    """Whether nothing differs from the first but what may, and that is of the usual kind."""
    value, claimed = fields["content_data"], fields["hash"]
    if value.stop - value.start != _DOUBLE_BYTES or claimed.stop - claimed.start != _HASH_BYTES:
        return False
    same = np.ones(matrix.shape[1], bool)
    for name in _VARYING:
        same[fields[name]] = False
    same[value.start] = True
    return bool((matrix[:, same] == matrix[0, same]).all() and (matrix[:, fields["id"]] < 0x80).all()) and (
        matrix[0, value.start] == _DOUBLE_HEAD
    )


def _integers(matrix: _Bytes, field: slice) -> npt.NDArray[np.int64]:
    total = np.zeros(len(matrix), np.int64)
    for column in range(field.start, field.stop):
        total = (total << 8) | matrix[:, column]
    return total


def _is_timely(made_at_ms: npt.NDArray[np.int64], records: Sequence[Record]) -> bool:
    refs = [each.timestamp_ms for each in records]
    earliest, latest = min(int(made_at_ms.min()), min(refs)), max(int(made_at_ms.max()), max(refs))
    return earliest >= EARLIEST_MS and latest < LATEST_MS


def _sealed_digests(matrix: _Bytes, claimed: slice) -> list[bytes]:
    """The SHA-256 of each message with its hash field empty."""
    header = bytearray(matrix[0, :HEADER_BYTES].tobytes())
    header[_HASH_LENGTH_AT] = b"\x00\x00"
    hashed = np.concatenate((matrix[:, : claimed.start], matrix[:, claimed.stop :]), axis=1)
    hashed[:, :HEADER_BYTES] = np.frombuffer(bytes(header), np.uint8)
    data, size = hashed.tobytes(), hashed.shape[1]
    return [hashlib.sha256(data[start : start + size]).digest() for start in range(0, len(data), size)]


def _is_linked(
    matrix: _Bytes, fields: dict[str, slice], positions: npt.NDArray[np.int64], digests: list[bytes]
) -> bool:
    """Whether every seal holds, and each message goes on from the one before it."""
    claimed, previous = matrix[:, fields["hash"]], matrix[:, fields["previous_hash"]]
    return (
        claimed.tobytes() == b"".join(digests).hex().encode()
        and previous.shape == claimed.shape
        and bool((previous[1:] == claimed[:-1]).all() and (np.diff(positions) == 1).all())
    )


def _texts(written: _Bytes) -> pa.Array:
    """Fixed-width ASCII as a column of text."""
    count, width = written.shape
    offsets = pa.py_buffer(np.arange(0, (count + 1) * width, width, dtype=np.int32).tobytes())
    return pa.StringArray.from_buffers(count, offsets, pa.py_buffer(written.tobytes()))

"""Fast reader of many linked binary ioMessages of one sensor at once, as a matrix of bytes with one message per row.

The readings of one sensor have the same layout byte for byte and differ in a few fields only. These are extracted from
all messages together. If any message deviates, the result is None, and the messages are read one by one, by
`IoMessage.from_bytes`. Requires numpy, which devices do not have.
"""

import hashlib
from itertools import accumulate, pairwise
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from protocol.byte_matrix import ByteMatrix, differ_only_within
from protocol.iomessage.as_bytes import HEADER, HEADER_BYTES

DIGEST_BYTES: Final = 32
_DOUBLE_HEAD: Final = 0xFB  # the first byte of a double in CBOR
_DOUBLE_BYTES: Final = 9
_HASH_BYTES: Final = 64  # a digest in hexadecimal
_HASH_LENGTH_AT: Final = slice(16, 18)  # in the header
_NAMES: Final = (
    "id", "tag", "group_id", "sequence_number", "sequence_total", "priority", "timestamp", "publisher", "auth_id",
    "auth_group", "chain_position", "hash", "previous_hash", "nonce", "difficulty_target", "info_type", "info_format",
    "context_data", "content_data",
)  # fmt: skip
_VARYING: Final = ("id", "timestamp", "chain_position", "hash", "previous_hash", "content_data")

Numbers = npt.NDArray[np.int64]


class ReadingColumns(NamedTuple):
    """ioMessages with valid hashes, each linked to the previous one, in columns."""

    ids: ByteMatrix  # ASCII
    values: npt.NDArray[np.float64]
    positions: Numbers
    digests: bytes  # one after the other
    made_at_ms: Numbers


def read_binaries(matrix: ByteMatrix) -> ReadingColumns | None:
    """The columns of messages of which the first was decoded before; None if any of them deviates."""
    fields = _fields(matrix[0, :HEADER_BYTES].tobytes())
    if not _is_alike(matrix, fields):
        return None
    positions = _integers(matrix, fields["chain_position"])
    digests = _digests(matrix, fields["hash"])
    if not _is_linked(matrix, fields, positions, digests):
        return None
    return ReadingColumns(
        ids=matrix[:, fields["id"]],
        values=_doubles(matrix, fields["content_data"]),
        positions=positions,
        digests=digests,
        made_at_ms=_integers(matrix, fields["timestamp"]),
    )


def _fields(header: bytes) -> dict[str, slice]:
    """The columns of each value."""
    ends = accumulate(HEADER.unpack(header)[1:], initial=HEADER_BYTES)
    return {name: slice(*ends) for name, ends in zip(_NAMES, pairwise(ends), strict=True)}


def _is_alike(matrix: ByteMatrix, fields: dict[str, slice]) -> bool:
    """Whether all rows equal the first outside the varying fields, and these have the usual types."""
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


def _integers(matrix: ByteMatrix, field: slice) -> Numbers:
    total = np.zeros(len(matrix), np.int64)
    for column in range(field.start, field.stop):
        total = (total << 8) | matrix[:, column]
    return total


def _doubles(matrix: ByteMatrix, field: slice) -> npt.NDArray[np.float64]:
    """The doubles, each after the byte that marks it as one."""
    written = np.ascontiguousarray(matrix[:, field.start + 1 : field.stop])
    return written.view(">f8").ravel().astype(np.float64)


def _digests(matrix: ByteMatrix, claimed: slice) -> bytes:
    """The SHA-256 of each message with its hash field empty, one after the other."""
    header = bytearray(matrix[0, :HEADER_BYTES].tobytes())
    header[_HASH_LENGTH_AT] = b"\x00\x00"
    hashed = np.concatenate((matrix[:, : claimed.start], matrix[:, claimed.stop :]), axis=1)
    hashed[:, :HEADER_BYTES] = np.frombuffer(bytes(header), np.uint8)
    data, size = hashed.tobytes(), hashed.shape[1]
    return b"".join([hashlib.sha256(data[start : start + size]).digest() for start in range(0, len(data), size)])


def _is_linked(matrix: ByteMatrix, fields: dict[str, slice], positions: Numbers, digests: bytes) -> bool:
    """Whether every hash is correct, and each message follows the previous one."""
    claimed, previous = (matrix[:, fields[name]].tobytes() for name in ("hash", "previous_hash"))
    return (
        claimed == digests.hex().encode()
        and previous[_HASH_BYTES:] == claimed[:-_HASH_BYTES]
        and bool((positions[1:] - positions[:-1] == 1).all())
    )

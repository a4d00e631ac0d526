"""Fast reader of many binary ioMessages of equal header at once, as a matrix of bytes with one message per row.

A header holds the length of every field, so messages with the same header have each field in the same columns. The
readings of one sensor are such messages, and so are those of sensors with names of equal length: messages that differ
only in id, time, chain and content are of one kind. What is not of the usual form is marked, and is read alone, by
`IoMessage.from_bytes`. Requires numpy, which devices do not have.
"""

import hashlib
from itertools import accumulate, pairwise
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from protocol.byte_matrix import ByteMatrix
from protocol.errors import WireError
from protocol.iomessage.as_bytes import HEADER, HEADER_BYTES, message_size

DIGEST_BYTES: Final = 32
HASH_BYTES: Final = 64  # a digest in hexadecimal
WIDEST_USUAL_INTEGER: Final = 6  # bytes; wider ones may be doubles in disguise
DOUBLE_BYTES: Final = 9  # in CBOR
_DOUBLE_HEAD: Final = 0xFB
_HASH_LENGTH_AT: Final = slice(16, 18)  # in the header
_NAMES: Final = (
    "id", "tag", "group_id", "sequence_number", "sequence_total", "priority", "timestamp", "publisher", "auth_id",
    "auth_group", "chain_position", "hash", "previous_hash", "nonce", "difficulty_target", "info_type", "info_format",
    "context_data", "content_data",
)  # fmt: skip
_VARYING: Final = ("id", "timestamp", "chain_position", "hash", "previous_hash", "content_data")

Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


class ReadingColumns(NamedTuple):
    """ioMessages of equal header, in columns."""

    ids: ByteMatrix
    made_at_ms: Numbers  # 0 where there is none
    positions: Numbers | None  # None: they have none
    hashes: ByteMatrix  # in hexadecimal; of no columns where they have none
    previous_hashes: ByteMatrix
    digests: bytes  # what their hashes must be, one after the other; empty where they have none
    contents: ByteMatrix
    kinds: Numbers  # of each message: a place in `samples`
    samples: list[bytes]  # the first message of each kind
    is_usual: Flags  # whether its hash is correct, and its texts are ASCII


def read_binaries(matrix: ByteMatrix) -> ReadingColumns | None:
    """The columns of messages that have the header of the first; None if that is not usual."""
    fields = _fields(matrix[0, :HEADER_BYTES].tobytes(), matrix.shape[1])
    if fields is None or not _is_usual_layout(fields):
        return None
    columns = {name: matrix[:, fields[name]] for name in _VARYING}
    digests = _digests(matrix, fields["hash"])
    kinds, samples = _kinds(matrix, [fields[name] for name in _VARYING])
    return ReadingColumns(
        ids=columns["id"],
        made_at_ms=_integers(columns["timestamp"]),
        positions=_integers(columns["chain_position"]) if columns["chain_position"].shape[1] else None,
        hashes=columns["hash"],
        previous_hashes=columns["previous_hash"],
        digests=digests,
        contents=columns["content_data"],
        kinds=kinds,
        samples=samples,
        is_usual=_are_usual(columns, digests),
    )


def doubles_in(contents: ByteMatrix) -> npt.NDArray[np.float64] | None:
    """The numbers in contents that are all doubles in CBOR; None if any is something else."""
    if contents.shape[1] != DOUBLE_BYTES or (contents[:, 0] != _DOUBLE_HEAD).any():
        return None
    return np.ascontiguousarray(contents[:, 1:]).view(">f8").ravel().astype(np.float64)


def _fields(header: bytes, size: int) -> dict[str, slice] | None:
    """The columns of each value; None unless this is the header of a message of that size."""
    try:
        if message_size(header) != size:
            return None
    except WireError:
        return None
    ends = accumulate(HEADER.unpack(header)[1:], initial=HEADER_BYTES)
    return {name: slice(*ends) for name, ends in zip(_NAMES, pairwise(ends), strict=True)}


def _is_usual_layout(fields: dict[str, slice]) -> bool:
    width = {name: field.stop - field.start for name, field in fields.items()}
    return (
        width["id"] > 0
        and width["context_data"] == 0
        and max(width["timestamp"], width["chain_position"]) <= WIDEST_USUAL_INTEGER
        and {width["hash"], width["previous_hash"]} <= {0, HASH_BYTES}
    )


def _are_usual(columns: dict[str, ByteMatrix], digests: bytes) -> Flags:
    expected = np.frombuffer(digests.hex().encode(), np.uint8).reshape(columns["hash"].shape)
    previous = columns["previous_hash"]
    usual: Flags = np.logical_and.reduce(
        [
            (columns["id"] < 0x80).all(axis=1),
            (columns["hash"] == expected).all(axis=1),
            ((previous >= 0x20) & (previous < 0x80)).all(axis=1),
        ]
    )
    return usual


def _kinds(matrix: ByteMatrix, varying: list[slice]) -> tuple[Numbers, list[bytes]]:
    differs = (matrix != matrix[0]).any(axis=0)
    for field in varying:
        differs[field] = False
    if not differs.any():
        return np.zeros(len(matrix), np.int64), [matrix[0].tobytes()]
    distinct = np.ascontiguousarray(matrix[:, differs])
    as_items = distinct.view(np.dtype((np.void, distinct.shape[1]))).ravel()
    _, firsts, kinds = np.unique(as_items, return_index=True, return_inverse=True)
    return kinds.astype(np.int64), [matrix[first].tobytes() for first in firsts]


def _integers(written: ByteMatrix) -> Numbers:
    total = np.zeros(len(written), np.int64)
    for column in range(written.shape[1]):
        total = (total << 8) | written[:, column]
    return total


def _digests(matrix: ByteMatrix, claimed: slice) -> bytes:
    """The SHA-256 of each message with its hash field empty, one after the other; nothing where they have no hash."""
    if claimed.start == claimed.stop:
        return b""
    header = bytearray(matrix[0, :HEADER_BYTES].tobytes())
    header[_HASH_LENGTH_AT] = b"\x00\x00"
    hashed = np.concatenate((matrix[:, : claimed.start], matrix[:, claimed.stop :]), axis=1)
    hashed[:, :HEADER_BYTES] = np.frombuffer(bytes(header), np.uint8)
    data, size = hashed.tobytes(), hashed.shape[1]
    return b"".join([hashlib.sha256(data[start : start + size]).digest() for start in range(0, len(data), size)])

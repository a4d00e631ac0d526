"""Frames on the wire between a gateway and a microcontroller.

    00 │ stuffed( header 4 │ CBOR payload │ proof 12, if authenticated │ CRC-32 4 ) │ 00

| offset | bytes | holds |
|---|---|---|
| 0 | 1 | version << 6, type |
| 1 | 1 | flags: 1 = authenticated, 2 = NAK; a frame with any other bit is refused as unsupported |
| 2 | 1 | session, chosen by the host; 0 while there is none |
| 3 | 1 | READING: its number in the session; ACK: the number expected next; otherwise 0 |

The bytes between the zeros, unstuffed, are the body. Noise becomes `Damaged`, never an exception. The rules of the
protocol are in `docs/wire-formats.md`.
"""

import struct
import zlib
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

from protocol.checks import check_within
from protocol.errors import Corrupt, Truncated, Unsupported, WireError
from protocol.link.cobs import FULL_BLOCK_BYTES, stuff, unstuff

VERSION: Final = 1
DELIMITER: Final = b"\0"
MAX_BODY_BYTES: Final = 1024
MIN_MTU: Final = 160  # every HELLO and every description fits
HEADER_BYTES: Final = 4
PROOF_BYTES: Final = 12
CRC_BYTES: Final = 4
MAX_PAYLOAD_BYTES: Final = MAX_BODY_BYTES - HEADER_BYTES - PROOF_BYTES - CRC_BYTES
MAX_STUFFED_BYTES: Final = MAX_BODY_BYTES + MAX_BODY_BYTES // FULL_BLOCK_BYTES + 1

_MAX_HELD_BYTES: Final = MAX_STUFFED_BYTES + 1  # one byte over the limit shows that it was exceeded
_AUTHENTICATED, _NAK = 1, 2
_KNOWN_FLAGS: Final = _AUTHENTICATED | _NAK
_TYPE_BITS: Final = 6
_TYPE_MASK: Final = 0x3F
_PROOF: Final = struct.Struct("<I8s")


class FrameType(IntEnum):
    """The kind of message in a frame. H: sent by the host, D: by the device."""

    SYNC = 1  # H
    HELLO = 2  # D
    DESC_REQ = 3  # H
    DESC = 4  # D
    READING = 5  # D
    ACK = 6  # H
    TIME_REQ = 7  # H
    TIME = 8  # D
    COMMAND = 9  # H
    RESULT = 10  # D
    LOG = 11  # D
    FW_BEGIN = 16  # H
    FW_CHUNK = 17  # H
    FW_END = 18  # H
    FW_CONFIRM = 19  # H
    FW_QUERY = 20  # H
    FW_STATUS = 21  # D


_TYPES: Final = {kind.value: kind for kind in FrameType}


class Proof(NamedTuple):
    """The end of an authenticated frame."""

    counter: int
    tag: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One complete frame. Its payload is not validated yet; `message_in` decodes it."""

    kind: FrameType
    session: int = 0
    seq: int = 0
    is_nak: bool = False
    payload: bytes = b""
    proof: Proof | None = None

    def __post_init__(self) -> None:
        check_within("session", self.session, 0, 255)
        check_within("seq", self.seq, 0, 255)
        if len(self.payload) > MAX_PAYLOAD_BYTES:
            raise ValueError(f"payload of {len(self.payload)} bytes, at most {MAX_PAYLOAD_BYTES} fit a frame")

    def to_bytes(self) -> bytes:
        """The frame as it is sent, with a zero before and after."""
        proof = b"" if self.proof is None else _PROOF.pack(*self.proof)
        body = self.covered_bytes() + proof
        body += zlib.crc32(body).to_bytes(CRC_BYTES, "little")
        return DELIMITER + stuff(body) + DELIMITER

    def covered_bytes(self) -> bytes:
        """Header and payload, which the proof covers beside direction and counter."""
        flags = (_NAK if self.is_nak else 0) | (_AUTHENTICATED if self.proof is not None else 0)
        return bytes((VERSION << _TYPE_BITS | self.kind, flags, self.session, self.seq)) + self.payload

    @classmethod
    def from_stuffed(cls, data: bytes) -> "Frame":
        """Decode the bytes between two zeros.

        Raises: Truncated, Corrupt if damaged; Unsupported if undamaged, but of an unknown version, type or flag.
        """
        if len(data) > MAX_STUFFED_BYTES:
            raise Corrupt(f"more than {MAX_STUFFED_BYTES} bytes without a zero")
        body = unstuff(data)
        if not HEADER_BYTES + CRC_BYTES <= len(body) <= MAX_BODY_BYTES:
            raise Corrupt(f"body of {len(body)} bytes, not {HEADER_BYTES + CRC_BYTES} to {MAX_BODY_BYTES}")
        if zlib.crc32(body[:-CRC_BYTES]) != int.from_bytes(body[-CRC_BYTES:], "little"):
            raise Corrupt("the CRC does not match")
        return cls._from_checked(body[:-CRC_BYTES])

    @classmethod
    def _from_checked(cls, body: bytes) -> "Frame":
        kind, flags, session, seq = body[:HEADER_BYTES]
        if kind >> _TYPE_BITS != VERSION or flags & ~_KNOWN_FLAGS:
            raise Unsupported(
                f"version {kind >> _TYPE_BITS} and flags {flags:#04x}, this reader knows {VERSION}", offset=0
            )
        known = _TYPES.get(kind & _TYPE_MASK)
        if known is None:
            raise Unsupported(f"type {kind & _TYPE_MASK} is not known", offset=0)
        proof = None
        if flags & _AUTHENTICATED:
            if len(body) < HEADER_BYTES + PROOF_BYTES:
                raise Truncated(
                    f"an authenticated body of {len(body)} bytes is too short for its proof", offset=len(body)
                )
            proof = Proof(*_PROOF.unpack(body[-PROOF_BYTES:]))
            body = body[:-PROOF_BYTES]
        payload = body[HEADER_BYTES:]
        return cls(kind=known, session=session, seq=seq, is_nak=bool(flags & _NAK), payload=payload, proof=proof)


@dataclass(frozen=True, slots=True, kw_only=True)
class Damaged:
    """Bytes between two zeros that are not a supported frame."""

    problem: str
    size_bytes: int  # at most one more than a frame can have
    is_foreign: bool  # undamaged, but of an unknown version, type or flag: a repetition would not help


class LinkDecoder:
    """Turns a serial byte stream into events. Feed it pieces of any size; it holds at most one frame."""

    def __init__(self) -> None:
        self._pending = bytearray()

    def feed(self, data: bytes) -> list[Frame | Damaged]:
        *complete, rest = (self._pending + data).split(DELIMITER)
        self._pending = rest[:_MAX_HELD_BYTES]
        return [_read(bytes(part[:_MAX_HELD_BYTES])) for part in complete if part]


def _read(part: bytes) -> Frame | Damaged:
    try:
        return Frame.from_stuffed(part)
    except WireError as error:
        return Damaged(problem=str(error), size_bytes=len(part), is_foreign=isinstance(error, Unsupported))

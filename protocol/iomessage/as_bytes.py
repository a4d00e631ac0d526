"""The binary embodiment: a header of 33 bytes that holds the version and 19 lengths, then the 19 values.

`docs/wire-formats.md` specifies every offset. All numbers are big-endian; integers are unsigned.

Writing, by profile:

| profile | integer widths                                  | integer 0      | absent integer |
|---------|-------------------------------------------------|----------------|----------------|
| minimal | as few bytes as hold it, 7 padded to 8          | one zero byte  | no bytes       |
| agent   | 4, 4, 1, 8, 8, 4 fixed, as the Java agent does  | no bytes       | no bytes       |

Reading: any integer width from 0 to 8. An 8-byte timestamp or chain position that is a whole number as a double is read
as that number; text that is not UTF-8 is read as Latin-1. Both are flagged. Every other deviation is refused.
"""

import struct
from functools import lru_cache
from typing import Any, Final, Literal

from protocol.errors import Corrupt, Truncated, Unsupported
from protocol.iomessage.fields import TEXT_LIMITS, VERSION, Fields, Quirk, check_fields, double_in

HEADER: Final = struct.Struct(">HBHBBBBBBHHBHHHBBBII")
HEADER_BYTES: Final = HEADER.size
MAX_INTEGER_BYTES: Final = 8

_NO_QUIRKS: Final = Quirk.NONE

Profile = Literal["minimal", "agent"]

_VALUE_NAMES: Final = tuple(name for name in Fields._fields if name not in ("version", "quirks"))
_INTEGER_LENGTHS_AT: Final = {  # field → offset of its one-byte length in the header
    "sequence_number": 6,
    "sequence_total": 7,
    "priority": 8,
    "timestamp": 9,
    "chain_position": 15,
    "difficulty_target": 22,
}
MINIMAL_WIDTHS: Final = tuple(1 if bits == 0 else 8 if bits > 48 else (bits + 7) // 8 for bits in range(65))
_CACHED_HEADERS: Final = 256  # a device repeats a few headers, as its messages differ in values, not in lengths


def encode(fields: Fields, profile: Profile = "minimal") -> bytes:
    """The one binary form of these fields in this profile.

    Raises:
        Unsupported: an integer is too large for the fixed widths of the agent profile.
        Corrupt: a text that was read as Latin-1 is too long in UTF-8.
    """
    (
        id_, tag, group_id, sequence_number, sequence_total, priority, timestamp, publisher, auth_id, auth_group, _,
        chain_position, hash_, previous_hash, nonce, difficulty_target, info_type, info_format,
        context_data, content_data, _,
    ) = fields  # fmt: skip
    number = minimal_bytes if profile == "minimal" else _agent_bytes
    values = (
        id_.encode() if id_ else b"",
        tag.encode() if tag else b"",
        group_id.encode() if group_id else b"",
        b"" if sequence_number is None else number(sequence_number, 4),
        b"" if sequence_total is None else number(sequence_total, 4),
        b"" if priority is None else number(priority, 1),
        b"" if timestamp is None else number(timestamp, 8),
        publisher.encode() if publisher else b"",
        auth_id.encode() if auth_id else b"",
        auth_group.encode() if auth_group else b"",
        b"" if chain_position is None else number(chain_position, 8),
        hash_.encode() if hash_ else b"",
        previous_hash.encode() if previous_hash else b"",
        nonce.encode() if nonce else b"",
        b"" if difficulty_target is None else number(difficulty_target, 4),
        info_type.encode() if info_type else b"",
        info_format.encode() if info_format else b"",
        context_data or b"",
        content_data or b"",
    )
    try:
        return HEADER.pack(VERSION, *map(len, values)) + b"".join(values)
    except struct.error:
        check_fields(fields)
        raise


def decode(data: bytes) -> tuple[Any, ...]:
    """Decode exactly one message; its values are in the order of `Fields`.

    Raises:
        Truncated: `data` is the beginning of a message.
        Unsupported: the version is not 4.
        Corrupt: bytes follow the message, or a length is impossible.
    """
    values = split_values(data)
    try:
        return _decode_values(values)
    except UnicodeDecodeError:
        fields = Fields._make(_decode_values(_latin1_to_utf8(values)))
        return fields._replace(quirks=fields.quirks | Quirk.LATIN1_TEXT)


def split_values(data: bytes) -> tuple[bytes, ...]:
    """The encoded 19 values of exactly one message. Raises: as `decode`."""
    layout = _layout(data[:HEADER_BYTES])
    size = layout.size
    if len(data) < size:
        raise Truncated(f"the message is {size} bytes long and ends after {len(data)}", offset=len(data))
    if len(data) > size:
        raise Corrupt(f"{len(data) - size} bytes follow the message", offset=size)
    values: tuple[bytes, ...] = layout.unpack(data)
    return values


@lru_cache(maxsize=_CACHED_HEADERS)
def message_size(header: bytes) -> int:
    """The size in bytes of the message with this header of 33 bytes.

    Raises:
        Truncated: the header is not complete.
        Unsupported: the version is not 4.
        Corrupt: an integer is wider than 8 bytes.
    """
    if len(header) >= 2 and (version := int.from_bytes(header[:2])) != VERSION:
        raise Unsupported(f"ioMessage version {version} is not known; this reader knows version {VERSION}", offset=0)
    if len(header) < HEADER_BYTES:
        raise Truncated(f"the header is {HEADER_BYTES} bytes long and ends after {len(header)}", offset=len(header))
    for name, offset in _INTEGER_LENGTHS_AT.items():
        if header[offset] > MAX_INTEGER_BYTES:
            raise Corrupt(f"{name} is {header[offset]} bytes wide; the limit is {MAX_INTEGER_BYTES}", offset=offset)
    lengths: tuple[int, ...] = HEADER.unpack(header)[1:]
    return HEADER_BYTES + sum(lengths)


@lru_cache(maxsize=_CACHED_HEADERS)
def _layout(header: bytes) -> struct.Struct:
    """Raises: as `message_size`."""
    message_size(header)
    lengths = HEADER.unpack(header)[1:]
    return struct.Struct(f"{HEADER_BYTES}x" + "".join(f"{length}s" for length in lengths))


def _decode_values(values: tuple[bytes, ...]) -> tuple[Any, ...]:
    """The values in the order of `Fields`. The caller builds the `Fields`, which would cost a fifth more here."""
    (
        id_, tag, group_id, sequence_number, sequence_total, priority, timestamp, publisher, auth_id, auth_group,
        chain_position, hash_, previous_hash, nonce, difficulty_target, info_type, info_format,
        context_data, content_data,
    ) = values  # fmt: skip
    fields = (
        id_.decode() if id_ else None,
        tag.decode() if tag else None,
        group_id.decode() if group_id else None,
        int.from_bytes(sequence_number) if sequence_number else None,
        int.from_bytes(sequence_total) if sequence_total else None,
        int.from_bytes(priority) if priority else None,
        int.from_bytes(timestamp) if timestamp else None,
        publisher.decode() if publisher else None,
        auth_id.decode() if auth_id else None,
        auth_group.decode() if auth_group else None,
        VERSION,
        int.from_bytes(chain_position) if chain_position else None,
        hash_.decode() if hash_ else None,
        previous_hash.decode() if previous_hash else None,
        nonce.decode() if nonce else None,
        int.from_bytes(difficulty_target) if difficulty_target else None,
        info_type.decode() if info_type else None,
        info_format.decode() if info_format else None,
        context_data or None,
        content_data,
        _NO_QUIRKS,
    )
    maybe_double = len(timestamp) == MAX_INTEGER_BYTES or len(chain_position) == MAX_INTEGER_BYTES
    return _doubles_to_integers(Fields._make(fields)) if maybe_double else fields


def _doubles_to_integers(fields: Fields) -> Fields:
    timestamp = double_in(fields.timestamp or 0)
    chain_position = double_in(fields.chain_position or 0)
    if timestamp is None and chain_position is None:
        return fields
    return fields._replace(
        timestamp=fields.timestamp if timestamp is None else timestamp,
        chain_position=fields.chain_position if chain_position is None else chain_position,
        quirks=fields.quirks | Quirk.DOUBLE_INTEGER,
    )


def _latin1_to_utf8(values: tuple[bytes, ...]) -> tuple[bytes, ...]:
    return tuple(
        _as_utf8(value) if name in TEXT_LIMITS else value for name, value in zip(_VALUE_NAMES, values, strict=True)
    )


def _as_utf8(text: bytes) -> bytes:
    try:
        text.decode()
    except UnicodeDecodeError:
        return text.decode("latin-1").encode()
    return text


def minimal_bytes(number: int, _agent_width: int = 0) -> bytes:
    """An integer in the fewest bytes that hold it, but never in 7."""
    return number.to_bytes(MINIMAL_WIDTHS[number.bit_length()])


def _agent_bytes(number: int, agent_width: int) -> bytes:
    try:
        return number.to_bytes(agent_width) if number else b""
    except OverflowError:
        raise Unsupported(f"{number} does not fit the {agent_width} bytes that the agent profile has for it") from None

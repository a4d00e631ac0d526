"""The two frequent packets of MQTT: received publications and sent acknowledgements. Pure.

    PUBLISH   0x30 | flags   length   topic   number, if QoS 1   properties, if version 5   payload
    PUBACK    0x40           2        number

All received publications are parsed at once, and all committed ones are acknowledged together. Every other packet is
left to paho, if a broker may send it (`check_packet`).
"""

from collections.abc import Collection
from functools import partial
from struct import Struct
from typing import Final, NamedTuple

MAX_CONTROL_BYTES: Final = 64 * 1024  # of any packet but a publication
CONNACK: Final = 0x20
PUBACK: Final = 0x40
SUBACK: Final = 0x90
PINGRESP: Final = 0xD0
DISCONNECT: Final = 0xE0
_FROM_BROKER: Final = frozenset({CONNACK, PUBACK, SUBACK, PINGRESP})
_MAX_LENGTH_BYTES: Final = 4
_PUBLISH: Final = 0x30
_QOS_BITS: Final = 0x06
_QOS_1: Final = 0x02
_DUPLICATE: Final = 0x08
_RETAINED: Final = 0x01
_acknowledgement: Final = Struct(">HH").pack
_PUBACK_HEAD: Final = 0x4002


class Message(NamedTuple):
    """A publication."""

    topic: str
    payload: bytes
    number: int  # to acknowledge by; 0 for QoS 0
    is_duplicate: bool
    is_retained: bool


_message: Final = partial(tuple.__new__, Message)  # the parser has checked its fields


class Parsed(NamedTuple):
    messages: list[Message]
    used_bytes: int
    next_bytes: int  # the size of the next packet, of another kind or incomplete; 0 while unknown


def parse_publications(data: bytes, *, is_v5: bool, max_bytes: int) -> Parsed:
    """The publications at the beginning of the data, up to the first other or incomplete packet.

    One loop without calls of its own, as far as common packets go. Messages of one topic share its text.

    Args:
        max_bytes: the limit of an incomplete publication, which bounds the buffer.

    Raises ValueError if the data violates the protocol.
    """
    messages: list[Message] = []
    topics: dict[bytes, str] = {}
    at, end = 0, len(data)
    while at + 1 < end:
        head, length, begin = data[at], data[at + 1], at + 2
        if length >= 0x80:
            length, begin = _number_at(data, at + 1)
            if not begin:
                break
        next_at = begin + length
        if head & 0xF0 != _PUBLISH or next_at > end:
            is_publication = head & 0xF0 == _PUBLISH
            return Parsed(messages, at, _checked_size(next_at - at, max_bytes if is_publication else MAX_CONTROL_BYTES))
        topic_end = begin + 2 + (data[begin] << 8 | data[begin + 1]) if length > 1 else next_at + 1
        body, number = topic_end, 0
        if head & _QOS_BITS:
            body += 2
            number = int.from_bytes(data[topic_end:body])
            if head & _QOS_BITS != _QOS_1 or not number:
                raise ValueError("a publication of QoS 2 or without a number, neither of which was requested")
        if is_v5:
            body = _after_properties(data, body) if body < next_at and data[body] else body + 1
        if body > next_at:
            raise ValueError("a publication that ends before its payload begins")
        name = data[begin + 2 : topic_end]
        topic = topics.get(name)
        if topic is None:
            topic = topics[name] = name.decode(errors="replace")
        messages.append(_message((topic, data[body:next_at], number, head & _DUPLICATE != 0, head & _RETAINED != 0)))
        at = next_at
    return Parsed(messages, at, 0)


def _after_properties(data: bytes, at: int) -> int:
    """The offset after the properties, which are ignored."""
    if data[at] < 0x80:
        return at + 1 + data[at]
    size, begin = _number_at(data, at)
    return begin + size if begin else len(data) + 1


def _number_at(data: bytes, at: int) -> tuple[int, int]:
    """A number of variable length, and the offset after it; 0 if it is incomplete. Raises ValueError."""
    number = 0
    for place, byte in enumerate(data[at : at + _MAX_LENGTH_BYTES]):
        number |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return number, at + place + 1
    if len(data) - at >= _MAX_LENGTH_BYTES:
        raise ValueError(f"a length of more than {_MAX_LENGTH_BYTES} bytes")
    return 0, 0


def _checked_size(size: int, max_bytes: int) -> int:
    if size > max_bytes:
        raise ValueError(f"a packet of {size} bytes; the limit is {max_bytes}")
    return size


def check_packet(head: int, *, is_v5: bool, is_connected: bool) -> None:
    """Raises ValueError if a broker may not send a packet that begins with this byte now.

    The first packet must be CONNACK, and no other. Packets of clients, responses to requests that are never made, and
    QoS 2 are refused: paho would respond to some of them, and a broker that does not read would fill the memory.
    """
    if (head == CONNACK) == is_connected:
        raise ValueError("a second CONNACK" if is_connected else f"a packet of kind 0x{head:02x} before CONNACK")
    is_known = head in _FROM_BROKER or head & 0xF0 == _PUBLISH or (is_v5 and head == DISCONNECT)
    if not is_known:
        raise ValueError(f"a packet of kind 0x{head:02x}, which was not requested")


def acknowledgements(numbers: Collection[int]) -> bytes:
    """The PUBACK packets of these numbers, one after the other."""
    return b"".join([_acknowledgement(_PUBACK_HEAD, number) for number in numbers])

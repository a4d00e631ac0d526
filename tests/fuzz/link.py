"""Fuzz what a gateway reads from a serial line. `python -m tests.fuzz link -runs=100000`"""

import zlib

from protocol.errors import WireError
from protocol.link import Damaged, Frame, FrameType, LinkDecoder, message_in
from tests.vectors.link import load

SEEDS = [bytes.fromhex(case["wire"]) for case in load("frames") + load("bad")]
TOLERANT = (FrameType.HELLO, FrameType.DESC, FrameType.LOG)  # may say more than we know, or in a way we do not show


def fuzz_one(data: bytes) -> None:
    """As it comes, and as the body of a frame that is whole, which chance would rarely make."""
    events = LinkDecoder().feed(data + b"\0")
    assert events == _fed_in_pieces(data + b"\0")
    for event in events:
        _read(event)
    if data:
        kinds = tuple(FrameType)
        _read(Frame(kind=kinds[data[0] % len(kinds)], payload=data[1:1000]))


def _fed_in_pieces(data: bytes) -> list[Frame | Damaged]:
    decoder, size = LinkDecoder(), 1 + zlib.crc32(data) % 16
    return [event for start in range(0, len(data), size) for event in decoder.feed(data[start : start + size])]


def _read(event: Frame | Damaged) -> None:
    if isinstance(event, Damaged):
        return
    assert LinkDecoder().feed(event.to_bytes()) == [event]
    try:
        message = message_in(event)
    except WireError:
        return
    if event.kind not in TOLERANT:
        assert message.to_bytes() == event.payload

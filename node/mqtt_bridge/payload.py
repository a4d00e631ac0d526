"""What an MQTT message holds: one serialised stream message, or a JSON array of them."""

from typing import Any, Final

from protocol.errors import Corrupt
from protocol.streamr import StreamMessage
from protocol.streamr.checks import FieldError, wire_error
from protocol.streamr.json_text import decode_json
from protocol.streamr.stream_codec import read_stream_message
from protocol.streamr.stream_parts import STREAM_VERSIONS

__all__ = ["read_payload"]

MAX_PAYLOAD_BYTES: Final = 16 * 1024 * 1024
MAX_MESSAGES: Final = 10_000


def read_payload(payload: bytes) -> list[StreamMessage]:
    """Every message in the payload, in order. All are good, or none is taken.

    Raises: `WireError`, which says what is wrong and where.
    """
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise Corrupt(f"payload of {len(payload)} bytes is longer than {MAX_PAYLOAD_BYTES}")
    parsed = decode_json(payload)
    if type(parsed) is list and parsed and all(type(element) in (list, str) for element in parsed):
        return _read_each(parsed)
    return [_read(parsed, "")]


def _read_each(elements: list[Any]) -> list[StreamMessage]:
    if len(elements) > MAX_MESSAGES:
        raise Corrupt(f"{len(elements)} messages in one payload are more than {MAX_MESSAGES}")
    return [_read(element, f"[{index}]") for index, element in enumerate(elements)]


def _read(element: Any, place: str) -> StreamMessage:
    try:
        return read_stream_message(element, draft=False, versions=STREAM_VERSIONS)
    except FieldError as problem:
        raise wire_error(problem.within(place)) from None

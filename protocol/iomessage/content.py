"""The content of a StreamMessage that holds readings: one ioMessage, or a pack of several.

{"ioMessage":"<base64 of the binary embodiment>"}                             one reading, the usual form
{"ioMessages":"<base64 of the binary embodiments, one after the other>"}      a pack
{"id":"…","infoformat":"…",…}                                                 one reading in the JSON embodiment
{"ioMessages":[{"id":"…",…},{"id":"…",…}]}                                    a pack in the JSON embodiment

The binary embodiment delimits itself: its header holds its size.
"""

import binascii
from collections.abc import Sequence
from typing import Any, Final

import orjson

from protocol.errors import Corrupt, WireError
from protocol.iomessage import as_json
from protocol.iomessage.as_bytes import HEADER_BYTES, message_size
from protocol.iomessage.message import IoMessage

MAX_PACK_READINGS: Final = 1000
MAX_PACK_BYTES: Final = 64 * 1024  # of the binary embodiments together; a larger reading stands alone
BINARY_CONTENT: Final = ('{"ioMessage":"', '"}')  # before and after the base64 of one
BINARY_PACK: Final = ('{"ioMessages":"', '"}')  # and of several
JSON_PACK: Final = ('{"ioMessages":[', "]}")


def encode_binary_content(messages: Sequence[bytes]) -> str:
    """The content for one or more messages in the binary embodiment."""
    around = BINARY_CONTENT if len(messages) == 1 else BINARY_PACK
    return binascii.b2a_base64(b"".join(messages), newline=False).decode().join(around)


def encode_json_content(messages: Sequence[str]) -> str:
    """The content for one or more messages in the JSON embodiment."""
    return messages[0] if len(messages) == 1 else ",".join(messages).join(JSON_PACK)


def decode_content(content: str) -> list[IoMessage]:
    """The readings of a content in any of its forms, in their order; at least one.

    Raises: WireError.
    """
    binary = decode_binary_content(content)
    if binary is not None:
        return [IoMessage.from_bytes(each) for each in binary]
    pack = _document(content).get("ioMessages")
    if pack is None:
        return [IoMessage.from_json(content)]
    _check_count(len(pack))
    return [_from_object(each, index) for index, each in enumerate(pack)]


def decode_binary_content(content: str) -> list[bytes] | None:
    """The binary embodiments in the content; None if it is other JSON, such as the JSON embodiment.

    Base64 has no quotes and no escapes, so the usual forms are read without a JSON parser.

    Raises: WireError where the content is not JSON, its `ioMessage` or `ioMessages` is not base64, or its pack is not
    one or more whole messages within the limits.
    """
    for around, split in ((BINARY_CONTENT, _alone), (BINARY_PACK, split_pack)):
        if content.startswith(around[0]) and content.endswith(around[1]):
            try:
                data = binascii.a2b_base64(content[len(around[0]) : -len(around[1])], strict_mode=True)
            except ValueError:
                break  # other JSON that begins and ends like this form
            return split(data)
    return _from_document(_document(content))


def split_pack(data: bytes) -> list[bytes]:
    """The binary messages that stand one after the other in a pack.

    Raises: WireError unless it is one or more whole messages within the limits.
    """
    if len(data) > MAX_PACK_BYTES:
        raise Corrupt(f"a pack of {len(data)} bytes; the limit is {MAX_PACK_BYTES}")
    messages: list[bytes] = []
    offset = 0
    while offset < len(data) or not messages:
        size = _size_at(data, offset)
        messages.append(data[offset : offset + size])
        offset += size
        if len(messages) > MAX_PACK_READINGS:
            raise Corrupt(f"a pack of more than {MAX_PACK_READINGS} readings", offset=offset)
    if offset > len(data):
        raise Corrupt(f"the last reading of the pack ends {offset - len(data)} bytes behind it", offset=len(data))
    return messages


def carries_io_message(content: str) -> bool:
    """Whether a Headgate publisher wrote this content: a binary ioMessage (or several), or one in JSON."""
    return content.startswith('{"ioMessage') or (content.startswith('{"id":"') and '","infoformat":"' in content)


def _alone(data: bytes) -> list[bytes]:
    return [data]


def _size_at(data: bytes, offset: int) -> int:
    try:
        return message_size(data[offset : offset + HEADER_BYTES])
    except WireError as error:
        raise type(error)(f"in a pack: {error.problem}", offset=offset + (error.offset or 0)) from None


def _document(content: str) -> dict[str, Any]:
    """The JSON object; an empty one for other JSON. Raises: Corrupt."""
    try:
        document = orjson.loads(content)
    except ValueError as problem:
        raise Corrupt(f"the content is neither JSON nor base64 in JSON: {problem}") from None
    return document if type(document) is dict else {}


def _from_document(document: dict[str, Any]) -> list[bytes] | None:
    one, pack = (document.get(name) for name in ("ioMessage", "ioMessages"))
    if one is not None and pack is not None:
        raise Corrupt("the content has both ioMessage and ioMessages")
    if one is None and (pack is None or type(pack) is list):
        return None
    encoded: Any = pack if one is None else one
    try:
        data = binascii.a2b_base64(encoded, strict_mode=True)
    except (TypeError, ValueError) as problem:
        raise Corrupt(f"the content is neither JSON nor base64 in JSON: {problem}") from None
    return [data] if pack is None else split_pack(data)


def _check_count(count: int) -> None:
    if not 1 <= count <= MAX_PACK_READINGS:
        raise Corrupt(f"a pack of {count} readings; it has 1 to {MAX_PACK_READINGS}")


def _from_object(document: object, index: int) -> IoMessage:
    try:
        return tuple.__new__(IoMessage, as_json.from_document(document))
    except WireError as error:
        raise type(error)(f"reading {index} of the pack: {error.problem}", offset=error.offset) from None

"""The content of a StreamMessage that holds an ioMessage.

{"ioMessage":"<base64 of the binary embodiment>"}    the usual form
{"id":"…","infoformat":"…",…}                        the JSON embodiment, for streams that are configured so
"""

import binascii
from typing import Final

import orjson

from protocol.errors import Corrupt

BINARY_CONTENT: Final = ('{"ioMessage":"', '"}')  # before and after the base64
_START, _END = BINARY_CONTENT


def encode_binary_content(data: bytes) -> str:
    """The content for a message in the binary embodiment."""
    return binascii.b2a_base64(data, newline=False).decode().join(BINARY_CONTENT)


def decode_binary_content(content: str) -> bytes | None:
    """The binary embodiment in the content; None if the content is other JSON, such as the JSON embodiment.

    Base64 has no quotes and no escapes, so the usual form is read without a JSON parser.

    Raises: Corrupt where the content is not JSON, or its `ioMessage` is not base64.
    """
    if content.startswith(_START) and content.endswith(_END):
        try:
            return binascii.a2b_base64(content[len(_START) : -len(_END)], strict_mode=True)
        except ValueError:
            pass  # other JSON that begins and ends like the usual form
    try:
        document = orjson.loads(content)
        encoded = document.get("ioMessage") if type(document) is dict else None
        return None if encoded is None else binascii.a2b_base64(encoded, strict_mode=True)
    except (TypeError, ValueError) as problem:
        raise Corrupt(f"the content is neither JSON nor base64 in JSON: {problem}") from None


def carries_io_message(content: str) -> bool:
    """Whether a Headgate publisher wrote this content: a binary ioMessage (or several), or one in JSON."""
    return content.startswith('{"ioMessage') or (content.startswith('{"id":"') and '","infoformat":"' in content)

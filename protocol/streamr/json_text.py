"""JSON as it travels: compact, UTF-8, bounded, and byte for byte what `JSON.stringify` writes."""

from typing import Any, Final

import orjson

from protocol.errors import Corrupt, Truncated, Unsupported

MAX_TEXT_LENGTH: Final = (
    16 * 1024 * 1024
)  # a broker's websocket takes 1 MiB; files of messages may hold larger ones


def decode_json(text: str | bytes) -> Any:
    """Raises: `Truncated` where the text ends too soon, `Corrupt` where it is no JSON or goes too far."""
    if len(text) > MAX_TEXT_LENGTH:
        raise Corrupt(f"text of {len(text)} is longer than {MAX_TEXT_LENGTH}")
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as problem:
        kind = Truncated if problem.pos >= len(problem.doc) else Corrupt
        raise kind(f"not JSON: {problem.msg}", offset=problem.pos) from None


def encode_json(value: object) -> str:
    """Raises: `Unsupported` on what readers would get wrong: a number above 2^53 - 1, half a character."""
    try:
        return orjson.dumps(value, option=orjson.OPT_STRICT_INTEGER).decode()
    except orjson.JSONEncodeError as problem:
        raise Unsupported(f"cannot be written as JSON: {problem}") from problem

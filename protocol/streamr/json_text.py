"""JSON texts of the protocol: compact, UTF-8, bounded, byte for byte as `JSON.stringify` writes them."""

from typing import Any, Final

import orjson

from protocol.errors import Corrupt, Truncated, Unsupported, WireError

MAX_TEXT_LENGTH: Final = (
    16 * 1024 * 1024
)  # a broker's websocket accepts 1 MiB; files of messages may contain larger ones


def decode_json(text: str | bytes) -> Any:
    """Raises: `Truncated` if the text ends too early, `Corrupt` if it is not JSON, too long or nested too deep."""
    if len(text) > MAX_TEXT_LENGTH:
        raise Corrupt(f"text of {len(text)} is longer than {MAX_TEXT_LENGTH}")
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as problem:
        raise _explain(text, problem) from None


def encode_json(value: object) -> str:
    """Raises: `Unsupported` for values that readers misread: a number above 2^53 - 1, half a surrogate pair."""
    try:
        return orjson.dumps(value, option=orjson.OPT_STRICT_INTEGER).decode()
    except orjson.JSONEncodeError as problem:
        raise Unsupported(f"cannot be written as JSON: {problem}") from problem


def _explain(text: str | bytes, problem: orjson.JSONDecodeError) -> WireError:
    """The error with an offset in bytes: the parser counts characters, and does not explain text that is not UTF-8."""
    try:
        encoded = text.encode() if isinstance(text, str) else text.decode().encode()
    except UnicodeError as encoding_problem:
        return _explain_encoding(encoding_problem)
    offset = len(problem.doc[: problem.pos].encode())
    ends_early = offset == len(encoded) or not encoded.strip()
    return (Truncated if ends_early else Corrupt)(f"not JSON: {problem.msg}", offset=offset)


def _explain_encoding(problem: UnicodeError) -> WireError:
    if not isinstance(problem, UnicodeDecodeError):
        return Corrupt("not text: it holds half a surrogate pair")
    is_cut = problem.reason == "unexpected end of data"
    return (Truncated if is_cut else Corrupt)(f"not UTF-8: {problem.reason}", offset=problem.start)

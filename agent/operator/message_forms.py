"""The forms in which `headgate message` reads and writes messages: binary, JSON, XML, and binary as hex or base64."""

import binascii
from collections.abc import Iterator
from typing import BinaryIO, Final, Literal, get_args

import orjson

from protocol.errors import Corrupt
from protocol.iomessage import DEFAULT_MAX_MESSAGE_BYTES, IoMessage, IoMessageReader
from protocol.iomessage.as_bytes import Profile
from protocol.iomessage.content import decode_content

Form = Literal["binary", "json", "xml", "hex", "base64"]
FORMS: Final[tuple[Form, ...]] = get_args(Form)

CHUNK_BYTES: Final = 64 * 1024
CONTENT_START: Final = b'{"ioMessage'
MAX_TEXT_BYTES: Final = 2 * DEFAULT_MAX_MESSAGE_BYTES
_FORM_BY_FIRST_BYTE: Final[dict[bytes, Form]] = {b"\x00": "binary", b"{": "json", b"<": "xml"}


def read_messages(source: BinaryIO, form: Form | None) -> Iterator[IoMessage]:
    """The messages in `source`; without a form, it is detected from the first byte. Raises: WireError."""
    first = source.read(CHUNK_BYTES)
    match form or _guess_form(first):
        case "binary":
            yield from _read_binary(first, source)
        case "json":
            yield from _from_json(_read_text(first, source))
        case "xml":
            yield IoMessage.from_xml(_read_text(first, source))
        case "hex":
            yield from _read_binary(_from_hex(_read_text(first, source)), source)
        case "base64":
            yield from _read_binary(_from_base64(_read_text(first, source)), source)


def read_lines(source: BinaryIO) -> Iterator[bytes]:
    """The lines of `source` that are not blank. Only a line feed ends a line: JSON may hold all other line ends.

    Raises: Corrupt if a line is too long to be one message.
    """
    while line := source.readline(MAX_TEXT_BYTES):
        if len(line) == MAX_TEXT_BYTES:
            raise Corrupt(f"more than {MAX_TEXT_BYTES} bytes in one line; not a single message")
        if stripped := line.strip():
            yield stripped


def write_message(message: IoMessage, form: Form, *, pretty: bool = False, profile: Profile = "minimal") -> bytes:
    """One message in that form; the text forms end with a line feed. Raises: WireError if the form cannot carry it."""
    match form:
        case "binary":
            return message.to_bytes(profile=profile)
        case "json" if pretty:
            return orjson.dumps(orjson.loads(message.to_json()), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
        case "json":
            return message.to_json().encode() + b"\n"
        case "xml":
            return message.to_xml().encode() + b"\n"
        case "hex":
            return message.to_bytes(profile=profile).hex().encode() + b"\n"
        case "base64":
            return binascii.b2a_base64(message.to_bytes(profile=profile))


def _guess_form(first: bytes) -> Form:
    start = first.lstrip()[:1]
    if not start:
        raise Corrupt("the input is empty")
    form = _FORM_BY_FIRST_BYTE.get(start)
    if form is None:
        raise Corrupt("format not recognised (binary, JSON or XML); give it with --from", offset=0)
    return form


def _read_binary(first: bytes, source: BinaryIO) -> Iterator[IoMessage]:
    reader, data = IoMessageReader(), first
    while data:
        yield from reader.feed(data)
        data = source.read(CHUNK_BYTES)
    reader.close()


def _read_text(first: bytes, source: BinaryIO) -> bytes:
    text = first + source.read(MAX_TEXT_BYTES)
    if len(text) > MAX_TEXT_BYTES:
        raise Corrupt(f"more than {MAX_TEXT_BYTES} bytes of text; not a single message", offset=MAX_TEXT_BYTES)
    return text


def _from_json(text: bytes) -> list[IoMessage]:
    """One message, or those of a content. Raises: WireError."""
    if not text.lstrip().startswith(CONTENT_START):
        return [IoMessage.from_json(text)]
    try:
        return decode_content(text.decode().strip())
    except UnicodeDecodeError as error:
        raise Corrupt("the content is not UTF-8", offset=error.start) from None


def _from_hex(text: bytes) -> bytes:
    try:
        return bytes.fromhex(text.decode("ascii"))
    except ValueError as error:
        raise Corrupt(f"not hexadecimal: {error}") from None


def _from_base64(text: bytes) -> bytes:
    try:
        return binascii.a2b_base64(b"".join(text.split()), strict_mode=True)
    except ValueError as error:
        raise Corrupt(f"not base64: {error}") from None

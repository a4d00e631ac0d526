"""`headgate message`: encodes, decodes, converts and verifies messages.

An input that begins with `[` holds StreamMessages, one per line; any other holds ioMessages. Binary input may hold any
number of ioMessages, one after the other; a text form holds one. Memory is bounded by one message, whatever the input.
"""

import argparse
import binascii
import io
import secrets
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final, Literal, cast, get_args

import orjson

from agent.errors import ExitCode
from agent.operator.message_reports import (
    StreamMessageReport,
    examine_stream_message,
    iomessage_as_json_line,
    iomessage_as_table,
)
from protocol.errors import Corrupt
from protocol.iomessage import (
    DEFAULT_MAX_MESSAGE_BYTES,
    RANDOM_BYTES,
    ChainBreak,
    ChainVerifier,
    IoMessage,
    IoMessageReader,
    message_ids,
)
from protocol.iomessage.as_bytes import Profile
from protocol.iomessage.fields import INTEGER_LIMITS, JSON_KEYS, REQUIRED, TEXT_LIMITS

DESCRIPTION = "Encode, decode, verify and convert ioMessages (binary, JSON, XML); decode and verify StreamMessages."

_DEFAULTS: Final = {"id": "a new id", "timestamp": "now"}

Form = Literal["binary", "json", "xml", "hex", "base64"]
FORMS: Final[tuple[Form, ...]] = get_args(Form)

CHUNK_BYTES: Final = 64 * 1024
MAX_TEXT_BYTES: Final = 2 * DEFAULT_MAX_MESSAGE_BYTES
_FORM_BY_FIRST_BYTE: Final[dict[bytes, Form]] = {b"\x00": "binary", b"{": "json", b"<": "xml"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    _add_encode(actions.add_parser("encode", help="encode an ioMessage from its fields"))
    _add_decode(actions.add_parser("decode", help="print the fields of messages"))
    _add_convert(actions.add_parser("convert", help="convert ioMessages between formats"))
    _add_verify(
        actions.add_parser("verify", help="verify the signatures of StreamMessages, or the hash chain of ioMessages")
    )


def run(arguments: argparse.Namespace) -> int:
    action: Callable[[argparse.Namespace], int] = arguments.action
    return action(arguments)


def _add_encode(parser: argparse.ArgumentParser) -> None:
    for name in (*TEXT_LIMITS, *INTEGER_LIMITS):
        kind = int if name in INTEGER_LIMITS else str
        required = name in REQUIRED and name not in _DEFAULTS
        default = "required" if required else f"default: {_DEFAULTS.get(name, 'none')}"
        parser.add_argument("--" + name.replace("_", "-"), metavar="VALUE", type=kind, required=required, help=default)
    parser.add_argument(
        "--context", dest="context_data", metavar="TEXT", type=str.encode, help="context data, as UTF-8"
    )
    content = parser.add_mutually_exclusive_group(required=True)
    content.add_argument(
        "--content", dest="content_data", metavar="TEXT", type=str.encode, help="content data, as UTF-8"
    )
    content.add_argument("--content-file", metavar="FILE", type=Path, help="read the content data from this file")
    _add_output(parser)
    parser.set_defaults(action=_encode)


def _add_decode(parser: argparse.ArgumentParser) -> None:
    _add_input(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    parser.set_defaults(action=_decode)


def _add_verify(parser: argparse.ArgumentParser) -> None:
    _add_input(parser)
    parser.add_argument(
        "--json", action="store_true", help="one JSON object per line, for each StreamMessage or broken hash link"
    )
    parser.set_defaults(action=_verify)


def _add_convert(parser: argparse.ArgumentParser) -> None:
    _add_input(parser)
    _add_output(parser)
    parser.set_defaults(action=_convert)


def _add_input(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", nargs="?", metavar="FILE", default="-", help="file to read (default: stdin)")
    parser.add_argument(
        "--from", dest="source", choices=FORMS, help="input format (default: detected from the first byte)"
    )


def _add_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--to", dest="target", choices=FORMS, default="json", help="output format (default: json)")
    parser.add_argument("--pretty", action="store_true", help="indent JSON")
    parser.add_argument(
        "--profile",
        choices=("minimal", "agent"),
        default="minimal",
        help="integer encoding of the binary format (default: minimal)",
    )
    parser.add_argument("-o", "--output", metavar="FILE", type=Path, help="write to this file instead of stdout")


def _encode(arguments: argparse.Namespace) -> int:
    fields = {name: getattr(arguments, name) for name in JSON_KEYS if hasattr(arguments, name)}
    if arguments.content_file is not None:
        fields["content_data"] = arguments.content_file.read_bytes()
    if fields["id"] is None:
        fields["id"] = next(message_ids(secrets.token_bytes(RANDOM_BYTES)))
    if fields["timestamp"] is None:
        fields["timestamp"] = time.time_ns() // 1_000_000
    return _write_all([IoMessage(**fields)], arguments)


def _convert(arguments: argparse.Namespace) -> int:
    with _opened_input(arguments.file) as source:
        return _write_all(read_messages(source, arguments.source), arguments)


def _decode(arguments: argparse.Namespace) -> int:
    show = iomessage_as_json_line if arguments.json else iomessage_as_table
    with _opened_input(arguments.file) as source:
        if _holds_stream_messages(source):
            for report in _examine(source):
                _show_report(report, as_json=arguments.json)
        else:
            for message in read_messages(source, arguments.source):
                print(show(message), flush=True)
    return ExitCode.OK


def _verify(arguments: argparse.Namespace) -> int:
    with _opened_input(arguments.file) as source:
        if _holds_stream_messages(source):
            return _verify_signatures(source, as_json=arguments.json)
        return _verify_chain(read_messages(source, arguments.source), as_json=arguments.json)


def _verify_signatures(source: BinaryIO, *, as_json: bool) -> int:
    exit_code = ExitCode.OK
    for report in _examine(source):
        _show_report(report, as_json=as_json)
        exit_code = max(exit_code, report.exit_code)
    return exit_code


def _verify_chain(messages: Iterable[IoMessage], *, as_json: bool) -> int:
    verifier, count, breaks = ChainVerifier(), 0, 0
    for message in messages:
        count += 1
        if (found := verifier.check(message)) is not None:
            breaks += 1
            print(_break_as_json(found) if as_json else found, flush=True)
    if not as_json:
        print(f"{count} messages, {breaks} breaks" if breaks else f"{count} messages, chain unbroken")
    return ExitCode.NO if breaks else ExitCode.OK


def _examine(source: BinaryIO) -> Iterator[StreamMessageReport]:
    return map(examine_stream_message, read_lines(source))


def _show_report(report: StreamMessageReport, *, as_json: bool) -> None:
    print(orjson.dumps(report.as_json()).decode() if as_json else "\n".join([*report.lines(), ""]), flush=True)


def _break_as_json(found: ChainBreak) -> str:
    shown = {"index": found.index, "id": found.message_id, "kind": found.kind.value, "detail": found.detail}
    return orjson.dumps(shown).decode()


def _holds_stream_messages(source: io.BufferedReader) -> bool:
    return source.peek().lstrip().startswith(b"[")


def _write_all(messages: Iterable[IoMessage], arguments: argparse.Namespace) -> int:
    if arguments.output is None and arguments.target == "binary" and sys.stdout.isatty():
        print("headgate: refusing to print binary data to a terminal; use --to hex or --output FILE", file=sys.stderr)
        return ExitCode.USAGE
    with _opened_output(arguments.output) as sink:
        for message in messages:
            _warn_of_unsafe_fields(message)
            sink.write(write_message(message, arguments.target, pretty=arguments.pretty, profile=arguments.profile))
    return ExitCode.OK


@contextmanager
def _opened_input(name: str) -> Iterator[io.BufferedReader]:
    if name == "-":
        yield io.BufferedReader(cast("io.RawIOBase", sys.stdin.buffer))
    else:
        with Path(name).open("rb") as source:
            yield source


@contextmanager
def _opened_output(path: Path | None) -> Iterator[BinaryIO]:
    if path is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
    else:
        with path.open("wb") as sink:
            yield sink


def _warn_of_unsafe_fields(message: IoMessage) -> None:
    if unsafe := message.beyond_safe_limits:
        print(
            f"headgate: values that some decoders misread because they are too large: {', '.join(unsafe)}",
            file=sys.stderr,
        )


# Formats of ioMessages


def read_messages(source: BinaryIO, form: Form | None) -> Iterator[IoMessage]:
    """The messages in `source`; without a form, it is detected from the first byte. Raises: WireError."""
    first = source.read(CHUNK_BYTES)
    match form or _guess_form(first):
        case "binary":
            yield from _read_binary(first, source)
        case "json":
            yield IoMessage.from_json(_read_text(first, source))
        case "xml":
            yield IoMessage.from_xml(_read_text(first, source))
        case "hex":
            yield IoMessage.from_bytes(_from_hex(_read_text(first, source)))
        case "base64":
            yield IoMessage.from_bytes(_from_base64(_read_text(first, source)))


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

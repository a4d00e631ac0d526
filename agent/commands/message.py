"""`headgate message encode | decode | convert`: messages for people at a terminal."""

import argparse
import binascii
import secrets
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, Final

import orjson

from agent.exit_codes import ExitCode
from agent.message_forms import FORMS, read_messages, write_message
from protocol.iomessage import RANDOM_BYTES, IoMessage, Quirk, message_ids
from protocol.iomessage.fields import BLOB_NAMES, INTEGER_LIMITS, JSON_KEYS, REQUIRED, TEXT_LIMITS

DESCRIPTION = "Encode, decode and convert ioMessages: binary, JSON and XML, and binary as hex or base64."

SHOWN_BYTES: Final = 64
_DEFAULTS: Final = {"id": "a fresh one", "timestamp": "now"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    _add_encode(actions.add_parser("encode", help="make a message from its fields"))
    _add_decode(actions.add_parser("decode", help="show the fields of messages"))
    _add_convert(actions.add_parser("convert", help="turn messages from one form into another"))


def run(arguments: argparse.Namespace) -> int:
    action: Callable[[argparse.Namespace], int] = arguments.action
    return action(arguments)


def _add_encode(parser: argparse.ArgumentParser) -> None:
    for name in (*TEXT_LIMITS, *INTEGER_LIMITS):
        kind = int if name in INTEGER_LIMITS else str
        required = name in REQUIRED and name not in _DEFAULTS
        default = "required" if required else f"default: {_DEFAULTS.get(name, 'absent')}"
        parser.add_argument("--" + name.replace("_", "-"), metavar="VALUE", type=kind, required=required, help=default)
    parser.add_argument(
        "--context", dest="context_data", metavar="TEXT", type=str.encode, help="context data, as UTF-8"
    )
    content = parser.add_mutually_exclusive_group(required=True)
    content.add_argument(
        "--content", dest="content_data", metavar="TEXT", type=str.encode, help="content data, as UTF-8"
    )
    content.add_argument("--content-file", metavar="FILE", type=Path, help="content data, as it stands in a file")
    _add_output(parser)
    parser.set_defaults(action=_encode)


def _add_decode(parser: argparse.ArgumentParser) -> None:
    _add_input(parser)
    parser.add_argument("--json", action="store_true", help="one line of JSON per message")
    parser.set_defaults(action=_decode)


def _add_convert(parser: argparse.ArgumentParser) -> None:
    _add_input(parser)
    _add_output(parser)
    parser.set_defaults(action=_convert)


def _add_input(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", nargs="?", metavar="FILE", default="-", help="what to read (default: stdin)")
    parser.add_argument("--from", dest="source", choices=FORMS, help="default: binary, JSON or XML by the first byte")


def _add_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--to", dest="target", choices=FORMS, default="json", help="default: json")
    parser.add_argument("--pretty", action="store_true", help="indent JSON")
    parser.add_argument(
        "--profile", choices=("minimal", "agent"), default="minimal", help="how integers are written in binary"
    )
    parser.add_argument("-o", "--output", metavar="FILE", type=Path, help="write there instead of to stdout")


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
    show = _as_json_line if arguments.json else _as_table
    with _opened_input(arguments.file) as source:
        for message in read_messages(source, arguments.source):
            print(show(message), flush=True)
    return ExitCode.OK


def _write_all(messages: Iterable[IoMessage], arguments: argparse.Namespace) -> int:
    if arguments.output is None and arguments.target == "binary" and sys.stdout.isatty():
        print("headgate: binary does not belong on a terminal; use --to hex or --output FILE", file=sys.stderr)
        return ExitCode.USAGE
    with _opened_output(arguments.output) as sink:
        for message in messages:
            _warn_of_unsafe_fields(message)
            sink.write(write_message(message, arguments.target, pretty=arguments.pretty, profile=arguments.profile))
    return ExitCode.OK


@contextmanager
def _opened_input(name: str) -> Iterator[BinaryIO]:
    if name == "-":
        yield sys.stdin.buffer
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
        print(f"headgate: some decoders misread values this large: {', '.join(unsafe)}", file=sys.stderr)


def _as_json_line(message: IoMessage) -> str:
    shown = {name: getattr(message, name) for name in JSON_KEYS}
    shown |= {name: _base64(shown[name]) for name in BLOB_NAMES}
    return orjson.dumps(shown | {"missing": message.missing, "quirks": _quirk_names(message)}).decode()


def _as_table(message: IoMessage) -> str:
    shown = {name: getattr(message, name) for name in JSON_KEYS}
    rows = {name: _as_text(name, value) for name, value in shown.items() if value not in (None, "")}
    rows |= {name: ", ".join(found) for name, found in _remarks(message).items() if found}
    return "\n".join(f"{name:<18}{text}" for name, text in rows.items()) + "\n"


def _remarks(message: IoMessage) -> dict[str, list[str]]:
    return {"missing": list(message.missing), "quirks": _quirk_names(message)}


def _as_text(name: str, value: str | int | bytes) -> str:
    if isinstance(value, bytes):
        return _blob_as_text(value)
    if name == "timestamp" and isinstance(value, int):
        return f"{value}  {_as_utc(value)}".rstrip()
    return str(value) if isinstance(value, int) or value.isprintable() else repr(value)


def _as_utc(timestamp_ms: int) -> str:
    try:
        return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds")
    except (OverflowError, ValueError):
        return ""


def _blob_as_text(blob: bytes) -> str:
    head = blob[:SHOWN_BYTES]
    more = f" … ({len(blob)} bytes)" if len(blob) > SHOWN_BYTES else ""
    if head.isascii() and head.decode().isprintable():
        return f'"{head.decode()}"{more}'
    return f"{head.hex(' ')}{more}"


def _base64(blob: bytes | None) -> str | None:
    return None if blob is None else binascii.b2a_base64(blob, newline=False).decode()


def _quirk_names(message: IoMessage) -> list[str]:
    return [quirk.name.lower() for quirk in Quirk if quirk in message.quirks and quirk.name]

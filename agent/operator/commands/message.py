"""`headgate message`: encodes, decodes, converts and verifies messages.

An input that begins with `[` holds StreamMessages, one per line; any other holds ioMessages. Binary input, also as hex
or base64, may hold any number of ioMessages, one after the other; JSON holds one, or those in the content of a
StreamMessage; XML holds one. Memory is bounded by one message, whatever the input.

A StreamMessage is converted to the ioMessages in its content: a pack of n readings to n messages.
"""

import argparse
import io
import secrets
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache, partial
from pathlib import Path
from typing import BinaryIO, Final, cast

import orjson

from agent.errors import ExitCode
from agent.operator.contents import Locked, Opened, Unreadable
from agent.operator.message_forms import FORMS, read_lines, read_messages, write_message
from agent.operator.message_reports import (
    StreamMessageReport,
    chain_break_as_json,
    examine_stream_message,
    iomessage_as_json_line,
    iomessage_as_table,
)
from protocol.errors import Corrupt
from protocol.iomessage import RANDOM_BYTES, ChainVerifier, IoMessage, message_ids
from protocol.iomessage.fields import INTEGER_LIMITS, JSON_KEYS, REQUIRED, TEXT_LIMITS

DESCRIPTION = (
    "Encode, decode, verify and convert ioMessages (binary, JSON, XML); decode and verify StreamMessages, and extract"
    " the ioMessages from them (convert)."
)

_DEFAULTS: Final = {"id": "a new id", "timestamp": "now"}

MAX_CACHED_STREAMS: Final = 256  # of which the group keys are held


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    _add_encode(actions.add_parser("encode", help="encode an ioMessage from its fields"))
    _add_decode(actions.add_parser("decode", help="print the fields of messages and the readings in them"))
    _add_convert(
        actions.add_parser("convert", help="convert ioMessages between formats, or extract them from StreamMessages")
    )
    _add_verify(
        actions.add_parser(
            "verify",
            help="verify the signatures of StreamMessages and the hash chain of the readings in each,"
            " or the hash chain of ioMessages",
        )
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
    parser.add_argument(
        "--group-keys",
        type=Path,
        metavar="FILE",
        help="keys of encrypted streams, exported by 'keys export-group-keys' on the publishing device",
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
        if _holds_stream_messages(source):
            return _write_all(_extract(source, arguments.group_keys), arguments)
        return _write_all(read_messages(source, arguments.source), arguments)


def _extract(source: BinaryIO, group_keys: Path | None) -> Iterator[IoMessage]:
    """The ioMessages in StreamMessages, in their order; signatures are not checked. Raises: Corrupt."""
    for number, report in enumerate(_examine(source, group_keys), 1):
        match report.opened:
            case Opened(readings=[_, *_] as readings):
                yield from readings
            case Opened():
                raise Corrupt(f"StreamMessage {number}: the content holds no ioMessage")
            case Unreadable(reason=reason) | Locked(reason=reason):
                raise Corrupt(f"StreamMessage {number}: {reason}")


def _decode(arguments: argparse.Namespace) -> int:
    show = iomessage_as_json_line if arguments.json else iomessage_as_table
    with _opened_input(arguments.file) as source:
        if _holds_stream_messages(source):
            return _show_reports(source, arguments, lambda report: report.decoding_exit_code)
        for message in read_messages(source, arguments.source):
            print(show(message), flush=True)
    return ExitCode.OK


def _verify(arguments: argparse.Namespace) -> int:
    with _opened_input(arguments.file) as source:
        if _holds_stream_messages(source):
            return _show_reports(source, arguments, lambda report: report.exit_code)
        return _verify_chain(read_messages(source, arguments.source), as_json=arguments.json)


def _show_reports(
    source: BinaryIO, arguments: argparse.Namespace, exit_code_of: Callable[[StreamMessageReport], ExitCode]
) -> int:
    exit_code = ExitCode.OK
    for report in _examine(source, arguments.group_keys):
        shown = orjson.dumps(report.as_json()).decode() if arguments.json else "\n".join([*report.lines(), ""])
        print(shown, flush=True)
        exit_code = max(exit_code, exit_code_of(report))
    return exit_code


def _verify_chain(messages: Iterable[IoMessage], *, as_json: bool) -> int:
    verifier, count, breaks = ChainVerifier(), 0, 0
    for message in messages:
        count += 1
        if (found := verifier.check(message)) is not None:
            breaks += 1
            print(orjson.dumps(chain_break_as_json(found)).decode() if as_json else found, flush=True)
    if not as_json:
        print(f"{count} readings, hash chain {f'broken at {breaks}' if breaks else 'unbroken'}")
    return ExitCode.NO if breaks else ExitCode.OK


def _examine(source: BinaryIO, group_keys: Path | None) -> Iterator[StreamMessageReport]:
    if group_keys is None:
        return map(examine_stream_message, read_lines(source))
    from agent.keys.group_keys import read_group_keys_of

    keys_of = lru_cache(MAX_CACHED_STREAMS)(partial(read_group_keys_of, path=group_keys))
    return (examine_stream_message(line, keys_of) for line in read_lines(source))


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

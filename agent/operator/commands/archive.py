"""`headgate archive`: list, verify and export archive files, read-only."""

import argparse
import base64
import errno
import json
import math
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import orjson
from nacl.public import PrivateKey

from agent.archive.inspection import Verdict, encryption_recipient, opened_archive, verify_file
from agent.archive.store import ARCHIVE_SUFFIXES
from agent.errors import ConfigError, ExitCode
from agent.operator.readings import MAX_INTEGER, MIN_INTEGER, readings_in, scalar_of, sensor_of
from agent.operator.terminal import Progress
from protocol.archive.block import Block
from protocol.archive.errors import CorruptArchive
from protocol.archive.random_access import OpenArchive
from protocol.archive.records import Record
from protocol.errors import WireError
from protocol.ethereum import checksum_address
from protocol.iomessage import IoMessage
from protocol.scalars import unit_of
from protocol.shown_text import utc_text
from protocol.streamr.stream_message import EncryptionType, parse_stream_message
from runtime.private_files import read_private_file

DESCRIPTION = (
    "Inspect archives: immutable files of signed messages, named by their SHA-256. A damaged block is reported"
    " on stderr and skipped; all other records are read."
)
KEY_TEXT_BYTES = 128
READING_COLUMNS = (
    "reading", "stream_id", "sensor", "quantity", "format", "unit", "taken_at_ms",
    "value", "value_integer", "value_text", "value_boolean",
)  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    opening = argparse.ArgumentParser(add_help=False)
    opening.add_argument(
        "--open-with", type=Path, metavar="FILE", help="the collector's private key, for encrypted archives"
    )
    as_json = argparse.ArgumentParser(add_help=False)
    as_json.add_argument("--json", action="store_true", help="one JSON object per archive")
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    listing = actions.add_parser(
        "list", parents=[opening, as_json], help="list archives, in directories or single files"
    )
    listing.add_argument("paths", nargs="+", type=Path, metavar="DIRECTORY-OR-FILE")
    verify = actions.add_parser(
        "verify",
        parents=[opening, as_json],
        help="verify checksums, signatures and every record; exit code 1 if anything is wrong",
    )
    verify.add_argument("paths", nargs="+", type=Path, metavar="DIRECTORY-OR-FILE")
    cat = actions.add_parser("cat", parents=[opening], help="print the exact text of each message, one per line")
    cat.add_argument("paths", nargs="+", type=Path, metavar="FILE")
    export = actions.add_parser("export", parents=[opening], help="print records as JSON lines")
    export.add_argument("paths", nargs="+", type=Path, metavar="FILE")
    export.add_argument(
        "--format",
        choices=["lines", "flat"],
        default="lines",
        help="lines: one message per line, as JSON within the line; flat: one reading per line, in the same plain"
        " columns, sensor, value and unit among them, for Parquet",
    )


def run(arguments: argparse.Namespace) -> int:
    collector = None if arguments.open_with is None else _read_collector_key(arguments.open_with)
    paths = list(_archive_files(arguments.paths))
    if not paths:
        folders = ", ".join(map(str, arguments.paths))
        print(f"headgate: {folders}: no archives (files named *{', *'.join(ARCHIVE_SUFFIXES)})", file=sys.stderr)
        return ExitCode.OK if arguments.action == "list" else ExitCode.NO_INPUT
    match arguments.action:
        case "list":
            return max((_list(path, collector, as_json=arguments.json) for path in paths), default=ExitCode.OK)
        case "verify":
            return max((_verify(path, collector, as_json=arguments.json) for path in paths), default=ExitCode.OK)
        case "cat":
            return max((_write_records(path, collector, "text") for path in paths), default=ExitCode.OK)
        case _:
            form = arguments.format
            return max((_write_records(path, collector, form) for path in paths), default=ExitCode.OK)


def _archive_files(paths: list[Path]) -> Iterator[Path]:
    """Files as they are named; of directories, every archive in them. Raises: OSError."""
    for path in paths:
        if path.is_dir():
            yield from sorted(
                each for each in path.iterdir() if each.suffix in ARCHIVE_SUFFIXES and each.name[0] != "."
            )
        elif path.exists() and not path.is_file():  # opening a pipe would wait for its writer
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        else:
            yield path


def _list(path: Path, collector: PrivateKey | None, *, as_json: bool) -> ExitCode:
    summary, exit_code = _summary(path, collector)
    if as_json:
        print(json.dumps(summary))
    else:
        print("  ".join([path.name, *(f"{name}={value}" for name, value in summary.items() if name != "file")]))
    return exit_code


def _summary(path: Path, collector: PrivateKey | None) -> tuple[dict[str, Any], ExitCode]:
    summary: dict[str, Any] = {"file": str(path), "size_bytes": path.stat().st_size}
    try:
        recipient = encryption_recipient(path)
        if recipient is not None and collector is None:
            return {**summary, "encrypted_for": recipient}, ExitCode.OK
        with opened_archive(path, collector) as archive:
            return {**summary, **_account(archive)}, ExitCode.OK
    except WireError as error:
        return {**summary, "problem": str(error)}, ExitCode.BAD_DATA


def _account(archive: OpenArchive) -> dict[str, Any]:
    manifest = archive.manifest
    return {
        "device": checksum_address(archive.header.binding.address),
        "created_at": utc_text(archive.header.created_at_ms),
        "readings": manifest.readings,
        "messages": manifest.records,
        "chains": len(manifest.chains),
        "blocks": len(manifest.blocks),
        "lost_readings": sum(loss.count for loss in manifest.losses),
    }


def _verify(path: Path, collector: PrivateKey | None, *, as_json: bool) -> ExitCode:
    with Progress(f"verifying {path.name}", path.stat().st_size) as progress:
        verdict = verify_file(path, collector, progress.reach)
    print(json.dumps(_verdict_as_json(verdict)) if as_json else _verdict_as_text(verdict))
    return ExitCode.OK if verdict.is_good else ExitCode.NO


def _verdict_as_json(verdict: Verdict) -> dict[str, Any]:
    return {
        "file": str(verdict.path),
        "good": verdict.is_good,
        "device": None if verdict.device is None else checksum_address(verdict.device),
        "size_bytes": verdict.size_bytes,
        "readings": verdict.readings,
        "messages": verdict.messages,
        "damaged_readings": verdict.damaged_readings,
        "problems": list(verdict.problems),
    }


def _verdict_as_text(verdict: Verdict) -> str:
    state = "good" if verdict.is_good else "DAMAGED"
    counts = f"{verdict.readings} readings in {verdict.messages} messages"
    if verdict.damaged_readings:
        counts += f", {verdict.damaged_readings} readings damaged"
    return "\n  ".join([f"{verdict.path}: {state}, {counts}", *verdict.problems])


def _write_records(path: Path, collector: PrivateKey | None, form: str) -> ExitCode:
    exit_code = ExitCode.OK
    with opened_archive(path, collector) as archive, Progress(path.name, archive.manifest.records) as progress:
        for found in archive.inspect():
            if isinstance(found, CorruptArchive):
                print(f"headgate: {path}: {found}", file=sys.stderr)
                exit_code = ExitCode.BAD_DATA
                continue
            sys.stdout.buffer.writelines(_lines(found, archive, path, form))
            progress.reach(found.first_record + found.entry.records)
    return exit_code


def _lines(block: Block, archive: OpenArchive, path: Path, form: str) -> Iterator[bytes]:
    match form:
        case "text":
            for record in block.records:
                yield record.text + b"\n"
        case "flat":
            place = {"archive": path.stem, "device": "0x" + archive.header.binding.address.hex(), "block": block.index}
            for number, record in enumerate(block.records, block.first_record):
                for line in _flat(record):
                    yield orjson.dumps({**place, "record": number, **line}) + b"\n"
        case _:
            for record in block.records:
                yield orjson.dumps(_nested(record)) + b"\n"


def _nested(record: Record) -> dict[str, Any]:
    arrival = {
        "lane": record.lane,
        "position": record.position,
        "readings": record.readings,
        "arrived_at_ms": record.arrived_at_ms,
    }
    reference = {"chain": record.chain, "timestamp_ms": record.timestamp_ms, "sequence": record.sequence}
    try:
        return {**reference, **arrival, "message": orjson.loads(record.text)}
    except orjson.JSONDecodeError:
        return {**reference, **arrival, "base64": base64.b64encode(record.text).decode()}


def _flat(record: Record) -> Iterator[dict[str, Any]]:
    """One line per reading, each with the same columns of one type or null, whatever the text is.

    The text of a message is in the line of its first reading. A message without readings that can be read has one line.
    """
    try:
        text, encoding = record.text.decode(), "utf-8"
    except UnicodeDecodeError:
        text, encoding = base64.b64encode(record.text).decode(), "base64"
    message = {**record._asdict(), "text": text, "encoding": encoding}
    stream_id, readings = _readings(record.text)
    columns = {**dict.fromkeys(READING_COLUMNS), "stream_id": stream_id}
    if not readings:
        yield {**message, **columns}
    for index, reading in enumerate(readings):
        place = {"position": record.position + index, "text": None if index else text}
        yield {**message, **columns, **place, "reading": index, **_reading(reading)}


def _readings(text: bytes) -> tuple[str | None, Sequence[IoMessage]]:
    """The stream and the readings; none where the message is encrypted, or cannot be read."""
    try:
        message = parse_stream_message(text)
        stream_id = message.message_id.stream_id
        return stream_id, readings_in(message.content) if message.encryption_type is EncryptionType.NONE else ()
    except WireError:
        return None, ()


def _reading(message: IoMessage) -> dict[str, Any]:
    """What was measured, as the lake's columns are called."""
    return {
        "sensor": sensor_of(message),
        "quantity": message.info_type,
        "format": message.info_format,
        "unit": unit_of(message.info_format or ""),
        "taken_at_ms": message.timestamp,
        **_value(message),
    }


def _value(message: IoMessage) -> dict[str, Any]:
    """A number in `value`, exactly as a whole one in `value_integer`, a text or a state in its own column."""
    match value := scalar_of(message):
        case bool():
            return {"value_boolean": value}
        case int():
            return {"value": float(value), "value_integer": value if MIN_INTEGER <= value <= MAX_INTEGER else None}
        case float() if math.isfinite(value):
            return {"value": value}
        case str():
            return {"value_text": value}
    return {}


def _read_collector_key(path: Path) -> PrivateKey:
    text = read_private_file(path, max_bytes=KEY_TEXT_BYTES)
    try:
        return PrivateKey(bytes.fromhex(text.decode().strip()))
    except (ValueError, TypeError):
        raise ConfigError(f"{path}: not an X25519 private key of 64 hex digits") from None

"""Renders ioMessages and StreamMessages as text or JSON, for `headgate message` and the subscribers."""

import binascii
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

import orjson

from agent.errors import ExitCode
from protocol.errors import WireError
from protocol.iomessage import IoMessage, Quirk
from protocol.iomessage.content import decode_content
from protocol.iomessage.fields import BLOB_NAMES, JSON_KEYS
from protocol.shown_text import printable_start, utc_text
from protocol.streamr.stream_message import StreamMessage, parse_stream_message
from protocol.streamr.stream_message.signing import Verdict, recover_signer, verify


def io_message_in(content: str) -> IoMessage | None:
    """None where the content is something else."""
    try:
        message = decode_content(content)[0]
    except WireError:
        return None
    return message if message.info_format and message.content_data is not None else None  # else it is other JSON


def parsed_json(content: str) -> Any:
    """The content parsed as JSON; the content itself if it is not JSON."""
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError:
        return content


SHOWN_BYTES: Final = 64


def iomessage_as_json_line(message: IoMessage) -> str:
    """For scripts: every field, null where absent, contents in base64."""
    shown = {name: getattr(message, name) for name in JSON_KEYS}
    shown |= {name: _base64(shown[name]) for name in BLOB_NAMES}
    return orjson.dumps(shown | {"missing": message.missing, "quirks": _quirk_names(message)}).decode()


def iomessage_as_table(message: IoMessage) -> str:
    """For people: nothing in the message can move their cursor or fill their screen."""
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
        return f"{value}  {utc_text(value)}"
    return str(value) if isinstance(value, int) or value.isprintable() else repr(value)


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


MAX_SHOWN_CHARACTERS: Final = 400

_LABEL_COLUMNS: Final = 18


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamMessageReport:
    """A message and the verdict on its signature."""

    message: StreamMessage
    signer: str | None
    verdict: Verdict

    @property
    def exit_code(self) -> ExitCode:
        """For a command that asks whether the message is verified."""
        return ExitCode.OK if self.verdict else ExitCode.NO

    def lines(self) -> list[str]:
        """For people: nothing in the message can move their cursor or fill their screen."""
        message = self.message
        previous = message.prev_msg_ref
        return [
            _line("version", f"{message.version}{' (draft)' if message.draft else ''}"),
            *(_line(name.replace("_", " "), value) for name, value in _identity(message).items()),
            _line(
                "previous",
                "none" if previous is None else f"{previous.timestamp}, {previous.sequence_number}",
            ),
            _line("message type", _code(message.message_type)),
            _line("encryption type", _code(message.encryption_type)),
            _line("group key id", message.group_key_id),
            _line("new group key", message.new_group_key and message.new_group_key.group_key_id),
            _line("content", message.content),
            _line("signature type", _code(message.signature_type)),
            _line("signature", message.signature),
            _line("signer", self.signer),
            _line("verdict", f"{self.verdict.name.lower()}: {self.verdict}"),
        ]

    def as_json(self) -> dict[str, Any]:
        """For scripts: every field whole, named as in the documents in snake case, codes as numbers."""
        message = self.message
        return {
            "version": message.version,
            "draft": message.draft,
            "message_id": message.message_id._asdict(),
            "prev_msg_ref": message.prev_msg_ref and message.prev_msg_ref._asdict(),
            "message_type": int(message.message_type),
            "content_type": int(message.content_type),
            "encryption_type": int(message.encryption_type),
            "group_key_id": message.group_key_id,
            "new_group_key": message.new_group_key and message.new_group_key.serialized,
            "content": message.content,
            "signature_type": int(message.signature_type),
            "signature": message.signature,
            "signer": self.signer,
            "verified": bool(self.verdict),
            "verdict": self.verdict.name.lower(),
            "reason": str(self.verdict),
        }


def examine_stream_message(text: str | bytes, *, draft: bool = False) -> StreamMessageReport:
    """Read one message and check its signature. Raises: `WireError`, whose exit code is 65."""
    message = parse_stream_message(text, draft=draft)
    return StreamMessageReport(message=message, signer=recover_signer(message), verdict=verify(message))


def _identity(message: StreamMessage) -> dict[str, object]:
    timestamp_ms = message.message_id.timestamp
    return {**message.message_id._asdict(), "timestamp": f"{timestamp_ms} ({utc_text(timestamp_ms)})"}


def _code(code: IntEnum) -> str:
    return f"{int(code)} ({code.name.lower().replace('_', ' ')})"


def _line(label: str, value: object) -> str:
    return f"{label:<{_LABEL_COLUMNS}}{'none' if value is None else printable_start(str(value), MAX_SHOWN_CHARACTERS)}"

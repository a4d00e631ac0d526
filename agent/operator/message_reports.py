"""Renders ioMessages and StreamMessages, with the readings in them, as text or JSON, for `headgate message`."""

import binascii
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

import orjson

from agent.errors import ExitCode
from agent.operator.contents import Locked, Opened, Unreadable, open_message
from agent.operator.reading_checks import break_text, chain_breaks
from agent.operator.readings import as_json as reading_as_json
from agent.operator.readings import table_lines
from protocol.iomessage import ChainBreak, IoMessage, Quirk
from protocol.iomessage.fields import BLOB_NAMES, JSON_KEYS
from protocol.shown_text import printable_start, utc_text
from protocol.streamr.group_keys.group_key import GroupKey
from protocol.streamr.stream_message import StreamMessage, parse_stream_message
from protocol.streamr.stream_message.signing import Verdict, recover_signer, verify

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
MAX_SHOWN_READINGS: Final = 20
_LABEL_COLUMNS: Final = 18


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamMessageReport:
    """A message and the verdict on its signature."""

    message: StreamMessage
    signer: str | None
    verdict: Verdict
    opened: Opened | Unreadable | Locked

    @property
    def readings(self) -> tuple[IoMessage, ...] | None:
        """None: they cannot be read."""
        return self.opened.readings if isinstance(self.opened, Opened) else None

    @property
    def decoding_exit_code(self) -> ExitCode:
        """For a command that shows the message."""
        return ExitCode.BAD_DATA if isinstance(self.opened, Unreadable) else ExitCode.OK

    @property
    def exit_code(self) -> ExitCode:
        """For a command that asks whether the message is verified, the hash chain of its readings included."""
        is_good = self.verdict and not chain_breaks(self.readings or ())
        return max(self.decoding_exit_code, ExitCode.OK if is_good else ExitCode.NO)

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
            *self._reading_lines(),
        ]

    def _reading_lines(self) -> list[str]:
        """How many readings there are, whether their hash chain holds, and the first of them."""
        match self.opened:
            case Opened(readings=()):
                return []
            case Opened(readings=readings):
                shown = [f"  {line}" for line in table_lines(readings[:MAX_SHOWN_READINGS])]
                if len(readings) > MAX_SHOWN_READINGS:
                    shown.append(f"  … and {len(readings) - MAX_SHOWN_READINGS} more; --json shows all")
                return [_line("readings", f"{len(readings)}, {_chain_text(readings)}"), *shown]
            case Unreadable(reason=reason) | Locked(reason=reason):
                return [_line("readings", f"{type(self.opened).__name__.lower()}: {reason}")]

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
            "readings": None if self.readings is None else [reading_as_json(each) for each in self.readings],
            "readings_problem": "" if isinstance(self.opened, Opened) else self.opened.reason,
            "chain_breaks": [chain_break_as_json(each) for each in chain_breaks(self.readings or ())],
        }


KeysOf = Callable[[str], Mapping[str, GroupKey]]  # of a stream, by their ids


def examine_stream_message(
    text: str | bytes, keys_of: KeysOf = lambda _: {}, *, draft: bool = False
) -> StreamMessageReport:
    """Read one message, check its signature, and open it. Raises: `WireError`, whose exit code is 65."""
    message = parse_stream_message(text, draft=draft)
    key = keys_of(message.message_id.stream_id).get(message.group_key_id or "")
    return StreamMessageReport(
        message=message,
        signer=recover_signer(message),
        verdict=verify(message),
        opened=open_message(message, key, _without_key(message)),
    )


def chain_break_as_json(found: ChainBreak) -> dict[str, Any]:
    return {"index": found.index, "id": found.message_id, "kind": found.kind.value, "detail": found.detail}


def _without_key(message: StreamMessage) -> str:
    return f"encrypted with group key {message.group_key_id}; give --group-keys FILE that contains it"


def _chain_text(readings: Sequence[IoMessage]) -> str:
    if not any(reading.hash for reading in readings):
        return "not hash-linked"
    breaks = chain_breaks(readings)
    return f"hash chain BROKEN in {break_text(breaks, len(readings))}" if breaks else "hash chain unbroken"


def _identity(message: StreamMessage) -> dict[str, object]:
    timestamp_ms = message.message_id.timestamp
    return {**message.message_id._asdict(), "timestamp": f"{timestamp_ms} ({utc_text(timestamp_ms)})"}


def _code(code: IntEnum) -> str:
    return f"{int(code)} ({code.name.lower().replace('_', ' ')})"


def _line(label: str, value: object) -> str:
    return f"{label:<{_LABEL_COLUMNS}}{'none' if value is None else printable_start(str(value), MAX_SHOWN_CHARACTERS)}"

"""What `headgate message` says of an ioMessage: its fields, what is missing, and what the reader forgave."""

import binascii
from datetime import UTC, datetime
from typing import Final

import orjson

from protocol.iomessage import IoMessage, Quirk
from protocol.iomessage.fields import BLOB_NAMES, JSON_KEYS

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

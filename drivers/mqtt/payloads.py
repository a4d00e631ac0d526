"""What the payloads of several kinds of firmware have in common. Pure."""

from typing import Any, TypeGuard

import orjson

from drivers.mapping import MAX_FIELDS

__all__ = ["is_number", "is_online", "json_object"]


def json_object(payload: bytes) -> dict[str, Any]:
    """Raises ValueError."""
    document = orjson.loads(payload)
    if not isinstance(document, dict) or len(document) > MAX_FIELDS:
        raise ValueError(f"not a JSON object of at most {MAX_FIELDS} members")
    return document


def is_number(value: Any) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_online(payload: bytes) -> bool:
    """Raises ValueError where it says neither."""
    word = payload.decode().strip().lower()
    if word not in ("online", "offline"):
        raise ValueError(f"{word!r:.40} is neither online nor offline")
    return word == "online"

"""Makes untrusted values safe to print: control characters, which a terminal would execute, are escaped."""

from datetime import UTC, datetime


def printable(text: str) -> str:
    """The text on one line, with control characters escaped."""
    return text if text.isprintable() else "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


def printable_start(text: str, max_characters: int) -> str:
    """The first `max_characters`, escaped, with the full length if the text is longer."""
    start = printable(text[:max_characters])
    return start if len(text) <= max_characters else f"{start}… ({len(text)} characters)"


def utc_text(timestamp_ms: int) -> str:
    """The time in ISO 8601; a number that is beyond any calendar, as a device without a clock may send, as it is."""
    try:
        return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds")
    except (OverflowError, ValueError, OSError):
        return f"{timestamp_ms} ms"

"""Text of strangers as it may be shown: with nothing in it that a terminal, or whoever reads a log, would obey."""

__all__ = ["printable", "printable_start"]


def printable(text: str) -> str:
    """The same on one line, control characters written out."""
    return text if text.isprintable() else "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


def printable_start(text: str, max_characters: int) -> str:
    """So much of it, and how long it is where that is not all."""
    start = printable(text[:max_characters])
    return start if len(text) <= max_characters else f"{start}… ({len(text)} characters)"

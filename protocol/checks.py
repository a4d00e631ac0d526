"""Checks of the fields of a value. Each raises ValueError, naming the field, what it is and what it may be."""


def check_within(name: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise ValueError(f"{name} {value} is not within {low}..{high}")


def check_length(name: str, data: bytes, length: int) -> None:
    if len(data) != length:
        raise ValueError(f"{name} of {len(data)} bytes, not {length}")


def check_text(name: str, text: str, max_bytes: int) -> None:
    if len(text.encode()) > max_bytes:
        raise ValueError(f"{name} of {len(text.encode())} bytes, at most {max_bytes}")

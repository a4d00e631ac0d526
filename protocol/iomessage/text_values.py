"""Reading and writing of the values of JSON and XML: integers, base64 and the version."""

import binascii
import re
from collections.abc import Mapping
from typing import Final

from protocol.errors import Corrupt, Unsupported
from protocol.iomessage.fields import (
    BLOB_NAMES,
    INTEGER_LIMITS,
    JSON_KEYS,
    MAX_INTEGER,
    TEXT_LIMITS,
    VERSION,
    Fields,
    check_fields,
)

_NUMERAL: Final = re.compile(r"([0-9]{1,20})(?:\.0*)?")
_WHITE_SPACE: Final = str.maketrans("", "", " \t\r\n")
_URL_SAFE_TO_STANDARD: Final = str.maketrans("-_", "+/")


def fields_from_texts(values: Mapping[str, object]) -> Fields:
    """Build the fields from the values of the twenty lower-case keys; other keys are ignored.

    Raises:
        Corrupt: a value is of the wrong kind or beyond its limit.
        Unsupported: the version is neither 4 nor the 0 that the Java agent writes.
    """
    _check_version(values.get("version"))
    found: dict[str, object] = {name: _read_text(name, values.get(JSON_KEYS[name])) for name in TEXT_LIMITS}
    found |= {name: read_integer(name, values.get(JSON_KEYS[name])) for name in INTEGER_LIMITS}
    found |= {name: read_base64(name, values.get(JSON_KEYS[name])) for name in BLOB_NAMES}
    fields = Fields(**found)  # type: ignore[arg-type]
    check_fields(fields)
    return fields


def texts_from_fields(fields: Fields) -> dict[str, str | int]:
    """The values by key, as every known reader accepts them: an absent text is "". An absent integer is left out: a
    stream without SequenceTotal has no known end. Other readers read it as 0.
    """
    texts: dict[str, str | int] = {}
    for name, key in JSON_KEYS.items():
        value = getattr(fields, name)
        if name in BLOB_NAMES:
            texts[key] = _write_base64(value)
        elif name not in INTEGER_LIMITS:
            texts[key] = value or ""
        elif value is not None:
            texts[key] = value
    return texts


def _check_version(value: object) -> None:
    version = read_integer("version", value)
    if version not in (None, 0, VERSION):
        raise Unsupported(f"ioMessage version {version} is not known; this reader knows version {VERSION}")


def _read_text(name: str, value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    raise Corrupt(f"{name} must be text, not {type(value).__name__}")


def read_integer(name: str, value: object) -> int | None:
    """An integer, a whole float, or a numeral as text; None and the empty text are absent."""
    match value:
        case None | "":
            return None
        case bool():
            pass
        case int() if value >= 0:
            return value
        case float() if value.is_integer() and 0 <= value <= MAX_INTEGER:
            return int(value)
        case str() if numeral := _NUMERAL.fullmatch(value):
            return int(numeral[1])
    raise Corrupt(f"{name} must be a whole number between 0 and {MAX_INTEGER}, not {value!r:.60}")


def read_base64(name: str, value: object) -> bytes | None:
    """Standard or URL-safe alphabet, padded or not, white space anywhere."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise Corrupt(f"{name} must be base64 text, not {type(value).__name__}")
    digits = value.translate(_WHITE_SPACE).translate(_URL_SAFE_TO_STANDARD).rstrip("=")
    try:
        return binascii.a2b_base64(digits + "=" * (-len(digits) % 4), strict_mode=True)
    except ValueError as error:
        raise Corrupt(f"{name} is not base64: {error}") from None


def _write_base64(blob: bytes | None) -> str:
    return binascii.b2a_base64(blob or b"", newline=False).decode()

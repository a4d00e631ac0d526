"""A reading: one value of one quantity of one sensor, as a driver measured it."""

import math
import time
from functools import partial
from typing import Annotated, Final, NamedTuple, Self

from runtime.settings import AtMost, NotEmpty

Scalar = float | int | bool | str

MAX_NAME_CHARS: Final = 128  # of a sensor, a quantity, a unit or a MIME type
MAX_TEXT_CHARS: Final = 4096
MAX_PAYLOAD_BYTES: Final = 8 * 1024 * 1024  # enough for a photograph

Name = Annotated[str, NotEmpty(), AtMost(MAX_NAME_CHARS)]  # a setting that names a sensor or a quantity


def now_ms() -> int:
    """Milliseconds of UTC by the gateway's clock."""
    return time.time_ns() // 1_000_000


class _Fields(NamedTuple):
    sensor: str
    quantity: str
    value: Scalar | bytes
    unit: str  # UCUM code of a number: "Cel", "%", "m/s"; "" for a state, a text or bytes
    taken_at_ms: int  # UTC; the sensor's clock if it has one, else the moment of reception
    mime_type: str  # of bytes; "" for a scalar
    token: int | None  # to acknowledge when this reading is committed; None if the source needs no acknowledgement


class Reading(_Fields):
    """A scalar with its unit, or the untouched bytes of a payload with their MIME type. Valid once it exists.

    A tuple, not a dataclass: building one is on the path of every value, and a frozen dataclass costs twice as much.
    """

    __slots__ = ()

    def __new__(
        cls,
        sensor: str,
        quantity: str,
        value: Scalar | bytes,
        unit: str = "",
        *,
        taken_at_ms: int,
        mime_type: str = "",
        token: int | None = None,
    ) -> Self:
        """Raises ValueError where a field breaks its limit."""
        if not 0 < len(sensor) <= MAX_NAME_CHARS or not 0 < len(quantity) <= MAX_NAME_CHARS:
            raise ValueError(
                f"sensor {sensor!r:.60} and quantity {quantity!r:.60} must have 1 to {MAX_NAME_CHARS} characters"
            )
        if value.__class__ is float:
            if not math.isfinite(value):
                raise ValueError(f"{sensor}: {quantity} {value!r} is not finite")
        elif value.__class__ is not int:
            _check_rare_value(f"{sensor}: {quantity}", value, mime_type)
        if taken_at_ms < 0 or len(unit) > MAX_NAME_CHARS or (mime_type and not isinstance(value, bytes)):
            raise ValueError(
                f"{sensor}: taken_at_ms {taken_at_ms}, unit {unit!r:.60} or MIME type {mime_type!r:.60} is wrong"
            )
        return tuple.__new__(cls, (sensor, quantity, value, unit, taken_at_ms, mime_type, token))


checked_reading: Final = partial(tuple.__new__, Reading)  # of all seven fields, each checked by the caller


def _check_rare_value(name: str, value: object, mime_type: str) -> None:
    match value:
        case bool() | int() | float():
            return
        case str() if len(value) > MAX_TEXT_CHARS:
            raise ValueError(f"{name} is {len(value)} characters long; the limit is {MAX_TEXT_CHARS}")
        case str():
            return
        case bytes() if len(value) > MAX_PAYLOAD_BYTES:
            raise ValueError(f"{name} is {len(value)} bytes long; the limit is {MAX_PAYLOAD_BYTES}")
        case bytes() if not 0 < len(mime_type) <= MAX_NAME_CHARS:
            raise ValueError(f"{name} is bytes; expected a MIME type of 1 to {MAX_NAME_CHARS} characters")
        case bytes():
            return
        case _:
            raise ValueError(f"{name} is a {type(value).__name__}; expected a number, a boolean, a string or bytes")

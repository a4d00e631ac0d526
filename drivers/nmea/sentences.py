"""NMEA 0183 sentences of GNSS receivers and marine instruments. Pure.

    $GPRMC,123519,A,4807.038,N,01131.000,E,022.4,084.4,230394,003.1,W*6A
    │└┬┘└┬┘ fields, by commas                                        └── XOR of all between $ and *
    │ │  └ kind
    │ └─── talker: GP, GN, GL, GA, GB for satellites, II, WI, SD, … for instruments
    └ start

A sentence without a checksum is refused: on a noisy line nothing else detects errors.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Final

MAX_SENTENCE_BYTES: Final = 120  # 82 by the standard; receivers are known to exceed it
KNOT_M_PER_S: Final = 1852 / 3600
WIND_M_PER_S: Final = {"N": KNOT_M_PER_S, "K": 1 / 3.6, "M": 1.0, "S": 0.44704}  # S: statute miles an hour
Measured = tuple[str, float | int | str, str]  # quantity, value, unit


@dataclass(frozen=True, slots=True, kw_only=True)
class Fix:
    """The content of one sentence."""

    measured: list[Measured] = field(default_factory=list)
    position: tuple[float, float] | None = None  # degrees north, degrees east
    time_of_day: timedelta | None = None  # UTC
    day: date | None = None


def checksum(body: bytes) -> int:
    total = 0
    for byte in body:
        total ^= byte
    return total


def parse_sentence(line: bytes) -> tuple[str, list[str]]:
    """The kind (`RMC`) and the fields of a line. Raises ValueError."""
    line = line.strip()
    if not line.startswith((b"$", b"!")) or len(line) > MAX_SENTENCE_BYTES:
        raise ValueError("not a sentence")
    body, star, given = line[1:].rpartition(b"*")
    if not star or len(given) != 2:
        raise ValueError("no checksum")
    if given.upper() != b"%02X" % checksum(body):
        raise ValueError("wrong checksum")
    address, *fields = body.decode("ascii").split(",")
    return (address if address.startswith("P") else address[2:]), fields


def read_sentence(kind: str, fields: Sequence[str]) -> Fix | None:
    """The content of a sentence; None for a kind that is not read. Raises ValueError."""
    read = KINDS.get(kind)
    return read(_Fields(fields)) if read else None


class _Fields:
    """The fields of a sentence by number, from 1; one that is absent is empty."""

    def __init__(self, fields: Sequence[str]) -> None:
        self._fields = fields

    def text(self, number: int) -> str:
        return self._fields[number - 1] if number <= len(self._fields) else ""

    def number(self, number: int) -> float | None:
        text = self.text(number)
        if not text:
            return None
        value = float(text)
        if not math.isfinite(value):
            raise ValueError(f"field {number} is {text}")
        return value

    def measured(self, *columns: tuple[int, str, str, float]) -> list[Measured]:
        """(number, quantity, unit, factor) ──► the quantities that are present."""
        values = ((quantity, self.number(number), unit, factor) for number, quantity, unit, factor in columns)
        return [
            (quantity, round(value * factor, 6), unit) for quantity, value, unit, factor in values if value is not None
        ]

    def position(self, number: int) -> tuple[float, float] | None:
        latitude, north, longitude, east = (self.text(number + i) for i in range(4))
        if not latitude or not longitude:
            return None
        return _degrees(latitude, 2, north, "NS", 90), _degrees(longitude, 3, east, "EW", 180)

    def time_of_day(self, number: int) -> timedelta | None:
        text = self.text(number)
        if not text:
            return None
        hours, minutes, seconds = int(text[:2]), int(text[2:4]), float(text[4:])
        if not (0 <= hours < 24 and 0 <= minutes < 60 and 0 <= seconds < 61):
            raise ValueError(f"{text} is not a time of day")
        return timedelta(hours=hours, minutes=minutes, seconds=seconds)


def _degrees(text: str, whole_digits: int, hemisphere: str, signs: str, limit: int) -> float:
    """ddmm.mmm or dddmm.mmm, and a letter."""
    minutes = float(text[whole_digits:])
    degrees = int(text[:whole_digits]) + minutes / 60
    if hemisphere not in signs or not hemisphere or not 0 <= minutes < 60 or not 0 <= degrees <= limit:
        raise ValueError(f"{text} {hemisphere} is not a position")
    return round(-degrees if hemisphere == signs[1] else degrees, 7)


def _rmc(fields: _Fields) -> Fix:
    time_of_day, day = fields.time_of_day(1), _day_of_rmc(fields.text(9))
    if fields.text(2) != "A":  # no fix: its clock may run, but is not reliable
        return Fix()
    measured = fields.measured((7, "speed", "m/s", KNOT_M_PER_S), (8, "course", "deg", 1))
    return Fix(measured=measured, position=fields.position(3), time_of_day=time_of_day, day=day)


def _day_of_rmc(text: str) -> date | None:
    return datetime.strptime(text, "%d%m%y").replace(tzinfo=UTC).date() if text else None


def _gga(fields: _Fields) -> Fix:
    quality = int(fields.text(6) or 0)
    satellites = [("satellites", int(fields.text(7)), "")] if fields.text(7) else []
    state: list[Measured] = [("fix_quality", quality, ""), *satellites]
    if quality == 0:
        return Fix(measured=state)
    measured = [*state, *fields.measured((8, "hdop", "", 1), (9, "altitude", "m", 1))]
    return Fix(measured=measured, position=fields.position(2), time_of_day=fields.time_of_day(1))


def _gll(fields: _Fields) -> Fix:
    if fields.text(6) not in ("A", ""):
        return Fix()
    return Fix(position=fields.position(1), time_of_day=fields.time_of_day(5))


def _zda(fields: _Fields) -> Fix:
    if not (fields.text(1) and fields.text(2) and fields.text(3) and fields.text(4)):
        return Fix()
    day = date(int(fields.text(4)), int(fields.text(3)), int(fields.text(2)))
    return Fix(time_of_day=fields.time_of_day(1), day=day)


def _mwv(fields: _Fields) -> Fix:
    if fields.text(5) != "A":
        return Fix()
    kind = "true" if fields.text(2) == "T" else "apparent"
    factor = WIND_M_PER_S.get(fields.text(4))
    if factor is None:
        raise ValueError(f"{fields.text(4)!r:.10} is not a unit of wind speed")
    return Fix(measured=fields.measured((1, f"wind_angle_{kind}", "deg", 1), (3, f"wind_speed_{kind}", "m/s", factor)))


def _simple(*columns: tuple[int, str, str, float]) -> Callable[[_Fields], Fix]:
    return lambda fields: Fix(measured=fields.measured(*columns))


KINDS: Final[dict[str, Callable[[_Fields], Fix]]] = {
    "RMC": _rmc,
    "GGA": _gga,
    "GNS": lambda fields: Fix(
        measured=fields.measured((8, "hdop", "", 1), (9, "altitude", "m", 1)),
        position=fields.position(2),
        time_of_day=fields.time_of_day(1),
    ),
    "GLL": _gll,
    "ZDA": _zda,
    "DBT": _simple((3, "depth", "m", 1)),
    "DPT": _simple((1, "depth", "m", 1)),
    "HDG": _simple((1, "heading_magnetic", "deg", 1)),
    "HDM": _simple((1, "heading_magnetic", "deg", 1)),
    "HDT": _simple((1, "heading_true", "deg", 1)),
    "MTW": _simple((1, "water_temperature", "Cel", 1)),
    "MWV": _mwv,
    "VHW": _simple((5, "speed_through_water", "m/s", KNOT_M_PER_S)),
}

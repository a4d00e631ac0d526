"""GNSS receivers and marine instruments with NMEA 0183, on a serial line or over TCP.

The decoder is pure. It gives one position per epoch, with the time of the receiver's own clock.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Annotated, Final, Literal

from drivers.framing import Damaged, DelimitedFrames
from drivers.nmea.sentences import MAX_SENTENCE_BYTES, Fix, Measured, parse_sentence, read_sentence
from drivers.reading import Reading
from drivers.rejects import reason_of
from drivers.serial_driver import SerialDriver, SerialSettings
from runtime.settings import Between, Seconds, check_settings

EARLIEST_DAY: Final = date(2024, 1, 1)  # an earlier date is a week-number rollover of 1024 weeks
LATEST_DAY: Final = date(2099, 12, 31)  # a later date is invalid
_HALF_DAY: Final = timedelta(hours=12)


@dataclass(frozen=True, slots=True)
class TimeHint:
    """The receiver's clock and the gateway's at one moment. The time of transmission is included."""

    gnss_ms: int
    gateway_ms: int

    @property
    def offset_ms(self) -> int:
        """To be added to the gateway's clock."""
        return self.gnss_ms - self.gateway_ms


class NmeaDecoder:
    def __init__(self, sensor: str, interval_s: float = 0.0, clock: Literal["gnss", "gateway"] = "gnss") -> None:
        self.time_hint: TimeHint | None = None
        self._sensor = sensor
        self._interval_ms = interval_s * 1000
        self._clock = clock
        self._lines = DelimitedFrames(b"\n", MAX_SENTENCE_BYTES)
        self._day: date | None = None
        self._day_received_at: timedelta | None = None
        self._position_of: timedelta | None = None  # the epoch whose position was read
        self._read_at_ms: dict[str, int] = {}  # by quantity; there are as many as `KINDS` names

    def feed(self, data: bytes, now_ms: int) -> Sequence[Reading | Damaged]:
        events: list[Reading | Damaged] = []
        for line in self._lines.feed(data):
            events += [line] if isinstance(line, Damaged) else self._read_line(line, now_ms)
        return events

    def _read_line(self, line: bytes, now_ms: int) -> Sequence[Reading | Damaged]:
        if not line.strip():
            return []
        try:
            fix = read_sentence(*parse_sentence(line))
        except (ValueError, OverflowError) as error:  # UnicodeDecodeError is one; the other, a day of twenty digits
            reason = reason_of(error) if isinstance(error, ValueError) else "a number out of range"
            return [Damaged.frame(str(error), line, reason)]
        return [] if fix is None else self._readings_of(fix, now_ms)

    def _readings_of(self, fix: Fix, now_ms: int) -> list[Reading]:
        gnss_ms = self._gnss_time_ms(fix)
        at_ms = gnss_ms if gnss_ms is not None and self._clock == "gnss" else now_ms
        measured = list(fix.measured)
        if gnss_ms is not None and fix.day is not None:
            self.time_hint = TimeHint(gnss_ms, now_ms)
            measured.append(("clock_offset", self.time_hint.offset_ms / 1000, "s"))
        due = [each for each in measured if self._is_due(each[0], now_ms)] + self._due_position(fix, now_ms)
        return [Reading(self._sensor, name, value, unit, taken_at_ms=at_ms) for name, value, unit in due]

    def _due_position(self, fix: Fix, now_ms: int) -> list[Measured]:
        """RMC, GGA and GLL contain the same position at the same second; one is enough."""
        is_known = fix.time_of_day is not None and fix.time_of_day == self._position_of
        if fix.position is None or is_known or not self._is_due("position", now_ms):
            return []
        self._position_of = fix.time_of_day
        north, east = fix.position
        return [("latitude", north, "deg"), ("longitude", east, "deg")]

    def _gnss_time_ms(self, fix: Fix) -> int | None:
        """The time of the sentence; if it has no date, that of the last one that had, corrected for midnight."""
        if fix.time_of_day is None:
            return None
        if fix.day is not None:
            self._day, self._day_received_at = fix.day, fix.time_of_day
        if self._day is None or self._day_received_at is None or not EARLIEST_DAY <= self._day <= LATEST_DAY:
            return None
        passed_midnight = self._day_received_at - fix.time_of_day > _HALF_DAY
        midnight = datetime.combine(self._day, time(), UTC) + timedelta(days=1 if passed_midnight else 0)
        return round((midnight + fix.time_of_day).timestamp() * 1000)

    def _is_due(self, quantity: str, now_ms: int) -> bool:
        read_at_ms = self._read_at_ms.get(quantity)
        if read_at_ms is not None and 0 <= now_ms - read_at_ms < self._interval_ms:
            return False
        self._read_at_ms[quantity] = now_ms
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class NmeaSettings(SerialSettings):
    interval_s: Annotated[float, Between(0, 86_400)] = 1.0  # shortest interval of each quantity; 0: all
    clock: Literal["gnss", "gateway"] = "gnss"  # the clock that stamps the readings
    silence_s: Seconds = 30.0


def build(name: str, settings: Mapping[str, object], path: str = "") -> "NmeaDriver":
    return NmeaDriver(name, check_settings(NmeaSettings, settings, path))


class NmeaDriver(SerialDriver[NmeaDecoder]):
    KIND = "nmea"

    def __init__(self, name: str, settings: NmeaSettings) -> None:
        super().__init__(name, settings, lambda: NmeaDecoder(name, settings.interval_s, settings.clock))

    @property
    def time_hint(self) -> TimeHint | None:
        """The last comparison of the receiver's clock with the gateway's; None before the first fix."""
        return self._decoder.time_hint

"""The last reading of each sensor and quantity of one device, for whoever looks."""

from collections.abc import Sequence
from typing import Final

from drivers import Reading

__all__ = ["MAX_SENSORS", "LatestReadings"]

MAX_SENSORS: Final = 256  # of one device; a source that invents names costs no more memory than that


class LatestReadings:
    """Takes every reading, so it does little with each. A payload is not kept, only how long it is."""

    def __init__(self) -> None:
        self.readings: dict[tuple[str, str], Reading] = {}
        self.has_more = False  # than are kept

    def note(self, readings: Sequence[Reading]) -> None:
        for name, reading in {reading[:2]: reading for reading in readings}.items():
            if name in self.readings or len(self.readings) < MAX_SENSORS:
                self.readings[name] = _without_payload(reading)
            else:
                self.has_more = True


def _without_payload(reading: Reading) -> Reading:
    sensor, quantity, value, _, taken_at_ms, *_ = reading
    if not isinstance(value, bytes):
        return reading
    return Reading(sensor, quantity, f"{len(value)} bytes", taken_at_ms=taken_at_ms)

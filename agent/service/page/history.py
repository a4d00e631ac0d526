"""The recent values of the sensors, sampled at a fixed interval, for the curves of the page."""

import math
from array import array
from collections.abc import Mapping
from typing import Any, Final

from agent.collect import CollectorStatus
from drivers import DeviceState
from drivers.reading import Scalar

SAMPLE_S: Final = 2.0
MAX_POINTS: Final = 150  # of each series: five minutes
MAX_SERIES: Final = 256  # a few hundred bytes each
NOTHING: Final = math.nan  # the device was down, or the value is not a number

SeriesName = tuple[str, str, str]  # device, sensor, quantity


class History:
    def __init__(self) -> None:
        self._series: dict[SeriesName, array[float]] = {}

    def sample(self, devices: Mapping[str, CollectorStatus]) -> None:
        """Record the current value of every sensor; drop sensors that are gone."""
        values = {
            (device, *name): NOTHING if status.state == DeviceState.DOWN else as_number(reading.value)
            for device, status in devices.items()
            for name, reading in list(status.latest.readings.items())
        }
        self._series = {name: series for name, series in self._series.items() if name in values}
        for name, value in values.items():
            self._append(name, value)

    def as_json(self) -> dict[str, Any]:
        return {
            "every_s": SAMPLE_S,
            "max_points": MAX_POINTS,
            "series": [
                {"device": device, "sensor": sensor, "quantity": quantity, "values": list(map(_point, values))}
                for (device, sensor, quantity), values in self._series.items()
            ],
        }

    def _append(self, name: SeriesName, value: float) -> None:
        series = self._series.get(name)
        if series is None:
            if math.isnan(value) or len(self._series) >= MAX_SERIES:
                return
            series = self._series[name] = array("f")
        series.append(value)
        del series[:-MAX_POINTS]


def as_number(value: Scalar | bytes) -> float:
    """The value for a curve: true is 1, false is 0, and text is not a number."""
    try:
        return math.nan if isinstance(value, str | bytes) else float(value)
    except OverflowError:
        return math.nan


def _point(value: float) -> float | None:
    """The value rounded to six digits; None if it is not finite, which JSON cannot hold."""
    return float(f"{value:.6g}") if math.isfinite(value) else None

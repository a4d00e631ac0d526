"""Maps a device's clock to the host's time: offset and drift, estimated from the fastest request/response pairs.

The device reports its uptime; the host records when it sent the request and when it received the response. The device
read its clock somewhere between the two, so the shorter the round trip, the better the sample. Device clocks run up to
some hundred millionths fast or slow; the drift is computed once the samples span long enough to separate it from their
error.

Pure. Host times are of a clock that is never set, in milliseconds.
"""

from collections import deque
from itertools import islice
from typing import Final, NamedTuple

MAX_SAMPLES: Final = 64
MIN_SPAN_MS: Final = 30_000.0  # before that, drift is within the error of the samples
MAX_DRIFT: Final = 1e-3  # a larger drift is not a clock
MAX_DEVIATION_MS: Final = 100.0  # beyond half the round trip: the device slept, or its clock jumped
GOOD_FACTOR: Final = 1.5  # times the shortest round trip: samples up to this are good
GOOD_SLACK_MS: Final = 1.0


class _Sample(NamedTuple):
    device_ms: float
    host_ms: float  # the middle between request and response
    round_trip_ms: float


class ClockMapping:
    """The clock of one boot of one device."""

    def __init__(self) -> None:
        self._samples: deque[_Sample] = deque(maxlen=MAX_SAMPLES)
        self._rate = 1.0  # host milliseconds for one of the device
        self._anchor = _Sample(0.0, 0.0, 0.0)
        self.jumps = 0

    @property
    def is_known(self) -> bool:
        return bool(self._samples)

    @property
    def drift_ppm(self) -> float:
        """By how much the device's clock is slow, in parts per million."""
        return (self._rate - 1.0) * 1e6

    @property
    def round_trip_ms(self) -> float:
        """The shortest recent round trip."""
        return min((sample.round_trip_ms for sample in self._samples), default=0.0)

    def add(self, uptime_ms: int, requested_ms: float, received_ms: float) -> None:
        sample = _Sample(float(uptime_ms), (requested_ms + received_ms) / 2, max(0.0, received_ms - requested_ms))
        limit_ms = sample.round_trip_ms / 2 + MAX_DEVIATION_MS
        if self.is_known and abs(self.host_ms(uptime_ms) - sample.host_ms) > limit_ms:
            self._samples.clear()
            self.jumps += 1
        self._samples.append(sample)
        self._fit()

    def host_ms(self, uptime_ms: int) -> float:
        """The host's time at this uptime of the device."""
        return self._anchor.host_ms + (uptime_ms - self._anchor.device_ms) * self._rate

    def _fit(self) -> None:
        """Fit a line to the good samples by least squares; with a short span, one of slope 1."""
        limit_ms = self.round_trip_ms * GOOD_FACTOR + GOOD_SLACK_MS
        good = [sample for sample in self._samples if sample.round_trip_ms <= limit_ms]
        origin = good[0]
        xs = [sample.device_ms - origin.device_ms for sample in good]
        ys = [sample.host_ms - origin.host_ms for sample in good]
        mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
        self._rate = 1.0
        if xs[-1] - xs[0] >= MIN_SPAN_MS:
            spread = sum((x - mean_x) ** 2 for x in xs)
            slope = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True)) / spread
            self._rate = min(max(slope, 1.0 - MAX_DRIFT), 1.0 + MAX_DRIFT)
        else:  # drift is not measurable yet, and the newest samples are the most relevant
            recent = list(islice(reversed(good), 8))
            mean_x = sum(sample.device_ms - origin.device_ms for sample in recent) / len(recent)
            mean_y = sum(sample.host_ms - origin.host_ms for sample in recent) / len(recent)
        self._anchor = _Sample(origin.device_ms + mean_x, origin.host_ms + mean_y, 0.0)

"""The health of one device: its state, the share of damaged frames, and sensors that fell silent. Pure.

By default the limit of a sensor is learned from its own intervals: when `LEARNED_FROM` intervals between its readings
are known and none of them is far longer than the others (a button or a door has no regular interval), it is silent
after `PATIENCE` times the longest of them, `FLOOR_S` at least. A sensor that has not sent anything yet is not reported.
With `silence_s` there is no learning: each sensor that ever sent, and the device as a whole from its start, is silent
after that time; 0 turns it off. The time in which the device is down does not count.

Memory is bounded by `MAX_SENSORS` and `LEARNED_FROM`.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from drivers.reading import Reading


class DeviceState(StrEnum):
    STARTING = "starting"
    UP = "up"
    DEGRADED = "degraded"  # readings arrive, with noise or a flood
    SILENT = "silent"  # the port is open, but a sensor that usually sends does not
    DOWN = "down"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceChange:
    """A device changed its state; the agent logs it and publishes it. From `DOWN`, `lasted_ms` is the outage."""

    device: str
    before: DeviceState
    after: DeviceState
    at_ms: int  # UTC
    lasted_ms: int  # how long the previous state lasted
    reason: str  # what happened and what to do; "" for a good change

    def __str__(self) -> str:
        because = f"; {self.reason}" if self.reason else ""
        return f"{self.device} {self.after} after {self.lasted_ms / 1000:.1f} s {self.before}{because}"


class Health:
    """The state of one device, and its changes."""

    def __init__(self, device: str, now_ms: int) -> None:
        self._device = device
        self._since_ms = now_ms
        self.state = DeviceState.STARTING

    def succeeded(self, trouble: str, now_ms: int, silence: str = "") -> DeviceChange | None:
        """A read succeeded."""
        if silence:
            return self._change(DeviceState.SILENT, silence, now_ms)
        return self._change(DeviceState.DEGRADED if trouble else DeviceState.UP, trouble, now_ms)

    def failed(self, reason: str, now_ms: int) -> DeviceChange | None:
        return self._change(DeviceState.DOWN, reason, now_ms)

    def _change(self, after: DeviceState, reason: str, now_ms: int) -> DeviceChange | None:
        if after is self.state:
            return None
        lasted_ms = max(0, now_ms - self._since_ms)  # the clock may have been set back
        change = DeviceChange(
            device=self._device, before=self.state, after=after, at_ms=now_ms, lasted_ms=lasted_ms, reason=reason
        )
        self.state, self._since_ms = after, now_ms
        return change


NOISY_ABOVE: Final = 0.5
CLEAN_BELOW: Final = 0.1
_WEIGHT: Final = 1 / 16  # of the newest frame in the share of damaged ones: about the last 30 frames


class Quality:
    """Counts good and damaged frames. Noise has two thresholds, so that the state does not flicker."""

    def __init__(self, advice: str = "check baudrate and cable") -> None:
        self._advice = advice
        self.good_frames = 0
        self.damaged_frames = 0
        self._share = 0.0
        self._noisy = False
        self.last_damage = ""

    def good(self) -> None:
        self.good_frames += 1
        if self._share:
            self._weigh(0.0)

    def damaged(self, problem: str) -> None:
        self.damaged_frames += 1
        self.last_damage = problem
        self._weigh(1.0)

    @property
    def trouble(self) -> str:
        """The problem, with the last damaged frame; "" if there is none."""
        return f"most frames are damaged: {self.last_damage}; {self._advice}" if self._noisy else ""

    def _weigh(self, damage: float) -> None:
        self._share += _WEIGHT * (damage - self._share)
        if self._share > NOISY_ABOVE:
            self._noisy = True
        elif self._share < CLEAN_BELOW:
            self._noisy = False


MAX_SENSORS: Final = 256
LEARNED_FROM: Final = 8  # intervals
PATIENCE: Final = 5
FLOOR_S: Final = 60.0
CEILING_S: Final = 7 * 86_400.0
IRREGULAR_ABOVE: Final = 10  # times the median
MAX_NAMED: Final = 3


class _Sensor:
    __slots__ = ("intervals_s", "last_s", "limit_s")

    def __init__(self, now_s: float) -> None:
        self.last_s = now_s
        self.intervals_s: deque[float] = deque(maxlen=LEARNED_FROM)
        self.limit_s: float | None = None

    def add(self, now_s: float) -> None:
        self.intervals_s.append(now_s - self.last_s)
        self.last_s = now_s
        if len(self.intervals_s) == LEARNED_FROM:
            longest_s = max(self.intervals_s)
            is_regular = longest_s <= IRREGULAR_ABOVE * max(sorted(self.intervals_s)[LEARNED_FROM // 2], 1.0)
            self.limit_s = min(CEILING_S, max(FLOOR_S, PATIENCE * longest_s)) if is_regular else None


class SilenceDetector:
    """Detects sensors of one device that fell silent."""

    def __init__(self, silence_s: float | None, now_s: float) -> None:
        self._silence_s = silence_s
        self._since_s = now_s
        self._sensors: dict[str, _Sensor] = {}
        self._checked_at_s = now_s
        self._paused_at_s: float | None = None
        self._silence = ""

    def pause(self, now_s: float) -> None:
        """The device is down: until `resume`, no sensor can send."""
        if self._paused_at_s is None:
            self._paused_at_s = now_s

    def resume(self, now_s: float) -> None:
        if self._paused_at_s is None:
            return
        pause_s, self._paused_at_s = now_s - self._paused_at_s, None
        self._since_s += pause_s
        for sensor in self._sensors.values():
            sensor.last_s += pause_s

    def note(self, readings: Sequence[Reading], now_s: float) -> None:
        for name in {reading[0] for reading in readings}:
            sensor = self._sensors.get(name)
            if sensor is not None:
                sensor.add(now_s)
            elif len(self._sensors) < MAX_SENSORS:
                self._sensors[name] = _Sensor(now_s)
        if readings:
            self._since_s = now_s

    def silence(self, now_s: float) -> str:
        """The silent sensors and for how long; "" if there are none. Computed at most once a second."""
        if now_s - self._checked_at_s >= 1.0:
            self._checked_at_s = now_s
            self._silence = self._find_silence(now_s)
        return self._silence

    def _find_silence(self, now_s: float) -> str:
        if self._silence_s == 0:
            return ""
        limits = {
            name: sensor.limit_s if self._silence_s is None else self._silence_s
            for name, sensor in self._sensors.items()
        }
        silent = [
            f"{name} for {now_s - self._sensors[name].last_s:.0f} s, the limit is {limit_s:.0f} s"
            for name, limit_s in limits.items()
            if limit_s is not None and now_s - self._sensors[name].last_s > limit_s
        ]
        if not self._sensors and self._silence_s is not None and now_s - self._since_s > self._silence_s:
            return f"no reading for {now_s - self._since_s:.0f} s; check that the device is sending"
        more = f" and {len(silent) - MAX_NAMED} more" if len(silent) > MAX_NAMED else ""
        return f"no reading of {'; '.join(silent[:MAX_NAMED])}{more}; check that it is sending" if silent else ""

"""States, not repetitions: a device's state, and one event for each change of it."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

__all__ = ["DeviceChange", "DeviceState", "Health", "Quality"]


class DeviceState(StrEnum):
    STARTING = "starting"
    UP = "up"
    TROUBLED = "troubled"  # readings come, and with them noise or a flood
    DOWN = "down"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceChange:
    """A device changed its state; the agent logs it and publishes it. From `DOWN`, `lasted_ms` is the outage."""

    device: str
    before: DeviceState
    after: DeviceState
    at_ms: int  # UTC
    lasted_ms: int  # how long the state before lasted
    reason: str  # what happened and what to do; "" for a good change

    def __str__(self) -> str:
        because = f"; {self.reason}" if self.reason else ""
        return f"{self.device} {self.after} after {self.lasted_ms / 1000:.1f} s {self.before}{because}"


class Health:
    """The state of one device, from what its driver shows."""

    def __init__(self, device: str, now_ms: int) -> None:
        self._device = device
        self._since_ms = now_ms
        self.state = DeviceState.STARTING

    def works(self, trouble: str, now_ms: int) -> DeviceChange | None:
        """A read gave something, or at least did not fail."""
        return self._change(DeviceState.TROUBLED if trouble else DeviceState.UP, trouble, now_ms)

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
_WEIGHT: Final = 1 / 16  # of the newest frame in the share of damaged ones: about the last 30 count


class Quality:
    """Counts good and damaged frames, and says when noise begins and ends: far apart, so that it does not flicker."""

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
        """ "" or what is wrong. Its words are of the frame that was damaged last."""
        return f"most of what it sends is damaged: {self.last_damage}; {self._advice}" if self._noisy else ""

    def _weigh(self, damage: float) -> None:
        self._share += _WEIGHT * (damage - self._share)
        if self._share > NOISY_ABOVE:
            self._noisy = True
        elif self._share < CLEAN_BELOW:
            self._noisy = False

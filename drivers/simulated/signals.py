"""Simulated signals. Pure: the same seed and the same times give the same values."""

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Final, Literal

from drivers.errors import ConfigError
from drivers.reading import MAX_PAYLOAD_BYTES, Scalar
from runtime.settings import Between, Text

DAY_MS: Final = 86_400_000
_WARMEST: Final = 15 / 24  # of the day, in the afternoon
_JPEG_START: Final = bytes.fromhex("ffd8ffe000104a46494600010100000100010000")
_JPEG_END: Final = bytes.fromhex("ffd9")

Source = Callable[[int], Scalar | bytes]  # UTC in ms ──► value


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    kind: Literal["diurnal", "walk", "switch", "burst", "blob"]
    quantity: Text
    unit: str = ""
    mean: float = 20.0  # diurnal, walk: the middle
    swing: Annotated[float, Between(0, 1e12)] = (
        5.0  # diurnal: half the daily range; walk: largest deviation; burst: height
    )
    noise: Annotated[float, Between(0, 1e12)] = 0.1  # diurnal, burst: standard deviation; walk: size of a step
    chance: Annotated[float, Between(0, 1)] = 0.01  # switch: of toggling at a tick; burst: of beginning at a tick
    payload_bytes: Annotated[int, Between(64, MAX_PAYLOAD_BYTES)] = 20_000  # blob: about this size

    def __post_init__(self) -> None:
        if self.kind == "blob" and self.unit:
            raise ConfigError("unit: a blob has none")


def make_source(signal: Signal, seed: str) -> Source:
    """A source with its own random numbers: adding one signal does not change another."""
    return _SOURCES[signal.kind](signal, random.Random(seed))  # noqa: S311 - a simulation, no secret


def _diurnal(signal: Signal, chance: random.Random) -> Source:
    def value(now_ms: int) -> float:
        turn = now_ms / DAY_MS - _WARMEST
        return round(signal.mean + signal.swing * math.cos(math.tau * turn) + chance.gauss(0, signal.noise), 3)

    return value


def _walk(signal: Signal, chance: random.Random) -> Source:
    at = signal.mean

    def value(_now_ms: int) -> float:
        nonlocal at
        stepped = at + chance.gauss(0, signal.noise)
        at = min(max(stepped, signal.mean - signal.swing), signal.mean + signal.swing)
        return round(at, 3)

    return value


def _switch(signal: Signal, chance: random.Random) -> Source:
    is_on = False

    def value(_now_ms: int) -> bool:
        nonlocal is_on
        is_on ^= chance.random() < signal.chance
        return is_on

    return value


def _burst(signal: Signal, chance: random.Random) -> Source:
    level = 0.0

    def value(_now_ms: int) -> float:
        nonlocal level
        level = signal.swing if chance.random() < signal.chance else level * 0.7  # a knock, dying away
        return round(signal.mean + level + chance.gauss(0, signal.noise), 3)

    return value


def _blob(signal: Signal, chance: random.Random) -> Source:
    def value(_now_ms: int) -> bytes:
        size = round(signal.payload_bytes * chance.uniform(0.9, 1.1))
        filling = min(size, MAX_PAYLOAD_BYTES) - len(_JPEG_START) - len(_JPEG_END)
        return _JPEG_START + chance.randbytes(filling).replace(b"\xff", b"\xfe") + _JPEG_END

    return value


_SOURCES: Final = {"diurnal": _diurnal, "walk": _walk, "switch": _switch, "burst": _burst, "blob": _blob}

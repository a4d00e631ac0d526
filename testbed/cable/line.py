"""The speed and the errors of a serial line. Pure and seeded: the same seed damages the same bytes in the same way."""

import math
import random
from dataclasses import dataclass
from typing import Final

MAX_GARBAGE_BYTES: Final = 32  # of one burst
MAX_DAMAGE_OFFSET: Final = 16  # largest position of a damaged byte in its frame
FRAME_END: Final = 0
BITS_PER_BYTE: Final = 10  # a start bit, eight of data, a stop bit


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """Probabilities of errors, 0 to 1."""

    bit_flips: float = 0.0  # of each bit
    drops: float = 0.0  # of each byte, to vanish
    garbage: float = 0.0  # before each byte, of a burst of random bytes
    damaged_frames: float = 0.0  # of each frame (what ends with a zero byte), to have one byte changed

    def __post_init__(self) -> None:
        if not all(0 <= chance <= 1 for chance in (self.bit_flips, self.drops, self.garbage, self.damaged_frames)):
            raise ValueError(f"probabilities must be between 0 and 1; {self}")


CLEAN: Final = Faults()


class Spoiler:
    """Damages the bytes of one direction of a line."""

    def __init__(self, faults: Faults, seed: int) -> None:
        self.faults = faults
        self.damaged_bytes = 0
        self._chance = random.Random(seed)
        self._bits_until_flip = self._gap(faults.bit_flips)
        self._bytes_until_damage = 0  # in this frame; 0: the frame stays whole

    def spoil(self, data: bytes) -> bytes:
        if self.faults == CLEAN:
            return data
        out = bytearray()
        for byte in data:
            out += self._garbage()
            if self._chance.random() < self.faults.drops:
                self.damaged_bytes += 1
            else:
                out.append(self._flip(self._damage(byte)))
        return bytes(out)

    def _garbage(self) -> bytes:
        if self._chance.random() >= self.faults.garbage:
            return b""
        burst = self._chance.randbytes(self._chance.randint(1, MAX_GARBAGE_BYTES))
        self.damaged_bytes += len(burst)
        return burst

    def _damage(self, byte: int) -> int:
        """Change one byte of a chosen frame; a frame that ends before that byte stays whole."""
        if byte == FRAME_END:
            is_chosen = self._chance.random() < self.faults.damaged_frames
            self._bytes_until_damage = self._chance.randint(1, MAX_DAMAGE_OFFSET) if is_chosen else 0
            return byte
        if self._bytes_until_damage == 0:
            return byte
        self._bytes_until_damage -= 1
        if self._bytes_until_damage > 0:
            return byte
        self.damaged_bytes += 1
        return byte ^ self._chance.randint(1, 255)

    def _flip(self, byte: int) -> int:
        """Flip bits at random gaps; drawing one number per gap is faster than one per bit."""
        while self._bits_until_flip < 8:
            byte ^= 1 << int(self._bits_until_flip)
            self.damaged_bytes += 1
            self._bits_until_flip += 1 + self._gap(self.faults.bit_flips)
        self._bits_until_flip -= 8
        return byte

    def _gap(self, chance: float) -> float:
        """The number of bits before the next flipped one."""
        if chance == 0:
            return math.inf
        return 0 if chance == 1 else math.floor(math.log(1 - self._chance.random()) / math.log(1 - chance))


class LinePace:
    """Computes how many bytes have passed a line of a given speed. Idle time gives no credit."""

    def __init__(self, baudrate: int | None) -> None:
        """None: no limit."""
        self._bytes_per_s = None if baudrate is None else baudrate / BITS_PER_BYTE
        self._from_s: float | None = None  # when the byte now on the line began; None while it is idle

    def passed(self, waiting: int, now_s: float) -> int:
        """The number of waiting bytes that have passed."""
        if self._bytes_per_s is None or not waiting:
            self._from_s = None
            return waiting
        if self._from_s is None:
            self._from_s = now_s
        count = min(waiting, int((now_s - self._from_s) * self._bytes_per_s))
        self._from_s = None if count == waiting else self._from_s + count / self._bytes_per_s
        return count

    @property
    def byte_s(self) -> float:
        """The seconds that one byte takes."""
        return 0.0 if self._bytes_per_s is None else 1 / self._bytes_per_s

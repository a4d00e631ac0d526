"""Bits that flip by themselves."""

import os
import random
from collections.abc import Iterable
from pathlib import Path

__all__ = ["flip_bits"]


def flip_bits(files: Iterable[Path], count: int, chance: random.Random) -> int:
    """In places of the files where something is written, each as likely as any other. How many flipped."""
    written = [(path, offset) for path in sorted(files) for offset in _written(path)]
    chosen = chance.sample(written, min(count, len(written)))
    for path, offset in chosen:
        _flip_one(path, offset, chance)
    return len(chosen)


def _written(path: Path) -> list[int]:
    return [offset for offset, byte in enumerate(path.read_bytes()) if byte]


def _flip_one(path: Path, offset: int, chance: random.Random) -> None:
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        [byte] = os.pread(descriptor, 1, offset)
        os.pwrite(descriptor, bytes([byte ^ 1 << chance.randrange(8)]), offset)
    finally:
        os.close(descriptor)

"""Bits that flip by themselves."""

import os
import random
from pathlib import Path

__all__ = ["flip_bits"]


def flip_bits(folder: Path, pattern: str, count: int, chance: random.Random) -> int:
    """In places of the matching files where something is written. How many flipped: 0 if there is nothing yet."""
    files = [path for path in sorted(folder.glob(pattern)) if path.stat().st_size]
    if not files:
        return 0
    return sum(_flip_one(chance.choice(files), chance) for _ in range(count))


def _flip_one(path: Path, chance: random.Random) -> bool:
    content = path.read_bytes()
    written = [offset for offset, byte in enumerate(content) if byte]
    if not written:
        return False
    offset = chance.choice(written)
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.pwrite(descriptor, bytes([content[offset] ^ 1 << chance.randrange(8)]), offset)
    finally:
        os.close(descriptor)
    return True

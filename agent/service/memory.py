"""Reduces the memory that the C library's allocator retains, for small machines.

By default glibc gives each thread an arena of its own, and raises the size above which it maps a buffer rather than
keep it; both cost resident memory for a speed that a process under one interpreter lock never sees. Measured: about a
megabyte less at the peak. Other C libraries have no such habit, and are left alone.
"""

import ctypes
import gc
from typing import Final

_ARENA_MAX: Final = -8  # glibc, malloc.h
_MMAP_THRESHOLD: Final = -3
MAX_ARENAS: Final = 1
MAPPED_FROM_BYTES: Final = 128 * 1024


def reduce_memory_use() -> None:
    """Call it before there are threads."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_ARENA_MAX, MAX_ARENAS)
        mallopt(_MMAP_THRESHOLD, MAPPED_FROM_BYTES)


def release_startup_memory() -> None:
    """What imports left behind: each dataclass with slots was made twice, and the first of the two is garbage.

    What is left then lives as long as the process, and is not looked through again.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()

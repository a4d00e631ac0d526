"""Reduces the resident memory of the agent, for small machines.

**The allocator.** By default glibc gives each thread an arena of its own, and raises the size above which it maps a
buffer rather than keep it; both cost resident memory for a speed that a process under one interpreter lock never sees.
Measured: about a megabyte less at the peak. Other C libraries have no such habit, and are left alone.

**Modules that libraries import and do not use.** paho and websockets import `urllib.request`, and with it `http.client`
and `email`, for the case that a proxy is configured. websockets imports `importlib.metadata`, and with it `zipfile` and
`csv`, for versions of it that are not released. A stand-in takes the place of each until it is used. Measured: 1.2 and
1 megabytes less.
"""

import ctypes
import gc
import importlib
import sys
from types import ModuleType
from typing import Final

_ARENA_MAX: Final = -8  # glibc, malloc.h
_MMAP_THRESHOLD: Final = -3
MAX_ARENAS: Final = 1
MAPPED_FROM_BYTES: Final = 128 * 1024
_RARELY_USED: Final = ("urllib.request", "importlib.metadata")


def reduce_memory_use() -> None:
    """Call it before there are threads, and before the libraries of the transports are imported."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_ARENA_MAX, MAX_ARENAS)
        mallopt(_MMAP_THRESHOLD, MAPPED_FROM_BYTES)
    for name in _RARELY_USED:
        if name not in sys.modules:
            _put_into_place(_ImportedOnUse(name))


class _ImportedOnUse(ModuleType):
    """Stands for a module until an attribute of it is used."""

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):  # the import system's own, which no module has to have
            raise AttributeError(name)
        if sys.modules.get(self.__name__) is self:
            sys.modules.pop(self.__name__, None)
        return getattr(importlib.import_module(self.__name__), name)


def _put_into_place(stand_in: _ImportedOnUse) -> None:
    package, _, name = stand_in.__name__.rpartition(".")
    setattr(importlib.import_module(package), name, stand_in)
    sys.modules[stand_in.__name__] = stand_in


def release_startup_memory() -> None:
    """What imports left behind: each dataclass with slots was made twice, and the first of the two is garbage.

    What is left then lives as long as the process, and is not looked through again.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()

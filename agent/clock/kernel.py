"""What the kernel thinks of its own clock, by the `adjtimex` call in its read-only form, which anyone may make."""

import ctypes
import os
from dataclasses import dataclass

MAX_ERROR_US = 16_000_000  # where the kernel's estimate stops growing: nobody has set the clock for hours, or ever


class _Timeval(ctypes.Structure):
    _fields_ = (("tv_sec", ctypes.c_long), ("tv_usec", ctypes.c_long))


class _Timex(ctypes.Structure):
    """struct timex of <sys/timex.h>, in the layout that the C library's own `adjtimex` takes."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("constant", ctypes.c_long),
        ("precision", ctypes.c_long),
        ("tolerance", ctypes.c_long),
        ("time", _Timeval),
        ("tick", ctypes.c_long),
        ("ppsfreq", ctypes.c_long),
        ("jitter", ctypes.c_long),
        ("shift", ctypes.c_int),
        ("stabil", ctypes.c_long),
        ("jitcnt", ctypes.c_long),
        ("calcnt", ctypes.c_long),
        ("errcnt", ctypes.c_long),
        ("stbcnt", ctypes.c_long),
        ("tai", ctypes.c_int),
        ("reserved", ctypes.c_int * 11),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelClock:
    """Whether someone keeps the clock right, and how wrong it can be at most."""

    is_synchronised: bool
    max_error_ms: int


_libc = ctypes.CDLL(None, use_errno=True)


def read_kernel_clock() -> KernelClock:
    """Raises: OSError where a sandbox forbids even the question (the unit must allow the call `adjtimex`)."""
    timex = _Timex(modes=0)
    if _libc.adjtimex(ctypes.byref(timex)) == -1:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error), "adjtimex")
    return judge(timex.maxerror)


def judge(max_error_us: int) -> KernelClock:
    """By the estimated error, not by the flag STA_UNSYNC: time daemons set that flag also to keep the kernel from the
    battery clock while the time is perfectly right.
    """
    return KernelClock(is_synchronised=max_error_us < MAX_ERROR_US, max_error_ms=-(-max_error_us // 1000))

"""The clocks of the machine, whether they are synchronised, and when a correction is due."""

import ctypes
import os
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from protocol.clock import ClockContext, ClockCorrection
from protocol.reference import Reference

MAX_AHEAD_MS = 1000  # a timestamp this far ahead of the clock still counts as right
BOOT_ID_PATH = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockReading:
    """All clocks at one moment. `now_ms` may have any value; `monotonic_ms` only rises until the next boot."""

    now_ms: int
    monotonic_ms: int
    boot_id: bytes
    is_synchronised: bool
    max_error_ms: int

    def context_for(self, reference: Reference) -> ClockContext | None:
        """The clock context of a message created now, or None if its timestamp is right.

        It is not right while the clock is not synchronised, or if the chain is held at a time in the future.
        """
        is_held_ahead = reference.timestamp_ms - self.now_ms > MAX_AHEAD_MS
        if self.is_synchronised and not is_held_ahead:
            return None
        return ClockContext(boot_id=self.boot_id, monotonic_ms=self.monotonic_ms, is_synchronised=self.is_synchronised)

    def context_of_unset_time(self) -> ClockContext:
        """The clock context of a message whose reading was stamped before the clock was set."""
        return ClockContext(boot_id=self.boot_id, monotonic_ms=self.monotonic_ms, is_synchronised=False)


MAX_ERROR_US = 16_000_000  # where the kernel's estimate stops growing: the clock has not been set for hours, or ever


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
    """The kernel's view of its clock: whether it is synchronised, and its maximum error."""

    is_synchronised: bool
    max_error_ms: int


_libc = ctypes.CDLL(None, use_errno=True)


def read_kernel_clock() -> KernelClock:
    """Raises: OSError where a sandbox forbids the system call `adjtimex`."""
    timex = _Timex(modes=0)
    if _libc.adjtimex(ctypes.byref(timex)) == -1:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error), "adjtimex")
    return judge(timex.maxerror)


def judge(max_error_us: int) -> KernelClock:
    """By the estimated error, not by the flag STA_UNSYNC: time daemons set that flag also to keep the kernel from
    writing the real-time clock while the time is right.
    """
    return KernelClock(is_synchronised=max_error_us < MAX_ERROR_US, max_error_ms=-(-max_error_us // 1000))


class Clock(Protocol):
    def now_ms(self) -> int: ...
    def read(self) -> ClockReading: ...


class SystemClock:
    """The machine's own clocks. If the kernel refuses the query, the clock counts as not synchronised."""

    def __init__(self) -> None:
        self._boot_id = uuid.UUID(BOOT_ID_PATH.read_text().strip()).bytes

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def read(self) -> ClockReading:
        kernel = self._kernel()
        return ClockReading(
            now_ms=self.now_ms(),
            monotonic_ms=time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000,
            boot_id=self._boot_id,
            is_synchronised=kernel.is_synchronised,
            max_error_ms=kernel.max_error_ms,
        )

    def _kernel(self) -> KernelClock:
        try:
            return read_kernel_clock()
        except OSError:
            return KernelClock(is_synchronised=False, max_error_ms=0)


STEP_MS = 100  # a synchronised clock that is set by this much or more was wrong before


class SynchronisationWatch:
    """Decides, from clock readings taken every few seconds, when a correction is to be published.

    One is due whenever the clock becomes synchronised, and one more if it is set while it is. A new process does not
    know what earlier ones published since the boot, so it always publishes one: a correction too many costs a message,
    one too few leaves readings without their time.
    """

    def __init__(self) -> None:
        self._published: ClockCorrection | None = None

    def observe(self, reading: ClockReading) -> ClockCorrection | None:
        if not reading.is_synchronised:
            self._published = None
            return None
        correction = ClockCorrection(
            boot_id=reading.boot_id,
            monotonic_ms=reading.monotonic_ms,
            utc_ms=max(0, reading.now_ms),
            uncertainty_ms=reading.max_error_ms,
        )
        if self._published is not None and abs(correction.offset_ms - self._published.offset_ms) < STEP_MS:
            return None
        self._published = correction
        return correction

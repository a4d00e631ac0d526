"""One look at all the clocks there are, and where it comes from."""

import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from agent.clock.kernel import KernelClock, read_kernel_clock
from protocol.clock import ClockContext
from protocol.reference import Reference

MAX_AHEAD_MS = 1000  # a timestamp this far ahead of the clock still passes for right
BOOT_ID_PATH = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockReading:
    """All clocks at one moment. `now_ms` may be anything; `monotonic_ms` only goes forward until the next start."""

    now_ms: int
    monotonic_ms: int
    boot_id: bytes
    is_synchronised: bool
    max_error_ms: int

    def context_for(self, reference: Reference) -> ClockContext | None:
        """What a message made now should carry besides its reference: nothing, if its timestamp is right.

        It is not while the clock is not synchronised, nor if the chain once had a time in the future and had to stay
        there.
        """
        is_held_ahead = reference.timestamp_ms - self.now_ms > MAX_AHEAD_MS
        if self.is_synchronised and not is_held_ahead:
            return None
        return ClockContext(boot_id=self.boot_id, monotonic_ms=self.monotonic_ms, is_synchronised=self.is_synchronised)

    def context_of_unset_time(self) -> ClockContext:
        """What a message should carry whose reading was stamped before anybody had set the clock."""
        return ClockContext(boot_id=self.boot_id, monotonic_ms=self.monotonic_ms, is_synchronised=False)


class Clock(Protocol):
    def now_ms(self) -> int: ...
    def read(self) -> ClockReading: ...


class SystemClock:
    """The machine's own clocks. A kernel that does not answer counts as one that is not synchronised."""

    def __init__(self) -> None:
        self._boot_id = uuid.UUID(BOOT_ID_PATH.read_text().strip()).bytes
        self.why_unknown: str | None = None  # why the kernel did not answer, for whoever shows the status

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
            kernel = read_kernel_clock()
        except OSError as error:
            self.why_unknown = str(error)
            return KernelClock(is_synchronised=False, max_error_ms=0)
        self.why_unknown = None
        return kernel

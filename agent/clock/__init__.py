"""Time without trusting the clock: references that only go forward, and corrections once the time is known."""

from agent.clock.ceiling import CeilingFile
from agent.clock.kernel import KernelClock, read_kernel_clock
from agent.clock.reading import Clock, ClockReading, SystemClock
from agent.clock.references import ChainReferences, LastReferences
from agent.clock.synchronisation import SynchronisationWatch

__all__ = [
    "CeilingFile",
    "ChainReferences",
    "Clock",
    "ClockReading",
    "KernelClock",
    "LastReferences",
    "SynchronisationWatch",
    "SystemClock",
    "read_kernel_clock",
]

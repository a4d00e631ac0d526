"""Time without trusting the clock: references that only go forward, and corrections once the time is known."""

from agent.clock.ceiling import CeilingFile
from agent.clock.references import ChainReferences, LastReferences
from agent.clock.system import Clock, ClockReading, KernelClock, SynchronisationWatch, SystemClock, read_kernel_clock

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

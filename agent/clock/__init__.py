"""Time without trusting the clock: references that only rise, and corrections once the clock is synchronised."""

from agent.clock.ceiling import CeilingFile
from agent.clock.references import ChainReferences
from agent.clock.system import Clock, ClockReading, KernelClock, SynchronisationWatch, SystemClock, read_kernel_clock

__all__ = [
    "CeilingFile",
    "ChainReferences",
    "Clock",
    "ClockReading",
    "KernelClock",
    "SynchronisationWatch",
    "SystemClock",
    "read_kernel_clock",
]

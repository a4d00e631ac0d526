"""Is the clock set, and does someone keep it right?"""

import time
from dataclasses import dataclass
from typing import Final

from agent.clock import read_kernel_clock
from agent.doctor.finding import Finding, error, good, warning

__all__ = ["ClockFacts", "gather_clock", "judge_clock"]

AREA: Final = "clock"
EARLIEST_S: Final = 1_767_225_600  # 2026-01-01: no device with this program ran before it
MAX_ERROR_MS: Final = 1000
SYNC_ADVICE: Final = "enable a time service (timedatectl set-ntp true, or chrony); until then messages are marked"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockFacts:
    now_s: float
    is_synchronised: bool | None  # None: the kernel does not say
    max_error_ms: int = 0
    problem: str = ""


def gather_clock() -> ClockFacts:
    try:
        kernel = read_kernel_clock()
    except OSError as refusal:
        return ClockFacts(now_s=time.time(), is_synchronised=None, problem=str(refusal))
    return ClockFacts(now_s=time.time(), is_synchronised=kernel.is_synchronised, max_error_ms=kernel.max_error_ms)


def judge_clock(facts: ClockFacts) -> list[Finding]:
    if facts.now_s < EARLIEST_S:
        return [error(AREA, f"it says {_date(facts.now_s)}, which cannot be", f"set it; {SYNC_ADVICE}")]
    if facts.is_synchronised is None:
        return [warning(AREA, f"the kernel does not say if it is right ({facts.problem})", "allow the call adjtimex")]
    if not facts.is_synchronised:
        return [warning(AREA, f"nobody keeps it right; it says {_date(facts.now_s)}", SYNC_ADVICE)]
    if facts.max_error_ms > MAX_ERROR_MS:
        return [
            warning(AREA, f"it may be wrong by {facts.max_error_ms / 1000:.1f} s", "check the time service's servers")
        ]
    return [good(AREA, f"synchronised, within {facts.max_error_ms} ms")]


def _date(now_s: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(now_s))

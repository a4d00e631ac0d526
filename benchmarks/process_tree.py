"""CPU, memory and I/O of a process and its descendants, from the kernel's counters."""

import contextlib
import os
import re
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_CPU_CLOCK = 2  # CPUCLOCK_SCHED of the kernel: user and system time in nanoseconds


def cpu_s(pid: int) -> float:
    """User and system time of the tree so far, children that have ended included.

    It grows with every instruction: `/proc/PID/stat` counts ticks of 10 ms, so a short measurement would be 0.
    """
    return sum(cpu_s_by_program(pid).values())


def cpu_s_by_program(pid: int) -> dict[str, float]:
    """The same, by the name of the program; the root of the tree is `main process`."""
    spent: defaultdict[str, float] = defaultdict(float)
    for each in _tree(pid):
        with contextlib.suppress(OSError):  # it has ended; its parent counts it
            program = "main process" if each == pid else Path(f"/proc/{each}/comm").read_text().strip()
            spent[program] += time.clock_gettime(~each << 3 | _CPU_CLOCK) + _ended_children_s(each)
    return spent


def peak_rss_mb(pid: int) -> float:
    """The sum of the largest resident memory of each process of the tree."""
    return sum(_number(each, "status", "VmHWM") for each in _tree(pid)) / 1_000


def rss_bytes(pid: int) -> int:
    """The resident memory of one process."""
    return _number(pid, "status", "VmRSS") * 1024


def written_bytes(pid: int) -> int:
    """The bytes that the tree has passed to `write`. Node.js writes to sockets that way, too; Python sends to them.

    `write_bytes` would count a whole folio of the page cache, which may be megabytes, for each block written to it.
    """
    return sum(_number(each, "io", "wchar") for each in _tree(pid))


def _tree(pid: int) -> Iterator[int]:
    yield pid
    for thread in Path(f"/proc/{pid}/task").glob("*"):
        with contextlib.suppress(OSError):  # threads come and go
            for child in (thread / "children").read_text().split():
                yield from _tree(int(child))


def _ended_children_s(pid: int) -> float:
    """The CPU time of children that have ended and were waited for. The kernel has it only in ticks."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[13]) + int(fields[14])) / _TICKS_PER_S


def _number(pid: int, file: str, name: str) -> int:
    found = re.search(rf"^{name}:\s+(\d+)", Path(f"/proc/{pid}/{file}").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1])

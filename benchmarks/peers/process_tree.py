"""CPU, memory and I/O of a process and its children, from the kernel's counters."""

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def cpu_s(pid: int) -> float:
    """User and system time of the tree so far, children that ended included."""
    return sum(_ticks(each) for each in _tree(pid)) / _TICKS_PER_S


def peak_rss_mb(pid: int) -> float:
    """The most that each process of the tree ever had resident, added up."""
    return sum(_number(each, "status", "VmHWM") for each in _tree(pid)) / 1_000


def written_bytes(pid: int) -> int:
    """What the tree has handed to the disk."""
    return sum(_number(each, "io", "write_bytes") for each in _tree(pid))


def _tree(pid: int) -> Iterator[int]:
    yield pid
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError):  # threads come and go
            for child in (thread / "children").read_text().split():
                yield from _tree(int(child))


def _ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15]))


def _number(pid: int, file: str, name: str) -> int:
    found = re.search(rf"^{name}:\s+(\d+)", Path(f"/proc/{pid}/{file}").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1])

"""The costs of a process that is not this one."""

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from benchmarks.process_tree import cpu_s, cpu_s_by_program, peak_rss_mb, rss_bytes, written_bytes
from tests.support.processes import ended

ECHO = "import sys\nfor line in sys.stdin: print(line, end='', flush=True)"


@pytest.fixture
def echo() -> Iterator[subprocess.Popen[str]]:
    """A process that does next to nothing for each line, and is ended with the test."""
    command = [sys.executable, "-c", ECHO]
    with ended(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)) as process:
        _exchange(process)
        yield process


def _exchange(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("line\n")
    process.stdin.flush()
    assert process.stdout.readline() == "line\n"


def test_the_cpu_time_of_another_process_grows_with_the_least_work(echo: subprocess.Popen[str]) -> None:
    before_s = cpu_s(echo.pid)
    _exchange(echo)
    assert cpu_s(echo.pid) > before_s


def test_memory_and_writes_of_another_process_are_read(echo: subprocess.Popen[str]) -> None:
    assert 0 < rss_bytes(echo.pid) <= peak_rss_mb(echo.pid) * 1_024_000
    assert written_bytes(echo.pid) >= 0


def test_a_child_is_counted_by_its_program_and_after_its_end_by_its_parent(echo: subprocess.Popen[str]) -> None:
    spent = cpu_s_by_program(os.getpid())
    assert spent["main process"] > 0
    assert sum(spent.values()) > spent["main process"]
    subprocess.run([sys.executable, "-c", "sum(range(10**7))"], check=True)
    assert cpu_s_by_program(os.getpid())["main process"] > spent["main process"] + 0.05

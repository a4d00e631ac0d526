"""The file descriptors of the test process: how many there are, who left one open, and what it is to have many."""

import contextlib
import gc
import os
import resource
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

MAX_LEFT_OPEN: Final = 16  # by one module: event loops, thread pools and libraries open a few once, for good
MAX_SOCKETS_LEFT_OPEN: Final = 64  # Spark's gateway has one for each thread of the JVM that has called Python
FIRST_HIGH: Final = 1024  # what `select.select` cannot wait for


@pytest.fixture(scope="module", autouse=True)
def no_descriptors_left_open(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fails a module whose tests leave more than a few descriptors open: thousands of them break others, far away."""
    before = _open_descriptors()
    yield
    left = _open_descriptors() - before
    if _is_too_much(left):
        gc.collect()  # what only a cycle of garbage holds is not a leak
        left = _open_descriptors() - before
    assert not _is_too_much(left), f"{request.node.nodeid} left {left.total()} descriptors open: {dict(left)}"


def _is_too_much(left: Counter[str]) -> bool:
    sockets = sum(count for what, count in left.items() if what.startswith("socket:"))
    return left.total() - sockets > MAX_LEFT_OPEN or sockets > MAX_SOCKETS_LEFT_OPEN


@contextlib.contextmanager
def many_descriptors() -> Iterator[None]:
    """Whatever is opened meanwhile gets a descriptor of 1024 or above."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 2 * FIRST_HIGH)), hard))
    with contextlib.ExitStack() as held:
        held.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        while (descriptor := os.open(os.devnull, os.O_RDONLY)) < FIRST_HIGH:
            held.callback(os.close, descriptor)
        os.close(descriptor)
        yield


def _open_descriptors() -> Counter[str]:
    found: Counter[str] = Counter()
    for path in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # that of the listing itself
            found[str(path.readlink())] += 1
    return found

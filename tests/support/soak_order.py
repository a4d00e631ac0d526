"""In a round of `make soak`: the groups of tests in a random order, and an end of the tests when the time is up.

A test that has not begun by then does not begin; one that is running is stopped and counts as skipped: its thousands of
examples may take hours.
"""

import math
import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from typing import NoReturn

import pytest

from tests.effort import FIRST_SEED, IS_SOAK
from tests.support.scheduling import group_of

ENDS_AT_S = float(os.environ.get("HEADGATE_SOAK_ENDS_AT_S", "inf"))
TIME_IS_UP = "the time of this soak is up"
STOP_TEST = signal.SIGUSR2


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A short soak then proves something else each time."""
    if IS_SOAK:
        items.sort(key=lambda item: _turn(group_of(item.nodeid)))


def _turn(group: str) -> float:
    return random.Random(f"{FIRST_SEED} {group}").random()


def pytest_sessionstart() -> None:
    if IS_SOAK and math.isfinite(ENDS_AT_S):
        signal.signal(STOP_TEST, signal.SIG_IGN)
        timer = threading.Timer(max(0.0, ENDS_AT_S - time.time()), os.kill, (os.getpid(), STOP_TEST))
        timer.daemon = True
        timer.start()


@pytest.hookimpl(hookwrapper=True, trylast=True)
def pytest_runtest_setup() -> Iterator[None]:
    """Module fixtures, too, may run for minutes. Within the wrappers of pytest itself, which must have begun."""
    yield from _stopped_when_time_is_up()


@pytest.hookimpl(hookwrapper=True, trylast=True)
def pytest_runtest_call() -> Iterator[None]:
    yield from _stopped_when_time_is_up()


def _stopped_when_time_is_up() -> Iterator[None]:
    if not IS_SOAK:
        yield
        return
    if time.time() > ENDS_AT_S:
        pytest.skip(TIME_IS_UP)
    signal.signal(STOP_TEST, _stop_test)
    try:
        yield
    finally:
        signal.signal(STOP_TEST, signal.SIG_IGN)


def _stop_test(*_: object) -> NoReturn:
    pytest.skip(TIME_IS_UP)

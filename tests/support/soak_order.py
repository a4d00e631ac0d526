"""In a round of `make soak`: the groups of tests in a random order, and no test after the time is up."""

import os
import random
import time

import pytest

from tests.effort import FIRST_SEED, IS_SOAK
from tests.support.scheduling import group_of

ENDS_AT_S = float(os.environ.get("HEADGATE_SOAK_ENDS_AT_S", "inf"))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A short soak then proves something else each time."""
    if IS_SOAK:
        items.sort(key=lambda item: _turn(group_of(item.nodeid)))


def _turn(group: str) -> float:
    return random.Random(f"{FIRST_SEED} {group}").random()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if time.time() > ENDS_AT_S:
        pytest.skip("the time of this soak is up")

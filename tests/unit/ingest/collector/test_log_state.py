from dataclasses import replace
from typing import Any

import pytest

from ingest.collector.log_state import MAX_FORKS, MAX_RANGES, Contradiction, HeldRange, LogState, Subject
from protocol.devicelog.entry import MAX_LANES
from protocol.devicelog.frontier import MAX_LOG_SIZE
from protocol.errors import WireError
from tests.support.archives import LOG
from tests.support.device_logs import digest, frontier

EMPTY = LogState(log=LOG, previous_log=b"", first_contact_ms=1)
BEGINS = {1: 0}


def held(number: int, *, count: int = 1) -> HeldRange:
    """Each archive covers ten positions of lane 1."""
    return HeldRange(number, number + count, digest(number - 1), {1: 10 * number}, {1: 10 * (number + count)})


def with_numbers(*numbers: int, state: LogState = EMPTY) -> LogState:
    for number in numbers:
        state = state.with_range(held(number), begins=BEGINS)
    return state


def contradiction(number: int = 3) -> Contradiction:
    return Contradiction(Subject.ARCHIVE, number, digest(number), b"x" * 32)


def test_numbers_in_any_order_are_one_range_once_they_follow_each_other() -> None:
    state = with_numbers(4, 1, 2, 0)
    assert [(each.first, each.next) for each in state.held] == [(0, 3), (4, 5)]
    assert (state.contiguous_size, state.known_size, state.archives) == (3, 5, 4)
    assert with_numbers(3, state=state).held == (held(0, count=5),)
    assert with_numbers(0, 1, 2, 3, 4) == with_numbers(4, 3, 2, 1, 0) == with_numbers(2, 0, 4, 3, 1)


def test_missing_numbers_are_those_between_and_those_that_the_device_says_were_received() -> None:
    state = with_numbers(1, 2, 5)
    assert state.missing() == ((0, 1), (3, 5))
    assert state.missing(5) == ((0, 1), (3, 5))
    assert state.missing(4) == ((0, 1), (3, 4))
    assert state.missing(9) == ((0, 1), (3, 5), (6, 9))
    assert replace(state, received=8).missing() == ((0, 1), (3, 5), (6, 8))
    assert (EMPTY.missing(), EMPTY.missing(2)) == ((), ((0, 2),))


def test_missing_readings_are_counted_where_the_neighbours_tell() -> None:
    assert EMPTY.missing_readings == 0
    assert with_numbers(0, 1).missing_readings == 0
    assert with_numbers(2, 5, 6).missing_readings == 20 + 20
    unknown = with_numbers(0).with_range(HeldRange(3, 4, b"", {}, {}), begins=BEGINS)
    assert unknown.missing_readings == 0
    assert with_numbers(6, state=unknown).missing_readings == 50


def test_more_holes_than_the_limit_are_refused() -> None:
    state = with_numbers(*range(0, 2 * MAX_RANGES, 2))
    with pytest.raises(ValueError, match="ranges"):
        with_numbers(2 * MAX_RANGES, state=state)
    assert len(with_numbers(2 * MAX_RANGES - 1, state=state).held) == MAX_RANGES


def test_a_device_with_ever_new_lanes_does_not_make_the_state_large() -> None:
    state = EMPTY
    for number in range(256):
        positions = {number: 2**63 - 1}
        state = state.with_range(HeldRange(number, number + 1, b"", positions, positions), begins=positions)
    assert len(state.begins) == len(state.held[0].ends) == MAX_LANES
    assert LogState.from_bytes(state.to_bytes()) == state


def test_the_largest_state_is_within_the_limits_of_its_file() -> None:
    lanes = dict.fromkeys(range(MAX_LANES), 2**63 - 1)
    ranges = (HeldRange(2**31 + 2 * each, 2**31 + 2 * each + 1, digest(1), lanes, lanes) for each in range(MAX_RANGES))
    state = replace(EMPTY, held=tuple(ranges), begins=lanes)
    for number in range(2 * MAX_FORKS):
        state = state.with_fork(contradiction(number), 2)
    assert LogState.from_bytes(state.to_bytes()) == state
    assert (len(state.forks), state.forks_found) == (MAX_FORKS, 2 * MAX_FORKS)


def test_the_same_contradiction_is_noted_once() -> None:
    state = EMPTY.with_fork(contradiction(), 5)
    assert state.is_forked
    assert state.with_fork(contradiction(), 6) is state
    assert str(state.forks[0].contradiction) == f"archive 3 is {digest(3).hex()} here, not {'78' * 32}"


@pytest.mark.parametrize(
    "changes",
    [
        {"log": b"short"},
        {"previous_log": LOG},
        {"first_contact_ms": -1},
        {"held": (held(0), held(0))},
        {"held": (held(0), held(1))},  # these are one range
        {"held": (HeldRange(3, 3, b"", {}, {}),)},
        {"held": (HeldRange(0, MAX_LOG_SIZE + 2, b"", {}, {}),)},
        {"frontier": frontier(1)},
        {"held": (held(1),), "frontier": frontier(1)},
        {"replaced": 1},
        {"received": -1},
        {"forks": EMPTY.with_fork(contradiction(), 1).forks},
    ],
)
def test_an_impossible_state_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - each names its own problem
        replace(EMPTY, **changes)


def test_a_damaged_state_is_noticed() -> None:
    data = with_numbers(0, 2).to_bytes()
    for index in range(len(data)):
        with pytest.raises(WireError):
            LogState.from_bytes(data[:index] + bytes([data[index] ^ 1]) + data[index + 1 :])

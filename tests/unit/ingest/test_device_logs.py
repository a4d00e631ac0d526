from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.device_logs import Ending, LaneTotals, LogAccount, LogName, Range, find_endings, length, subtract, unite
from protocol.devicelog.checkpoint import LaneState
from protocol.devicelog.entry import LaneRange, LogEntry, Replaced
from tests.support.device_logs import checkpoint, digest, log_entry

LANE = 4
SMALL = st.integers(0, 12)
RANGES = st.lists(st.tuples(SMALL, SMALL), max_size=6)


def _positions(ranges: list[Range]) -> set[int]:
    return {position for first, end in ranges for position in range(first, end)}


@given(ranges=RANGES)
def test_united_ranges_have_the_same_positions_and_do_not_touch(ranges: list[Range]) -> None:
    united = unite(ranges)
    assert _positions(united) == _positions(ranges)
    assert length(united) == len(_positions(ranges))
    assert all(before[1] < after[0] for before, after in pairwise(united))


@given(whole=st.tuples(SMALL, SMALL), ranges=RANGES)
def test_subtract_leaves_what_no_range_has(whole: Range, ranges: list[Range]) -> None:
    rest = subtract(whole, unite(ranges))
    assert _positions(rest) == _positions([whole]) - _positions(ranges)
    assert all(first < end for first, end in rest)


@dataclass
class Device:
    """What a device did: its archives with readings and losses, and what of them is released."""

    sizes: list[tuple[int, int]]  # readings and lost ones of each archive
    begin: int
    received: int  # archives with a receipt, oldest first
    journal_only: int

    def entry(self, number: int) -> LogEntry:
        first = self.begin + sum(map(sum, self.sizes[:number]))
        covered = LaneRange(LANE, self.begin, first, first + sum(self.sizes[number]))
        return log_entry(number, lanes=(covered,))

    def checkpoint(self) -> Any:
        released = self.begin + sum(map(sum, self.sizes[: self.received]))
        archived = self.begin + sum(map(sum, self.sizes))
        lane = LaneState(LANE, self.begin, archived + self.journal_only, archived, released, 0)
        return checkpoint(len(self.sizes), lanes=(lane,))


@st.composite
def _devices(draw: st.DrawFn) -> Device:
    sizes = draw(st.lists(st.tuples(SMALL, st.integers(0, 2)), max_size=7))
    return Device(sizes, draw(SMALL), draw(st.integers(0, len(sizes))), draw(SMALL))


@given(device=_devices(), choice=st.data(), is_heard=st.booleans())
def test_whatever_archives_are_withheld_the_totals_are_the_truth(
    device: Device, choice: st.DataObject, *, is_heard: bool
) -> None:
    numbers = range(len(device.sizes))
    arrived = choice.draw(st.lists(st.sampled_from(numbers), unique=True)) if device.sizes else []
    account = LogAccount()
    for number in arrived:
        account.add_archive(device.entry(number), {LANE: device.sizes[number][0]}, 1)
    if is_heard:
        account.add_checkpoint(device.checkpoint(), 2)
    if not account.lanes:
        return
    absent = [number for number in numbers if number not in arrived]
    if not is_heard:
        absent = [number for number in absent if arrived and number < max(arrived)]
    waiting = [number for number in absent if is_heard and number >= device.received]
    missing = [number for number in absent if number not in waiting]
    assert account.totals(LANE) == LaneTotals(
        arrived=sum(device.sizes[number][0] for number in arrived),
        lost=sum(device.sizes[number][1] for number in arrived),
        missing=sum(sum(device.sizes[number]) for number in missing),
        on_device=sum(sum(device.sizes[number]) for number in waiting) + (device.journal_only if is_heard else 0),
    )
    assert _positions(account.missing_numbers()) == set(absent)
    again = LogAccount.from_json(orjson.loads(orjson.dumps(account.to_json())))
    assert again == account


def _account(*numbers: int, received: int = 0) -> tuple[Device, LogAccount]:
    device, account = Device([(10, 0)] * 5, 0, received, 3), LogAccount()
    for number in numbers:
        account.add_archive(device.entry(number), {LANE: 10}, 1)
    account.add_checkpoint(device.checkpoint(), 2)
    return device, account


def test_an_archive_that_covers_nothing_of_a_lane_still_says_where_the_lane_ends() -> None:
    device, account = Device([(10, 0), (5, 0), (0, 0)], 0, 0, 0), LogAccount()
    for number in (0, 2):
        account.add_archive(device.entry(number), {LANE: device.sizes[number][0]}, 1)
    assert account.missing(LANE) == [(10, 15)]


def test_what_a_receipt_names_does_not_wait_on_the_device() -> None:
    _, account = _account(0, 1, 3, 4, received=1)
    assert account.totals(LANE) == LaneTotals(40, 0, missing=0, on_device=13)
    account.received = [(2, 3)]
    assert account.totals(LANE) == LaneTotals(40, 0, missing=10, on_device=3)
    assert account.missing(LANE) == [(20, 30)]


def test_what_an_abandoned_log_had_on_the_device_is_missing() -> None:
    _, account = _account(0, 1)
    assert account.totals(LANE, Ending(is_abandoned=True)) == LaneTotals(20, 0, missing=33, on_device=0)


def test_a_replacement_covers_the_archive_that_never_comes() -> None:
    device, account = _account(0, 1, 3, 4, received=5)
    assert account.missing(LANE) == [(20, 30)]
    replacement = log_entry(5, lanes=(LaneRange(LANE, 0, 20, 30),), replaces=(Replaced(2, digest(2)),))
    account.add_archive(replacement, {LANE: 8}, 3)
    assert account.totals(LANE) == LaneTotals(48, lost=2, missing=0, on_device=3)
    assert account.missing_numbers() == []
    account.add_archive(device.entry(2), {LANE: 10}, 4)
    assert account.totals(LANE) == LaneTotals(48, lost=2, missing=0, on_device=3), "its readings are duplicates"


def test_two_archives_with_one_number_are_a_fork() -> None:
    device, account = _account(0, 1)
    assert not account.is_forked
    account.add_archive(device.entry(1), {LANE: 10}, 3)
    assert account.is_forked


@pytest.mark.parametrize(("size", "is_forked"), [(4, False), (6, True)])
def test_checkpoints_that_no_log_leads_to_are_a_fork(size: int, *, is_forked: bool) -> None:
    _, account = _account(0)
    known = account.checkpoint
    account.add_checkpoint(checkpoint(size, lanes=(LaneState(LANE, 0, 40, 40, 0, 0),)), 3)
    assert account.is_forked == is_forked
    assert account.checkpoint == known


def test_a_log_is_abandoned_when_its_device_goes_on_with_another_one() -> None:
    def log(first_sign_ms: int, last_sign_ms: int) -> LogAccount:
        return LogAccount(first_sign_ms=first_sign_ms, last_sign_ms=last_sign_ms)

    logs = {
        LogName("a", "1"): log(1, 5),
        LogName("a", "2"): log(6, 9),
        LogName("b", "1"): log(1, 7),
        LogName("b", "2"): log(6, 9),
        LogName("c", "1"): log(1, 1),
    }
    assert {name for name, ending in find_endings(logs).items() if ending.is_abandoned} == {LogName("a", "1")}


def _totals_before(account: LogAccount, begin: int, journal: str = "") -> LaneTotals:
    """The totals of a log whose device goes on with another one that begins there."""
    other = LogAccount()
    other.add_archive(log_entry(0, lanes=(LaneRange(LANE, begin, begin, begin + 4),)), {LANE: 4}, 9, journal)
    other.previous_log = "1"
    logs = {LogName("a", "1"): account, LogName("a", "2"): other}
    return account.totals(LANE, find_endings(logs)[LogName("a", "1")])


def test_what_another_log_has_is_not_missing_in_the_log_before_it() -> None:
    _, account = _account(0, 1, 2, 3, 4, received=5)
    assert _totals_before(account, begin=50) == LaneTotals(50, 0, missing=0, on_device=0)


def test_an_archive_before_the_next_log_is_missing() -> None:
    _, account = _account(0, 1, 2, received=5)
    assert _totals_before(account, begin=50) == LaneTotals(30, 0, missing=20, on_device=0)


def test_a_log_of_an_old_copy_has_other_readings_at_the_same_positions() -> None:
    _, account = _account(0, 1, 2, 3, 4, received=5)
    assert _totals_before(account, begin=40) == LaneTotals(50, 0, missing=3, on_device=0)


def test_a_log_of_an_old_copy_begins_before_what_was_received_even_if_that_is_missing() -> None:
    _, account = _account(0, 1, received=5)
    assert _totals_before(account, begin=40) == LaneTotals(20, 0, missing=33, on_device=0)


def test_a_log_of_another_journal_has_other_readings() -> None:
    _, account = _account(0, 1, 2, 3, 4, received=5)
    account.journal = "one"
    assert _totals_before(account, begin=50, journal="one").missing == 0
    assert _totals_before(account, begin=50, journal="two") == LaneTotals(50, 0, missing=3, on_device=0)

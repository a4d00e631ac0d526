import dataclasses
from typing import Any

import pytest

from protocol.devicelog.entry import LaneRange, LogEntry, Replaced
from protocol.devicelog.frontier import Frontier
from protocol.devicelog.log import LogHead
from protocol.errors import WireError
from tests.support.archives import EMPTY_LOG, LOG
from tests.support.device_logs import digest, frontier


def grown(*ends: int) -> LogHead:
    """A log whose archives reach these positions of lane 1."""
    head = EMPTY_LOG
    for number, end in enumerate(ends):
        head = head.append(head.entry({1: end}), digest(number))
    return head


def test_each_archive_continues_where_the_previous_one_ended() -> None:
    head = grown(10, 25)
    assert (head.size, head.frontier, head.last) == (2, frontier(2), digest(1))
    assert head.entry({1: 30, 3: 4}) == LogEntry(
        log=LOG,
        previous_log=b"",
        number=2,
        previous=digest(1),
        root=frontier(2).root,
        lanes=(LaneRange(1, 0, 25, 30), LaneRange(3, 0, 0, 4)),
    )


def test_a_log_that_continues_another_begins_where_it_says() -> None:
    head = LogHead(log=LOG, previous_log=b"the-log-before-1", begins={1: 40, 2: 7})
    assert head.entry({1: 41}).lanes == (LaneRange(1, 40, 40, 41), LaneRange(2, 7, 7, 7))
    assert head.append(head.entry({1: 41}), digest(0)).entry({}).lanes[0] == LaneRange(1, 40, 41, 41)


def test_a_replacement_covers_what_was_covered_before() -> None:
    head = grown(10, 25)
    entry = head.replacement({1: (10, 30)}, (Replaced(1, digest(1)),))
    assert entry.lanes == (LaneRange(1, 0, 10, 30),)
    assert head.append(entry, digest(2)).end(1) == 30
    part = head.replacement({1: (10, 20)}, (Replaced(1, digest(1)),))
    assert head.append(part, digest(2)).end(1) == 25


@pytest.mark.parametrize(
    "change",
    [
        {"log": b"another-log-here"},
        {"previous_log": b"the-log-before-1"},
        {"number": 3},
        {"previous": digest(0)},
        {"root": bytes(32)},
        {"lanes": (LaneRange(1, 0, 24, 30),)},
        {"lanes": (LaneRange(1, 0, 26, 30),)},
    ],
)
def test_only_the_next_archive_can_be_appended(change: dict[str, Any]) -> None:
    head = grown(10, 25)
    with pytest.raises(ValueError, match=r"does not (continue|begin)"):
        head.append(dataclasses.replace(head.entry({1: 30}), **change), digest(2))


def test_an_archive_cannot_end_before_the_previous_one() -> None:
    with pytest.raises(ValueError, match="first 25"):
        grown(10, 25).entry({1: 24})


def test_it_is_the_same_after_writing_and_reading() -> None:
    for head in (EMPTY_LOG, grown(10, 25), LogHead(log=LOG, previous_log=b"the-log-before-1", begins={1: 40})):
        assert LogHead.from_cbor(head.to_cbor()) == head


@pytest.mark.parametrize(
    "change",
    [
        {"log": b""},
        {"last": b""},
        {"frontier": [0, []]},
        {"begins": [[1, 11]]},
        {"begins": [[300, 0]]},
        {"ends": [[1]]},
        {"ends": [[1, 10], [1, 10]]},
        {"ends": [[2, 0], [1, 10]]},
        {"ends": [[1, -1]]},
        {"more": 1},
    ],
)
def test_anything_else_is_corrupt(change: dict[str, Any]) -> None:
    value = grown(10).to_cbor()
    assert isinstance(value, dict)
    with pytest.raises(WireError):
        LogHead.from_cbor({**value, **change})


def test_an_empty_log_has_an_empty_frontier() -> None:
    with pytest.raises(ValueError, match="digest"):
        LogHead(log=LOG, frontier=Frontier().append(digest(0)))

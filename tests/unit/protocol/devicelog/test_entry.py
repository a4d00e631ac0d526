from typing import Any

import pytest

from protocol.devicelog.entry import LaneRange, LogEntry, Replaced
from protocol.errors import Corrupt
from tests.support.archives import LOG
from tests.support.device_logs import digest, log_entry


@pytest.mark.parametrize(
    "entry",
    [
        log_entry(0),
        log_entry(0, lanes=()),
        log_entry(4),
        log_entry(1, previous_log=b"the-log-before-1"),
        log_entry(5, replaces=(Replaced(1, digest(1)), Replaced(3, digest(3)))),
        log_entry(2, lanes=(LaneRange(0, 7, 9, 9), LaneRange(255, 0, 0, 2**63 - 1))),
    ],
)
def test_it_is_the_same_after_writing_and_reading(entry: LogEntry) -> None:
    assert LogEntry.from_cbor(entry.to_cbor()) == entry


@pytest.mark.parametrize(
    ("number", "change", "problem"),
    [
        (0, {"log": b"short"}, "log of 5 bytes"),
        (0, {"previous_log": b"short"}, "previous_log of 5 bytes"),
        (0, {"previous_log": LOG}, "cannot continue itself"),
        (1, {"number": -1}, "number -1"),
        (1, {"number": 2**32}, "number"),
        (1, {"previous": b""}, "of 0 bytes, not 32"),
        (0, {"previous": bytes(32)}, "of 32 bytes, not 0"),
        (0, {"root": bytes(32)}, "root of an empty log"),
        (1, {"root": b""}, "root of 0 bytes"),
        (3, {"replaces": (Replaced(3, digest(3)),)}, "cannot replace"),
        (3, {"replaces": (Replaced(-1, digest(3)),)}, "cannot replace"),
        (3, {"replaces": (Replaced(1, digest(1)), Replaced(1, digest(1)))}, "cannot replace"),
        (3, {"replaces": (Replaced(1, b""),)}, "digest of 0 bytes"),
        (40, {"replaces": tuple(Replaced(each, digest(each)) for each in range(17))}, "replaced archives 17"),
        (0, {"lanes": (LaneRange(2, 0, 0, 1), LaneRange(1, 0, 0, 1))}, "not in order"),
        (0, {"lanes": (LaneRange(1, 0, 0, 1), LaneRange(1, 0, 0, 1))}, "not in order"),
        (0, {"lanes": (LaneRange(256, 0, 0, 1),)}, "lane 256"),
        (0, {"lanes": tuple(LaneRange(each, 0, 0, 1) for each in range(33))}, "lanes 33"),
        (0, {"lanes": (LaneRange(1, 3, 2, 4),)}, "begin 3"),
        (0, {"lanes": (LaneRange(1, 0, 5, 4),)}, "first 5"),
        (0, {"lanes": (LaneRange(1, 0, 0, 2**63),)}, "next"),
    ],
)
def test_an_entry_that_contradicts_itself_cannot_exist(number: int, change: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        log_entry(number, **change)


def test_a_lane_without_a_position_covers_nothing() -> None:
    assert log_entry(3).range_of(1) == LaneRange(1, 0, 30, 40)
    assert log_entry(3).range_of(2) == LaneRange(2, 0, 0, 0)


def test_a_wrong_type_or_name_is_corrupt() -> None:
    value = log_entry(3).to_cbor()
    assert isinstance(value, dict)
    changes: list[dict[str, Any]] = [
        {"number": True},
        {"lanes": [[1, 2, 3]]},
        {"replaces": [[1]]},
        {"more": 1},
        {"log": "text"},
    ]
    for change in changes:
        with pytest.raises(Corrupt, match="log entry"):
            LogEntry.from_cbor({**value, **change})
    with pytest.raises(Corrupt, match="a CBOR map is expected"):
        LogEntry.from_cbor([1])

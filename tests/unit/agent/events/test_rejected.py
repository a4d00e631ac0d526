"""What cannot be read is stored within limits, and reported when it begins, goes on and ends."""

import asyncio
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from agent.events.rejected import (
    MAX_FILE_BYTES,
    OVER_AFTER_S,
    REPORT_AGAIN_S,
    RejectedStore,
    RejectReports,
    read_samples,
)
from drivers.rejects import Rejects, Sample
from protocol.lifecycle import RejectedNotice


class ReportedEvents:
    def __init__(self) -> None:
        self.notices: list[RejectedNotice] = []

    async def report(self, info_type: str, content: bytes) -> None:
        assert info_type == "headgate/rejected"
        self.notices.append(RejectedNotice.from_bytes(content))


class Rig:
    def __init__(self, folder: Path) -> None:
        self.now_s = 1000.0
        self.events = ReportedEvents()
        self.rejects = Rejects()
        self.collectors: dict[str, Any] = {"plant": SimpleNamespace(driver=SimpleNamespace(rejects=self.rejects))}
        store = RejectedStore(folder)
        self.reports = RejectReports(self.collectors, store, cast("Any", self.events), lambda: self.now_s)

    def reject(self, count: int = 1) -> None:
        for _ in range(count):
            self.rejects.note("boiler", "t is not a number", b'{"t":"19,4"}', 5)

    def check(self, after_s: float = 2.0, *, is_last: bool = False) -> None:
        self.now_s += after_s
        asyncio.run(self.reports.check(is_last=is_last))


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


def test_each_is_in_exactly_one_notice_and_the_log_has_the_changes_only(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    rig.check()
    assert rig.events.notices == []
    rig.reject(3)
    for _ in range(10):
        rig.check()
        rig.reject()
    rig.check(REPORT_AGAIN_S)
    rig.reject(5)
    rig.check()
    rig.check(OVER_AFTER_S)
    rig.check(OVER_AFTER_S)
    assert [notice.count for notice in rig.events.notices] == [3, 10, 5]
    assert [notice.total for notice in rig.events.notices] == [3, 13, 18]
    assert (rig.events.notices[0].sensor, rig.events.notices[0].reason) == ("boiler", "t is not a number")
    assert [message.split(";")[0] for message in caplog.messages] == [
        "input could not be parsed, see 'headgate rejected'",
        "input can be parsed again",
    ]


def test_what_is_not_reported_yet_is_when_the_agent_stops(rig: Rig) -> None:
    rig.reject()
    rig.check()
    rig.reject(7)
    rig.check(is_last=True)
    assert [notice.count for notice in rig.events.notices] == [1, 7]


def test_a_driver_that_was_replaced_counts_anew(rig: Rig) -> None:
    rig.reject(4)
    rig.check()
    rig.rejects = Rejects()
    rig.collectors["plant"] = SimpleNamespace(driver=SimpleNamespace(rejects=rig.rejects))
    rig.reject(2)
    rig.check()
    assert [(notice.count, notice.total) for notice in rig.events.notices] == [(4, 4), (2, 2)]


def test_samples_are_stored_and_read_back(rig: Rig, tmp_path: Path) -> None:
    rig.reject(2)
    rig.check()
    (first, second) = read_samples(tmp_path)
    assert first == second
    assert first["raw"] == b'{"t":"19,4"}'
    assert (first["device"], first["sensor"], first["reason"]) == ("plant", "boiler", "t is not a number")


@pytest.mark.parametrize("batch", [1, 32])
def test_the_store_is_bounded_and_a_torn_line_costs_itself_only(tmp_path: Path, batch: int) -> None:
    store = RejectedStore(tmp_path)
    for first in range(0, 1000, batch):
        numbers = range(first, min(first + batch, 1000))
        store.add("plant", [Sample(number, "a", "x", bytes(4096), 4096) for number in numbers])
        assert sum(file.stat().st_size for file in tmp_path.iterdir()) <= 2 * MAX_FILE_BYTES
    samples = [sample["at_ms"] for sample in read_samples(tmp_path)]
    assert samples == list(range(samples[0], 1000))
    file = tmp_path / "samples.jsonl"
    file.write_bytes(file.read_bytes()[:-10])
    assert [sample["at_ms"] for sample in read_samples(tmp_path)] == samples[:-1]


def test_a_disk_that_refuses_costs_the_samples_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "rejected").write_text("a file where the folder should be")
    RejectedStore(tmp_path / "rejected").add("plant", [Sample(1, "a", "x", b"", 0)])

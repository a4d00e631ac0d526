from dataclasses import replace

import pytest

from agent.archive.state import ArchiveState
from agent.ship.log_check import REASONS, LogCheck, check_answer
from protocol.devicelog.answer import LogStatus, NumberRange
from tests.support.device_logs import answer
from tests.unit.agent.archive.test_state import EMPTY, FIRST, SECOND, STATE, kept


def missing(*numbers: int) -> tuple[NumberRange, ...]:
    return tuple(NumberRange(number, number + 1) for number in numbers)


SHIPPED = STATE.without_archive(FIRST).without_archive(SECOND)


def test_what_the_collector_lacks_and_waits_here_is_in_order() -> None:
    found = check_answer(answer(held_size=0, held_root=EMPTY.log.frontier.root, missing=missing(0, 2)), STATE)
    assert found == LogCheck(held_size=0)
    assert found.problem == ""


@pytest.mark.parametrize(
    ("state", "lacks"), [(SHIPPED, 2), (STATE.without_archive(FIRST), 1), (STATE.without_archive(SECOND), 1)]
)
def test_what_has_a_receipt_must_be_there(state: ArchiveState, lacks: int) -> None:
    numbers = (NumberRange(0, 2),)
    found = check_answer(answer(held_size=0, held_root=EMPTY.log.frontier.root, missing=numbers), state)
    assert found.lost == lacks
    assert f"it lacks {lacks} archives" in found.problem


def test_a_damaged_archive_counts_as_waiting_until_what_replaces_it_is_there() -> None:
    damaged = STATE.with_damaged(FIRST).without_archive(SECOND)
    lacking = answer(held_size=0, held_root=EMPTY.log.frontier.root, missing=missing(0))
    assert check_answer(lacking, damaged).lost == 0
    replacing = damaged.with_archive(kept(damaged, 3, lane_0=10, lane_1=5))
    assert check_answer(lacking, replacing).lost == 0
    assert check_answer(lacking, replacing.without_archive(replacing.kept[-1])).lost == 1


@pytest.mark.parametrize("status", [LogStatus.BEHIND, LogStatus.FORKED])
def test_a_new_log_begins_when_nothing_of_the_old_one_waits(status: LogStatus) -> None:
    objection = answer(held_size=9, status=status, missing=())
    assert check_answer(objection, STATE).new_log == ""
    assert check_answer(objection, SHIPPED).new_log == REASONS[status]
    waits_of_another_log = replace(SHIPPED.with_new_log(b"another-log-here", ""), kept=STATE.kept)
    assert check_answer(objection, waits_of_another_log).new_log == REASONS[status]

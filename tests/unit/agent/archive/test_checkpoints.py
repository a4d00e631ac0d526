import pytest

from agent.archive.checkpoints import Facts, describe_log
from agent.version import VERSION
from protocol.devicelog.checkpoint import LaneState
from tests.support.archives import BINDING
from tests.unit.agent.archive.test_state import EMPTY, FIRST, LOG, OTHER_LOG, SECOND, STATE

FACTS = Facts(BINDING, b"b" * 16, 1_700_000_000_000, b"f" * 32)


def test_it_states_the_log_and_every_lane() -> None:
    statement = describe_log(STATE.without_archive(FIRST), {0: 25, 1: 5, 3: 2}, FACTS)
    assert (statement.log, statement.size, statement.last) == (LOG, 2, SECOND.sha256)
    assert statement.lanes == (
        LaneState(0, 0, 25, 20, 10, 3),
        LaneState(1, 0, 5, 5, 5, 0),
        LaneState(3, 0, 2, 0, 0, 0),
    )
    assert (statement.waiting, statement.waiting_bytes) == (1, SECOND.size_bytes)
    assert (statement.agent_version, statement.configuration, statement.boot) == (VERSION, b"f" * 32, b"b" * 16)


def test_an_empty_log_has_a_checkpoint_too() -> None:
    statement = describe_log(EMPTY, {}, FACTS)
    assert (statement.size, statement.last, statement.lanes) == (0, b"", ())


def test_a_log_that_continues_another_begins_where_it_does() -> None:
    statement = describe_log(STATE.with_new_log(OTHER_LOG, "forked", (SECOND,)), {0: 25, 1: 5}, FACTS)
    assert (statement.log, statement.previous_log, statement.size) == (OTHER_LOG, LOG, 0)
    assert statement.lanes == (LaneState(0, 10, 25, 10, 10, 0), LaneState(1, 5, 5, 5, 5, 0))
    assert statement.produced == 15


def test_what_is_archived_is_committed_whatever_the_journal_says() -> None:
    assert describe_log(STATE, {}, FACTS).lanes[0].committed == 20


@pytest.mark.parametrize(("now_ms", "made_at_ms"), [(-5, 0), (2**60, 2**53 - 1)])
def test_a_clock_may_show_anything(now_ms: int, made_at_ms: int) -> None:
    assert describe_log(EMPTY, {}, FACTS._replace(now_ms=now_ms)).made_at_ms == made_at_ms

import pytest

from agent.archive.state import ArchiveState, KeptArchive
from protocol.devicelog.entry import LaneRange, Replaced
from protocol.devicelog.log import LogHead
from protocol.errors import WireError

JOURNAL = b"journal-of-tests"
LOG, OTHER_LOG = b"log-of-the-tests", b"another-log-here"
EMPTY = ArchiveState(journal_id=JOURNAL, log=LogHead(log=LOG))


def kept(state: ArchiveState, number: int, **reached: int) -> KeptArchive:
    """The next archive of the log; `lane_0=10`: with the records of lane 0 up to position 9."""
    positions = {int(name.removeprefix("lane_")): position for name, position in reached.items()}
    return KeptArchive(
        file_name=f"{number}.hga",
        sha256=bytes([number]) * 32,
        size_bytes=100 + number,
        entry=state.next_entry(positions),
        losses=(number, 10 + number),
        lost=((0, number),),
    )


FIRST = kept(EMPTY, 1, lane_0=10, lane_1=5)
SECOND = kept(EMPTY.with_archive(FIRST), 2, lane_0=20)
STATE = EMPTY.with_archive(FIRST).with_archive(SECOND)


def test_round_trip() -> None:
    for state in (EMPTY, STATE, STATE.without_archive(FIRST), STATE.with_damaged(FIRST)):
        assert ArchiveState.from_bytes(state.to_bytes()) == state


def test_it_knows_how_far_each_lane_is_archived() -> None:
    assert STATE.copied_up_to() == {0: 19, 1: 4}
    assert STATE.covers(0, 0, 19)
    assert not STATE.covers(0, 19, 20)
    assert not STATE.covers(2, 0, 0)
    assert [STATE.is_wanted(0, position) for position in (19, 20)] == [False, True]


def test_each_archive_continues_the_log_where_the_previous_one_ends() -> None:
    assert SECOND.entry.number == 1
    assert SECOND.entry.previous == FIRST.sha256
    assert SECOND.entry.lanes == (LaneRange(0, 0, 10, 20), LaneRange(1, 0, 5, 5))
    assert STATE.log.size == 2
    with pytest.raises(ValueError, match="does not continue"):
        STATE.with_archive(FIRST)


def test_a_lane_that_was_not_read_further_stays_as_it_is() -> None:
    assert STATE.next_entry({0: 3, 1: 4, 2: 0}).lanes == (LaneRange(0, 0, 20, 20), LaneRange(1, 0, 5, 5))


def test_a_loss_is_reported_while_its_archive_waits() -> None:
    assert STATE.reported_losses() == {1, 2, 11, 12}
    assert STATE.without_archive(FIRST).reported_losses() == {2, 12}
    assert STATE.with_damaged(FIRST).reported_losses() == {2, 12}


def test_lost_readings_are_counted_once_also_if_their_archive_is_made_again() -> None:
    assert STATE.lost == {0: 3}
    damaged = STATE.with_damaged(FIRST)
    assert damaged.lost == {0: 2}
    assert damaged.with_archive(kept(damaged, 3, lane_0=10, lane_1=5)).lost == {0: 5}


def test_what_a_damaged_archive_held_is_archived_again_and_nothing_else() -> None:
    damaged = STATE.with_damaged(FIRST)
    assert damaged.log == STATE.log  # its digest stays a leaf of the log
    assert damaged.copied_up_to() == {0: -1, 1: -1}
    assert [damaged.is_wanted(0, position) for position in (0, 9, 10, 25)] == [True, True, False, False]
    assert not damaged.covers(0, 9, 12)
    assert damaged.covers(0, 10, 12)
    again = kept(damaged, 3, lane_0=6)
    assert again.entry.replaces == (Replaced(0, FIRST.sha256),)
    assert again.entry.lanes == (LaneRange(0, 0, 0, 6), LaneRange(1, 0, 0, 0))
    half = damaged.with_archive(again)
    assert not half.is_wanted(0, 5)
    rest = kept(half, 4, lane_0=25, lane_1=5)
    assert rest.entry.lanes == (LaneRange(0, 0, 6, 10), LaneRange(1, 0, 0, 5))
    whole = half.with_archive(rest)
    assert whole.damaged == ()
    assert whole.next_entry({0: 26}).lanes == (LaneRange(0, 0, 20, 26), LaneRange(1, 0, 5, 5))


def test_a_damaged_archive_is_replaced_also_if_nothing_of_it_is_left() -> None:
    damaged = STATE.with_damaged(FIRST)
    assert not STATE.is_replaced({0: 20, 1: 20})
    assert not damaged.is_replaced({0: 9, 1: 20})
    assert damaged.is_replaced({0: 10, 1: 5})


def test_damaged_archives_are_replaced_one_after_the_other() -> None:
    damaged = STATE.with_damaged(SECOND).with_damaged(FIRST)
    assert damaged.next_entry({0: 20}).replaces == (Replaced(1, SECOND.sha256),)
    assert damaged.released_up_to() == {0: -1, 1: -1}
    one = damaged.with_archive(kept(damaged, 3, lane_0=20))
    assert one.next_entry({0: 20}).replaces == (Replaced(0, FIRST.sha256),)


def test_a_damaged_replacement_is_replaced_with_what_it_replaced() -> None:
    damaged = STATE.with_damaged(FIRST)
    again = kept(damaged, 3, lane_0=20, lane_1=5)
    twice = damaged.with_archive(again).with_damaged(again)
    assert twice.next_entry({0: 20}).replaces == (Replaced(0, FIRST.sha256), Replaced(2, again.sha256))


def test_a_lane_is_released_up_to_the_first_archive_that_has_no_receipt() -> None:
    assert STATE.released_up_to() == {0: -1, 1: -1}
    assert STATE.without_archive(FIRST).released_up_to() == {0: 9, 1: 4}
    assert STATE.without_archive(SECOND).released_up_to() == {0: -1, 1: -1}
    assert STATE.without_archive(FIRST).without_archive(SECOND).released_up_to() == {0: 19, 1: 4}
    assert STATE.without_archive(FIRST).with_damaged(SECOND).released_up_to() == {0: 9, 1: 4}


def test_another_journal_begins_a_log_but_old_archives_still_wait() -> None:
    state = STATE.for_journal(b"another journal!", OTHER_LOG, {0: 7})
    assert (state.log.log, state.log.previous_log, state.log.size) == (OTHER_LOG, LOG, 0)
    assert state.reason == "the journal is a new one"
    assert state.copied_up_to() == {0: 6}
    assert state.reported_losses() == set()
    assert not any(each.is_of_this_journal for each in state.kept)
    assert [each.file_name for each in state.kept] == ["1.hga", "2.hga"]
    assert state.with_archive(kept(state, 3, lane_0=9)).released_up_to() == {0: 6}
    assert STATE.for_journal(JOURNAL, OTHER_LOG, {}) is STATE


def test_a_new_log_begins_where_the_old_one_ends() -> None:
    state = STATE.with_new_log(OTHER_LOG, "forked")
    assert (state.log.log, state.log.previous_log, state.reason) == (OTHER_LOG, LOG, "forked")
    assert state.next_entry({0: 26}).lanes == (LaneRange(0, 20, 20, 26), LaneRange(1, 5, 5, 5))
    assert state.kept == STATE.kept
    assert (state.lost, state.deleting) == ({}, ())
    assert state.released_up_to() == {0: -1, 1: -1}


def test_a_new_log_begins_before_what_is_archived_again() -> None:
    state = STATE.with_new_log(OTHER_LOG, "forked", (SECOND,))
    assert state.next_entry({0: 26}).lanes == (LaneRange(0, 10, 10, 26), LaneRange(1, 5, 5, 5))
    assert (state.kept, state.deleting) == ((FIRST,), (SECOND.file_name,))
    damaged = STATE.with_damaged(FIRST).with_new_log(OTHER_LOG, "forked")
    assert damaged.damaged == ()
    assert damaged.log.begins == {0: 0, 1: 0}


def test_no_byte_can_change_and_no_beginning_passes() -> None:
    data = STATE.with_damaged(FIRST).to_bytes()
    for offset in range(len(data)):
        damaged = bytearray(data)
        damaged[offset] ^= 0x01
        for bad in (bytes(damaged), data[:offset]):
            with pytest.raises(WireError):
                ArchiveState.from_bytes(bad)

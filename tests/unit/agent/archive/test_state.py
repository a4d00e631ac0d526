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
    )


FIRST = kept(EMPTY, 1, lane_0=10, lane_1=5)
SECOND = kept(EMPTY.with_archive(FIRST), 2, lane_0=20)
STATE = EMPTY.with_archive(FIRST).with_archive(SECOND)


def test_round_trip() -> None:
    for state in (EMPTY, STATE, STATE.without_archive(FIRST), STATE.before_archive(FIRST)):
        assert ArchiveState.from_bytes(state.to_bytes()) == state


def test_it_knows_how_far_each_lane_is_archived() -> None:
    assert STATE.archived_up_to == {0: 19, 1: 4}


def test_each_archive_continues_the_log_where_the_previous_one_ends() -> None:
    assert SECOND.entry.number == 1
    assert SECOND.entry.previous == FIRST.sha256
    assert SECOND.entry.lanes == (LaneRange(0, 0, 10, 20), LaneRange(1, 0, 5, 5))
    assert STATE.log.size == 2
    with pytest.raises(ValueError, match="does not continue"):
        STATE.with_archive(FIRST)


def test_a_loss_is_reported_while_its_archive_waits() -> None:
    assert STATE.reported_losses() == {1, 2, 11, 12}
    assert STATE.without_archive(FIRST).reported_losses() == {2, 12}
    assert STATE.before_archive(FIRST).reported_losses() == {2, 12}


def test_what_was_lost_before_an_archive_is_not_archived_once_it_is_damaged() -> None:
    made = STATE.with_archive(kept(STATE, 3, lane_0=60))
    assert made.archived_up_to == {0: 59, 1: 4}
    assert made.before_archive(made.kept[-1]).archived_up_to == {0: 19, 1: 4}


def test_a_damaged_archive_is_replaced_by_later_ones_until_all_of_it_is_archived_again() -> None:
    damaged = STATE.before_archive(FIRST)
    assert damaged.archived_up_to == {0: -1, 1: -1}
    assert damaged.log == STATE.log  # its digest stays a leaf of the log
    again = kept(damaged, 3, lane_0=12)
    assert again.entry.replaces == (Replaced(0, FIRST.sha256),)
    assert again.entry.lanes == (LaneRange(0, 0, 0, 12),)
    half = damaged.with_archive(again)
    assert half.replaces == again.entry.replaces
    rest = kept(half, 4, lane_0=25, lane_1=5)
    assert rest.entry.lanes == (LaneRange(0, 0, 12, 25), LaneRange(1, 0, 0, 5))
    whole = half.with_archive(rest)
    assert whole.replaces == ()
    assert whole.next_entry({0: 26}).lanes == (LaneRange(0, 0, 25, 26), LaneRange(1, 0, 5, 5))


def test_a_damaged_replacement_is_replaced_with_what_it_replaced() -> None:
    damaged = STATE.before_archive(FIRST)
    again = kept(damaged, 3, lane_0=20, lane_1=5)
    twice = damaged.with_archive(again).before_archive(again)
    assert twice.next_entry({0: 20}).replaces == (Replaced(0, FIRST.sha256), Replaced(2, again.sha256))


def test_more_damaged_archives_than_one_entry_can_name_are_named_by_the_next_ones() -> None:
    state, damaged = EMPTY, list[KeptArchive]()
    for number in range(20):
        damaged.append(kept(state, number + 1, lane_0=number + 1))
        state = state.with_archive(damaged[-1])
    for archive in damaged:
        state = state.before_archive(archive)
    first = kept(state, 50, lane_0=20)
    second = kept(state.with_archive(first), 51, lane_0=21)
    named = [each.number for archive in (first, second) for each in archive.entry.replaces]
    assert named == list(range(20))
    assert state.with_archive(first).with_archive(second).replaces == ()


def test_a_lane_is_released_up_to_the_first_archive_that_has_no_receipt() -> None:
    assert STATE.released_up_to() == {0: -1, 1: -1}
    assert STATE.without_archive(FIRST).released_up_to() == {0: 9, 1: 4}
    assert STATE.without_archive(SECOND).released_up_to() == {0: -1, 1: -1}
    assert STATE.without_archive(FIRST).without_archive(SECOND).released_up_to() == {0: 19, 1: 4}


def test_another_journal_begins_a_log_but_old_archives_still_wait() -> None:
    state = STATE.for_journal(b"another journal!", OTHER_LOG)
    assert (state.log.log, state.log.previous_log, state.log.size) == (OTHER_LOG, LOG, 0)
    assert state.archived_up_to == {}
    assert state.reported_losses() == set()
    assert not any(each.is_of_this_journal for each in state.kept)
    assert [each.file_name for each in state.kept] == ["1.hga", "2.hga"]
    assert state.with_archive(kept(state, 3, lane_0=2)).released_up_to() == {0: -1}
    assert STATE.for_journal(JOURNAL, OTHER_LOG) is STATE


def test_positions_that_the_journal_uses_again_belong_to_a_new_log() -> None:
    assert STATE.within({0: 20, 1: 5}, OTHER_LOG) is STATE
    state = STATE.within({0: 15, 1: 5}, OTHER_LOG)
    assert (state.log.log, state.log.previous_log) == (OTHER_LOG, LOG)
    assert state.next_entry({0: 16}).lanes == (LaneRange(0, 15, 15, 16), LaneRange(1, 5, 5, 5))


def test_no_byte_can_change_and_no_beginning_passes() -> None:
    data = STATE.to_bytes()
    for offset in range(len(data)):
        damaged = bytearray(data)
        damaged[offset] ^= 0x01
        for bad in (bytes(damaged), data[:offset]):
            with pytest.raises(WireError):
                ArchiveState.from_bytes(bad)

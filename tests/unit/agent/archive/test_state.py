from dataclasses import replace

import pytest

from agent.archive.state import ArchiveState, KeptArchive
from protocol.archive.manifest import LaneEntry
from protocol.errors import WireError

JOURNAL = b"journal-of-tests"


def kept(number: int, *lanes: tuple[int, int, int]) -> KeptArchive:
    entries = tuple(LaneEntry(lane, last - first + 1, first, last) for lane, first, last in lanes)
    return KeptArchive(
        file_name=f"{number}.hga",
        sha256=bytes([number]) * 32,
        size_bytes=100 + number,
        lanes=entries,
        losses=(number, 10 + number),
        follows=((0, number),),
    )


FIRST, SECOND = kept(1, (0, 0, 9), (1, 0, 4)), kept(2, (0, 10, 19))
STATE = ArchiveState(journal_id=JOURNAL).with_archive(FIRST).with_archive(SECOND)


def test_round_trip() -> None:
    assert ArchiveState.from_bytes(STATE.to_bytes()) == STATE
    assert ArchiveState.from_bytes(STATE.without_archive(FIRST).to_bytes()) == STATE.without_archive(FIRST)


def test_it_knows_how_far_each_lane_is_archived() -> None:
    assert STATE.archived_up_to == {0: 19, 1: 4}


def test_a_loss_is_reported_while_its_archive_waits() -> None:
    assert STATE.reported_losses() == {1, 2, 11, 12}
    assert STATE.without_archive(FIRST).reported_losses() == {2, 12}
    assert STATE.before_archive(FIRST).reported_losses() == {2, 12}


def test_what_was_lost_before_an_archive_is_not_archived_once_it_is_given_up() -> None:
    after_a_loss = kept(3, (0, 50, 59))
    made = STATE.with_archive(replace(after_a_loss, follows=STATE.last_archived(after_a_loss.lanes)))
    assert made.archived_up_to == {0: 59, 1: 4}
    assert made.before_archive(made.kept[-1]).archived_up_to == {0: 19, 1: 4}
    assert made.before_archive(replace(made.kept[-1], follows=())).archived_up_to == {0: -1, 1: 4}  # made anew


def test_a_lane_is_released_up_to_the_first_archive_that_has_no_receipt() -> None:
    assert STATE.released_up_to() == {0: -1, 1: -1}
    assert STATE.without_archive(FIRST).released_up_to() == {0: 9, 1: 4}
    assert STATE.without_archive(SECOND).released_up_to() == {0: -1, 1: -1}
    assert STATE.without_archive(FIRST).without_archive(SECOND).released_up_to() == {0: 19, 1: 4}


def test_another_journal_starts_anew_but_old_archives_still_wait() -> None:
    state = STATE.for_journal(b"another journal!")
    assert state.archived_up_to == {}
    assert state.reported_losses() == set()
    assert not any(each.is_of_this_journal for each in state.kept)
    assert [each.file_name for each in state.kept] == ["1.hga", "2.hga"]
    assert state.with_archive(kept(3, (0, 0, 1))).released_up_to() == {0: -1}
    assert STATE.for_journal(JOURNAL) is STATE


def test_no_byte_can_change_and_no_beginning_passes() -> None:
    data = STATE.to_bytes()
    for offset in range(len(data)):
        damaged = bytearray(data)
        damaged[offset] ^= 0x01
        for bad in (bytes(damaged), data[:offset]):
            with pytest.raises(WireError):
                ArchiveState.from_bytes(bad)

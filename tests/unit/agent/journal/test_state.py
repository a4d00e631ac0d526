from dataclasses import replace

import pytest

from agent.journal.losses import PendingLoss
from agent.journal.records import damage
from agent.journal.state import STATE_NAMES, LaneState, Reported, Segment, State, StateFiles, decode_state, encode_state
from tests.support.simulated_disk import SimulatedDisk

STATE = State(
    journal_id=2**64 - 1,
    next_segment_id=12,
    lanes={
        0: LaneState(9, [Segment(0, 3, 0), Segment(1, 4, 5, 2, 6, 7, {8: Reported(1, 77), 9: Reported(3, 2**32 - 1)})]),
        31: LaneState(0, []),
    },
    cursors={"publisher": {0: 4}},
    losses=(PendingLoss(loss=replace(damage(0, 1, 3), number=1), missed_by=("publisher",)),),
    next_loss=2,
)


def test_a_state_survives_encoding() -> None:
    assert decode_state(encode_state(STATE, 77)) == (77, STATE)


def test_any_flipped_byte_or_missing_end_makes_a_copy_unreadable() -> None:
    data = bytearray(encode_state(STATE, 5))
    for offset in range(len(data)):
        data[offset] ^= 1
        assert decode_state(bytes(data)) is None
        data[offset] ^= 1
        assert decode_state(bytes(data[:offset])) is None


@pytest.mark.parametrize("change", [{"lanes": {40: LaneState()}}, {"journal_id": -1}, {"max_bytes": 1.5}])
def test_a_state_that_makes_no_sense_is_unreadable(change: dict[str, object]) -> None:
    values = {name: getattr(STATE, name) for name in State.__slots__}
    assert decode_state(encode_state(State(**{**values, **change}), 1)) is None


def test_two_segments_in_one_file_make_no_sense() -> None:
    state = State(journal_id=1, lanes={0: LaneState(0, [Segment(0, 1, 0), Segment(0, 2, 5)])})
    assert decode_state(encode_state(state, 1)) is None


def test_the_newer_valid_copy_counts() -> None:
    disk = SimulatedDisk()
    files = StateFiles(disk, 8192)
    files.save(State(journal_id=1), copies=2)
    files.save(State(journal_id=2), copies=1)
    assert StateFiles(disk, 8192).load() == State(journal_id=2)
    newest = max(STATE_NAMES, key=lambda name: (decode_state(disk.read(name, 0, 8192)) or (0,))[0])
    disk.files[newest].content[30] ^= 1
    assert StateFiles(disk, 8192).load() == State(journal_id=1)


def test_a_save_after_loading_overwrites_the_older_copy() -> None:
    disk = SimulatedDisk()
    StateFiles(disk, 8192).save(State(journal_id=1), copies=1)
    again = StateFiles(disk, 8192)
    again.load()
    again.save(State(journal_id=2), copies=1)
    assert {load[1].journal_id for name in STATE_NAMES if (load := decode_state(disk.read(name, 0, 8192)))} == {1, 2}

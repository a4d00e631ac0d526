"""Laws of the device log: the tree against a naive one, and every value against any bytes."""

import hashlib
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from protocol.devicelog.answer import MAX_ANSWER_BYTES, HeartbeatAnswer
from protocol.devicelog.checkpoint import MAX_CHECKPOINT_BYTES, Checkpoint, LaneState, Relation
from protocol.devicelog.entry import LaneRange, LogEntry
from protocol.devicelog.frontier import Frontier
from protocol.devicelog.merkle import (
    consistency_proof,
    inclusion_proof,
    root,
    verify_consistency,
    verify_inclusion,
)
from protocol.errors import WireError
from tests.property.test_archive_laws import CBOR_VALUES
from tests.support.device_logs import answer, checkpoint, log_entry

LEAVES = st.lists(st.binary(max_size=40), max_size=40)
POSITIONS = st.integers(0, 2**63 - 1)


def naive_root(leaves: Sequence[bytes]) -> bytes:
    """Level by level, as the definition is drawn: the last node of an odd level moves up unchanged."""
    level = [hashlib.sha256(b"\x00" + leaf).digest() for leaf in leaves]
    while len(level) > 1:
        pairs = [level[index : index + 2] for index in range(0, len(level), 2)]
        level = [hashlib.sha256(b"\x01" + b"".join(pair)).digest() if len(pair) == 2 else pair[0] for pair in pairs]
    return level[0] if level else hashlib.sha256().digest()


@given(LEAVES)
def test_root_and_frontier_equal_the_naive_tree(leaves: list[bytes]) -> None:
    assert root(leaves) == Frontier().extend(leaves).root == naive_root(leaves)


@given(LEAVES, st.data())
def test_every_leaf_is_proved_where_it_is_and_nowhere_else(leaves: list[bytes], data: st.DataObject) -> None:
    if not leaves:
        return
    index = data.draw(st.integers(0, len(leaves) - 1))
    proof = inclusion_proof(leaves, index)

    def holds(content: bytes, at: int, path: Sequence[bytes] = proof, tree: bytes = root(leaves)) -> bool:
        return verify_inclusion(data=content, index=at, size=len(leaves), proof=path, root=tree)

    assert holds(leaves[index], index)
    assert not holds(leaves[index] + b"x", index)
    assert not holds(leaves[index], index, proof[:-1]) or len(leaves) == 1
    assert not holds(leaves[index], index, (*proof, bytes(32)))
    other = data.draw(st.integers(0, len(leaves) - 1))
    assert holds(leaves[index], other) == (other == index) or leaves[other] == leaves[index]


@given(LEAVES, st.data())
def test_a_log_is_consistent_with_each_of_its_beginnings_and_with_no_other_log(
    leaves: list[bytes], data: st.DataObject
) -> None:
    size = data.draw(st.integers(0, len(leaves)))
    beginning = leaves[:size]
    proof = consistency_proof(leaves, size)

    def holds(old: bytes, path: Sequence[bytes] = proof) -> bool:
        return verify_consistency(size=size, root=old, new_size=len(leaves), new_root=root(leaves), proof=path)

    assert holds(root(beginning))
    assert not holds(root([*beginning[:-1], b"changed" * 9]))
    assert not holds(root(beginning), (*proof, bytes(32)))
    if proof:
        assert not holds(root(beginning), proof[:-1])


@given(st.integers(-1, 40), st.integers(-1, 40), st.lists(st.binary(min_size=32, max_size=32), max_size=70))
def test_any_proof_is_judged_without_an_error(size: int, new_size: int, proof: list[bytes]) -> None:
    one, other = bytes(32), b"\x01" * 32
    verify_inclusion(data=b"", index=size, size=new_size, proof=proof, root=one)
    assert not verify_consistency(size=size, root=one, new_size=new_size, new_root=other, proof=proof)


@st.composite
def lane_ranges(draw: st.DrawFn) -> tuple[LaneRange, ...]:
    lanes = sorted(draw(st.sets(st.integers(0, 255), max_size=5)))
    return tuple(LaneRange(lane, *sorted(draw(st.tuples(POSITIONS, POSITIONS, POSITIONS)))) for lane in lanes)


@given(st.integers(0, 9), lane_ranges())
def test_an_entry_is_the_same_after_writing_and_reading(number: int, lanes: tuple[LaneRange, ...]) -> None:
    entry = log_entry(number, lanes=lanes)
    assert LogEntry.from_cbor(entry.to_cbor()) == entry


@given(CBOR_VALUES)
def test_any_value_is_an_entry_a_frontier_or_corrupt(value: object) -> None:
    for read in (LogEntry.from_cbor, Frontier.from_cbor):
        try:
            assert read(value).to_cbor() == value  # type: ignore[arg-type]
        except WireError:
            continue


@st.composite
def lane_states(draw: st.DrawFn) -> tuple[LaneState, ...]:
    lanes = sorted(draw(st.sets(st.integers(0, 3))))
    small = st.integers(0, 5)
    return tuple(LaneState(lane, 0, draw(small), 0, 0, 0) for lane in lanes)


@given(st.integers(0, 3), lane_states(), st.integers(0, 3), lane_states())
def test_of_two_checkpoints_at_most_one_is_newer(
    size: int, lanes: tuple[LaneState, ...], other_size: int, other_lanes: tuple[LaneState, ...]
) -> None:
    one, other = checkpoint(size, lanes=lanes), checkpoint(other_size, lanes=other_lanes)
    assert Checkpoint.from_bytes(one.to_bytes()) == one
    found = {one.relation_to(other), other.relation_to(one)}
    assert found in ({Relation.NEWER, Relation.OLDER}, {Relation.EQUAL}, {Relation.FORKED})
    assert (found == {Relation.EQUAL}) == (size == other_size and _committed(one) == _committed(other))


def _committed(each: Checkpoint) -> dict[int, int]:
    return {lane.lane: lane.committed for lane in each.lanes if lane.committed}


@given(st.binary(max_size=max(MAX_ANSWER_BYTES, MAX_CHECKPOINT_BYTES)))
def test_any_bytes_are_a_value_or_a_wire_error(data: bytes) -> None:
    _check_any_bytes(data)


@given(st.sampled_from([checkpoint().to_bytes(), answer().to_bytes()]), st.data())
def test_a_value_with_a_part_changed_is_none(text: bytes, data: st.DataObject) -> None:
    position = data.draw(st.integers(0, len(text) - 1))
    replacement = data.draw(st.binary(max_size=4))
    _check_any_bytes(text[:position] + replacement + text[position + len(replacement) :])


def _check_any_bytes(data: bytes) -> None:
    for kind in (Checkpoint, HeartbeatAnswer):
        try:
            assert kind.from_bytes(data).to_bytes() == data
        except WireError:
            continue

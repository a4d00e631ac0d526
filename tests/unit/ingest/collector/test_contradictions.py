"""Which statements about a log contradict what is held, as soon as the neighbours are known."""

from dataclasses import replace
from typing import Any

import pytest

from ingest.collector.contradictions import of_checkpoint, of_checkpoints, of_entry
from ingest.collector.leaves import Leaf
from ingest.collector.log_state import Contradiction, HeldRange, LogState, Subject
from protocol.devicelog.checkpoint import Checkpoint, LaneState
from protocol.devicelog.entry import LogEntry, Replaced
from tests.support.archives import LOG
from tests.support.device_logs import checkpoint, digest, frontier, log_entry

OTHER = b"x" * 32
STATE = LogState(
    log=LOG,
    previous_log=b"",
    first_contact_ms=1,
    frontier=frontier(3),
    held=(HeldRange(0, 3, b"", {}, {}), HeldRange(5, 7, digest(4), {}, {})),
)


def leaf_of(number: int) -> Leaf:
    assert STATE.holds(number)
    return Leaf(digest(number), frontier(number).root)


def check(entry: LogEntry, sha256: bytes) -> Contradiction | None:
    return of_entry(STATE, leaf_of, entry, sha256)


@pytest.mark.parametrize("number", range(9))
def test_archives_of_the_log_contradict_nothing_whether_held_or_not(number: int) -> None:
    assert check(log_entry(number), digest(number)) is None
    assert of_checkpoint(STATE, leaf_of, checkpoint(number)) is None


@pytest.mark.parametrize(
    ("entry", "sha256", "expected"),
    [
        (log_entry(1), OTHER, (Subject.ARCHIVE, 1, digest(1), OTHER)),
        (log_entry(5), OTHER, (Subject.ARCHIVE, 5, digest(5), OTHER)),
        (log_entry(4), OTHER, (Subject.ARCHIVE, 4, digest(4), OTHER)),  # archive 5 names another previous one
        (log_entry(3, previous=OTHER), digest(3), (Subject.ARCHIVE, 2, digest(2), OTHER)),
        (log_entry(7, previous=OTHER), digest(7), (Subject.ARCHIVE, 6, digest(6), OTHER)),
        (log_entry(3, root=OTHER), digest(3), (Subject.ROOT, 3, frontier(3).root, OTHER)),
        (log_entry(8, replaces=(Replaced(1, OTHER),)), digest(8), (Subject.ARCHIVE, 1, digest(1), OTHER)),
        (log_entry(8, replaces=(Replaced(4, OTHER),)), digest(8), (Subject.ARCHIVE, 4, digest(4), OTHER)),
        (log_entry(8, previous_log=b"p" * 16), digest(8), (Subject.PREVIOUS_LOG, 0, b"", b"p" * 16)),
    ],
)
def test_an_archive_that_does_not_fit_is_evidence(entry: LogEntry, sha256: bytes, expected: tuple[object, ...]) -> None:
    assert check(entry, sha256) == expected


def test_a_replaced_archive_whose_root_is_not_known_fits() -> None:
    assert check(log_entry(8, replaces=(Replaced(3, digest(3)), Replaced(4, digest(4)))), digest(8)) is None
    unknown = of_entry(STATE, lambda number: Leaf(digest(number), b""), log_entry(6), digest(6))
    assert unknown is None


@pytest.mark.parametrize(
    ("size", "changes", "expected"),
    [
        (2, {"root": OTHER}, (Subject.ROOT, 2, frontier(2).root, OTHER)),
        (3, {"root": OTHER}, (Subject.ROOT, 3, frontier(3).root, OTHER)),
        (6, {"root": OTHER}, (Subject.ROOT, 6, frontier(6).root, OTHER)),  # as archive 6 states it
        (2, {"last": OTHER}, (Subject.ARCHIVE, 1, digest(1), OTHER)),
        (5, {"last": OTHER}, (Subject.ARCHIVE, 4, digest(4), OTHER)),
        (9, {"previous_log": b"p" * 16}, (Subject.PREVIOUS_LOG, 0, b"", b"p" * 16)),
    ],
)
def test_a_checkpoint_that_does_not_fit_is_evidence(
    size: int, changes: dict[str, Any], expected: tuple[object, ...]
) -> None:
    assert of_checkpoint(STATE, leaf_of, checkpoint(size, **changes)) == expected


def test_two_checkpoints_contradict_each_other_by_root_or_by_positions() -> None:
    digests = (b"1" * 32, b"2" * 32)
    first = checkpoint(9)
    assert of_checkpoints(first, checkpoint(9, root=OTHER), digests) == (Subject.ROOT, 9, first.root, OTHER)
    lanes = (LaneState(1, 0, 1000, 90, 90, 0),)
    assert of_checkpoints(first, checkpoint(8, lanes=lanes), digests) == (Subject.POSITIONS, 8, *digests)
    for size in (8, 9, 10):
        assert of_checkpoints(first, checkpoint(size), digests) is None


def test_a_checkpoint_beyond_all_that_is_held_cannot_be_judged() -> None:
    strange: Checkpoint = checkpoint(9, root=OTHER, last=OTHER)
    assert of_checkpoint(STATE, leaf_of, strange) is None
    assert of_checkpoint(replace(STATE, held=(), frontier=frontier(0)), leaf_of, strange) is None

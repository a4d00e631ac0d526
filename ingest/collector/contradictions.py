"""Compares what a device states about its log with what the collector knows of it.

Each archive is compared as soon as its neighbours are known: one number has one archive, each archive names the
previous one, and its root is that of everything before it. The first statement that contradicts is the evidence of a
fork: the log was continued twice, from a copied card or a restored backup, or somebody else has its key.
"""

from collections.abc import Callable, Iterator

from ingest.collector.leaves import Leaf
from ingest.collector.log_state import Contradiction, LogState, Subject
from protocol.devicelog.checkpoint import Checkpoint, Relation
from protocol.devicelog.entry import LogEntry

LeafOf = Callable[[int], Leaf]  # of a number that is held


def of_entry(state: LogState, leaf_of: LeafOf, entry: LogEntry, sha256: bytes) -> Contradiction | None:
    """The first contradiction of an archive to what is held, or None. An archive that is held contradicts nothing."""
    stated = [(entry.number, sha256), *entry.replaces]
    if entry.number:
        stated.append((entry.number - 1, entry.previous))
    found = [_previous_log(state, entry.previous_log), _root(state, leaf_of, entry.number, entry.root)]
    return next(filter(None, [*_archives(state, leaf_of, stated), *found]), None)


def of_checkpoint(state: LogState, leaf_of: LeafOf, checkpoint: Checkpoint) -> Contradiction | None:
    """The first contradiction of a checkpoint to what is held, or None."""
    stated = [(checkpoint.size - 1, checkpoint.last)] if checkpoint.size else []
    found = [_previous_log(state, checkpoint.previous_log), _root(state, leaf_of, checkpoint.size, checkpoint.root)]
    return next(filter(None, [*_archives(state, leaf_of, stated), *found]), None)


def of_checkpoints(newest: Checkpoint, other: Checkpoint, digests: tuple[bytes, bytes]) -> Contradiction | None:
    """The contradiction of two checkpoints, whose SHA-256 are given, or None."""
    if other.relation_to(newest) is not Relation.FORKED:
        return None
    if newest.size == other.size and newest.root != other.root:
        return Contradiction(Subject.ROOT, other.size, newest.root, other.root)
    return Contradiction(Subject.POSITIONS, other.size, *digests)


def _previous_log(state: LogState, stated: bytes) -> Contradiction | None:
    if stated == state.previous_log:
        return None
    return Contradiction(Subject.PREVIOUS_LOG, 0, state.previous_log, stated)


def _archives(state: LogState, leaf_of: LeafOf, stated: list[tuple[int, bytes]]) -> Iterator[Contradiction | None]:
    for number, sha256 in stated:
        held = _digest(state, leaf_of, number)
        if held and held != sha256:
            yield Contradiction(Subject.ARCHIVE, number, held, sha256)


def _digest(state: LogState, leaf_of: LeafOf, number: int) -> bytes:
    """Of an archive that is held, or whose successor names it; otherwise empty."""
    if state.holds(number):
        return leaf_of(number).sha256
    return next((each.previous for each in state.held if each.first == number + 1), b"")


def _root(state: LogState, leaf_of: LeafOf, size: int, stated: bytes) -> Contradiction | None:
    held = _known_root(state, leaf_of, size)
    return Contradiction(Subject.ROOT, size, held, stated) if held and held != stated else None


def _known_root(state: LogState, leaf_of: LeafOf, size: int) -> bytes:
    """Of the log of this size; empty if it is not known."""
    if size == state.frontier.size:
        return state.frontier.root
    return leaf_of(size).root if state.holds(size) else b""

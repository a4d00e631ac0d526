"""What a checkpoint states of the state of the archives and the positions of the journal."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from agent.archive.state import ArchiveState
from agent.version import VERSION
from protocol.binding import Binding
from protocol.devicelog.checkpoint import CheckpointStatement, LaneState
from protocol.reference import MAX_TIMESTAMP_MS


class Facts(NamedTuple):
    """What a checkpoint states besides the log."""

    binding: Binding
    boot: bytes
    now_ms: int
    configuration: bytes


def describe_log(state: ArchiveState, committed: Mapping[int, int], facts: Facts) -> CheckpointStatement:
    """`committed`: lane → the next position, after everything that is durable in the journal."""
    waiting = [archive for archive in state.kept if archive.entry.log == state.log.log]
    return CheckpointStatement(
        binding=facts.binding,
        log=state.log.log,
        previous_log=state.log.previous_log,
        size=state.log.size,
        root=state.log.frontier.root,
        last=state.log.last,
        lanes=tuple(_lanes(state, committed)),
        boot=facts.boot,
        made_at_ms=min(max(facts.now_ms, 0), MAX_TIMESTAMP_MS),
        agent_version=VERSION,
        configuration=facts.configuration,
        waiting=len(waiting) + len(state.damaged),
        waiting_bytes=sum(archive.size_bytes for archive in waiting),
    )


def _lanes(state: ArchiveState, committed: Mapping[int, int]) -> Iterator[LaneState]:
    released = state.released_up_to()
    for lane in sorted({*state.log.lanes, *committed}):
        begin, archived = state.log.begin(lane), state.log.end(lane)
        yield LaneState(
            lane=lane,
            begin=begin,
            committed=max(archived, committed.get(lane, 0)),
            archived=archived,
            released=max(begin, released.get(lane, archived - 1) + 1),
            lost=state.lost.get(lane, 0),
        )

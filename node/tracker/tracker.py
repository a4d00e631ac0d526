"""The tracker: nodes report their address and streams, and it assigns them neighbours.

It has no sockets and no clock: the server calls `connect`, `receive` and `disconnect`, and sends the messages that they
return. For every stream partition there is one `Topology` per kind of connection, because a node that others reach by a
websocket address and a node that they reach through WebRTC cannot be neighbours.

The counter of instructions grows by one each time. A status with an older counter describes the links before the last
instruction, so it changes nothing. After a restart the tracker continues from the counters that nodes report.

A tracker that has just started finds a working network. An instruction names all neighbours of a node, so it would cut
the links to nodes that the tracker does not know yet. Therefore no node of a partition is instructed while one of its
nodes reports a link to a node without a status: until that node has reported, or `REUNION_S` is over. In the same way a
storage node is in no partition before it has reported its own partitions.

Storage nodes are in every partition, so that all messages are stored.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from random import Random
from typing import Final, NamedTuple

from node.streams import StreamPart
from node.tracker.status import NodeStatus, PartStatus, read_status
from node.tracker.topology import DEFAULT_MAX_NEIGHBOURS, Topology
from protocol.errors import WireError
from protocol.streamr.tracker import (
    LATEST_TRACKER_VERSION,
    ErrorMessage,
    InstructionMessage,
    RelayMessage,
    StatusAckMessage,
    StatusMessage,
    StorageNodesRequest,
    StorageNodesResponse,
    TrackerMessage,
)

MAX_OVERLAYS: Final = 100_000
REUNION_S: Final = 40.0  # after the start; nodes try at least every 30 s to reach their tracker
REPORT_S: Final = 5.0  # after it, a connected node has reported all its partitions
UNKNOWN_PEER: Final = "RTC_UNKNOWN_PEER"


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """A node as its connection shows it. Without an address, others reach it by its id, through relayed messages."""

    peer_id: str
    address: str | None = None
    is_storage: bool = False

    @property
    def name_for_others(self) -> str:
        return self.peer_id if self.address is None else self.address


class Outgoing(NamedTuple):
    """A message and its receiver."""

    peer_id: str
    message: TrackerMessage


class _OverlayKey(NamedTuple):
    part: StreamPart
    by_address: bool


@dataclass(slots=True)
class _Known:
    """The tracker's state of a connected peer."""

    peer: Peer
    version: int  # of the protocol, of the peer's last message
    connected_at_s: float
    has_reported: bool = False  # all the partitions that it is in
    sent_counters: dict[StreamPart, int] = field(default_factory=dict)  # of every partition that it is in
    reported: dict[StreamPart, frozenset[str]] = field(default_factory=dict)


class Tracker:
    """Raises nothing: invalid messages are counted in `counters`, and answered if the protocol allows it."""

    def __init__(
        self,
        *,
        chance: Random,
        new_request_id: Callable[[], str],
        max_neighbours: int = DEFAULT_MAX_NEIGHBOURS,
        max_overlays: int = MAX_OVERLAYS,
    ) -> None:
        self.counters: Counter[str] = Counter()
        self._chance = chance
        self._new_request_id = new_request_id
        self._max_neighbours = max_neighbours
        self._max_overlays = max_overlays
        self._known: dict[str, _Known] = {}
        self._overlays: dict[_OverlayKey, Topology] = {}
        self._waiting: set[_OverlayKey] = set()  # whose nodes are not instructed yet
        self._waits_until_s: float | None = None

    @property
    def peers(self) -> list[Peer]:
        return [known.peer for known in self._known.values()]

    def topology(self, part: StreamPart) -> dict[str, frozenset[str]]:
        """Every node of the partition with its neighbours."""
        overlays = (self._overlays.get(_OverlayKey(part, by_address)) for by_address in (True, False))
        return {node: overlay.neighbours(node) for overlay in overlays if overlay for node in overlay.nodes}

    @property
    def parts(self) -> list[StreamPart]:
        return sorted({key.part for key in self._overlays})

    def connect(self, peer: Peer, now_s: float) -> list[Outgoing]:
        """A node connected. An existing connection with the same id is dead."""
        if self._waits_until_s is None:
            self._waits_until_s = now_s + REUNION_S
        outgoing = self.disconnect(peer.peer_id, now_s)
        self._known[peer.peer_id] = _Known(peer=peer, version=2 if peer.address is None else 1, connected_at_s=now_s)
        return outgoing

    def disconnect(self, peer_id: str, now_s: float) -> list[Outgoing]:
        known = self._known.pop(peer_id, None)
        if known is None:
            return []
        return self._leave_all(known, known.sent_counters, now_s)

    def receive(self, peer_id: str, message: TrackerMessage, now_s: float) -> list[Outgoing]:
        """The messages to send in response to a message of a connected peer."""
        known = self._known[peer_id]
        known.version = message.version
        match message:
            case StatusMessage():
                self.counters["statuses"] += 1
                return self._apply_status(known, message, now_s)
            case StorageNodesRequest():
                self.counters["storage_lookups"] += 1
                return [Outgoing(peer_id, self._storage_nodes(message))]
            case RelayMessage():
                self.counters["relays"] += 1
                return self._relay(known, message)
        self.counters["unexpected_messages"] += 1
        return []

    def _apply_status(self, known: _Known, message: StatusMessage, now_s: float) -> list[Outgoing]:
        try:
            status = read_status(message.status)
        except WireError:
            self.counters["bad_statuses"] += 1
            return []
        outgoing = self._acknowledge(known, message, status)
        for part, reported in status.parts.items():
            outgoing += self._apply_part(known, part, reported, now_s)
        if status.is_complete and not known.peer.is_storage:
            left = [part for part in known.sent_counters if part not in status.parts]
            outgoing += self._leave_all(known, left, now_s)
        return outgoing + self._note_complete_report(known, now_s) if status.is_complete else outgoing

    def tick(self, now_s: float) -> list[Outgoing]:
        """The messages that are due. To be called `REPORT_S` after a storage node connected."""
        silent = [known for known in self._known.values() if now_s - known.connected_at_s >= REPORT_S]
        return [each for known in silent for each in self._note_complete_report(known, now_s)]

    def _note_complete_report(self, known: _Known, now_s: float) -> list[Outgoing]:
        """Let a storage node join all partitions once those that it is in are known."""
        if known.has_reported:
            return []
        known.has_reported = True
        return self._join_as_storage(known, now_s) if known.peer.is_storage else []

    def _acknowledge(self, known: _Known, message: StatusMessage, status: NodeStatus) -> list[Outgoing]:
        if not status.requires_acknowledgement or message.version != LATEST_TRACKER_VERSION:
            return []
        return [
            Outgoing(known.peer.peer_id, StatusAckMessage(request_id=message.request_id, **part.fields()))
            for part in status.parts
        ]

    def _apply_part(self, known: _Known, part: StreamPart, reported: PartStatus, now_s: float) -> list[Outgoing]:
        peer_id, key = known.peer.peer_id, _OverlayKey(part, known.peer.address is not None)
        if reported.leaves:
            return self._leave(peer_id, key, now_s)
        overlay = self._overlays.get(key) or self._open_overlay(key, now_s)
        if overlay is None:
            return []
        if reported.counter is not None and reported.counter < known.sent_counters.get(part, 0):
            return self._instruct(key, self._join(peer_id, key, now_s), now_s)
        if reported.counter is None:
            known.reported.pop(part, None)
            changed = self._join(peer_id, key, now_s)
        else:
            known.sent_counters[part] = reported.counter
            known.reported[part] = reported.linked
            repair = not self._has_to_wait(key, overlay.nodes | {peer_id}, now_s)
            changed = overlay.report(peer_id, reported.linked, now_s, repair=repair)
        uninstructed = {node for node in overlay.nodes if part not in self._known[node].sent_counters}
        return self._instruct(key, changed | uninstructed | {peer_id}, now_s)

    def _open_overlay(self, key: _OverlayKey, now_s: float) -> Topology | None:
        """A new overlay with the storage nodes, not instructed yet; None if there are too many overlays."""
        if len(self._overlays) >= self._max_overlays:
            self.counters["refused_overlays"] += 1
            return None
        overlay = self._overlays[key] = Topology(self._chance, self._max_neighbours)
        for known in self._known.values():
            if known.peer.is_storage and known.has_reported and (known.peer.address is not None) == key.by_address:
                overlay.join(known.peer.peer_id, now_s)
        return overlay

    def _join_as_storage(self, known: _Known, now_s: float) -> list[Outgoing]:
        """Add a storage node to the partitions that it is not in."""
        peer_id, by_address = known.peer.peer_id, known.peer.address is not None
        outgoing = []
        for key, overlay in self._overlays.items():
            if key.by_address == by_address and peer_id not in overlay.nodes:
                outgoing += self._instruct(key, self._join(peer_id, key, now_s) | {peer_id}, now_s)
        return outgoing

    def _join(self, peer_id: str, key: _OverlayKey, now_s: float) -> frozenset[str]:
        overlay = self._overlays[key]
        return overlay.join(peer_id, now_s, repair=not self._has_to_wait(key, overlay.nodes | {peer_id}, now_s))

    def _leave_all(self, known: _Known, parts: Iterable[StreamPart], now_s: float) -> list[Outgoing]:
        keys = [_OverlayKey(part, known.peer.address is not None) for part in parts]
        return [each for key in keys for each in self._leave(known.peer.peer_id, key, now_s)]

    def _leave(self, peer_id: str, key: _OverlayKey, now_s: float) -> list[Outgoing]:
        overlay = self._overlays.get(key)
        if overlay is None or peer_id not in overlay.nodes:
            return []
        if peer_id in self._known:
            self._known[peer_id].sent_counters.pop(key.part, None)
            self._known[peer_id].reported.pop(key.part, None)
        changed = overlay.leave(peer_id, now_s, repair=not self._has_to_wait(key, overlay.nodes - {peer_id}, now_s))
        if not overlay.nodes:
            del self._overlays[key]
            self._waiting.discard(key)
        return self._instruct(key, changed, now_s)

    def _is_reunion(self, now_s: float) -> bool:
        """Whether the tracker has just started."""
        return self._waits_until_s is not None and now_s < self._waits_until_s

    def _has_to_wait(self, key: _OverlayKey, nodes: frozenset[str], now_s: float) -> bool:
        """Whether one of the nodes is linked to a node that has not reported yet."""
        return self._is_reunion(now_s) and any(
            self._known[node].reported.get(key.part, frozenset()) - nodes for node in nodes
        )

    def _instruct(self, key: _OverlayKey, nodes: Iterable[str], now_s: float) -> list[Outgoing]:
        """Instruct these nodes, unless they have reported the right links."""
        overlay = self._overlays.get(key)
        if overlay is None:
            return []
        if self._has_to_wait(key, overlay.nodes, now_s):
            self._waiting.add(key)
            return []
        if key in self._waiting:
            self._waiting.discard(key)
            overlay.repair(now_s)
            nodes = overlay.nodes
        outgoing = []
        for known in (self._known[node] for node in sorted(nodes)):
            wanted, reported = overlay.neighbours(known.peer.peer_id), known.reported.get(key.part)
            if reported is None or reported & overlay.nodes != wanted:
                outgoing.append(Outgoing(known.peer.peer_id, self._instruction(known, key.part, wanted)))
        return outgoing

    def _instruction(self, known: _Known, part: StreamPart, wanted: frozenset[str]) -> InstructionMessage:
        known.reported.pop(part, None)
        known.sent_counters[part] = known.sent_counters.get(part, 0) + 1
        self.counters["instructions"] += 1
        return InstructionMessage(
            version=known.version,
            request_id=self._new_request_id(),
            node_addresses=tuple(self._known[node].peer.name_for_others for node in sorted(wanted)),
            counter=known.sent_counters[part],
            **part.fields(),
        )

    def _storage_nodes(self, request: StorageNodesRequest) -> StorageNodesResponse:
        return StorageNodesResponse(
            request_id=request.request_id,
            stream_id=request.stream_id,
            stream_partition=request.stream_partition,
            node_addresses=tuple(sorted(peer.name_for_others for peer in self.peers if peer.is_storage)),
        )

    def _relay(self, known: _Known, message: RelayMessage) -> list[Outgoing]:
        """Forward a message to its target, if its originator is the sender."""
        match message.originator:
            case {"peerId": originator} if originator != known.peer.peer_id:
                self.counters["forged_relays"] += 1
                return []
        target = self._known.get(message.target_node)
        if target is None:
            unknown = ErrorMessage(
                version=message.version,
                request_id=message.request_id,
                error_code=UNKNOWN_PEER,
                target_node=message.target_node,
            )
            return [Outgoing(known.peer.peer_id, unknown)]
        return [Outgoing(target.peer.peer_id, replace(message, version=target.version))]

"""The mesh: the neighbours of a node in each partition, and the actions that follow from events. Pure: no I/O.

Every event is a method call that returns actions; the mesh opens no socket and reads no clock. Neighbours
are known by their websocket addresses, because that is what a tracker names. For one partition and one neighbour:

    instructed by the tracker ──> Dial ──> link is up ──> subscribe at it ──> linked ──> Replay, then messages both ways
                                    ^                                           │
                                    └── after a delay, while instructed <───────┴── link is down: Report
    the neighbour subscribes here ────────────────────────────────────────────> linked

A tracker instructs both nodes at once. The one with the higher address waits before it dials, so that there is usually
one link and not two.

A partition is left when no client needs it, nothing was published to it for a while, and no tracker or neighbour
requested it. A storage node leaves only partitions that a neighbour added.

Neighbours are not authenticated, so the number of partitions that only they add is limited, per machine and in total.

A link that an instruction does not name is closed when every neighbour in it was tried and one of them is linked, so
that messages can flow meanwhile.

The counter in a status names the last instruction that was followed. An instruction counts as followed when every
neighbour in it was tried: a status sent during the first attempt must not look like a failure.
"""

from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final, NamedTuple

from node.peers.connection import RECONNECT
from node.streams import MAX_STREAM_ID_BYTES, StreamPart
from node.tracker.status import PartStatus
from protocol.streamr.control import ControlMessage, SubscribeRequest, UnsubscribeRequest
from protocol.streamr.tracker import InstructionMessage

MAX_PARTS: Final = 10_000
MAX_PARTS_OF_NEIGHBOURS: Final = 5_000  # that only neighbours added
MAX_PARTS_OF_ONE_ORIGIN: Final = 1_000  # that neighbours on one machine added
MAX_NEIGHBOURS: Final = 100
IDLE_PART_S: Final = 600.0
IDLE_LINK_S: Final = 10.0
DIAL_DELAY_S: Final = 0.5


class Dial(NamedTuple):
    """Open a link. Call `link_up` or `link_down` then."""

    address: str


class HangUp(NamedTuple):
    """Close an unused link. No `link_down` is needed."""

    address: str


class Send(NamedTuple):
    address: str
    message: ControlMessage


class Replay(NamedTuple):
    """Send recent messages to a new neighbour."""

    address: str
    part: StreamPart


class Report(NamedTuple):
    """Report the changed status to the tracker soon."""


Action = Dial | HangUp | Send | Replay | Report


@dataclass(slots=True)
class _Part:
    is_requested: bool = False  # by a client
    used_s: float = 0.0
    wanted: set[str] = field(default_factory=set)  # addresses, by the last instruction
    untried: set[str] = field(default_factory=set)
    surplus: set[str] = field(default_factory=set)  # linked, and not in the last instruction
    linked: set[str] = field(default_factory=set)
    counter: int = 0  # of the last instruction
    followed_counter: int = 0
    accepts_any_counter: bool = False
    added_by: str = ""  # the origin of the neighbour that added the partition


@dataclass(slots=True)
class _Peer:
    peer_id: str = ""
    origin: str = ""
    failures: int = 0  # in a row
    is_up: bool = False
    is_dialling: bool = False
    redial_s: float | None = None
    idle_since_s: float | None = None


class Mesh:
    def __init__(self, own_address: str, *, chance: Random, stores_all: bool) -> None:
        self.own_address = own_address
        self._chance = chance
        self._stores_all = stores_all
        self._parts: dict[StreamPart, _Part] = {}
        self._peers: dict[str, _Peer] = {}
        self._added: Counter[str] = Counter()  # partitions, by the origin that added them

    @property
    def parts(self) -> list[StreamPart]:
        return list(self._parts)

    def neighbours(self, part: StreamPart) -> frozenset[str]:
        return frozenset(self._parts[part].linked) if part in self._parts else frozenset()

    def status(self) -> dict[StreamPart, PartStatus]:
        """The status to report to the tracker."""
        return {
            name: PartStatus(
                linked=frozenset(self._peers[address].peer_id for address in part.linked), counter=part.followed_counter
            )
            for name, part in self._parts.items()
        }

    # --- requests of this node ---

    def want(self, part: StreamPart, now_s: float, *, wanted: bool) -> list[Action]:
        """The first client subscribed to a partition, or the last one left."""
        if not wanted and part not in self._parts:
            return []
        state, actions = self._enter(part, now_s)
        if state is not None:
            state.is_requested, state.used_s = wanted, now_s
        return actions

    def use(self, part: StreamPart, now_s: float, *, added_by: str = "") -> list[Action]:
        """A message of the partition will be forwarded; `added_by` is the origin of the neighbour that sent it."""
        state, actions = self._enter(part, now_s, added_by=added_by)
        if state is not None:
            state.used_s = now_s
        return actions

    def _enter(self, part: StreamPart, now_s: float, *, added_by: str = "") -> tuple[_Part | None, list[Action]]:
        if part in self._parts:
            if not added_by:
                self._adopt(self._parts[part])
            return self._parts[part], []
        if len(self._parts) >= MAX_PARTS or (added_by and not self._may_add(part, added_by)):
            return None, []
        self._parts[part] = _Part(used_s=now_s, added_by=added_by)
        if added_by:
            self._added[added_by] += 1
        return self._parts[part], [Report()]

    def _may_add(self, part: StreamPart, origin: str) -> bool:
        return (
            self._added[origin] < MAX_PARTS_OF_ONE_ORIGIN
            and self._added.total() < MAX_PARTS_OF_NEIGHBOURS
            and len(part.stream_id) <= MAX_STREAM_ID_BYTES
        )

    def _adopt(self, part: _Part) -> None:
        """Stop charging the origin: a client or the tracker needs the partition, or it is left."""
        if part.added_by:
            self._added[part.added_by] -= 1
            if not self._added[part.added_by]:
                del self._added[part.added_by]
            part.added_by = ""

    # --- instructions of the tracker ---

    def reset_counters(self) -> None:
        """Accept any counter in the next instruction, because a new tracker starts counting again."""
        for part in self._parts.values():
            part.accepts_any_counter = True

    def instruct(self, instruction: InstructionMessage, now_s: float) -> list[Action]:
        """Follow an instruction, unless its counter is lower than that of the last one."""
        name = StreamPart(instruction.stream_id, instruction.stream_partition)
        part, actions = self._enter(name, now_s)
        if part is None or (0 < instruction.counter < part.counter and not part.accepts_any_counter):
            return actions
        part.accepts_any_counter = False
        part.wanted = set(instruction.node_addresses[:MAX_NEIGHBOURS]) - {self.own_address}
        part.counter, part.used_s = instruction.counter, now_s
        part.untried = {address for address in part.wanted if not self._is_up(address)}
        part.surplus = part.linked - part.wanted
        for address in sorted(part.wanted - part.linked):
            actions += self._reach(name, address, now_s)
        return [*actions, *self._settle(name, now_s), Report()]

    def _settle(self, name: StreamPart, now_s: float) -> list[Action]:
        """Once every instructed neighbour was tried, the instruction is followed."""
        part, actions = self._parts[name], list[Action]()
        if part.untried:
            return actions
        part.followed_counter = part.counter
        if part.surplus and (not part.wanted or part.linked & part.wanted):
            for address in sorted(part.surplus & part.linked):
                actions += self._unlink(name, address, now_s)
            part.surplus = set()
            actions.append(Report())
        return actions

    def _reach(self, name: StreamPart, address: str, now_s: float) -> list[Action]:
        peer = self._peer(address)
        if peer.is_up:
            return self._link(name, address, now_s, subscribe=True)
        if peer.is_dialling or peer.redial_s is not None:
            return []
        if self.own_address > address:
            peer.redial_s = now_s + DIAL_DELAY_S
            return []
        peer.is_dialling = True
        return [Dial(address)]

    # --- links ---

    def link_up(self, address: str, peer_id: str, now_s: float, *, origin: str = "") -> list[Action]:
        """A link is open, from either side. `origin` is charged for the neighbour; by default its address."""
        peer = self._peer(address)
        peer.origin = origin or address
        peer.peer_id, peer.is_up, peer.is_dialling, peer.redial_s = peer_id, True, False, None
        peer.failures, peer.idle_since_s = 0, now_s
        actions: list[Action] = []
        for name, part in self._parts.items():
            if address in part.wanted:
                actions += self._link(name, address, now_s, subscribe=True)
        return actions

    def link_down(self, address: str, now_s: float) -> list[Action]:
        """A link was lost, or could not be opened."""
        peer = self._peers.get(address)
        if peer is None:
            return []
        peer.is_up = peer.is_dialling = False
        is_wanted, actions = False, list[Action]()
        for name, part in self._parts.items():
            part.linked.discard(address)
            part.untried.discard(address)
            actions += self._settle(name, now_s)
            is_wanted = is_wanted or address in part.wanted
        if is_wanted:
            peer.failures += 1
            peer.redial_s = now_s + RECONNECT.wait_s(peer.failures, self._chance.random())
        else:
            del self._peers[address]
        return [*actions, Report()]

    def link_replaced(self, address: str) -> list[Action]:
        """One of several links to a neighbour has ended. The subscription and the last messages may be lost with it, so
        both are sent again over another link."""
        actions: list[Action] = []
        for name, part in self._parts.items():
            if address in part.linked:
                actions += [self._subscribe(name, address)] if address in part.wanted else []
                actions.append(Replay(address, name))
        return actions

    def receive(self, address: str, message: ControlMessage, now_s: float) -> list[Action]:
        """A neighbour subscribes or unsubscribes."""
        if not self._is_up(address):
            return []
        match message:
            case SubscribeRequest():
                name = StreamPart(message.stream_id, message.stream_partition)
                part, actions = self._enter(name, now_s, added_by=self._peers[address].origin)
                if part is None or len(part.linked) >= MAX_NEIGHBOURS:
                    return actions
                return actions + self._link(name, address, now_s, subscribe=False)
            case UnsubscribeRequest():
                name = StreamPart(message.stream_id, message.stream_partition)
                return self._drop(name, address, now_s)
        return []

    def use_link(self, address: str, now_s: float) -> None:
        """A link is used for something other than a partition, so it is not idle."""
        peer = self._peers.get(address)
        if peer is not None and peer.idle_since_s is not None:
            peer.idle_since_s = now_s

    def tick(self, now_s: float) -> list[Action]:
        """Dial neighbours again, leave unused partitions, and close unused links."""
        actions = self._dial_again(now_s)
        for name in [name for name, part in self._parts.items() if self._is_unused(part, now_s)]:
            actions += self._leave(name, now_s)
        return actions + self._hang_up_idle(now_s)

    def _dial_again(self, now_s: float) -> list[Action]:
        actions: list[Action] = []
        for address, peer in list(self._peers.items()):
            if peer.redial_s is not None and not any(address in part.wanted for part in self._parts.values()):
                del self._peers[address]
            elif peer.redial_s is not None and peer.redial_s <= now_s:
                peer.redial_s, peer.is_dialling = None, True
                actions.append(Dial(address))
        return actions

    def _is_unused(self, part: _Part, now_s: float) -> bool:
        is_old = part.used_s < now_s - IDLE_PART_S
        return is_old and not (part.is_requested or (self._stores_all and not part.added_by))

    def _leave(self, name: StreamPart, now_s: float) -> list[Action]:
        actions: list[Action] = []
        for address in sorted(self._parts[name].linked):
            actions += self._unlink(name, address, now_s)
        self._adopt(self._parts.pop(name))
        return [*actions, Report()]

    def _hang_up_idle(self, now_s: float) -> list[Action]:
        idle = [
            address
            for address, peer in self._peers.items()
            if peer.is_up and peer.idle_since_s is not None and peer.idle_since_s <= now_s - IDLE_LINK_S
        ]
        for address in idle:
            del self._peers[address]
        return [HangUp(address) for address in idle]

    def _link(self, name: StreamPart, address: str, now_s: float, *, subscribe: bool) -> list[Action]:
        part, actions = self._parts[name], list[Action]()
        part.untried.discard(address)
        if address in part.linked:
            return self._settle(name, now_s)
        part.linked.add(address)
        self._peers[address].idle_since_s = None
        if subscribe:
            actions.append(self._subscribe(name, address))
        return [*actions, Replay(address, name), *self._settle(name, now_s), Report()]

    def _subscribe(self, name: StreamPart, address: str) -> Send:
        return Send(address, SubscribeRequest(**self._about(name)))

    def _unlink(self, name: StreamPart, address: str, now_s: float) -> list[Action]:
        self._parts[name].linked.discard(address)
        self._note_idle(address, now_s)
        return [Send(address, UnsubscribeRequest(**self._about(name)))]

    def _drop(self, name: StreamPart, address: str, now_s: float) -> list[Action]:
        part = self._parts.get(name)
        if part is None:
            return []
        part.linked.discard(address)
        part.wanted.discard(address)
        self._note_idle(address, now_s)
        return [Report()]

    def _note_idle(self, address: str, now_s: float) -> None:
        if address in self._peers and not any(address in part.linked for part in self._parts.values()):
            self._peers[address].idle_since_s = now_s

    def _about(self, name: StreamPart) -> dict[str, Any]:
        return {"request_id": f"{self._chance.getrandbits(64):016x}", **name.fields()}

    def _peer(self, address: str) -> _Peer:
        return self._peers.setdefault(address, _Peer())

    def _is_up(self, address: str) -> bool:
        return address in self._peers and self._peers[address].is_up

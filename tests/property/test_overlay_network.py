"""A whole network in one test: real meshes and a real tracker, with links, delays and deaths by chance.

Nothing here waits: the world is a bag of things on their way, and chance picks what arrives next. What one sends to
another over the same link stays in order, as over a socket.
"""

from collections import defaultdict, deque
from collections.abc import Iterable
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from node.hub.duplicates import ChainMemory
from node.overlay.mesh import Action, Dial, HangUp, Mesh, Replay, Report, Send
from node.streams import StreamPart
from node.tracker.status import write_status
from node.tracker.tracker import Outgoing, Peer, Tracker
from protocol.streamr.ids import MessageRef
from protocol.streamr.tracker import InstructionMessage, StatusMessage
from tests.effort import effort

PART = StreamPart("stream", 0)
MAX_STEPS = 20_000


class World:
    """All messages are of one chain, numbered, wherever they are published. What a node has stored, in the order in
    which it came, is there again when the node is.

    With `replays=False` new neighbours are given nothing of what was before, as by nodes of other makers.
    """

    def __init__(self, seed: int, *, replays: bool = True) -> None:
        self.chance = Random(seed)
        self.now_s = 0.0
        self.replays = replays
        self.tracker = self.new_tracker()
        self.meshes: dict[str, Mesh] = {}
        self.disks: defaultdict[str, list[int]] = defaultdict(list)
        self.memories: dict[str, ChainMemory] = {}
        self.published = 0
        self.storages: set[str] = set()
        self.links: set[frozenset[str]] = set()
        self.on_the_way: defaultdict[tuple[str, str], deque[Send | int]] = defaultdict(deque)
        self.to_tracker: defaultdict[str, deque[StatusMessage]] = defaultdict(deque)
        self.from_tracker: defaultdict[str, deque[InstructionMessage]] = defaultdict(deque)
        self.dials: list[tuple[str, str]] = []
        self.unlucky_pairs: set[frozenset[str]] = set()
        self.reporting: set[str] = set()
        self.without_tracker: set[str] = set()

    def new_tracker(self) -> Tracker:
        return Tracker(chance=Random(self.chance.getrandbits(32)), new_request_id=lambda: "r", max_neighbours=3)

    def start(self, name: str, *, is_storage: bool = False) -> None:
        self.meshes[name] = Mesh(name, chance=self.chance, stores_all=True)
        self.memories[name] = ChainMemory()
        for number in sorted(self.disks[name]):
            self.is_new(name, number)
        self.storages = self.storages | {name} if is_storage else self.storages - {name}
        self.without_tracker.add(name)
        self.act(name, self.meshes[name].want(PART, self.now_s, wanted=True))

    def kill(self, name: str) -> None:
        del self.meshes[name]
        self.reporting.discard(name)
        for queues in (self.to_tracker, self.from_tracker):
            queues.pop(name, None)
        for other in list(self.meshes):
            self.cut(name, other)
        if name in self.without_tracker:
            self.without_tracker.discard(name)
        else:
            self.send(self.tracker.disconnect(name, self.now_s))

    def restart_tracker(self) -> None:
        """Every node connects again, each when chance lets it."""
        self.tracker = self.new_tracker()
        self.to_tracker.clear()
        self.from_tracker.clear()
        self.without_tracker = set(self.meshes)

    def cut(self, one: str, other: str) -> None:
        if frozenset((one, other)) not in self.links:
            return
        self.links.discard(frozenset((one, other)))
        for name, peer in ((one, other), (other, one)):
            self.on_the_way.pop((name, peer), None)
            if name in self.meshes:
                self.act(name, self.meshes[name].link_down(peer, self.now_s))

    def send(self, outgoing: Iterable[Outgoing]) -> None:
        for to, message in outgoing:
            assert isinstance(message, InstructionMessage)
            self.from_tracker[to].append(message)

    # --- messages ---

    def publish(self, name: str) -> None:
        self.deliver(name, self.published, source="")
        self.published += 1

    def deliver(self, name: str, number: int, source: str) -> None:
        """As a node does: what is new is stored, and passed on to the neighbours."""
        if not self.is_new(name, number) or number in self.disks[name]:
            return
        self.disks[name].append(number)
        self.act(name, self.meshes[name].use(PART, self.now_s))
        for address in sorted(self.meshes[name].neighbours(PART) - {source}):
            self.pass_on(name, address, number)

    def is_new(self, name: str, number: int) -> bool:
        previous = MessageRef(number - 1, 0) if number else None
        return self.memories[name].add(MessageRef(number, 0), previous)

    def pass_on(self, name: str, address: str, message: Send | int) -> None:
        if frozenset((name, address)) in self.links:
            self.on_the_way[name, address].append(message)

    def stored(self) -> dict[str, set[int]]:
        return {name: set(self.disks[name]) for name in self.meshes}

    # --- happenings ---

    def act(self, name: str, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case Dial(address):
                    self.dials.append((name, address))
                case HangUp(address):
                    self.cut(name, address)
                case Send(address):
                    self.pass_on(name, address, action)
                case Report():
                    self.reporting.add(name)
                case Replay(address):
                    for number in self.disks[name] if self.replays else ():
                        self.pass_on(name, address, number)

    def step(self) -> bool:
        """Let one thing happen. Whether there was anything."""
        self.now_s += 0.01
        happenings = [("dial", pair) for pair in self.dials]
        happenings += [("message", pair) for pair, queue in self.on_the_way.items() if queue]
        happenings += [("status", (name, "")) for name, queue in self.to_tracker.items() if queue]
        happenings += [("instruction", (name, "")) for name, queue in self.from_tracker.items() if queue]
        happenings += [("report", (name, "")) for name in sorted(self.reporting - self.without_tracker)]
        happenings += [("find tracker", (name, "")) for name in sorted(self.without_tracker)]
        if not happenings:
            return False
        kind, (name, other) = self.chance.choice(happenings)
        match kind:
            case "dial":
                self.dials.remove((name, other))
                self.finish_dial(name, other)
            case "message":
                self.receive(other, self.on_the_way[name, other].popleft(), source=name)
            case "status":
                self.send(self.tracker.receive(name, self.to_tracker[name].popleft(), self.now_s))
            case "instruction":
                self.act(name, self.meshes[name].instruct(self.from_tracker[name].popleft(), self.now_s))
            case "report":
                self.reporting.discard(name)
                status = write_status(self.meshes[name].status())
                self.to_tracker[name].append(StatusMessage(version=1, request_id="s", status=status))
            case "find tracker":
                self.without_tracker.discard(name)
                self.meshes[name].reset_counters()
                peer = Peer(peer_id=name, address=name, is_storage=name in self.storages)
                self.send(self.tracker.connect(peer, self.now_s))
                self.reporting.add(name)
        return True

    def receive(self, name: str, message: Send | int, source: str) -> None:
        if isinstance(message, int):
            self.deliver(name, message, source)
        else:
            self.act(name, self.meshes[name].receive(source, message.message, self.now_s))

    def finish_dial(self, name: str, other: str) -> None:
        if name not in self.meshes:
            return
        pair = frozenset((name, other))
        if other not in self.meshes or pair in self.unlucky_pairs:
            self.act(name, self.meshes[name].link_down(other, self.now_s))
        elif pair not in self.links:
            self.links.add(pair)
            self.act(name, self.meshes[name].link_up(other, other, self.now_s))
            self.act(other, self.meshes[other].link_up(name, name, self.now_s))

    def settle(self) -> None:
        """Let things happen until nothing does, also after every waiting time that a mesh may have is over."""
        steps = 0
        for _ in range(8):
            while self.step():
                steps += 1
                assert steps < MAX_STEPS, "the network does not come to rest"
            self.pass_time(31)
            self.reporting |= self.meshes.keys()  # as every node does now and then
        while self.step():
            pass

    def pass_time(self, seconds: float) -> None:
        self.now_s += seconds
        for name in sorted(self.meshes):
            self.act(name, self.meshes[name].tick(self.now_s))

    def linked(self) -> dict[str, frozenset[str]]:
        return {name: mesh.neighbours(PART) for name, mesh in self.meshes.items()}


def reachable(graph: dict[str, frozenset[str]], start: str) -> set[str]:
    seen, queue = {start}, [start]
    for node in queue:
        new = graph[node] - seen
        seen |= new
        queue += new
    return seen


EVENTS = ["start", "start", "start as storage", "kill", "cut", "restart tracker", "publish", "publish"]


@settings(deadline=None, max_examples=effort(test=25, soak=5_000))
@given(
    seed=st.integers(0, 2**32),
    events=st.lists(st.tuples(st.sampled_from(EVENTS), st.integers(0, 6), st.integers(0, 6)), max_size=30),
    steps_between=st.integers(0, 40),
)
def test_after_any_restart_the_nodes_form_one_network_and_all_have_every_message(
    seed: int, events: list[tuple[str, int, int]], steps_between: int
) -> None:
    world = World(seed)
    for kind, number, other in events:
        name = f"node-{number}"
        if kind.startswith("start") and name not in world.meshes:
            world.start(name, is_storage="storage" in kind)
        elif kind == "kill" and name in world.meshes:
            world.kill(name)
        elif kind == "cut":
            world.cut(name, f"node-{other}")
        elif kind == "restart tracker":
            world.restart_tracker()
        elif kind == "publish" and name in world.meshes:
            world.publish(name)
        for _ in range(steps_between):
            world.step()
        world.pass_time(1)
    world.settle()
    graph, stored = world.linked(), world.stored()
    assert all(reachable(graph, name) == set(graph) for name in graph)
    assert graph == world.tracker.topology(PART)
    assert all(messages == set().union(*stored.values()) for messages in stored.values())


@settings(deadline=None, max_examples=effort(test=25, soak=5_000))
@given(
    seed=st.integers(0, 2**32),
    storages=st.lists(st.booleans(), min_size=2, max_size=7),
    restarts=st.integers(1, 3),
    messages_between=st.integers(1, 20),
)
def test_a_tracker_that_restarts_costs_no_message_even_where_nothing_is_replayed(
    seed: int, storages: list[bool], restarts: int, messages_between: int
) -> None:
    world = World(seed, replays=False)
    for number, is_storage in enumerate(storages):
        world.start(f"node-{number}", is_storage=is_storage)
    world.settle()
    for _ in range(restarts):
        world.restart_tracker()
        for _ in range(messages_between):
            world.publish(world.chance.choice(sorted(world.meshes)))
            for _ in range(world.chance.randrange(8)):
                world.step()
    world.settle()
    assert {len(messages) for messages in world.stored().values()} == {world.published}


@settings(deadline=None, max_examples=effort(test=10, soak=500))
@given(st.integers(0, 2**32))
def test_a_pair_that_can_never_connect_does_not_divide_the_network(seed: int) -> None:
    world = World(seed)
    world.unlucky_pairs.add(frozenset(("node-0", "node-1")))
    for number in range(6):
        world.start(f"node-{number}")
    world.settle()
    graph = world.linked()
    assert all(reachable(graph, name) == set(graph) for name in graph)

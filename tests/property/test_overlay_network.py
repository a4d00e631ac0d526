"""A whole network in one test: real meshes and a real tracker, with links, delays and deaths by chance.

Nothing here waits: the world is a bag of things on their way, and chance picks what arrives next. What one sends to
another over the same link stays in order, as over a socket.
"""

from collections import defaultdict, deque
from collections.abc import Iterable
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from node.overlay.mesh import Action, Dial, HangUp, Mesh, Replay, Report, Send
from node.streams import StreamPart
from node.tracker.status import write_status
from node.tracker.tracker import Outgoing, Peer, Tracker
from protocol.streamr.tracker import InstructionMessage, StatusMessage

PART = StreamPart("stream", 0)
MAX_STEPS = 20_000


class World:
    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.now_s = 0.0
        self.tracker = Tracker(chance=Random(seed + 1), new_request_id=lambda: "r", max_neighbours=3)
        self.meshes: dict[str, Mesh] = {}
        self.links: set[frozenset[str]] = set()
        self.on_the_way: defaultdict[tuple[str, str], deque[Send]] = defaultdict(deque)
        self.to_tracker: defaultdict[str, deque[StatusMessage]] = defaultdict(deque)
        self.from_tracker: defaultdict[str, deque[InstructionMessage]] = defaultdict(deque)
        self.dials: list[tuple[str, str]] = []
        self.unlucky_pairs: set[frozenset[str]] = set()
        self.reporting: set[str] = set()

    def start(self, name: str) -> None:
        self.meshes[name] = Mesh(name, chance=self.chance, keeps_everything=True)
        self.send(self.tracker.connect(Peer(peer_id=name, address=name), self.now_s))
        self.act(name, self.meshes[name].want(PART, self.now_s, wanted=True))

    def kill(self, name: str) -> None:
        del self.meshes[name]
        self.reporting.discard(name)
        for queues in (self.to_tracker, self.from_tracker):
            queues.pop(name, None)
        for other in list(self.meshes):
            self.cut(name, other)
        self.send(self.tracker.disconnect(name, self.now_s))

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

    def act(self, name: str, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case Dial(address):
                    self.dials.append((name, address))
                case HangUp(address):
                    self.cut(name, address)
                case Send(address):
                    if frozenset((name, address)) in self.links:
                        self.on_the_way[name, address].append(action)
                case Report():
                    self.reporting.add(name)
                case Replay():
                    pass

    def step(self) -> bool:
        """Let one thing happen. Whether there was anything."""
        self.now_s += 0.01
        happenings = [("dial", pair) for pair in self.dials]
        happenings += [("message", pair) for pair, queue in self.on_the_way.items() if queue]
        happenings += [("status", (name, "")) for name, queue in self.to_tracker.items() if queue]
        happenings += [("instruction", (name, "")) for name, queue in self.from_tracker.items() if queue]
        happenings += [("report", (name, "")) for name in sorted(self.reporting)]
        if not happenings:
            return False
        kind, (name, other) = self.chance.choice(happenings)
        match kind:
            case "dial":
                self.dials.remove((name, other))
                self.finish_dial(name, other)
            case "message":
                _, message = self.on_the_way[name, other].popleft()
                self.act(other, self.meshes[other].receive(name, message, self.now_s))
            case "status":
                self.send(self.tracker.receive(name, self.to_tracker[name].popleft(), self.now_s))
            case "instruction":
                self.act(name, self.meshes[name].instruct(self.from_tracker[name].popleft(), self.now_s))
            case "report":
                self.reporting.discard(name)
                status = write_status(self.meshes[name].status())
                self.to_tracker[name].append(StatusMessage(version=1, request_id="s", status=status))
        return True

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
            self.now_s += 31
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


@settings(deadline=None)
@given(
    seed=st.integers(0, 2**32),
    events=st.lists(
        st.tuples(st.sampled_from(["start", "start", "kill", "cut"]), st.integers(0, 9), st.integers(0, 9)), max_size=20
    ),
    steps_between=st.integers(0, 40),
)
def test_whoever_comes_dies_or_loses_a_link_the_rest_become_one_network_as_the_tracker_wants_it(
    seed: int, events: list[tuple[str, int, int]], steps_between: int
) -> None:
    world = World(seed)
    for kind, number, other in events:
        name = f"node-{number}"
        if kind == "start" and name not in world.meshes:
            world.start(name)
        elif kind == "kill" and name in world.meshes:
            world.kill(name)
        elif kind == "cut":
            world.cut(name, f"node-{other}")
        for _ in range(steps_between):
            world.step()
    world.settle()
    graph = world.linked()
    assert all(reachable(graph, name) == set(graph) for name in graph)
    assert graph == world.tracker.topology(PART)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**32))
def test_a_pair_that_can_never_connect_does_not_divide_the_network(seed: int) -> None:
    world = World(seed)
    world.unlucky_pairs.add(frozenset(("node-0", "node-1")))
    for number in range(6):
        world.start(f"node-{number}")
    world.settle()
    graph = world.linked()
    assert all(reachable(graph, name) == set(graph) for name in graph)

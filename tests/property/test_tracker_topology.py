"""The laws of the topology, under random histories of nodes that come, go, and lose their links."""

from collections.abc import Mapping, Set
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from node.tracker.topology import FAILED_PAIR_S, Topology, circle_edges

NAMES = st.integers(0, 24).map("node-{:02}".format)
DEGREES = st.integers(2, 6)
SEEDS = st.integers(0, 2**32)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("join"), NAMES, st.just([])),
        st.tuples(st.just("leave"), NAMES, st.just([])),
        st.tuples(st.just("report"), NAMES, st.lists(NAMES, max_size=8)),
        st.tuples(st.just("lose"), NAMES, st.lists(NAMES, max_size=2)),
    ),
    max_size=60,
)
Step = tuple[str, str, list[str]]


def take(topology: Topology, step: Step, now_s: float) -> frozenset[str]:
    kind, node, others = step
    match kind:
        case "join":
            return topology.join(node, now_s)
        case "leave":
            return topology.leave(node, now_s)
        case "lose":
            return topology.report(node, topology.neighbours(node) - set(others), now_s)
    return topology.report(node, others, now_s)


def reach(graph: Mapping[str, Set[str]], start: str) -> set[str]:
    seen, queue = {start}, [start]
    for node in queue:
        new = graph[node] - seen
        seen |= new
        queue += new
    return seen


def reachable(topology: Topology, start: str) -> set[str]:
    return reach({node: topology.neighbours(node) for node in topology.nodes}, start)


def edges(topology: Topology) -> set[frozenset[str]]:
    return {frozenset((node, other)) for node in topology.nodes for other in topology.neighbours(node)}


@given(SEEDS, DEGREES, STEPS)
def test_after_every_step_all_nodes_reach_each_other_over_a_bounded_number_of_links(
    seed: int, degree: int, steps: list[Step]
) -> None:
    topology = Topology(Random(seed), degree)
    for now_s, step in enumerate(steps):
        take(topology, step, now_s)
        for node in topology.nodes:
            assert len(topology.neighbours(node)) <= degree
            assert node not in topology.neighbours(node)
            assert all(node in topology.neighbours(other) for other in topology.neighbours(node))
        assert all(reachable(topology, node) == topology.nodes for node in topology.nodes)


@given(SEEDS, DEGREES, STEPS)
def test_every_node_whose_neighbours_changed_is_named_and_no_other(seed: int, degree: int, steps: list[Step]) -> None:
    topology = Topology(Random(seed), degree)
    for now_s, step in enumerate(steps):
        before = {node: topology.neighbours(node) for node in topology.nodes}
        changed = take(topology, step, now_s)
        differing = {node for node in topology.nodes if topology.neighbours(node) != before.get(node, frozenset())}
        assert differing <= changed <= topology.nodes


@given(SEEDS, DEGREES, STEPS)
def test_nodes_that_follow_their_instructions_get_no_more(seed: int, degree: int, steps: list[Step]) -> None:
    topology = Topology(Random(seed), degree)
    for now_s, step in enumerate(steps):
        take(topology, step, now_s)
    for node in sorted(topology.nodes):
        assert topology.report(node, topology.neighbours(node), len(steps)) == frozenset()


@given(SEEDS, DEGREES, STEPS, NAMES)
def test_a_node_that_comes_touches_no_more_nodes_than_it_has_neighbours(
    seed: int, degree: int, steps: list[Step], newcomer: str
) -> None:
    topology = Topology(Random(seed), degree)
    for step in steps:
        take(topology, step, 0)
    topology.leave(newcomer, 0)
    before = edges(topology)
    changed = topology.join(newcomer, 0)
    assert changed <= {newcomer} | topology.neighbours(newcomer)
    assert len(before - edges(topology)) <= degree // 2


@given(SEEDS, DEGREES, STEPS, NAMES)
def test_a_node_that_goes_costs_few_links_but_its_own(seed: int, degree: int, steps: list[Step], leaver: str) -> None:
    topology = Topology(Random(seed), degree)
    for step in steps:
        take(topology, step, 0)
    before, own = edges(topology), len(topology.neighbours(leaver))
    topology.leave(leaver, 0)
    assert len(before - edges(topology)) <= 2 * own
    assert len(edges(topology) - before) <= 2 * own


@given(SEEDS, DEGREES, STEPS)
def test_the_same_history_and_chance_give_the_same_graph(seed: int, degree: int, steps: list[Step]) -> None:
    one, other = Topology(Random(seed), degree), Topology(Random(seed), degree)
    for now_s, step in enumerate(steps):
        assert take(one, step, now_s) == take(other, step, now_s)
    assert edges(one) == edges(other)


@given(SEEDS, st.integers(6, 20), DEGREES)
def test_a_pair_that_could_not_connect_is_not_tried_again_while_others_can(seed: int, count: int, degree: int) -> None:
    topology = Topology(Random(seed), max(3, degree))
    for number in range(count):
        topology.join(f"node-{number:02}", 0)
    victim = "node-00"
    lost = min(topology.neighbours(victim))
    topology.report(victim, topology.neighbours(victim) - {lost}, 1)
    assert lost not in topology.neighbours(victim)
    topology.report(victim, topology.neighbours(victim), 2 + FAILED_PAIR_S)
    assert all(reachable(topology, node) == topology.nodes for node in topology.nodes)


def test_a_link_that_failed_and_came_to_be_after_all_is_kept() -> None:
    topology = Topology(Random(1))
    for node in "abc":
        topology.join(node, 0)
    topology.report("a", {"c"}, 1)
    assert topology.neighbours("a") == {"c"}
    topology.report("a", {"b", "c"}, 2)
    assert topology.neighbours("a") == {"b", "c"}


@given(st.lists(st.tuples(st.sampled_from("0123456789"), st.sampled_from("0123456789")), max_size=25))
def test_without_any_one_edge_of_a_circle_all_is_still_in_reach(pairs: list[tuple[str, str]]) -> None:
    graph: dict[str, set[str]] = {node: set() for node in "0123456789"}
    for one, other in pairs:
        if one != other:
            graph[one].add(other)
            graph[other].add(one)
    in_reach = reach(graph, "0")
    for one, other in circle_edges(graph, "0"):
        graph[one].remove(other)
        graph[other].remove(one)
        assert reach(graph, "0") == in_reach
        graph[one].add(other)
        graph[other].add(one)
    edges_in_reach = sum(len(graph[node]) for node in in_reach) // 2
    assert bool(circle_edges(graph, "0")) == (edges_in_reach >= len(in_reach))

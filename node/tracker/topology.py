"""The topology of one stream partition: which nodes are neighbours.

The topology is the graph that the tracker aims for. After every change it has four properties, which a test checks with
random histories:

1. Connected: a message of any node can reach every other.
2. Bounded: no node has more than `max_neighbours`.
3. Local: a node that joins or leaves changes only links near it. Nodes that follow their instructions change nothing.
4. Deterministic: the same history and the same seed give the same graph.

Repairs:

| problem | remedy |
|---|---|
| two parts without a link | link two nodes with free slots. A part without one has a circle: cut an edge of it |
| a node with free slots | link it to others with free slots |
| a node with two free slots, all others full | put it in the middle of an edge: a—b becomes a—node—b |

Every part has a free slot or a circle: where no node is full there are free slots, and a part without a circle is a
tree, whose leaves have one neighbour and room for another. So the first remedy never fails.

A pair that could not connect is left alone for a while, unless nothing else would join two parts.

With `repair=False` a change is only recorded, until the next repair: for a tracker that has not received the status of
all nodes yet.
"""

from collections.abc import Iterable, Mapping, Set
from random import Random
from typing import Final

DEFAULT_MAX_NEIGHBOURS: Final = 4
LEAST_MAX_NEIGHBOURS: Final = 2  # with one, three nodes could not be connected
FAILED_PAIR_S: Final = 60.0

Pair = frozenset[str]


class Topology:
    """The graph. Every method that changes it returns the nodes whose neighbours have changed."""

    def __init__(self, chance: Random, max_neighbours: int = DEFAULT_MAX_NEIGHBOURS) -> None:
        if max_neighbours < LEAST_MAX_NEIGHBOURS:
            raise ValueError(f"max_neighbours: {max_neighbours} is less than {LEAST_MAX_NEIGHBOURS}")
        self._chance = chance
        self._max_neighbours = max_neighbours
        self._neighbours: dict[str, set[str]] = {}
        self._failed_until_s: dict[Pair, float] = {}
        self._changed: set[str] = set()

    @property
    def nodes(self) -> frozenset[str]:
        return frozenset(self._neighbours)

    def neighbours(self, node: str) -> frozenset[str]:
        return frozenset(self._neighbours.get(node, ()))

    def join(self, node: str, now_s: float, *, repair: bool = True) -> frozenset[str]:
        """Add a node that has no links yet. A node that was added before is left unchanged."""
        if node not in self._neighbours:
            self._neighbours[node] = set()
            if repair:
                self._repair(now_s)
        return self._pop_changes()

    def leave(self, node: str, now_s: float, *, repair: bool = True) -> frozenset[str]:
        """Remove a node, and repair the graph."""
        for neighbour in sorted(self._neighbours.get(node, ())):
            self._unlink(node, neighbour)
        self._neighbours.pop(node, None)
        self._changed.discard(node)
        self._failed_until_s = {pair: until for pair, until in self._failed_until_s.items() if node not in pair}
        return self.repair(now_s) if repair else self._pop_changes()

    def report(self, node: str, linked: Iterable[str], now_s: float, *, repair: bool = True) -> frozenset[str]:
        """Apply the links that a node reports, after it had the time to follow its last instruction.

        Existing links stay if there are free slots, so that a restarted tracker does not change its network. An
        instructed link that does not exist counts as failed.
        """
        linked = set(linked) - {node}
        is_new = node not in self._neighbours
        own = self._neighbours.setdefault(node, set())
        for missing in sorted(own - linked):
            self._unlink(node, missing)
            self._failed_until_s[Pair((node, missing))] = now_s + FAILED_PAIR_S
        for extra in sorted(linked - own):
            if extra in self._neighbours and self._has_free_slot(node) and self._has_free_slot(extra):
                self._link(node, extra)
        if repair and (is_new or self._changed or self._drop_old_failures(now_s)):
            self._repair(now_s)
        return self._pop_changes()

    def repair(self, now_s: float) -> frozenset[str]:
        """Restore the properties of the graph."""
        self._repair(now_s)
        return self._pop_changes()

    def _repair(self, now_s: float) -> None:
        self._drop_old_failures(now_s)
        self._join_parts()
        self._fill_free_slots()

    def _pop_changes(self) -> frozenset[str]:
        changed, self._changed = frozenset(self._changed), set()
        return changed

    def _drop_old_failures(self, now_s: float) -> bool:
        old = [pair for pair, until_s in self._failed_until_s.items() if until_s <= now_s]
        for pair in old:
            del self._failed_until_s[pair]
        return bool(old)

    def _join_parts(self) -> None:
        joined: list[str] = []
        for part in self._parts():
            if joined:
                self._link(*self._choose_pair(self._open_slots(joined), self._open_slots(part)))
            joined += part

    def _parts(self) -> list[list[str]]:
        """The connected parts of the graph."""
        parts: list[list[str]] = []
        seen: set[str] = set()
        for node in sorted(self._neighbours):
            if node not in seen:
                part = _spanning_tree(self._neighbours, node)
                seen |= part.keys()
                parts.append(list(part))
        return parts

    def _open_slots(self, part: list[str]) -> list[str]:
        """The nodes of this part with free slots; if there are none, an edge is cut to free two."""
        with_slots = [node for node in part if self._has_free_slot(node)]
        if with_slots:
            return self._shuffled(with_slots)
        pair = self._chance.choice(circle_edges(self._neighbours, part[0]))
        self._unlink(*pair)
        return list(pair)

    def _choose_pair(self, some: list[str], others: list[str]) -> tuple[str, str]:
        pairs = ((one, other) for one in some for other in others if not self._has_failed(one, other))
        return next(pairs, (some[0], others[0]))

    def _fill_free_slots(self) -> None:
        for node in self._shuffled(sorted(node for node in self._neighbours if self._has_free_slot(node))):
            for other in self._shuffled(self._candidates(node)):
                if self._has_free_slot(node) and self._has_free_slot(other):
                    self._link(node, other)
            while self._free_slots(node) >= 2 and self._split_edge(node):
                pass

    def _candidates(self, node: str) -> list[str]:
        """The nodes that could still become neighbours of this node."""
        excluded = self._neighbours[node] | {node}
        return sorted(
            other for other in self._neighbours if other not in excluded and not self._has_failed(node, other)
        )

    def _split_edge(self, node: str) -> bool:
        candidates = self._candidates(node)
        for one in self._shuffled(candidates):
            ends = self._shuffled(sorted(self._neighbours[one].intersection(candidates)))
            if ends:
                self._unlink(one, ends[0])
                self._link(node, one)
                self._link(node, ends[0])
                return True
        return False

    def _shuffled(self, nodes: list[str]) -> list[str]:
        return self._chance.sample(nodes, len(nodes))

    def _free_slots(self, node: str) -> int:
        return self._max_neighbours - len(self._neighbours[node])

    def _has_free_slot(self, node: str) -> bool:
        return self._free_slots(node) > 0

    def _has_failed(self, one: str, other: str) -> bool:
        return Pair((one, other)) in self._failed_until_s

    def _link(self, one: str, other: str) -> None:
        self._neighbours[one].add(other)
        self._neighbours[other].add(one)
        self._changed |= {one, other}

    def _unlink(self, one: str, other: str) -> None:
        self._neighbours[one].discard(other)
        self._neighbours[other].discard(one)
        self._changed |= {one, other}


def circle_edges(neighbours: Mapping[str, Set[str]], start: str) -> list[tuple[str, str]]:
    """The edges reachable from a node that lie on a circle: each can be cut without disconnecting the graph."""
    found_from = _spanning_tree(neighbours, start)
    return [
        (node, neighbour)
        for node in sorted(found_from)
        for neighbour in sorted(neighbours[node])
        if node < neighbour and found_from[node] != neighbour and found_from[neighbour] != node
    ]


def _spanning_tree(neighbours: Mapping[str, Set[str]], root: str) -> dict[str, str | None]:
    """Every reachable node, with the node from which it was found."""
    found_from: dict[str, str | None] = {root: None}
    queue = [root]
    for node in queue:
        for neighbour in sorted(neighbours[node] - found_from.keys()):
            found_from[neighbour] = node
            queue.append(neighbour)
    return found_from

"""The graph of a plan: who waits for whom, and what is most urgent.

An edge either carries data (depends_on, a reference, reading what another wrote): if the one fails, the other is not
run. Or it only orders (overwriting what another read or wrote, a shared mutex): whatever becomes of the one, the other
is run after it.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import field

from go_ent.dataclass import dataclass
from go_ent.engine.strategies.hazards import Hazards

MOST_SHOWN = 20


class Cycle(ValueError):
    """Internal: raised when tasks depend on each other in a circle; `path` begins and ends with the same task."""

    def __init__(self, path: Sequence[str]) -> None:
        shown = list(path) if len(path) <= MOST_SHOWN else [*path[: MOST_SHOWN // 2], "…", *path[-MOST_SHOWN // 2 :]]
        super().__init__(f"tasks depend on each other in a circle: {' → '.join(shown)}")
        self.path = tuple(path)


@dataclass(frozen=True, slots=True)
class GraphNode:
    """What the graph must know of a task. `needs` are the indices of the tasks whose results it takes."""

    needs: tuple[int, ...] = ()
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    mutex: tuple[str, ...] = ()
    weight: float = 1.0


@dataclass(slots=True)
class Graph:
    """Nodes below `size` are the tasks in plan order; the others are joints: they stand for many edges, and do nothing.

    `needs` are the edges that carry data, `waits` counts all edges into a node, `followers` are all out of it, `order`
    is a topological order, and `urgency` is the weight of the longest chain that begins with the node.
    """

    size: int
    needs: list[list[int]] = field(default_factory=list)
    waits: list[int] = field(default_factory=list)
    followers: list[list[int]] = field(default_factory=list)
    order: list[int] = field(default_factory=list)
    urgency: list[float] = field(default_factory=list)

    def _add(self, node: int, needs: Iterable[int], after: Iterable[int]) -> None:
        data = sorted(set(needs))
        others = sorted(set(after).difference(data))
        self.needs[node] = data
        self.waits[node] = len(data) + len(others)
        for before in (*data, *others):
            self.followers[before].append(node)
        self.order.append(node)

    def _join(self, befores: Iterable[int]) -> int:
        """A new joint. What it hands on is up to the edges out of it."""
        self.needs.append([])
        self.waits.append(0)
        self.followers.append([])
        node = len(self.needs) - 1
        self._add(node, befores, ())
        return node


def topological(names: Sequence[str], needs: Sequence[Sequence[int]]) -> list[int]:
    """The indices so that each comes after what it needs, otherwise in plan order; or `Cycle`."""
    left = [len(set(of)) for of in needs]
    followers: list[list[int]] = [[] for _ in needs]
    for index, of in enumerate(needs):
        for before in set(of):
            followers[before].append(index)
    ready = [index for index, count in enumerate(left) if not count]
    order = []
    while ready:
        index = heapq.heappop(ready)
        order.append(index)
        for follower in followers[index]:
            left[follower] -= 1
            if not left[follower]:
                heapq.heappush(ready, follower)
    if len(order) < len(needs):
        raise Cycle([names[index] for index in _circle(needs, set(order))])
    return order


def _circle(needs: Sequence[Sequence[int]], done: set[int]) -> list[int]:
    """Each task that is left needs another that is left, so that going on leads into a circle."""
    at = next(index for index in range(len(needs)) if index not in done)
    seen: dict[int, int] = {}
    while at not in seen:
        seen[at] = len(seen)
        at = next(before for before in needs[at] if before not in done)
    circle = list(seen)[seen[at] :]
    first = circle.index(min(circle))
    return [*circle[first:], *circle[:first], circle[first]]


def build(names: Sequence[str], nodes: Sequence[GraphNode]) -> Graph:
    """The graph with its hazards. Those go along the topological order, so that they never close a circle."""
    size = len(nodes)
    graph = Graph(size, [[] for _ in nodes], [0] * size, [[] for _ in nodes])
    hazards = Hazards(graph._join)
    for index in topological(names, [node.needs for node in nodes]):
        node = nodes[index]
        needs, after = hazards.of(index, node.reads, node.writes, node.mutex)
        graph._add(index, needs.union(node.needs), after)
    graph.urgency = [0.0] * len(graph.needs)
    for index in reversed(graph.order):
        own = nodes[index].weight if index < size else 0.0
        graph.urgency[index] = own + max((graph.urgency[follower] for follower in graph.followers[index]), default=0.0)
    return graph

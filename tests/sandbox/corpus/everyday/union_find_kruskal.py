# expect: [30, 5, true, "eat", 3]
import operator
from graphlib import CycleError, TopologicalSorter


class DisjointSet:
    def __init__(self, items):
        self._parent = {item: item for item in items}

    def find(self, item):
        while self._parent[item] != item:
            self._parent[item] = item = self._parent[self._parent[item]]
        return item

    def union(self, a, b):
        a, b = self.find(a), self.find(b)
        self._parent[a] = b
        return a != b


EDGES = [("a", "b", 7), ("a", "d", 5), ("b", "c", 8), ("b", "d", 9), ("b", "e", 7), ("c", "e", 5), ("d", "e", 15), ("d", "f", 6), ("e", "f", 8)]
nodes = DisjointSet({node for edge in EDGES for node in edge[:2]})
tree = [(a, b, w) for a, b, w in sorted(EDGES, key=operator.itemgetter(2)) if nodes.union(a, b)]

recipe = {"bake": {"mix", "heat"}, "mix": {"buy"}, "eat": {"bake"}}
order = list(TopologicalSorter(recipe).static_order())
try:
    list(TopologicalSorter({"a": {"b"}, "b": {"a"}}).static_order())
except CycleError as error:
    cycle = len(error.args[1])
[sum(w for *_, w in tree), len(tree), order.index("bake") > order.index("mix"), order[-1], cycle]

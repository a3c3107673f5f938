"""A JSON Schema learned from results, for tools that don't say what they return.

It is meant to be read by a model and to refuse nothing that was seen: every value it was learned from is valid. So it
names types and properties, never sets of values: that three issues were "open" doesn't mean that all are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

MAX_DEPTH = 12  # deeper things may be anything
MANY_KEYS = 40  # with more, keys that come and go are data, not properties
MAX_KEYS = 200  # with more, keys are data even if they are always there
MAX_KEY = 100  # characters; longer ones aren't named

ORDER = ("object", "array", "string", "integer", "number", "boolean", "null")


def learn(values: Iterable[Any], most: int = 200) -> dict[str, Any]:
    """The schema of all the *values*, with *most* schemas in it at the most; what is left out of it may be anything.

    Values that aren't JSON are allowed, and may be anything too. No values: `{}`.
    """
    seen = Shape()
    for value in values:
        seen.add(value, MAX_DEPTH)
    schema: dict[str, Any] = {}
    waiting = deque([(seen, schema)])  # breadth first: when the number runs out, it is the details that go
    left = most - 1
    while waiting and left >= 0:
        shape, target = waiting.popleft()
        for inner, place in shape.describe(target, left):
            waiting.append((inner, place))
            left -= 1
    return schema


class Shape:
    """What was seen in one place."""

    __slots__ = ("anything", "counts", "items", "kinds", "objects", "properties", "values")

    def __init__(self) -> None:
        self.kinds: set[str] = set()
        self.anything = False
        self.objects = 0
        self.properties: dict[str, Shape] = {}
        self.counts: dict[str, int] = {}  # in how many of the objects
        self.values: Shape | None = None  # of an object whose keys are data
        self.items: Shape | None = None

    def add(self, value: Any, depth: int) -> None:
        if self.anything:
            return
        kind = _kind(value)
        if kind is None or (depth <= 0 and kind in ("object", "array")):
            self._forget()
            return
        self.kinds.add(kind)
        if kind == "array":
            for item in value:
                self.items = self.items or Shape()
                self.items.add(item, depth - 1)
        elif kind == "object":
            self.objects += 1
            for key, inner in value.items():
                self._add_property(key, inner, depth - 1)

    def _add_property(self, key: str, inner: Any, depth: int) -> None:
        if self.values is None and key not in self.properties and len(self.properties) == MAX_KEYS:
            self._to_map()
        if self.values is not None:
            self.values.add(inner, depth)
            return
        self.counts[key] = self.counts.get(key, 0) + 1
        self.properties.setdefault(key, Shape()).add(inner, depth)

    def _to_map(self) -> None:
        """Its keys are data: what is known of each is known of all."""
        self.values = self.values or Shape()
        for shape in self.properties.values():
            self.values.absorb(shape)
        self.properties, self.counts = {}, {}

    def absorb(self, other: Shape) -> None:
        """Know what *other* knows, as if all had been seen here. *other* is not to be used afterwards."""
        if self.anything or other.anything:
            self._forget()
            return
        self.kinds |= other.kinds
        self.objects += other.objects
        if other.items is not None:
            self.items = self.items or Shape()
            self.items.absorb(other.items)
        if other.values is not None and self.values is None:
            self._to_map()
        if other.values is not None and self.values is not None:
            self.values.absorb(other.values)
        for key, shape in other.properties.items():
            if self.values is None and key not in self.properties and len(self.properties) == MAX_KEYS:
                self._to_map()
            if self.values is not None:
                self.values.absorb(shape)
            else:
                self.counts[key] = self.counts.get(key, 0) + other.counts[key]
                self.properties.setdefault(key, Shape()).absorb(shape)

    def _forget(self) -> None:
        self.anything = True
        self.kinds, self.properties, self.counts, self.values, self.items = set(), {}, {}, None, None

    def describe(self, target: dict[str, Any], left: int) -> list[tuple[Shape, dict[str, Any]]]:
        """Write itself into *target*; the shapes within it, *left* at most, and where each is to be written."""
        if self.anything or not self.kinds:
            return []
        kinds = self.kinds - {"integer"} if "number" in self.kinds else self.kinds
        named = [kind for kind in ORDER if kind in kinds]
        target["type"] = named[0] if len(named) == 1 else named
        within: list[tuple[Shape, dict[str, Any]]] = []
        if self.items is not None and left > 0:
            within.append((self.items, target.setdefault("items", {})))
        always = {key for key, count in self.counts.items() if count == self.objects}
        if self.values is None and len(self.properties) > MANY_KEYS and len(always) < len(self.properties) / 2:
            self._to_map()
        if self.values is not None and len(within) < left:
            within.append((self.values, target.setdefault("additionalProperties", {})))
        keys = [key for key in self.properties if len(key) <= MAX_KEY][: left - len(within)]
        if keys:
            target["properties"] = {key: {} for key in keys}
            within += [(self.properties[key], target["properties"][key]) for key in keys]
            if required := [key for key in keys if key in always]:
                target["required"] = required
        return within


def _kind(value: Any) -> str | None:
    """The JSON type of a value; None for what isn't JSON."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, dict):
        return "object" if all(isinstance(key, str) for key in value) else None
    for kind, name in ((str, "string"), (int, "integer"), (float, "number"), (list, "array")):
        if isinstance(value, kind):
            return name
    return None

# expect: [["drill", "bolt", "nut"], 18248, 1800, "FrozenInstanceError", "bad: quantity can't be negative", ["sort_key", "name", "price_cents", "quantity", "tags"], true]
from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from functools import total_ordering


@dataclass(frozen=True, order=True)
class Item:
    sort_key: tuple = field(init=False, repr=False, compare=True)
    name: str
    price_cents: int
    quantity: int = 0
    tags: frozenset[str] = field(default_factory=frozenset, compare=False)

    def __post_init__(self):
        if self.quantity < 0:
            raise ValueError(f"{self.name}: quantity can't be negative")
        object.__setattr__(self, "sort_key", (-self.price_cents, self.name))

    @property
    def total(self) -> int:
        return self.price_cents * self.quantity


@total_ordering
class Priority:
    def __init__(self, level):
        self.level = level

    def __eq__(self, other):
        return self.level == other.level

    def __lt__(self, other):
        return self.level < other.level


items = [Item("bolt", 15, 100), Item("drill", 7999, 2, frozenset({"tool"})), Item("nut", 15, 50)]
more = replace(items[0], quantity=120)
try:
    items[0].name = "x"
except AttributeError as error:
    frozen = type(error).__name__
try:
    Item("bad", 1, -1)
except ValueError as error:
    bad = str(error)
fields = list(asdict(more))
[[i.name for i in sorted(items)], sum(i.total for i in items), more.total, frozen, bad, fields, Priority(2) >= Priority(1)]

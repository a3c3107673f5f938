from dataclasses import asdict, dataclass, field


@dataclass(order=True)
class Item:
    price: int
    name: str
    quantity: int = 0
    tags: list[str] = field(default_factory=list, compare=False)

    @property
    def total(self) -> int:
        return self.price * self.quantity


items = [Item(15, "bolt", 100), Item(7999, "drill", 2, ["tool"]), Item(15, "anchor", 50)]
items[0].tags.append("metal")
cheapest = min(items)
result = {
    "cheapest": cheapest.name,
    "total": sum(item.total for item in items),
    "first": asdict(items[0]),
    "shown": repr(items[2]),
    "equal": Item(1, "x") == Item(1, "x"),
}

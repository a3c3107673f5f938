# expect: [[1, 3, 4, 6, 7, 8, 10, 13, 14], 4, true, false, {"value": 6, "left": {"value": 4, "left": null, "right": null}, "right": {"value": 7, "left": null, "right": null}}]
from dataclasses import dataclass
from typing import Optional


@dataclass
class Tree:
    value: int
    left: Optional["Tree"] = None
    right: Optional["Tree"] = None

    def insert(self, value):
        side = "left" if value < self.value else "right"
        child = getattr(self, side)
        if child is None:
            setattr(self, side, Tree(value))
        else:
            child.insert(value)
        return self

    def __iter__(self):
        if self.left:
            yield from self.left
        yield self.value
        if self.right:
            yield from self.right

    def __contains__(self, value):
        node = self
        while node and node.value != value:
            node = node.left if value < node.value else node.right
        return node is not None

    @property
    def depth(self):
        return 1 + max((child.depth for child in (self.left, self.right) if child), default=0)


root = Tree(8)
for value in (3, 10, 1, 6, 14, 4, 7, 13):
    root.insert(value)
[list(root), root.depth, 7 in root, 9 in root, root.left.right]

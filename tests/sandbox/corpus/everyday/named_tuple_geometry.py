# expect: [[[0, 1]], [1, 9, [1, 1]], {"width": 1, "height": 1}, ["x", "y", "size"], [1, 1], 11, true]
from collections import namedtuple
from typing import NamedTuple

Size = namedtuple("Size", "width height", defaults=[1])


class Box(NamedTuple):
    x: int
    y: int
    size: Size = Size(1)

    @property
    def corner(self):
        return self.x + self.size.width, self.y + self.size.height

    def overlaps(self, other: "Box") -> bool:
        return self.x < other.corner[0] and other.x < self.corner[0] and self.y < other.corner[1] and other.y < self.corner[1]


boxes = [Box(0, 0, Size(4, 4)), Box(3, 3, Size(2, 2)), Box(9, 9)]
hits = [(a, b) for a in range(3) for b in range(a + 1, 3) if boxes[a].overlaps(boxes[b])]
moved = boxes[2]._replace(x=1)
x, y, (width, _) = moved
[hits, moved, moved._asdict()["size"]._asdict(), Box._fields, Box._field_defaults["size"], x + y + width, Size._make([5, 6]) > Size(5)]

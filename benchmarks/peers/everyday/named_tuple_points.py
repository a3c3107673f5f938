from collections import namedtuple
from typing import NamedTuple

Colour = namedtuple("Colour", "red green blue", defaults=[0])


class Segment(NamedTuple):
    start: tuple
    end: tuple
    label: str = "line"

    @property
    def length(self):
        return ((self.end[0] - self.start[0]) ** 2 + (self.end[1] - self.start[1]) ** 2) ** 0.5


orange = Colour(255, 165)
segment = Segment((0, 0), (3, 4))
red, *rest = orange
result = [orange._asdict(), segment.length, segment._replace(label="side").label, red, rest, repr(orange), segment[2]]

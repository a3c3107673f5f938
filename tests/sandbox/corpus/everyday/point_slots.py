# expect: [4, 2, 5.0, [5, 10], false, ["x", "y"], "Vec(x=-3, y=-4)"]
from dataclasses import astuple, dataclass
from math import hypot


@dataclass(slots=True, frozen=True)
class Vec:
    x: float
    y: float

    def __add__(self, other):
        return Vec(self.x + other.x, self.y + other.y)

    def __sub__(self, other):
        return Vec(self.x - other.x, self.y - other.y)

    def __mul__(self, k):
        return Vec(self.x * k, self.y * k)

    __rmul__ = __mul__

    def __neg__(self):
        return self * -1

    def __abs__(self):
        return hypot(self.x, self.y)

    def __bool__(self):
        return bool(self.x or self.y)

    def __iter__(self):
        yield self.x
        yield self.y


a, b = Vec(3, 4), Vec(1, -2)
x, y = a + b
{a, Vec(3, 4)} == {a}
[x, y, abs(a), astuple(2 * a - b), bool(Vec(0, 0)), Vec.__slots__, str(-a)]

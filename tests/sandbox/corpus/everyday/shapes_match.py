# expect: ["circle at the origin, area 12.57", "big circle at 1,2", "circle", "rect of area 6", "vertical line", "nothing", "circle at the origin, area 12.57 and 4 more", "hexagon with ['side']", "number 3.5", "unknown"]
import math
from dataclasses import dataclass


@dataclass
class Point:
    x: float
    y: float


@dataclass
class Circle:
    center: Point
    radius: float


@dataclass
class Rect:
    a: Point
    b: Point


class Line:
    __match_args__ = ("start", "end")

    def __init__(self, start, end):
        self.start, self.end = start, end


def describe(shape):
    match shape:
        case Circle(Point(0, 0), radius=r):
            return f"circle at the origin, area {math.pi * r * r:.2f}"
        case Circle(center, r) if r > 10:
            return f"big circle at {center.x},{center.y}"
        case Circle():
            return "circle"
        case Rect(a=Point(x=x1, y=y1), b=Point(x=x2, y=y2)):
            return f"rect of area {abs(x2 - x1) * abs(y2 - y1)}"
        case Line(Point(x, _), Point(z, _)) if x == z:
            return "vertical line"
        case [] | ():
            return "nothing"
        case [first, *rest]:
            return f"{describe(first)} and {len(rest)} more"
        case {"type": str(kind), **extra}:
            return f"{kind} with {sorted(extra)}"
        case int() | float() as number:
            return f"number {number}"
        case _:
            return "unknown"


o = Point(0, 0)
shapes = [Circle(o, 2), Circle(Point(1, 2), 11), Circle(Point(1, 1), 1), Rect(o, Point(3, -2)), Line(o, Point(0, 9))]
[describe(s) for s in [*shapes, [], shapes, {"type": "hexagon", "side": 2}, 3.5, "x"]]

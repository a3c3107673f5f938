from dataclasses import FrozenInstanceError, dataclass, replace


@dataclass(frozen=True)
class Point:
    x: int
    y: int = 0

    def __post_init__(self):
        if self.x < 0:
            raise ValueError("x can't be negative")


points = {Point(1, 2), Point(1, 2), Point(3)}
moved = replace(Point(1, 2), y=9)
problems = []
try:
    moved.x = 5
except FrozenInstanceError as error:
    problems.append(type(error).__name__)
try:
    Point(-1)
except ValueError as error:
    problems.append(str(error))
result = [len(points), [moved.x, moved.y], problems]

# expect: ["open@3", "open@4", "open@5", "open@1", "moved 6 (still)"]
from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from enum import StrEnum


class Direction(StrEnum):
    UP = "up"
    DOWN = "down"
    STILL = "still"


@dataclass
class Elevator:
    floor: int = 0
    stops: set[int] = field(default_factory=set)
    direction: Direction = Direction.STILL

    def call(self, floor: int) -> Elevator:
        self.stops.add(floor)
        return self

    def run(self) -> Generator[str, None, int]:
        moved = 0
        while self.stops:
            above = any(stop > self.floor for stop in self.stops)
            below = any(stop < self.floor for stop in self.stops)
            if self.floor in self.stops:
                self.stops.remove(self.floor)
                yield f"open@{self.floor}"
                continue
            if self.direction is Direction.DOWN and below or not above:
                self.direction = Direction.DOWN
            else:
                self.direction = Direction.UP
            self.floor += 1 if self.direction is Direction.UP else -1
            moved += 1
        self.direction = Direction.STILL
        return moved


def drive(elevator):
    moved = yield from elevator.run()
    yield f"moved {moved} ({elevator.direction})"


list(drive(Elevator(floor=3).call(5).call(1).call(4).call(3)))

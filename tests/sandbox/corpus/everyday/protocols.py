# expect: ["disk: 3.1", 15.64, true, false, "TypeError", ["area", "name"]]
import math
from abc import ABC, abstractmethod
from typing import Protocol, runtime_checkable


@runtime_checkable
class HasArea(Protocol):
    def area(self) -> float: ...


class Shape(ABC):
    @abstractmethod
    def area(self) -> float:
        """The surface of the shape."""

    @property
    @abstractmethod
    def name(self) -> str: ...

    def describe(self) -> str:
        return f"{self.name}: {self.area():.1f}"


class Disk(Shape):
    name = "disk"

    def __init__(self, radius: float) -> None:
        self.radius = radius

    def area(self) -> float:
        return math.pi * self.radius**2


class Field:
    def area(self) -> float:
        return 12.5


def total(things: list[HasArea]) -> float:
    return sum(thing.area() for thing in things)


try:
    Shape()
except TypeError as error:
    problem = type(error).__name__
[Disk(1).describe(), round(total([Disk(1), Field()]), 2), isinstance(Field(), HasArea), isinstance(3, HasArea), problem, sorted(Shape.__abstractmethods__)]

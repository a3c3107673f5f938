from collections.abc import Iterable
from typing import Any, Generic, Literal, Optional, Protocol, TypedDict, TypeVar, Union, runtime_checkable

T = TypeVar("T")
Mode = Literal["fast", "slow"]


class Movie(TypedDict, total=False):
    title: str
    year: int


@runtime_checkable
class Named(Protocol):
    name: str


class Stack(Generic[T]):
    def __init__(self) -> None:
        self._items: list[T] = []

    def push(self, item: T) -> "Stack[T]":
        self._items.append(item)
        return self

    def pop(self, default: Optional[T] = None) -> Union[T, None]:
        return self._items.pop() if self._items else default


class Dog:
    name = "Rex"


def total(values: Iterable[int], mode: Mode = "fast") -> dict[str, Any]:
    return {"sum": sum(values), "mode": mode}


movie: Movie = {"title": "Alien", "year": 1979}
stack: Stack[int] = Stack()
stack.push(1).push(2)
result = [movie, stack.pop(), stack.pop(), stack.pop(-1), total([1, 2]), isinstance(Dog(), Named), isinstance(3, Named)]

# expect: ["'z' -> 'a' -> 'b' -> 'c' -> 'd'", "z", "d", ["a", "b"], true, ["d", "c", "b", "a", "z"], 5, "empty"]
from __future__ import annotations

from collections.abc import Iterable, Iterator


class Node:
    __slots__ = ("value", "next")

    def __init__(self, value, next=None):
        self.value = value
        self.next = next


class LinkedList:
    def __init__(self, items: Iterable = ()):
        self._head: Node | None = None
        self._size = 0
        for item in reversed(list(items)):
            self.push(item)

    def push(self, value) -> None:
        self._head = Node(value, self._head)
        self._size += 1

    def __iter__(self) -> Iterator:
        node = self._head
        while node is not None:
            yield node.value
            node = node.next

    def __len__(self):
        return self._size

    def __getitem__(self, index):
        if isinstance(index, slice):
            return LinkedList(list(self)[index])
        for i, value in enumerate(self):
            if i == (index if index >= 0 else index + len(self)):
                return value
        raise IndexError(index)

    def __reversed__(self):
        return iter(list(self)[::-1])

    def __repr__(self):
        return " -> ".join(map(repr, self)) or "empty"


items = LinkedList("abcd")
items.push("z")
[repr(items), items[0], items[-1], list(items[1:3]), "c" in items, list(reversed(items)), len(items), str(LinkedList())]

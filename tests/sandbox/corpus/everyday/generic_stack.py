# expect: [[3, 2, 1], "Stack([])", true, ["T"], "pop from an empty stack", 7, "a"]
class Stack[T]:
    """A stack of items of one type."""

    def __init__(self, *items: T) -> None:
        self._items: list[T] = list(items)

    def push(self, item: T) -> None:
        self._items.append(item)

    def pop(self) -> T:
        if not self._items:
            raise IndexError("pop from an empty stack")
        return self._items.pop()

    def __bool__(self) -> bool:
        return bool(self._items)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._items!r})"


def first[T](items: list[T], default: T) -> T:
    return items[0] if items else default


def largest[N: (int, float)](*numbers: N) -> N:
    return max(numbers)


stack = Stack[int](1, 2)
stack.push(3)
popped = []
while stack:
    popped.append(stack.pop())
try:
    stack.pop()
except IndexError as error:
    problem = str(error)
names = [p.__name__ for p in Stack.__type_params__]
[popped, repr(stack), not stack, names, problem, largest(3, 7, 5), first([], "a")]

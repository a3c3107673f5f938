# expect: ["6 cm", "Shape.scale: by must be int, got str", [2.0], {"unit": "m"}, ["w", "h", "return"], true, "scale", ["scale", "size", "unit"], "Shape", "A shape.", {"size": 3}, "__main__", true, true, true]
"""The small introspection that everyday code does."""
import functools
import typing


def typed(func):
    hints = typing.get_type_hints(func)

    @functools.wraps(func)
    def wrapper(*args):
        for (name, kind), value in zip(hints.items(), args):
            if not isinstance(value, kind):
                raise TypeError(f"{func.__qualname__}: {name} must be {kind.__name__}, got {type(value).__name__}")
        return func(*args)

    return wrapper


class Shape:
    """A shape."""

    unit: str = "cm"

    def __init__(self, size):
        self.size = size

    @typed
    def scale(self: object, by: int) -> str:
        return f"{self.size * by} {self.unit}"


def area(w: float, h: float = 2.0, *, unit="m") -> float:
    return w * h


shape = Shape(3)
try:
    shape.scale("x")
except TypeError as error:
    problem = str(error)
bound = shape.scale
public = [name for name in dir(shape) if not name.startswith("_")]
[shape.scale(2), problem, area.__defaults__, area.__kwdefaults__, list(area.__annotations__), bound.__self__ is shape, bound.__func__.__name__, public, shape.__class__.__name__, Shape.__doc__, shape.__dict__, Shape.__module__, callable(area), type(shape) is Shape, id(shape) == id(shape)]

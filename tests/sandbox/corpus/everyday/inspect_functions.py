# expect: ["(a, b: int = 1, *args, **kw) -> str", ["a", "b", "args", "kw"], [1, 2], true, "Say it.", "def plain():\n    return 1\n", ["Base", "Derived"], ["hello"], 2]
"""Looks at functions and classes, as plug-in loaders, decorators and dependency injectors do."""
import functools
import gc
import inspect


def say(a, b: int = 1, *args, **kw) -> str:
    """Say it."""


def plain():
    return 1


async def later():
    pass


def checked(function):
    signature = inspect.signature(function)

    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return list(bound.arguments.values())[:2]

    return wrapper


class Base:
    def hello(self): ...


class Derived(Base):
    size = 1


classes = [name for name, _ in inspect.getmembers(type("M", (), {"Base": Base, "Derived": Derived}), inspect.isclass) if name[0] != "_"]
methods = [name for name, value in inspect.getmembers(Derived(), inspect.ismethod)]
gc.collect()
[
    str(inspect.signature(say)),
    list(inspect.signature(inspect.unwrap(checked(say))).parameters),
    checked(say)(1, 2),
    inspect.iscoroutinefunction(later) and not inspect.iscoroutinefunction(plain),
    inspect.getdoc(say),
    inspect.getsource(plain),
    classes,
    methods,
    len(inspect.getmro(Derived)[:2]),
]

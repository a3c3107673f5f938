"""Dataclasses that cost little to define: a process defines hundreds, and uses a few dozen.

`dataclasses` writes, parses and compiles up to seven methods for each class when it is defined, which was a fifth of a
command's start. Here `__init__` is compiled when the first object is made, and the others are not compiled at all. The
rest is the standard library's: fields, slots, `replace`, `asdict`, `match`.
"""

from __future__ import annotations

import dataclasses
import reprlib
from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass  # noqa: PLC0414 - so that it is exported
else:

    def dataclass(cls=None, /, **options):
        """`dataclasses.dataclass`. Classes that inherit from one, or want other options, are left to that."""

        def define(cls):
            inherits = any(map(dataclasses.is_dataclass, cls.__bases__))
            if inherits or not options.keys() <= {"frozen", "slots", "eq"}:
                return dataclasses.dataclass(**options)(cls)
            return _define(cls, **options)

        return define if cls is None else define(cls)


def _define(cls: type[Any], *, frozen: bool = False, slots: bool = False, eq: bool = True) -> type[Any]:
    own = set(vars(cls))
    cls.__doc__ = cls.__doc__ or cls.__name__  # else a signature is made to have one
    made = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots)(cls)
    methods: dict[str, Any] = {"__init__": _Init(made, frozen), "__repr__": _repr}
    if eq:
        compared = attrgetter(*(one.name for one in dataclasses.fields(made) if one.compare), "__class__")

        def __eq__(self: Any, other: Any) -> Any:
            return compared(self) == compared(other) if other.__class__ is self.__class__ else NotImplemented

        methods["__eq__"] = __eq__
        methods["__hash__"] = (lambda self: hash(compared(self))) if frozen else None
    if frozen:
        made.__dataclass_params__.frozen = True
        methods["__setattr__"], methods["__delattr__"] = _refuse_to_set, _refuse_to_delete
        if slots:
            methods["__getstate__"], methods["__setstate__"] = _state, _set_state
    for name in methods.keys() - own:
        setattr(made, name, methods[name])
        getattr(methods[name], "__annotations__", {}).clear()  # what checks types as it runs can't tell whose they are
    return made


class _Init:
    """Stands for a class's `__init__` until somebody looks for it, and is then replaced by it."""

    def __init__(self, cls: type[Any], frozen: bool) -> None:
        self._cls = cls
        self._frozen = frozen

    def __get__(self, instance: Any, owner: type[Any]) -> Any:
        made = _init_of(self._cls, self._frozen)
        self._cls.__init__ = made  # by several threads at once, perhaps: all make the same
        return made.__get__(instance, owner)


def _init_of(cls: type[Any], frozen: bool) -> Any:
    scope: dict[str, Any] = {"__set": object.__setattr__, "__unset": dataclasses.MISSING}
    given, by_name, lines = ["self"], ["*"], []
    for one in dataclasses.fields(cls):
        name, default = one.name, f"__default_{one.name}"
        made_anew = one.default_factory is not dataclasses.MISSING
        scope[default] = one.default_factory if made_anew else one.default
        optional = scope[default] is not dataclasses.MISSING
        value = f"{default}()" if made_anew else default
        if one.init:
            parameter = f"{name}={'__unset' if made_anew else default}" if optional else name
            (by_name if one.kw_only else given).append(parameter)
            value = f"{value} if {name} is __unset else {name}" if made_anew else name
        if one.init or optional:
            lines.append(f"__set(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    head = ", ".join(given + (by_name if len(by_name) > 1 else []))
    exec(f"def __init__({head}):\n " + "\n ".join(lines or ["pass"]), scope)  # noqa: S102 - of names that our code has
    made = scope["__init__"]
    made.__module__, made.__qualname__ = cls.__module__, f"{cls.__qualname__}.__init__"
    made.__annotations__ = {one.name: one.type for one in dataclasses.fields(cls) if one.init} | {"return": None}
    return made


@reprlib.recursive_repr()
def _repr(self: Any) -> str:
    shown = (f"{one.name}={getattr(self, one.name)!r}" for one in dataclasses.fields(self) if one.repr)
    return f"{self.__class__.__qualname__}({', '.join(shown)})"


def _refuse_to_set(self: Any, name: str, value: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(self: Any, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, one.name) for one in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for one, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, one.name, value)

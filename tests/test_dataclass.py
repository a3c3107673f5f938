"""Our dataclasses behave as those of the standard library do, which make more when they are defined."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from dataclasses import KW_ONLY, field
from typing import Any, ClassVar

import pytest

from go_ent.dataclass import dataclass

OPTIONS: list[dict[str, bool]] = [
    {},
    {"slots": True},
    {"frozen": True},
    {"frozen": True, "slots": True},
    {"eq": False, "slots": True},
    {"order": True},
]


def define(make: Callable[..., Any], options: dict[str, bool]) -> type[Any]:
    class Row:
        """A row."""

        a: int
        _a: list[int] = field(default_factory=list)
        many: ClassVar[int] = 7
        b: str = "b"
        _: KW_ONLY
        seen: int = field(default=3, compare=False, repr=False)
        made: list[str] = field(default_factory=list, init=False)

        def __post_init__(self) -> None:
            self.made.append(f"{self.a}{self.b}")

    Row.__qualname__ = "Row"
    return make(**options)(Row)  # type: ignore[no-any-return]


def answers(cls: type[Any]) -> list[Any]:
    def told(ask: Callable[[], Any]) -> Any:
        try:
            return ask()
        except (TypeError, AttributeError) as error:
            return type(error), str(error)

    one, same, other = cls(1, seen=4), cls(1), cls(2, [5], "c")
    return [
        one == same,
        one == other,
        one == 1,
        told(lambda: one < other),
        cls.__hash__ is None or told(lambda: hash(cls(1)) == hash(cls(1))),
        repr(other),
        dataclasses.asdict(one),
        dataclasses.astuple(dataclasses.replace(other, a=9)),
        dataclasses.asdict(copy.copy(one)),
        dataclasses.asdict(copy.deepcopy(other)),
        [(one.name, one.kw_only, one.init) for one in dataclasses.fields(cls)],
        cls.__match_args__,
        cls.__doc__,
        cls.many,
        [(name, one.kind, one.annotation) for name, one in inspect.signature(cls).parameters.items()],
        told(lambda: setattr(one, "a", 2)),
        told(lambda: delattr(one, "b")),
        told(lambda: cls())[0],
        told(lambda: cls(1, nothing=1))[0],
        told(lambda: cls(1, [], "b", 3))[0],
        one._a is not same._a,
    ]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_dataclass_is_as_the_standard_librarys(options: dict[str, bool]) -> None:
    ours, theirs = define(dataclass, options), define(dataclasses.dataclass, options)
    assert answers(ours) == answers(theirs)


@dataclass(frozen=True, slots=True)
class Kept:
    name: str
    sizes: tuple[int, ...] = ()


def test_a_frozen_one_with_slots_can_be_pickled() -> None:
    kept = Kept("a", (1, 2))
    assert pickle.loads(pickle.dumps(kept)) == kept
    assert {kept: 1}[Kept("a", (1, 2))] == 1


def test_a_class_has_its_own_methods_where_it_says_so_and_may_inherit() -> None:
    @dataclass(frozen=True)
    class Base:
        a: int

        def __repr__(self) -> str:
            return "mine"

    @dataclass(frozen=True)
    class Derived(Base):
        b: int = 2

    assert repr(Base(1)) == "mine"
    assert Derived(1) == Derived(1, 2) != Derived(1, 3)
    with pytest.raises(dataclasses.FrozenInstanceError):
        Derived(1).a = 3  # type: ignore[misc]


def test_nothing_is_compiled_before_the_first_object() -> None:
    cls = define(dataclass, {"frozen": True, "slots": True})
    assert not inspect.isfunction(vars(cls)["__init__"])
    assert cls(1).a == 1
    assert inspect.isfunction(vars(cls)["__init__"])

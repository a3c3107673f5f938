"""What is wrong with settings, in words that a person can act on: where each is, its name, and what it should be."""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from go_ent.composer.project.layers import PREFIX, dotted
from go_ent.sandbox.messages import validation
from go_ent.sandbox.messages.near_names import did_you_mean, near

Setting = Sequence[str | int]  # its name, part by part
Where = Callable[[Setting], str]  # where a setting stands, for a message

TEXT = validation.phrase("string_type", "")
MOST = 100  # unknown names for which a near one is looked for, which takes long

_ABOUT = re.compile(
    r"([a-z_]+(?:\.[a-z_]+)*): (.*)", re.DOTALL
)  # how the validator of a table names the setting it means


def problems(error: ValidationError, kind: Any, where: Where, prefix: Setting = ()) -> list[str]:
    """A line for each thing that pydantic found, never with the value that it found. *kind* is what was validated
    against.
    """
    lines: list[str] = []
    for found in validation.problems(error):
        place, words = list(found.place), found.words
        is_name = place[-1:] == ["[key]"]
        place = place[:-1] if is_name else place
        if found.kind == "extra_forbidden":
            words = unknown((*prefix, *place), names_at(kind, place[:-1]) if len(lines) < MOST else ())
        elif (
            found.kind == "value_error"
            and (about := _ABOUT.match(words))
            and about[1].partition(".")[0] in names_at(kind, place)
        ):
            place, words = [*place, *about[1].split(".")], about[2]
        elif found.kind == "model_type" and (names := [*names_at(kind, place)]):
            words += f", like {{ {names[0]} = … }}"
        elif is_name:
            words = f"it can't be called that: {words}"
        lines.append(problem((*prefix, *place), words, where))
    return lines


def problem(path: Setting, said: str, where: Where) -> str:
    """One line: where, which setting, and what is wrong."""
    place = where(path)
    if place.startswith(PREFIX) and said == TEXT:
        said += ": put it into double quotes, within those of the shell"
    return ": ".join(part for part in (place, dotted(path), said) if part)


def unknown(path: Setting, names: Iterable[str]) -> str:
    """What to say of a setting that there is not, where there are those *names*."""
    names = sorted(names)
    outer = [*path[:-1]]
    meant = near(str(path[-1]), names)
    if meant or not names:
        return f"there is no such setting{did_you_mean(dotted([*outer, name]) for name in meant)}"
    return f"there is no such setting; there are {', '.join(names)}"


def names_at(kind: Any, path: Setting) -> Iterable[str]:
    """The settings that there are in the table at *path* of a *kind*."""
    for part in path:
        kind = below(kind, part)
    kind = bare(kind)
    return kind.model_fields if isinstance(kind, type) and issubclass(kind, BaseModel) else ()


def below(kind: Any, part: str | int) -> Any:
    """What is at *part* of a *kind*: the type of a field, of the values of a table, of the items of a list; None if
    there is none.
    """
    kind = bare(kind)
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        field = kind.model_fields.get(str(part))
        return None if field is None else field.annotation
    arguments = get_args(kind)
    if get_origin(kind) in (dict, Mapping) and len(arguments) == 2:
        return arguments[1]
    return arguments[0] if get_origin(kind) in (tuple, list) and arguments else None


def bare(kind: Any) -> Any:
    """A type without what it is annotated with, and without `| None`."""
    while get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    if get_origin(kind) in (Union, types.UnionType):
        others = [one for one in get_args(kind) if one is not type(None)]
        return bare(others[0]) if len(others) == 1 else kind
    return kind

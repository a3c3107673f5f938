"""What is wrong with settings, in words that a person can act on: where each is, its name, and what it should be."""

from __future__ import annotations

import difflib
import re
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from go_ent.composer.errors import did_you_mean
from go_ent.composer.project.layers import PREFIX, dotted

Setting = Sequence[str | int]  # its name, part by part
Where = Callable[[Setting], str]  # where a setting stands, for a message

MOST = 100  # unknown names for which a near one is looked for, which takes long

_WORDS = {
    "missing": "it is needed, and not given",
    "model_type": "it should be a table",
    "model_attributes_type": "it should be a table",
    "dict_type": "it should be a table",
    "tuple_type": 'it should be a list, like ["a", "b"]',
    "list_type": 'it should be a list, like ["a", "b"]',
    "string_type": "it should be text",
    "string_sub_type": "it should be text",
    "string_unicode": "it should be text, in UTF-8",
    "path_type": "it should be the path of a file",
    "int_type": "it should be a whole number",
    "int_parsing": "it should be a whole number",
    "int_from_float": "it should be a whole number",
    "int_parsing_size": "it is too large",
    "float_type": "it should be a number",
    "float_parsing": "it should be a number",
    "finite_number": "it should be a finite number",
    "bool_type": "it should be true or false",
    "bool_parsing": "it should be true or false",
}

_ABOUT = re.compile(
    r"([a-z_]+(?:\.[a-z_]+)*): (.*)", re.DOTALL
)  # how the validator of a table names the setting it means


def problems(error: ValidationError, kind: Any, where: Where, prefix: Setting = ()) -> list[str]:
    """A line for each thing that pydantic found, never with the value that it found. *kind* is what was validated
    against.
    """
    found: list[str] = []
    for one in error.errors(include_url=False, include_input=False, include_context=False):
        loc: list[str | int] = list(one["loc"])
        is_name = loc[-1:] == ["[key]"]
        loc = loc[:-1] if is_name else loc
        said = words(one["type"], str(one["msg"]))
        if one["type"] == "extra_forbidden":
            said = unknown((*prefix, *loc), names_at(kind, loc[:-1]) if len(found) < MOST else ())
        elif (
            one["type"] == "value_error"
            and (about := _ABOUT.match(said))
            and about[1].partition(".")[0] in names_at(kind, loc)
        ):
            loc, said = [*loc, *about[1].split(".")], about[2]
        elif one["type"] == "model_type" and (names := [*names_at(kind, loc)]):
            said += f", like {{ {names[0]} = … }}"
        elif is_name:
            said = f"it can't be called that: {said}"
        found.append(problem((*prefix, *loc), said, where))
    return found


def problem(path: Setting, said: str, where: Where) -> str:
    """One line: where, which setting, and what is wrong."""
    place = where(path)
    if place.startswith(PREFIX) and said == _WORDS["string_type"]:
        said += ": put it into double quotes, within those of the shell"
    return ": ".join(part for part in (place, dotted(path), said) if part)


def unknown(path: Setting, names: Iterable[str]) -> str:
    """What to say of a setting that there is not, where there are those *names*."""
    names = sorted(names)
    outer = [*path[:-1]]
    near = difflib.get_close_matches(str(path[-1]), names, 1, 0.6)
    if near or not names:
        return f"there is no such setting{did_you_mean(dotted([*outer, name]) for name in near)}"
    return f"there is no such setting; there are {', '.join(names)}"


def words(kind: str, message: str) -> str:
    """What one of pydantic's errors says."""
    if kind in _WORDS:
        return _WORDS[kind]
    message = message.removeprefix("Value error, ")
    for start in (
        "Input should ",
        "String should ",
        "Value should ",
        "Tuple should ",
        "List should ",
        "Dictionary should ",
    ):
        if message.startswith(start):
            return "it should " + message.removeprefix(start)
    return message


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

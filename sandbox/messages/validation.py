"""What pydantic found wrong with data, in words that a person can act on: where, and what it should be.

Never with the value itself: it may be long, or a secret.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

from pydantic import ValidationError

from go_ent.sandbox.messages.near_names import did_you_mean, near

MOST = 5  # problems that one message tells
MOST_COMPARED = 100
MAX_PART, MAX_TEXT = 80, 200
REQUIRED = "it is required"
Place = tuple[str | int, ...]  # where in the data: names and numbers
Mapping = Literal["table", "object"]  # what TOML calls one, and what JSON does

_MAPPING = {"model_type", "model_attributes_type", "dict_type", "dict_attributes_type", "dataclass_type"}
_EXTRA = {"extra_forbidden", "unexpected_keyword_argument"}
_WORDS = {
    "missing": REQUIRED,
    "missing_argument": REQUIRED,
    "missing_keyword_only_argument": REQUIRED,
    "missing_positional_only_argument": REQUIRED,
    "multiple_argument_values": "it is given twice",
    "unexpected_positional_argument": "there are too many arguments",
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
_SUBJECTS = ("Input", "String", "Value", "Tuple", "List", "Dictionary", "Set", "Data", "Iterable")


class Found(NamedTuple):
    """What was found where something is wrong: for those who must look at it, never to be shown."""

    place: Place
    kind: str
    value: Any
    why: str  # what a parser says of it


def found(error: ValidationError) -> list[Found]:
    """What was found in each place."""
    problems = error.errors(include_url=False)
    return [Found(one["loc"], one["type"], one["input"], str(one.get("ctx", {}).get("error", ""))) for one in problems]


class Problem(NamedTuple):
    """One thing that is wrong: where, pydantic's name for it, and what to say of it."""

    place: Place
    kind: str
    words: str

    @property
    def unknown(self) -> bool:
        """Whether there is nothing of that name."""
        return self.kind in _EXTRA

    def meant(self, names: Iterable[str]) -> Problem:
        """This problem; of a name that there is not, with those of *names* that may have been meant."""
        if not self.unknown:
            return self
        return self._replace(words=self.words + did_you_mean(near(str(self.place[-1]), names, 2, 0.7)))

    def __str__(self) -> str:
        where = ".".join(str(part)[:MAX_PART] for part in self.place)
        return f"{where}: {self.words}" if where else self.words


def problems(error: ValidationError, *, mapping: Mapping = "table") -> list[Problem]:
    """All that is wrong, one by one."""
    listed: list[Any] = error.errors(include_url=False, include_input=False, include_context=False)
    return [Problem(tuple(one["loc"]), one["type"], phrase(one["type"], str(one["msg"]), mapping)) for one in listed]


def explain(error: ValidationError, *, names: Iterable[str] = (), mapping: Mapping = "table", most: int = MOST) -> str:
    """What is wrong, in one line. *names* are those that may have been meant by a setting that there is not."""
    return "; ".join(str(problem.meant(names)) for problem in problems(error, mapping=mapping)[:most])


def misfits(error: ValidationError, names: Sequence[str], *, most: int = MOST) -> str:
    """What is wrong with the arguments of a call that takes those *names*, in one line."""
    lines = []
    for problem in problems(error, mapping="object")[:most]:
        first, *rest = problem.place or ("arguments",)
        if isinstance(first, int) and first < len(names):
            first = names[first]  # given by position
        if problem.kind == "unexpected_keyword_argument":
            lines.append(no_such("argument", str(first), names))
        elif problem.words == REQUIRED:
            lines.append(f"{'.'.join(str(part)[:MAX_PART] for part in (first, *rest))} is required")
        else:
            lines.append(str(problem._replace(place=(first, *rest))))
    return "; ".join(lines)


def no_such(what: str, name: str, names: Sequence[str]) -> str:
    """That there is no parameter, argument or limit *name*: which may have been meant, or else what there is."""
    meant = near(name, names[:MOST_COMPARED])
    takes = f"; it takes {', '.join(names[:20])}{' …' if len(names) > 20 else ''}" if names else "; it takes none"
    return f"there is no {what} {name[:MAX_TEXT]}{did_you_mean(meant) if meant else takes[:MAX_TEXT]}"


def phrase(kind: str, message: str, mapping: Mapping = "table") -> str:
    """What one of pydantic's errors says."""
    if kind in _MAPPING:
        return f"it should be {'an' if mapping == 'object' else 'a'} {mapping}"
    if kind in _EXTRA:
        return "there is no such setting"
    if kind in _WORDS:
        return _WORDS[kind]
    message = message.removeprefix("Value error, ").removeprefix("Assertion failed, ")
    subject, _, rest = message.partition(" ")
    return f"it {rest}" if subject in _SUBJECTS and rest.startswith("should ") else message

"""The arguments of a tool as people type them: its own flags, `key=value`, `key:=json`, `@file`, `-` and a bare value.

They become what the tool's schema says. What does not fit is refused with what would.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any

from go_ent.dataclass import dataclass
from go_ent.engine.cli import UsageError
from go_ent.engine.cli.inputs.reading import as_text, read_named
from go_ent.sandbox.messages.near_names import did_you_mean, near

PAIR = re.compile(r"([A-Za-z_][A-Za-z0-9_.-]{0,99})(:?=)(.*)", re.DOTALL)
FLAG = re.compile(r"--([A-Za-z_][A-Za-z0-9_.-]{0,99})(?:=(.*))?", re.DOTALL)
Schema = Mapping[str, Any]
MOST_PATH = 4096  # characters of what may be the name of a file


@dataclass(slots=True)
class Typed:
    """What was typed: the arguments by name, and words that name none."""

    arguments: dict[str, Any] = field(default_factory=dict)
    bare: list[str] = field(default_factory=list)


class Arguments:
    """The parameters of one tool, to read arguments by."""

    def __init__(self, tool: str, schema: Schema) -> None:
        properties = schema.get("properties")
        self.tool = tool
        self.parameters: Mapping[str, Any] = properties if isinstance(properties, Mapping) else {}
        self.required = [name for name in schema.get("required") or () if isinstance(name, str)]
        self._open = bool(schema.get("additionalProperties", not self.parameters))

    def read(self, words: Sequence[str], given: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """All arguments: those *given* as JSON, then those typed; a bare word is the one parameter that is left."""
        typed = self.split(words)
        found = {**(given or {}), **typed.arguments}
        for name in typed.arguments:
            if given and name in given:
                raise UsageError(f"{name} was given twice: in --input and as an argument")
        if len(typed.bare) > 1:
            raise UsageError(f"unexpected: {typed.bare[1][:80]!r}. {self.tool} takes {self.shown()}")
        for word in typed.bare:
            name = self.left(found)
            found[name] = self._value(name, word)
        return found

    def split(self, words: Sequence[str]) -> Typed:
        """The words that are arguments, and those that are not."""
        typed = Typed()
        queue = list(words)
        while queue:
            word = queue.pop(0)
            if (flag := FLAG.fullmatch(word)) is not None:
                self._flag(flag, queue, typed)
            elif (pair := PAIR.fullmatch(word)) is not None and (self._open or self.named(pair[1]) is not None):
                name = self.named(pair[1]) or pair[1]
                self._add(typed, name, _json(name, pair[3]) if pair[2] == ":=" else self._value(name, pair[3]))
            elif pair is not None and not self._is_text(pair[1]):
                raise self._unknown(pair[1])
            else:
                typed.bare.append(word)
        return typed

    def left(self, found: Mapping[str, Any]) -> str:
        """The parameter that a value without a name is for: the only one, or the only one that must be given still."""
        free = [name for name in self.parameters if name not in found]
        must = [name for name in free if name in self.required]
        if len(must) == 1 or len(free) == 1:
            return must[0] if len(must) == 1 else free[0]
        raise UsageError(f"which parameter is that for? {self.tool} takes {self.shown()}; write NAME=VALUE")

    def named(self, text: str) -> str | None:
        """The parameter of that name; a dash stands for an underscore too."""
        if text in self.parameters:
            return text
        return next((name for name in (text.replace("-", "_"),) if name in self.parameters), None)

    def shown(self) -> str:
        """The parameters, for people."""
        if not self.parameters:
            return "no arguments"
        return ", ".join(
            f"{name}{'' if name in self.required else ' (optional)'}" for name in list(self.parameters)[:20]
        )

    def _flag(self, flag: re.Match[str], queue: list[str], typed: Typed) -> None:
        name, value = self.named(flag[1]), flag[2]
        if name is None and flag[1].startswith("no-") and value is None:
            name = self.named(flag[1].removeprefix("no-"))
            if name is not None and "boolean" in kinds(self.parameters[name]):
                return self._add(typed, name, False)
            name = None
        if name is None:
            if not self._open:
                raise self._unknown(flag[1], "--")
            name = flag[1].replace("-", "_")
        if value is None and kinds(self.parameters.get(name)) == {"boolean"}:
            return self._add(typed, name, True)
        if value is None:
            if not queue or (queue[0].startswith("--") and len(queue[0]) > 2):
                raise UsageError(f"--{flag[1]} needs a value")
            value = queue.pop(0)
        return self._add(typed, name, self._value(name, value))

    def _is_text(self, name: str) -> bool:
        """Whether `name=…`, which names no parameter, may be the text of the only one."""
        wanted = [kinds(schema) for schema in self.parameters.values()]
        return len(wanted) == 1 and (not wanted[0] or "string" in wanted[0]) and not near(name, self.parameters)

    def _add(self, typed: Typed, name: str, value: Any) -> None:
        """A list is added to by each flag."""
        before = typed.arguments.get(name)
        if name in typed.arguments and not (isinstance(before, list) and "array" in kinds(self.parameters.get(name))):
            raise UsageError(f"{name} was given twice")
        typed.arguments[name] = [*before, *value] if isinstance(before, list) else value

    def _value(self, name: str, text: str) -> Any:
        return value_of(name, text, self.parameters.get(name))

    def _unknown(self, name: str, dashes: str = "") -> UsageError:
        hint = did_you_mean([f"{dashes}{one}" for one in near(name, self.parameters)])
        return UsageError(f"{self.tool} has no parameter {name[:80]}{hint or f'; it takes {self.shown()}'}")


def value_of(name: str, text: str, schema: Any) -> Any:
    """One value, as its schema has it. `@FILE` and `-` are read; `@@` begins a text with one."""
    wanted = kinds(schema)
    if (text.startswith("@") and len(text) > 1 and not text.startswith("@@")) or text == "-":
        what = f"{name}={text}"
        text = as_text(read_named(text, name), what)
        return _json(what, text) if wanted and "string" not in wanted else text if wanted else _json_or_text(text)
    text = text.removeprefix("@") if text.startswith("@@") else text
    if wanted and wanted <= {"string", "null"}:
        return text
    if wanted == {"array"} and not text.lstrip().startswith("["):
        return [value_of(name, text, schema.get("items"))]
    value = _json_or_text(text)
    return value if not wanted or fits(value, wanted) else _otherwise(name, text, wanted)


def _otherwise(name: str, text: str, wanted: frozenset[str]) -> Any:
    """What a text can be to a parameter that does not take the JSON in it."""
    if "string" in wanted:
        return text
    if text.lower() in ("yes", "no", "on", "off") and "boolean" in wanted:
        return text.lower() in ("yes", "on")
    file = f"; @{text} reads that file" if len(text) < MOST_PATH and "\0" not in text and os.path.isfile(text) else ""
    raise UsageError(f"{name}: {text[:80]!r} is not {_a(wanted)}{file}")


def kinds(schema: Any) -> frozenset[str]:
    """The JSON types that a schema takes; none if it does not say."""
    if not isinstance(schema, Mapping):
        return frozenset()
    if isinstance(branches := schema.get("anyOf") or schema.get("oneOf"), list):
        found = [kinds(one) for one in branches]
        return frozenset().union(*found) if all(found) else frozenset()
    named = schema.get("type")
    if isinstance(named, str):
        return frozenset({named})
    if isinstance(named, list):
        return frozenset(one for one in named if isinstance(one, str))
    choices = schema.get("enum")
    return (
        frozenset({"string"}) if isinstance(choices, list) and all(isinstance(c, str) for c in choices) else frozenset()
    )


def fits(value: Any, wanted: Iterable[str]) -> bool:
    """Whether a value is of one of these types."""
    names = {str: "string", list: "array", dict: "object", bool: "boolean", int: "integer", float: "number"}
    named = set(wanted)
    of = names.get(type(value), "null")
    whole = of == "integer" and "number" in named
    return of in named or whole or (of == "number" and "integer" in named and value.is_integer())


def _a(wanted: Iterable[str]) -> str:
    words = {"integer": "a whole number", "number": "a number", "boolean": "true or false", "array": "a JSON list"}
    words |= {"object": "a JSON object", "null": "null", "string": "a text"}
    return " or ".join(words.get(one, one) for one in sorted(wanted))


def _json(name: str, text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{name} is not JSON: {error}") from None


def _json_or_text(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return text


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")

"""Schemas as TypeScript types. What comes from elsewhere stands in them as quoted or plain names and literals alone."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from go_ent.composer.catalogue.spec import Schema
from go_ent.composer.catalogue.stub_names import MAX_KEY, camel, quotable, quoted
from go_ent.composer.catalogue.stub_objects import fields_of, merged_object, target
from go_ent.composer.catalogue.stub_types import MAX_LITERAL, Bounds

ANY = "any"
KINDS = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}
PLAIN = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")
# What a type can't be called: words of the language, and names that every program has.
TAKEN = frozenset(
    """
    any unknown never void null undefined string number boolean object symbol bigint true false this new typeof keyof
    infer is asserts readonly unique abstract declare type interface enum namespace module class function var let const
    if else for while do switch case default return break continue throw try catch finally delete in instanceof import
    export extends super with yield await async static implements package private protected public debugger tools
    Array Map Set Record Promise Date Object String Number Boolean Function Symbol Error RegExp JSON Math ToolError
    Partial Required Readonly Pick Omit Exclude Extract NonNullable Parameters ReturnType Awaited
    """.split()
)


class Declared:
    """The types of one text that have names: each is declared once."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def free(self, hint: str) -> str:
        name, number = hint, 2
        while name in TAKEN or name in self.texts:
            name, number = f"{hint}{number}", number + 1
        return name


class TypeScript:
    """The types of one tool. What it declared can be undone, for another try with tighter bounds."""

    def __init__(self, declared: Declared, bounds: Bounds, *, inline: bool = False) -> None:
        """*inline* types declare nothing."""
        self.cut = False  # whether a bound was met
        self.bounds, self._declared, self.inline = bounds, declared, inline
        self._left, self._types_left = bounds.nodes, bounds.types
        self._named: dict[tuple[int, str], str] = {}
        self._mine: list[str] = []
        self._open: set[str] = set()
        self._direct: list[str] = []  # types under way that nothing lies around yet: one may not be said to be itself

    @property
    def names(self) -> list[str]:
        """Of the types that it has declared."""
        return self._mine

    def undo(self) -> None:
        for name in self._mine:
            del self._declared.texts[name]
        self._mine = []

    def of(self, schema: object, root: Schema, depth: int | None = None) -> str:
        """The type of what a schema describes."""
        depth = self.bounds.depth if depth is None else depth
        if schema is True or schema is None or schema == {}:
            return ANY
        if schema is False:
            return "never"
        self._left -= 1
        if not isinstance(schema, Mapping) or depth <= 0 or self._left <= 0:
            self.cut = True
            return ANY
        return self._by_words(schema, root, depth)

    def _by_words(self, schema: Schema, root: Schema, depth: int) -> str:
        """By the first of the words that say all there is to say."""
        if isinstance(ref := schema.get("$ref"), str):
            return self._reference(ref, root, depth)
        values = [schema["const"]] if "const" in schema else schema.get("enum")
        if isinstance(values, list) and values:
            return self._enum(values)
        branches = next((one for word in ("anyOf", "oneOf") if isinstance(one := schema.get(word), list) and one), None)
        if branches is not None:
            return self._union([self.of(one, root, depth - 1) for one in branches[: self.bounds.members]], branches)
        if isinstance(parts := schema.get("allOf"), list) and parts:
            merged = merged_object(schema, root, self.bounds.properties)
            if merged is not None:
                return self._object(merged, root, depth)
            return self.of(parts[0] if len(parts) == 1 else True, root, depth - 1)
        kind = schema.get("type")
        kinds = [one for one in kind if isinstance(one, str)][:8] if isinstance(kind, list) else []
        found = [self._kind(one, schema, root, depth) for one in kinds]
        return (
            self._union(found, kinds)
            if kinds
            else self._kind(kind if isinstance(kind, str) else "", schema, root, depth)
        )

    def _kind(self, kind: str, schema: Schema, root: Schema, depth: int) -> str:
        if kind in KINDS:
            return KINDS[kind]
        if kind == "array" or (not kind and ("items" in schema or "prefixItems" in schema)):
            return self._array(schema, root, depth)
        if kind == "object" or (not kind and ("properties" in schema or "additionalProperties" in schema)):
            return self._object(schema, root, depth)
        return ANY

    def _union(self, found: list[str], given: list[Any]) -> str:
        if len(found) < len(given):
            self.cut = True
            return ANY
        members = list(dict.fromkeys(found))
        return ANY if ANY in members or not members else " | ".join(members)

    def _enum(self, values: list[Any]) -> str:
        shown = [_literal(value) for value in values[: self.bounds.members + 1]]
        if len(shown) > self.bounds.members or None in shown:
            self.cut = True
            kinds = list(dict.fromkeys(_kind_of(value) for value in values[:1000]))
            return ANY if ANY in kinds else " | ".join(kinds)
        return " | ".join(dict.fromkeys(one for one in shown if one is not None))

    def _within(self, schema: object, root: Schema, depth: int) -> str:
        """The type of a member or an item: here a type may hold itself."""
        before, self._direct = self._direct, []
        text = self.of(schema, root, depth - 1)
        self._direct = before
        return text

    def _array(self, schema: Schema, root: Schema, depth: int) -> str:
        items = schema.get("items")
        first = items if isinstance(items, list) else schema.get("prefixItems")
        if isinstance(first, list) and first and len(first) <= 10:
            least = schema.get("minItems")
            least = least if isinstance(least, int) else 0
            inner = [self.of(item, root, depth - 1) for item in first]  # an optional one may not hold its own type
            written = [f"{_alone(one)}{'' if at < least else '?'}" for at, one in enumerate(inner)]
            rest = schema.get("items") if items is not first else schema.get("additionalItems")
            if rest not in (None, False) and schema.get("maxItems") != len(first):
                written.append(f"...{_alone(self._within(rest, root, depth))}[]")
            return f"[{', '.join(written)}]"
        return f"{_alone(ANY if first else self._within(items, root, depth))}[]"

    def _object(self, schema: Schema, root: Schema, depth: int) -> str:
        rest, patterns = schema.get("additionalProperties"), schema.get("patternProperties")
        if not isinstance(rest, Mapping) and isinstance(patterns, Mapping) and len(patterns) == 1:
            rest = next(iter(patterns.values()))
        properties = schema.get("properties")
        if not isinstance(properties, Mapping) or not properties:
            return f"{{ [key: string]: {self._within(rest, root, depth) if rest is not False else 'never'} }}"
        fields = [field for field in fields_of(schema, self.bounds.properties) if quotable(field[0], MAX_KEY)]
        shown = [
            f"{property_name(name)}{'' if required else '?'}: {self._within(inner, root, depth)}"
            for name, inner, required in fields
        ]
        if len(fields) < len(properties):
            self.cut = True
            shown.append("[key: string]: any")
        body = f"{{ {'; '.join(shown)} }}" if shown else "{ [key: string]: any }"
        if isinstance(rest, Mapping) and len(fields) == len(properties):
            body += f" & {{ [key: string]: {self._within(rest, root, depth)} }}"
        return body

    def _reference(self, ref: str, root: Schema, depth: int) -> str:
        """What is pointed at, by a name of its own, so that it may hold itself."""
        key = id(root), ref
        if key in self._named:
            return ANY if self._named[key] in self._direct else self._named[key]
        found = target(ref, root)
        if found is None or self._types_left <= 0:
            self.cut = True
            return ANY
        if self.inline:
            if ref in self._open:
                return ANY
            self._open.add(ref)
            text = self.of(found, root, depth - 1)
            self._open.discard(ref)
            return text
        self._types_left -= 1
        name = self._declared.free(camel(ref.rpartition("/")[2] or "Whole"))
        self._declared.texts[name], self._named[key] = "", name
        self._mine.append(name)
        self._direct.append(name)
        text = self.of(found, root, depth - 1)
        self._direct.pop()
        texts = self._declared.texts
        same = next((other for other, body in texts.items() if body == text and other != name), None)
        if same is not None and not any(name in PLAIN.findall(body) for body in (text, *texts.values())):
            del self._declared.texts[name]
            self._mine.remove(name)
            self._named[key] = same
            return same
        texts[name] = text
        return name


def property_name(name: str) -> str:
    """A key as it can stand in an object type. `new(…)` would be what makes one."""
    return name if PLAIN.fullmatch(name) and name not in ("new", "constructor") else quoted(name)


def default_text(schema: object) -> str:
    """A default as text, where it is short and simple; else nothing."""
    if not isinstance(schema, Mapping) or "default" not in schema:
        return ""
    text = _literal(schema["default"])
    return text if text is not None and len(text) <= 40 else ""


def _alone(text: str) -> str:
    """A type that something is written behind."""
    return f"({text})" if " | " in text or " & " in text else text


def _literal(value: object) -> str | None:
    if isinstance(value, str):
        return quoted(value) if not value or quotable(value, MAX_LITERAL) else None
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, int) and abs(value) < 2**53:
        return str(value)
    if isinstance(value, float) and math.isfinite(value) and abs(value) < 1e15:
        return repr(value)
    return None


def _kind_of(value: object) -> str:
    if value is None:
        return "null"
    kinds: tuple[tuple[type, str], ...] = ((bool, "boolean"), (int, "number"), (float, "number"), (str, "string"))
    return next((name for kind, name in kinds if isinstance(value, kind)), ANY)

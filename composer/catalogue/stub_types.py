"""Schemas as Python types: unions, literals, lists, and TypedDicts with names of their own."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from go_ent.composer.catalogue.spec import Schema
from go_ent.composer.catalogue.stub_names import MAX_KEY, WORDS, Names, camel, plain, quotable, quoted
from go_ent.composer.catalogue.stub_objects import fields_of, merged_object, target
from go_ent.dataclass import dataclass

MAX_LITERAL = 80  # characters of a string in a Literal
ANY, NONE, STR = "Any", "None", "str"
KINDS = {"string": STR, "integer": "int", "number": "float", "boolean": "bool", "null": NONE}


# The members of a union. Those that start with "=" are literal values; the rest are types.
Parts = list[str]


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much of a tool is written out."""

    depth: int
    nodes: int  # schemas looked at
    types: int  # TypedDicts
    properties: int
    members: int  # of an enum or a union
    text: int  # characters of the tool's description
    note: int  # characters of each parameter's


class Types:
    """The types of one tool, made from its schemas. What it took can be undone, for another try with tighter bounds."""

    def __init__(
        self, names: Names, bounds: Bounds, words: Mapping[str, str], *, brief: bool = False, inline: bool = False
    ) -> None:
        """*brief* types are for a person or a model to read; *inline*, with the members of objects written out."""
        self.names, self.bounds, self.brief, self.inline = names, bounds, brief, inline
        self.made: list[str] = []
        self.cut = False  # whether a bound was met
        self.used: set[str] = set()
        self._words = words
        self._left = bounds.nodes
        self._types_left = bounds.types
        self._named: dict[tuple[int, int], str] = {}
        self._under_way: set[tuple[int, int]] = set()
        self._open: set[str] = set()  # names whose TypedDict is not written yet
        self._forward = 0  # how often one of them was used
        self._taken: list[str] = []
        self._bodies: list[tuple[str, str]] = []

    def undo(self) -> None:
        self.names.taken.difference_update(self._taken)
        for key in self._bodies:
            del self.names.bodies[key]

    def word(self, word: str) -> str:
        """A word of the type language, as it is called where it stands: in a TypedDict, or in the tool's class."""
        found = word if self._open else self._words.get(word, word)
        if word in WORDS:
            self.used.add(found)
        return found

    def show(self, parts: Parts) -> str:
        """A union as text."""
        if ANY in parts or not parts:
            return self.word(ANY)
        literals = [part[1:] for part in parts if part.startswith("=")]
        shown = [self.word(part) for part in parts if not part.startswith("=") and part != NONE]
        if self.brief:
            values = [f"'{value[1:-1]}'" if value[0] == '"' and "'" not in value else value for value in literals]
            return "|".join([*values, *shown, *([NONE] if NONE in parts else [])])
        if literals:
            shown.insert(0, f"{self.word('Literal')}[{', '.join(literals)}]")
        return " | ".join([*shown, *([NONE] if NONE in parts else [])])

    def parts(self, schema: object, root: Schema, hint: str, depth: int, at_root: bool = False) -> Parts:
        """What *schema* allows. *hint* is for the name of the TypedDict, if it becomes one."""
        if not isinstance(schema, Mapping):
            return [ANY]
        if depth <= 0 or self._left <= 0:
            self.cut |= bool(schema)
            return [ANY]
        self._left -= 1
        key = id(root), id(schema)
        if key in self._named:
            self._forward += self._named[key] in self._open
            found = [self._named[key]]
        elif key in self._under_way:
            return [ANY]
        else:
            self._under_way.add(key)
            title = schema.get("title")
            if not at_root and isinstance(title, str) and title.isascii() and title.isprintable() and len(title) <= 40:
                hint = camel(title)
            found = self._parts(schema, root, hint, depth)
            self._under_way.discard(key)
        return list(dict.fromkeys([*found, NONE] if schema.get("nullable") is True else found))

    def _parts(self, schema: Schema, root: Schema, hint: str, depth: int) -> Parts:
        if "const" in schema:
            return self._literals([schema["const"]])
        if isinstance(values := schema.get("enum"), list):
            return self._literals(values)
        if isinstance(ref := schema.get("$ref"), str):
            return self.parts(target(ref, root), root, camel(ref.rpartition("/")[2]) if "/" in ref else hint, depth - 1)
        if isinstance(branches := schema.get("allOf"), list) and branches:
            return self._all_of(schema, branches, root, hint, depth)
        for word in ("anyOf", "oneOf"):
            if isinstance(choices := schema.get(word), list) and choices and not schema.get("properties"):
                found = self._union(choices, root, hint, depth)
                if ANY not in found:
                    return found
        kinds = schema.get("type")
        if kinds is None:
            kinds = "object" if {"properties", "additionalProperties"} & schema.keys() else None
            kinds = "array" if kinds is None and {"items", "prefixItems"} & schema.keys() else kinds
        found = []
        for kind in kinds[:8] if isinstance(kinds, list) else [kinds]:
            if kind == "object":
                found += self._object(schema, (id(root), id(schema)), root, hint, depth)
            elif kind == "array":
                found.append(self._array(schema, root, hint, depth))
            else:
                found.append(KINDS.get(kind, ANY) if isinstance(kind, str) else ANY)
        return found or [ANY]

    def _literals(self, values: list[Any]) -> Parts:
        """The values themselves; only their types, where they are many, long or can't be printed."""
        if len(values) > self.bounds.members:
            return list(dict.fromkeys(_kind_of(value) for value in values[:1000]))
        texts = [(value, _literal(value)) for value in values]
        loose = dict.fromkeys(_kind_of(value) for value, text in texts if text is None)
        return [*loose, *(f"={text}" for value, text in texts if text is not None and _kind_of(value) not in loose)]

    def _union(self, choices: list[Any], root: Schema, hint: str, depth: int) -> Parts:
        if len(choices) > max(self.bounds.members, 2):
            return [ANY]
        found: Parts = []
        for number, choice in enumerate(choices, 1):
            found += self.parts(choice, root, hint if number == 1 else f"{hint}{number}", depth - 1)
        return found if len(found) <= 2 * self.bounds.members + 4 else [ANY]

    def _all_of(self, schema: Schema, branches: list[Any], root: Schema, hint: str, depth: int) -> Parts:
        """Objects become one object; of other things, the only one that says something."""
        self._left -= 16  # merging looks at many
        merged = merged_object(schema, root, self.bounds.properties + 1)
        if merged is not None:
            return self._object(merged, (id(root), id(schema)), root, hint, depth)
        found = [parts for branch in branches[:8] if ANY not in (parts := self.parts(branch, root, hint, depth - 1))]
        return found[0] if len(found) == 1 and len(branches) <= 8 else [ANY]

    def _array(self, schema: Schema, root: Schema, hint: str, depth: int) -> str:
        items = schema.get("items")
        first = items if isinstance(items, list) else schema.get("prefixItems")
        if isinstance(first, list) and first and len(first) <= 10 and not isinstance(items, Mapping):
            inner = [
                self.show(self.parts(item, root, f"{hint}{number}", depth - 1)) for number, item in enumerate(first, 1)
            ]
            return f"{self.word('tuple')}[{', '.join(inner)}]"
        one = hint[:-1] if hint.endswith("s") and len(hint) > 3 and hint[-2] not in "sui" else f"{hint}Item"
        parts = [ANY] if first else self.parts(items, root, one, depth - 1)
        return f"{self.word('list')}[{self.show(parts)}]"

    def _object(self, schema: Schema, key: tuple[int, int], root: Schema, hint: str, depth: int) -> Parts:
        properties = schema.get("properties")
        if not isinstance(properties, Mapping) or not properties:
            return [self._dict(schema, root, hint, depth)]
        if self._types_left <= 0:
            self.cut = True
            return [self._dict({}, root, hint, depth)]
        self._types_left -= 1
        if self.inline:
            return [self._members(schema, root, depth)]
        name = self.names.take(hint)
        self._named[key] = name
        self._taken.append(name)
        if self.brief:
            return [name]
        self._open.add(name)
        start = len(self.made)
        self.cut |= len(properties) > self.bounds.properties
        fields: dict[str, str] = {}
        for field, inner, required in fields_of(schema, self.bounds.properties):
            if not quotable(field, MAX_KEY):
                continue
            before = self._forward
            text = self.show(self.parts(inner, root, camel(field), depth - 1))
            text = text if required else f"{self.word('NotRequired')}[{text}]"
            fields[field] = f"\0{text}" if self._forward > before else text
        self._open.discard(name)
        if not fields:
            self.names.taken.discard(name)
            del self._named[key]
            return [self._dict({}, root, hint, depth)]
        self._named[key] = self._typed_dict(name, hint, fields, start)
        return [self._named[key]]

    def _members(self, schema: Schema, root: Schema, depth: int) -> str:
        """An object as `{id: str, note?: str}`."""
        fields = [field for field in fields_of(schema, self.bounds.properties) if quotable(field[0], MAX_KEY)]
        shown = [
            f"{field if plain(field) else quoted(field)}{'' if required else '?'}: "
            f"{self.show(self.parts(inner, root, camel(field), depth - 1))}"
            for field, inner, required in fields
        ]
        properties = schema.get("properties")
        if isinstance(properties, Mapping) and len(properties) > len(fields):
            self.cut = True
            shown.append("…")
        return f"{{{', '.join(shown)}}}"

    def arguments(self, shown: list[tuple[str, Any, bool, Parts]], hint: str) -> str:
        """Parameters whose names can't stand in a signature: a TypedDict to unpack."""
        if self._types_left <= 0 or not all(quotable(name, MAX_KEY) for name, *_ in shown):
            self.cut = True
            return self.word(ANY)
        optional = self.word("NotRequired")
        fields = {
            name: self.show(parts) if required else f"{optional}[{self.show(parts)}]"
            for name, _, required, parts in shown
        }
        name = self.names.take(hint)
        self._taken.append(name)
        return f"{self.word('Unpack')}[{self._typed_dict(name, hint, fields, len(self.made))}]"

    def _typed_dict(self, name: str, hint: str, fields: Mapping[str, str], start: int) -> str:
        """Write it down, unless the text has one like it. Texts with a forward reference start with NUL."""
        values = "".join(fields.values())
        mentioned = set(
            re.findall(r"[A-Za-z_]\w*", values, re.ASCII)
        )  # in the class body, a key of that name would hide it
        if "\0" in values:
            self.used.add("annotations")
        if all(plain(field) for field in fields) and not mentioned.intersection(fields):
            head, body = (
                f"class {name}(TypedDict):\n",
                "\n".join(f"    {f}: {text.lstrip(chr(0))}" for f, text in fields.items()),
            )
        else:
            pairs = (f"{quoted(f)}: {quoted(text[1:]) if text[0] == chr(0) else text}" for f, text in fields.items())
            head, body = f'{name} = TypedDict("{name}", ', f"{{{', '.join(pairs)}}})"
        # One that holds itself is like another that does, unless types made since *start* hold it too, or quotes blur
        # what is a name.
        alone = '"' not in body and not any(name in text for text in self.made[start:])
        key = hint, re.sub(rf"\b{name}\b", chr(0), body) if alone else body
        if key in self.names.bodies:
            self.names.taken.discard(name)
            return self.names.bodies[key]
        self.names.bodies[key] = name
        self._bodies.append(key)
        self.used.add("TypedDict")
        self.made.append(head + body)
        return name

    def _dict(self, schema: Schema, root: Schema, hint: str, depth: int) -> str:
        rest, patterns = schema.get("additionalProperties"), schema.get("patternProperties")
        if not isinstance(rest, Mapping) and isinstance(patterns, Mapping) and len(patterns) == 1:
            rest = next(iter(patterns.values()))
        inner = self.show(self.parts(rest, root, f"{hint}Value", depth - 1))
        return f"{self.word('dict')}[{self.word(STR)}, {inner}]"


def default_text(schema: object, parts: Parts) -> str:
    """A default as text, where it is short, simple and of the type; else nothing."""
    if not isinstance(schema, Mapping) or "default" not in schema:
        return ""
    value = schema["default"]
    text = repr(value) if isinstance(value, float) and math.isfinite(value) else _literal(value)
    fits = {ANY, f"={text}", _kind_of(value), "float" if _kind_of(value) == "int" else ANY}
    return text if text is not None and len(text) <= 40 and fits.intersection(parts) else ""


def _literal(value: object) -> str | None:
    """A value as it can stand in a Literal, if it can."""
    if isinstance(value, str):
        return quoted(value) if not value or quotable(value, MAX_LITERAL) else None
    if value is None or isinstance(value, bool) or (isinstance(value, int) and abs(value) < 2**63):
        return repr(value)
    return None


def _kind_of(value: object) -> str:
    if value is None:
        return NONE
    return next(
        (
            name
            for kind, name in ((bool, "bool"), (int, "int"), (float, "float"), (str, STR))
            if isinstance(value, kind)
        ),
        ANY,
    )

"""A tool's schemas as typed Python: what a model reads before it writes a call.

    class SearchIssuesResult(TypedDict):
        total: int

    class github(Protocol):  # await tools.github.search_issues(...)
        async def search_issues(self, q: str, state: Literal["open", "closed"] = ...) -> SearchIssuesResult:
            \"""Search issues.\"""

Names, descriptions and schemas come from servers that may be hostile. So no upstream text reaches the stub unless it is
an ASCII identifier, or a quoted or docstring line of printable characters; and everything is counted: what is over a
bound is `Any`. The text is read and type-checked, never run here.
"""

from __future__ import annotations

import builtins
import keyword
import math
import re
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from itertools import count, islice
from typing import Any
from urllib.parse import unquote

from go_ent.composer.catalogue.spec import ANYTHING, Hints, Schema, ToolSpec
from go_ent.composer.project.numbers import DIGITS

MAX_BYTES = 8192  # of one tool's stub
HEADER_BYTES = 1024  # of them, kept for imports and the class line
MAX_PARAMETERS = 1000
MAX_LINE = 400  # of a signature, in characters
MAX_LITERAL = 80  # characters of a string in a Literal
MAX_KEY = 100

ANY, NONE, STR = "Any", "None", "str"
TYPING = ("Any", "Literal", "NotRequired", "Protocol", "TypedDict", "Unpack")
WORDS = frozenset(TYPING) | {"str", "int", "float", "bool", "list", "dict", "tuple"}
KINDS = {"string": STR, "integer": "int", "number": "float", "boolean": "bool", "null": NONE}
FORMATS = frozenset(
    "date-time date time duration email hostname ipv4 ipv6 uri uri-reference url uuid byte binary regex".split()
)

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


# Each is tried until the stub fits; the last one always does.
LEVELS = (
    Bounds(depth=16, nodes=2000, types=40, properties=60, members=30, text=1200, note=200),
    Bounds(depth=8, nodes=400, types=12, properties=40, members=12, text=800, note=60),
    Bounds(depth=3, nodes=100, types=0, properties=25, members=4, text=400, note=0),
    Bounds(depth=1, nodes=2, types=0, properties=0, members=0, text=200, note=0),
)
BRIEF = Bounds(depth=6, nodes=100, types=40, properties=12, members=6, text=140, note=0)


def stub(spec: ToolSpec) -> str:
    """The stub of one tool: 8 KB at most, and it says so where something was left out."""
    return stubs([spec])


def stubs(specs: Iterable[ToolSpec]) -> str:
    """The stubs of several tools as one text: one class for each namespace, equal types once. The first of two equal
    names counts.
    """
    groups: dict[str, dict[str, ToolSpec]] = {}
    for spec in specs:
        groups.setdefault(spec.namespace, {}).setdefault(spec.name, spec)
    names = Names()
    blocks = {namespace: _methods(found.values()) for namespace, found in groups.items()}
    for block in blocks.values():
        names.taken.update(block)  # so that no method hides a type
    text: list[str] = []
    for namespace, block in blocks.items():
        words = {word: names.other_word(word) for word in WORDS.intersection(block)}
        methods: list[str] = []
        for method, spec in block.items():
            made, body = _fitting(spec, method, names, words)
            text += made
            methods.append(body)
        path = "".join(f"{_identifier(part)}." for part in namespace.split(".")[:4] if part)
        label = names.take(_identifier(namespace)[:64] if namespace else "tools")
        text.append(f"class {label}(Protocol):  # await tools.{path}{next(iter(block))}(...)\n" + "\n".join(methods))
        names.used.add("Protocol")
    return "\n\n".join([*names.imports(), *text]) + "\n" if text else ""


def signature(spec: ToolSpec) -> str:
    """One line for a list: `github.search_issues(q: str, state: 'open'|'closed' = …) -> list[Issue] — Search
    issues.`
    """
    types = Types(Names(), BRIEF, {}, brief=True)
    shown: list[str] = []
    fields = _fields(_arguments(spec), MAX_PARAMETERS)
    for name, schema, required in fields:
        if len(shown) == BRIEF.properties or sum(map(len, shown)) > MAX_LINE // 2:
            shown.append("…")
            break
        parts = types.parts(schema, spec.input_schema, _camel(name), BRIEF.depth)
        default = "" if required else f" = {_default(schema, parts) or '…'}"
        label = name if _plain(name) else repr(clean(name, 40))
        shown.append(f"{label}: {_cut(types.show(parts), 60)}{_cut(default, 30)}")
    result = ANY if spec.output_schema is None else types.show(_result(spec, types))
    text = clean(spec.description, 4 * BRIEF.text)
    sentence = re.match(r".*?[.!?](?=\s|$)", text)
    about = _cut(sentence[0] if sentence else text, BRIEF.text)
    line = f"{clean(spec.name, 130)}({', '.join(shown)}) -> {_cut(result, 60)}"
    return _cut(f"{line} — {about}" if about else line, 2 * MAX_LINE)


def parameters(spec: ToolSpec) -> list[str]:
    """The names of its parameters in the stub's order: required ones, then optional ones, both as in the schema."""
    return [name for name, _, _ in _fields(_arguments(spec), MAX_PARAMETERS)]


def clean(text: object, most: int) -> str:
    """Text from elsewhere as one printable line, cut to *most* characters: it can't start a line of its own."""
    if not isinstance(text, str) or most <= 0:
        return ""
    line = " ".join("".join(c if c.isprintable() else " " for c in text[: 4 * most]).split())
    return _cut(line + "…" if len(text) > 4 * most else line, most)


class Names:
    """The names of one text: which are taken, which words must be imported, which types are there already."""

    def __init__(self) -> None:
        self.taken = {*keyword.kwlist, *keyword.softkwlist, *dir(builtins), *WORDS, "annotations", "builtins", "typing"}
        self.used: set[str] = set()
        self.bodies: dict[tuple[str, str], str] = {}
        self._others: dict[str, str] = {}
        self._numbers: dict[str, int] = {}

    def take(self, hint: str) -> str:
        """*hint*, or it with a number: a name that nothing else has."""
        name = hint
        if name in self.taken:
            number = self._numbers.get(hint, 2)
            while (name := f"{hint}{number}") in self.taken:
                number += 1
            self._numbers[hint] = number
        self.taken.add(name)
        return name

    def other_word(self, word: str) -> str:
        """Another name for `list`, say, for the class in which a tool is called that: there `list` would mean the
        tool.
        """
        if word not in self._others:
            self._others[word] = self.take(f"{word}_")
        return self._others[word]

    def imports(self) -> list[str]:
        """The import lines, as one block."""
        plain = ", ".join(word for word in TYPING if word in self.used)
        lines = ["from __future__ import annotations"] if "annotations" in self.used else []
        lines += [f"from typing import {plain}"] if plain else []
        for word, other in self._others.items():
            if other in self.used:
                lines.append(f"from {'typing' if word in TYPING else 'builtins'} import {word} as {other}")
        return ["\n".join(lines)] if lines else []


class Types:
    """The types of one tool, made from its schemas. What it took can be undone, for another try with tighter bounds."""

    def __init__(self, names: Names, bounds: Bounds, words: Mapping[str, str], brief: bool = False) -> None:
        self.names, self.bounds, self.brief = names, bounds, brief
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
                hint = _camel(title)
            found = self._parts(schema, root, hint, depth)
            self._under_way.discard(key)
        return list(dict.fromkeys([*found, NONE] if schema.get("nullable") is True else found))

    def _parts(self, schema: Schema, root: Schema, hint: str, depth: int) -> Parts:
        if "const" in schema:
            return self._literals([schema["const"]])
        if isinstance(values := schema.get("enum"), list):
            return self._literals(values)
        if isinstance(ref := schema.get("$ref"), str):
            return self.parts(
                _target(ref, root), root, _camel(ref.rpartition("/")[2]) if "/" in ref else hint, depth - 1
            )
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
        merged = _merged(schema, root, self.bounds.properties + 1)
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
        name = self.names.take(hint)
        self._named[key] = name
        self._taken.append(name)
        if self.brief:
            return [name]
        self._open.add(name)
        start = len(self.made)
        self.cut |= len(properties) > self.bounds.properties
        fields: dict[str, str] = {}
        for field, inner, required in _fields(schema, self.bounds.properties):
            if not _quotable(field, MAX_KEY):
                continue
            before = self._forward
            text = self.show(self.parts(inner, root, _camel(field), depth - 1))
            text = text if required else f"{self.word('NotRequired')}[{text}]"
            fields[field] = f"\0{text}" if self._forward > before else text
        self._open.discard(name)
        if not fields:
            self.names.taken.discard(name)
            del self._named[key]
            return [self._dict({}, root, hint, depth)]
        self._named[key] = self._typed_dict(name, hint, fields, start)
        return [self._named[key]]

    def arguments(self, shown: list[tuple[str, Any, bool, Parts]], hint: str) -> str:
        """Parameters whose names can't stand in a signature: a TypedDict to unpack."""
        if self._types_left <= 0 or not all(_quotable(name, MAX_KEY) for name, *_ in shown):
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
        if all(_plain(field) for field in fields) and not mentioned.intersection(fields):
            head, body = (
                f"class {name}(TypedDict):\n",
                "\n".join(f"    {f}: {text.lstrip(chr(0))}" for f, text in fields.items()),
            )
        else:
            pairs = (f"{_quoted(f)}: {_quoted(text[1:]) if text[0] == chr(0) else text}" for f, text in fields.items())
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


def _methods(specs: Iterable[ToolSpec]) -> dict[str, ToolSpec]:
    """What each tool of a namespace is called in its class: its own name, unless that can't be defined."""
    found: dict[str, ToolSpec] = {}
    for spec in specs:
        found[_free(_identifier(spec.name.rpartition(".")[2]), found)] = spec
    return found


def _fitting(spec: ToolSpec, method: str, names: Names, words: Mapping[str, str]) -> tuple[list[str], str]:
    """Its types and its method, with the widest bounds under which they fit."""
    for bounds in LEVELS:
        types = Types(names, bounds, words)
        body = _method(spec, method, types)
        if (
            bounds is LEVELS[-1]
            or sum(len(text.encode()) + 2 for text in (*types.made, body)) <= MAX_BYTES - HEADER_BYTES
        ):
            break
        types.undo()
    names.used |= types.used
    return types.made, body


def _method(spec: ToolSpec, method: str, types: Types) -> str:
    bounds = types.bounds
    arguments = _arguments(spec)
    fields = _fields(arguments, MAX_PARAMETERS)
    names = {name for name, _, _ in fields}
    shown = [
        (*field, types.parts(field[1], spec.input_schema, _camel(field[0]), bounds.depth))
        for field in fields[: bounds.properties]
    ]
    written = [_free("self", names)]
    types.cut |= len(shown) < len(fields) or bounds is not LEVELS[0]
    if not all(_plain(name) for name in names):
        inner = (
            types.arguments(shown, f"{_camel(spec.name)}Arguments") if len(shown) == len(fields) else types.word(ANY)
        )
        written.append(f"**{_free('arguments', names)}: {inner}")
    else:
        for name, schema, required, parts in shown:
            default = "" if required else f" = {_default(schema, parts) or '...'}"
            written.append(f"{name}: {types.show(parts)}{default}")
        rest = arguments.get("additionalProperties") if len(shown) == len(fields) else True
        if rest is True or isinstance(rest, Mapping):
            inner = types.show(types.parts(rest, spec.input_schema, f"{_camel(spec.name)}More", bounds.depth))
            written.append(f"**{_free('more' if shown else 'arguments', names)}: {inner}")
    result = types.word(ANY) if spec.output_schema is None else types.show(_result(spec, types))
    notes = [(name, schema) for name, schema, _, _ in shown]
    return f"    async def {method}({', '.join(written)}) -> {result}:\n{_docstring(spec, method, notes, types)}"


def _docstring(spec: ToolSpec, method: str, notes: list[tuple[str, Any]], types: Types) -> str:
    lines = [clean(spec.description, types.bounds.text)]
    if method != spec.name.rpartition(".")[2]:
        lines.append(f"Its full name: {clean(spec.name, 200)}")
    lines.append(_facts(spec.hints))
    lines.append("Result type (learned from results)." if spec.learned and spec.output_schema is not None else "")
    for name, schema in notes if types.bounds.note else []:
        if note := _note(schema, types.bounds.note):
            lines.append(f"{clean(name, MAX_KEY)}: {note}")
    lines.append("(Shortened: parts of its schema are not shown.)" if types.cut else "")
    # With no backslash and no two double quotes in a row, nothing in the text can end the docstring.
    safe = [line.replace("\\", "\\\\").replace('""', "''") for line in lines if line]
    if not safe:
        return "        ..."
    if len(safe) == 1:
        return f'        """{safe[0][:-1]}{safe[0][-1].replace(chr(34), chr(39))}"""'
    return "\n        ".join(['        """' + safe[0], *safe[1:], '"""'])


def _facts(hints: Hints) -> str:
    """What the source says of the tool, as one short line."""
    said = {
        "read-only": hints.read_only,
        "destructive (needs approval)": hints.destructive,
        "idempotent": hints.idempotent,
    }
    line = ", ".join(fact for fact, true in said.items() if true is True)
    return f"{line[0].upper()}{line[1:]}." if line else ""


def _note(schema: object, most: int) -> str:
    """A parameter's description, with what its type can't say."""
    if not isinstance(schema, Mapping):
        return ""
    form, low, high = schema.get("format"), schema.get("minimum"), schema.get("maximum")
    extra = [form] if isinstance(form, str) and form in FORMATS else []
    extra += [f"at least {low}"] if _number(low) else []
    extra += [f"at most {high}"] if _number(high) else []
    text = clean(schema.get("description"), most)
    return " ".join(filter(None, [text, f"({', '.join(extra)})" if extra else ""]))


def _arguments(spec: ToolSpec) -> Schema:
    """The object that its arguments make; anything, where the schema doesn't say."""
    if not isinstance(spec.input_schema, Mapping) or not spec.input_schema:
        return {}
    merged = _merged(spec.input_schema, spec.input_schema, MAX_PARAMETERS)
    return ANYTHING if merged is None else merged


def _result(spec: ToolSpec, types: Types) -> Parts:
    schema = spec.output_schema if isinstance(spec.output_schema, Mapping) else {}
    return types.parts(schema, schema, f"{_camel(spec.name)}Result", types.bounds.depth, at_root=True)


def _fields(schema: Schema, most: int) -> list[tuple[str, Any, bool]]:
    """An object's properties as (name, schema, required): required ones first, else in their order."""
    properties, listed = schema.get("properties"), schema.get("required")
    required = (
        {name: True for name in listed[:MAX_PARAMETERS] if isinstance(name, str)} if isinstance(listed, list) else {}
    )
    given = properties.items() if isinstance(properties, Mapping) else ()
    found = {name: inner for name, inner in islice(given, MAX_PARAMETERS) if isinstance(name, str)}
    found |= {name: True for name in required if name not in found}
    fields = [(name, inner, name in required) for name, inner in found.items()]
    return sorted(fields, key=lambda field: not field[2])[:most]


def _merged(schema: Schema, root: Schema, most: int) -> dict[str, Any] | None:
    """The one object that *schema* and what is under its `allOf` make; None where that isn't simple."""
    waiting: list[object] = [schema]
    properties: dict[str, Any] = {}
    required: list[Any] = []
    merged: dict[str, Any] = {}
    for _ in range(64):
        if not waiting:
            return {**merged, "properties": properties, "required": required} if merged else None
        part = waiting.pop()
        for _ in range(8):
            if isinstance(part, Mapping) and isinstance(ref := part.get("$ref"), str):
                part = _target(ref, root)
        if (
            not isinstance(part, Mapping)
            or {"$ref", "const", "enum", "not"} & part.keys()
            or part.get("type", "object") != "object"
        ):
            return None
        inner, listed, under = part.get("properties"), part.get("required"), part.get("allOf")
        if not isinstance(inner, Mapping) and {"anyOf", "oneOf"} & part.keys():
            return None
        if isinstance(inner, Mapping) or "type" in part:
            merged["type"] = "object"
        if "additionalProperties" in part:
            merged["additionalProperties"] = part["additionalProperties"]
        properties |= dict(islice(inner.items(), most)) if isinstance(inner, Mapping) else {}
        required += listed[:MAX_PARAMETERS] if isinstance(listed, list) else []
        waiting += reversed(under[:64]) if isinstance(under, list) else []
    return None


def _target(ref: str, root: Schema) -> object:
    """What a `$ref` into the same schema points at; None for all others."""
    if not ref.startswith("#") or len(ref) > 500:
        return None
    found: object = root
    for token in ref[1:].split("/")[1:]:
        key = unquote(token).replace("~1", "/").replace("~0", "~")
        if isinstance(found, Mapping):
            found = found.get(key)
        elif isinstance(found, list) and re.fullmatch(r"[0-9]{1,6}", key) and int(key) < len(found):
            found = found[int(key)]
        else:
            return None
    return found if ref[1:2] in ("", "/") else None


def _default(schema: object, parts: Parts) -> str:
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
        return _quoted(value) if not value or _quotable(value, MAX_LITERAL) else None
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


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e15


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _quotable(text: str, most: int) -> bool:
    return 0 < len(text) <= most and text.isprintable()


def _plain(name: str) -> bool:
    """Whether it can be a parameter or a key as it is. Two leading underscores would be mangled, and non-ASCII ones
    normalised.
    """
    return (
        name.isascii()
        and name.isidentifier()
        and not keyword.iskeyword(name)
        and not name.startswith("__")
        and len(name) <= MAX_KEY
    )


def _identifier(text: str) -> str:
    """*text* as a name that can be defined in a class."""
    made = re.sub(r"[^A-Za-z0-9_]", "_", text[:128])
    made = f"_{made}" if not made or made[0] in DIGITS else made
    made = f"_{made.lstrip('_')}" if made.startswith("__") else made
    return f"{made}_" if keyword.iskeyword(made) else made


def _camel(text: str) -> str:
    """*text* as the name of a type: `search_issues` becomes `SearchIssues`."""
    made = "".join(word[0].upper() + word[1:] for word in re.findall(r"[A-Za-z0-9]+", text[:200]))[:60]
    return made if made and made[0] not in DIGITS else f"Type{made}"


def _free(hint: str, taken: Container[str]) -> str:
    """*hint*, or it with a number, so that it isn't taken."""
    return next(name for name in (f"{hint}{number or ''}" for number in count()) if name not in taken)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"

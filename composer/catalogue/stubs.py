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

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from go_ent.composer.catalogue.spec import Hints, ToolSpec
from go_ent.composer.catalogue.stub_names import MAX_KEY, WORDS, Names, camel, clean, cut, free, identifier, plain
from go_ent.composer.catalogue.stub_objects import MAX_PARAMETERS, arguments_of, fields_of
from go_ent.composer.catalogue.stub_types import ANY, Bounds, Parts, Types, default_text
from go_ent.dataclass import dataclass

MAX_BYTES = 8192  # of one tool's stub
HEADER_BYTES = 1024  # of them, kept for imports and the class line
MAX_LINE = 400  # of a signature, in characters
FORMATS = frozenset(
    "date-time date time duration email hostname ipv4 ipv6 uri uri-reference url uuid byte binary regex".split()
)
# Each is tried until the stub fits; the last one always does.
LEVELS = (
    Bounds(depth=16, nodes=2000, types=40, properties=60, members=30, text=1200, note=200),
    Bounds(depth=8, nodes=400, types=12, properties=40, members=12, text=800, note=60),
    Bounds(depth=3, nodes=100, types=0, properties=25, members=4, text=400, note=0),
    Bounds(depth=1, nodes=2, types=0, properties=0, members=0, text=200, note=0),
)
INLINE = Bounds(depth=5, nodes=120, types=12, properties=16, members=8, text=160, note=60)
SHAPE = re.compile(r"\{[^{}\n]*\}")  # an object without one inside it
SHORT_SHAPE = 24
BRIEF = Bounds(depth=6, nodes=100, types=40, properties=12, members=6, text=140, note=0)


def stub(spec: ToolSpec) -> str:
    """The stub of one tool: 8 KB at most, and it says so where something was left out."""
    return stubs([spec])


@dataclass(frozen=True, slots=True)
class StubClass:
    """The tools of one namespace: what their class is called, the types that they need, and their methods."""

    namespace: str
    label: str
    types: list[str]
    methods: dict[str, str]  # the text of each by its name
    specs: dict[str, ToolSpec]


def stubs(specs: Iterable[ToolSpec]) -> str:
    """The stubs of several tools as one text: one class for each namespace, equal types once. The first of two equal
    names counts.
    """
    names = Names()
    text: list[str] = []
    for made in stub_classes(specs, names):
        path = "".join(f"{identifier(part)}." for part in made.namespace.split(".")[:4] if part)
        head = f"class {made.label}(Protocol):  # await tools.{path}{next(iter(made.methods))}(...)\n"
        text += [*made.types, head + "\n".join(made.methods.values())]
    return "\n\n".join([*names.imports(), *text]) + "\n" if text else ""


def stub_classes(specs: Iterable[ToolSpec], names: Names) -> list[StubClass]:
    """A class for each namespace, with names that are taken from *names*."""
    groups: dict[str, dict[str, ToolSpec]] = {}
    for spec in specs:
        groups.setdefault(spec.namespace, {}).setdefault(spec.name, spec)
    blocks = {namespace: _methods(found.values()) for namespace, found in groups.items()}
    for block in blocks.values():
        names.taken.update(block)  # so that no method hides a type
    found: list[StubClass] = []
    for namespace, block in blocks.items():
        words = {word: names.other_word(word) for word in WORDS.intersection(block)}
        types: list[str] = []
        methods: dict[str, str] = {}
        for method, spec in block.items():
            made, methods[method] = _fitting(spec, method, names, words)
            types += made
        label = names.take(identifier(namespace)[:64] if namespace else "tools")
        found.append(StubClass(namespace, label, types, methods, block))
        names.used.add("Protocol")
    return found


def compact(specs: Iterable[ToolSpec], *, notes: bool = True) -> str:
    """Tools for a model that is to call them, in as few words as that takes: a line each, with the members of what they
    return, and an object that several return said once. *notes* on parameters can be left out.
    """
    lines = [_compact_line(spec, INLINE if notes else replace(INLINE, note=0)) for spec in specs]
    text = "\n".join(lines)
    named: list[str] = []
    for shape, times in Counter(SHAPE.findall(text)).most_common():
        if times > 1 and len(shape) > SHORT_SHAPE:
            name = f"T{len(named) + 1}"
            text = text.replace(shape, name)
            named.append(f"{name} = {shape}")
    return "\n".join([*named, text])


def _compact_line(spec: ToolSpec, bounds: Bounds) -> str:
    types = Types(Names(), bounds, {}, brief=True, inline=True)
    shown, notes = [], []
    for name, schema, required in fields_of(arguments_of(spec), MAX_PARAMETERS)[: INLINE.properties]:
        parts = types.parts(schema, spec.input_schema, camel(name), INLINE.depth)
        default = "" if required else f" = {default_text(schema, parts) or '…'}"
        label = name if plain(name) else repr(clean(name, 40))
        shown.append(f"{label}: {cut(types.show(parts), 200)}{cut(default, 30)}")
        if bounds.note and (note := note_of(schema, bounds.note)):
            notes.append(f"{label}: {note}")
    result = ANY if spec.output_schema is None else types.show(_result(spec, types))
    said = [clean(spec.description, INLINE.text), "Needs approval." if spec.hints.destructive else "", "; ".join(notes)]
    line = f"{clean(spec.name, 130)}({', '.join(shown)}) -> {cut(result, 300)}"
    about = " ".join(part for part in said if part)
    return cut(f"{line}  # {about}" if about else line, 2 * MAX_LINE)


def signature(spec: ToolSpec) -> str:
    """One line for a list: `github.search_issues(q: str, state: 'open'|'closed' = …) -> list[Issue] — Search
    issues.`
    """
    types = Types(Names(), BRIEF, {}, brief=True)
    shown: list[str] = []
    fields = fields_of(arguments_of(spec), MAX_PARAMETERS)
    for name, schema, required in fields:
        if len(shown) == BRIEF.properties or sum(map(len, shown)) > MAX_LINE // 2:
            shown.append("…")
            break
        parts = types.parts(schema, spec.input_schema, camel(name), BRIEF.depth)
        default = "" if required else f" = {default_text(schema, parts) or '…'}"
        label = name if plain(name) else repr(clean(name, 40))
        shown.append(f"{label}: {cut(types.show(parts), 60)}{cut(default, 30)}")
    result = ANY if spec.output_schema is None else types.show(_result(spec, types))
    said = about(spec)
    line = f"{clean(spec.name, 130)}({', '.join(shown)}) -> {cut(result, 60)}"
    return cut(f"{line} — {said}" if said else line, 2 * MAX_LINE)


def about(spec: ToolSpec) -> str:
    """The first sentence of its description, as one printable line."""
    text = clean(spec.description, 4 * BRIEF.text)
    sentence = re.match(r".*?[.!?](?=\s|$)", text)
    return cut(sentence[0] if sentence else text, BRIEF.text)


def fields(spec: ToolSpec) -> list[tuple[str, str, str, str]]:
    """Its parameters for people: name, type, default (empty for one that is required), and what it is for."""
    types = Types(Names(), BRIEF, {}, brief=True)
    found = []
    for name, schema, required in fields_of(arguments_of(spec), MAX_PARAMETERS):
        parts = types.parts(schema, spec.input_schema, camel(name), BRIEF.depth)
        default = "" if required else default_text(schema, parts) or "…"
        found.append((name, cut(types.show(parts), 60), cut(default, 30), note_of(schema, INLINE.text)))
    return found


def parameters(spec: ToolSpec) -> list[str]:
    """The names of its parameters in the stub's order: required ones, then optional ones, both as in the schema."""
    return [name for name, _, _ in fields_of(arguments_of(spec), MAX_PARAMETERS)]


def _methods(specs: Iterable[ToolSpec]) -> dict[str, ToolSpec]:
    """What each tool of a namespace is called in its class: its own name, unless that can't be defined."""
    found: dict[str, ToolSpec] = {}
    for spec in specs:
        found[free(identifier(spec.name.rpartition(".")[2]), found)] = spec
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
    arguments = arguments_of(spec)
    fields = fields_of(arguments, MAX_PARAMETERS)
    names = {name for name, _, _ in fields}
    shown = [
        (*field, types.parts(field[1], spec.input_schema, camel(field[0]), bounds.depth))
        for field in fields[: bounds.properties]
    ]
    written = [free("self", names)]
    types.cut |= len(shown) < len(fields) or bounds is not LEVELS[0]
    if not all(plain(name) for name in names):
        inner = types.arguments(shown, f"{camel(spec.name)}Arguments") if len(shown) == len(fields) else types.word(ANY)
        written.append(f"**{free('arguments', names)}: {inner}")
    else:
        for name, schema, required, parts in shown:
            default = "" if required else f" = {default_text(schema, parts) or '...'}"
            written.append(f"{name}: {types.show(parts)}{default}")
        rest = arguments.get("additionalProperties") if len(shown) == len(fields) else True
        if rest is True or isinstance(rest, Mapping):
            inner = types.show(types.parts(rest, spec.input_schema, f"{camel(spec.name)}More", bounds.depth))
            written.append(f"**{free('more' if shown else 'arguments', names)}: {inner}")
    result = types.word(ANY) if spec.output_schema is None else types.show(_result(spec, types))
    notes = [(name, schema) for name, schema, _, _ in shown]
    return f"    async def {method}({', '.join(written)}) -> {result}:\n{_docstring(spec, method, notes, types)}"


def _docstring(spec: ToolSpec, method: str, notes: list[tuple[str, Any]], types: Types) -> str:
    lines = [clean(spec.description, types.bounds.text)]
    if method != spec.name.rpartition(".")[2]:
        lines.append(f"Its full name: {clean(spec.name, 200)}")
    lines.append(facts(spec.hints))
    lines.append("Result type (learned from results)." if spec.learned and spec.output_schema is not None else "")
    for name, schema in notes if types.bounds.note else []:
        if note := note_of(schema, types.bounds.note):
            lines.append(f"{clean(name, MAX_KEY)}: {note}")
    lines.append("(Shortened: parts of its schema are not shown.)" if types.cut else "")
    # With no backslash and no two double quotes in a row, nothing in the text can end the docstring.
    safe = [line.replace("\\", "\\\\").replace('""', "''") for line in lines if line]
    if not safe:
        return "        ..."
    if len(safe) == 1:
        return f'        """{safe[0][:-1]}{safe[0][-1].replace(chr(34), chr(39))}"""'
    return "\n        ".join(['        """' + safe[0], *safe[1:], '"""'])


def facts(hints: Hints) -> str:
    """What the source says of the tool, as one short line."""
    said = {
        "read-only": hints.read_only,
        "destructive (needs approval)": hints.destructive,
        "idempotent": hints.idempotent,
    }
    line = ", ".join(fact for fact, true in said.items() if true is True)
    return f"{line[0].upper()}{line[1:]}." if line else ""


def note_of(schema: object, most: int) -> str:
    """A parameter's description, with what its type can't say."""
    if not isinstance(schema, Mapping):
        return ""
    form, low, high = schema.get("format"), schema.get("minimum"), schema.get("maximum")
    extra = [form] if isinstance(form, str) and form in FORMATS else []
    extra += [f"at least {low}"] if _number(low) else []
    extra += [f"at most {high}"] if _number(high) else []
    text = clean(schema.get("description"), most)
    return " ".join(filter(None, [text, f"({', '.join(extra)})" if extra else ""]))


def _result(spec: ToolSpec, types: Types) -> Parts:
    schema = spec.output_schema if isinstance(spec.output_schema, Mapping) else {}
    return types.parts(schema, schema, f"{camel(spec.name)}Result", types.bounds.depth, at_root=True)


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e15

"""A tool's schemas as TypeScript: what a model reads before it writes a call in JavaScript or TypeScript.

    declare const tools: {
      github: {
        /** Search issues. */
        search_issues(args: { q: string; state?: "open" | "closed" }): Promise<SearchIssuesResult>;
      };
    };

As in Python's stubs, all text comes from servers that may be hostile: names are plain or quoted, literals are quoted,
and descriptions are one printable line in a comment that they can't end. Everything is counted; what is over a bound is
`any`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace

from go_ent.composer.catalogue.spec import ToolSpec
from go_ent.composer.catalogue.stub_names import MAX_KEY, clean, cut, quotable
from go_ent.composer.catalogue.stub_objects import MAX_PARAMETERS, arguments_of, fields_of
from go_ent.composer.catalogue.stub_types import Bounds
from go_ent.composer.catalogue.stubs import (
    BRIEF,
    HEADER_BYTES,
    INLINE,
    LEVELS,
    MAX_BYTES,
    MAX_LINE,
    about,
    facts,
    note_of,
)
from go_ent.composer.catalogue.typescript_types import ANY, Declared, TypeScript, default_text, property_name
from go_ent.dataclass import dataclass


@dataclass(slots=True)
class _Space:
    """A namespace: the tool of that very name, if there is one, and what is in it."""

    method: list[str] = field(default_factory=list)  # its lines; a NUL stands for its name
    inner: dict[str, _Space] = field(default_factory=dict)


def stubs(specs: Iterable[ToolSpec]) -> str:
    """The stubs of several tools as one text: the types that they need, then `tools`. The first of two equal names
    counts.
    """
    declared, root = Declared(), _Space()
    for spec in {spec.name: spec for spec in reversed(list(specs))}.values():
        space = root
        for part in spec.name.split(".")[:8]:
            space = space.inner.setdefault(part, _Space())
        space.method = _method(spec, declared)
    if not root.inner:
        return ""
    types = "".join(f"type {name} = {text};\n" for name, text in declared.texts.items())
    return f"{types}declare const tools: {{\n{_members(root, '  ')}}};\n"


def _members(space: _Space, indent: str) -> str:
    text = ""
    for name, inner in sorted(space.inner.items()):
        called = property_name(name) if quotable(name, MAX_KEY) else '"?"'
        if not inner.inner:
            text += "".join(f"{indent}{line}\n" for line in inner.method).replace("\0", called)
        else:
            own = "".join(f"{indent}  {line}\n" for line in inner.method).replace("\0", "")
            text += f"{indent}{called}: {{\n{own}{_members(inner, f'{indent}  ')}{indent}}};\n"
    return text


def _method(spec: ToolSpec, declared: Declared) -> list[str]:
    """Its comment and its method, with the widest bounds under which they fit."""
    lines: list[str] = []
    for bounds in LEVELS:
        types = TypeScript(declared, bounds)
        lines = _written(spec, types)
        made = sum(len(name) + len(declared.texts[name].encode()) + 12 for name in types.names)
        if bounds is LEVELS[-1] or made + sum(len(line.encode()) + 17 for line in lines) <= MAX_BYTES - HEADER_BYTES:
            break
        types.undo()
    return lines


def _written(spec: ToolSpec, types: TypeScript) -> list[str]:
    given, notes = _arguments(spec, types)
    result = ANY if spec.output_schema is None else types.of(spec.output_schema, spec.output_schema)
    types.cut |= types.bounds is not LEVELS[0]
    lines = [clean(spec.description, types.bounds.text), facts(spec.hints)]
    lines.append("Result type (learned from results)." if spec.learned and spec.output_schema is not None else "")
    lines += [f"@param args.{name} {note}" for name, note in notes]
    lines.append("(Shortened: parts of its schema are not shown.)" if types.cut else "")
    told = [line.replace("*/", "* /") for line in lines if line]
    comment = [f"/** {told[0]} */"] if len(told) == 1 else []
    if len(told) > 1:
        comment = ["/**", *(f" * {line}" for line in told), " */"]
    return [*comment, f"\0({given}): Promise<{result}>;"]


def _arguments(spec: ToolSpec, types: TypeScript) -> tuple[str, list[tuple[str, str]]]:
    """The parameter of a method, and what is said of its members."""
    bounds, arguments = types.bounds, arguments_of(spec)
    fields = [one for one in fields_of(arguments, MAX_PARAMETERS) if quotable(one[0], MAX_KEY)]
    shown, notes = [], []
    for name, schema, required in fields[: bounds.properties]:
        shown.append(f"{property_name(name)}{'' if required else '?'}: {types.of(schema, spec.input_schema)}")
        default = "" if types.inline else default_text(schema)
        note = " ".join(filter(None, [note_of(schema, bounds.note), f"Default: {default}." if default else ""]))
        if bounds.note and note:
            notes.append((clean(name, MAX_KEY), note))
    types.cut |= len(shown) < len(fields)
    rest = arguments.get("additionalProperties") if len(shown) == len(fields) else True
    more = rest is True or isinstance(rest, Mapping)
    if not shown:
        return ("args?: Record<string, any>" if more else ""), []
    body = f"{{ {'; '.join(shown)}{'; [key: string]: any' if more else ''} }}"
    return f"args{'' if any(required for _, _, required in fields) else '?'}: {body}", notes


def compact(specs: Iterable[ToolSpec], *, notes: bool = True) -> str:
    """Tools for a model that is to call them, in as few words as that takes: a line each."""
    return "\n".join(_line(spec, INLINE if notes else replace(INLINE, note=0)) for spec in specs)


def _line(spec: ToolSpec, bounds: Bounds) -> str:
    types = TypeScript(Declared(), bounds, inline=True)
    given, told = _arguments(spec, types)
    result = ANY if spec.output_schema is None else types.of(spec.output_schema, spec.output_schema)
    said = [clean(spec.description, bounds.text), "Needs approval." if spec.hints.destructive else ""]
    said.append("; ".join(f"{name}: {note}" for name, note in told))
    line = f"{clean(spec.name, 130)}({cut(given.partition(': ')[2], 400)}): {cut(result, 300)}"
    words = " ".join(part for part in said if part)
    return cut(f"{line}  // {words}" if words else line, 2 * MAX_LINE)


def signature(spec: ToolSpec) -> str:
    """One line for a list: `github.search_issues({ q: string }): Issue[] — Search issues.`"""
    types = TypeScript(Declared(), BRIEF, inline=True)
    given, _ = _arguments(spec, types)
    result = ANY if spec.output_schema is None else types.of(spec.output_schema, spec.output_schema)
    line = f"{clean(spec.name, 130)}({cut(given.partition(': ')[2], MAX_LINE // 2)}): {cut(result, 60)}"
    return cut(f"{line} — {said}" if (said := about(spec)) else line, 2 * MAX_LINE)

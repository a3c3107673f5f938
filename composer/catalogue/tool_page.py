"""Tools as a page of Markdown. Names and words come from elsewhere: they stand there as text, and make no markup."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from go_ent.composer.catalogue import stubs
from go_ent.composer.catalogue.spec import ToolSpec
from go_ent.composer.catalogue.stub_names import clean

MOST_TEXT = 4000  # characters of a description
MOST_EXAMPLE = 2000
MARKUP = re.compile(r"[\\`*_\[\]|~$]")
BEGINS = re.compile(r"(?:[-+#=]|[0-9]+(?=[.)]))")  # what would be a list, a heading or a rule at the start of a line


Examples = Sequence[Mapping[str, Any]]


def page(title: str, composed: Iterable[tuple[ToolSpec, Examples]], others: Iterable[ToolSpec]) -> str:
    """A section for each composed tool, with an example; then a table of the other tools, by where they come from."""
    parts = [f"# {text(title)}"]
    for spec, examples in composed:
        parts += [*_section(spec), *_example(spec, examples)]
    by_origin: dict[str, list[ToolSpec]] = {}
    for spec in others:
        by_origin.setdefault(spec.origin, []).append(spec)
    for origin, specs in by_origin.items():
        rows = [f"| {_code(spec.name)} | {text(stubs.about(spec))} |" for spec in specs]
        parts += [f"## {text(origin)}", "\n".join(["| tool | what it does |", "|---|---|", *rows])]
    return "\n\n".join(parts) + "\n"


def text(given: object, most: int = MOST_TEXT) -> str:
    """Text from elsewhere as one line of Markdown that shows just that text."""
    line = clean(given if isinstance(given, str) else str(given), most)
    escaped = line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    marked = MARKUP.sub(r"\\\g<0>", escaped)
    found = BEGINS.match(marked)
    return marked if found is None else f"&#{ord(marked[0])};{marked[1:]}"


def _section(spec: ToolSpec) -> list[str]:
    paragraphs = [text(part) for part in re.split(r"\n\s*\n", spec.description[:MOST_TEXT]) if part.strip()]
    called = stubs.signature(replace(spec, description=""))
    made = [f"## {_code(spec.name)}", *paragraphs, _fenced(called, "python")]
    rows = [
        f"| {_code(name)} | {_code(kind)} | {_code(default) if default else 'required'} | {text(note)} |"
        for name, kind, default, note in stubs.fields(spec)
    ]
    if rows:
        made.append("\n".join(["| parameter | type | default | |", "|---|---|---|---|", *rows]))
    return made


def _example(spec: ToolSpec, examples: Examples) -> list[str]:
    """The first example that is short enough to be read."""
    for example in examples:
        given = ", ".join(f"{name}={json.dumps(value, ensure_ascii=True)}" for name, value in example["inputs"].items())
        told = f"error: {example['error']}" if example.get("error") else json.dumps(example.get("result"))
        shown = f"{spec.name}({given})\n{told}"
        if len(shown) <= MOST_EXAMPLE:
            return ["Example:", _fenced(shown, "text")]
    return []


def _fenced(code: str, kind: str) -> str:
    """A block of code; none of its lines can end it."""
    ticks = max((len(run) for run in re.findall(r"`+", code)), default=0)
    fence = "`" * max(3, ticks + 1)
    return f"{fence}{kind}\n{code}\n{fence}"


def _code(given: str) -> str:
    """A short piece of code, also in a table."""
    line = clean(given, 200).replace("`", "'").replace("|", "\\|")
    return f"`{line}`"

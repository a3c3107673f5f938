"""`go-ent tool run T --help`: what T is for, its parameters with types and defaults, and an example to copy."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any

from go_ent.engine.cli.inputs.values import kinds
from go_ent.engine.cli.terminal.output import plain, say, short
from go_ent.engine.cli.terminal.tables import hanging

MOST_TYPED = 80  # characters that people would copy; more is in a file
TAKEN = frozenset(
    "input each slurp fail-fast jobs grant timeout cpu memory yes quiet json output file out help version".split()
)


def show_tool_help(name: str, description: str, schema: Mapping[str, Any], example: Mapping[str, Any] | None) -> None:
    """The help of one tool, for a person. All of it is a stranger's text: it is printed plain."""
    properties = schema.get("properties")
    parameters: Mapping[str, Any] = properties if isinstance(properties, Mapping) else {}
    required = set(schema.get("required") or ())
    flags = [_flag(one) if one in required else f"[{_flag(one)}]" for one in parameters]
    say(f"Usage: go-ent tool run {name} {' '.join(flags)}".rstrip())
    say("")
    for line in plain(description).strip().splitlines() or [""]:
        say(hanging(line, 0))
    say("")
    if parameters:
        say("Parameters:")
        rows = [_row(one, schema, one in required) for one, schema in parameters.items()]
        width = max(len(row[0]) for row in rows)
        kind = max(len(row[1]) for row in rows)
        for flag, of, about in rows:
            say(f"  {flag:<{width}}  {of:<{kind}}  {hanging(about, width + kind + 6)}".rstrip())
        say("")
    say("Example:")
    say(f"  {example_of(name, parameters, required, example)}\n")
    say("Also NAME=VALUE, NAME:=JSON; a value may be @FILE, or - for stdin.")
    say("More: go-ent tool run --help")


def example_of(name: str, parameters: Mapping[str, Any], required: set[str], example: Mapping[str, Any] | None) -> str:
    """A command that runs the tool: with an example's inputs, or with something for what must be given."""
    words = ["go-ent", "tool", "run", name]
    if example is not None:
        values = {one: value for one, value in example.items() if one in parameters}
    else:
        values = {one: _sample(schema) for one, schema in parameters.items() if one in required}
    for one, value in values.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        if len(text) > MOST_TYPED or "\n" in text:
            text = f"@{one}.{'txt' if isinstance(value, str) else 'json'}"
        words += [_flag(one).partition("=")[0], text] if _flag(one).startswith("--") else [f"{one}={text}"]
    return plain(" ".join(short(shlex.quote(word)) for word in words))


def _flag(name: str) -> str:
    """How a parameter is written: the command has options of its own, which are read first."""
    dashed = name.replace("_", "-")
    return f"{name}=VALUE" if dashed in TAKEN else f"--{dashed}"


def _row(name: str, schema: Any, required: bool) -> tuple[str, str, str]:
    of = "|".join(sorted(kinds(schema))) or "any"
    about = []
    if isinstance(schema, Mapping):
        if schema.get("description"):
            about.append(short(schema["description"]))
        if isinstance(choices := schema.get("enum"), list):
            about.append(f"[{', '.join(short(json.dumps(one)) for one in choices[:10])}]")
        if "default" in schema:
            about.append(f"[default: {short(json.dumps(schema['default']))}]")
    if required:
        about.append("[required]")
    return _flag(name), short(of), " ".join(about)


def _sample(schema: Any) -> Any:
    if isinstance(schema, Mapping):
        if isinstance(choices := schema.get("enum"), list) and choices:
            return choices[0]
        for of, value in (("string", "TEXT"), ("integer", 1), ("number", 1.5), ("boolean", True), ("array", [])):
            if of in kinds(schema):
                return value
    return {}

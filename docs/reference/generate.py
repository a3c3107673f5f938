"""Makes the reference from the code: `python docs/reference/generate.py`, or `make docs`. The suite says when it is
out of date.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import inspect
import io
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
MADE = "<!-- Made by generate.py from the code: change it there. -->\n"
META = {"--help", "-h", "--version"}


def pages() -> dict[str, str]:
    """The pages of the reference that are made, by file name."""
    os.environ["COLUMNS"] = "100"
    made = {"cli.md": cli(), "config.md": config(), "mcp-tools.md": mcp_tools(), "api.md": api()}
    return {name: f"{text.rstrip()}\n" for name, text in made.items()}


def cli() -> str:
    parts = [MADE, "# The command line\n", "What `--help` says of each command. [Exit codes](exit-codes.md).\n"]
    for path in ((), *_commands()):
        parts.append(f"## `{' '.join(('go-ent', *path))}`\n\n```text\n{_help(path)}```\n")
    return "\n".join(parts)


def _commands() -> Iterator[tuple[str, ...]]:
    from go_ent.engine.cli import app

    for name in sorted(set(app) - META):
        group = app[name]
        below = sorted(set(group) - META)
        yield (name,)
        yield from ((name, inner) for inner in below)


def _help(path: tuple[str, ...]) -> str:
    from go_ent.engine.cli import app

    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        app([*path, "--help"], exit_on_error=False, result_action="return_value")
    return "\n".join(line.rstrip() for line in said.getvalue().strip("\n").splitlines()) + "\n"


def config() -> str:
    from go_ent.engine.settings.schema import schema

    whole = schema()
    parts = [
        MADE,
        "# The configuration\n",
        "`.go-ent/config.toml`. `go-ent config schema` prints the same as a JSON schema for editors.\n",
    ]
    for section, given in sorted(whole["properties"].items()):
        found = _resolved(given, whole)
        rows = list(_settings(found, whole, section))
        about = found.get("description", given.get("description", ""))
        parts.append(f"## `[{section}]`\n\n{about}\n" if about else f"## `[{section}]`\n")
        if rows:
            parts.append("| setting | what it may be | default | |\n|---|---|---|---|\n" + "\n".join(rows) + "\n")
    return "\n".join(parts)


def _settings(found: dict[str, Any], whole: dict[str, Any], prefix: str) -> Iterator[str]:
    for name, given in found.get("properties", {}).items():
        inner = _resolved(given, whole)
        if inner.get("type") == "object" and "properties" in inner:
            yield from _settings(inner, whole, f"{prefix}.{name}")
            continue
        default = "" if given.get("default") is None else f"`{json.dumps(given['default'], ensure_ascii=False)}`"
        yield f"| `{prefix}.{name}` | {_kind(given, whole)} | {default} | {_cell(given.get('description', ''))} |"
    for more in (*found.get("patternProperties", {}).values(), found.get("additionalProperties")):
        if not isinstance(more, dict):
            continue
        inner = _resolved(more, whole)
        if "properties" in inner:
            yield from _settings(inner, whole, f"{prefix}.NAME")
        elif prefix.count(".") == 0:
            yield f"| `{prefix}.NAME` | {_kind(more, whole)} | | {_cell(more.get('description', ''))} |"


def _resolved(schema: dict[str, Any], whole: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in schema:
        schema = whole["$defs"][schema["$ref"].rpartition("/")[2]]
    choices = [one for one in schema.get("anyOf", ()) if one.get("type") != "null"]
    return _resolved(choices[0], whole) if len(choices) == 1 else schema


def _kind(schema: dict[str, Any], whole: dict[str, Any]) -> str:
    """What a value may be, in words."""
    found = _resolved(schema, whole)
    if "enum" in found:
        return ", ".join(f"`{value}`" for value in found["enum"])
    if "anyOf" in found:
        return " or ".join(_kind(one, whole) for one in found["anyOf"] if one.get("type") != "null")
    kind = {
        "string": "text",
        "integer": "whole number",
        "number": "number",
        "boolean": "`true` or `false`",
        "object": "table",
    }.get(found.get("type", ""), "anything")
    if found.get("type") == "array":
        return f"list of {_kind(found.get('items', {}), whole)}"
    bounds = [f"{word} {found[key]:g}" for key, word in BOUNDS.items() if key in found]
    return f"{kind}, {', '.join(bounds)}" if bounds else kind


BOUNDS = {"minimum": "at least", "exclusiveMinimum": "more than", "maximum": "at most", "exclusiveMaximum": "less than"}


def mcp_tools() -> str:
    tools = asyncio.run(_tools())
    parts = [
        MADE,
        "# The MCP server's tools\n",
        "What a client of `go-ent serve` sees in a project without composed tools.\n",
    ]
    for tool in sorted(tools, key=lambda one: str(one.name)):
        hints = tool.annotations.model_dump(exclude_none=True) if tool.annotations is not None else {}
        words = [word for name, word in HINTS.items() if hints.get(name)]
        parts.append(
            f"## `{tool.name}`\n\n{tool.description}\n" + (f"\n{', '.join(words).capitalize()}.\n" if words else "")
        )
        rows = [
            f"| `{name}`{'' if name in tool.parameters.get('required', ()) else ' (optional)'} | "
            f"{_kind(given, tool.parameters)} "
            f"| {_cell(given.get('description', ''))} |"
            for name, given in tool.parameters.get("properties", {}).items()
        ]
        if rows:
            parts.append("| argument | what it may be | |\n|---|---|---|\n" + "\n".join(rows) + "\n")
        output = tool.output_schema or {}
        answers = ", ".join(f"`{name}`" for name in output.get("properties", {}))
        parts.append(f"Answers with {answers}.\n" if answers else "")
    return "\n".join(part for part in parts if part)


HINTS = {
    "readOnlyHint": "changes nothing",
    "destructiveHint": "may destroy something",
    "idempotentHint": "doing it twice is doing it once",
    "openWorldHint": "reaches beyond this machine",
}


async def _tools() -> list[Any]:
    from go_ent.composer import Composer
    from go_ent.engine import Engine
    from go_ent.engine.server import make_server

    with tempfile.TemporaryDirectory() as folder:
        os.environ["GO_ENT_DATA"] = f"{folder}/user"
        project = Path(folder) / "project"
        project.mkdir()
        async with Composer(project) as composer, Engine(project, composer=composer) as engine:
            return list(await make_server(composer, engine).list_tools())


def api() -> str:
    about = (
        "What each package exports. All of it is typed; [the library guide](../guides/library.md) shows its use. "
        "The names that most programs need are in `go_ent` itself: "
        "`from go_ent import Composer, Engine, Limits, Sandbox, Task`.\n"
    )
    parts = [MADE, "# The Python API\n", about]
    for package in ("sandbox", "composer", "engine"):
        module = importlib.import_module(f"go_ent.{package}")
        parts.append(f"## `go_ent.{package}`\n\n{(module.__doc__ or '').strip().splitlines()[0]}\n")
        parts += [_entry(name, getattr(module, name)) for name in sorted(module.__all__)]
    return "\n".join(parts)


def _entry(name: str, value: Any) -> str:
    whole = (inspect.getdoc(value) or "") if inspect.isclass(value) or callable(value) else ""
    about = "\n\n".join(part.replace("\n", " ") for part in whole.split("\n\n"))
    if inspect.isclass(value) and issubclass(value, BaseException):
        return f"### `{name}`\n\nAn exception. {about}\n"
    if not inspect.isclass(value) and not inspect.isfunction(value):
        return f"### `{name}`\n\n{about or 'A type.'}\n"
    if hasattr(value, "model_rebuild"):  # built when first used: till then its fields are not in its signature
        value.model_rebuild()
    lines = [f"### `{name}{_signature(value)}`\n", f"{about}\n"]
    if inspect.isclass(value) and not hasattr(value, "model_fields"):
        for method, function in sorted(vars(value).items()):
            plain = function.__func__ if isinstance(function, classmethod | staticmethod) else function
            if not method.startswith("_") and inspect.isfunction(plain):
                said = " ".join((inspect.getdoc(plain) or "").partition("\n\n")[0].split())
                lines.append(
                    f"- `{'await ' if inspect.iscoroutinefunction(plain) else ''}{method}{_signature(plain)}` {said}"
                )
        lines.append("")
    return "\n".join(lines)


def _signature(value: Any) -> str:
    try:
        found = inspect.signature(value)
    except (ValueError, TypeError):
        return ""
    names = [one for one in found.parameters.values() if one.name not in ("self", "cls")]
    shown, keyword = [], False
    for one in names:
        if one.kind is one.KEYWORD_ONLY and not keyword:
            shown.append("*")
            keyword = True
        keyword = keyword or one.kind is one.VAR_POSITIONAL
        star = {one.VAR_POSITIONAL: "*", one.VAR_KEYWORD: "**"}.get(one.kind, "")
        shown.append(f"{star}{one.name}" + ("=…" if one.default is not one.empty else ""))
    return f"({', '.join(shown)})"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def main() -> None:
    if sys.argv[1:] == ["--check"]:
        stale = [name for name, text in pages().items() if (HERE / name).read_text(encoding="utf-8") != text]
        raise SystemExit(f"out of date: {', '.join(stale)}; run make docs" if stale else 0)
    for name, text in pages().items():
        (HERE / name).write_text(text, encoding="utf-8")
        print(f"docs/reference/{name}: {len(text.splitlines())} lines")


if __name__ == "__main__":
    sys.path.insert(0, str(HERE.parents[1]))
    main()

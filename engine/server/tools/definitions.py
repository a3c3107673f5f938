"""How a composed tool is shown to an MCP client: short, and so that no tool's file can spoil the list for the others.

A client hands the whole list to a model's API, or compiles every schema in it: one that it can't take costs all of
them. So a schema is shown as it is only if it keeps to the few words that every client knows; else an open one stands
for it. What a tool takes and returns is checked by the composer in any case.
"""

from __future__ import annotations

import re
from typing import Any, Final

from fastmcp.utilities.json_schema import dereference_refs
from mcp_types import ToolAnnotations
from pydantic_core import PydanticSerializationError, to_json

from go_ent.composer import Composer
from go_ent.composer.catalogue.spec import Hints
from go_ent.composer.catalogue.stub_names import clean
from go_ent.composer.composed.source import Composed

MAX_DESCRIPTION = 400
MAX_SCHEMA = 3_000  # bytes of JSON, with what it refers to written out
MAX_DEPTH = 30
MAX_NAME = 50  # clients put their name for the server before it, and models' APIs take 64
KEY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")  # in what a tool takes: models' APIs refuse the whole request for any other
ANY_KEY = re.compile(r"(?s:.{0,200})")
SPACES = str.maketrans("\t\n\r", "   ")
DATA = frozenset({"default", "const", "enum", "examples"})
TYPES = frozenset({"object", "array", "string", "integer", "number", "boolean", "null"})
NESTED = frozenset({"items", "additionalProperties"})
NAMED = frozenset({"properties", "$defs"})
LISTS = frozenset({"anyOf", "prefixItems"})
PLAIN = frozenset({"required", "minItems", "maxItems", "uniqueItems", "minimum", "maximum", "minLength", "maxLength"})
OPEN: Final[dict[str, Any]] = {"type": "object"}
SEE = "Parameters: see tool_schema."
WRAPPED = "x-fastmcp-wrap-result"  # fastmcp's clients take the result out again


def description(tool: Composed, *, open_schema: bool) -> str:
    """What a tool does, in one printable line."""
    said = clean(tool.interface.description, MAX_DESCRIPTION) or f"The composed tool {tool.name}."
    return f"{said} {SEE}" if open_schema else said


def parameters(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of a tool's inputs, as a client gets it."""
    shown = _shown(schema, KEY)
    if shown is None or shown.get("type") != "object" or "anyOf" in shown:
        return OPEN
    if shown.get("additionalProperties") is False:  # a parameter too many is told
        del shown["additionalProperties"]
    return shown


def output(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of what a tool answers: an object as it is, anything else as `{"result": …}`."""
    shown = _shown(schema, ANY_KEY)
    if shown is not None and shown.get("type") == "object" and "anyOf" not in shown:
        return shown
    if shown is None:
        return OPEN if schema.get("type") == "object" else _wrapped({}, {})
    return _wrapped({key: value for key, value in shown.items() if key != "$defs"}, shown.get("$defs", {}))


def _wrapped(inner: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    made = {"type": "object", "properties": {"result": inner}, "required": ["result"], WRAPPED: True}
    return {**made, "$defs": definitions} if definitions else made


def takes_text(shown: dict[str, Any]) -> bool:
    """Whether a text fits what a tool answers by its shown schema, whatever the text is."""
    return WRAPPED in shown and shown["properties"]["result"] in ({}, {"type": "string"})


def effects(tool: Composed, composer: Composer) -> ToolAnnotations:
    """What is known of a tool's effects: those of the tools it calls, by what their sources say. What is not known
    is left out.
    """
    facts = _facts(tool, composer, set())
    reads = all(one.read_only for one in facts)
    harmless = all(one.read_only or one.destructive is False for one in facts)
    harms = any(one.destructive for one in facts)
    return ToolAnnotations(
        read_only_hint=reads,
        destructive_hint=True if harms else False if harmless else None,
        idempotent_hint=True if reads else None,
        open_world_hint=False if all(one.open_world is False for one in facts) else None,
    )


def _facts(tool: Composed, composer: Composer, seen: set[str]) -> list[Hints]:
    found: list[Hints] = []
    for name in tool.interface.requires:
        if name in seen:
            continue
        seen.add(name)
        inner = composer.composed.found.get(name)
        if inner is not None:
            found += _facts(inner, composer, seen)
        else:
            spec = composer.catalogue.known(name)
            found.append(spec.hints if spec is not None else Hints())
    return found


def _shown(schema: dict[str, Any], keys: re.Pattern[str]) -> dict[str, Any] | None:
    """A schema in the words that every client knows, with what it refers to written out; None if it can't be said
    so.
    """
    try:
        text = to_json(schema)
        if len(text) > 4 * MAX_SCHEMA:
            return None
        if b"$" in text or b"discriminator" in text:  # what follows references takes long to import
            schema = dereference_refs(schema)
        made = _node(schema, keys, 0)
        return made if isinstance(made, dict) and len(to_json(made)) <= MAX_SCHEMA else None
    except (_Unknown, PydanticSerializationError, ValueError, TypeError, RecursionError):
        return None


class _Unknown(Exception):
    """Raised when a schema says what not every client knows."""


def _node(node: Any, keys: re.Pattern[str], depth: int) -> Any:
    if isinstance(node, bool):
        return node
    if not isinstance(node, dict) or depth > MAX_DEPTH:
        raise _Unknown
    return {word: _member(word, value, keys, depth + 1) for word, value in node.items()}


def _member(word: str, value: Any, keys: re.Pattern[str], depth: int) -> Any:
    if word in DATA or word in PLAIN:
        return _plain(value)
    if word in ("description", "title"):
        return clean(value, MAX_DESCRIPTION)
    if word == "type" and isinstance(value, str) and value in TYPES:
        return value
    if word == "$ref" and isinstance(value, str) and value.startswith("#/$defs/"):
        return value
    if word in NESTED:
        return _node(value, keys, depth)
    if word in NAMED and isinstance(value, dict):
        if all(keys.fullmatch(name) and name.isprintable() for name in value):
            return {name: _node(part, keys, depth) for name, part in value.items()}
    elif word in LISTS and isinstance(value, list):
        return [_node(part, keys, depth) for part in value]
    raise _Unknown


def _plain(value: Any) -> Any:
    """Data, if all text in it can be looked at: a tab may be meant, an escape sequence is not."""
    waiting = [value]
    while waiting:
        found = waiting.pop()
        if isinstance(found, dict):
            waiting += [*found, *found.values()]
        elif isinstance(found, list):
            waiting += found
        elif isinstance(found, str) and not found.translate(SPACES).isprintable():
            raise _Unknown
    return value

"""A form made from a JSON Schema, and what was typed in it as a value of that schema.

What a field can't be typed in by kind (objects, lists, several types at once) is typed as JSON. A field that is left
empty is left out, so that the tool's own default holds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

from go_ent.dataclass import dataclass
from go_ent.engine.console.visit import Refused

Kind = Literal["text", "lines", "number", "integer", "boolean", "choice", "json"]
MOST_FIELDS = 200
PREFIX = "in."
MOST_CHOICES = 200
LONG = ("text", "source", "code", "body", "content", "markdown", "log", "csv", "html")


@dataclass(frozen=True, slots=True)
class Field:
    """One parameter of a tool."""

    name: str
    kind: Kind
    about: str
    required: bool
    default: str  # as it would be typed; "" if there is none
    choices: tuple[str, ...] = ()


def fields_of(schema: Mapping[str, Any], form: Mapping[str, list[str]] | None = None) -> list[Field]:
    """The fields of an object's schema, in its order; they begin with what was typed in *form*, if it has them."""
    properties = schema.get("properties")
    required = schema.get("required")
    needed = {one for one in required if isinstance(one, str)} if isinstance(required, list) else set()
    made = []
    for name, one in list(properties.items())[:MOST_FIELDS] if isinstance(properties, dict) else ():
        about = one if isinstance(one, dict) else {}
        kind, choices = _kind(name, about)
        value = about.get("default")
        text = "" if value is None else typed(value, kind)
        text = (form or {}).get(f"{PREFIX}{name}", [text])[0]
        made.append(Field(name, kind, str(about.get("description", ""))[:1000], name in needed, text, choices))
    return made


_MISSING = object()


def _kind(name: str, schema: Mapping[str, Any]) -> tuple[Kind, tuple[str, ...]]:
    choices = schema.get("enum")
    if isinstance(choices, list) and 0 < len(choices) <= MOST_CHOICES and all(isinstance(one, str) for one in choices):
        return "choice", tuple(choices)
    kinds: dict[object, Kind] = {"number": "number", "integer": "integer", "boolean": "boolean"}
    if schema.get("type") == "string":
        return ("lines" if name.lower() in LONG else "text"), ()
    declared = schema.get("type")
    return kinds.get(declared, "json") if isinstance(declared, str) else "json", ()


def typed(value: Any, kind: Kind) -> str:
    """A value as a person would type it into a field of that kind."""
    if kind in ("text", "lines", "choice") and isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)


def inputs_of(schema: Mapping[str, Any], form: Mapping[str, list[str]]) -> dict[str, Any]:
    """What was typed, as the tool's inputs. `Refused` says which field can't be read, and why."""
    made: dict[str, Any] = {}
    for field in fields_of(schema):
        text = form.get(f"{PREFIX}{field.name}", [""])[0]
        empty = not text if field.kind in ("text", "lines") else not text.strip()
        if empty and not (field.required and field.kind in ("text", "lines")):
            continue
        made[field.name] = _read(field, text)
    return made


def _read(field: Field, text: str) -> Any:
    if field.kind in ("text", "lines", "choice"):
        return text
    wanted = {"number": (int, float), "integer": (int,), "boolean": (bool,)}.get(field.kind)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = _MISSING
    fits = value is not _MISSING and (
        wanted is None or (isinstance(value, wanted) and (field.kind == "boolean") == isinstance(value, bool))
    )
    if not fits:
        what = "JSON" if wanted is None else f"{'an' if field.kind == 'integer' else 'a'} {field.kind}"
        raise Refused(400, f"{field.name} must be {what}, not {text[:100]!r}")
    return value

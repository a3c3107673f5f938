"""The objects that schemas describe: their fields, what `allOf` and `$ref` make of them. All of it is bounded."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import islice
from typing import Any
from urllib.parse import unquote

from go_ent.composer.catalogue.spec import ANYTHING, Schema, ToolSpec

MAX_PARAMETERS = 1000


def arguments_of(spec: ToolSpec) -> Schema:
    """The object that its arguments make; anything, where the schema doesn't say."""
    if not isinstance(spec.input_schema, Mapping) or not spec.input_schema:
        return {}
    merged = merged_object(spec.input_schema, spec.input_schema, MAX_PARAMETERS)
    return ANYTHING if merged is None else merged


def fields_of(schema: Schema, most: int) -> list[tuple[str, Any, bool]]:
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


def merged_object(schema: Schema, root: Schema, most: int) -> dict[str, Any] | None:
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
                part = target(ref, root)
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


def target(ref: str, root: Schema) -> object:
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

"""All sections of `.go-ent/config.toml` as one model, and its JSON schema for editors."""

from __future__ import annotations

from functools import cache
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, create_model

from go_ent.composer.config import section_kinds
from go_ent.composer.project.layers import CONFIG
from go_ent.composer.project.problems import bare
from go_ent.engine.core.config import EngineConfig

SCHEMA_FILE = "config.schema.json"
# What a section is about, where its type does not say it.
ABOUT = {
    "servers": "MCP servers whose tools code may call: `[servers.NAME]`.",
    "mcp_json": "Files with more MCP servers, in the format of `.mcp.json`.",
    "openapi": "HTTP APIs whose operations are tools: `[openapi.NAME]`.",
    "runners": "How agent programs are started: `[runners.NAME]`.",
    "commands": "Commands that tasks may name: `[commands.NAME]`.",
    "roles": "Roles that tasks may name: `[roles.NAME]`.",
    "prices": "Prices of models, in dollars per million tokens, instead of the built-in ones: `[prices.MODEL]`.",
}


@cache
def whole() -> type[BaseModel]:
    """Everything that can be set: what the composer reads, then what the engine reads."""
    fields: dict[str, Any] = {}
    for name, kind in section_kinds().items():
        empty: Any = kind if is_model(kind) else tuple if name == "mcp_json" else dict
        fields[name] = (kind, Field(default_factory=empty, description=ABOUT.get(name)))
    for name, field in EngineConfig.model_fields.items():
        default = field.get_default(call_default_factory=True)
        fields[name] = (field.annotation, Field(default=default, description=ABOUT.get(name)))
    made: type[BaseModel] = create_model("Settings", __config__=ConfigDict(extra="forbid"), **fields)
    return made


def schema() -> dict[str, Any]:
    """The JSON schema of the whole file. What is not in it is refused."""
    made = whole().model_json_schema()
    _tidy(made)
    about = "Settings of a go-ent project. An environment variable GO_ENT__SECTION__SETTING overrides the file."
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": str(CONFIG),
        "description": about,
        **made,
    }


def _tidy(node: Any) -> None:
    """Without the titles, which repeat the names; and names that a table may not have are refused."""
    if isinstance(node, list):
        for item in node:
            _tidy(item)
    elif isinstance(node, dict):
        if isinstance(node.get("title"), str):
            del node["title"]
        if "patternProperties" in node:
            node.setdefault("additionalProperties", False)
        for value in node.values():
            _tidy(value)


def is_model(kind: Any) -> bool:
    """Whether it is a table with settings of its own."""
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def named(kind: Any) -> type[BaseModel] | None:
    """The model of the tables in a table, `[section.NAME]`; None if it is something else."""
    kind = bare(kind)
    inner = bare(get_args(kind)[1]) if get_origin(kind) is dict else None
    return inner if is_model(inner) else None

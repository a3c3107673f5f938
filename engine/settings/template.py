"""The file that a project begins with: every setting, commented out, with its default and what it is for.

`#name = value` is a default, `# name = value` an example of what has none; all else after a `#` is words.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from go_ent.composer.project.layers import dotted
from go_ent.composer.project.problems import bare
from go_ent.engine.settings.schema import SCHEMA_FILE, is_model, named, whole

HEAD = f"""\
#:schema ./{SCHEMA_FILE}
#
# The settings of this project. All have defaults, so this file may say nothing at all.
# A line `#name = value` shows a default; `# name = value` is an example of what is not set. To set one, take the # away,
# and that of the [section] above it.
# An environment variable comes before what is here: GO_ENT__BUDGET__DAY__USD=5 sets budget.day.usd.
# A secret is never written here: ${{env:NAME}} stands for a variable's value.
# `go-ent config check` looks whether all is well, `go-ent config show` says what is in force and why.
"""  # noqa: E501
# What the examples of named tables are called.
NAMES = {
    "servers": "files",
    "openapi": "shop",
    "runners": "claude-code",
    "commands": "llm",
    "roles": "release",
    "prices": "my-model",
    "clients": "ci",
}
WIDTH = 34


def first_config() -> str:
    """The whole file."""
    sections = whole().model_fields
    # What is no table comes first: in TOML it would be the last table's otherwise.
    order = sorted(
        sections.items(), key=lambda item: is_model(bare(item[1].annotation)) or named(item[1].annotation) is not None
    )
    return "\n".join([HEAD, *("\n".join([*_section((name,), field), ""]) for name, field in order)])


def _section(path: tuple[str, ...], field: FieldInfo) -> Iterator[str]:
    kind = bare(field.annotation)
    if (model := named(kind)) is not None:
        yield from _named(path, model, field)
    elif is_model(kind):
        yield f"# {_about(kind)}"
        yield f"#[{dotted(path)}]"
        below = []
        for name, one in kind.model_fields.items():
            if named(one.annotation) is not None:
                below.append((name, one))
            else:
                yield _line(name, one)
        for name, one in below:
            yield ""
            yield from _section((*path, name), one)
    else:
        yield f"# {field.description or ''}"
        yield f"#{dotted(path)} = {toml(field.get_default(call_default_factory=True))}"


def _line(name: str, field: FieldInfo) -> str:
    default = field.get_default(call_default_factory=True)
    about = field.description or ""
    if default is not None:
        return f"#{_padded(f'{name} = {toml(default)}')}  # {about}"
    if field.examples:
        return f"# {_padded(f'{name} = {toml(field.examples[0])}')} # {about} (not set)"
    return f"# {name}: {about} (not set)"


def _named(path: tuple[str, ...], model: type[BaseModel], field: FieldInfo) -> Iterator[str]:
    yield f"# [{dotted(path)}.NAME]: {_about(model)}"
    for name, one in model.model_fields.items():
        default = None if one.is_required() else one.get_default(call_default_factory=True)
        said = "needed" if one.is_required() else "" if default in (None, "", (), [], {}) else toml(default)
        yield f"#   {name}: {one.description or ''}{f' ({said})' if said else ''}"
    yield f"# [{dotted((*path, NAMES.get(path[-1], 'name')))}]"
    for name, one in model.model_fields.items():
        if one.examples:
            yield f"# {name} = {toml(one.examples[0])}"


def _about(model: type[BaseModel]) -> str:
    """The first paragraph of what a model says of itself, without the name of its table."""
    first = " ".join((model.__doc__ or "").strip().split("\n\n")[0].split())
    return re.sub(r": `\[[^`]*\]`\.", ".", first)


def _padded(text: str) -> str:
    return text.ljust(WIDTH)


def toml(value: Any) -> str:
    """A value as TOML writes it, in a line."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, BaseModel):
        return toml(value.model_dump(exclude_none=True))
    if isinstance(value, dict):
        return (
            "{ " + ", ".join(f"{dotted((name,))} = {toml(one)}" for name, one in value.items()) + " }"
            if value
            else "{}"
        )
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml, value))}]"
    return repr(value) if isinstance(value, int | float) else json.dumps(str(value), ensure_ascii=False)

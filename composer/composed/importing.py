"""Tools from elsewhere: documents that `export` wrote, tool files, and JSON files of the older form.

The older form is `{id, name, description, code, scope, created, usage_count, last_used, metadata}`: a description and
some code, without a signature. Python code that defines the function becomes a tool as it is; other Python code becomes
the body of a function without parameters. What is not Python is said to be none. The caller says
where a tool is saved: a file's `scope` counts for nothing.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import keyword
import math
import re
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from go_ent.composer.composed import toolfile
from go_ent.composer.composed.toolfile import MAX_BYTES, NAME
from go_ent.composer.project.items import apart
from go_ent.composer.project.numbers import DIGITS
from go_ent.dataclass import dataclass
from go_ent.sandbox import Sandbox
from go_ent.sandbox.messages.validation import explain
from go_ent.sandbox.worker.languages import SPOKEN, Language, by_suffix

FORMAT = "go-ent-tools/1"
MAX_IMPORT = 64 << 20


@dataclass(frozen=True, slots=True)
class Imported:
    """A tool to be composed, or the reason why it can't be."""

    name: str
    source: str = ""
    calls: int = 0
    last_used: float | None = None
    note: str = ""
    problem: str | None = None
    language: Language | None = None  # if it is known


class _Older(BaseModel):
    model_config = ConfigDict(extra="ignore", defer_build=True)

    name: str = Field(max_length=500)
    code: str = Field(max_length=MAX_BYTES)
    description: str = Field(default="", max_length=20_000)
    usage_count: int = Field(default=0, ge=0, lt=1 << 53)
    last_used: str | float | None = None
    metadata: dict[str, Any] | None = None


async def read_import(data: bytes, where: str, box: Sandbox) -> list[Imported]:
    """What a file offers. What is wrong with one tool in it is said of that tool."""
    if len(data) > MAX_IMPORT:
        return [Imported(where, problem=f"the file is larger than {MAX_IMPORT} bytes")]
    if re.search(rb"(?m)^(?:#|//) /// tool[ \t\r]*$", data[: 1 << 16]):
        try:
            return [Imported(where, source=data.decode("utf-8"), language=by_suffix(where))]
        except UnicodeDecodeError as error:
            return [Imported(where, problem=f"it is not UTF-8: {error.reason} at byte {error.start}")]
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        return [Imported(where, problem=f"neither a tool's file nor JSON: {error}")]
    if isinstance(document, dict) and document.get("format") == FORMAT:
        return [_own(entry) for entry in _entries(document.get("tools"))]
    entries = _entries(document.get("tools", [document]) if isinstance(document, dict) else document)
    found: list[Imported] = []
    for number, entry in enumerate(entries, 1):
        name, wrong = f"tool {number}", dict[str, str]()
        with apart(name, wrong):
            found.append(await _older(entry, box))
        found += [Imported(name, problem=why) for why in wrong.values()]
    return found


def _entries(found: Any) -> list[Any]:
    return found if isinstance(found, list) else [found]


def _own(entry: Any) -> Imported:
    if not isinstance(entry, dict) or not isinstance(entry.get("source"), str):
        return Imported("a tool", problem="it has no source")
    language = SPOKEN.get(str(entry.get("language")))
    return Imported(str(entry.get("name", "a tool"))[:80], source=entry["source"], language=language)


async def _older(entry: Any, box: Sandbox) -> Imported:
    try:
        older = _Older.model_validate(entry)
    except ValidationError as error:
        name = entry.get("name") if isinstance(entry, dict) else None
        return Imported(str(name or "a tool")[:80], problem=explain(error, mapping="object", most=1))
    name = re.sub(r"[^a-z0-9_]+", "_", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", older.name).lower()).strip("_")
    name = f"tool_{name}" if name[:1] in DIGITS else name
    if not NAME.fullmatch(name) or keyword.iskeyword(name):
        return Imported(
            older.name[:80],
            problem="its name can't be made into one: small letters, digits and underscores, no keyword",
        )
    doc = older.description.strip() or f"Imported as {name}."
    made = await box.as_function(older.code, name, doc, limits=box.limits.tightened({"timeout_s": 5, "cpu_s": 3}))
    if made.status != "completed" or not isinstance(made.result, dict):
        wrong = made.error
        where = f" (line {wrong.line})" if wrong is not None and wrong.line else ""
        return Imported(
            older.name[:80],
            problem=f"its code is not Python: {wrong.message if wrong is not None else made.status}{where}",
        )
    notes = [f"was {older.name!r}"] if name != older.name else []
    if made.result.get("wrapped"):
        notes.append("its code became the body of a function without parameters: give it some")
    source = toolfile.write(name, str(made.result.get("source")), examples=[])
    return Imported(name, source, older.usage_count, _when(older.last_used), "; ".join(notes))


def _when(value: str | float | None) -> float | None:
    if isinstance(value, str):
        with contextlib.suppress(ValueError, OverflowError):  # the latter: a year that no clock has
            return datetime.datetime.fromisoformat(value).timestamp()
        return None
    return value if value is not None and math.isfinite(value) else None

"""What a tool is, wherever it comes from, and what a source of tools must offer."""

from __future__ import annotations

import keyword
import re
from collections.abc import Mapping
from dataclasses import field
from typing import Any, Protocol, runtime_checkable

from go_ent.composer.errors import BadName
from go_ent.composer.project.numbers import DIGITS
from go_ent.dataclass import dataclass

Schema = Mapping[str, Any]

NAMESPACE = re.compile(r"[a-z][a-z0-9_]{0,63}")
PART = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
ANYTHING: Schema = {"type": "object", "additionalProperties": True}


def check_namespace(name: str) -> str:
    """*name*, if a source of tools can be called that."""
    if not NAMESPACE.fullmatch(name) or keyword.iskeyword(name):
        raise BadName(
            f"{name!r} can't be a namespace: a small letter, then small letters, digits and underscores, 64 at "
            "most, no Python keyword"
        )
    return name


def part_of(name: str) -> str:
    """What a source calls a tool, as a name that Python code can call: `get-issue` becomes `get_issue`."""
    made = re.sub(r"[^A-Za-z0-9_]", "_", name)[:128]
    made = f"_{made}" if made[:1] in DIGITS else f"{made}_" if keyword.iskeyword(made) else made
    if not PART.fullmatch(made) or made.startswith("__"):
        raise BadName(f"{name[:80]!r} can't be the name of a tool")
    return made


@dataclass(frozen=True, slots=True)
class Hints:
    """What a source says of a tool. Shown, and believed only where that narrows: destructive needs approval."""

    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    open_world: bool | None = None


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool's interface: all that a caller needs to know, nothing that runs."""

    name: str  # in full, with its namespace: `github.search_issues`
    description: str
    input_schema: Schema
    output_schema: Schema | None = None
    hints: Hints = field(default_factory=Hints)
    origin: str = ""  # for people: "MCP server github", "function search in app.py", "composed tool triage (project)"
    digest: str = ""  # of its code, if it is a composed tool: other code is another tool
    learned: bool = False  # its output schema was learned from results, not given
    resumes: bool = False  # a call that was interrupted goes on where it stopped when it is made again

    @property
    def repeatable(self) -> bool:
        """Whether a call that was begun, and of which nothing more is known, can be made again without a question."""
        return bool(self.resumes or self.hints.read_only or self.hints.idempotent)

    @property
    def namespace(self) -> str:
        return self.name.rpartition(".")[0]


@dataclass(frozen=True, slots=True)
class CallContext:
    """Who calls: passed on to sources whose tools make calls of their own."""

    run_id: str | None = None
    chain: tuple[str, ...] = ()  # the composed tools that are under way, outermost first
    scope: Any = None  # the composer's own: grants and what is left of the limits
    execution: str | None = None  # the execution that the call is recorded in, if it is
    call: str | None = None  # its name there


class Source(Protocol):
    """Where tools come from. `namespace` is "" for tools that stand at the top level.

    Bytes in arguments are base64, unless it says `takes_bytes = True`: then they are marks (`sandbox/media/marks.py`).
    """

    namespace: str
    origin: str
    local: bool  # whether asking it costs next to nothing: it starts no process and goes over no network

    async def tools(self) -> list[ToolSpec]:
        """Its tools now. Raises `Unavailable`."""

    async def call(self, name: str, arguments: dict[str, Any], context: CallContext) -> Any:
        """Call the tool of that full name; arguments are checked already. Raises `CallError` or `Unavailable`."""

    async def close(self) -> None: ...


@runtime_checkable
class KeepsTools(Protocol):
    """A source that keeps a copy of what it has listed, so that its `tools` need not be asked for each time."""

    async def live_tools(self) -> list[ToolSpec]:
        """Its tools as it lists them now. Raises `Unavailable`."""

    async def kept_tools(self) -> list[ToolSpec] | None:
        """Its tools, if nothing has to be started to know them."""

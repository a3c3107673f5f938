"""Tools of servers and APIs under names of their own, where the configuration says `expose = "direct"` or `"both"`.

For what is better called than coded: a text that the model must read anyway. A call is a run like any other: granted,
approved, limited, counted and on record.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fastmcp.server.providers import Provider
from fastmcp.tools.base import Tool, ToolResult
from mcp_types import ToolAnnotations
from pydantic import PrivateAttr

from go_ent.composer import Composer
from go_ent.composer.catalogue.reserved import is_reserved
from go_ent.composer.catalogue.spec import ToolSpec
from go_ent.composer.catalogue.stub_names import clean
from go_ent.composer.codemode.codemode import CodeRun
from go_ent.composer.project.items import apart
from go_ent.engine.engine import Engine
from go_ent.engine.guest_runs.runs import GuestOrder, call_order
from go_ent.engine.server.calls.callers import Caller, current
from go_ent.engine.server.calls.results import failed
from go_ent.engine.server.tools import definitions
from go_ent.engine.server.tools.named import NamedTool
from go_ent.engine.server.tools.upstream_schemas import plainer

if TYPE_CHECKING:
    from fastmcp import FastMCP
    from fastmcp.utilities.versions import VersionSpec

log = logging.getLogger("go_ent.engine.server")
PATIENCE_S = 0.5  # that servers have to say what they have, before a list is made without them
MOST_LISTED = 200
MOST_CHARS = 80_000  # of a result: it is there to be read, and clients take about 25,000 tokens


def add(server: FastMCP, composer: Composer, engine: Engine) -> DirectTools:
    """Offer the tools that are exposed directly."""
    tools = DirectTools(composer, engine)
    server.add_provider(tools)
    return tools


class DirectTool(NamedTool):
    """A tool of a server or an API; a call of it is a run of the one line that calls it."""

    _full_name: str = PrivateAttr()

    @classmethod
    def from_spec(cls, name: str, spec: ToolSpec, composer: Composer, engine: Engine) -> DirectTool:
        plain = plainer(spec.input_schema)
        parameters = definitions.OPEN if plain is None else definitions.parameters(plain)
        plain = None if spec.output_schema is None or spec.learned else plainer(spec.output_schema)
        said = clean(spec.description, definitions.MAX_DESCRIPTION)
        see = f"Parameters: tool_schema of {spec.name}." if parameters is definitions.OPEN else ""
        made = cls(
            name=name,
            description=" ".join(part for part in (f"({spec.origin})", said, see) if part),
            parameters=parameters,
            output_schema=None if plain is None else definitions.output(plain),
            annotations=ToolAnnotations(
                read_only_hint=spec.hints.read_only,
                destructive_hint=spec.hints.destructive,
                idempotent_hint=spec.hints.idempotent,
                open_world_hint=spec.hints.open_world,
            ),
        )
        made._composer, made._engine, made._full_name = composer, engine, spec.name
        return made

    def order(self, arguments: dict[str, Any]) -> GuestOrder:
        return call_order(self._full_name, arguments, cut=False)

    def answer(self, run: CodeRun) -> ToolResult:
        """The tool's own answer: whole, unless it is longer than clients take. Of an error, what the tool said."""
        if run.status == "error" and run.error is not None:
            return failed("\n".join(part for part in (run.error.message, run.help) if part))
        return super().answer(self._composer.code.present(run, most=MOST_CHARS))


def direct_name(full_name: str) -> str:
    """What a client calls a tool: `shop.get_order` is `shop_get_order`. Models' APIs take no dots, and 64 characters
    with what clients put before it.
    """
    made = full_name.replace(".", "_")
    if len(made) <= definitions.MAX_NAME:
        return made
    return f"{made[: definitions.MAX_NAME - 7]}_{hashlib.sha256(full_name.encode()).hexdigest()[:6]}"


class DirectTools(Provider):
    """The granted tools that the configuration exposes directly, as MCP tools."""

    def __init__(self, composer: Composer, engine: Engine) -> None:
        super().__init__()
        self._composer, self._engine = composer, engine
        self._made: dict[str, tuple[ToolSpec, DirectTool]] = {}
        self.unlisted: dict[str, str] = {}  # tools that can't be listed, and why

    async def _list_tools(self) -> Sequence[Tool]:
        return await self.listing(current())

    async def _get_tool(self, name: str, version: VersionSpec | None = None) -> Tool | None:
        return await self.find(name)

    async def find(self, name: str) -> Tool | None:
        """One of them that the caller may call, by its name."""
        found = await self._named(current())
        spec = found.get(name) or found.get(direct_name(name))
        return None if spec is None else self._tool(direct_name(spec.name), spec)

    async def listing(self, caller: Caller) -> list[DirectTool]:
        """What *caller* finds listed."""
        listed: list[DirectTool] = []
        for name, spec in list((await self._named(caller)).items())[:MOST_LISTED]:
            with apart(spec.name, self.unlisted):
                listed.append(self._tool(name, spec))
        return listed

    def _tool(self, name: str, spec: ToolSpec) -> DirectTool:
        kept = self._made.get(name)
        if kept is None or kept[0] is not spec:
            if len(self._made) > 10 * MOST_LISTED:
                self._made.clear()
            self._made[name] = kept = spec, DirectTool.from_spec(name, spec, self._composer, self._engine)
        return kept[1]

    async def _named(self, caller: Caller) -> dict[str, ToolSpec]:
        """The tools by the names that clients call them. Our own and composed tools keep theirs, and of two equal names
        the first counts: the other is told of among the problems.
        """
        config, catalogue = self._composer.config, self._composer.catalogue
        if not any(
            source.expose != "code" or source.tools for source in (*config.servers.values(), *config.apis.values())
        ):
            return {}
        found: dict[str, ToolSpec] = {}
        problems: dict[str, str] = {}
        for spec in await catalogue.namespaced(caller.grants(self._composer), PATIENCE_S):
            if config.exposure(spec.name) == "code":
                continue
            name = direct_name(spec.name)
            taken = (
                "a name of go-ent's own"
                if is_reserved(name)
                else "a composed tool"
                if name in self._composer.composed.found
                else f"the name of {found[name].name}"
                if name in found
                else ""
            )
            if taken:
                problems[spec.name] = f"it can't be listed as {name}, which is {taken}; code can call it"
            else:
                found[name] = spec
        for name in problems.keys() - self.unlisted.keys():
            log.warning("%s: %s", name, problems[name])
        for name in self.unlisted.keys() - problems.keys():
            catalogue.problems.pop(name, None)
        self.unlisted = problems
        catalogue.problems.update(problems)
        return found

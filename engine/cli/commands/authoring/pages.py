"""`go-ent tool diff` and `tool docs`: composed tools to be read."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from cyclopts import Parameter

from go_ent.composer import Composer, ToolSpec
from go_ent.composer.catalogue.tool_page import page
from go_ent.composer.composed import toolfile
from go_ent.composer.composed.differences import source_diff
from go_ent.composer.composed.drafts import Drafts
from go_ent.composer.errors import ToolNotFound
from go_ent.engine.cli import UsageError
from go_ent.engine.cli.commands.recorded import with_composer
from go_ent.engine.cli.commands.tool import JsonFlag
from go_ent.engine.cli.terminal.completion_values import ToolName
from go_ent.engine.cli.terminal.output import Style, say, show, show_json

DRAFT = "draft"
Side = Annotated[str | None, Parameter(help="A version's number, or draft.")]
DIFF_STYLES: dict[str, Style] = {"+": "green", "-": "red", "@": "cyan"}


def diff_command(name: ToolName, a: Side = None, b: Side = None, /, *, json_: JsonFlag = False) -> int:
    """Compare two versions of a composed tool: the last two, A with the newest, or A with B.

    A tool's draft counts as the newest version, and is called draft.

    Example: go-ent tool diff errors 1 3
    """

    async def work(composer: Composer) -> int:
        sources = await asyncio.to_thread(_Sources, composer, name)
        older, newer = sources.sides(a, b)
        before, after = sources.read(older), sources.read(newer)
        was, now = (f"{name} {side if side == DRAFT else f'v{side}'}" for side in (older, newer))
        lines = source_diff(before, after, (was, now))
        if json_:
            show_json({"name": name, "from": older, "to": newer, "diff": lines})
            return 0
        for line in lines:
            say(line, style="bold" if line.startswith(("---", "+++")) else DIFF_STYLES.get(line[:1]))
        if not lines:
            say(f"{was} and {now} are the same", err=True)
        return 0

    return with_composer(work, quiet=True)


class _Sources:
    """The sources of a tool, by what a person calls them: versions by their numbers, and the draft. Blocks."""

    def __init__(self, composer: Composer, name: str) -> None:
        toolfile.check_name(name)
        self._drafts, self._name = Drafts(composer.project), name
        stores = [store for store in composer.stores if name in store.scan()]
        self._store = next(iter([*stores, *(store for store in composer.stores if store.versions(name))]), None)
        versions = [] if self._store is None else self._store.versions(name)
        self.names = [str(version.number) for version in versions]
        if self._drafts.read(name) is not None:
            self.names.append(DRAFT)
        if not self.names:
            raise ToolNotFound(f"there is no composed tool {name}")

    def sides(self, a: str | None, b: str | None) -> tuple[str, str]:
        """What is compared with what."""
        given = [self._known(side) for side in (a, b) if side is not None]
        if len(given) == 2:
            return given[0], given[1]
        if given:
            return given[0], self.names[-1]
        if len(self.names) == 1:
            raise UsageError(f"{self._name} has one version, {self.names[0]}: there is nothing to compare it with")
        return self.names[-2], self.names[-1]

    def _known(self, side: str) -> str:
        name = side.removeprefix("v") if side != DRAFT else side
        if name not in self.names:
            raise UsageError(f"{self._name} has no version {side[:40]}; it has {', '.join(self.names)}")
        return name

    def read(self, side: str) -> str:
        """Without the version's own line, which would differ in any case."""
        if side == DRAFT:
            return self._drafts.read(self._name) or ""
        assert self._store is not None
        return toolfile.unversioned(self._store.version(self._name, int(side)).source)


def docs_command(*names: ToolName, json_: JsonFlag = False) -> int:
    """Print a Markdown page of this project's tools: composed ones with their parameters and an example, then the
    granted tools of servers and APIs that are known. With names: those alone.

    Example: go-ent tool docs > TOOLS.md
    """

    async def work(composer: Composer) -> int:
        await composer.catalogue.load_known()
        found = [await composer.composed.get(name) for name in names] or sorted(
            composer.composed.found.values(), key=lambda tool: tool.name
        )
        examples = {tool.name: [example.model_dump() for example in tool.file.metadata.examples] for tool in found}
        composed: list[tuple[ToolSpec, list[dict[str, Any]]]] = [(tool.spec, examples[tool.name]) for tool in found]
        known = [] if names else [spec for spec in await composer.catalogue.tools(composer.grants) if not spec.digest]
        made = page(f"Tools of {composer.project.name}", composed, known)
        if json_:
            show_json({"tools": [*examples, *(spec.name for spec in known)], "markdown": made})
        else:
            show(made.removesuffix("\n"))
        return 0

    return with_composer(work, quiet=True)

"""Composed tools as a source of tools: what the stores hold, looked at again whenever a file has changed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from go_ent.composer.catalogue import stubs
from go_ent.composer.catalogue.schemas import Checker, of_arguments
from go_ent.composer.catalogue.scope import Scope
from go_ent.composer.catalogue.spec import CallContext, ToolSpec
from go_ent.composer.composed.interface import Inspector, Interface
from go_ent.composer.composed.tool_store import Found, StoreScope, ToolStore, Version
from go_ent.composer.composed.toolfile import ToolFile, check_name
from go_ent.composer.errors import CallError, ComposerError, Spent, StoreError, ToolNotFound
from go_ent.composer.project.items import apart
from go_ent.dataclass import dataclass
from go_ent.sandbox import ApprovalRequired, Limits, Run
from go_ent.sandbox.media.marks import with_files
from go_ent.sandbox.messages.near_names import did_you_mean, near
from go_ent.sandbox.worker.languages import Language


@dataclass(frozen=True, slots=True)
class Composed:
    """A composed tool that can be called."""

    name: str
    scope: StoreScope
    version: int
    file: ToolFile
    interface: Interface
    spec: ToolSpec
    inputs: Checker
    outputs: Checker
    limits: Limits
    saved: float | None = None  # when this version was; None: it is not yet

    @classmethod
    def of(
        cls, file: ToolFile, interface: Interface, scope: StoreScope, version: int, saved: float | None = None
    ) -> Composed:
        origin = f"composed tool {file.name} ({scope})"
        spec = ToolSpec(
            file.name,
            interface.description,
            interface.input_schema,
            interface.output_schema,
            origin=origin,
            digest=file.digest,
            resumes=True,
        )
        inputs, outputs = Checker(interface.input_schema), Checker(interface.output_schema)
        limits = Limits(**file.metadata.limits)
        return cls(file.name, scope, version, file, interface, spec, inputs, outputs, limits, saved)

    @property
    def language(self) -> Language:
        """What it is written in."""
        return self.file.language

    async def input_problems(self, inputs: dict[str, Any]) -> str | None:
        """What is wrong with *inputs*, and on a line of its own how the tool is called; None if they fit."""
        problems = await self.inputs.check(inputs)
        if not problems:
            return None
        called = stubs.signature(replace(self.spec, description="", output_schema=None)).rpartition(" -> ")[0]
        return "; ".join(of_arguments(problems, self.interface.input_schema)) + f"\n{called}"


@dataclass(frozen=True, slots=True)
class Saved:
    """What `compose` did. `created` is False when the same content was there already."""

    name: str
    version: int
    scope: StoreScope
    created: bool
    interface: Interface
    examples: int
    language: Language = "python"


@dataclass(frozen=True, slots=True)
class Broken:
    """A file in a store that is not a tool now. Its last good version is in the history."""

    name: str
    scope: StoreScope
    reason: str
    last_version: int | None


Elsewhere = Callable[[str], str | None]
Alike = Callable[[str], Iterable[ToolSpec]]
RunTool = Callable[[Composed, dict[str, Any], Scope], Awaitable[Run]]


class ComposedTools:
    """The tools of a project's store and of the user's; a project's tool shadows one of the user's."""

    namespace = ""
    local = True
    origin = "composed tools"
    takes_bytes = True

    def __init__(
        self,
        stores: Sequence[ToolStore],
        inspector: Inspector,
        run: RunTool,
        elsewhere: Elsewhere = lambda _: None,
        taken: Elsewhere = lambda _: None,
    ) -> None:
        """*elsewhere* says of a name that is no composed tool's where the tool is, if it knows; *taken* why a tool
        can't have a name.
        """
        self.stores = stores
        self.problems: dict[str, str] = {}  # of stores that can't be looked at, by their places
        self._elsewhere, self._taken = elsewhere, taken
        self.alike: Alike = lambda _: ()  # the tools of any kind that may be meant by a name that none has
        self._refused: dict[str, str] = {}
        self._inspector = inspector
        self._run = run
        self._lock = asyncio.Lock()
        self._seen: dict[tuple[StoreScope, str], tuple[Found, Composed | Broken]] = {}
        self.version = 0  # goes up whenever its tools are others than before
        self._scans: list[Mapping[str, Found]] = []  # the last look at each store
        self._specs: list[ToolSpec] = []
        self.found: dict[str, Composed] = {}
        self.broken: dict[str, Broken] = {}
        self.shadowed: list[Composed | Broken] = []

    async def load(self) -> None:
        """Look at the stores. A file that has changed is read again; a valid edit becomes a version."""
        if not self._lock.locked() and self._is_current():
            return
        async with self._lock:
            seen: dict[tuple[StoreScope, str], tuple[Found, Composed | Broken]] = {}
            problems: dict[str, str] = {}
            scans: list[Mapping[str, Found]] = []
            for store in self.stores:
                with apart(store.where, problems):
                    scans.append(store.scan())
                    for name, found in scans[-1].items():
                        key = store.scope, name
                        before = self._seen.get(key)
                        if before is not None and before[0].stamp == found.stamp:
                            seen[key] = before
                        else:
                            tool = await self._look(store, name)
                            if tool is not None:
                                seen[key] = _as_read(store, found, tool), tool
            refused = self._taken_names(seen)
            changed = refused != self._refused or _tools(seen) != _tools(self._seen)
            self._seen, self._refused, self.problems = seen, refused, problems
            self._scans = [] if problems else scans
            if changed:
                self._sort()

    def _is_current(self) -> bool:
        """Whether the stores are what they were when they were last looked at."""
        if len(self._scans) != len(self.stores):
            return False
        try:
            same = all(store.scan() is before for store, before in zip(self.stores, self._scans, strict=True))
        except StoreError:
            return False
        return same and self._refused == self._taken_names(self._seen)

    def _taken_names(self, seen: Iterable[tuple[StoreScope, str]]) -> dict[str, str]:
        return {name: why for _, name in seen if (why := self._taken(name)) is not None}

    def _sort(self) -> None:
        self.version += 1
        self.found, self.broken, self.shadowed = {}, {}, []
        for store in self.stores:
            for (scope, name), (_, tool) in self._seen.items():
                if scope != store.scope:
                    continue
                if name in self.found or name in self.broken:
                    self.shadowed.append(tool)
                elif isinstance(tool, Composed) and name not in self._refused:
                    self.found[name] = tool
                elif isinstance(tool, Composed):
                    self.broken[name] = Broken(name, scope, self._refused[name], None)
                else:
                    self.broken[name] = tool
        self._specs = [tool.spec for _, tool in sorted(self.found.items())]

    async def _look(self, store: ToolStore, name: str) -> Composed | Broken | None:
        versions: list[Version] = []
        problems: dict[str, str] = {}
        with apart(name, problems):
            versions = store.versions(name)
            file = store.read(name)
            if file is None:
                return None
            interface = await self._inspector.interface(file)
            same = [version for version in versions if version.digest == file.digest[:16]]
            is_latest = bool(same) and versions[-1] is same[-1]
            version = same[-1] if is_latest else _adopted(store, file)
            return Composed.of(file, interface, store.scope, version.number, version.saved)
        return Broken(name, store.scope, problems[name], versions[-1].number if versions else None)

    async def tools(self) -> list[ToolSpec]:
        await self.load()
        return self._specs

    async def get(self, name: str) -> Composed:
        """The tool of that name; says why, if there is a file and it is no tool."""
        if where := self._elsewhere(name):
            raise ToolNotFound(where)
        check_name(name)
        await self.load()
        if name in self.found:
            return self.found[name]
        meant = [spec.name for spec in self.alike(name)] or near(name, self.found, 2)
        hint = did_you_mean(meant[:2])
        unseen = "".join(f"; {folder} can't be looked at: {why}" for folder, why in self.problems.items())
        raise ToolNotFound(self.why_not(name) or f"there is no composed tool {name}{hint}{unseen}")

    def why_not(self, name: str) -> str | None:
        """Why a tool that has a file can't be called."""
        if name not in self.broken:
            return None
        broken = self.broken[name]
        back = f"; version {broken.last_version} can be brought back with rollback" if broken.last_version else ""
        return f"{name} is broken and can't be called: {broken.reason}{back}"

    async def call(self, name: str, arguments: dict[str, Any], context: CallContext) -> Any:
        """Run a composed tool for another: with what is left of the caller's limits."""
        assert isinstance(context.scope, Scope)
        run = await self._run(await self.get(name), arguments, context.scope)
        if run.status == "paused":
            raise ApprovalRequired(f"a call that {name} makes needs approval", run.pending)
        if (
            run.status in ("timeout", "cpu_limit", "fuel_limit")
            and (spent := context.scope.allowance.spent()) is not None
        ):
            raise Spent(spent)
        if run.status != "completed":
            error = run.error
            where = f" (line {error.line})" if error is not None and error.line is not None else ""
            raise CallError(f"{error.kind}: {error.message}{where}"[:2000] if error is not None else run.status)
        return with_files(run.result, run.files) if run.files else run.result

    async def close(self) -> None:
        pass


def _tools(
    seen: dict[tuple[StoreScope, str], tuple[Found, Composed | Broken]],
) -> dict[tuple[StoreScope, str], Composed | Broken]:
    return {key: tool for key, (_, tool) in seen.items()}


def _adopted(store: ToolStore, file: ToolFile) -> Version:
    try:
        return store.adopt(file)
    except OSError as error:
        raise StoreError(f"the store can't be written: {error.strerror}") from None


def _as_read(store: ToolStore, found: Found, made: Composed | Broken) -> Found:
    """The file that *made* was read from. What was adopted has a new stamp; what another process has put there since
    is not it.
    """
    now = store.find(found.name)
    if now is not None and now.stamp != found.stamp and isinstance(made, Composed):
        with contextlib.suppress(ComposerError, OSError):
            file = store.read(found.name)
            if file is not None and file.digest == made.file.digest:
                return now
    return found

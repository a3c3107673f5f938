"""`Composer`: the entry point of the package. Code mode over any tools, and composed tools."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from go_ent.composer.catalogue.catalogue import NEEDS_APPROVAL, Catalogue
from go_ent.composer.catalogue.grants import PATTERN, Grants
from go_ent.composer.catalogue.learned import learn
from go_ent.composer.catalogue.learned_schemas import LearnedSchemas
from go_ent.composer.catalogue.recording import Recording
from go_ent.composer.catalogue.scope import Allowance, Approver, Scope
from go_ent.composer.catalogue.spec import Source, check_namespace
from go_ent.composer.codemode.codemode import CodeMode
from go_ent.composer.codemode.guest_tools import GuestTools
from go_ent.composer.codemode.past_runs import Listener, PastRun, PastRuns, RunEnded, tell
from go_ent.composer.codemode.resumed_boxes import ResumedBoxes
from go_ent.composer.composed import checks, toolfile
from go_ent.composer.composed.interface import Inspector, Interface
from go_ent.composer.composed.recordings import Recordings
from go_ent.composer.composed.source import Composed, ComposedTools, Saved
from go_ent.composer.composed.store import composed_stores
from go_ent.composer.composed.tool_store import StoreScope, ToolStore, Version, already_there
from go_ent.composer.composed.toolfile import Example, ToolFile
from go_ent.composer.composed.usage import UsageStore
from go_ent.composer.config import Config, read_config
from go_ent.composer.errors import CallError, ComposeRefused, ComposerError, StoreError, ToolNotFound, WrongStore
from go_ent.composer.known_tools import outdated
from go_ent.composer.live_config import LiveConfig
from go_ent.composer.project.files import STATE, find_project, user_data
from go_ent.composer.project.image import Images, OwnImages, language_image, project_image, ready_image
from go_ent.composer.project.items import apart
from go_ent.composer.project.trust import is_trusted
from go_ent.composer.sources.configured import api_source, server_source
from go_ent.composer.sources.functions import FunctionSource
from go_ent.composer.sources.listing import ListingStore
from go_ent.composer.sources.withheld import Withheld
from go_ent.composer.tool_access import Tools
from go_ent.sandbox import ApprovalRequired, Limits, Pending, Run, RunError, Sandbox
from go_ent.sandbox.images import cache_folder
from go_ent.sandbox.media.marks import with_files
from go_ent.sandbox.messages.advice import Advice, joined
from go_ent.sandbox.worker.languages import Language
from go_ent.sandbox.worker.tape import source_digest

if TYPE_CHECKING:
    from go_ent.composer.composed.suggest import Suggestion

log = logging.getLogger("go_ent.composer")


class Composer:
    """The tools of one project: a catalogue, code mode (`code`), and the stores of composed tools.

    `tools` has every granted tool as an attribute: `await composer.tools.github.search(q="…")`.

    Ownership: `Composer.open(".")` finds the project. Use it as an async context manager, or await `close`. It owns the
    connections to the configured servers, and the sandbox unless *box* was passed in.

    Threads: use it from one event loop; `BlockingComposer` is for everything else. Several composers, also in several
    processes, may share a project.

    Errors: a run ends as a `Run` with a status, whatever the code does. Methods raise a `ComposerError`, such as
    `ToolNotFound`, `ComposeRefused` or `StoreError`; making a composer raises `ConfigError` for settings that can't be
    used, and `ImageError` if there is no image and none can be built.
    """

    def __init__(
        self,
        project: Path,
        *,
        config: Config | None = None,
        tools: Iterable[Callable[..., Any]] | Mapping[str, Any] = (),
        sources: Iterable[Source] = (),
        approver: Approver | None = None,
        box: Sandbox | None = None,
        workers: int | None = None,
        trusted: bool | None = None,
        build: bool = True,
        stores: Sequence[ToolStore] | None = None,
        images: Images | None = None,
    ) -> None:
        """*trusted* is whether the configuration may start servers, add packages and widen limits; by default, whether
        the project is trusted (`go-ent trust`).

        A missing image is built now, which takes about half a minute; with `build=False`, when it is first needed.
        *stores* keep the composed tools; by default the folders of the project and of the user. *images* says where
        images come from; by default they are built on this machine.
        """
        self.project = project
        self.state = project / STATE
        self.trusted = is_trusted(project) if trusted is None else trusted
        self.live_config = LiveConfig(self, follows=config is None)
        self.config = config if config is not None else read_config(project, trusted=self.trusted)
        for line in self.config.withheld.values():
            log.warning("%s", joined(line, Advice("trust", str(project))))
        self.approver = approver
        self._own_box = box is None
        self.images: Images = OwnImages() if images is None else images
        options: dict[str, Any] = {} if workers is None else {"workers": workers}
        if box is None:
            later = partial(project_image, project, trusted=self.trusted, images=images)
            ready = None if build or images is not None else ready_image(project, trusted=self.trusted)
            image = later() if build else ready or later
            others = partial(language_image, self.images)
            box = Sandbox(limits=self.config.limits, image=image, others=others, **options)
        self.box = box
        self._resumed = ResumedBoxes(box, self.images)
        self.stores: Sequence[ToolStore] = composed_stores(project) if stores is None else stores
        self.usage = {
            "project": UsageStore(self.state / "usage.db"),
            "global": UsageStore(user_data() / "usage.db"),
        }
        self.past_runs: PastRuns = tuple  # what is learned and suggested from: none, unless an engine keeps a record
        self.listeners: list[Listener] = []  # told of each run that has ended
        self.inspector = Inspector(self.box, cache_folder() / "interfaces")
        self.composed = ComposedTools(
            self.stores, self.inspector, self._fly, self._elsewhere, lambda name: self.catalogue.namespace_problem(name)
        )
        self.composed.alike = lambda name: self.catalogue.near(name, self.grants)
        self.catalogue = Catalogue([self.composed, *sources])
        functions = FunctionSource(tools)
        if len(functions):
            self.catalogue.add(functions)
        self.listings = ListingStore(project)
        self._add_configured()
        self.learned = LearnedSchemas(self.state / "learned.json")
        self.catalogue.learned.update(self.learned.load())
        self.grants: Grants = self.config.grants
        self.catalogue.project_grants = self.grants
        self.code = CodeMode(
            self.catalogue,
            self.box,
            grants=self.grants,
            listeners=self.listeners,
            approver=approver,
            packages_hint=self.config.withheld.get(("image", "packages")),
        )
        self.tools = Tools(self)

    @classmethod
    def open(cls, folder: Path | str = ".", **options: Any) -> Composer:
        """The composer of the project that *folder* is in: the nearest one with a `.go-ent`, or *folder* itself."""
        return cls(find_project(folder), **options)

    def box_of(self, image: str, limits: Mapping[str, Any] | None = None) -> Sandbox:
        """The sandbox for a resumed run: with the image of that digest, and limits that were wider than the project's
        are now. The project's own, if it will do or the image is gone. May take long.
        """
        return self._resumed.box_of(image, limits)

    def _add_configured(self) -> None:
        """Each server by itself: one that can't be added is told of among the problems, and the others go on."""
        for name, why in self.config.unusable.items():
            from go_ent.composer.sources.server_config import namespace_of

            with apart(name, self.catalogue.problems):
                self.catalogue.add(Withheld(check_namespace(namespace_of(name)), self.project, why))
        for namespace in (*self.config.servers, *self.config.apis):
            with apart(namespace, self.catalogue.problems):
                self.catalogue.add(self.configured(namespace) if self.trusted else Withheld(namespace, self.project))

    def configured(self, namespace: str) -> Source:
        """The source that a section of the configuration names."""
        server = self.config.servers.get(namespace)
        if server is not None:
            return server_source(namespace, server, self.project, self.listings)
        return api_source(namespace, self.config.apis[namespace], self.listings)

    @property
    def folders(self) -> list[Path]:
        """Where composed tools, what they were used, and the project's other state are kept; they need not be there."""
        return [place for above in (self.state, user_data()) for place in (above, above / "composed-tools")]

    async def close(self) -> None:
        """Save the usage figures, end the servers it started, and close the sandbox if it is its own."""
        try:
            for scope, usage in self.usage.items():
                with apart(f"the uses of {scope} tools", {}):
                    usage.flush()
            self.code.close()
            await self.catalogue.close()
        finally:
            if self._own_box:
                self.box.close()
            self._resumed.close()

    async def __aenter__(self) -> Composer:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # -- composing

    async def check(self, source: str | bytes, language: Language | None = None) -> tuple[ToolFile, Interface]:
        """Check whether a tool's source could be saved: metadata, policy, signature, grants, cycles. Its examples are
        not run. Raises `ComposeRefused`. Without a *language*, its comments say which one it is.
        """
        if not isinstance(source, str | bytes):
            raise ComposeRefused("the tool", [f"its source is text, not {type(source).__name__}"])
        file = toolfile.read(source, language=language)
        interface = await self.inspector.interface(file)
        await self.catalogue.load(source for source in self.catalogue.sources if not source.namespace)
        problems = await checks.requires_problems(interface.requires, self.catalogue, self.grants, file.name)
        problems += checks.cycle_problems(file.name, interface.requires, self.composed)
        problems += checks.name_problems(file.name, self.catalogue)
        if problems:
            raise ComposeRefused(file.name, problems)
        return file, interface

    def _elsewhere(self, name: str) -> str | None:
        """Of a name with a namespace: whose tool it is, and how that is called."""
        for source in self.catalogue.sources:
            if isinstance(name, str) and source.namespace and name.startswith(f"{source.namespace}."):
                whose = f"the server {source.namespace}" if source.namespace in self.config.servers else source.origin
                return f"{name[:200]} is a tool of {whose}: call it in code as await tools.{name[:200]}(…)"
        return None

    async def compose(
        self,
        source: str | bytes,
        *,
        scope: StoreScope = "project",
        replace: bool = True,
        language: Language | None = None,
    ) -> Saved:
        """Check a tool, run its examples, save it, and add it to the catalogue. It may be Python, JavaScript or
        TypeScript (`# /// tool` or `// /// tool`; the latter is TypeScript, unless *language* or the block says other).

        Saving the same content again does nothing; different content under the same name makes a new version. With
        `replace=False` that is refused, and so is a tool that would shadow one of the user's own: for tools whose name
        somebody else chose.

        Raises `ComposeRefused` if a check or an example fails (`problems` says what to fix), and `StoreError` if the
        file can't be written. Nothing is saved then.
        """
        file, interface = await self.check(source, language)
        if not replace and scope == "project":
            now = self.composed.found.get(file.name) or self.composed.broken.get(file.name)
            if (
                now is not None
                and now.scope == "global"
                and not (isinstance(now, Composed) and now.file.digest == file.digest)
            ):
                raise already_there(file.name, "global")
        outcomes = await self._examples(Composed.of(file, interface, scope, 0))
        failed = [outcome for outcome in outcomes if outcome.problem is not None]
        if failed:
            told = [f"example {outcome.number}: {outcome.told}" for outcome in failed]
            raise ComposeRefused(file.name, told, examples=failed)
        try:
            version, created = await asyncio.to_thread(self._store(scope).save, file, replace=replace)
        except OSError as error:
            raise StoreError(f"{file.name} can't be saved: {error.strerror or error}") from None
        await self.catalogue.load([self.composed])
        await self._review(file.name, interface.requires)
        return Saved(file.name, version.number, scope, created, interface, len(outcomes), file.language)

    async def test(self, name: str) -> list[checks.ExampleOutcome]:
        """Run a tool's examples. If they pass, it is no longer among those that are `outdated`."""
        await self.catalogue.load_known()  # what is recorded must fit what is known
        tool = await self.composed.get(name)
        outcomes = await self._examples(tool)
        if outcomes and all(outcome.problem is None for outcome in outcomes):
            await self._review(name, tool.interface.requires)
        return outcomes

    async def _examples(self, tool: Composed) -> list[checks.ExampleOutcome]:
        outcomes = []
        allowance = Allowance(self.box.limits, self.box)  # of all examples together
        for number, example in enumerate(tool.file.metadata.examples, 1):
            started = time.perf_counter()
            recordings = Recordings(example.calls)
            try:
                run = await self._example(tool, example, recordings, allowance)
            except CallError as spent:
                outcomes.append(checks.ExampleOutcome(number, str(spent), 0.0))
                continue
            ms = (time.perf_counter() - started) * 1e3
            outcomes.append(checks.judge(number, example, run, recordings, ms))
        return outcomes

    async def _example(self, tool: Composed, example: Example, recordings: Recordings, allowance: Allowance) -> Run:
        """One example: its calls are answered from its recordings, and reach nothing."""

        async def answer(name: str, arguments: dict[str, Any], scope: Scope) -> Any:
            if not recordings.has(name) and name in self.composed.found:
                run = await self._fly(self.composed.found[name], arguments, scope, answer, count=False)
                if run.status != "completed":
                    raise CallError(run.error.message if run.error is not None else run.status)
                return with_files(run.result, run.files)
            scope.allowance.take_call()
            return await self.catalogue.check_recorded(name, arguments, lambda: recordings.answer(name, arguments))

        # Whatever it requires is granted: nothing it calls is reached.
        root = Scope(Grants.everything(), allowance, uuid.uuid4().hex, depth=-1)
        return await self._fly(tool, dict(example.inputs), root, answer, count=False)

    # -- running

    async def run(
        self,
        tool: str | Composed,
        inputs: Mapping[str, Any] | None = None,
        *,
        grants: Iterable[str] | None = None,
        limits: Limits | Mapping[str, Any] | None = None,
        approver: Approver | None = None,
        run_id: str | None = None,
        recording: Recording | None = None,
        box: Sandbox | None = None,
    ) -> Run:
        """Run a composed tool; whatever it does ends as a `Run`. *grants* and *limits* can only narrow.

        A name means the current version; pass what `composed.get` returned to run that version. *run_id* is what
        `box.interrupt` takes. A run with a *recording* can be resumed later, in *box* if that is not the current one.
        Raises `ToolNotFound`, and `LimitError` for wider limits.
        """
        if isinstance(tool, str):
            tool = await self._begun_or_now(tool, recording)
        box, run_id = box or self.box, run_id or uuid.uuid4().hex
        narrowed = box.limits.narrowed(limits)
        base = self.grants if grants is None else self.grants.narrowed(grants)
        approver = approver or self.approver
        if base.needs_approval(tool.name):
            given = dict(inputs or {})
            answer = None if recording is None else recording.decision(0, tool.spec, given)
            if answer is None and approver is not None:
                answer = await approver(tool.spec, given)
                if answer is not None and recording is not None:
                    recording.decided(0, tool.spec, given, answer)
            if answer is None and recording is not None:
                recording.ask(0, tool.spec, given, NEEDS_APPROVAL)
            if not answer:
                waits = Pending(
                    tool=tool.name,
                    arguments=given,
                    reason=NEEDS_APPROVAL,
                    call="" if recording is None else recording.path(0),
                )
                return _not_approved(run_id, None if answer is False else waits)
        root = Scope(base, Allowance(narrowed, box), run_id, approver, depth=-1, recording=recording)
        return await self._fly(tool, dict(inputs or {}), root, run_id=run_id)

    async def call(self, name: str, /, **inputs: Any) -> Any:
        """The result of any granted tool: a composed one, one of a server or an API, or a function. `CallError` if it
        fails.
        """
        if await self.is_elsewhere(name):
            return await self._call_directly(name, inputs)
        run = await self.run(name, inputs)
        if run.status != "completed":
            assert run.error is not None
            raise CallError(f"{name}: {run.error}")
        return run.result

    async def is_elsewhere(self, name: str) -> bool:
        """Whether a name can only be that of a tool which is not a composed one: it has a namespace, or is known."""
        await self.catalogue.load_known()
        found = self.catalogue.known(name)
        return not found.digest if found is not None else "." in name and PATTERN.fullmatch(name) is not None

    async def _call_directly(self, name: str, inputs: dict[str, Any]) -> Any:
        scope = Scope(self.grants, Allowance(self.box.limits, self.box), uuid.uuid4().hex, self.approver)
        try:
            return await self.catalogue.call(name, inputs, scope)
        except ApprovalRequired as waits:
            raise CallError(f"{name} was not called: {waits}; pass an approver, or run it from code") from None

    async def _fly(
        self,
        tool: Composed,
        inputs: dict[str, Any],
        scope: Scope,
        answer: Callable[[str, dict[str, Any], Scope], Any] | None = None,
        *,
        count: bool = True,
        run_id: str | None = None,
    ) -> Run:
        started = time.perf_counter()
        run_id = run_id or uuid.uuid4().hex
        inner = scope.inside(tool.name, tool.interface.requires, run_id)
        if inner.recording is not None and inner.recording.start is not None:
            tool = await self.version(tool.name, source=inner.recording.start.source, now=tool) or tool
        if wrong := await tool.input_problems(inputs):
            run = Run(
                id=run_id, status="error", error=RunError(kind="InputError", message=f"the inputs do not fit: {wrong}")
            )
        else:
            limits = scope.allowance.narrow(tool.limits)
            guest = GuestTools(self.catalogue, inner, answer)
            scope.allowance.enter(run_id)
            used, fuel = 0.0, None
            try:
                run = await scope.allowance.box.run(
                    tool.file.source,
                    inputs,
                    run_id=run_id,
                    limits=limits,
                    tools=guest,
                    entry=tool.name,
                    depth=max(0, inner.depth),
                    tape=inner.recording,
                    language=tool.file.language,
                )
                used, fuel = run.usage.cpu_ms / 1e3, run.usage.fuel
            finally:
                scope.allowance.leave(run_id, used, fuel)
            if run.status == "completed" and (problems := await tool.outputs.check(run.result)):
                message = "the result does not fit what the function says it returns: " + "; ".join(problems)
                run.status, run.result, run.error = "error", None, RunError(kind="BadResult", message=message)
        if count:
            self._count(tool, run, (time.perf_counter() - started) * 1e3)
        return run

    async def _begun_or_now(self, name: str, recording: Recording | None) -> Composed:
        """The current version of a tool; where there is none any more, the one that a recorded run of it was begun
        with.
        """
        try:
            return await self.composed.get(name)
        except ToolNotFound:
            if recording is None or recording.start is None:
                raise
            if (tool := await self.version(name, source=recording.start.source)) is None:
                raise
            return tool

    async def version(
        self, name: str, *, digest: str | None = None, source: str | None = None, now: Composed | None = None
    ) -> Composed | None:
        """The version of a tool with that digest, or whose very text has the SHA-256 *source*: the one of *now*, or one
        of the history.

        None if there is none: what runs again must be what it was.
        """

        def fits(file: ToolFile) -> bool:
            if source is None:
                return file.digest == digest
            return source_digest(file.source.encode(), file.language).hex() == source

        if now is not None and fits(now.file):
            return now
        toolfile.check_name(name)
        for store in self.stores:
            for version in reversed(await asyncio.to_thread(store.versions, name)):
                if digest is not None and not digest.startswith(version.digest):
                    continue
                with contextlib.suppress(ComposerError, OSError):  # one that is damaged is not it
                    file = await asyncio.to_thread(store.version, name, version.number)
                    if fits(file):
                        interface = await self.inspector.interface(file)
                        return Composed.of(file, interface, store.scope, version.number, version.saved)
        return None

    def _count(self, tool: Composed, run: Run, ms: float) -> None:
        """Afterwards: what was done is done, so nothing here fails it."""
        usage = self.usage[tool.scope]
        if usage.note(tool.name, run.status == "completed", ms):
            asyncio.get_running_loop().run_in_executor(
                None, usage.flush
            )  # a sync may take long, and others' runs go on meanwhile
        tell(self.listeners, RunEnded("tool", run.status, ms))

    async def learn(self, name: str) -> tuple[dict[str, Any], int]:
        """Learn what a tool returns from the results on record; the schema, and from how many results.

        It is shown in stubs, marked as learned, and never enforced. What ran through the engine, the server or the
        command line is on record; what `Composer` ran by itself is not.
        """
        spec = await self.catalogue.get(name, self.grants)
        if spec.output_schema is not None and not spec.learned:
            raise StoreError(f"{name} says itself what it returns; there is nothing to learn")
        results = await asyncio.to_thread(self._results, name)
        if not results:
            raise StoreError(
                f"no result of {name} is on record: call it from code that runs through the engine, the server or "
                "the command line"
            )
        schema = learn(results)
        self.learned.save(name, schema)
        self.catalogue.learn(name, schema)
        return schema, len(results)

    def _results(self, name: str) -> list[Any]:
        calls = (call for run in self.past_runs() for call in run.calls if call.name == name)
        return [call.result for call in calls if call.kept and call.error is None]

    async def suggest(self, *, least: int = 2) -> list[Suggestion]:
        """Composed tools that the code of past runs would make: of runs through the engine, the server or the command
        line. What `Composer` ran by itself is not on record.
        """
        await self.composed.load()
        saved = {name: tool.file.source for name, tool in self.composed.found.items()}
        from go_ent.composer.composed.suggest import suggest

        return await suggest(self.past_runs, self.box, self.catalogue, least=least, saved=saved)

    async def tool_of(self, run: PastRun, name: str, about: str, *, constants: Mapping[str, Any] | None = None) -> str:
        """The source of a tool that does what a past run of code did, for `compose`; *about* says what it is for.

        Its inputs are parameters, and so are the *constants*: literals of the code, by the name of the parameter
        (`{"limit": 10}`), or by `name:line` where the same stands in several; `...` stands for the literal that the
        code calls so itself. `ComposeRefused` says which are not found, or not only once.
        """
        from go_ent.composer.composed.suggest import Wanted, tool_of

        return await tool_of(run, Wanted(name, about, constants or {}), self.box, self.catalogue)

    async def outdated(self) -> dict[str, list[str]]:
        """Composed tools that require tools whose interface has changed since they were saved or last tested, and
        which those are.
        """
        await self.composed.load()
        return await asyncio.to_thread(outdated, [*self.composed.found.values()], self.stores, self.listings)

    async def _review(self, name: str, requires: Iterable[str]) -> None:
        if any("." in one for one in requires):
            await asyncio.to_thread(self.listings.review, name)

    # -- looking after the store

    async def history(self, name: str) -> list[Version]:
        """Every version of a tool, the oldest first."""
        toolfile.check_name(name)
        await self.composed.load()
        return self._holder(name).versions(name, whole=True)

    async def rollback(self, name: str, version: int, *, scope: StoreScope | None = None) -> Version:
        """Bring an earlier version back, as a new version with its content. With a *scope*, only in that store."""
        toolfile.check_name(name)
        await self.composed.load()
        store = self._holder(name, scope=scope)
        if not isinstance(version, int):
            raise StoreError(f"a version is a number, not {version!r}")
        past = store.version(name, version)
        await self.check(past.source, past.language)  # one that could not be saved now is not brought back
        made = await asyncio.to_thread(store.rollback, name, version)
        await self.catalogue.load([self.composed])
        return made

    async def remove(self, name: str, *, scope: StoreScope | None = None) -> StoreScope:
        """Remove a tool; its versions stay in the history, and rollback brings it back. With a *scope*, only from
        that store.
        """
        toolfile.check_name(name)
        await self.composed.load()
        users = [tool.name for tool in self.composed.found.values() if name in tool.interface.requires]
        if users and not any(tool.name == name for tool in self.composed.shadowed):
            raise StoreError(f"{name} is required by {', '.join(users)}; remove or change them first")
        store = self._holder(name, now=True, scope=scope)
        await asyncio.to_thread(store.remove, name)
        await self.catalogue.load([self.composed])
        return store.scope

    def _holder(self, name: str, *, now: bool = False, scope: StoreScope | None = None) -> ToolStore:
        """The store that has the tool, or, unless it must be there now, had it; with a *scope*, none but that one."""
        stores = [store for store in self.stores if scope in (None, store.scope)]
        for store in stores:
            if name in store.scan():
                return store
        for store in stores:
            if not now and store.versions(name):
                return store
        for store in self.stores:
            if store not in stores and (name in store.scan() or store.versions(name)):
                raise WrongStore(name, store.scope)
        raise ToolNotFound(f"there is no composed tool {name}")

    def _store(self, scope: StoreScope) -> ToolStore:
        return next(store for store in self.stores if store.scope == scope)


def _not_approved(run_id: str, waits: Pending | None) -> Run:
    """A run that never was: it waits, or was rejected."""
    if waits is not None:
        return Run(
            id=run_id,
            status="paused",
            pending=[waits],
            error=RunError(kind="paused", message="the run waits for approval"),
        )
    return Run(id=run_id, status="error", error=RunError(kind="NotApproved", message="the call was not approved"))

"""One catalogue of tools from many sources: listed, searched, granted, checked and called in one place."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from itertools import islice
from typing import Any, Literal

from go_ent.composer.catalogue import stubs, typescript_stubs
from go_ent.composer.catalogue.grants import Grants
from go_ent.composer.catalogue.schemas import BadSchema, Checker, of_arguments
from go_ent.composer.catalogue.scope import Scope
from go_ent.composer.catalogue.search import Index
from go_ent.composer.catalogue.spec import ANYTHING, CallContext, KeepsTools, Schema, Source, ToolSpec
from go_ent.composer.errors import (
    BadArguments,
    BadResult,
    CallError,
    Collision,
    ComposerError,
    NotGranted,
    ToolNotFound,
    Unavailable,
)
from go_ent.composer.project.items import apart
from go_ent.sandbox import ApprovalRequired, Pending, ToolError
from go_ent.sandbox.host.spans import span
from go_ent.sandbox.media.marks import as_text
from go_ent.sandbox.messages.near_names import alike, did_you_mean
from go_ent.sandbox.worker.languages import Language

log = logging.getLogger("go_ent.composer")
Detail = Literal["brief", "compact", "stubs", "full"]
CallOutcome = Literal["ok", "error", "cancelled", "not_granted", "waits"]
PATIENCE_S = 3.0
NEEDS_APPROVAL = "calls of this tool need approval"
GRANT_IT = "go-ent grant adds it to [grants] allow in .go-ent/config.toml"
ALIKE = 0.6  # from there on another name may have been meant
THE_SAME = 0.8  # and from there on even that of a tool that destroys
ABOUT_AS_MUCH = 0.1


class Catalogue:
    """The tools of all sources under their full names. Used from one event loop.

    A source is asked for its tools when they are first needed; one that can't answer is in `problems`, and the others
    go on.
    """

    def __init__(self, sources: Iterable[Source] = ()) -> None:
        self.sources: list[Source] = []
        self.problems: dict[str, str] = {}
        self.learned: dict[str, Schema] = {}
        self.project_grants: Grants | None = (
            None  # those of the project's configuration, if these are a project's tools
        )
        self.version = 0  # goes up whenever tools with a namespace are others than before
        self._listed: dict[int, list[ToolSpec]] = {}
        self._specs: dict[str, tuple[ToolSpec, Source]] = {}
        self._index: Index | None = None
        self._collisions: dict[str, Collision] = {}
        self._asked: dict[tuple[int, bool], asyncio.Future[list[ToolSpec]]] = {}
        self._checkers: dict[int, tuple[Schema, Checker | None]] = {}
        self.outcomes: Counter[CallOutcome] = Counter()  # how the calls of guests have ended, so far
        for source in sources:
            self.add(source)

    def add(self, source: Source) -> None:
        """Another source; its namespace must be its own."""
        for other in self.sources:
            if source.namespace and other.namespace == source.namespace:
                raise Collision(source.namespace, other.origin, source.origin)
        self.sources.append(source)

    def namespace_problem(self, name: str) -> str | None:
        """Why a tool at the top level can't be called that, if a source's tools stand below that name."""
        owner = next((source for source in self.sources if source.namespace == name), None)
        return None if owner is None else f"{name} is the namespace of {owner.origin}: choose another name"

    async def close(self) -> None:
        for task in list(self._asked.values()):
            task.cancel()
        for answer in await asyncio.gather(*(source.close() for source in self.sources), return_exceptions=True):
            if isinstance(answer, Exception):
                log.warning("a source of tools could not be closed: %s", answer)

    # -- finding

    async def load(
        self, sources: Iterable[Source] | None = None, *, patience_s: float | None = None, live: bool = False
    ) -> None:
        """Ask sources, all at once, what they have. One that is not *local* may take *patience_s*, and may answer with
        what is kept of it, unless it is to be asked *live*.
        """
        asked = list(self.sources if sources is None else sources)
        if all(source.local for source in asked):
            answers = [await self._ask(source, patience_s, live) for source in asked]
        else:
            answers = await asyncio.gather(*(self._ask(source, patience_s, live) for source in asked))
        self._note(asked, answers)

    async def load_known(self) -> None:
        """Learn the tools that nothing has to be started for: of local sources, and of copies that are kept."""
        await self.load(source for source in self.sources if source.local)
        unknown = [source for source in self.sources if not source.local and id(source) not in self._listed]
        answers = [await source.kept_tools() if isinstance(source, KeepsTools) else None for source in unknown]
        known = [(source, answer) for source, answer in zip(unknown, answers, strict=True) if answer is not None]
        self._note([source for source, _ in known], [answer for _, answer in known])

    def _note(self, asked: list[Source], answers: list[list[ToolSpec]]) -> None:
        changed = False
        for source, answer in zip(asked, answers, strict=True):
            if answer is not self._listed.get(id(source)):
                self._listed[id(source)] = answer
                changed = True
        if changed:
            self._merge()

    async def _ask(self, source: Source, patience_s: float | None, live: bool) -> list[ToolSpec]:
        """A source's tools; what it had before, if it fails or takes longer than *patience_s*, and then it goes on."""
        answer: Awaitable[list[ToolSpec]]
        if source.local:  # it answers at once, as a rule: a task would take longer than it does
            answer = source.tools()
        else:
            answer = task = self._asked.get((id(source), live)) or self._begin_to_ask(source, live)
            done, _ = await asyncio.wait([task], timeout=patience_s)
            if not done:
                self.problems[source.origin] = f"no answer within {patience_s:g} s (is the server running?)"
                return self._listed.get(id(source), [])
        try:
            found = await answer
            partly: dict[str, str] = getattr(source, "problems", {})
            if partly:
                self.problems[source.origin] = "; ".join(f"{name}: {why}" for name, why in partly.items())
            else:
                self.problems.pop(source.origin, None)
            return found
        except asyncio.CancelledError:
            if source.local:
                raise
            self.problems[source.origin] = "it was closed"
        except ComposerError as error:
            self.problems[source.origin] = (
                str(error).removeprefix(f"{source.origin}: ").removeprefix(f"{source.origin} ")
            )
        except Exception as error:
            log.exception("%s failed in a way that it should not", source.origin)
            self.problems[source.origin] = f"{type(error).__name__}: an error of the host; its log has it"
        return self._listed.get(id(source), [])

    def _begin_to_ask(self, source: Source, live: bool) -> asyncio.Future[list[ToolSpec]]:
        ask = source.live_tools if live and isinstance(source, KeepsTools) else source.tools
        key = id(source), live
        task = self._asked[key] = asyncio.ensure_future(ask())
        task.add_done_callback(lambda _: self._asked.pop(key, None))
        return task

    def _merge(self) -> None:
        merged: dict[str, tuple[ToolSpec, Source]] = {}
        for name in self._collisions:
            self.problems.pop(name, None)
        self._collisions.clear()
        for source in self.sources:
            for spec in self._listed.get(id(source), ()):
                if spec.name in merged:
                    self._refuse(Collision(spec.name, merged[spec.name][0].origin, spec.origin))
                schema = self.learned.get(spec.name) if spec.output_schema is None else None
                merged[spec.name] = (
                    (spec if schema is None else replace(spec, output_schema=schema, learned=True)),
                    source,
                )
        for name, (spec, _) in merged.items():
            above = name
            while above := above.rpartition(".")[0]:
                if above in merged:
                    self._refuse(Collision(above, merged[above][0].origin, f"{spec.origin}, where it is a namespace"))
        before = [spec for spec, _ in self._specs.values() if spec.namespace]
        self._specs = {name: found for name, found in merged.items() if name not in self._collisions}
        self.version += before != [spec for spec, _ in self._specs.values() if spec.namespace]
        self._index = None
        self._checkers.clear()

    def _refuse(self, collision: Collision) -> None:
        """Neither tool can be called, and who asks learns why; the rest go on."""
        self._collisions[collision.name] = collision
        self.problems[collision.name] = str(collision)

    def learn(self, name: str, schema: Schema) -> None:
        """Take *schema* for that of what a tool returns, if it has none of its own. Shown, never enforced."""
        self.learned[name] = schema
        self._merge()

    async def tools(self, grants: Grants, namespace: str | None = None, *, others: bool = False) -> list[ToolSpec]:
        """The granted tools, by name; of one namespace if it is given. With *others*, then those that are not granted,
        as far as they are known.
        """
        await self.look(grants, others=others)
        names = sorted(
            (name for name in self._specs if _within(name, namespace)), key=lambda name: (not grants.allows(name), name)
        )
        return [self._specs[name][0] for name in names if grants.allows(name) or (others and self._is_shown(name))]

    async def namespaced(self, grants: Grants, patience_s: float) -> list[ToolSpec]:
        """The granted tools that have a namespace: all but composed ones. A server that takes longer goes on, and its
        tools are there later.
        """
        reached = (source for source in self.sources if source.namespace and grants.may_reach(source.namespace))
        await self.load(reached, patience_s=patience_s)
        return [spec for name, (spec, _) in sorted(self._specs.items()) if spec.namespace and grants.allows(name)]

    def _is_shown(self, name: str) -> bool:
        """Whether a tool that is not granted is told of: not one that is for a run's own data."""
        return not getattr(self._specs[name][1], "private", False)

    async def look(self, grants: Grants, *, others: bool = False) -> None:
        """Sources that answer soon are asked: a server that hangs keeps nobody from finding the others' tools."""
        await self.load(
            (source for source in self.sources if grants.may_reach(source.namespace)), patience_s=PATIENCE_S
        )
        if others:
            await self.load_known()

    async def search(
        self, words: str, grants: Grants, *, namespace: str | None = None, limit: int = 10, others: bool = False
    ) -> list[ToolSpec]:
        """The granted tools that best fit *words*; of one namespace if it is given. With *others*, then those that are
        not granted, as far as they are known: they take the places that are left, and a fifth in any case.
        """
        await self.look(grants, others=others)
        granted, rest = self._ranked(words, grants, namespace)
        rest = [spec for spec in rest if self._is_shown(spec.name)] if others else []
        room = max(limit - len(granted), min(limit // 5, len(rest)))
        return [*granted[: limit - min(room, len(rest))], *rest[:room]] if limit > 0 else []

    def search_known(self, words: str, grants: Grants, *, namespace: str | None = None, limit: int) -> list[ToolSpec]:
        """The granted tools that best fit *words*, of those known so far; all by name, if there are no words."""
        if words.strip():
            return self._ranked(words, grants, namespace)[0][:limit]
        names = (name for name in self.known_names(grants) if _within(name, namespace))
        return [self._specs[name][0] for name in islice(names, limit)]

    def _ranked(self, words: str, grants: Grants, namespace: str | None) -> tuple[list[ToolSpec], list[ToolSpec]]:
        """The known tools that fit *words*, best first: the granted ones, and the others."""
        if self._index is None:
            self._index = Index([spec for spec, _ in self._specs.values()])
        found = [spec for spec in self._index.search(words, len(self._specs)) if _within(spec.name, namespace)]
        return [spec for spec in found if grants.allows(spec.name)], [
            spec for spec in found if not grants.allows(spec.name)
        ]

    async def get(self, name: str, grants: Grants) -> ToolSpec:
        """The granted tool of that name. Only the source it belongs to is asked."""
        if not grants.allows(name):
            raise await self.refusal(name, grants)
        spec, _ = await self._find(name, grants)
        return spec

    async def find(self, name: str, *, live: bool = False) -> ToolSpec:
        """The tool of that name, for one who has seen to the grant; *live*, as its source lists it now."""
        spec, _ = await self._find(name, live=live)
        return spec

    async def _find(self, name: str, grants: Grants | None = None, *, live: bool = False) -> tuple[ToolSpec, Source]:
        """The tool of that name, and whose it is. With *grants*, who errs is told what of them may have been meant."""
        owners = [source for source in self.sources if source.namespace and _within(name, source.namespace)]
        owners = owners or [source for source in self.sources if not source.namespace]
        await self.load(owners, live=live)
        found = self._specs.get(name)
        if name in self._collisions:
            raise self._collisions[name]
        if found is None:
            for owner in owners:
                if owner.namespace and owner.origin in self.problems:
                    raise Unavailable(f"{owner.origin} is not available: {self.problems[owner.origin]}")
            for owner in owners:
                why = getattr(owner, "why_not", None)
                if why is not None and (reason := why(name)):
                    raise ToolNotFound(reason)
            raise ToolNotFound(f"there is no tool {name}" + ("" if grants is None else await self.meant(name, grants)))
        return found

    async def refusal(self, name: str, grants: Grants) -> NotGranted | ToolNotFound:
        """Why a tool outside *grants* can't be called: it is not granted, or there is none of that name."""
        hint = await self.meant(name, grants)
        owners = [source for source in self.sources if source.namespace and _within(name, source.namespace)]
        unknown = any(id(owner) not in self._listed or owner.origin in self.problems for owner in owners)
        if name in self._specs or name in self._collisions or unknown:
            missing = self.project_grants is not None and not self.project_grants.allows(name)
            return NotGranted(name, GRANT_IT if missing else "")
        return ToolNotFound(f"there is no tool {name}{hint}")

    async def meant(self, name: str, grants: Grants) -> str:
        """The end of a message about *name*: what may have been meant. The sources it may belong to are asked first."""
        first = name.partition(".")[0]
        spaces = {source.namespace: alike(first, source.namespace) for source in self.sources if source.namespace}
        best = max(spaces.values(), default=0.0)
        near = [
            space for space, ratio in spaces.items() if ratio >= ALIKE and ratio == best and grants.may_reach(space)
        ]
        await self.load((source for source in self.sources if source.namespace in near), patience_s=PATIENCE_S)
        if name in self._specs:
            return ""
        found = did_you_mean(spec.name for spec in self.near(name, grants))
        if not found and "." in name and first not in spaces:
            found = did_you_mean(f"the namespace {space}" for space in near[:1])
        return found

    def near(self, name: str, grants: Grants, most: int = 3) -> list[ToolSpec]:
        """Granted tools that may have been meant by a name that no tool has, among those known so far.

        It is the last part that must be alike: a tool is not meant because it stands beside what was. And what destroys
        is named only to one who has all but named it.
        """
        if name in self._specs:
            return []
        space, _, last = name.rpartition(".")
        found: list[tuple[float, float, str]] = []
        for known, (spec, _) in self._specs.items():
            its_space, _, its_last = known.rpartition(".")
            if not grants.allows(known) or (ratio := alike(last, its_last)) < ALIKE:
                continue
            if not spec.hints.destructive or min(ratio, alike(name, known)) > THE_SAME:
                found.append((alike(space, its_space) if space else 1.0, ratio, known))
        nearest = max((space_ratio for space_ratio, _, _ in found), default=0.0)
        found = [one for one in found if one[0] == nearest or one[1] == 1.0 > nearest]
        best = max((ratio for _, ratio, _ in found), default=0.0)
        found = [one for one in found if one[1] >= best - ABOUT_AS_MUCH]
        return [
            self._specs[known][0] for _, _, known in sorted(found, key=lambda one: (-one[0], -one[1], one[2]))[:most]
        ]

    def known(self, name: str) -> ToolSpec | None:
        """A tool that is known so far, without asking anybody."""
        found = self._specs.get(name)
        return None if found is None else found[0]

    def known_names(self, grants: Grants) -> list[str]:
        """The granted tools that are known so far, without asking anybody."""
        return sorted(name for name in self._specs if grants.allows(name))

    def reachable_names(self, grants: Grants) -> list[str]:
        """The same, and `namespace.*` for granted sources whose tools are not known yet."""
        unknown = [
            f"{source.namespace}.*"
            for source in self.sources
            if not source.local and id(source) not in self._listed and grants.may_reach(source.namespace)
        ]
        return sorted([*self.known_names(grants), *unknown])

    # -- calling

    async def call(self, name: str, arguments: dict[str, Any], scope: Scope) -> Any:
        """Call a tool: granted, counted, checked before and after, timed and recorded."""
        with span("tool", tool=name):
            return await self._call(name, arguments, scope)

    async def _call(self, name: str, arguments: dict[str, Any], scope: Scope) -> Any:
        started = time.perf_counter()
        record = True
        outcome: CallOutcome = "error"
        result: Any = None
        error: str | None = None
        try:
            if not scope.allows(name):
                raise await self.refusal(name, scope.grants)
            scope.allowance.take_call()
            before = self.known(name)
            spec, source = await self._find(name, scope.grants, live=True)
            has_changed = before is not None and before.input_schema != spec.input_schema
            what = "its arguments, which have changed since it was last listed," if has_changed else "its arguments"
            await self._check(spec.input_schema, arguments, BadArguments, name, what)
            await self._approve(spec, arguments, scope)
            if not await self._dispatched(spec, scope):
                outcome = "ok"
                return None
            context = CallContext(scope.run_id, scope.chain, scope, *scope.place)
            sent = arguments if getattr(source, "takes_bytes", False) else as_text(arguments)
            result = await source.call(name, sent, context)
            if spec.output_schema is not None and not spec.learned:
                await self._check(spec.output_schema, result, BadResult, name, "its result")
            outcome = "ok"
            return result
        except ApprovalRequired:
            record, outcome = False, "waits"
            raise
        except NotGranted as failed:
            error, outcome = str(failed), "not_granted"
            raise
        except (ComposerError, ToolError) as failed:
            error = str(failed)
            raise
        except asyncio.CancelledError:
            error = outcome = "cancelled"
            raise
        except Exception as failed:
            log.exception("the tool %s failed in a way that it should not", name)
            error = f"{type(failed).__name__}: an error of the host; its log has it"
            raise CallError(error) from None
        finally:
            self.outcomes[outcome] += 1
            if record:
                scope.note(name, arguments, None if error else result, error, started)

    async def check_recorded(self, name: str, arguments: dict[str, Any], answer: Callable[[], Any]) -> Any:
        """A recorded answer to a call, if both fit what is known of the tool: a recording must not teach what is not
        so.
        """
        spec = self.known(name)
        if spec is not None:
            await self._check(spec.input_schema, arguments, BadArguments, name, "its arguments")
        result = answer()
        if spec is not None and spec.output_schema is not None and not spec.learned:
            await self._check(spec.output_schema, result, BadResult, name, "the recorded result")
        return result

    @staticmethod
    async def _dispatched(spec: ToolSpec, scope: Scope) -> bool:
        """On record before it is made, unless making it again would do no harm. False: it is taken as done."""
        if spec.hints.read_only or spec.digest:  # a composed tool's own calls are on record
            return True
        if scope.recording is not None:
            return await scope.recording.dispatch(scope.call, spec)
        if scope.calls is not None:
            await scope.calls.before_effect()
        return True

    async def _approve(self, spec: ToolSpec, arguments: dict[str, Any], scope: Scope) -> None:
        listed = scope.grants.needs_approval(spec.name)
        if not listed and not spec.hints.destructive:
            return
        answer = None if scope.recording is None else scope.recording.decision(scope.call, spec, arguments)
        if answer is None and scope.approver is not None:
            answer = await scope.approver(spec, arguments)
            if answer is not None and scope.recording is not None:
                scope.recording.decided(scope.call, spec, arguments, answer)
        if answer and (await self._find(spec.name))[0] != spec:
            raise CallError("the tool has changed while its approval was asked for: call it again")
        if answer is None:
            reason = NEEDS_APPROVAL if listed else "this tool says that it is destructive"
            if scope.recording is None:
                raise ApprovalRequired(reason)
            scope.recording.ask(scope.call, spec, arguments, reason)
            waits = Pending(tool=spec.name, arguments=arguments, reason=reason, call=scope.recording.path(scope.call))
            raise ApprovalRequired(reason, [waits])
        if not answer:
            raise CallError("the call was not approved")

    async def _check(self, schema: Schema, value: Any, kind: type[ComposerError], name: str, what: str) -> None:
        kept = self._checkers.get(id(schema))
        if kept is None:
            try:
                kept = schema, Checker(schema)
            except BadSchema as error:
                log.warning("%s: the schema of %s is not checked: %s", name, what, error)
                kept = schema, None
            self._checkers[id(schema)] = kept
        if kept[1] is not None and (problems := await kept[1].check(value)):
            problems = of_arguments(problems, schema) if kind is BadArguments else problems
            raise kind(f"{what} {'do not' if kind is BadArguments else 'does not'} fit: " + "; ".join(problems))


def _within(name: str, namespace: str | None) -> bool:
    return namespace is None or name == namespace or name.startswith(f"{namespace}.")


def show(specs: Iterable[ToolSpec], detail: Detail, *, notes: bool = True, language: Language = "python") -> str:
    """Tools as text for a model: a line each, typed stubs, or everything there is, as Python or as TypeScript. One that
    can't be shown is shown without its schemas. Compact lines may leave out the *notes* on parameters.
    """
    specs = list(specs)
    try:
        return _shown(specs, detail, language, notes=notes)
    except Exception:  # of which spec, and why, is found out one by one
        return _shown([_showable(spec, detail, language) for spec in specs], detail, language, notes=notes)


def show_found(
    specs: Iterable[ToolSpec], detail: Detail, grants: Grants, remedy: str, language: Language = "python"
) -> str:
    """Tools that a search found as text: the granted ones as *detail* has it, then the others, marked, a line each.
    *remedy* says how they are granted.
    """
    specs = list(specs)
    chosen = [spec for spec in specs if grants.allows(spec.name)]
    parts = [show(chosen, detail, language=language)] if chosen else []
    others = show((spec for spec in specs if not grants.allows(spec.name)), "brief", language=language)
    if others:
        parts.append("\n".join([f"not granted ({remedy}):", *others.splitlines()]))
    return "\n".join(parts)


def _showable(spec: ToolSpec, detail: Detail, language: Language) -> ToolSpec:
    problems: dict[str, str] = {}
    with apart(spec.name, problems):
        _shown([spec], detail, language)
        return spec
    return replace(
        spec,
        description=f"(Its schemas can't be shown: {problems[spec.name]})",
        input_schema=ANYTHING,
        output_schema=None,
    )


def _shown(specs: list[ToolSpec], detail: Detail, language: Language, *, notes: bool = True) -> str:
    python = language == "python"
    if detail == "brief":
        signature = stubs.signature if python else typescript_stubs.signature
        return "\n".join(signature(spec) for spec in specs)
    if detail == "compact":
        return (stubs.compact if python else typescript_stubs.compact)(specs, notes=notes)
    text = stubs.stubs(specs) if python else typescript_stubs.stubs(specs)
    if detail == "stubs":
        return text
    import json

    rows = [
        {
            "name": s.name,
            "origin": s.origin,
            "input_schema": s.input_schema,
            "output_schema": s.output_schema,
            "learned": s.learned,
        }
        for s in specs
    ]
    return f"{text}\n\n" + "\n".join(json.dumps(row, ensure_ascii=False) for row in rows)

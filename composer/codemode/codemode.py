"""Code mode: a model writes Python over the granted tools, and gets back what it can use."""

from __future__ import annotations

import time
import uuid
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pydantic import Field
from pydantic_core import from_json, to_json

from go_ent.composer.catalogue import stubs
from go_ent.composer.catalogue.catalogue import Catalogue
from go_ent.composer.catalogue.grants import Grants
from go_ent.composer.catalogue.recording import Recording
from go_ent.composer.catalogue.scope import Allowance, Approver, NotedCalls, Scope
from go_ent.composer.catalogue.spec import NAMESPACE, CallContext, Hints, ToolSpec
from go_ent.composer.codemode.guest_tools import Answer, GuestTools
from go_ent.composer.codemode.past_runs import Listener, RunEnded, tell
from go_ent.composer.errors import BadName
from go_ent.sandbox import Limits, Run, Sandbox, SandboxClosed, Session
from go_ent.sandbox.errors import ToolError
from go_ent.sandbox.host.sharing import CALLER, Shares
from go_ent.sandbox.messages.advice import Advice
from go_ent.sandbox.worker.languages import Language

MAX_RESULT_CHARS = 20_000
MAX_KEPT_BYTES = 64 << 20
MAX_SESSIONS = 16
READ = "results.read"
REST = 'the whole is kept: later code can use `rest = await tools.results.read(id="{id}")`, and return a part of it'
LESS = "return less: a part, a count or a summary (tools.summarize makes one, where it is granted)"


def cut_in_the_middle(text: str, most: int, how: str) -> str:
    """The beginning and the end of a text, *most* characters in all; between them, *how* the rest is got."""
    head, tail = most - most // 4, most // 4
    return f"{text[:head]}\n… [cut: {len(text) - most} of {len(text)} characters; {how}] …\n{text[-tail:]}"


class CodeRun(Run):
    """A run of code mode. `help` holds the stubs of the tools that were called wrongly."""

    help: str | None = Field(default=None, description="typed stubs of the tools that the code called wrongly")


class Results:
    """Results that were too long to hand over, kept so that later code can go on with them. A source of one tool."""

    namespace = "results"
    local = True
    private = True  # granted to each run, for its own data
    origin = "go-ent's own tools"

    def __init__(self, callers: Callable[[], int] = lambda: 1) -> None:
        self._kept: dict[str, OrderedDict[str, bytes]] = {}  # by caller, then by run
        self._shares = Shares(MAX_KEPT_BYTES, callers)
        schema = {
            "type": "object",
            "properties": {"id": {"type": "string", "description": "the run's id, from the marker"}},
            "required": ["id"],
            "additionalProperties": False,
        }
        what = "The whole result of an earlier run whose result was cut."
        self._specs = [ToolSpec(READ, what, schema, hints=Hints(read_only=True), origin=self.origin)]

    def keep(self, run_id: str, value: bytes) -> bool:
        """Keep a result of the caller's, as JSON: as objects it would take many times as much. Whether there was room
        for it.

        Its own older ones make room, and nobody else's.
        """
        caller = CALLER.get()
        kept = self._kept.setdefault(caller, OrderedDict())
        self._shares.give(caller, len(kept.pop(run_id, b"")))  # a resumed run keeps its id
        while kept and self._shares.room(caller) < len(value):
            self._shares.give(caller, len(kept.popitem(last=False)[1]))
        if self._shares.room(caller) < len(value):
            return False
        kept[run_id] = value
        self._shares.take(caller, len(value))
        return True

    async def tools(self) -> list[ToolSpec]:
        return self._specs

    async def call(self, name: str, arguments: dict[str, Any], context: CallContext) -> Any:
        found = self._kept.get(CALLER.get(), {}).get(arguments["id"])
        if found is None:
            raise ToolError(f"no result of a run {arguments['id']!r} is kept")
        return from_json(found)

    async def close(self) -> None:
        self._kept.clear()


class CodeMode:
    """Runs code over a catalogue. State is kept between calls only in a named session.

    Without `grants`, what has no namespace may be called: composed tools and the program's own functions.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        sandbox: Sandbox,
        *,
        grants: Grants | None = None,
        listeners: Iterable[Listener] = (),
        approver: Approver | None = None,
        max_result_chars: int = MAX_RESULT_CHARS,
        packages_hint: str | None = None,
    ) -> None:
        """*listeners* are told of each run that has ended. *packages_hint* is said of a module that is not in the
        image: why packages that were asked for are not there.
        """
        self.catalogue = catalogue
        self.box = sandbox
        self.grants = grants if grants is not None else Grants(top_level=True)
        self.max_result_chars = max_result_chars
        self._listeners = listeners
        self._approver = approver
        self._packages_hint = packages_hint
        known = next((source for source in catalogue.sources if isinstance(source, Results)), None)
        self._results = known or Results(lambda: sandbox.callers)
        if self._results not in catalogue.sources:
            catalogue.add(self._results)
        most = max(1, min(MAX_SESSIONS, sandbox.workers // 2))  # the rest is for other runs
        self._shares = Shares(most, lambda: sandbox.callers)
        self._sessions: OrderedDict[tuple[str, str], Session] = OrderedDict()
        self._busy: Counter[tuple[str, str]] = Counter()

    async def execute(
        self,
        code: str | bytes,
        inputs: Mapping[str, Any] | None = None,
        *,
        language: Language = "python",
        session: str | None = None,
        grants: Iterable[str] | None = None,
        limits: Limits | Mapping[str, Any] | None = None,
        approver: Approver | None = None,
        run_id: str | None = None,
        cut: bool = True,
        files: Mapping[str, bytes] | None = None,
        recording: Recording | None = None,
        calls: NotedCalls | None = None,
        box: Sandbox | None = None,
        answer: Answer | None = None,
    ) -> CodeRun:
        """Run *code*. `grants` and `limits` can only narrow. An overlong result is cut to text, and stays a success.

        With a *recording* the run can be resumed later, in *box* if that is not the one of now; a session's runs
        can't: of those, *calls* gets the tool calls as they end.

        *files* are those that the code can open, by relative name; not in a session.

        `cut=False` is for programs, which want the value as it is, and a failure if it is larger than the sandbox hands
        over. *answer* is how calls are answered, if not by the tools themselves.
        """
        started = time.perf_counter()
        run_id = run_id or uuid.uuid4().hex
        box = box or self.box
        narrowed = box.limits.narrowed(limits)
        allowance = Allowance(narrowed, box)
        base = self.grants if grants is None else self.grants.narrowed(grants)
        scope = Scope(
            base,
            allowance,
            run_id,
            approver or self._approver,
            own=frozenset((READ,)),
            recording=recording,
            calls=calls,
        )
        await self.catalogue.load_known()
        tools = GuestTools(self.catalogue, scope, answer)
        allowance.enter(run_id)
        try:
            if session is not None:
                run = await self._in_session(code, inputs, session, narrowed, run_id, tools, cut, language)
            else:
                run = await box.run(
                    code,
                    inputs,
                    files=files,
                    limits=narrowed,
                    run_id=run_id,
                    tools=tools,
                    cut_result=cut,
                    tape=recording,
                    language=language,
                )
        finally:
            allowance.leave(run_id, 0.0)
        if (
            self._packages_hint
            and run.error is not None
            and run.error.message.endswith("is not in the sandbox's image")
        ):
            run.error.advise(Advice("trust"), self._packages_hint)
        tell(self._listeners, RunEnded("code", run.status, (time.perf_counter() - started) * 1e3))
        return self.present(run, scope.grants, cut=cut)

    async def _in_session(
        self,
        code: str | bytes,
        inputs: Mapping[str, Any] | None,
        session: str,
        limits: Limits,
        run_id: str,
        tools: GuestTools,
        cut: bool,
        language: Language,
    ) -> Run:
        kept, key = self._session(session, language), (CALLER.get(), session)
        self._busy[key] += 1
        try:
            return await kept.run(code, inputs, run_id=run_id, limits=limits, tools=tools, cut_result=cut)
        except SandboxClosed:
            # A limit or an interrupt ended it: its state is gone, and a new one takes its place.
            if self._sessions.get(key) is kept:
                del self._sessions[key]
                kept.close()
            run = await self._session(session, language).run(
                code, inputs, run_id=run_id, limits=limits, tools=tools, cut_result=cut
            )
            if run.error is not None and run.error.hint is None:
                run.error.hint = (
                    f"the session {session} was ended by a limit or an interrupt before: its variables are gone"
                )
            return run
        finally:
            self._busy[key] -= 1

    def _session(self, name: str, language: Language) -> Session:
        whose = CALLER.get()
        if not NAMESPACE.fullmatch(name):
            raise BadName(
                f"{name!r:.80} can't be the name of a session: a small letter, then small letters, digits and "
                "underscores"
            )
        key = whose, name
        if key not in self._sessions:
            self._shares.held = Counter(owner for owner, _ in self._sessions)
            if not self._shares.room(whose):
                # The one that was left alone longest; never another's, and none that is running.
                idle = next((one for one in self._sessions if one[0] == whose and not self._busy[one]), None)
                if idle is None:
                    raise BadName(
                        "as many sessions are open as there can be: wait for one of them, or run without a session"
                    )
                self._sessions.pop(idle).close()
            self._sessions[key] = self.box.session(language=language)
        if self._sessions[key].language != language:
            raise BadName(
                f"the session {name} speaks {self._sessions[key].language}: give one in {language} another name"
            )
        self._sessions.move_to_end(key)
        return self._sessions[key]

    def end_session(self, name: str) -> bool:
        """Forget a session's state; whether there was one."""
        found = self._sessions.pop((CALLER.get(), name), None)
        if found is not None:
            found.close()
        return found is not None

    def close(self) -> None:
        while self._sessions:
            self._sessions.popitem()[1].close()

    def present(self, run: Run, grants: Grants | None = None, *, cut: bool = True, most: int | None = None) -> CodeRun:
        """A run as a model gets it: with stubs of what it got wrong. A result of more than *most* characters is kept,
        and its beginning and end are shown, with how to get the rest.
        """
        made = CodeRun.model_construct(**dict(run))
        made.help = self._help(run, grants or self.grants)
        most = self.max_result_chars if most is None else most
        if run.status != "completed" or not cut:
            return made
        if run.result_truncated:  # by the sandbox: its end is nowhere
            shown = str(run.result)[:most]
            made.result = f"{shown}… [cut: {len(shown)} of {run.usage.result_bytes} bytes of JSON are shown; {LESS}]"
        elif run.usage.result_bytes > most:
            data = to_json(run.result)
            text = run.result if isinstance(run.result, str) else data.decode()
            if len(text) > most:
                how = REST.format(id=run.id) if self._results.keep(run.id, data) else LESS
                made.result, made.result_truncated = cut_in_the_middle(text, most, how), True
        return made

    def _help(self, run: Run, grants: Grants) -> str | None:
        """The stubs of what was called wrongly, so that the next try can be right."""
        if run.status != "error":
            return None
        wrong: dict[str, ToolSpec] = {}
        for call in run.calls:
            kind = (call.error or "").partition(":")[0]
            if kind == "InvalidArguments":
                found = self.catalogue.known(call.name)
                if found is not None:
                    wrong[found.name] = found
            elif kind in ("UnknownTool", "NotGranted"):
                wrong |= {spec.name: spec for spec in self.catalogue.near(call.name, grants)}
        return stubs.stubs(list(wrong.values())[:5]) if wrong else None

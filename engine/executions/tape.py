"""The tapes of an execution's guest runs: written to its journal as they run, and read from it when they are run again.

A guest run has a path, its step's name; the calls that it makes have the path and a number; what a call starts in a
guest of its own has the call's path.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hashlib
import json
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, field
from functools import partial
from typing import Any, Literal, cast, get_args

from pydantic_core import to_json

from go_ent.composer import CallError, ToolSpec
from go_ent.composer.catalogue.scope import CallRecord, NotedCalls
from go_ent.composer.project.numbers import whole
from go_ent.dataclass import dataclass
from go_ent.engine.core.crash_points import point
from go_ent.engine.core.errors import BadTask
from go_ent.engine.executions.approvals import arguments_digest, decision, decision_seal
from go_ent.engine.executions.owned import OwnedExecution
from go_ent.engine.executions.totals import Tally
from go_ent.sandbox.errors import Diverged
from go_ent.sandbox.host.broker import CHECKPOINT
from go_ent.sandbox.worker.seam import SEED_BYTES
from go_ent.sandbox.worker.tape import Start

Policy = Literal["retry", "skip", "fail"]
MAX_SHOWN = 16 << 10  # bytes of arguments that are kept to be shown, and for examples
MAX_NOTED = 256 << 10  # of the calls of a run without a tape
MAX_ASKED = 256 << 10  # of those that somebody has to decide about
MAX_TOOL = 200
MAX_JOURNAL = 512 << 20
CANCELLED = b"null"
SURROUNDINGS = (b"NotGranted", b"Unavailable", b"UnknownTool")  # failures of calls that never reached a tool
SPENT = (b"Spent",)  # of calls that the limits of their own run ended


@dataclass(frozen=True, slots=True)
class Unfinished:
    """What to do about calls that may or may not have been done: one for all, others for single calls by path."""

    others: Policy | None = None
    calls: Mapping[str, Policy] = field(default_factory=dict)

    @classmethod
    def parse(cls, words: Iterable[str]) -> Unfinished:
        """From words like `retry` and `run/3=skip`."""
        others: Policy | None = None
        calls: dict[str, Policy] = {}
        for word in words:
            path, _, policy = word.rpartition("=")
            if policy not in get_args(Policy):
                raise BadTask(
                    f"{word[:80]!r} is not what to do about an unfinished call: retry, skip or fail, or "
                    "CALL=retry for one call"
                )
            if path:
                calls[path] = cast(Policy, policy)
            else:
                others = cast(Policy, policy)
        return cls(others, calls)

    def of(self, path: str) -> Policy | None:
        """What to do about the call at *path*; None if nobody said."""
        return self.calls.get(path, self.others)


NOT_SAID = Unfinished()


@dataclass(slots=True)
class TapeCall:
    """One call as it was recorded."""

    number: int
    tool: str
    digest: str
    arguments: Any = None
    begun: bool = False
    retry: bool = False
    answer: bytes | None = None  # JSON; `null` if the guest cancelled it


@dataclass(frozen=True, slots=True)
class Cancel:
    """The guest gave up calls."""

    numbers: tuple[int, ...]


@dataclass(slots=True)
class GuestTrack:
    """What is on record of one guest run."""

    start: Start | None = None
    said: deque[TapeCall | Cancel] = field(default_factory=deque)
    heard: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Tracks:
    """What is on record of all guest runs: runs and calls by path, and how often each step has come to an end of its
    own.
    """

    runs: dict[str, GuestTrack] = field(default_factory=dict)
    calls: dict[str, TapeCall] = field(default_factory=dict)
    ends: dict[str, int] = field(default_factory=dict)
    mended: set[str] = field(default_factory=set)  # runs and calls that can go on where they failed for want of a tool


def read_tapes(records: Iterable[dict[str, Any]]) -> Tracks:
    """The tapes in a journal. What is not as it should be raises ValueError, TypeError or KeyError."""
    made = Tracks()
    runs, calls = made.runs, made.calls
    for record in records:
        kind, path = record["kind"], str(record.get("path"))
        if kind == "guest":
            runs[path] = GuestTrack(_start(record))
            step, _, number = path.partition("#")
            if (ended := whole(number)) is not None:
                made.ends[step] = max(made.ends.get(step, 0), ended - 1)
        elif kind == "call":
            run, _, number = path.rpartition("/")
            calls[path] = call = TapeCall(int(number), record["tool"], record["digest"], record.get("arguments"))
            runs[run].said.append(call)
            _hear(runs[run], record)
        elif kind == "cancel":
            runs[path].said.append(Cancel(tuple(record["calls"])))
            _hear(runs[path], record)
        elif kind == "begun":
            calls[path].begun, calls[path].retry = True, record["retry"]
        elif kind == "answer":
            calls[path].answer = _answer(calls[path].number, record["answer"])
        elif (
            kind == "checkpoint" and path in runs
        ):  # that is what its call is for, whether or not the answer was recorded
            marks = [said for said in runs[path].said if isinstance(said, TapeCall) and said.tool == CHECKPOINT]
            marks[-1].answer = marks[-1].answer or b"[%d,1,null]" % marks[-1].number
        elif kind == "step_finished" and record["result"].get("failure") == "task":
            made.ends[record["step"]] = made.ends.get(record["step"], 0) + 1
    _take_back(made)
    return made


def _take_back(made: Tracks) -> None:
    """Answers of calls that never reached their tool, or had no time for it, if the guest has made nothing of them:
    made again, they may.

    With such a call, the failure of the call that it was made for is taken back, too.
    """
    for path, call in made.calls.items():
        if call.answer is None or not _failed(call.answer):
            continue
        if _of(SPENT, call.answer) or (not call.begun and _of(SURROUNDINGS, call.answer)):
            _take_back_one(made, path)


def _take_back_one(made: Tracks, path: str) -> None:
    while (call := made.calls.get(path)) is not None:
        if call.answer is None or not _failed(call.answer) or _was_told(made, path, call.number):
            return
        call.answer, call.begun = None, False
        path = path.rpartition("/")[0]
        made.mended.add(path)


def _was_told(made: Tracks, path: str, number: int) -> bool:
    """Whether the record has a delivery of the call's answer to its guest."""
    heard = made.runs[path.rpartition("/")[0]].heard
    return any(number in told for told in _deliveries(heard))


def _deliveries(heard: list[str]) -> Iterator[list[int]]:
    for text in heard:
        if "[[[[" in text.replace(" ", ""):  # ours is never nested so deep
            raise ValueError("a guest never heard that")
        for item in json.loads(f"[{text}]"):
            if isinstance(item, list) and len(item) == 2 and isinstance(item[1], list):
                yield item[1]


def _failed(answer: bytes) -> bool:
    return answer.split(b",", 2)[1:2] == [b"0"]


def _of(kinds: tuple[bytes, ...], answer: bytes) -> bool:
    return any(answer.split(b",", 2)[2].startswith(b'{"kind":"%b"' % kind) for kind in kinds)


def _start(record: dict[str, Any]) -> Start:
    seed, wall_ns, compiled, image, source = (
        record[name] for name in ("seed", "wall_ns", "compiled", "image", "source")
    )
    if not (type(wall_ns) is int and type(compiled) is bool and type(image) is str and type(source) is str):
        raise TypeError("a guest run does not begin like that")
    made = Start(bytes.fromhex(seed), wall_ns, compiled, image, source)
    if len(made.seed) != SEED_BYTES or not 0 < wall_ns < 1 << 62:
        raise ValueError("a guest run does not begin like that")
    return made


def _answer(number: int, found: Any) -> bytes:
    if found is None:
        return CANCELLED
    if not (isinstance(found, list) and len(found) == 3 and found[0] == number and found[1] in (0, 1)):
        raise ValueError(f"call {number} was never answered like that")
    return to_json(found, inf_nan_mode="constants")


def _hear(run: GuestTrack, record: dict[str, Any]) -> None:
    if type(record["heard"]) is not str:
        raise TypeError("what a guest heard is text")
    if record["heard"]:
        run.heard.append(record["heard"])


class Tapes:
    """All tapes of an execution that this process owns. Thread-safe, but for `commit`, which belongs to the event
    loop.
    """

    def __init__(self, held: OwnedExecution, *, unfinished: Unfinished = NOT_SAID, replay: bool) -> None:
        """*unfinished* is what to do about calls of which nobody knows whether they were done."""
        self.held = held
        self.unfinished = unfinished
        self.tracks = read_tapes(held.standing()) if replay else Tracks()
        self.tally = Tally() if not replay else None  # what was done before is in the journal alone
        self._used: set[str] = set()
        self.open: dict[str, str] = {}  # the tools of calls under way that can't be made again without a question
        self.wrong: Diverged | OSError | None = None  # the first thing that keeps the execution from going on
        self._syncing: asyncio.Future[None] | None = None
        self._queued: asyncio.Future[None] | None = None

    def tape(self, path: str) -> GuestTape:
        return GuestTape(self, path)

    def of_step(self, step: str) -> GuestTape:
        """The tape of a step. One that failed by its own doing would do so again on the same tape: it gets a new
        one.
        """
        ends = self.tracks.ends.get(step, 0)
        path = f"{step}#{ends + 1}" if ends else step
        if path in self._used:  # tried again by this process, before its end was told
            self.ended(step)
            return self.of_step(step)
        self._used.add(path)
        return self.tape(path)

    def ended(self, step: str) -> None:
        """A step has failed by its own doing."""
        self.tracks.ends[step] = self.tracks.ends.get(step, 0) + 1

    @contextlib.contextmanager
    def noting(self, path: str) -> Iterator[NotedCalls]:
        """For the calls of a run that has no tape, since it can't be resumed: on record when this ends. The run itself
        is before one of them has an effect.
        """
        calls = _Noted(self)
        self.held.start_clock()
        try:
            yield calls
        finally:
            if calls:
                with contextlib.suppress(OSError):  # who records the run's end is told
                    self.append("calls", {"path": path, "calls": list(_noted(calls))})

    def append(self, kind: str, data: dict[str, Any], raw: dict[str, bytes] | None = None) -> None:
        """One record; what can't be written ends all runs of the execution."""
        self.check()
        try:
            if self.held.slot.size > MAX_JOURNAL:
                raise OSError(errno.EFBIG, f"the journal of an execution may have at most {MAX_JOURNAL >> 20} MiB")
            self.held.append(kind, data, raw=raw)
            if self.tally is not None:
                if kind == "call":
                    self.tally.call(data["path"], data["tool"], data["at"])
                elif kind == "answer" and raw is not None:
                    self.tally.answer(data["path"], time.time(), failed=_failed(raw["answer"]))
                else:
                    self.tally.add({"kind": kind, "at": time.time(), **data})
        except ValueError as error:  # longer than a record may be
            self.wrong = self.wrong or OSError(errno.EFBIG, str(error))
            raise self.wrong from None
        except OSError as error:
            self.wrong = self.wrong or error
            raise

    def soon(self, record: Callable[[], None]) -> None:
        """Have *record* append something before anything else is: at once, if a crash leaves what is there; else the
        guest has its answer first.
        """
        self.check()
        if self.held.slot.placed:
            record()
            return

        def later() -> None:
            with contextlib.suppress(OSError, Diverged):  # it is `wrong`: the next thing is told
                record()

        self.held.later(later)

    def place(self) -> None:
        """It is where a crash leaves it from now on."""
        try:
            self.held.place()
        except OSError as error:
            self.wrong = self.wrong or error
            raise

    def check(self) -> None:
        """Raise again what went wrong in a run inside another: the outer one must not take it for a tool's failure."""
        if self.wrong is not None:
            raise self.wrong

    def diverged(self, said: str) -> Diverged:
        self.wrong = self.wrong or Diverged(said)
        return Diverged(said)

    async def commit(self) -> None:
        """All that was appended is on disk when this returns. Who asks while that is being done shares the next
        time.
        """
        if self._queued is None:
            self._queued = asyncio.ensure_future(self._sync(self._syncing))
        await asyncio.shield(self._queued)

    async def _sync(self, before: asyncio.Future[None] | None) -> None:
        if before is not None and not before.done():
            await asyncio.wait([before])
        self._syncing, self._queued = self._queued, None
        try:
            await asyncio.to_thread(self.held.commit)
        except OSError as error:
            self.wrong = self.wrong or error
            raise

    def undecided(self) -> list[tuple[str, TapeCall]]:
        """Calls that were begun, and of which nobody knows whether they were done; those that may be made again are
        not among them.
        """
        unknown = [(path, call) for path, call in self.left() if call.begun and not call.retry]
        return [(path, call) for path, call in unknown if self.unfinished.of(path) is None]

    def left(self) -> list[tuple[str, TapeCall]]:
        """Calls without an answer, of runs that will be resumed."""
        done = {step for step, result in self.held.state.results.items() if result.ok}
        current = {f"{step}#{ends + 1}" for step, ends in self.tracks.ends.items()}
        left = []
        for path, call in self.tracks.calls.items():
            run = path.partition("/")[0]
            step = run.partition("#")[0]
            if call.answer is None and step not in done and (run in current or self.tracks.ends.get(step, 0) == 0):
                left.append((path, call))
        return left


class _Noted(NotedCalls):
    def __init__(self, tapes: Tapes) -> None:
        super().__init__()
        self._tapes = tapes

    async def before_effect(self) -> None:
        if not self._tapes.held.slot.placed:
            await self._tapes.commit()


class GuestTape:
    """The tape of one guest run: a `composer.Recording`."""

    def __init__(self, tapes: Tapes, path: str) -> None:
        self._tapes = tapes
        self._path = path
        self._lock = threading.Lock()
        self._recorded = tapes.tracks.runs.get(path, GuestTrack())
        self.execution = tapes.held.id
        self.start = self._recorded.start
        self.heard = ",".join(self._recorded.heard).encode()

    # -- for the sandbox

    def begin(self, start: Start) -> None:
        before = self.start
        if before is None:
            data = {
                "path": self._path,
                "wall_ns": start.wall_ns,
                "compiled": start.compiled,
                "image": start.image,
                "source": start.source,
            }
            self._tapes.append("guest", {**data, "seed": start.seed.hex()})
            return
        self._tapes.check()
        for what, then, now in (("code", before.source, start.source), ("image", before.image, start.image)):
            if then != now:
                raise self._tapes.diverged(
                    f"{self._path}: its {what} has changed: it was {then[:16]}, and is {now[:16]}"
                )

    def calls(
        self, calls: list[tuple[int, str, list[Any], dict[str, Any]]], cancelled: list[int], heard: bytes
    ) -> list[bytes | None]:
        with self._lock:
            self._tapes.check()
            answers = []
            for number, tool, args, kwargs in calls:
                arguments = to_json([args, kwargs], inf_nan_mode="constants")
                answer, heard = self._call(number, tool, arguments, heard)
                answers.append(answer)
            if cancelled:
                self._cancel(tuple(cancelled), heard)
            return answers

    def _call(self, number: int, tool: str, arguments: bytes, heard: bytes) -> tuple[bytes | None, bytes]:
        """The recorded answer, and what is left to be recorded of what the guest heard."""
        tool, said = tool[:MAX_TOOL], self._recorded.said
        if said:
            before, digest = said[0], hashlib.sha256(arguments).hexdigest()
            if not isinstance(before, TapeCall) or (before.number, before.tool, before.digest) != (
                number,
                tool,
                digest,
            ):
                now = f"{tool}{_shown(arguments)} as call {number}"
                raise self._tapes.diverged(f"{self._path}: it now makes {now}, and the journal has {_told(before)}")
            said.popleft()
            return (b"" if before.answer == CANCELLED else before.answer), heard
        self._tapes.soon(partial(self._note_call, time.time(), number, tool, arguments, heard))
        return None, b""

    def _note_call(self, at: float, number: int, tool: str, arguments: bytes, heard: bytes) -> None:
        shown = arguments if len(arguments) <= MAX_SHOWN else b"null"
        data = {"at": at, "path": self.path(number), "tool": tool, "digest": hashlib.sha256(arguments).hexdigest()}
        self._tapes.append("call", {**data, "heard": heard.decode("ascii")}, {"arguments": shown})

    def _cancel(self, numbers: tuple[int, ...], heard: bytes) -> None:
        said = self._recorded.said
        if said:
            before = said[0]
            if not isinstance(before, Cancel) or before.numbers != numbers:
                raise self._tapes.diverged(
                    f"{self._path}: it now has {_told(Cancel(numbers))}, and the journal has {_told(before)}"
                )
            said.popleft()
            return
        self._tapes.append("cancel", {"path": self._path, "calls": list(numbers), "heard": heard.decode("ascii")})

    def answered(self, call_id: int, completion: bytes | None) -> None:
        point("call-after-dispatch")
        path = self.path(call_id)
        self._tapes.open.pop(path, None)
        self._tapes.append("answer", {"path": path}, {"answer": CANCELLED if completion is None else completion})

    def checkpoint(self, label: str, value: bytes) -> None:
        self._tapes.append("checkpoint", {"path": self._path, "label": label}, {"value": value})
        self._tapes.place()

    def ended(self) -> None:
        self._tapes.check()
        if said := self._recorded.said:
            raise self._tapes.diverged(
                f"{self._path}: it now ends here, and the journal continues with {_told(said[0])}"
            )

    # -- for the composer

    def inside(self, call_id: int) -> GuestTape:
        return GuestTape(self._tapes, self.path(call_id))

    def path(self, call_id: int) -> str:
        return f"{self._path}/{call_id}"

    def decision(self, call_id: int, spec: ToolSpec, arguments: dict[str, Any]) -> bool | None:
        return decision(self._tapes.held.state, self.path(call_id), spec.name, arguments_digest(arguments))

    def decided(self, call_id: int, spec: ToolSpec, arguments: dict[str, Any], approved: bool) -> None:
        path = self.path(call_id)
        request = self._tapes.held.state.requests.get(path)
        if request is not None and request.digest == arguments_digest(arguments):
            mark = decision_seal(self.execution, path, request, approved)
            self._tapes.append("decided", {"path": path, "approved": approved, "seal": mark})

    def ask(self, call_id: int, spec: ToolSpec, arguments: dict[str, Any], reason: str) -> None:
        data = to_json(arguments, inf_nan_mode="constants")
        asked = {"path": self.path(call_id), "tool": spec.name, "reason": reason, "digest": arguments_digest(arguments)}
        self._tapes.append("asked", asked, {"arguments": data if len(data) <= MAX_ASKED else b"null"})

    async def dispatch(self, call_id: int, spec: ToolSpec) -> bool:
        path = self.path(call_id)
        before = self._tapes.tracks.calls.get(path)
        policy = self._tapes.unfinished.of(path)
        if before is not None and before.begun and before.answer is None and not before.retry and policy != "retry":
            self._tapes.append("unfinished", {"path": path, "decided": policy or "fail"})
            if policy == "skip":
                return False
            raise CallError("it was begun before the run was interrupted, and nobody knows whether it was done")
        self._tapes.append("begun", {"path": path, "retry": spec.repeatable})
        if not spec.repeatable:
            self._tapes.open[path] = spec.name
        await self._tapes.commit()
        point("call-before-dispatch")
        return True


def _noted(calls: NotedCalls) -> Iterator[dict[str, Any]]:
    """Calls for a record; without values once those are too much."""
    room = MAX_NOTED
    for call in calls:
        with contextlib.suppress(ValueError):  # text that is no Unicode
            room -= len(to_json(asdict(call)))
            yield asdict(call if room > 0 else CallRecord(call.name, kept=False, error=call.error and "…", ms=call.ms))


def _told(said: TapeCall | Cancel) -> str:
    if isinstance(said, Cancel):
        return "that it goes on" if said.numbers == (0,) else f"that calls {list(said.numbers)} were given up"
    shown = "(…)" if said.arguments is None else _shown(to_json(said.arguments, inf_nan_mode="constants"))
    return f"{said.tool}{shown} as call {said.number}"


def _shown(arguments: bytes) -> str:
    """Arguments for people, cut."""
    text = arguments.decode("utf-8", "replace")
    return f"({text if len(text) <= 300 else text[:300] + '…'})"

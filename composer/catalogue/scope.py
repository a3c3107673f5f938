"""What a run may do, and what is left of its limits: passed down to every call it makes, and to theirs."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from typing import Any, Literal

from go_ent.composer.catalogue.grants import Grants
from go_ent.composer.catalogue.recording import Recording
from go_ent.composer.catalogue.schemas import size
from go_ent.composer.catalogue.spec import ToolSpec
from go_ent.composer.errors import CallError, Spent
from go_ent.dataclass import dataclass
from go_ent.sandbox import Limits, Sandbox

MAX_DEPTH = 8
MAX_VALUE = 16 << 10
MAX_RECORDS = 500
LOOK_S = 0.05
USED_UP: tuple[tuple[str, str, Literal["cpu_limit", "timeout"] | None], ...] = (
    ("timeout_s", "time", "timeout"),
    ("cpu_s", "CPU time", "cpu_limit"),
    ("fuel", "fuel", None),
)

Approver = Callable[[ToolSpec, dict[str, Any]], Awaitable[bool | None]]
"""Asked before a call that needs approval: True lets it go ahead, False fails it, None pauses the run."""


class Allowance:
    """What a whole tree of runs may still use; one is shared by all of them.

    Each run is given what is left when it starts. Runs at the same time could use that much each, so while there are
    several, what they use together is looked at again and again.
    """

    def __init__(self, limits: Limits, box: Sandbox) -> None:
        self.limits = limits
        self.box = box
        self._lock = threading.Lock()
        self._looking = False
        self._deadline = None if limits.timeout_s is None else time.monotonic() + limits.timeout_s
        self._cpu_s = limits.cpu_s
        self._calls = limits.max_tool_calls
        self._fuel = limits.fuel
        self._running: set[str] = set()
        self._seen: dict[str, float] = {}
        self._whole = True  # nothing has used any of it yet

    def enter(self, run_id: str) -> None:
        with self._lock:
            self._whole = False
            self._running.add(run_id)
            if len(self._running) > 1 and self._cpu_s is not None and not self._looking:
                self._looking = True
                asyncio.get_running_loop().call_later(LOOK_S, self._look)

    def _look(self) -> None:
        with self._lock:
            self._looking = len(self._running) > 1
            over = self._cpu_s is not None and self._under_way() > self._cpu_s
        if over:
            self._end("cpu_limit")
        elif self._looking:
            asyncio.get_running_loop().call_later(LOOK_S, self._look)

    def _under_way(self) -> float:
        for run_id in self._running:
            self._seen[run_id] = max(self._seen.get(run_id, 0.0), self.box.cpu_used(run_id))
        return sum(self._seen[run_id] for run_id in self._running)

    def leave(self, run_id: str, cpu_s: float, fuel: int | None = None) -> None:
        """A run of the tree is over; what it used is gone."""
        with self._lock:
            self._running.discard(run_id)
            cpu_s = max(cpu_s, self._seen.pop(run_id, 0.0))  # one that was cancelled says nothing of itself
            if self._fuel is not None:
                self._fuel -= fuel or 0
            if self._cpu_s is not None:
                self._cpu_s -= cpu_s

    def take_call(self) -> None:
        """One tool call, of whichever run."""
        with self._lock:
            self._whole = False
            if self._calls is not None:
                if self._calls <= 0:
                    raise Spent("the tool calls that the whole run may make (max_tool_calls) are used up")
                self._calls -= 1

    def narrow(self, own: Limits) -> Limits:
        """The limits of a run in the tree: the tree's, what a tool sets of *own*, and no more than what is left."""
        if self._whole:
            return self.limits.tightened(own)
        left = self._left()
        if (spent := self.spent(left)) is not None:
            raise Spent(spent)
        return self.limits.tightened(own).tightened(Limits.model_construct(_fields_set=set(left), **left))

    def spent(self, left: dict[str, Any] | None = None) -> str | None:
        """What is used up, in words, if anything is. Then the whole tree ends of it: no run goes on because it heard
        of it first.
        """
        left = self._left() if left is None else left
        for name, what, reason in USED_UP:
            if name in left and left[name] <= 0:
                if reason is not None:
                    self._end(reason)
                return f"no {what} is left: the run that called this has used up its {name}"
        return None

    def _end(self, reason: Literal["cpu_limit", "timeout"]) -> None:
        with self._lock:
            running = list(self._running)
        for run_id in running:
            self.box.end(run_id, reason)

    def _left(self) -> dict[str, Any]:
        left: dict[str, Any] = {}
        with self._lock:
            if self._deadline is not None:
                left["timeout_s"] = self._deadline - time.monotonic()
            if self._cpu_s is not None:
                left["cpu_s"] = self._cpu_s - self._under_way()
            if self._calls is not None:
                left["max_tool_calls"] = self._calls
            if self._fuel is not None:
                left["fuel"] = self._fuel
        return left


def small(value: Any) -> tuple[Any, bool]:
    """A value, if it is small enough to keep, and whether it is."""
    try:
        if size(value, MAX_VALUE // 2) is not None and len(json.dumps(value)) <= MAX_VALUE:
            return value, True
    except (TypeError, ValueError, RecursionError):
        pass
    return None, False


@dataclass(frozen=True, slots=True)
class CallRecord:
    """One tool call of a past run: without what is too large to keep."""

    name: str
    arguments: dict[str, Any] | None = None  # None: too large to keep
    result: Any = None
    kept: bool = True  # whether the result is there
    error: str | None = None  # why it failed, if it did
    ms: float = 0.0
    positional: tuple[Any, ...] = ()  # arguments that were given without a name


class NotedCalls(list[CallRecord]):
    """The calls of a run that has no recording, as they end."""

    async def before_effect(self) -> None:
        """A call is about to be made that may change something. May raise OSError."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Who calls, with which grants, and from how deep inside other composed tools."""

    base: Grants  # the project's and the run's
    allowance: Allowance
    run_id: str
    approver: Approver | None = None
    requires: Grants | None = None  # of the composed tool that runs in this scope: it can call nothing else
    own: frozenset[str] = frozenset()  # what a run may always call: it reaches nothing but the run's own data
    chain: tuple[str, ...] = ()
    depth: int = 0
    recording: Recording | None = None  # of the run in this scope
    call: int = 0  # the call that is being made, as its guest numbers it
    calls: NotedCalls | None = None  # where calls go that no recording has: this run's, and those inside it

    @property
    def grants(self) -> Grants:
        return self.base if self.requires is None else self.requires

    @property
    def place(self) -> tuple[str | None, str | None]:
        """Where the call that is being made is recorded: the execution, and the call's name in it."""
        if self.recording is None:
            return None, None
        return self.recording.execution, self.recording.path(self.call)

    def at(self, call: int) -> Scope:
        """This scope, for one call of the run. Only what is recorded needs to know which."""
        if self.recording is None:
            return self
        return Scope(  # what `replace` does, without looking at the fields for each call
            self.base,
            self.allowance,
            self.run_id,
            self.approver,
            self.requires,
            self.own,
            self.chain,
            self.depth,
            self.recording,
            call,
            self.calls,
        )

    def note(self, name: str, arguments: dict[str, Any], result: Any, error: str | None, started: float) -> None:
        """A call has ended, if anybody wants to know."""
        if self.calls is not None and len(self.calls) < MAX_RECORDS:
            (given, _), (short, kept) = small(arguments), small(result)
            said, ms = None if error is None else error[:2000], (time.perf_counter() - started) * 1e3
            self.calls.append(CallRecord(name[:300], given, short, kept, said, round(ms, 3)))

    def allows(self, name: str) -> bool:
        return name in self.own or self.grants.allows(name)

    def inside(self, name: str, requires: Iterable[str], run_id: str) -> Scope:
        """The scope of a composed tool that runs in this one: what it requires, as far as that is granted."""
        if name in self.chain:
            raise CallError(
                f"{name} is under way already: {' → '.join((*self.chain, name))}; a composed tool can't call itself"
            )
        if len(self.chain) >= MAX_DEPTH:
            raise CallError(
                f"composed tools call each other {MAX_DEPTH} deep at most: {' → '.join((*self.chain, name))}"
            )
        recording = self.recording
        if recording is not None and self.depth >= 0:  # the outermost tool is the run that is recorded
            recording = recording.inside(self.call)
        return replace(
            self,
            recording=recording,
            call=0,
            requires=self.base.narrowed(requires),
            own=frozenset(),
            chain=(*self.chain, name),
            depth=self.depth + 1,
            run_id=run_id,
        )

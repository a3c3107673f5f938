"""An execution that this process owns: what happens goes to its record at once, and to the copy of its state now and
then.
"""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Self

from go_ent.dataclass import dataclass
from go_ent.engine.core.models import RunResult
from go_ent.engine.executions.apply_records import APPLIED, READ_RAW, applied
from go_ent.engine.executions.history import CallTotals
from go_ent.engine.executions.state import AgentSession, ExecutionState, ExecutionStatus, check_transition, finished
from go_ent.engine.executions.storage import Attachments, ExecutionIndex, Record, Slot
from go_ent.engine.executions.undo import Undoing, find_checkpoint, standing

MAX_LABEL = 200
Change = Callable[[ExecutionState], ExecutionState]


@dataclass(frozen=True, slots=True)
class NewState:
    """The state of an execution that begins: its fields, made when its record begins. A guest runs meanwhile."""

    id: str
    status: ExecutionStatus
    fields: Callable[[], Mapping[str, Any] | ExecutionState]

    @classmethod
    def of(cls, state: ExecutionState) -> NewState:
        """One that is there already."""
        return cls(state.id, state.status, lambda: state)

    def make(self) -> ExecutionState:
        """The state itself."""
        fields = self.fields()
        return fields if isinstance(fields, ExecutionState) else ExecutionState(**fields)


class OwnedExecution:
    """An execution that this process owns: nobody else changes it until `release`. Thread-safe; only `append` and
    `pack` do not block.

    A new one is in memory alone until `place`, which comes with the first thing that must be on disk. One that is small
    and has ended before can be kept by `pack`, and is never on its own.
    """

    def __init__(self, slot: Slot, state: ExecutionState | NewState, index: ExecutionIndex) -> None:
        self.id = state.id
        self._new = state if isinstance(state, NewState) else None
        self._first: Mapping[str, Any] | ExecutionState = {}  # what its record begins with
        self._state = None if isinstance(state, NewState) else state
        self._changes: deque[Change] = deque()  # what its records do to the state, until somebody looks at it
        self._status = state.status  # while nobody else has seen it
        self._beginning = threading.Lock()
        self._looking = threading.RLock()
        self.slot = slot  # where it is kept: only to be looked at by others
        self._index = index
        self._back: Undoing | None = None  # what is undone as soon as it goes on
        self._changing = threading.Lock()  # a record and what it does to the state are one thing
        self._writing = threading.Lock()
        self._batching = threading.Lock()
        self._together: int | None = None  # the thread that syncs and writes the state once, at the end
        self._wanted = False  # whether it is to
        self._moved = False
        self._written = 0.0
        self._took = 0.0
        self._began: float | None = None  # when it had something to record besides that it was made
        self._later: deque[Callable[[], object]] = deque()  # what is recorded with the next thing, before that
        self._catching_up = threading.Lock()
        self._catcher: int | None = None  # the thread that does

    @property
    def state(self) -> ExecutionState:
        """As it is now. It is made when it is read: of most small executions, not before they have ended."""
        if self._state is None or self._changes:
            with self._looking:
                if self._state is None:
                    self.begin()
                    first, self._first = self._first, {}
                    self._state = first if isinstance(first, ExecutionState) else ExecutionState(**first)
                while self._changes:
                    try:
                        self._state = self._changes[0](self._state)
                    finally:
                        self._changes.popleft()  # not before: who looks meanwhile has to wait for it
        return self._state

    @state.setter
    def state(self, state: ExecutionState) -> None:
        self._state = state

    @property
    def status(self) -> ExecutionStatus:
        """That of its state."""
        return self.state.status if self.slot.placed else self._status

    def _change(self, change: Change) -> None:
        """What a record does to the state; at once, if somebody else may see it."""
        self._changes.append(change)
        if self.slot.placed:
            assert self.state is not None

    @property
    def begun(self) -> bool:
        """Whether its record has."""
        return self._new is None

    def begin(self) -> None:
        """Have its record begin, if it has not."""
        with self._beginning:
            if self._new is not None:
                self._first = self._new.fields()
                self.slot.append("created", {"state": self._first})
                self._new = None

    def place(self) -> None:
        """Put it on disk, if it is not: other processes see it from now on. A crash leaves it as it is then."""
        if not self.slot.placed:
            self.catch_up()
            self.slot.place(self.state)

    def attachments(self, kind: str) -> Attachments:
        """What is kept beside it, of one kind: it is on disk then."""
        self.place()
        return self.slot.attachments(kind)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def later(self, record: Callable[[], object]) -> None:
        """Have *record* append something before the next thing is appended, or its records are read. It raises
        nothing.
        """
        self.start_clock()
        self._later.append(record)
        if self.slot.placed:  # meanwhile, and others look at it
            self.catch_up()

    def catch_up(self) -> None:
        """Append what was left for later; others wait until that is done."""
        if (self._later or self._catcher is not None) and self._catcher != threading.get_ident():
            with self._catching_up:
                self._catcher = threading.get_ident()
                try:
                    while self._later:
                        self._later.popleft()()
                finally:
                    self._catcher = None

    def append(
        self,
        kind: str,
        data: Mapping[str, Any],
        *,
        raw: Mapping[str, bytes] | None = None,
        known: Mapping[str, Any] | None = None,
        sync: bool = False,
    ) -> int:
        """A record, in the journal when this returns, and in the state; with *sync* it is on disk. Its number.

        What is *raw* is JSON already; what of that the state needs is *known*, or read from it.
        """
        self.catch_up()
        with self._changing:
            self.begin()
            seq = self.slot.append(kind, data, raw)
            if kind in APPLIED:
                if known is None:
                    known = {name: json.loads(value) for name, value in raw.items()} if raw and kind in READ_RAW else {}
                record = {"at": time.time(), **data, **known, "seq": seq, "kind": kind}
                self._change(partial(applied, record=record))
        if sync:
            self.settle()
        elif not self.slot.placed:
            if kind != "created":
                self.start_clock()
            if not self.slot.may_pack(0):
                self.place()
        return seq

    def start_clock(self) -> None:
        """It runs from now on, if it does not: it is put on disk when that has taken long."""
        if self._began is None:
            self._began = time.monotonic()

    def place_if_due(self, after_s: float) -> None:
        """Put it on disk, if it is not and has run for so long."""
        if self.is_due(after_s):
            self.place()

    def is_due(self, after_s: float) -> bool:
        """Whether it has run for so long, and is not on disk."""
        return not self.slot.placed and self._began is not None and time.monotonic() - self._began >= after_s

    def commit(self, *, write: bool = True) -> None:
        """All that was appended is on disk when this returns. One sync serves all who wait for one.

        With the first one comes the copy of the state, unless the caller is about to *write* it.
        """
        self.place()
        self.slot.sync()
        if write and not self._written:
            self.write()

    def settle(self) -> None:
        """All that was appended is on disk when this returns; in `together`, when that does."""
        if self._together == threading.get_ident():
            self._wanted = True
        else:
            self.commit()

    def records(self) -> Iterator[Record]:
        """All its records, read from its journal. Where some are lost, a note says which."""
        self.begin()
        self.catch_up()
        return self.slot.records()

    def standing(self) -> Iterator[Record]:
        """Those of its records that no going back has undone."""
        return standing(self.records(), self.state.undone)

    def undoing(self, name: str) -> Undoing:
        """What going back to a checkpoint would undo."""
        return Undoing.of(self.state, self.records(), find_checkpoint(self.state, name), self.slot.seq)

    def go_back(self, back: Undoing) -> None:
        """To a checkpoint. It is on record once it is running: who finds before that it can't has changed nothing."""
        with self._changing:
            self.state = applied(
                _still(self.state), {"at": time.time(), "seq": self.slot.seq, "kind": "undone", **back.record}
            )
            self._back = back

    def move(self, status: ExecutionStatus, *, sync: bool = True, **changes: Any) -> None:
        """Another status, on disk when this returns."""
        if status == "running" and self._back is not None:
            back, self._back = self._back, None
            self.append("undone", back.record)
        self.catch_up()
        with self._changing:
            self.begin()
            check_transition(self.status, status, self.id)
            at = time.time()
            self.slot.append("status", {"changes": {"status": status, "finished": finished(status, at), **changes}})
            self._status = status
            self._change(lambda state: state.moved(status, at, **changes))
        if self._together == threading.get_ident():
            self._wanted, self._moved = True, True
            return
        if sync:
            self.commit(write=False)
        self.write()
        self._index.put(self.state)

    def start_try(
        self, step: str, runtime: str, version: str | None = None, *, begun: bool = True, sync: bool = True
    ) -> int:
        """A step is about to be dispatched: on disk before it is, or, without *sync*, before the first of its calls is
        made. The number of the try.

        One that is not *begun* has to wait first: `started` says when it is.
        """
        number = self.state.tries.get(step, 0) + 1
        self.append(
            "try", {"step": step, "runtime": runtime, "version": version, "try": number, "begun": begun}, sync=sync
        )
        return number

    def started(self, step: str, runtime: str) -> None:
        """A try begins now: on disk before it does."""
        self.append("started", {"step": step, "runtime": runtime}, sync=True)

    def session(self, step: str, session: AgentSession) -> None:
        """An agent has told its session: a retry after a crash goes on in it."""
        self.append("session", {"step": step, "session": session.model_dump()})

    def finish_step(self, step: str, result: RunResult, *, unknown: bool = False, sync: bool = True) -> None:
        """A step's result, on disk when this returns; without *sync*, with the next thing that is. The state's copy
        follows when it was not just written.

        Where it is *unknown* what the last try came to, that stays so.
        """
        data = {"step": step} | ({"unknown": True} if unknown else {})
        raw = {"result": result.model_dump_json().encode()}
        self.append("step_finished", data, raw=raw, known={"result": result}, sync=sync)
        if sync and self._together != threading.get_ident() and self._due():
            self.write()

    def checkpoint(self, label: str, value: Any = None) -> None:
        """A person's mark, on disk when this returns, with the state as it is."""
        self.append("checkpoint", {"path": None, "label": label, "value": value}, sync=True)
        self.write()

    def remove_checkpoint(self, name: str) -> None:
        """A mark is taken away, by its number or label: on disk when this returns."""
        self.append("unmarked", {"checkpoint": find_checkpoint(self.state, name).seq}, sync=True)
        self.write()

    def may_pack(self, more: int) -> bool:
        """Whether it is in memory alone, and can be packed with a result of so many bytes: the record of its end says
        that several times.
        """
        return self.slot.may_pack(8 * more)

    def together(self, work: Sequence[Callable[[], Any]], *, pack: Mapping[str, CallTotals] | None = None) -> list[Any]:
        """Do several things of the above, and sync once: what each gave, or the error that it raised.

        All of it is on disk when this returns; if that could not be, each has failed. With what its calls came to, an
        execution that ends thereby, and is in memory alone, is kept by packing it (`pack`): that does not block.
        """
        outcomes: list[Any] = []
        with self._batching:
            self._together, self._wanted, self._moved = threading.get_ident(), False, False
            try:
                for one in work:
                    try:
                        outcomes.append(one())
                    except Exception as error:
                        outcomes.append(error)
            finally:
                self._together = None
            try:
                if pack is not None and self._pack(pack):
                    return outcomes
                if self._wanted:
                    self.commit(write=False)
            except OSError as error:
                return [outcome if isinstance(outcome, Exception) else error for outcome in outcomes]
            if self._moved or (self._wanted and self._due()):
                self.write()
            if self._moved:
                self._index.put(self.state)
        return outcomes

    def _pack(self, calls: Mapping[str, CallTotals]) -> bool:
        """Keep it as one of many; whether that was done."""
        return self.status in ("completed", "failed") and self.slot.pack(lambda: self.state, calls)

    def _due(self) -> bool:
        """Whether it is time for the state's copy: it may take a twentieth of the time."""
        return time.monotonic() - self._written > max(0.05, 20 * self._took)

    def write(self) -> None:
        """A copy of the state. It is not synced: where one is missing, damaged or old, the journal has the rest."""
        self.place()
        with self._writing:
            started = time.monotonic()
            with self._changing:
                now = {"updated": time.time(), "seq": self.slot.seq, "offset": self.slot.size}
                self.state = self.state.model_copy(update=now)
                still = _still(self.state)
            self.slot.save(still)  # without the lock: it may take long, and others have something to record
            self._written = time.monotonic()
            self._took = self._written - started

    def interrupt_requested(self) -> bool:
        """Whether another process has asked to stop; asking is answered once."""
        return self.slot.interrupt_requested()

    def mark_requested(self) -> bool:
        """Whether another process has asked for a checkpoint; it is made, and its state written."""
        request = self.slot.mark_requested()
        if request is None:
            return False
        try:
            said = json.loads(request)
            label, value = str(said.get("label", ""))[:MAX_LABEL], said.get("value")
            removed = str(said.get("remove", ""))[:MAX_LABEL]
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            label, value, removed = "", None, ""
        try:
            if label:
                self.checkpoint(label, value)
            if removed:
                self.remove_checkpoint(removed)
        finally:
            self.slot.mark_answered()
        return bool(label or removed)

    def release(self) -> None:
        self.slot.release()


def _still(state: ExecutionState) -> ExecutionState:
    """The state, with copies of what is changed in place."""
    changed = {
        name: dict(getattr(state, name)) for name in ("results", "tries", "begun", "sessions", "requests", "decisions")
    }
    environment = state.environment.model_copy(update={"runners": dict(state.environment.runners)})
    return state.model_copy(update={**changed, "environment": environment})

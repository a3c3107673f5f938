"""The executions of a project, wherever they are kept: found, listed, owned, decided about and marked."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

from go_ent.composer.project.items import reason
from go_ent.engine.core.errors import ExecutionConflict, ExecutionNotFound, Unborn
from go_ent.engine.core.ids import ID, PREFIX, is_meant, short_id
from go_ent.engine.executions.approvals import check_request, decision_seal
from go_ent.engine.executions.owned import MAX_LABEL, NewState, OwnedExecution
from go_ent.engine.executions.state import FINISHED, TRANSITIONS, ExecutionState, ExecutionStatus
from go_ent.engine.executions.storage import MAX_MARK, MOST_READ, ExecutionIndex, ExecutionStorage, Record, Row
from go_ent.engine.executions.undo import find_checkpoint
from go_ent.sandbox.messages.advice import Advice
from go_ent.sandbox.messages.near_names import did_you_mean, near

MOST_TITLE = 40  # characters
MOST_COMPARED = 200  # ids, the newest, that one may have meant
LISTS = Advice("list_executions")
MAX_COMMENT = 1000  # characters
PATIENCE_S = 10.0  # that another process has to answer
ALIVE: tuple[ExecutionStatus, ...] = ("running", "pending")  # what these say is true only of an execution with an owner
MOST_ALIVE = 1000  # rows that say so and are looked at, for some have no owner any more
NEW_S = 60.0  # a row is in the index before its execution is there


class ExecutionStore:
    """The executions of a project. Its methods block: call them in a thread."""

    def __init__(self, storage: ExecutionStorage) -> None:
        self.storage = storage

    @property
    def index(self) -> ExecutionIndex:
        """The index of them all."""
        return self.storage.index

    def create(self, state: ExecutionState | NewState, *, sync: bool = True) -> OwnedExecution:
        """A new execution, held by this process; with *sync* it is on disk when this returns, else it is in memory
        until it must be, and this does not block.
        """
        new = state if isinstance(state, NewState) else NewState.of(state)
        held = OwnedExecution(self.storage.create(new.id), new, self.index)
        if sync:
            try:
                held.commit()
            except BaseException:
                held.release()
                raise
        return held

    def flush(self) -> None:
        """What has ended here is on disk, and in the index, when this returns. Never fails."""
        self.storage.flush()

    def close(self) -> None:
        """Flush, and let go of everything. The next use takes it again."""
        self.storage.close()

    def hold(self, execution_id: str) -> OwnedExecution:
        """Own an execution that is there, and mend its journal if that is needed. `ExecutionConflict` names the
        process that has it.
        """
        slot, state = self.storage.hold(execution_id)
        return OwnedExecution(slot, state, self.index)

    def find(self, text: str) -> str:
        """The id that *text* is, or stands for: its start, or its short form."""
        if ID.fullmatch(text) and self.storage.has(text):
            return text
        if not PREFIX.fullmatch(text):
            raise ExecutionNotFound(
                f"{text[:80]!r} is not the id of an execution, nor the first four characters of one", advice=LISTS
            )
        self.flush()
        found = [name for name in self.index.find(text) if self.storage.has(name)]
        found = found or [name for name in self.storage.ids() if is_meant(text, name)]  # the index may not know it yet
        if len(found) == 1:
            return found[0]
        if found:
            shown = short_id if len({*map(short_id, found)}) == len(found) else str
            some = ", ".join(f"{shown(one)}{self._title(one)}" for one in found[:3]) + (" …" if len(found) > 3 else "")
            raise ExecutionNotFound(f"{text} fits several executions: {some}; give more of the id")
        newest = {*self.storage.ids(), *(row.id for row in self.index.rows(MOST_COMPARED))}
        meant = did_you_mean(near(text, sorted(newest, reverse=True)[:MOST_COMPARED], 1, 0.9))
        raise ExecutionNotFound(f"there is no execution {text}{meant}", advice=None if meant else LISTS)

    def _title(self, execution_id: str) -> str:
        """What one of several was that may have been meant."""
        with contextlib.suppress(Exception):  # whatever is wrong with it, its id is known
            title = self.storage.load(execution_id, compare=False).title
            return f" ({' '.join(title.split())[:MOST_TITLE]})"
        return ""

    def load(self, execution_id: str, *, compare: bool = True) -> ExecutionState:
        """Its state now. One that is running, but owned by no process, was interrupted. Nothing is mended by looking.

        What is known to have been there is said to be lost if it is not, unless nobody wants to *compare*.
        """
        state = self.storage.load(execution_id, compare=compare)
        if state.status in ALIVE and not self.is_held(execution_id):
            state = self.storage.load(execution_id, compare=compare)  # it may have ended between the two looks
            if state.status in ALIVE:
                return state.model_copy(update={"status": "interrupted"})
        return state

    def rows(self, limit: int = 50, *, status: ExecutionStatus | None = None, **filters: Any) -> list[Row]:
        """What the index has, the newest first; what is running there and has no owner is interrupted."""
        statuses: tuple[ExecutionStatus | None, ...] = ("interrupted", *ALIVE) if status == "interrupted" else (status,)
        self.flush()
        found: list[Row] = []
        for one in statuses:
            found += self.index.rows(max(limit, MOST_ALIVE) if one in ALIVE else limit, status=one, **filters)
        rows = [now for row in found if (now := self._now(row)) is not None and status in (None, now.status)]
        return sorted(rows, key=lambda row: row.id, reverse=True)[:limit]

    def counts(self) -> dict[ExecutionStatus, int]:
        """How many executions there are of each status; what is running and has no owner is interrupted."""
        self.flush()
        known = self.index.counts()
        found = {status: int(known.get(status, 0)) for status in TRANSITIONS}
        for status in ALIVE:
            if found[status]:
                alive = len(self.rows(MOST_ALIVE, status=status))
                found["interrupted"] += max(0, found[status] - alive)
                found[status] = alive
        return found

    def _now(self, row: Row) -> Row | None:
        if not row.packed and not self.storage.has(row.id):
            if row.created < time.time() - NEW_S:
                self.index.remove(row.id)
            return None
        if row.status not in ALIVE:
            return row
        try:
            if self.is_held(row.id):
                return row
            state = self.load(row.id)
            ended = state.status not in ("interrupted", *ALIVE)
            if ended:  # and its process was killed before the index was told
                self.index.put(state)
            return row.model_copy(update={"status": state.status})
        except Unborn:
            if row.created < time.time() - NEW_S:
                self.storage.forget_unborn(row.id)
            return None
        except Exception as error:  # whatever it is, it is this one's; `status` tells it
            reason(error, row.id)
            return row.model_copy(update={"status": "interrupted"})

    def records(self, execution_id: str) -> Iterator[Record]:
        """All records of an execution, to be looked at. Where some are lost, a note says which."""
        return self.storage.records(execution_id)

    def read_from(self, execution_id: str, offset: int, most: int = MOST_READ) -> tuple[list[Record], int]:
        """The records from *offset* on, about *most* of them at once, and where to read on. A mended journal is read
        from its beginning.
        """
        return self.storage.read_from(execution_id, offset, most)

    def decide(
        self,
        execution_id: str,
        path: str | None,
        approved: bool,
        check: Callable[[ExecutionState], None] = lambda _: None,
        comment: str = "",
    ) -> ExecutionState:
        """Approve or reject a call that waits for it, or all that do. `resume` then goes on.

        *check* raises if this user may not go on with the execution. A *comment* is on record, for people.
        """
        with self.hold(execution_id) as held:
            state = held.state
            check(state)
            if state.status in ALIVE:  # nobody has it but us: it was killed before it could say that it waits
                held.move("interrupted")
            elif state.status not in ("paused", "interrupted"):
                raise ExecutionConflict(f"execution {execution_id} does not wait for a decision: it is {state.status}")
            if path is None and not state.requests:
                raise ExecutionConflict(
                    f"execution {execution_id} does not wait for a decision: all its calls have one"
                )
            if path is not None and path not in state.requests:
                there = ", ".join(list(state.requests)[:10]) or "none"
                raise ExecutionConflict(
                    f"execution {execution_id} has no call {path[:80]!r} that waits for a decision; there are: {there}"
                )
            for one in [path] if path is not None else list(state.requests):
                request = state.requests[one]
                if approved:
                    check_request(one, request, named=path is not None)
                seal = decision_seal(execution_id, one, request, approved)
                said = {"comment": comment[:MAX_COMMENT]} if comment else {}
                held.append("decided", {"path": one, "approved": approved, "seal": seal, **said})
            held.commit()
            held.write()
            self.index.put(held.state)
            return held.state

    def checkpoint(self, execution_id: str, label: str, value: Any = None) -> ExecutionState:
        """Mark where an execution stands; the process that owns it, if one does, is asked to."""
        if not 0 < len(label) <= MAX_LABEL or not label.isprintable():
            raise ExecutionConflict(f"a checkpoint has a label of 1 to {MAX_LABEL} printable characters")

        def mark(held: OwnedExecution) -> None:
            if held.state.status in FINISHED:
                raise ExecutionConflict(f"execution {short_id(execution_id)} has finished: it is {held.state.status}")
            held.checkpoint(label, value)

        return self._mark(execution_id, {"label": label, "value": value}, mark)

    def remove_checkpoint(self, execution_id: str, name: str) -> ExecutionState:
        """Take a mark away, by its number or label; the process that owns the execution, if one does, is asked to."""
        found = find_checkpoint(self.load(execution_id), name)
        return self._mark(execution_id, {"remove": str(found.seq)}, lambda held: held.remove_checkpoint(name))

    def _mark(self, execution_id: str, asked: dict[str, Any], mark: Callable[[OwnedExecution], None]) -> ExecutionState:
        while self.is_held(execution_id):  # who has it may die before it has answered, and another take it
            data = json.dumps(asked).encode()
            if len(data) > MAX_MARK:
                raise ExecutionConflict(f"a checkpoint's value may have at most {MAX_MARK} bytes of JSON")
            if self.storage.ask_for_mark(execution_id, data, PATIENCE_S):
                return self.load(execution_id)
        with self.hold(execution_id) as held:
            mark(held)
            return held.state

    def is_held(self, execution_id: str) -> bool:
        """Whether a process has it: it runs there, or is about to, or has just ended."""
        return self.storage.is_held(execution_id)

    def ask_to_interrupt(self, execution_id: str) -> ExecutionState | None:
        """Ask the process that owns an execution to stop it. One that no process has, and that waits for approval,
        waits no longer.

        Its state, if that is so already. `ExecutionConflict` if there is nothing to stop.
        """
        state = self.load(execution_id)
        if state.status in FINISHED or (state.status == "failed" and not self.is_held(execution_id)):
            raise ExecutionConflict(f"execution {short_id(execution_id)} has finished: it is {state.status}")
        if state.status == "paused" and not self.is_held(execution_id):
            with self.hold(execution_id) as held:
                held.move("interrupted")
                return held.state
        if not self.is_held(execution_id):
            raise ExecutionConflict(
                f"execution {execution_id} is not running: it is {state.status}", advice=Advice("resume", execution_id)
            )
        self.storage.ask_to_interrupt(execution_id)
        return None

"""Executions on disk: `.go-ent/executions/<id>/` with a state, a journal, and a lock that dies with the process that holds it."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self

from pydantic import ValidationError

from composer.folders import STATE, ignore_state, read_bounded, sync_folder, write_whole
from engine.claims import Claim, held_by
from engine.errors import ExecutionConflict, ExecutionNotFound
from engine.executions.ids import ID, PREFIX
from engine.executions.journal import Journal, read_records
from engine.executions.state import FINISHED, AgentSession, BadState, ExecutionState, ExecutionStatus, pack, unpack
from engine.models import RunResult, cost_of

MAX_STATE = 256 << 20
STATE_FILE, JOURNAL_FILE, LOCK_FILE, INTERRUPT_FILE = "state.json", "journal.jsonl", "lock", "interrupt"


class Held:
    """An execution that this process owns: nobody else changes it until `release`. Thread-safe for one writer at a time."""

    def __init__(self, folder: Path, claim: Claim, state: ExecutionState, journal: Journal) -> None:
        self.folder = folder
        self.state = state
        self._claim = claim
        self._journal = journal
        self._written = 0.0
        self._took = 0.0

    @property
    def id(self) -> str:
        return self.state.id

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def move(self, status: ExecutionStatus, **changes: Any) -> None:
        """Another status, on disk when this returns."""
        moved = self.state.moved(status, time.time(), **changes)
        changed = moved.model_dump(mode="json", include={"status", "finished", *changes})
        seq = self._journal.append("status", {"changes": changed}, sync=True)
        self.state = moved.model_copy(update={"seq": seq})
        self._write()

    def start_try(self, step: str, runtime: str) -> int:
        """A step is about to be dispatched: on disk before it is. The number of the try."""
        data = {"step": step, "runtime": runtime, "try": self.state.tries.get(step, 0) + 1}
        self.state = _applied(self.state, {"kind": "try", "seq": self._journal.append("try", data, sync=True), **data})
        return self.state.tries[step]

    def session(self, step: str, session: AgentSession) -> None:
        """An agent has told its session: a retry after a crash goes on in it."""
        data = {"step": step, "session": session.model_dump()}
        self.state = _applied(self.state, {"kind": "session", "seq": self._journal.append("session", data, sync=False), **data})

    def finish_step(self, step: str, result: RunResult) -> None:
        """A step's result, on disk when this returns. The state's file follows when it was not just written."""
        record = {"step": step, "result": result.model_dump(mode="json")}
        seq = self._journal.append("step_finished", record, sync=True)
        self.state = _with_result(self.state, step, result, seq)
        if time.monotonic() - self._written > max(0.05, 20 * self._took):
            self._write()

    def together(self, work: Sequence[Callable[[], Any]]) -> list[Any]:
        """Do several things of the above, and sync once: what each gave, or the error that it raised.

        All of it is on disk when this returns; if that could not be, each has failed.
        """
        outcomes: list[Any] = []
        self._journal.defer(True)
        for one in work:
            try:
                outcomes.append(one())
            except Exception as error:
                outcomes.append(error)
        try:
            self._journal.defer(False)
        except OSError as error:
            return [outcome if isinstance(outcome, Exception) else error for outcome in outcomes]
        return outcomes

    def _write(self) -> None:
        started = time.monotonic()
        self._journal.sync()  # a state is never ahead of its journal
        self.state = self.state.model_copy(update={"updated": time.time()})
        write_whole(self.folder / STATE_FILE, pack(self.state))
        self._written = time.monotonic()
        self._took = self._written - started

    def interrupt_requested(self) -> bool:
        """Whether another process has asked to stop; asking is answered once."""
        try:
            os.unlink(self.folder / INTERRUPT_FILE)
        except FileNotFoundError:
            return False
        return True

    def release(self) -> None:
        self._journal.close()
        self._claim.release()


class ExecutionStore:
    """The executions of a project. Its methods block: call them in a thread."""

    def __init__(self, project: Path) -> None:
        self.folder = project / STATE / "executions"

    def create(self, state: ExecutionState) -> Held:
        """A new execution, held by this process."""
        folder = self.folder / state.id
        if self.folder.is_symlink() or self.folder.parent.is_symlink():
            raise BadState(f"{self.folder} is a link, and state is written only where it is")
        folder.mkdir(parents=True, mode=0o700)
        ignore_state(self.folder.parent)
        claim = _claim(folder).take()
        journal = Journal(folder / JOURNAL_FILE)
        held = Held(folder, claim, state, journal)
        try:
            journal.open()
            seq = journal.append("created", {"state": state.model_dump(mode="json")}, sync=True)
            held.state = state.model_copy(update={"seq": seq})
            held._write()
            sync_folder(self.folder)
        except BaseException:
            held.release()
            raise
        return held

    def hold(self, execution_id: str) -> Held:
        """Own an execution that is there. `ExecutionConflict` names the process that has it."""
        folder = self.folder / execution_id
        if not folder.is_dir():
            raise ExecutionNotFound(f"there is no execution {execution_id}")
        claim = _claim(folder).take()
        try:
            journal = Journal(folder / JOURNAL_FILE)
            records = journal.open()
            state = _state(folder, records)
            journal.go_on_after(state.seq)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(folder / INTERRUPT_FILE)
            return Held(folder, claim, state, journal)
        except BaseException:
            claim.release()
            raise

    def find(self, text: str) -> str:
        """The id that *text* is, or begins."""
        if ID.fullmatch(text) and (self.folder / text).is_dir():
            return text
        if not PREFIX.fullmatch(text):
            raise ExecutionNotFound(f"{text[:80]!r} is no id of an execution, nor four characters of its beginning")
        found = [name for name in self._names() if name.startswith(text)]
        if len(found) == 1:
            return found[0]
        if found:
            raise ExecutionNotFound(f"{len(found)} executions begin with {text}: {', '.join(found[:3])} …; give more of the id")
        raise ExecutionNotFound(f"there is no execution {text}; go-ent ps lists those there are")

    def load(self, execution_id: str) -> ExecutionState:
        """Its state now. One that is running, but owned by no process, was interrupted."""
        folder = self.folder / execution_id
        state = _state(folder, None)
        if state.status in ("running", "pending") and owner(folder) is None:
            again = _state(folder, None)  # it may have ended between the two looks
            return again.model_copy(update={"status": "interrupted"}) if again.status in ("running", "pending") else again
        return state

    def newest(self, limit: int) -> Iterator[ExecutionState]:
        """The newest executions first. One that can't be read is passed over."""
        for name in self._names(newest_first=True)[:limit]:
            with contextlib.suppress(BadState, OSError):
                yield self.load(name)

    def ask_to_interrupt(self, execution_id: str) -> None:
        """Ask the process that owns an execution to stop it. `ExecutionConflict` if there is nothing to stop."""
        state = self.load(execution_id)
        if state.status in FINISHED or state.status == "failed":
            raise ExecutionConflict(f"execution {execution_id} has finished: it is {state.status}")
        folder = self.folder / execution_id
        if owner(folder) is None:
            raise ExecutionConflict(f"execution {execution_id} is not running: it is {state.status}; go-ent resume {execution_id} goes on")
        os.close(os.open(folder / INTERRUPT_FILE, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600))

    def _names(self, *, newest_first: bool = False) -> list[str]:
        try:
            return sorted((name for name in os.listdir(self.folder) if ID.fullmatch(name)), reverse=newest_first)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise BadState(f"{self.folder} can't be read: {error.strerror}") from None


def owner(folder: Path) -> int | None:
    """The process that owns an execution, if one lives."""
    return held_by(folder / LOCK_FILE)


def _claim(folder: Path) -> Claim:
    return Claim(folder / LOCK_FILE, f"execution {folder.name}")


def _state(folder: Path, records: list[dict[str, Any]] | None) -> ExecutionState:
    """What the state's file says, and what the journal has beyond it. Without a usable file, the journal's alone."""
    state: ExecutionState | None
    problem = f"{folder} holds no execution"
    try:
        state = unpack(read_bounded(folder / STATE_FILE, MAX_STATE), str(folder / STATE_FILE))
    except FileNotFoundError:
        state = None
    except BadState as error:
        if "update go-ent" in str(error):
            raise
        state, problem = None, str(error)
    for record in records if records is not None else read_records(folder / JOURNAL_FILE)[0]:
        if state is None:
            if record["kind"] != "created":
                break
            try:
                state = ExecutionState.model_validate(record["state"])
            except ValidationError:
                break
        if record["seq"] > state.seq:
            try:
                state = _applied(state, record)
            except (ValidationError, KeyError, TypeError, ValueError, AttributeError) as error:
                raise BadState(f"record {record['seq']} in {folder / JOURNAL_FILE} can't be used: {str(error).splitlines()[0]}") from None
    if state is None:
        raise BadState(f"{problem}, and its journal does not tell how it began")
    if state.id != folder.name:
        raise BadState(f"{folder} holds another execution: {state.id[:40]!r}")
    return state


def _applied(state: ExecutionState, record: dict[str, Any]) -> ExecutionState:
    seq = record["seq"]
    match record["kind"]:
        case "status":
            data = state.model_dump(mode="json") | record["changes"] | {"seq": seq, "updated": record["at"]}
            return ExecutionState.model_validate(data)
        case "step_finished":
            return _with_result(state, record["step"], RunResult.model_validate(record["result"]), seq)
        case "try":
            state.tries[record["step"]] = record["try"]
            return state.model_copy(update={"seq": seq})
        case "session":
            state.sessions[record["step"]] = AgentSession.model_validate(record["session"])
            return state.model_copy(update={"seq": seq})
        case _:
            return state.model_copy(update={"seq": seq})


def _with_result(state: ExecutionState, step: str, result: RunResult, seq: int) -> ExecutionState:
    before = state.results.get(step)
    state.results[step] = result  # in place: a graph has thousands, and a copy for each would take for ever
    if result.ok:
        state.sessions.pop(step, None)
    elif result.session_id is not None and result.runtime is not None:
        state.sessions[step] = AgentSession(runtime=result.runtime, id=result.session_id, cost_usd=result.session_cost_usd)
    (usd, tokens), (old_usd, old_tokens) = _cost(result), _cost(before)
    spent = state.spent_usd if usd is None else (state.spent_usd or 0.0) + usd - (old_usd or 0.0)
    return state.model_copy(update={"seq": seq, "spent_usd": spent, "spent_tokens": state.spent_tokens + tokens - old_tokens})


def _cost(result: RunResult | None) -> tuple[float | None, int]:
    """What all attempts of a step cost; a later result of the same step holds those of the earlier ones."""
    cost_usd, tokens = cost_of(result.attempts if result is not None else ())
    return cost_usd, tokens.total if tokens is not None else 0

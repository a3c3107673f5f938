"""Past runs of guests, from the records of executions: what schemas are learned and tools suggested from.

Older versions kept a list of runs of their own, `.go-ent/journal/runs.jsonl`. It is read as the oldest part, and never
written again; deleting it loses what is learned and suggested from it, and nothing else.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from go_ent.composer.catalogue.scope import CallRecord, small
from go_ent.composer.codemode.past_runs import PastRun
from go_ent.composer.project.items import apart
from go_ent.engine.core.errors import BadTask, ExecutionConflict
from go_ent.engine.core.ids import short_id
from go_ent.engine.executions.state import ExecutionState
from go_ent.engine.executions.store import ExecutionStore
from go_ent.engine.strategies.references import filled
from go_ent.engine.strategies.work import task_of, unpack
from go_ent.sandbox.host.broker import CHECKPOINT
from go_ent.sandbox.worker.languages import SPOKEN, Language

MOST_EXECUTIONS = 2000  # the newest
MOST_BYTES, MOST_OF_ONE = 64 << 20, 8 << 20  # of all their journals, and of one
MOST_CALLS = 500  # that an example can have
MOST_NAMED = 5  # tasks or files, in an error
OLD_LINE = 256 << 10  # bytes of a line of an older version
NOTED = TypeAdapter(list[CallRecord], config=ConfigDict(defer_build=True))


def past_runs(store: ExecutionStore) -> Iterator[PastRun]:
    """The runs of the newest executions, the newest first; then what an older version has listed. What can't be read
    is passed over. Blocks.
    """
    known, left = set(), MOST_BYTES
    for row in store.rows(MOST_EXECUTIONS):
        runs: list[PastRun] = []
        if row.kind != "task" and left > 0:
            with apart(f"execution {row.id}", {}):
                state = store.load(row.id, compare=False)
                calls, size = _calls(store, state, min(left, MOST_OF_ONE))
                left -= size
                runs = list(_runs(state, calls))
                known.add(row.id)
        yield from runs
    yield from _old_runs(store, known)


def past_run(store: ExecutionStore, execution_id: str) -> PastRun:
    """The run of code of an execution that completed; `ExecutionConflict` if it was none, or one of several. Blocks."""
    state = store.load(store.find(execution_id), compare=False)
    if len(steps := [step for step, *_ in _code(state)]) > 1:
        several = f"execution {short_id(state.id)} ran code in several tasks ({_listed(sorted(steps))})"
        raise ExecutionConflict(f"{several}: give the code of one to go-ent tool new --from")
    calls, _ = _calls(store, state, MOST_OF_ONE)
    for run in _runs(state, calls):
        if run.source is not None:
            return run
    raise ExecutionConflict(f"execution {short_id(state.id)} can't become a tool: {_no_code(state)}")


def _no_code(state: ExecutionState) -> str:
    """Why no step of an execution is code that a tool could be made of."""
    guest = state.work.get("guest")
    if state.kind == "tool":
        return "it ran a tool, not code"
    if isinstance(guest, dict) and guest.get("session") is not None:
        return "it is a part of a session, and needs what ran before it (%save in go-ent shell takes all of it)"
    if isinstance(guest, dict) and guest.get("files"):
        return f"it was given files ({_listed(guest['files'])}), and a tool has none: pass their content as inputs"
    return (
        "it ran no code" if state.status == "completed" else f"it is {state.status}, and the code must have completed"
    )


def _listed(names: Collection[str]) -> str:
    return ", ".join([*names][:MOST_NAMED]) + (", …" if len(names) > MOST_NAMED else "")


def calls_of(store: ExecutionStore, execution_id: str, step: str) -> list[CallRecord] | None:
    """The calls that the run of a step made itself, in their order; None if not all of them are known. Blocks."""
    calls, _ = _calls(store, store.load(execution_id, compare=False), MOST_OF_ONE)
    made = calls.by_run().get(calls.last.get(step, step), [])
    return made if calls.whole and len(made) <= MOST_CALLS and all(call.kept for call in made) else None


def _calls(store: ExecutionStore, state: ExecutionState, most: int) -> tuple[Calls, int]:
    """The calls of an execution, so far as *most* bytes of its journal have them; how many were read."""
    calls, offset = Calls(), 0
    while state.calls:
        records, after = store.read_from(state.id, offset)
        if not records or after <= offset:
            break
        calls.add(records)
        offset = after
        if offset >= most:
            calls.whole = False
            break
    return calls, offset


class Calls:
    """The calls in a journal. What is not as it should be is passed over."""

    def __init__(self) -> None:
        self._calls: dict[str, CallRecord] = {}  # by path
        self._noted: dict[str, list[CallRecord]] = {}  # by the path of their run
        self.last: dict[str, str] = {}  # the path of the last run of each step
        self.whole = True  # whether all of them are here

    def add(self, records: Iterable[Mapping[str, Any]]) -> None:
        for record in records:
            path = record.get("path")
            if not isinstance(path, str):
                continue
            match record["kind"]:
                case "guest":
                    self.last[path.partition("#")[0]] = path
                case "call" if isinstance(tool := record.get("tool"), str) and tool != CHECKPOINT:
                    self._calls[path] = _begun(tool, record.get("arguments"))
                case "answer" if path in self._calls:
                    self._calls[path] = _ended(self._calls[path], record.get("answer"))
                case "unfinished" if path in self._calls:  # what it is answered with is not what the tool gave
                    self._calls[path] = replace(self._calls[path], kept=False)
                case "calls":
                    with contextlib.suppress(ValidationError):
                        self._noted[path] = NOTED.validate_python(record.get("calls"))

    def by_run(self) -> dict[str, list[CallRecord]]:
        """The calls of each run, by its path."""
        runs = dict(self._noted)
        for path, call in self._calls.items():
            runs.setdefault(path.rpartition("/")[0], []).append(call)
        return runs


def _begun(tool: str, arguments: Any) -> CallRecord:
    positional, named = arguments if isinstance(arguments, list) and len(arguments) == 2 else (None, None)
    if not isinstance(positional, list) or not isinstance(named, dict):
        positional, named = [], None
    return CallRecord(tool, named, error="it was never answered", positional=tuple(positional))


def _ended(call: CallRecord, answer: Any) -> CallRecord:
    match answer:
        case [_, 1, value]:
            result, kept = small(value)
            return replace(call, result=result, kept=call.kept and kept, error=None)
        case [_, 0, {"message": str(message)}]:
            return replace(call, error=message[:2000])
    return replace(call, error="cancelled")


def _runs(state: ExecutionState, calls: Calls) -> Iterator[PastRun]:
    runs = calls.by_run()
    for step, source, inputs, language in _code(state):
        if small(inputs)[1]:
            made = tuple(runs.pop(calls.last.get(step, step), ()))
            result, kept = small(state.results[step].structured)
            kept = kept and calls.whole and len(made) <= MOST_CALLS
            yield PastRun(source, inputs, result, kept, made, language)
    for rest in runs.values():
        yield PastRun(calls=tuple(rest))


def _code(state: ExecutionState) -> Iterator[tuple[str, str, dict[str, Any], Language]]:
    """The steps that ran code and completed, with the code, its inputs and its language. Code that needs what ran
    before it in a session, or files, is none.
    """
    guest, done = state.work.get("guest"), [step for step, result in state.results.items() if result.ok]
    if isinstance(guest, dict):
        source, inputs = guest.get("code"), guest.get("inputs", {})
        language = SPOKEN.get(str(guest.get("language", "python")), "python")
        alone = guest.get("session") is None and not guest.get("files")
        if isinstance(source, str) and isinstance(inputs, dict) and alone:
            yield from ((step, source, inputs, language) for step in done)
    elif done:
        work, _ = unpack(state.work)
        for step in done:
            if (task := task_of(work, step)) is not None and task.code is not None:
                with contextlib.suppress(BadTask):  # what it refers to is gone
                    yield step, task.code, filled(task, state.results).inputs, task.language


class OldRun(BaseModel):
    """A line of an older version's list of runs."""

    model_config = ConfigDict(extra="ignore", defer_build=True)

    id: str
    kind: Literal["code", "tool"]
    status: str
    source: str | None = None
    session: str | None = None
    inputs: dict[str, Any] | None = None
    result: Any = None
    kept: bool = True
    calls: list[CallRecord] = []

    @property
    def execution(self) -> str:
        return self.id.partition("/")[0]  # a line of many is "id/number"

    @property
    def run(self) -> PastRun:
        alone = self.kind == "code" and self.status == "completed" and self.session is None
        return PastRun(self.source if alone else None, self.inputs or {}, self.result, self.kept, tuple(self.calls))


def _old_runs(store: ExecutionStore, known: set[str]) -> Iterator[PastRun]:
    """What an older version has listed, the newest first, but for the executions that are *known* better."""
    for line in store.storage.older_runs():
        with contextlib.suppress(ValidationError):
            if 0 < len(line) <= OLD_LINE and (old := OldRun.model_validate_json(line)).execution not in known:
                yield old.run

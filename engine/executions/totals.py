"""What each execution came to: its tries from its state, its guests' calls from its journal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from go_ent.engine.core.models import TaskResult
from go_ent.engine.executions.history import CallTotals, ExecutionRecord, records_of
from go_ent.engine.executions.state import ExecutionState
from go_ent.sandbox.host.broker import CHECKPOINT

MOST_TOOLS = 1000  # that are counted by name, of one execution
LONGEST_TEXT = 300
LATEST = 1e11  # seconds; a time beyond it is none


def records_from(state: ExecutionState) -> list[ExecutionRecord]:
    """One record for each try of each step that has a result, and for each summary; also of an execution that has
    not ended.
    """
    return [*_tries(state), *_summaries(state)]


def _summaries(state: ExecutionState) -> list[ExecutionRecord]:
    """The summaries of its context, which cost, too. How long each took is not known."""
    return [
        ExecutionRecord(
            execution_id=state.id,
            task_id=f"summary {one.number}",
            model=one.model,
            runtime=f"summaries by {one.by}",
            strategy=state.strategy,
            success=True,
            cost_usd=one.cost_usd,
            duration_ms=0,
            at=one.at,
        )
        for one in state.context
    ]


def _tries(state: ExecutionState) -> list[ExecutionRecord]:
    steps = {step.task_id: step for step in (state.result.steps if state.result is not None else ())} | state.results
    if not steps and state.result is None:
        return []
    result = TaskResult(
        execution_id=state.id,
        status=state.result.status if state.result is not None else "PARTIAL",
        strategy=state.strategy,
        metrics=state.result.metrics if state.result is not None else None,
        steps=tuple(steps.values()),
    )
    return records_of(result, at=state.finished or state.updated, tools=_tools(state.work))


def _tools(work: Mapping[str, Any]) -> dict[str, str]:
    """The composed tool that each step runs, of those that run one."""
    plan, tasks, guest = work.get("plan"), work.get("tasks"), work.get("guest")
    found: list[tuple[object, object]] = []
    if isinstance(guest, dict):
        found = [("run", guest.get("tool"))]
    elif isinstance(plan, dict) and isinstance(plan.get("task"), list):
        found = [(task.get("id"), task.get("tool")) for task in plan["task"] if isinstance(task, dict)]
    elif isinstance(tasks, list):
        names = ["task"] if len(tasks) == 1 else map(str, range(1, len(tasks) + 1))
        found = [(name, task.get("tool")) for name, task in zip(names, tasks, strict=True) if isinstance(task, dict)]
    return {step: tool for step, tool in found if isinstance(step, str) and isinstance(tool, str)}


class Tally:
    """The calls that guests made, by tool, from records as they are written or read. A call without an answer took no
    time that is known.
    """

    def __init__(self) -> None:
        self.totals: dict[str, CallTotals] = {}
        self._open: dict[str, tuple[str, float]] = {}  # by path: the tool, and since when

    def call(self, path: str, tool: str, at: float) -> None:
        """A call is made."""
        if tool != CHECKPOINT and self._count(tool, 1, 0, 0.0, at):
            self._open[path] = (tool, at)

    def answer(self, path: str, at: float, *, failed: bool) -> None:
        """A call is answered."""
        if (found := self._open.pop(path, None)) is not None:
            tool, began = found
            self._count(tool, 0, int(failed), max(0.0, at - began) * 1000, at)

    def add(self, record: Mapping[str, Any]) -> None:
        """One record."""
        kind, path, at = record.get("kind"), record.get("path"), record.get("at")
        if not isinstance(at, int | float) or not 0 <= at < LATEST:
            return
        if kind == "status":  # what is open has rested until now, or will
            self._open = {one: (tool, at) for one, (tool, _) in self._open.items()}
        elif not isinstance(path, str):
            return
        elif kind in ("begun", "decided") and path in self._open:  # what it waited for before is not its own time
            self._open[path] = (self._open[path][0], at)
        elif kind == "call" and isinstance(tool := record.get("tool"), str):
            self.call(path, tool, at)
        elif kind == "answer":
            answer = record.get("answer")
            self.answer(path, at, failed=isinstance(answer, list) and len(answer) == 3 and answer[1] == 0)
        elif kind == "calls" and isinstance(calls := record.get("calls"), list):
            self._add_noted(calls, at)

    def _add_noted(self, calls: list[Any], at: float) -> None:
        """The calls of a run without a tape."""
        for call in calls:
            if isinstance(call, dict) and isinstance(tool := call.get("name"), str):
                ms = call["ms"] if type(call.get("ms")) is float and 0 <= call["ms"] < LATEST else 0.0
                self._count(tool, 1, int(call.get("error") is not None), ms, at)

    def _count(self, tool: str, calls: int, failures: int, ms: float, at: float) -> bool:
        tool = tool[:LONGEST_TEXT]
        known = self.totals.get(tool)
        if known is None:
            if len(self.totals) >= MOST_TOOLS:
                return False
            known = self.totals[tool] = CallTotals()
        known.add(calls, failures, ms, at)
        return True


def calls_from(records: Iterable[Mapping[str, Any]]) -> dict[str, CallTotals]:
    """The calls in a journal, by tool."""
    tally = Tally()
    for record in records:
        tally.add(record)
    return tally.totals

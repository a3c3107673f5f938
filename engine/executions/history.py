"""What was executed, and what it cost."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Annotated, Literal, get_args

from pydantic import Field

from go_ent.dataclass import dataclass
from go_ent.engine.core.errors import BadTask
from go_ent.engine.core.models import Model, TaskResult

MAX_RECORDS = 20_000
UNKNOWN = "unknown"  # the group of what has none: a model, a role, a tool
Grouping = Literal["runtime", "model", "role", "strategy", "tool", "day"]


class ExecutionRecord(Model):
    """One try on one runtime. What a runtime does not tell (tokens, cost) is None, never 0."""

    version: Literal[1] = 1
    execution_id: str
    task_id: str
    role: str | None = None
    model: str | None = None
    runtime: str | None = None
    strategy: str
    tool: str | None = None  # the composed tool that was run
    success: bool
    tokens: int | None = None
    cost_usd: float | None = None
    duration_ms: int
    at: float

    @property
    def day(self) -> str:
        return datetime.fromtimestamp(self.at, UTC).date().isoformat()


@dataclass(slots=True)
class CallTotals:
    """What the calls of one tool by guests came to. They cost nothing by themselves."""

    calls: int = 0
    failures: int = 0
    ms: float = 0.0
    at: float = 0.0  # the last of them

    def add(self, calls: int, failures: int, ms: float, at: float) -> None:
        self.calls += calls
        self.failures += failures
        self.ms += ms
        self.at = max(self.at, at)


class Totals(Model):
    """Sums over records. `cost_usd` is the sum of the costs that are known: None if none is."""

    count: int = 0
    successes: int = 0
    tokens: int = 0
    cost_usd: float | None = None
    costs_known: int = 0
    costs_unknown: int = 0
    duration_ms: int = 0

    def with_calls(self, calls: CallTotals) -> Totals:
        """These, and calls by guests."""
        return self.model_copy(
            update={
                "count": self.count + calls.calls,
                "successes": self.successes + calls.calls - calls.failures,
                "duration_ms": self.duration_ms + round(calls.ms),
            }
        )


class ExecutionHistory(Model):
    """Records in the order they were made. They are only ever added."""

    records: Annotated[tuple[ExecutionRecord, ...], Field(max_length=10 * MAX_RECORDS)] = ()

    @property
    def full(self) -> bool:
        return len(self.records) >= MAX_RECORDS

    def add(self, records: Iterable[ExecutionRecord]) -> ExecutionHistory:
        return ExecutionHistory(records=(*self.records, *records))

    def totals(self) -> Totals:
        return _totals(self.records)

    def by(self, field: Grouping) -> dict[str, Totals]:
        """The totals of each runtime, model, role, strategy, tool or day (in UTC); of what has none, under
        `unknown`.
        """
        check_grouping(field)
        groups: dict[str, list[ExecutionRecord]] = {}
        for record in self.records:
            groups.setdefault(getattr(record, field) or UNKNOWN, []).append(record)
        return {key: _totals(groups[key]) for key in sorted(groups)}


def group_title(field: str, group: str) -> str:
    """A group's name for people: code that ran in the sandbox has no role, rather than an unknown one."""
    return f"no {field}" if group == UNKNOWN else group


def check_grouping(field: str) -> None:
    """Refuse what a history is not grouped by."""
    if field not in get_args(Grouping):
        raise BadTask(f"a history is grouped by {', '.join(get_args(Grouping))}, not by {field}")


def _totals(records: Iterable[ExecutionRecord]) -> Totals:
    records = list(records)
    costs = [record.cost_usd for record in records if record.cost_usd is not None]
    return Totals(
        count=len(records),
        successes=sum(record.success for record in records),
        tokens=sum(record.tokens or 0 for record in records),
        cost_usd=sum(costs) if costs else None,
        costs_known=len(costs),
        costs_unknown=len(records) - len(costs),
        duration_ms=sum(record.duration_ms for record in records),
    )


def records_of(
    result: TaskResult,
    *,
    task_id: str = "task",
    role: str | None = None,
    at: float | None = None,
    tools: Mapping[str, str] = MappingProxyType({}),
) -> list[ExecutionRecord]:
    """The records of a result: one for each try of each step, so that a runtime that failed is there with its cost.

    They are under *task_id*, and with the step's own id behind it where there are several. What was skipped or passed
    over was not executed. A result without steps was refused before it ran: it is one record. *tools* are the composed
    tools that steps ran.
    """
    at = time.time() if at is None else at
    made = []
    for step in result.steps:
        if step.status == "skipped":
            continue
        # A step without attempts has its own figures in the same fields.
        for run in step.attempts or (step,):
            if run.failure == "not_found" and run.cost_usd is None and run.tokens is None:
                continue  # passed over: it is not there
            made.append(
                ExecutionRecord(
                    execution_id=result.execution_id,
                    task_id=task_id if len(result.steps) == 1 else f"{task_id}/{step.task_id}",
                    role=step.role or role,
                    model=step.model if run.runtime == step.runtime else None,
                    runtime=run.runtime,
                    strategy=result.strategy,
                    tool=tools.get(step.task_id),
                    success=run.status == "completed",
                    tokens=None if run.tokens is None else run.tokens.total,
                    cost_usd=run.cost_usd,
                    duration_ms=run.duration_ms,
                    at=at,
                )
            )
    if not result.steps:
        metrics = result.metrics
        made.append(
            ExecutionRecord(
                execution_id=result.execution_id,
                task_id=task_id,
                role=role,
                strategy=result.strategy,
                success=result.ok,
                tokens=None if metrics is None else metrics.tokens_used,
                cost_usd=None if metrics is None else metrics.cost_usd,
                duration_ms=0 if metrics is None else metrics.duration_ms,
                at=at,
            )
        )
    return made

"""What an engine is given to do: a task, several in their order, or a plan; how it is written down, read again and
named.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError

from go_ent.composer.project.numbers import whole
from go_ent.dataclass import dataclass
from go_ent.engine.core.errors import BadState, BadTask
from go_ent.engine.core.explain import explain
from go_ent.engine.core.models import BudgetLimit, ExecutionKind, StrategyName, Task
from go_ent.engine.strategies import Plan, choose, parse_plan

Work = Task | Sequence[Task] | Plan


@dataclass(frozen=True, slots=True)
class Chosen:
    """A strategy, and why it was chosen."""

    strategy: StrategyName
    reason: str


def choose_for(work: Work, preferred: StrategyName) -> Chosen:
    """The strategy that a piece of work asks for, or the one that suits it."""
    chosen = Chosen(*choose(work, preferred=preferred))
    if chosen.strategy == "multi" and not isinstance(work, Task):
        raise BadTask("a handoff chain takes one task; a list runs in order (single), a plan as a graph (parallel)")
    return chosen


def as_tasks(work: Task | Sequence[Task]) -> tuple[Task, ...]:
    return (work,) if isinstance(work, Task) else tuple(work)


def as_plan(work: Work) -> tuple[Task, ...] | Plan:
    if isinstance(work, Plan):
        return work
    if isinstance(work, str) or not all(isinstance(task, Task) for task in as_tasks(work)):
        raise BadTask("work is a Task, a list of tasks or a plan: Task(description=...)")
    tasks = as_tasks(work)
    if not tasks:
        raise BadTask("there is nothing to do: the list of tasks is empty")
    return tasks


def pack(work: Work, concurrency: int | None, file: str | None = None) -> dict[str, Any]:
    """Work as it is written down; of a plan, with the *file* that it was read from."""
    if isinstance(work, Plan):
        packed = {"plan": work.model_dump(mode="json", exclude_defaults=True), "concurrency": concurrency}
        return packed if file is None else {**packed, "file": file}
    return {
        "tasks": [task.model_dump(mode="json", exclude_defaults=True) for task in as_tasks(work)],
        "one": isinstance(work, Task),
    }


def unpack(packed: dict[str, Any]) -> tuple[Work, int | None]:
    try:
        if "plan" in packed:
            return parse_plan(packed["plan"]), packed.get("concurrency")
        tasks = [Task(**task) for task in packed["tasks"]]
        return (tasks[0] if packed["one"] else tasks), None
    except (ValidationError, KeyError, TypeError, IndexError) as error:
        raise BadState(f"what the execution was to do can't be read: {explain(error)}") from None


def task_of(work: Work, step: str) -> Task | None:
    """The task of a step; every step of a handoff has the same one."""
    if isinstance(work, Plan):
        return next((task for task in work.task if task.id == step), None)
    if isinstance(work, Task):
        return work
    if len(work) == 1:
        return work[0]
    number = whole(step)
    return work[number - 1] if number is not None and 0 < number <= len(work) else None


def kind_of(work: Work, chosen: Chosen) -> ExecutionKind:
    if isinstance(work, Plan):
        return "graph"
    if chosen.strategy == "multi" or not isinstance(work, Task):
        return "chain"
    return "tool" if work.tool else "code" if work.code else "task"


def title_of(work: Work) -> str:
    if isinstance(work, Plan):
        return work.name or ("a plan of one task" if len(work.task) == 1 else f"a plan of {len(work.task)} tasks")
    tasks = as_tasks(work)
    return tasks[0].title if len(tasks) == 1 else f"{tasks[0].title} and {len(tasks) - 1} more"


def limit_of(work: Work) -> BudgetLimit | None:
    """A plan's own limit holds for the whole of it; so does the limit of a task that becomes a chain."""
    if isinstance(work, Plan):
        return work.budget
    return work.budget if isinstance(work, Task) else None

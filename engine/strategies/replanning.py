"""A plan that has changed, and part of a plan: what has to run, and what stays finished."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from go_ent.dataclass import dataclass
from go_ent.engine.core.errors import BadTask
from go_ent.engine.core.models import RunResult
from go_ent.engine.strategies.plan import Plan, read_plan
from go_ent.engine.strategies.work import unpack
from go_ent.sandbox.messages.near_names import did_you_mean, near

MOST_NAMED = 20
MOST_LINES, MOST_LINE = 40, 200  # of a diff, and characters of one


@dataclass(frozen=True, slots=True)
class PlanChanges:
    """How one plan differs from another, by the ids of tasks."""

    changed: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    others: bool = False  # something that is not a task's: its budget, its concurrency

    def __bool__(self) -> bool:
        return bool(self.changed or self.added or self.removed or self.others)

    def __str__(self) -> str:
        parts = [
            f"{', '.join(names[:MOST_NAMED])} {word}"
            for names, word in ((self.changed, "changed"), (self.added, "added"), (self.removed, "removed"))
            if names
        ]
        return "; ".join([*parts, *(["its own settings changed"] if self.others else [])])


def plan_changes(before: Plan, now: Plan) -> PlanChanges:
    """What has changed from one plan to another."""
    then = {task.id: task for task in before.task}
    changed = tuple(task.id for task in now.task if task.id in then and then[task.id] != task)
    added = tuple(task.id for task in now.task if task.id not in then)
    removed = tuple(name for name in then if name not in now.index)
    settings = {"budget", "concurrency", "threshold", "name"}
    others = before.model_dump(include=settings) != now.model_dump(include=settings)
    return PlanChanges(changed, added, removed, others)


def changed_lines(before: Plan, now: Plan) -> list[str]:
    """What has changed of the tasks that both plans have, as a diff of their settings."""
    from difflib import unified_diff

    lines: list[str] = []
    for name in plan_changes(before, now).changed:
        old, new = (plan.task[plan.index[name]].model_dump(mode="json") for plan in (before, now))
        for key in new:
            diff = [*unified_diff(_lines(old[key]), _lines(new[key]), n=0, lineterm="")][2:]
            lines += [f"  {name}.{key} {line[0]} {line[1:MOST_LINE]}" for line in diff if not line.startswith("@@")]
    return lines[:MOST_LINES] + (["  …"] if len(lines) > MOST_LINES else [])


def _lines(value: object) -> list[str]:
    return value.splitlines() if isinstance(value, str) else [] if value is None else [json.dumps(value)]


@dataclass(frozen=True, slots=True)
class ChangedPlan:
    """The plan that an execution has, and the one in a file."""

    before: Plan
    now: Plan
    file: Path

    @property
    def said(self) -> str:
        """What has changed, for people; empty if nothing has."""
        return "\n".join([str(plan_changes(self.before, self.now)), *changed_lines(self.before, self.now)])


def changed_file(work: dict[str, Any]) -> ChangedPlan | None:
    """The plan that some work is, and the one in the file that it came from, if they differ now. That file may be
    gone, or hold no plan any more: there is nothing to say about it then. Blocks.
    """
    recorded = work.get("file")
    if "guest" in work or not (isinstance(recorded, str) and os.path.isfile(recorded)):
        return None
    before = unpack(work)[0]
    if not isinstance(before, Plan):
        return None
    try:
        now = read_plan(Path(recorded))
    except BadTask:
        return None
    return ChangedPlan(before, now, Path(recorded)) if plan_changes(before, now) else None


def dependents(plan: Plan, names: Iterable[str]) -> set[str]:
    """Those tasks, and all that take results of them, directly or not."""
    found = {plan.index[name] for name in names}
    grown = True
    while grown:
        more = {at for at, needs in enumerate(plan.needs) if at not in found and found.intersection(needs)}
        grown = bool(more)
        found |= more
    return {plan.task[at].id for at in found}


def part(plan: Plan, chosen: set[str]) -> Plan:
    """Those tasks, and all whose results they need."""
    wanted = {plan.index[name] for name in chosen}
    todo = list(wanted)
    while todo:
        new = set(plan.needs[todo.pop()]) - wanted
        wanted |= new
        todo += new
    tasks = tuple(task for at, task in enumerate(plan.task) if at in wanted)
    return Plan(**{**plan.model_dump(exclude={"task"}), "task": tasks})


def choose_steps(plan: Plan, *, first: str | None, only: Iterable[str]) -> set[str]:
    """The tasks to run: from *first* on, or *only* some. `BadTask` for one that is not there."""
    for name in (*([first] if first is not None else ()), *only):
        if name not in plan.index:
            hint = did_you_mean(near(name, plan.index)) or f"; there are: {', '.join(list(plan.index)[:MOST_NAMED])}"
            raise BadTask(f"the plan has no task {name[:100]}{hint}")
    return dependents(plan, [first]) if first is not None else set(only)


def still_finished(before: Plan, now: Plan, results: Mapping[str, RunResult]) -> dict[str, RunResult]:
    """The results that hold for a changed plan: of tasks that succeeded, have not changed, and depend on none that has.

    They cost nothing this time.
    """
    changes = plan_changes(before, now)
    undone = [name for name in now.index if name not in results or not results[name].ok]
    again = dependents(now, {*changes.changed, *changes.added, *undone})
    kept = {name: results[name] for name in now.index if name not in again}
    return {name: result.model_copy(update={"cost_usd": 0.0, "tokens": None}) for name, result in kept.items()}

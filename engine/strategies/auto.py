"""`auto`: which strategy a task gets. The same task always gets the same one, and the reason is said."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, get_args

from go_ent.engine.core.errors import BadTask
from go_ent.engine.core.models import StrategyName, Task, TaskType
from go_ent.engine.strategies.plan import Plan

Complexity = Literal["low", "medium", "high"]

# Words that make a task larger or smaller than it looks. Each of them counts once, as a whole word.
LARGE = frozenset(
    """architecture asynchronous authentication backwards-compatible concurrency concurrent cross-cutting database distributed
    end-to-end framework infrastructure integrate integration migrate migration multi-tenant overhaul performance pipeline protocol
    redesign rearchitect replace restructure rewrite scalability schema security subsystem throughout transaction""".split()  # noqa: E501
)
SMALL = frozenset(
    "bump comment formatting log-message minor one-line rename simple small spelling tiny trivial typo wording".split()
)
WORD = re.compile(r"[a-z]+(?:-[a-z]+)*")
LONG = 2000

BASE: dict[TaskType, int] = {
    "architecture": 2,
    "feature": 1,
    "refactor": 1,
    "bugfix": 0,
    "test": 0,
    "review": 0,
    "other": 0,
    "docs": -1,
}

# From which complexity on a task of a type is handed from role to role. A review is one role's work.
HANDOFF: dict[TaskType, frozenset[Complexity]] = {
    "feature": frozenset({"medium", "high"}),
    "bugfix": frozenset({"medium", "high"}),
    "refactor": frozenset({"medium", "high"}),
    "architecture": frozenset({"medium", "high"}),
    "test": frozenset({"high"}),
    "docs": frozenset({"high"}),
    "review": frozenset(),
    "other": frozenset({"high"}),
}


def complexity(task: Task) -> Complexity:
    """How large a task is, from its type, how many files it names, its words and its length.

    Points: the type's (`BASE`); 1 from 2 files on, 2 from 5 on; 1 for each large word, 2 at most; 1 for a long
    description; minus 1 for a small word. Up to 0 is low, up to 2 is medium, more is high.
    """
    words = set(WORD.findall(task.description.lower()))
    points = BASE[task.type]
    points += (len(task.files) >= 2) + (len(task.files) >= 5)
    points += min(len(words & LARGE), 2)
    points += len(task.description) > LONG
    points -= bool(words & SMALL)
    if points <= 0:
        return "low"
    return "medium" if points <= 2 else "high"


def choose(task: Task | Plan | Sequence[Task], preferred: StrategyName = "auto") -> tuple[StrategyName, str]:
    """The strategy, and why. *preferred* is the configuration's. The first of these that fits holds:

    1. A plan is run as a graph, and a list in its order.
    2. What the task asks for.
    3. A command, a tool or code is one step: there is nothing to hand over.
    4. What is preferred.
    5. A task for a role is that role's alone.
    6. By type and complexity (`HANDOFF`).
    """
    if isinstance(task, Plan):
        edges = sum(map(len, task.needs))
        return "parallel", f"a plan: {_count(len(task.task), 'task')}, {_count(edges, 'dependency', 'dependencies')}"
    if not isinstance(task, Task):
        return "single", f"a list: {_count(len(task), 'task')}, in their order"
    if task.strategy != "auto":
        return _asked(task), "the task asks for it"
    if not task.needs_model:
        return "single", "it needs no model"
    if preferred not in get_args(StrategyName):
        raise BadTask(f"there is no strategy {preferred}; there are: {', '.join(get_args(StrategyName))}")
    if preferred in {"single", "multi"}:
        return preferred, "the configuration prefers it"
    if task.role is not None:
        return "single", f"it is for the role {task.role}"
    level = complexity(task)
    return "multi" if level in HANDOFF[task.type] else "single", f"type {task.type}, complexity {level}"


def _asked(task: Task) -> StrategyName:
    if task.strategy == "parallel":
        raise BadTask(
            "parallel runs the tasks of a plan, and this is a single task: give a plan, or use single or multi"
        )
    if task.strategy == "multi" and not task.needs_model:
        raise BadTask("multi hands a description from role to role: a command, a tool or code has none; use single")
    return task.strategy


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"

"""One step of a strategy: a task, and what came before it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from go_ent.dataclass import dataclass
from go_ent.engine.core.models import RunResult, Task


@dataclass(frozen=True, slots=True)
class Output:
    """What an earlier step left: `source` is its role in a handoff, its task id in a graph."""

    source: str
    text: str
    structured: Any = None


@dataclass(frozen=True, slots=True)
class Step:
    """`previous` are the outputs of a handoff, `dependencies` those of a graph; both belong into the prompt.

    `inserted` are those that stand in the task's description already, because it refers to them.
    """

    id: str
    task: Task
    previous: tuple[Output, ...] = ()
    dependencies: tuple[Output, ...] = ()
    inserted: tuple[Output, ...] = ()


RunStep = Callable[[Step], Awaitable[RunResult]]

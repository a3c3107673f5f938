"""How work is started."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypedDict

from go_ent.engine.budget import Ask
from go_ent.engine.core.models import Event, RunResult


class StartOptions(TypedDict, total=False):
    """How work is run. *parent* and *parent_call* are the execution, and its call, that began it. *concurrency* is how
    many tasks run at once. *may_start* is whether tasks may name programs by argv. *ask* decides about work that does
    not fit the budget, instead of the engine's own. *client* is the HTTP client that asked: its budget and grants
    apply. *on_event* is told what happens. In a fleet, *here* keeps it in this process; else a worker runs it, one with
    that *label* if one is given. *plan_file* is where a plan was read from; its steps that are *finished* are not run.
    """

    parent: str | None
    parent_call: str | None
    adjustments: Sequence[str]
    concurrency: int | None
    may_start: bool
    on_event: Callable[[Event], None] | None
    ask: Ask | None
    client: str
    plan_file: str | None
    finished: Mapping[str, RunResult]
    here: bool
    label: str | None

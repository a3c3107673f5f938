"""Executions that end within one turn, and so are packed."""

from __future__ import annotations

import time

from go_ent.engine.core.ids import new_id
from go_ent.engine.core.models import RunResult
from go_ent.engine.executions.state import Environment, ExecutionState, digest_of
from go_ent.engine.executions.store import ExecutionStore


def fresh(title: str = "1 + 1") -> ExecutionState:
    work = {"guest": {"code": "1 + 1"}}
    now = time.time()
    return ExecutionState(
        id=new_id(),
        kind="code",
        title=title,
        status="running",
        work=work,
        work_digest=digest_of(work),
        environment=Environment(go_ent="1", python="3"),
        created=now,
        updated=now,
    )


def made(store: ExecutionStore, title: str = "1 + 1", output: str = "2") -> str:
    """An execution that has ended within one turn."""
    held = store.create(fresh(title), sync=False)
    assert not held.slot.placed

    def end() -> None:
        result = RunResult(execution_id=held.id, task_id="run", status="completed", output=output, runtime="cli")
        held.finish_step("run", result)
        held.move("completed")

    assert held.together([end], pack={}) == [None]
    assert held.slot.released
    return held.id

"""A runtime that does nothing: what is measured with it is the engine."""

from __future__ import annotations

from go_ent.engine import Availability
from go_ent.engine.core.models import RunRequest, RunResult
from go_ent.engine.runners.base.runner import Emit


class Idle:
    """Every run is done at once, but that of the task that `fails`."""

    name = family = "cli"
    fails: str | None = None
    runs = 0

    async def available(self) -> Availability:
        return Availability(True)

    async def execute(self, request: RunRequest, emit: Emit) -> RunResult:
        self.runs += 1
        status = (
            {"status": "failed", "error": "it fails"}
            if request.task_id == self.fails
            else {"status": "completed", "output": "done"}
        )
        return RunResult.model_validate(
            {"execution_id": request.execution_id, "task_id": request.task_id, "runtime": "cli", **status}
        )

    async def interrupt(self, run_id: str) -> bool:
        return False

    async def close(self) -> None:
        pass

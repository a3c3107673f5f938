"""Runners that do what a test says: real to the engine, which knows nothing but the contract."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from go_ent.engine import Availability, Engine, EngineConfig, RunRequest, RunResult
from go_ent.engine.runners.base.runner import Emit, Progress

Say = Callable[[RunRequest], dict[str, Any]]


def says(output: str = "done", **fields: Any) -> Say:
    return lambda request: {"status": "completed", "output": output, **fields}


def fails(failure: str, error: str = "it failed", **fields: Any) -> Say:
    return lambda request: {"status": "failed", "failure": failure, "error": error, **fields}


class Scripted:
    """Answers with each behaviour in its turn, the last one for ever. `seen` are the requests."""

    def __init__(self, name: str, *script: Say, family: str = "mcp", available: str = "") -> None:
        self._name, self._family, self._available = name, family, available
        self.script = list(script) or [says()]
        self.seen: list[RunRequest] = []
        self.session: str | None = None
        self._tick: asyncio.Event | None = None
        self.hold: asyncio.Event | None = None  # a run waits for this, or for an interrupt
        self._stops: dict[str, asyncio.Event] = {}
        self.deaf = False  # takes no notice of interrupts
        self.closed = False

    @property
    def name(self) -> str:
        return self._name

    @property
    def family(self) -> str:
        return self._family

    async def available(self) -> Availability:
        return Availability(not self._available, "1.0", self._available)

    async def execute(self, request: RunRequest, emit: Emit) -> RunResult:
        self.seen.append(request)
        if self._tick is not None:
            self._tick.set()
        if self.session is not None:
            emit(Progress("session", data={"session_id": self.session}))
        behaviour = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        fields: dict[str, Any] = {"runtime": self._name, **behaviour(request)}
        if self.hold is not None:
            emit(Progress("text", "half of"))
            stop = self._stops[request.run_id] = asyncio.Event()
            waits = [asyncio.ensure_future(event.wait()) for event in (self.hold, stop)]
            try:
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for wait in waits:
                    wait.cancel()
                del self._stops[request.run_id]
            if stop.is_set():
                fields |= {
                    "status": "interrupted",
                    "failure": "interrupted",
                    "error": "interrupted",
                    "output": "half of",
                }
        return RunResult.model_validate({"execution_id": request.execution_id, "task_id": request.task_id, **fields})

    async def begun(self, number: int = 1) -> None:
        """Until it was asked so often."""
        while len(self.seen) < number:
            self._tick = asyncio.Event()
            await self._tick.wait()

    async def interrupt(self, run_id: str) -> bool:
        stop = self._stops.get(run_id)
        if stop is None or self.deaf:
            return False
        stop.set()
        return True

    async def close(self) -> None:
        self.closed = True


def engine_of(project: Path, *runners: Scripted, config: dict[str, Any] | None = None, **options: Any) -> Engine:
    """An engine with these runners in the place of the programs of those names, which are not there otherwise."""
    absent = [Scripted(name, available="not installed here") for name in ("claude-code", "open-code")]
    made = {runner.name: runner for runner in (*absent, *runners)}
    return Engine(
        project, config=EngineConfig.model_validate(config or {}), runners=made, **{"trusted": True, **options}
    )

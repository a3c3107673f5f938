"""The `cli` runtime: named commands, and composed tools and code in the sandbox with no model at all."""

from __future__ import annotations

import asyncio
import time
import uuid
from typing import Any

from go_ent.composer import Composer, ComposerError
from go_ent.engine.core.concurrency import to_the_end
from go_ent.engine.core.config import CommandConfig
from go_ent.engine.core.models import RunRequest, RunResult
from go_ent.engine.core.outcomes import MAX_OUTPUT, run_result
from go_ent.engine.core.stoppable_run import Stop, drive
from go_ent.engine.guest_runs.runs import GuestOrder, guest_run
from go_ent.engine.runners.base.runner import Availability, Emit, Progress
from go_ent.engine.runners.base.surroundings import Surroundings
from go_ent.engine.runners.cli.commands import run_command
from go_ent.sandbox import SandboxError


class CliRunner:
    """Complete in itself: it needs no agent program."""

    name = "cli"
    family = "cli"

    def __init__(self, surroundings: Surroundings) -> None:
        self._surroundings = surroundings
        self._stops: dict[str, Stop] = {}

    async def available(self) -> Availability:
        return Availability(True)

    async def execute(self, request: RunRequest, emit: Emit) -> RunResult:
        stop = self._stops[request.run_id] = Stop()
        try:
            if request.tool is not None or request.code is not None:
                return await self._in_sandbox(request, emit, stop)
            return await self._command(request, emit, stop)
        finally:
            self._stops.pop(request.run_id, None)

    async def interrupt(self, run_id: str) -> bool:
        stop = self._stops.get(run_id)
        if stop is None:
            return False
        stop.set()
        return True

    async def close(self) -> None:
        for stop in self._stops.values():
            stop.set()

    async def _command(self, request: RunRequest, emit: Emit, stop: Stop) -> RunResult:
        command = request.command if request.command is not None else self._surroundings.config.engine.command
        if command is None:
            return self._failed(request, "cli has no command that answers prompts: name one in [engine] command")
        if isinstance(command, tuple):
            config = CommandConfig(argv=command)
        else:
            commands = self._surroundings.config.commands
            if command not in commands:
                there = ", ".join(sorted(commands)) or "none"
                return self._failed(
                    request, f"there is no command {command} in the configuration; there are: {there}", replan=True
                )
            config = commands[command]
        return await run_command(config, request, emit, host_env=self._surroundings.environment, stop=stop)

    async def _in_sandbox(self, request: RunRequest, emit: Emit, stop: Stop) -> RunResult:
        started = time.monotonic()
        run_id = uuid.uuid4().hex
        try:
            composer = await asyncio.to_thread(self._surroundings.composer)
            before = None if request.recording is None else request.recording.start
            box = await asyncio.to_thread(composer.box_of, "" if before is None else before.image)
            running = guest_run(composer, _order(request, composer), request.recording, box=box, run_id=run_id)
            run = await drive(box, run_id, running, stop)
        except (ComposerError, SandboxError) as error:
            return self._failed(request, str(error), replan=isinstance(error, ValueError | KeyError))
        if run is None:
            return self._result(
                request, started, status="interrupted", failure="interrupted", error="the run was interrupted"
            )
        if run.stdout:
            emit(Progress("text", run.stdout[:MAX_OUTPUT]))
        lost = await to_the_end(request.keep, run.files) if request.keep is not None and run.files else None
        result = run_result(run, request.execution_id, request.task_id, round((time.monotonic() - started) * 1000))
        return result if lost is None else result.model_copy(update={"observations": (*result.observations, lost)})

    def _failed(self, request: RunRequest, error: str, *, replan: bool = False) -> RunResult:
        return self._result(request, time.monotonic(), status="failed", failure="task", error=error, replan=replan)

    def _result(self, request: RunRequest, started: float, **fields: Any) -> RunResult:
        return RunResult(
            execution_id=request.execution_id,
            task_id=request.task_id,
            runtime=self.name,
            duration_ms=round((time.monotonic() - started) * 1000),
            **fields,
        )


def _order(request: RunRequest, composer: Composer) -> GuestOrder:
    """What a request has run in a guest. It can only have less time than there is."""
    most, wanted = composer.box.limits.timeout_s, request.timeout_s
    return GuestOrder(
        code=request.code if request.tool is None else None,
        language=request.language,
        tool=request.tool,
        inputs=request.inputs,
        grants=request.grants,
        limits={"timeout_s": wanted} if wanted is not None and (most is None or wanted < most) else None,
        cut=False,
    )

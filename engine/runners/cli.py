"""The `cli` runtime: named commands, and composed tools and code in the sandbox with no model at all."""

from __future__ import annotations

import asyncio
import time
import uuid
from typing import Any

from pydantic_core import to_json

from composer import ComposerError
from engine.config import CommandConfig
from engine.models import RunRequest, RunResult
from engine.outcomes import OUTCOMES
from engine.runners.base import Availability, Emit, Progress
from engine.runners.commands import run_command
from engine.runners.registry import Surroundings
from sandbox import Run, SandboxError

MAX_OUTPUT = 4 << 20
GRACE_S = 2.0


class CliRunner:
    """Complete in itself: it needs no agent program."""

    name = "cli"
    family = "cli"

    def __init__(self, surroundings: Surroundings) -> None:
        self._surroundings = surroundings
        self._stops: dict[str, asyncio.Event] = {}

    async def available(self) -> Availability:
        return Availability(True)

    async def execute(self, request: RunRequest, emit: Emit) -> RunResult:
        stop = self._stops[request.run_id] = asyncio.Event()
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

    async def _command(self, request: RunRequest, emit: Emit, stop: asyncio.Event) -> RunResult:
        command = request.command if request.command is not None else self._surroundings.config.engine.command
        if command is None:
            return self._failed(request, "cli has no command that answers prompts: name one in [engine] command")
        if isinstance(command, tuple):
            config = CommandConfig(argv=command)
        else:
            commands = self._surroundings.config.commands
            if command not in commands:
                there = ", ".join(sorted(commands)) or "none"
                return self._failed(request, f"there is no command {command} in the configuration; there are: {there}", replan=True)
            config = commands[command]
        return await run_command(config, request, emit, host_env=self._surroundings.environment, stop=stop)

    async def _in_sandbox(self, request: RunRequest, emit: Emit, stop: asyncio.Event) -> RunResult:
        started = time.monotonic()
        run_id = uuid.uuid4().hex
        running = asyncio.ensure_future(self._run(request, run_id))
        stopping = asyncio.ensure_future(stop.wait())
        try:
            await asyncio.wait([running, stopping], return_when=asyncio.FIRST_COMPLETED)
            if not running.done():
                (await asyncio.to_thread(self._surroundings.composer)).box.end(run_id, "interrupted")
                await asyncio.wait([running], timeout=GRACE_S)
            if not running.done():  # it waits for something on the host
                running.cancel()
                await asyncio.wait([running])
            if running.cancelled():
                return self._result(request, started, status="interrupted", failure="interrupted", error="the run was interrupted")
            run = running.result()
        except (ComposerError, SandboxError) as error:
            return self._failed(request, str(error), replan=isinstance(error, ValueError | KeyError))
        finally:
            stopping.cancel()
            if not running.done():
                running.cancel()
        if run.stdout:
            emit(Progress("text", run.stdout[:MAX_OUTPUT]))
        return self._of(request, run, started)

    async def _run(self, request: RunRequest, run_id: str) -> Run:
        composer = await asyncio.to_thread(self._surroundings.composer)
        limits: dict[str, Any] | None = None
        timeout_s = composer.box.limits.timeout_s
        if request.timeout_s is not None and (timeout_s is None or request.timeout_s < timeout_s):
            limits = {"timeout_s": request.timeout_s}
        if request.tool is not None:
            return await composer.run(request.tool, request.inputs, limits=limits, run_id=run_id)
        return await composer.code.execute(request.code or "", request.inputs, limits=limits, run_id=run_id, cut=False)

    def _of(self, request: RunRequest, run: Run, started: float) -> RunResult:
        outcome = OUTCOMES[run.status]
        value = run.stdout if run.result is None else run.result
        output = value if isinstance(value, str) else to_json(value, inf_nan_mode="null").decode()
        said = None if run.error is None else str(run.error)
        if run.pending:
            said = f"{run.pending[0].tool} needs approval: {run.pending[0].reason}"
        return self._result(
            request,
            started,
            status=outcome.run,
            failure=outcome.failure,
            error=said,
            output=output[:MAX_OUTPUT],
            structured=run.result,
            replan=outcome.task == "NEEDS_REPLAN",
            observations=(f"{run.usage.tool_calls} tool calls",) if run.usage.tool_calls else (),
        )

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

"""The engine over MCP: have agents and commands do work, look at it, stop it, go on with it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastmcp.tools.base import ToolResult
from pydantic import Field, ValidationError

from composer import Composer, ComposerError
from composer.codemode import CodeRun
from engine.engine import Engine, Work
from engine.errors import BadTask, EngineError
from engine.executions.state import ExecutionState
from engine.executions.tape import Unfinished
from engine.explaining import explain
from engine.guests import guest_order
from engine.models import Task, TaskResult
from engine.runners.trees import TAG
from engine.server.code import READ_ONLY, cut, failed, of_run
from engine.strategies import parse_plan
from sandbox import SandboxError

if TYPE_CHECKING:
    from fastmcp import FastMCP

RESULT = {
    "type": "object",
    "properties": {"execution_id": {"type": "string"}, "status": {"type": "string"}, "output": {"type": "string"}},
    "required": ["execution_id", "status"],
}
REPORT = {"type": "object", "properties": {"day": {"type": "object"}, "month": {"type": "object"}}}


def add(server: FastMCP, engine: Engine, composer: Composer) -> None:
    """Add the tools to *server*. An agent that go-ent itself has started may look, but starts no further agents."""
    if TAG not in os.environ:
        _add_running(server, engine, composer)

    @server.tool(annotations=READ_ONLY, output_schema=RESULT)
    async def engine_status(
        execution_id: Annotated[str | None, Field(description="Or the beginning of it; without one, the newest are listed.")] = None,
    ) -> ToolResult:
        """What an execution has done, or the list of the newest."""
        try:
            if execution_id is not None:
                return _of_state(await engine.status(execution_id))
            rows = [{"execution_id": one.id, "status": one.status, "title": one.title} for one in await engine.executions(limit=20)]
        except EngineError as error:
            return failed(str(error))
        return ToolResult(structured_content={"execution_id": "", "status": f"{len(rows)} executions", "executions": rows})

    @server.tool(annotations=READ_ONLY, output_schema=REPORT)
    async def engine_budget() -> ToolResult:
        """What was spent today and this month, what is reserved, and the limits."""
        try:
            return ToolResult(structured_content=(await engine.budget()).model_dump(mode="json"))
        except EngineError as error:
            return failed(str(error))


def _add_running(server: FastMCP, engine: Engine, composer: Composer) -> None:
    @server.tool(annotations={"openWorldHint": True, "destructiveHint": True}, output_schema=RESULT)
    async def engine_execute(
        task: Annotated[str, Field(description="What to do; `composed:NAME {…}` runs a composed tool.")] = "",
        plan: Annotated[
            list[dict[str, Any]] | dict[str, Any] | None,
            Field(description="Instead: a graph of {id, prompt | tool, inputs | command, depends_on, …}; `${id.output}` is a result."),
        ] = None,
        strategy: Literal["auto", "single", "multi", "parallel"] = "auto",
        type: str = "other",
        role: str | None = None,
        skills: list[str] | None = None,
        model: str | None = None,
        runtime: str | None = None,
        command: Annotated[str | None, Field(description="A command that the configuration names.")] = None,
        access: Literal["none", "read", "edit"] = "edit",
        files: list[str] | None = None,
        context: str = "",
        budget: Annotated[dict[str, float] | None, Field(description="{usd, tokens}")] = None,
        timeout_s: float | None = None,
        concurrency: int | None = None,
        wait: Annotated[bool, Field(description="False: answer at once with the id; ask engine_status.")] = True,
    ) -> ToolResult:
        """Have an agent, a command or the sandbox do a task, a handoff chain (multi) or a graph (plan), within the budget."""
        given: dict[str, Any] = {"description": task, "strategy": strategy, "type": type, "role": role, "skills": skills, "model": model}
        given |= {"runtime": runtime, "command": command, "access": access, "files": files, "context": context}
        given |= {"budget": budget, "timeout_s": timeout_s}
        try:
            work: Work
            if plan is not None:
                if task or strategy not in ("auto", "parallel"):
                    raise BadTask("a plan is a graph of its own: leave task and strategy out")
                found = plan if isinstance(plan, dict) else {"task": plan}
                work = parse_plan({**found, **({"budget": budget} if budget else {})})
            else:
                work = Task(**{name: value for name, value in given.items() if value is not None})
            if wait:
                return of_result(await engine.execute(work, may_start=False, concurrency=concurrency))
            execution_id = await engine.start(work, may_start=False, concurrency=concurrency)
        except ValidationError as error:
            return failed(explain(error))
        except (EngineError, ComposerError) as error:
            return failed(str(error))
        return ToolResult(structured_content={"execution_id": execution_id, "status": "running"})

    @server.tool(annotations={"idempotentHint": True, "destructiveHint": False, "openWorldHint": False}, output_schema=RESULT)
    async def engine_interrupt(execution_id: str) -> ToolResult:
        """Stop an execution. What it has done is kept: engine_resume goes on."""
        try:
            return _of_state(await engine.interrupt(execution_id))
        except EngineError as error:
            return failed(str(error))

    @server.tool(annotations={"openWorldHint": True}, output_schema=RESULT)
    async def engine_resume(
        execution_id: str,
        unfinished: Annotated[
            list[str] | None,
            Field(description="For calls of which nobody knows whether they were done: retry, skip, fail, or CALL=retry …"),
        ] = None,
    ) -> ToolResult:
        """Go on with an execution that was interrupted or has failed; what it has finished is not run again."""
        try:
            decided = Unfinished.parse(unfinished or ())
            if guest_order(await engine.status(execution_id)) is None:
                return of_result(await engine.resume(execution_id, may_start=False, unfinished=decided))
            run, changes = await engine.resume_run(execution_id, unfinished=decided)
            made = of_run(run if isinstance(run, CodeRun) else composer.code.present(run))
            if changes and made.structured_content is not None:
                made.structured_content["changed"] = [cut(change.text) for change in changes[:20]]
        except (EngineError, ComposerError, SandboxError) as error:
            return failed(str(error))
        return made

    @server.tool(annotations={"destructiveHint": True, "openWorldHint": False}, output_schema=RESULT)
    async def engine_approve(
        execution_id: str,
        approve: Annotated[bool, Field(description="False rejects: the call fails.")] = True,
        call: Annotated[str | None, Field(description="One of those that wait; else all.")] = None,
    ) -> ToolResult:
        """Say what the user decided about calls that wait for approval; then engine_resume goes on."""
        try:
            return _of_state(await engine.decide(execution_id, call, approved=approve))
        except EngineError as error:
            return failed(str(error))


def of_result(result: TaskResult) -> ToolResult:
    """A result as a model needs it: every field bounded."""
    made: dict[str, Any] = {"execution_id": result.execution_id, "status": result.status, "output": cut(result.output)}
    made["strategy"] = f"{result.strategy}: {result.strategy_reason}"
    if result.error:
        made["error"] = cut(result.error)
    if result.metrics is not None:
        made["metrics"] = result.metrics.model_dump(mode="json")
    for name in ("files_modified", "observations", "adjustments"):
        if found := getattr(result, name):
            made[name] = [cut(one) for one in found[:50]]
    made["steps"] = [
        {"id": step.task_id, "status": step.status, "runtime": step.runtime, "reason": step.runtime_reason, "error": cut(step.error or "")}
        for step in result.steps[:100]
    ]
    paused = any(step.status == "paused" for step in result.steps)
    if paused:
        made["hint"] = "a call waits for approval: engine_status shows it, engine_approve decides, engine_resume goes on"
    return ToolResult(structured_content=made, is_error=not result.ok and not paused)


def _of_state(state: ExecutionState) -> ToolResult:
    made: dict[str, Any] = {"execution_id": state.id, "status": state.status, "title": state.title, "spent_tokens": state.spent_tokens}
    if state.spent_usd is not None:
        made["spent_usd"] = state.spent_usd
    if state.error:
        made["error"] = cut(state.error)
    if state.result is not None:
        made["output"] = cut(state.result.output)
    if state.requests:
        made["waiting"] = [
            {"call": path, "tool": one.tool, "arguments": one.arguments, "reason": one.reason}
            for path, one in list(state.requests.items())[:20]
        ]
    if state.checkpoints:
        made["checkpoints"] = [{"label": one.label, "value": one.value} for one in state.checkpoints[-10:]]
    made["steps"] = [{"id": step, "status": one.status, "error": cut(one.error or "")} for step, one in list(state.results.items())[:100]]
    made["steps"] += [{"id": step, "status": "running"} for step in state.running[:100]]
    return ToolResult(structured_content=made)

"""The engine over MCP: have agents and commands do work, look at it, stop it, go on with it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastmcp.tools.base import ToolResult
from pydantic import Field

from go_ent.composer import Composer
from go_ent.engine.core.errors import BadTask, NotAllowed
from go_ent.engine.core.models import Task
from go_ent.engine.engine import Engine
from go_ent.engine.executions.tape import Unfinished
from go_ent.engine.guest_runs.runs import guest_order
from go_ent.engine.processes.trees import TAG
from go_ent.engine.prompts import Prompt
from go_ent.engine.server.calls.callers import current
from go_ent.engine.server.calls.elicit import person
from go_ent.engine.server.calls.long_calls import go_on, run_work
from go_ent.engine.server.calls.results import (
    ARRAY,
    BOOLEAN,
    OBJECT,
    READ_ONLY,
    RESUMED,
    RUNS,
    STATUS,
    WORK,
    allow,
    answering,
    cut,
    of_state,
    shape,
)
from go_ent.engine.strategies import Plan, parse_plan
from go_ent.engine.strategies.work import Work

if TYPE_CHECKING:
    from fastmcp import FastMCP

MOST_LISTED = 20
BUDGET = shape(
    "day",
    day=OBJECT,
    month=OBJECT,
    task={},
    execution={},
    hard=BOOLEAN,
    runtimes=ARRAY,
    models=ARRAY,
    reservations=ARRAY,
)
LOOKED: dict[str, Any] = {
    "type": "object",
    "properties": {**STATUS["properties"], "checkpoints": ARRAY, "executions": ARRAY},
}
DECIDES = {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": True, "openWorldHint": False}


def add(server: FastMCP, engine: Engine, composer: Composer) -> None:
    """Add the tools to *server*. An agent that go-ent itself has started may look, but starts no further agents."""
    if TAG not in os.environ:
        _add_running(server, engine, composer)

    @server.tool(annotations=READ_ONLY, output_schema=LOOKED)
    @answering()
    async def engine_status(
        execution_id: Annotated[str | None, Field(description="Or its start; omit it to list the newest.")] = None,
    ) -> ToolResult:
        """An execution's status, results and waiting calls; or a list of the newest."""
        if execution_id is not None:
            return of_state(await current().find(engine, execution_id))
        found = await current().executions(engine, MOST_LISTED)
        listed = [
            {"execution_id": one.id, "status": one.status, "kind": one.kind, "title": one.title, "created": one.created}
            for one in found
        ]
        return ToolResult(structured_content={"executions": listed})

    @server.tool(annotations=READ_ONLY, output_schema=BUDGET)
    @answering()
    async def engine_budget() -> ToolResult:
        """What was spent today and this month, what is reserved, and the limits."""
        report = (await engine.budget()).model_dump(mode="json")
        if (name := current().name) and name in report["clients"]:
            return ToolResult(structured_content={"day": report["clients"][name]})
        if name:
            raise NotAllowed(f"client {name} has no budget of its own and has spent nothing today")
        return ToolResult(structured_content=report)


def _add_running(server: FastMCP, engine: Engine, composer: Composer) -> None:
    @server.tool(annotations=RUNS, output_schema=WORK)
    @answering("agents")
    async def engine_execute(
        task: Annotated[str, Field(description="What to do.")] = "",
        plan: Annotated[
            list[dict[str, Any]] | dict[str, Any] | None,
            Field(
                description="Instead: a graph of {id, prompt | tool, inputs | code | command, depends_on, …}; "
                "`${id.output}` is a result."
            ),
        ] = None,
        strategy: Literal["auto", "single", "multi", "parallel"] = "auto",
        type: str = "other",
        role: Annotated[str | None, Field(description="Who does it: developer, reviewer …")] = None,
        skills: list[str] | None = None,
        model: str | None = None,
        runtime: Annotated[
            str | None, Field(description="claude-code, open-code or cli; default: the first available.")
        ] = None,
        command: Annotated[str | None, Field(description="A command from the configuration.")] = None,
        tool: Annotated[str | None, Field(description="Instead: a composed tool.")] = None,
        inputs: Annotated[dict[str, Any] | None, Field(description="The tool's inputs.")] = None,
        access: Annotated[Literal["none", "read", "edit"], Field(description="To the project's files.")] = "edit",
        files: Annotated[list[str] | None, Field(description="Shown to the agent.")] = None,
        context: Annotated[str, Field(description="Background for the agent.")] = "",
        pinned: Annotated[list[str] | None, Field(description="Kept word for word in every prompt.")] = None,
        threshold: Annotated[float | None, Field(description="Summarise above this share of the window.")] = None,
        budget: Annotated[dict[str, float] | None, Field(description="{usd, tokens}")] = None,
        timeout_s: float | None = None,
        concurrency: int | None = None,
        dry_run: Annotated[bool, Field(description="Show the prompts, start nothing.")] = False,
        wait: Annotated[bool, Field(description="False: return the id at once; poll engine_status.")] = True,
    ) -> ToolResult:
        """Run a task, handoff chain (multi) or graph (plan) with an agent, a command or the sandbox, within budget."""
        given: dict[str, Any] = {
            "description": task,
            "strategy": strategy,
            "type": type,
            "role": role,
            "skills": skills,
            "model": model,
        }
        given |= {
            "runtime": runtime,
            "command": command,
            "tool": tool,
            "inputs": inputs,
            "access": access,
            "files": files,
        }
        given |= {
            "context": context,
            "budget": budget,
            "timeout_s": timeout_s,
            "pinned": pinned,
            "threshold": threshold,
        }
        work = (
            _plan(plan, given)
            if plan is not None
            else Task(**{name: value for name, value in given.items() if value is not None})
        )
        if plan is None and concurrency is not None:
            raise BadTask("concurrency is for a plan")
        _check_guests(work)
        if dry_run:
            prompts = [{"id": step, "prompt": cut(_shown(shown))} for step, shown in await engine.dry_run(work)]
            return ToolResult(structured_content={"status": "dry run: nothing was started", "prompts": prompts[:50]})
        if wait:
            return await run_work(work, engine, concurrency=concurrency)
        execution_id = await engine.start(work, may_start=False, concurrency=concurrency, client=current().name)
        return ToolResult(structured_content={"execution_id": execution_id, "status": "running"})

    @server.tool(annotations=DECIDES, output_schema=STATUS)
    @answering()
    async def engine_interrupt(
        execution_id: str,
        cancel: Annotated[bool, Field(description="For good: it can't be resumed.")] = False,
    ) -> ToolResult:
        """Stop an execution. Its work is kept; engine_resume continues it."""
        return of_state(await engine.interrupt((await current().find(engine, execution_id)).id, cancel=cancel))

    @server.tool(annotations=RUNS, output_schema=RESUMED)
    @answering()
    async def engine_resume(
        execution_id: str,
        unfinished: Annotated[
            list[str] | None,
            Field(
                description="For calls or steps that may or may not have been done: retry, skip, fail, or NAME=retry …"
            ),
        ] = None,
        timeout_s: Annotated[float | None, Field(description="For code, from now on.")] = None,
        anyway: Annotated[bool, Field(description="Even if something has changed.")] = False,
        from_checkpoint: Annotated[str | None, Field(description="Undo what came after it.")] = None,
    ) -> ToolResult:
        """Resume an interrupted, paused or failed execution; finished work is not run again."""
        state = await current().find(engine, execution_id)
        if guest_order(state) is None:
            allow("agents")  # a client that may start none any more
        most = composer.box.limits.timeout_s
        if timeout_s is not None and most is not None and timeout_s > most:
            raise BadTask(f"timeout_s can be at most {most:g}: that is the project's limit")
        decided = Unfinished.parse(unfinished or ())
        return await go_on(
            state,
            composer,
            engine,
            unfinished=decided,
            anyway=anyway,
            timeout_s=timeout_s,
            from_checkpoint=from_checkpoint,
        )

    @server.tool(annotations={**DECIDES, "idempotentHint": False}, output_schema=STATUS)
    @answering("agents")
    async def engine_approve(
        execution_id: str,
        approve: Annotated[bool, Field(description="False rejects: the call fails.")] = True,
        call: Annotated[str | None, Field(description="One waiting call; default all.")] = None,
    ) -> ToolResult:
        """Record the user's decision on calls that wait for approval; then call engine_resume."""
        state = await current().find(engine, execution_id)
        if approve and person() is not None:
            raise NotAllowed("the user of this client can be asked: engine_resume asks about each call that waits")
        return of_state(await engine.decide(state.id, call, approved=approve))


def _plan(plan: list[dict[str, Any]] | dict[str, Any], given: dict[str, Any]) -> Plan:
    """A graph. What else was given belongs into its tasks."""
    own = {name: given[name] for name in ("budget", "threshold") if given[name] is not None}
    usual = {
        "strategy": ("auto", "parallel"),
        "type": ("other",),
        "access": ("edit",),
        **{name: (one,) for name, one in own.items()},
    }
    wrong = [name for name, value in given.items() if value and value not in usual.get(name, ())]
    if wrong:
        named = "task" if wrong[0] == "description" else wrong[0]
        raise BadTask(f"a plan is a graph of its own: {named} belongs into its tasks")
    found = plan if isinstance(plan, dict) else {"task": plan}
    return parse_plan({**found, **own})


def _check_guests(work: Work) -> None:
    """Refuse code and tools that would run with more than a client's own grants."""
    if current().allow is None:
        return
    tasks = work.task if isinstance(work, Plan) else (work,) if isinstance(work, Task) else work
    if any(task.tool or task.code for task in tasks):
        raise NotAllowed(
            f"client {current().name} runs code and composed tools with code_execute and tool_run, within its "
            "own grants"
        )


def _shown(shown: Prompt | str) -> str:
    return shown.text() if isinstance(shown, Prompt) else f"(no prompt: runs {shown})"

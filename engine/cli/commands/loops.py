"""`go-ent loop`: a task, again and again, until a check passes."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from go_ent.engine.cli import UsageError
from go_ent.engine.cli.commands.run import (
    Access,
    FileName,
    Kind,
    ModelName,
    Role,
    Runtime,
    Skill,
    TaskText,
    Timeout,
    TokenCount,
    Usd,
    budget_of,
    make_task,
)
from go_ent.engine.cli.commands.shared import JsonFlag, Telling, YesFlag, dollars, table, with_engine
from go_ent.engine.cli.inputs.reading import read_inputs
from go_ent.engine.cli.terminal.output import say, short, show_json
from go_ent.engine.cli.terminal.progress import QuietFlag, tell
from go_ent.engine.cli.terminal.render import show_result
from go_ent.engine.cli.terminal.signals import Going, say_interrupted
from go_ent.engine.core.outcomes import EXIT_CODES, TASK_EXIT_CODES
from go_ent.engine.workflows.loop import Iteration, Loop, LoopResult, LoopState
from go_ent.engine.workflows.loop_checks import CommandCheck, ModelCheck, ToolCheck

if TYPE_CHECKING:
    from go_ent.engine.engine import Engine


def loop_command(
    task: TaskText = None,
    /,
    *,
    check: Annotated[str | None, Parameter(help="A command that passes if it exits with 0, like 'make test'.")] = None,
    check_tool: Annotated[str | None, Parameter(help="A composed tool that passes if it returns true.")] = None,
    check_input: Annotated[str, Parameter(help="The tool's inputs: a JSON object, or @FILE.")] = "{}",
    check_model: Annotated[str | None, Parameter(help="A criterion that a model judges.")] = None,
    max_iterations: Annotated[int, Parameter(help="The most iterations to run.")] = 10,
    resume: Annotated[str | None, Parameter(help="Resume the loop with this id.")] = None,
    list_: Annotated[bool, Parameter(name="--list", negative="", help="List this project's loops.")] = False,
    cancel: Annotated[str | None, Parameter(help="Cancel the loop with this id.")] = None,
    role: Role = None,
    type: Kind = None,
    skill: Skill = None,
    model: ModelName = None,
    runtime: Runtime = None,
    file: FileName = None,
    access: Access = None,
    budget_usd: Usd = None,
    budget_tokens: TokenCount = None,
    timeout: Timeout = None,
    yes: YesFlag = False,
    quiet: QuietFlag = False,
    json_: JsonFlag = False,
) -> int:
    """Run a task until a check passes. What the check said is told to the next iteration.

    The same failure three times in a row ends it: then the task must change. The budget is the whole loop's.
    """
    if list_ or cancel is not None:
        if task is not None or resume is not None or (list_ and cancel is not None):
            raise UsageError("--list and --cancel ID stand alone: leave the task and the rest out")
        return with_engine(
            lambda engine: _list(engine, json_=json_) if cancel is None else _cancel(engine, cancel, json_=json_)
        )
    checks = [
        CommandCheck.parse(check) if check is not None else None,
        ToolCheck(tool=check_tool, inputs=read_inputs(check_input)) if check_tool is not None else None,
        ModelCheck(criterion=check_model) if check_model is not None else None,
    ]
    given = [one for one in checks if one is not None]
    if resume is None and (task is None or len(given) != 1):
        raise UsageError(
            "loop needs a task and one check: --check COMMAND, --check-tool NAME or --check-model CRITERION"
        )
    if resume is not None and (task is not None or given):
        raise UsageError("--resume takes the loop as it was: leave the task and the check out")
    made = None
    if task is not None:
        made = make_task(
            description=sys.stdin.read(4_000_001) if task == "-" else task,
            role=role,
            type=type,
            skills=skill,
            model=model,
            runtime=runtime,
            files=file,
            access=access,
            timeout_s=timeout,
            budget=budget_of(budget_usd, budget_tokens),
        )

    async def work(engine: Engine) -> int:
        if made is not None:
            engine.check(made)
            loop = await asyncio.to_thread(Loop.start, engine.project, made, given[0], max_iterations=max_iterations)
        else:
            loop = await asyncio.to_thread(Loop.resume, engine.project, str(resume))
        going.append((f"loop {loop.id}", f"go-ent loop --resume {loop.id}"))
        if not quiet:
            say(f"loop {loop.id}", err=True)
        tell("iteration 1")
        engine.listeners.append(Telling(quiet=json_, told=True, silent=quiet))
        return _finish(
            await loop.run(engine, stop=engine.stopping, on_iteration=lambda one: _tell(one, quiet=quiet)), json_=json_
        )

    going: list[Going] = []
    return with_engine(work, yes=yes, progress="running", quiet=quiet or json_, going=going)


async def _list(engine: Engine, *, json_: bool) -> int:
    found = await asyncio.to_thread(Loop.all, engine.project)
    for problem in found.problems:
        say(problem, err=True)
    if json_:
        show_json([_row(state) for state in found.states])
    elif not found.states:
        say("no loops yet: go-ent loop TASK --check COMMAND starts one", err=True)
    else:
        head = ["id", "status", "iterations", "spent", "title", "message"]
        rows = []
        for state in found.states:
            count = f"{len(state.iterations)} of {state.max_iterations}"
            rows.append(
                [
                    state.id,
                    state.status,
                    count,
                    dollars(state.spent.cost_usd),
                    short(state.task.title)[:40],
                    short(state.message),
                ]
            )
        table(rows, head, right=("spent",), spare=("title", "spent"))
    return 0


async def _cancel(engine: Engine, loop_id: str, *, json_: bool) -> int:
    state = await asyncio.to_thread(Loop(engine.project, loop_id).cancel)
    if json_:
        show_json(_row(state))
    else:
        say(f"loop {state.id} is {state.status}")
    return 0


def _row(state: LoopState) -> dict[str, Any]:
    whole = state.model_dump(
        mode="json", include={"id", "status", "outcome", "message", "max_iterations", "created", "updated"}
    )
    return {**whole, "title": state.task.title, "iterations": len(state.iterations), "spent_usd": state.spent.cost_usd}


def _tell(iteration: Iteration, *, quiet: bool) -> None:
    said = iteration.check.feedback if iteration.check is not None else iteration.error or "failed"
    tell(f"iteration {iteration.number + 1}")
    if not quiet:
        say(f"iteration {iteration.number}: {'passed' if iteration.passed else short(said)}", err=True)


def _finish(result: LoopResult, *, json_: bool) -> int:
    last = result.result
    paused = last is not None and any(step.status == "paused" for step in last.steps)
    if json_:
        show_json(result.model_dump_json())
    else:
        if last is not None and last.output:
            show_result(last.output)
        say(f"{result.state}: {result.message}", err=True)
        for warning in result.warnings:
            say(f"warning: {warning}", err=True)
        if result.state == "paused" and paused:
            say(f"a call waits for approval; go on, approving: go-ent loop --yes --resume {result.loop_id}", err=True)
    if result.state == "paused" and not paused:
        say_interrupted(f"loop {result.loop_id}", f"go-ent loop --resume {result.loop_id}")
    if result.state == "paused":
        return EXIT_CODES["paused" if paused else "interrupted"]
    return TASK_EXIT_CODES[result.status]

"""`go-ent workflow`: steps with wait points, and what became of them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from go_ent.engine.cli import UsageError
from go_ent.engine.cli.commands.shared import JsonFlag, Telling, YesFlag, dollars, with_engine
from go_ent.engine.cli.terminal.output import say, short, show_json
from go_ent.engine.cli.terminal.progress import QuietFlag
from go_ent.engine.cli.terminal.signals import Going, say_interrupted
from go_ent.engine.core.outcomes import EXIT_CODES
from go_ent.engine.workflows.workflow import Workflows, WorkflowState, read_workflow

if TYPE_CHECKING:
    from go_ent.engine.engine import Engine

NameOf = Annotated[str, Parameter(help="The workflow's name.")]


def start_command(
    name: Annotated[str | None, Parameter(help="The workflow's name; by default the file's name.")] = None,
    /,
    *,
    plan: Annotated[Path | None, Parameter(help="A TOML or JSON file with [[step]] entries.")] = None,
    yes: YesFlag = False,
    quiet: QuietFlag = False,
    json_: JsonFlag = False,
) -> int:
    """Start a workflow, or go on with one that is active: up to its next wait point, or its end."""

    async def work(engine: Engine) -> int:
        workflows = Workflows(engine.project)
        called = name
        if plan is not None:
            found = read_workflow(plan)
            called = name or found.name or plan.stem
            for step in found.step:
                engine.check(step)
            await asyncio.to_thread(workflows.start, called, found.step)
        if called is None:
            raise UsageError("workflow start needs --plan FILE, or the name of a workflow that is there")
        return await _advance(engine, workflows, called, going, json_=json_, quiet=quiet)

    going: list[Going] = []
    return with_engine(work, yes=yes, progress="running", quiet=quiet or json_, going=going)


def approve_command(
    name: NameOf,
    /,
    *,
    at: Annotated[str | None, Parameter(help="Approve only if it waits at this step.")] = None,
    yes: YesFlag = False,
    quiet: QuietFlag = False,
    json_: JsonFlag = False,
) -> int:
    """Go on from the wait point, or try the failed step again."""

    async def work(engine: Engine) -> int:
        workflows = Workflows(engine.project)
        await asyncio.to_thread(workflows.approve, name, at)
        return await _advance(engine, workflows, name, going, json_=json_, quiet=quiet)

    going: list[Going] = []
    return with_engine(work, yes=yes, progress="running", quiet=quiet or json_, going=going)


def cancel_command(name: NameOf, /, *, json_: JsonFlag = False) -> int:
    """End a workflow where it stands."""

    async def work(engine: Engine) -> int:
        _print(await asyncio.to_thread(Workflows(engine.project).cancel, name), json_=json_)
        return 0

    return with_engine(work, quiet=json_)


def status_command(
    name: Annotated[str | None, Parameter(help="The workflow's name; by default all workflows.")] = None,
    /,
    *,
    json_: JsonFlag = False,
) -> int:
    """Where workflows stand, and what they have cost."""

    async def work(engine: Engine) -> int:
        workflows = Workflows(engine.project)
        if name is not None:
            _print(await asyncio.to_thread(workflows.get, name), json_=json_, history=True)
            return 0
        found = await asyncio.to_thread(workflows.all)
        if json_:
            show_json([state.model_dump(mode="json") for state in found.states])
        for problem in found.problems:
            say(problem, err=True)
        if not json_ and not found.states:
            say("no workflows yet: go-ent workflow start --plan FILE starts one", err=True)
        elif not json_:
            say("\n".join(short(state.summary) for state in found.states))
        return 0

    return with_engine(work, quiet=json_)


async def _advance(
    engine: Engine, workflows: Workflows, name: str, going: list[Going], *, json_: bool, quiet: bool
) -> int:
    going.append((f"workflow {name}", f"go-ent workflow start {name}"))
    engine.listeners.append(Telling(quiet=json_, told=True, silent=quiet))
    state = await workflows.advance(name, engine, stop=engine.stopping)
    _print(state, json_=json_)
    if engine.stopping.is_set() and state.status == "active":
        say_interrupted(*going[0])
        return EXIT_CODES["interrupted"]
    if state.status == "waiting":
        return EXIT_CODES["error"] if state.error else EXIT_CODES["paused"]
    return 0


def _print(state: WorkflowState, *, json_: bool, history: bool = False) -> None:
    if json_:
        show_json(state.model_dump_json())
        return
    say(state.summary)
    if state.outputs and state.status != "cancelled":  # what a question is about, and what came of it all
        step, output = list(state.outputs.items())[-1]
        say(f"{step}: {short(output)}", err=True)
    if state.status == "waiting":
        what = "try it again" if state.error else "go on"
        say(f"{what}: go-ent workflow approve {state.name}", err=True)
    if history:
        for record in state.history.records:
            how = "ok" if record.success else "failed"
            tokens = "" if record.tokens is None else f", {record.tokens:,} tokens"
            say(f"  {record.task_id}: {how} on {record.runtime or '-'}{tokens}, {dollars(record.cost_usd)}")
        totals = state.history.totals()
        count = f"{totals.count} execution{'' if totals.count == 1 else 's'}, {totals.successes} succeeded"
        say(f"  {count}, {totals.tokens:,} tokens, {dollars(totals.cost_usd)}")

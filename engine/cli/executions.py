"""`go-ent ps`, `status`, `interrupt`, `resume`: executions, wherever they run."""

from __future__ import annotations

import time
from typing import Annotated, Any

from cyclopts import Parameter
from pydantic_core import to_json

from engine.cli.engine import JsonFlag, Telling, YesFlag, dollars, finish, table, with_engine
from engine.cli.texts import say, short, show
from engine.engine import Engine
from engine.executions.state import ExecutionState

Id = Annotated[str, Parameter(help="The id of an execution, or the beginning of it.")]


def ps_command(
    *,
    limit: Annotated[int, Parameter(help="How many, the newest first.")] = 20,
    json_: JsonFlag = False,
) -> int:
    """The executions of this project, the newest first."""

    async def work(engine: Engine) -> int:
        found = await engine.executions(max(1, limit))
        if json_:
            show(to_json([_row(state) for state in found]).decode())
            return 0
        if not found:
            say("no executions yet", err=True)
            return 0
        rows = []
        for state in found:
            rows.append([state.id, state.status, state.kind, _ago(state.created), dollars(state.spent_usd), short(state.title)[:60]])
        table(rows, ["id", "status", "kind", "begun", "spent", "title"])
        return 0

    return with_engine(work)


def status_command(execution: Id, /, *, json_: JsonFlag = False) -> int:
    """One execution: its steps, what they cost, where it stands."""

    async def work(engine: Engine) -> int:
        state = await engine.status(execution)
        if json_:
            show(state.model_dump_json())
            return 0
        say(f"{state.title}\n  id        {state.id}\n  status    {state.status}\n  strategy  {state.strategy}: {state.strategy_reason}")
        say(f"  begun     {_ago(state.created)}\n  spent     {dollars(state.spent_usd)}, {state.spent_tokens:,} tokens")
        done = {one.task_id: state.results.get(one.task_id, one) for one in (state.result.steps if state.result is not None else ())}
        for step, result in {**done, **state.results}.items():
            if result.status in ("skipped", "interrupted") and not result.attempts:
                say(f"  {step}: {result.status}: {result.error or ''}")
                continue
            runtime = f" on {result.runtime}" if result.runtime else ""
            say(f"  {step}: {result.status}{runtime}, {result.duration_ms / 1000:.1f} s, {dollars(result.cost_usd)}")
            for attempt in result.attempts[:-1]:
                say(f"    {attempt.runtime} before: {attempt.failure}: {(attempt.error or '')[:120]}")
            if result.error:
                say(f"    {result.error[:300]}")
        for step in state.running:
            say(f"  {step}: running")
        if state.result is not None and state.result.output:
            say(f"  output    {short(state.result.output)}")
        if state.error:
            say(f"  error     {state.error[:500]}")
        return 0

    return with_engine(work)


def interrupt_command(execution: Id, /, *, json_: JsonFlag = False) -> int:
    """Stop an execution, also one of another process. It keeps what it has done: resume goes on."""

    async def work(engine: Engine) -> int:
        state = await engine.interrupt(execution)
        if json_:
            show(to_json(_row(state)).decode())
        else:
            say(f"{state.id} is {state.status}; go on with it: go-ent resume {state.id}")
        return 0

    return with_engine(work)


def resume_command(execution: Id, /, *, yes: YesFlag = False, json_: JsonFlag = False) -> int:
    """Go on with an execution that was interrupted or has failed. What it has finished is not run again."""

    async def work(engine: Engine) -> int:
        return finish(engine, await engine.resume(execution, on_event=Telling(quiet=json_)), json_=json_)

    return with_engine(work, yes=yes)


def _row(state: ExecutionState) -> dict[str, Any]:
    whole = state.model_dump(mode="json", include={"id", "parent", "kind", "status", "title", "strategy", "created", "updated", "finished"})
    return {**whole, "spent_usd": state.spent_usd, "spent_tokens": state.spent_tokens}


def _ago(at: float) -> str:
    seconds = max(0, round(time.time() - at))
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {unit} ago"
    return f"{seconds} s ago"

"""`go-ent interrupt`, `resume`, `approve`, `reject`, `checkpoint`: executions, wherever they run."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from go_ent.engine.cli import SETUP_ERROR, UsageError
from go_ent.engine.cli.commands.choosing import Id, OptionalId, meant, meant_or_last
from go_ent.engine.cli.commands.exec import print_run
from go_ent.engine.cli.commands.executions.listing import row_of, to_go_on
from go_ent.engine.cli.commands.shared import (
    HereFlag,
    JsonFlag,
    LabelOption,
    Telling,
    YesFlag,
    finish,
    with_engine,
)
from go_ent.engine.cli.terminal.ask import approve_all
from go_ent.engine.cli.terminal.output import say, short, show_json
from go_ent.engine.cli.terminal.progress import QuietFlag
from go_ent.engine.core.ids import short_id
from go_ent.engine.core.outcomes import EXIT_CODES
from go_ent.engine.executions.state import FINISHED, ExecutionState
from go_ent.engine.executions.tape import Unfinished
from go_ent.engine.guest_runs.runs import guest_order

if TYPE_CHECKING:
    from go_ent.engine.engine import Engine
    from go_ent.engine.strategies.replanning import ChangedPlan

Call = Annotated[str | None, Parameter(help="The call, as go-ent status shows it; by default every waiting call.")]


def interrupt_command(
    execution: OptionalId = None,
    /,
    *,
    cancel: Annotated[bool, Parameter(negative="", help="Cancel it for good: it can't be resumed.")] = False,
    json_: JsonFlag = False,
) -> int:
    """Stop an execution, also one of another process. It keeps what it has done: resume goes on. Without an id: the
    last that runs, or with --cancel the last that has not finished.

    Example: go-ent interrupt last
    """
    if cancel:
        _, execution_id = meant_or_last(execution, "can be cancelled", lambda row: row.status not in FINISHED)
    else:
        _, execution_id = meant_or_last(execution, "runs", lambda row: row.status in ("running", "pending", "paused"))

    async def work(engine: Engine) -> int:
        state = await engine.interrupt(execution_id, cancel=cancel)
        stopped = state.status in ("interrupted", "cancelled")
        if json_:
            show_json(row_of(state))
        elif not stopped:
            say(f"{short_id(state.id)} could not be stopped any more: it is {state.status}", err=True)
        else:
            say(f"{short_id(state.id)} is {state.status}" + ("" if cancel else f"; to resume: {to_go_on(state)}"))
        return 0 if stopped else SETUP_ERROR

    return with_engine(work, quiet=json_)


def resume_command(
    execution: OptionalId = None,
    /,
    *,
    unfinished: Annotated[
        list[str] | None,
        Parameter(
            help="What to do with calls and steps that may or may not have been done: retry runs them again, skip "
            "counts them as done, fail makes them fail. NAME=retry is for one of them. Repeatable."
        ),
    ] = None,
    timeout: Annotated[
        float | None, Parameter(help="Wall time in seconds from now on, for code and composed tools.")
    ] = None,
    anyway: Annotated[bool, Parameter(negative="", help="Resume even though something relevant has changed.")] = False,
    from_: Annotated[
        str | None,
        Parameter(name="--from", help="Go back to this checkpoint (label or number) first; later steps run again."),
    ] = None,
    plan: Annotated[
        Path | None,
        Parameter(help="Take the plan in this file instead: finished steps that did not change stay finished."),
    ] = None,
    here: HereFlag = False,
    label: LabelOption = None,
    yes: YesFlag = False,
    quiet: QuietFlag = False,
    json_: JsonFlag = False,
) -> int:
    """Go on with an execution that was interrupted, is paused or has failed. What it has finished is not run again.
    Without an id: the last that can be resumed.

    One over the lines of stdin is given the same lines again. If the file of a plan has changed since, the changes are
    shown: --plan FILE takes them, as a new execution that begins with what stays finished; --anyway does not.

    Example: go-ent resume last --yes
    """
    _, execution_id = meant_or_last(execution, "can be resumed", lambda row: row.resumable)
    plan = None if plan is None else Path(os.path.abspath(plan))

    async def work(engine: Engine) -> int:
        from go_ent.engine.cli.plans.reuse import changed_plan

        state = await engine.status(execution_id)
        changed = await asyncio.to_thread(changed_plan, state, plan)
        if changed is not None and plan is None and not anyway:
            name = f"go-ent resume {short_id(state.id)}"
            raise UsageError(
                f"{changed.file} has changed since: {changed.said}\n"
                f"{name} --plan {shlex.quote(str(changed.file))} takes the changes\n"
                f"{name} --anyway resumes the plan as it was"
            )
        if changed is not None and plan is not None:
            return await _replan(engine, state, changed, json_=json_, quiet=quiet)
        how = Unfinished.parse(unfinished or ())
        if timeout is not None and guest_order(state) is None:
            raise UsageError("--timeout is for code and composed tools: a task keeps its own")
        options: dict[str, Any] = {"unfinished": how, "anyway": anyway, "from_checkpoint": from_, "timeout_s": timeout}
        options |= {"here": here, "label": label}
        return await _resume(engine, state, options, yes=yes, quiet=quiet, json_=json_)

    return with_engine(work, yes=yes, progress="going on", quiet=quiet or json_)


async def _replan(engine: Engine, state: ExecutionState, changed: ChangedPlan, *, json_: bool, quiet: bool) -> int:
    """Go on with a plan that has changed: a new execution, which begins with what stays finished of the old one."""
    from go_ent.engine.cli.commands.run import refuse_problems
    from go_ent.engine.cli.plans.reuse import resume_with

    await refuse_problems(engine, changed.now)
    finished = await resume_with(engine, state, changed)
    if not quiet:
        say(
            f"{changed.said or 'the plan has not changed'}\nfinished before: {', '.join(finished) or 'nothing'}",
            err=True,
        )
    telling = Telling(quiet=json_, silent=quiet)
    started = await engine.start(changed.now, on_event=telling, plan_file=str(changed.file), finished=finished)
    if state.status not in FINISHED:
        await engine.interrupt(state.id, cancel=True)
        if not quiet:
            say(f"{short_id(started)} takes the place of {short_id(state.id)}, which is cancelled", err=True)
    return finish(engine, await engine.wait(started), telling, json_=json_, quiet=quiet)


async def _resume(
    engine: Engine, state: ExecutionState, options: dict[str, Any], *, yes: bool, json_: bool, quiet: bool = False
) -> int:
    order = guest_order(state)
    if order is not None and order.each:
        source = None
        from go_ent.engine.cli.commands.pipeline import Shown, run_batch

        if order.each_files:
            from go_ent.engine.cli.inputs.sources import Files

            source = Files(order.each_files)
        elif sys.stdin.isatty():
            raise UsageError(
                "this execution runs a tool for each line of stdin, and needs the same lines again: go-ent resume "
                f"{short_id(state.id)} < LINES"
            )
        batch, changes = await engine.resume_batch(state.id, **options)
        async with batch:
            for change in changes:
                say(change.text, err=True)
            return await run_batch(batch, approve_all if yes else None, Shown(json_, quiet), source)
    telling = Telling(quiet=json_, silent=quiet)
    if order is not None:  # a run goes on here, unless it is said where
        options |= {"here": options.get("label") is None}
    resumed = await engine.go_on(state.id, on_event=telling, **options)
    if resumed.run is None:
        return finish(engine, resumed.result, telling, json_=json_, quiet=quiet)
    for change in resumed.changes:
        say(change.text, err=True)
    print_run(resumed.run, project=engine.project, whole=json_, is_tool=order is not None and order.tool is not None)
    return EXIT_CODES[resumed.run.status]


def approve_command(
    execution: Id,
    call: Call = None,
    /,
    *,
    resume: ResumeFlag = False,
    comment: CommentOption = "",
    json_: JsonFlag = False,
) -> int:
    """Approve calls that wait for it. The execution goes on with resume."""
    return _decide(execution, call, approved=True, resume=resume, comment=comment, json_=json_)


def reject_command(
    execution: Id,
    call: Call = None,
    /,
    *,
    resume: ResumeFlag = False,
    comment: CommentOption = "",
    json_: JsonFlag = False,
) -> int:
    """Reject calls that wait for approval: they fail, and the code may catch that. The execution goes on with
    resume.
    """
    return _decide(execution, call, approved=False, resume=resume, comment=comment, json_=json_)


CommentOption = Annotated[str, Parameter(help="Why, in your words; it is kept on record.", allow_leading_hyphen=True)]
ResumeFlag = Annotated[bool, Parameter(negative="", help="Resume at once if no other call waits.")]


def _decide(typed: str, call: str | None, *, approved: bool, resume: bool, comment: str, json_: bool) -> int:
    execution = meant(typed)

    async def work(engine: Engine) -> int:
        before = await engine.status(execution)
        state = await engine.decide(execution, call, approved=approved, why=comment)
        if resume and not state.requests:
            return await _resume(engine, state, {}, yes=False, json_=json_)
        decided = [path for path in before.requests if path not in state.requests]
        if json_:
            said = {
                "id": state.id,
                "status": state.status,
                "approved": approved,
                "calls": decided,
                "waiting": list(state.requests),
            }
            show_json(said)
            return 0
        for path in decided:
            say(f"{'approved' if approved else 'rejected'}: call {path}, {before.requests[path].tool}")
        count = len(state.requests)
        waits = f"{count} more {'waits' if count == 1 else 'wait'}: go-ent status {short_id(state.id)}"
        say(waits if count else f"to resume: {to_go_on(state)}")
        return 0

    return with_engine(work, quiet=json_)


def checkpoint_command(
    execution: Id,
    /,
    *,
    label: Annotated[str, Parameter(help="The checkpoint's label.")] = "by hand",
    value: Annotated[str | None, Parameter(help="A JSON value to store with it.", allow_leading_hyphen=True)] = None,
    remove: Annotated[str | None, Parameter(help="Remove the checkpoint with this label or number instead.")] = None,
    json_: JsonFlag = False,
) -> int:
    """Mark where an execution stands now: its state is written, and everything of it is on disk.

    go-ent resume ID --from LABEL goes back to it.
    """
    execution_id = meant(execution)
    try:
        given = None if value is None else json.loads(value)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"--value is not JSON: {error}") from None

    async def work(engine: Engine) -> int:
        if remove is not None:
            state = await engine.remove_checkpoint(execution_id, remove)
        else:
            state = await engine.checkpoint(execution_id, label, given)
        if json_:
            show_json([one.model_dump(mode="json") for one in state.checkpoints])
        else:
            count = len(state.checkpoints)
            what = f"checkpoint {label}" if remove is None else f"checkpoint {short(remove)} is removed"
            say(f"{short_id(state.id)}: {what}; {'1 is' if count == 1 else f'{count} are'} kept")
        return 0

    return with_engine(work, quiet=json_)

"""`go-ent ps`, `status`, `logs`, `interrupt`, `resume`, `approve`, `reject`, `checkpoint`: executions, wherever they
run.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter
from pydantic_core import to_json

from go_ent.composer.project.files import STATE, find_project
from go_ent.engine.cli import SETUP_ERROR, UsageError
from go_ent.engine.cli.commands.exec import print_run
from go_ent.engine.cli.commands.shared import JsonFlag, Telling, YesFlag, dollars, finish, table, with_engine
from go_ent.engine.cli.terminal.ask import approve_all, whole
from go_ent.engine.cli.terminal.completion_values import execution_ids
from go_ent.engine.cli.terminal.output import STYLES, ago, say, short, show_json
from go_ent.engine.cli.terminal.progress import QuietFlag
from go_ent.engine.cli.terminal.tables import Branch, show_tree
from go_ent.engine.core.models import ExecutionKind
from go_ent.engine.core.outcomes import EXIT_CODES
from go_ent.engine.executions.state import ExecutionState, ExecutionStatus
from go_ent.engine.executions.storage import Row
from go_ent.engine.executions.store import ExecutionStore
from go_ent.engine.executions.tape import Unfinished
from go_ent.engine.executions.tree import TreeNode, tree
from go_ent.engine.guest_runs.runs import guest_order
from go_ent.engine.storage.file_storage import open_store

if TYPE_CHECKING:
    from go_ent.engine.engine import Engine

Id = Annotated[str, Parameter(help="The execution's id, or the start of it.", completer=execution_ids)]
Call = Annotated[str | None, Parameter(help="The call, as go-ent status shows it; by default every waiting call.")]
FOLLOW_S = 0.2
MOST_SUMMARIES = 20


def ps_command(
    *,
    limit: Annotated[int, Parameter(help="How many to list.")] = 20,
    status: Annotated[ExecutionStatus | None, Parameter(help="Only executions with this status.")] = None,
    kind: Annotated[ExecutionKind | None, Parameter(help="Only executions of this kind.")] = None,
    parent: Annotated[str | None, Parameter(help="Only executions started by this one.")] = None,
    json_: JsonFlag = False,
) -> int:
    """The executions of this project, the newest first."""
    if limit < 1:
        raise UsageError(f"--limit is how many are listed: 1 or more, not {limit}")
    store = open_store(find_project("."))
    above = None if parent is None else store.find(parent)
    found = store.rows(limit=limit, status=status, kind=kind, parent=above)
    for name, why in store.index.missing().items():
        say(f"{name} can't be used: {why}", err=True)
    if json_:
        show_json([_row(row) for row in found])
        return 0
    if not found:
        nothing = "nothing was run here yet: try go-ent exec -c '1 + 1', or go-ent run TASK"
        say("no executions of that kind" if status or kind or parent else nothing, err=True)
        if not (find_project(".") / STATE).is_dir():
            say(
                "this folder is no project, and what runs outside of one is not on record: go-ent init makes it one",
                err=True,
            )
        return 0
    rows = [[row.id, row.status, row.kind, ago(row.created), _cost(row.spent_usd), short(row.title)] for row in found]
    table(rows, ["id", "status", "kind", "begun", "cost", "title"], right=("cost",), spare=("cost", "kind", "begun"))
    return 0


def status_command(execution: Id, /, *, json_: JsonFlag = False) -> int:
    """One execution: the tree of its steps and calls, how long they took, what they cost, where it stands."""
    store = open_store(find_project("."))
    state = store.load(store.find(execution))
    nodes = tree(state, store.records(state.id))
    if json_:
        show_json({**state.model_dump(mode="json"), "tree": [asdict(node) for node in nodes]})
        return 0
    say(short(state.title), style="bold")
    say(f"  id        {state.id}")
    say("  status    ", end="")
    say(state.status, style=STYLES.get(state.status))
    if state.kind not in ("code", "tool"):
        say(f"  strategy  {state.strategy}: {short(state.strategy_reason)}")
    if state.parent is not None:
        say(f"  parent    {short(state.parent)}")
    say(f"  begun     {ago(state.created)}")
    if state.spent_usd or state.spent_tokens:
        say(f"  cost      {_cost(state.spent_usd)}, {state.spent_tokens:,} tokens")
    if state.lines is not None:
        say(f"  lines     {state.lines.done} done, {state.lines.failed} failed")
    if state.fill is not None:
        share = f"{state.fill.tokens:,} of {state.fill.window:,} tokens for {short(state.fill.step)}"
        made = f"{len(state.context)} summar{'y' if len(state.context) == 1 else 'ies'}"
        say(f"  context   {share}; {made}: go-ent context {state.id}")
    for one in state.context[-MOST_SUMMARIES:]:
        of = f"{short(one.scope or 'what came before')}: {one.tokens_before:,} -> {one.tokens_after:,} tokens"
        cost = "" if one.cost_usd is None else f", {dollars(one.cost_usd)}"
        say(f"  summary {one.number} of {of} by {short(one.by)}{f' ({short(one.model)})' if one.model else ''}{cost}")
    for line in state.damage:
        say(f"  damaged   {short(line)}")
    branches = []
    for node in nodes[:200]:
        branches.append(_branch(node, 1))
        for attempt in state.results[node.path].attempts[:-1] if node.path in state.results else ():
            if attempt.failure is not None:
                said = f"{short(attempt.runtime)} before: {attempt.failure}: {short(attempt.error or '')[:120]}"
                branches[-1].children.append(Branch(said))
    show_tree(branches)
    if len(nodes) > 200:
        say(f"  … and {len(nodes) - 200} more: --json has them")
    for checkpoint in state.checkpoints[-20:]:
        value = json.dumps(checkpoint.value, ensure_ascii=False) if checkpoint.kept else "(too long to be shown)"
        say(f"  checkpoint {short(checkpoint.label)}: {short(value)[:200]} (number {checkpoint.seq})")
    if state.result is not None and state.result.output:
        say(f"  output    {short(state.result.output)}")
    if state.error and state.status != "paused":  # of what waits it says so below, until that is decided
        say(f"  error     {short(state.error)}")
    _say_requests(state)
    return 0


def _branch(node: TreeNode, depth: int) -> Branch:
    took = "" if node.ms is None else f", {node.ms / 1000:.1f} s" if node.ms >= 100 else f", {node.ms:.1f} ms"
    cost = f", {dollars(node.cost_usd)}" if node.cost_usd else ""
    if node.overrun_usd:
        cost += f" ({dollars(node.overrun_usd)} more than was held for it)"
    detail = (
        f"  {short(node.detail)[:300]}" if node.detail and node.status != "paused" else ""
    )  # the call that waits is told by itself
    name = short(node.name if depth == 1 else f"{node.path.rpartition('/')[2]} {node.name}")
    runtime = f" on {short(node.runtime)}" if node.runtime else ""
    made = Branch(f"{name}: {short(node.status)}{runtime}{took}{cost}{detail}", short(node.status))
    made.children = [_branch(child, depth + 1) for child in node.children[:200]]
    if more := node.more + max(0, len(node.children) - 200):
        made.children.append(Branch(f"… and {more} more calls"))
    return made


def _say_requests(state: ExecutionState) -> None:
    for path, request in state.requests.items():
        say(
            f"  waits     call {short(path)}: {short(request.tool)} with {whole(request.arguments)}: "
            f"{short(request.reason)}"
        )
    if state.requests:
        say(f"decide: go-ent approve {state.id}, or go-ent reject {state.id}; then go on: {_to_go_on(state)}")
    elif state.status in ("paused", "interrupted"):
        say(f"go on: {_to_go_on(state)}")


def _to_go_on(state: ExecutionState) -> str:
    """The command that goes on with it; one over the lines of stdin needs them again."""
    order = state.work.get("guest")
    return f"go-ent resume {state.id}" + (" < LINES" if isinstance(order, dict) and order.get("each") else "")


def logs_command(
    execution: Id,
    /,
    *,
    follow: Annotated[
        bool, Parameter(name=["--follow", "-f"], negative="", help="Keep printing until the execution ends.")
    ] = False,
    json_: JsonFlag = False,
) -> int:
    """What an execution has done, record by record, as its journal has it."""
    store = open_store(find_project("."))
    execution_id = store.find(execution)
    for record in _records(store, execution_id, follow=follow):
        try:
            line = to_json(record, inf_nan_mode="null").decode() if json_ else _log_line(record)
        except (ValueError, TypeError, AttributeError, ArithmeticError, OSError, RecursionError) as error:
            said = f"record {record['seq']} can't be shown: {type(error).__name__}"
            line = json.dumps({"seq": record["seq"], "kind": "unreadable", "text": said}) if json_ else said
        show_json(line) if json_ else say(line)
        sys.stdout.flush()
    return 0


def _records(store: ExecutionStore, execution_id: str, *, follow: bool) -> Iterator[dict[str, Any]]:
    offset = 0
    while True:
        over = not follow or store.load(execution_id).status not in ("running", "pending")
        before = offset
        found, offset = store.read_from(execution_id, offset)
        if offset <= before:  # nothing new, or a journal that begins anew: what of it was told is not told again
            found, offset = [], before
        yield from found
        if over and not found:
            return
        if found:
            continue
        time.sleep(FOLLOW_S)


def _log_line(record: dict[str, Any]) -> str:
    at = time.strftime("%H:%M:%S", time.localtime(record.get("at", 0)))
    kind = record["kind"]
    rest = {
        name: value
        for name, value in record.items()
        if name not in ("seq", "at", "kind", "crc", "heard", "seed", "digest", "state")
    }
    match kind:
        case "status":
            changes = rest.get("changes", {})
            said = str(changes.get("status", "")) + (f": {changes['error']}" if changes.get("error") else "")
        case "step_finished":
            result = rest.get("result", {})
            said = f"{rest.get('step')}: {result.get('status')}" + (
                f": {result['error']}" if result.get("error") else ""
            )
        case _:
            where = rest.pop("path", None) or rest.pop("step", None)
            text = "" if not rest else json.dumps(rest, ensure_ascii=False, default=str)
            said = f"{where} {text}" if where is not None else text
    return f"{at}  {kind:<13} {short(said)[:400]}"


def interrupt_command(
    execution: Id,
    /,
    *,
    cancel: Annotated[bool, Parameter(negative="", help="Cancel it for good: it can't be resumed.")] = False,
    json_: JsonFlag = False,
) -> int:
    """Stop an execution, also one of another process. It keeps what it has done: resume goes on."""

    async def work(engine: Engine) -> int:
        state = await engine.interrupt(execution, cancel=cancel)
        stopped = state.status in ("interrupted", "cancelled")
        if json_:
            show_json(_row(state))
        elif not stopped:
            say(f"{state.id} could not be stopped any more: it is {state.status}", err=True)
        else:
            say(f"{state.id} is {state.status}" + ("" if cancel else f"; to resume: {_to_go_on(state)}"))
        return 0 if stopped else SETUP_ERROR

    return with_engine(work, quiet=json_)


def resume_command(
    execution: Id,
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
    yes: YesFlag = False,
    quiet: QuietFlag = False,
    json_: JsonFlag = False,
) -> int:
    """Go on with an execution that was interrupted, is paused or has failed. What it has finished is not run again.

    One over the lines of stdin is given the same lines again.
    """

    async def work(engine: Engine) -> int:
        how = Unfinished.parse(unfinished or ())
        options: dict[str, Any] = {"unfinished": how, "anyway": anyway, "from_checkpoint": from_}
        return await _resume(engine, execution, options, yes=yes, quiet=quiet, json_=json_, timeout_s=timeout)

    return with_engine(work, yes=yes, progress="going on", quiet=quiet or json_)


async def _resume(
    engine: Engine,
    execution: str,
    options: dict[str, Any],
    *,
    yes: bool,
    json_: bool,
    quiet: bool = False,
    timeout_s: float | None = None,
) -> int:
    order = guest_order(await engine.status(execution))
    if order is None:
        telling = Telling(quiet=json_, silent=quiet)
        result = await engine.resume(execution, on_event=telling, **options)
        return finish(engine, result, telling, json_=json_, quiet=quiet)
    if order.each:
        from go_ent.engine.cli.commands.pipeline import run_batch

        if sys.stdin.isatty():
            raise UsageError(
                "this execution runs a tool for each line of stdin, and needs the same lines again: go-ent resume "
                f"{execution} < LINES"
            )
        batch, changes = await engine.resume_batch(execution, **options)
        for change in changes:
            say(change.text, err=True)
        return await run_batch(batch, approve_all if yes else None, whole=json_, quiet=quiet)
    run, changes = await engine.resume_run(execution, timeout_s=timeout_s, **options)
    for change in changes:
        say(change.text, err=True)
    print_run(run, project=engine.project, whole=json_, is_tool=order.tool is not None)
    return EXIT_CODES[run.status]


def approve_command(execution: Id, call: Call = None, /, *, resume: ResumeFlag = False, json_: JsonFlag = False) -> int:
    """Approve calls that wait for it. The execution goes on with resume."""
    return _decide(execution, call, approved=True, resume=resume, json_=json_)


def reject_command(execution: Id, call: Call = None, /, *, resume: ResumeFlag = False, json_: JsonFlag = False) -> int:
    """Reject calls that wait for approval: they fail, and the code may catch that. The execution goes on with
    resume.
    """
    return _decide(execution, call, approved=False, resume=resume, json_=json_)


ResumeFlag = Annotated[bool, Parameter(negative="", help="Resume at once if no other call waits.")]


def _decide(execution: str, call: str | None, *, approved: bool, resume: bool, json_: bool) -> int:
    async def work(engine: Engine) -> int:
        before = await engine.status(execution)
        state = await engine.decide(execution, call, approved=approved)
        if resume and not state.requests:
            return await _resume(engine, state.id, {}, yes=False, json_=json_)
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
        waits = f"{count} more {'waits' if count == 1 else 'wait'}: go-ent status {state.id}"
        say(waits if count else f"go on: {_to_go_on(state)}")
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
    try:
        given = None if value is None else json.loads(value)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"--value is not JSON: {error}") from None

    async def work(engine: Engine) -> int:
        if remove is not None:
            state = await engine.remove_checkpoint(execution, remove)
        else:
            state = await engine.checkpoint(execution, label, given)
        if json_:
            show_json([one.model_dump(mode="json") for one in state.checkpoints])
        else:
            count = len(state.checkpoints)
            what = f"checkpoint {label}" if remove is None else f"checkpoint {short(remove)} is removed"
            say(f"{state.id}: {what}; {'1 is' if count == 1 else f'{count} are'} kept")
        return 0

    return with_engine(work, quiet=json_)


def _row(found: Row | ExecutionState) -> dict[str, Any]:
    names = (
        "id",
        "parent",
        "kind",
        "status",
        "title",
        "strategy",
        "created",
        "updated",
        "finished",
        "spent_usd",
        "spent_tokens",
    )
    return {**{name: getattr(found, name) for name in names}, "resumable": found.resumable}


def _cost(usd: float | None) -> str:
    """Nothing is said of what cost nothing."""
    return dollars(usd or None)

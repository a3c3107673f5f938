"""`go-ent status` and `output`: one execution, and what it or one of its steps came to."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from go_ent.engine.cli import UsageError
from go_ent.engine.cli.commands.choosing import OptionalId, meant_or_last
from go_ent.engine.cli.commands.executions.files import LeftFiles
from go_ent.engine.cli.commands.executions.listing import to_go_on
from go_ent.engine.cli.commands.shared import JsonFlag, dollars
from go_ent.engine.cli.terminal.ask import whole
from go_ent.engine.cli.terminal.formats import OutputFlag
from go_ent.engine.cli.terminal.output import STYLES, ago, said_once, say, short, show_json, took
from go_ent.engine.cli.terminal.render import show_result
from go_ent.engine.cli.terminal.tables import Branch, hanging, show_tree
from go_ent.engine.core.ids import short_id
from go_ent.engine.executions.kept_files import kept_files
from go_ent.engine.executions.state import ExecutionState
from go_ent.engine.tree import TreeNode, tree
from go_ent.sandbox.messages.near_names import did_you_mean, near

MOST_SUMMARIES = 20
MOST_LINES = 20  # of those that a tool was run for
INDENT = 12  # cells before what is said of an execution


def status_command(execution: OptionalId = None, /, *, json_: JsonFlag = False) -> int:
    """One execution: all its steps and their calls, how long they took, what they cost and came to, where it stands.

    Example: go-ent status last:failed
    """
    store, execution_id = meant_or_last(execution)
    state = store.load(execution_id)
    nodes = tree(state, store.records(state.id))
    if json_:
        show_json({**state.model_dump(mode="json"), "tree": [asdict(node) for node in nodes]})
        return 0
    say(short(state.title), style="bold")
    _row("id", f"{short_id(state.id)} ({state.id})")
    say("  status    ", end="")
    say(state.status, style=STYLES.get(state.status))
    if state.kind not in ("code", "tool"):
        _row("strategy", f"{state.strategy}: {short(state.strategy_reason)}")
    if state.parent is not None:
        _row("parent", short_id(short(state.parent)))
    _say_figures(state)
    if count := len(kept_files(store, state.id)):
        _row("files", f"{count:,}: go-ent output {short_id(state.id)} --files")
    for line in state.damage:
        _row("damaged", short(line))
    told = _show_steps(state, nodes)
    for checkpoint in state.checkpoints[-20:]:
        value = json.dumps(checkpoint.value, ensure_ascii=False) if checkpoint.kept else "(too long to be shown)"
        say(f"  checkpoint {short(checkpoint.label)}: {short(value)[:200]} (number {checkpoint.seq})")
    summed = state.lines is not None or not any(node.output for node in nodes)
    if state.result is not None and state.result.output and summed:
        _row("output", short(state.result.output))
    # An error stands there once: that of a step is with its step. What waits for approval is told below.
    if state.error and state.status != "paused" and not any(one and one in state.error for one in told):
        _row("error", short(state.error))
    _say_requests(state)
    if state.status == "failed" and state.resumable and not state.final:
        say(f"to resume: {to_go_on(state)}")
    return 0


def _row(name: str, text: str) -> None:
    say(f"  {name:<{INDENT - 2}}{hanging(text, INDENT)}")


def _say_figures(state: ExecutionState) -> None:
    over = f", took {took(state.finished - state.created)}" if state.finished is not None else ""
    _row("begun", f"{ago(state.created)}{over}")
    if state.spent_usd or state.spent_tokens:
        _row("cost", f"{dollars(state.spent_usd or None)}, {state.spent_tokens:,} tokens")
    if state.lines is not None:
        _row("lines", f"{state.lines.done} done, {state.lines.failed} failed")
    if state.fill is not None:
        share = f"{state.fill.tokens:,} of {state.fill.window:,} tokens for {short(state.fill.step)}"
        made = f"{len(state.context)} summar{'y' if len(state.context) == 1 else 'ies'}"
        _row("context", f"{share}; {made}: go-ent context {short_id(state.id)}")
    for one in state.context[-MOST_SUMMARIES:]:
        of = f"{short(one.scope or 'what came before')}: {one.tokens_before:,} -> {one.tokens_after:,} tokens"
        cost = "" if one.cost_usd is None else f", {dollars(one.cost_usd)}"
        say(f"  summary {one.number} of {of} by {short(one.by)}{f' ({short(one.model)})' if one.model else ''}{cost}")


def _show_steps(state: ExecutionState, nodes: list[TreeNode]) -> list[str]:
    """The steps as a tree; the errors that are told there."""
    branches = []
    most = 200
    if state.lines is not None:  # of many lines, those are wanted that did not complete
        most = MOST_LINES
        nodes = sorted(nodes, key=lambda node: (node.status == "completed", len(node.path), node.path))
    left = max(0, len(nodes) - most)
    nodes = nodes[:most]
    for node in nodes:
        branches.append(_branch(node, 1))
        for attempt in state.results[node.path].attempts[:-1] if node.path in state.results else ():
            if attempt.failure is not None:
                runtime = node.runtime if attempt.runtime == "cli" else attempt.runtime
                why = said_once(attempt.failure, attempt.error or "no reason was given")
                said = f"{short(runtime or attempt.runtime)} before: {attempt.failure}: {short(why)[:120]}"
                branches[-1].children.append(Branch(said))
    show_tree(branches)
    if left:
        say(f"  … and {left:,} more: --json has them")
    return [node.detail for node in nodes if node.status not in ("completed", "paused")]


def _branch(node: TreeNode, depth: int) -> Branch:
    took_ms = "" if node.ms is None else f", {took(node.ms / 1000)}" if node.ms >= 10 else f", {node.ms:.1f} ms"
    cost = f", {dollars(node.cost_usd)}" if node.cost_usd else ""
    if node.overrun_usd:
        cost += f" ({dollars(node.overrun_usd)} more than was held for it)"
    said = node.detail if node.status != "paused" else ""  # the call that waits is told by itself
    said = said_once(node.status, said) or node.output
    name = short(node.name if depth == 1 else f"{node.path.rpartition('/')[2]} {node.name}")
    runtime = f" on {short(node.runtime)}" if node.runtime and node.runtime != "command" else ""
    made = Branch(f"{name}: {short(node.status)}{runtime}{took_ms}{cost}", short(node.status), short(said)[:300])
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
    name = short_id(state.id)
    if state.requests:
        say(f"decide: go-ent approve {name}, or go-ent reject {name}; then resume: {to_go_on(state)}")
    elif state.status in ("paused", "interrupted"):
        say(f"to resume: {to_go_on(state)}")


def output_command(
    execution: OptionalId = None,
    step: Annotated[str | None, Parameter(help="A step, as go-ent status names it; by default the whole.")] = None,
    /,
    *,
    files: Annotated[bool, Parameter(negative="", help="List the files that its code left.")] = False,
    file: Annotated[list[str] | None, Parameter(help="Print a file that its code left; repeatable with --out.")] = None,
    out: Annotated[Path | None, Parameter(help="A folder in which to save those files, or all.")] = None,
    output: OutputFlag = None,
    json_: JsonFlag = False,
) -> int:
    """What an execution came to, or one of its steps: whole, as it was. Also the files that its code left.

    The files of a plan's steps are called STEP/NAME, those of lines of `tool run --each` NUMBER/NAME.

    Example: go-ent output last --file chart.png --out .
    """
    store, execution_id = meant_or_last(execution)
    state = store.load(execution_id)
    if files or file or out is not None:
        left = LeftFiles(store, state.id, step)
        if out is not None:
            left.save(file or (), out, json_=json_)
        elif file:
            left.print_one(file)
        else:
            left.list_all(json_=json_)
        return 0
    value: object
    if step is not None:
        result = state.results.get(step)
        if result is None:
            there = [node.name for node in tree(state, ())]
            if step in there:
                raise UsageError(f"step {step} of {short_id(state.id)} has no output: it did not run")
            hint = did_you_mean(near(step, there)) or f"; there are: {', '.join(there[:20]) or 'none'}"
            raise UsageError(f"{short_id(state.id)} has no step {step[:80]}{hint}")
        value = result.output if result.structured is None else result.structured
    else:
        only = next(iter(state.results.values())) if len(state.results) == 1 else None
        value = None if state.result is None else state.result.output
        if only is not None and only.structured is not None:
            value = only.structured
    if json_:
        show_json({"id": state.id, "step": step, "output": value})
    elif value is None or value == "":
        say(f"{short_id(state.id)} has no output: it is {state.status}", err=True)
    else:
        show_result(value, output)
    return 0

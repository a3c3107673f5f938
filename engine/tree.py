"""What an execution has done, as a tree: its steps, the calls that they made, and what those started."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field

from go_ent.dataclass import dataclass
from go_ent.engine.core.errors import BadState
from go_ent.engine.core.models import RunResult
from go_ent.engine.executions.state import ExecutionState
from go_ent.engine.executions.storage import Record
from go_ent.engine.strategies import Plan
from go_ent.engine.strategies.work import task_of, unpack
from go_ent.engine.timeline import Span, Timeline, first_line

MAX_CALLS = 2000  # of an execution that are shown


@dataclass(slots=True)
class TreeNode:
    """A step or a call. `ms` is None while it is under way, or when that is not known."""

    name: str
    path: str
    status: str
    runtime: str | None = None
    ms: float | None = None
    cost_usd: float | None = None
    overrun_usd: float = 0.0  # beyond what a budget held for it
    tokens: int | None = None
    detail: str = ""
    output: str = ""  # the first line of what it came to
    children: list[TreeNode] = field(default_factory=list)
    more: int = 0  # calls that are not shown


def tree(state: ExecutionState, records: Iterable[Record]) -> list[TreeNode]:
    """The steps of an execution, each with its calls; those of a run that is its only step are its own children."""
    timeline = Timeline(most_calls=MAX_CALLS)
    timeline.add(records)
    timeline.settle(running=state.status == "running")
    nodes = {step: _step(step, result) for step, result in state.results.items()}
    for step in state.tries:
        nodes.setdefault(step, TreeNode(step, step, "running" if state.status == "running" else "interrupted"))
    nodes = _with_all_tasks(state, nodes)
    steps = [span for span in timeline.spans.values() if span.depth == 0]
    for span in steps:  # also lines, and runs that were interrupted before they came to anything
        nodes.setdefault(span.path, _node(span))
    tops = list(nodes.values())
    # As they were made: a call that was undone has the same path as one that was made later.
    for span in sorted((*timeline.undone, *timeline.spans.values()), key=lambda span: span.seq):
        parent = nodes.get(span.path.rpartition("/")[0])
        if parent is None:
            continue
        parent.children.append(node := _node(span))
        nodes[span.path] = node
    for span in steps:
        nodes[span.path].more = span.more
    return tops


def _with_all_tasks(state: ExecutionState, nodes: dict[str, TreeNode]) -> dict[str, TreeNode]:
    """The steps of a plan in its order, also those that were skipped or have yet to come; each with what runs it."""
    try:
        work = None if "guest" in state.work else unpack(state.work)[0]
    except BadState:  # `status` tells what is there
        return nodes
    known = {} if state.result is None else {step.task_id: step for step in state.result.steps}
    if isinstance(work, Plan):
        order = [task.id for task in work.task]
        for step in order:
            if step not in nodes:
                ended = known.get(step)
                status = "pending" if ended is None else ended.status
                nodes[step] = TreeNode(step, step, status, detail=(ended.error or "") if ended is not None else "")
        nodes = {step: nodes[step] for step in (*order, *(one for one in nodes if one not in work.index))}
    for step, node in nodes.items():
        if node.runtime == "cli":
            task = None if work is None else task_of(work, step)
            node.runtime = "sandbox" if work is None or (task is not None and (task.tool or task.code)) else "command"
    return nodes


def _step(step: str, result: RunResult) -> TreeNode:
    return TreeNode(
        name=step,
        path=step,
        status=result.status,
        ms=result.duration_ms,
        cost_usd=result.cost_usd,
        overrun_usd=result.overrun_usd,
        tokens=None if result.tokens is None else result.tokens.total,
        runtime=result.runtime,
        detail=result.error or "",
        output=first_line(result.output),
    )


def _node(span: Span) -> TreeNode:
    return TreeNode(
        span.path if span.depth == 0 else span.name,
        span.path,
        span.status,
        ms=span.ms,
        detail=span.error or span.arguments,
        output=span.output,
        more=span.more,
    )

"""What an execution has done, as a tree: its steps, the calls that they made, and what those started."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import field
from typing import Any

from go_ent.dataclass import dataclass
from go_ent.engine.core.errors import BadState
from go_ent.engine.core.models import RunResult
from go_ent.engine.executions.state import ExecutionState
from go_ent.engine.strategies import Plan
from go_ent.engine.strategies.work import task_of, unpack
from go_ent.sandbox.host.broker import CHECKPOINT

MAX_OUTPUT = 300  # characters
MAX_DEPTH = 20
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


def tree(state: ExecutionState, records: Iterable[dict[str, Any]]) -> list[TreeNode]:
    """The steps of an execution, each with its calls; those of a run that is its only step are its own children."""
    nodes = {step: _step(step, result) for step, result in state.results.items()}
    for step in state.tries:
        nodes.setdefault(
            step, TreeNode(name=step, path=step, status="running" if state.status == "running" else "interrupted")
        )
    nodes = _with_all_tasks(state, nodes)
    tops = list(nodes)
    begun: dict[str, float] = {}
    skipped: set[str] = set()
    made: dict[str, int] = {}  # the records of the calls
    for record in records:
        kind, path = record["kind"], record.get("path")
        if kind == "undone" and type(after := record.get("after")) is int:
            for undone in [one for one, seq in made.items() if seq > after]:
                nodes.pop(undone).status = "undone"  # a call that is made later has the same path
                made.pop(undone), begun.pop(undone, None)
        if kind == "line" and (line := nodes.get(str(record.get("n")))) is not None:
            _line(line, record.get("status"), record.get("run"))
        if (
            kind == "status"
            and isinstance(changes := record.get("changes"), dict)
            and changes.get("status") == "running"
        ):
            begun |= {
                one: float(record.get("at", 0.0)) for one in begun if nodes[one].ms is None
            }  # it rested until now
        if not isinstance(path, str):
            continue
        if path.count("/") > MAX_DEPTH:
            continue
        at = float(record.get("at", 0.0))
        if kind == "guest" and path not in nodes:  # a run that was interrupted before it came to anything, or a line
            nodes[path] = TreeNode(
                name=path, path=path, status="running" if state.status == "running" else "interrupted"
            )
            tops.append(path)
        elif kind == "call" and record.get("tool") != CHECKPOINT:
            parent = nodes.get(path.rpartition("/")[0])
            if parent is None:
                continue
            if path not in nodes and len(begun) >= MAX_CALLS:
                parent.more += 1
                continue
            begun[path], made[path] = at, record["seq"]
            nodes[path] = TreeNode(
                name=str(record.get("tool", "")),
                path=path,
                status="running",
                detail=_arguments(record.get("arguments")),
            )
            parent.children.append(nodes[path])
        elif kind == "begun" and path in nodes:  # what it waited for before is not its own time
            begun[path] = at
        elif kind == "answer" and path in nodes:
            _answer(nodes[path], record.get("answer"), at - begun.get(path, at))
            if path in skipped:
                nodes[path].status = "skipped"
        elif kind == "unfinished" and record.get("decided") == "skip":
            skipped.add(path)
        elif kind == "asked" and path in nodes:
            nodes[path].status = "waits for approval"
        elif kind == "decided" and path in nodes:
            nodes[path].status = "approved" if record.get("approved") else "rejected"
            begun[path] = at
    if state.status != "running":
        for path in begun:
            if nodes[path].status == "running":
                nodes[path].status = "unfinished"
    return [nodes[path] for path in tops]


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
        output=result.output.strip().partition("\n")[0][:MAX_OUTPUT],
    )


def _line(node: TreeNode, status: object, run: Any) -> None:
    """What one line of many came to: it has no result of its own, only the record of its run."""
    node.status = str(status)
    if isinstance(run, dict):
        usage, error, result = run.get("usage"), run.get("error"), run.get("result")
        node.ms = usage.get("wall_ms") if isinstance(usage, dict) else None
        node.detail = str(error.get("message", "")) if isinstance(error, dict) else ""
        node.output = "" if result is None else _text(result).strip().partition("\n")[0][:MAX_OUTPUT]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _answer(node: TreeNode, answer: Any, seconds: float) -> None:
    node.ms = round(max(0.0, seconds) * 1000, 3)
    if answer is None:
        node.status = "cancelled"
    elif isinstance(answer, list) and len(answer) == 3 and answer[1] != 1:
        node.status = "failed"
        said = answer[2].get("message", "") if isinstance(answer[2], dict) else ""
        node.detail = str(said)[:300]
    else:
        node.status = "completed"


def _arguments(found: Any) -> str:
    """Arguments for people, on one line."""
    if (
        not isinstance(found, list)
        or len(found) != 2
        or not isinstance(found[1], dict)
        or not isinstance(found[0], list)
    ):
        return ""
    given = [repr(value) for value in found[0]] + [f"{name}={value!r}" for name, value in found[1].items()]
    text = ", ".join(given)
    return text if len(text) <= 160 else text[:160] + "…"

"""Plans: the graph of a run's tasks with their states, and the plan files of the project with what is wrong in them."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from pydantic_core import to_json
from starlette.responses import Response

from go_ent.dataclass import dataclass
from go_ent.engine.console.page import Page
from go_ent.engine.console.visit import Refused, Viewer, Visit
from go_ent.engine.console.words import line, money, took
from go_ent.engine.core.errors import BadTask
from go_ent.engine.executions.state import ExecutionState
from go_ent.engine.strategies.graph import build
from go_ent.engine.strategies.layout import critical_path, places
from go_ent.engine.strategies.plan import MAX_BYTES, Plan, PlanTask, parse_plan, plan_in

PAGE = Page("/plans", "Plans", order=40, key="l")
WIDTH, HEIGHT, GAP_X, GAP_Y, EDGE = 210, 58, 56, 14, 12
MOST_DRAWN = 2500
MOST_FILES = 200
MOST_HAZARDS = 200
MOST_SHOWN = 1 << 20  # bytes of a plan file that are shown
LINE = re.compile(r"\bline ([0-9]{1,6})\b")
TASK = re.compile(r"\btask (?:[0-9]{1,6} \()?([A-Za-z_][A-Za-z0-9_-]{0,63})\b")


@dataclass(frozen=True, slots=True)
class Box:
    """One task in the picture."""

    task: PlanTask
    x: int
    y: int
    state: str
    runtime: str
    seconds: float | None
    usd: float | None
    critical: bool
    error: str = ""

    @property
    def what(self) -> str:
        """What it does, in a word."""
        task = self.task
        if task.tool:
            return f"tool {task.tool}"
        return "code" if task.code else "command" if task.command else task.description or "prompt"

    @property
    def classes(self) -> str:
        return f"box {self.state}{' critical' if self.critical else ''}"

    @property
    def figures(self) -> str:
        """Its state, what runs it, and what that took and cost."""
        said = [self.state, line(self.runtime, 14), "" if self.seconds is None else took(self.seconds)]
        return " · ".join(one for one in [*said, money(self.usd) if self.usd else ""] if one)

    @property
    def is_cut(self) -> bool:
        """Whether there is more to say than what fits into it."""
        return len(self.task.id) > 26 or len(self.what) > 32


@dataclass(frozen=True, slots=True)
class Edge:
    """What one task hands on to another: its output, or only its turn."""

    path: str
    data: bool
    critical: bool
    said: str

    @property
    def classes(self) -> str:
        return f"edge{' data' if self.data else ''}{' critical' if self.critical else ''}"


@dataclass(frozen=True, slots=True)
class Picture:
    """A graph, ready to be drawn."""

    boxes: list[Box]
    edges: list[Edge]
    width: int
    height: int


_places = lru_cache(maxsize=4)(places)  # a graph that is live is drawn again and again
_plan_in = lru_cache(maxsize=4)(plan_in)


def picture_of(plan: Plan, state: ExecutionState | None, *, critical: bool) -> Picture:
    """The graph of a plan; with the states of an execution's tasks, if there is one."""
    where = _places(plan.needs)
    results = state.results if state is not None else {}
    seconds = [
        results[task.id].duration_ms / 1000 if task.id in results else task.weight if state is None else 0.0
        for task in plan.task
    ]
    path = critical_path(plan.needs, seconds) if critical else []
    steps = set(itertools.pairwise(path))
    boxes = []
    for number, task in enumerate(plan.task):
        result = results.get(task.id)
        column, row = where[number]
        boxes.append(
            Box(
                task,
                EDGE + column * (WIDTH + GAP_X),
                EDGE + row * (HEIGHT + GAP_Y),
                _state(task.id, state),
                _runtime(task, result.runtime if result is not None else task.runtime),
                result.duration_ms / 1000 if result is not None else None,
                result.cost_usd if result is not None else None,
                number in path,
                (result.error or "") if result is not None and not result.ok else "",
            )
        )
    edges = [
        _edge(plan, boxes, need, number, (need, number) in steps)
        for number, needs in enumerate(plan.needs)
        for need in needs
    ]
    columns, rows = (1 + max((place[at] for place in where), default=0) for at in (0, 1))
    return Picture(
        boxes, edges, 2 * EDGE + columns * (WIDTH + GAP_X) - GAP_X, 2 * EDGE + rows * (HEIGHT + GAP_Y) - GAP_Y
    )


def _runtime(task: PlanTask, name: str | None) -> str:
    """What runs a task, as people say it."""
    return "sandbox" if task.tool or task.code else "command" if task.command else name or ""


def _edge(plan: Plan, boxes: list[Box], need: int, number: int, critical: bool) -> Edge:
    left, top = boxes[need].x + WIDTH, boxes[need].y + HEIGHT // 2
    right, end = boxes[number].x, boxes[number].y + HEIGHT // 2
    path = f"M{left},{top}C{left + GAP_X // 2},{top} {right - GAP_X // 2},{end} {right},{end}"
    data = plan.task[need].id in plan.referred[number]
    what = "its output" if data else "its turn"
    return Edge(path, data, critical, f"{plan.task[need].id} gives {plan.task[number].id} {what}")


def _state(task_id: str, state: ExecutionState | None) -> str:
    if state is None:
        return "pending"
    if (result := state.results.get(task_id)) is not None:
        return result.status
    return state.status if task_id in state.begun else "pending" if state.finished is None else "skipped"


def hazards_of(plan: Plan) -> list[tuple[str, str]]:
    """Tasks that wait for each other only because they use the same files or the same mutex: who comes first."""
    graph = build(list(plan.index), plan.nodes)
    found: list[tuple[str, str]] = []
    for before in range(graph.size):
        seen, todo = set(), list(graph.followers[before])
        while todo and len(found) < MOST_HAZARDS:
            after = todo.pop()
            if after in seen:
                continue
            seen.add(after)
            if after >= graph.size:  # a joint, which stands for many edges
                todo += graph.followers[after]
            elif before not in plan.needs[after]:
                found.append((plan.task[before].id, plan.task[after].id))
    return found


def plan_of(state: ExecutionState) -> Plan | None:
    """The plan of an execution, if it is one of a plan."""
    data = state.work.get("plan")
    return _plan_of(to_json(data)) if isinstance(data, dict) else None


@lru_cache(maxsize=4)
def _plan_of(data: bytes) -> Plan:
    return parse_plan(json.loads(data))


@PAGE.get()
async def plans(visit: Visit) -> Response:
    """The plan files of the project, and the newest runs of plans."""
    visit.allow(own=True)
    await visit.follow("runs")
    files = await _files(visit)
    rows = await visit.engine.executions(limit=20, kind="graph")
    return await visit.html("plans.html", files=files, rows=rows, trusted=visit.engine.trusted)


@PAGE.get("/file")
async def plan_file(visit: Visit) -> Response:
    """A plan file: its graph, or its problems at their lines."""
    visit.allow(own=True)
    name = visit.query("name")
    if name not in await _files(visit):
        raise Refused(404, f"there is no plan {name[:100]} in the project")
    path = visit.engine.project / name
    data = await asyncio.to_thread(_beginning, path, MAX_BYTES + 1)
    text = data[:MOST_SHOWN].decode("utf-8", "replace")
    try:
        plan = await asyncio.to_thread(_plan_in, path, data)
    except BadTask as error:
        problems = _located(text, error.problems)
        said: dict[int, list[str]] = {}
        for at, problem in problems:
            said.setdefault(at, []).append(problem)
        return await visit.html(
            "plan_file.html",
            name=name,
            text=text,
            problems=problems,
            said={at: "; ".join(those) for at, those in said.items()},
            picture=None,
            critical=False,
            hazards=[],
        )
    critical = visit.query("critical") == "yes"
    return await visit.html(
        "plan_file.html",
        name=name,
        text=text,
        problems=[],
        said={},
        picture=picture_of(plan, None, critical=critical) if len(plan.task) <= MOST_DRAWN else None,
        critical=critical,
        hazards=hazards_of(plan) if critical else [],
    )


@PAGE.get("/run/{id}")
async def plan_run(visit: Visit) -> Response:
    """The graph of an execution, live."""
    state = await visit.viewer.execution(visit.path("id"))
    visit.shows("plan", state.id, stamp_of(state))
    plan = plan_of(state)
    if plan is None:
        raise Refused(404, "this run has no plan", "its page shows its steps")
    critical = visit.query("critical") == "yes"
    chosen = visit.query("task")
    picture = picture_of(plan, state, critical=critical) if len(plan.task) <= MOST_DRAWN else None
    box = next((one for one in picture.boxes if one.task.id == chosen), None) if picture is not None else None
    result = state.results.get(chosen)
    return await visit.html(
        "plan_run.html",
        state=state,
        picture=picture,
        critical=critical,
        box=box,
        result=result,
        count=len(plan.task),
        hazards=hazards_of(plan) if critical else [],
    )


@PAGE.stamp("plan")
async def _stamp(viewer: Viewer, argument: str) -> str:
    return stamp_of(await viewer.execution(argument))


def stamp_of(state: ExecutionState) -> str:
    return f"{state.status}:{state.seq}"


async def _files(visit: Visit) -> list[str]:
    """The plan files of the project; of a folder that nobody has trusted, none is opened to see whether it is one."""
    return await asyncio.to_thread(plan_files, visit.engine.project) if visit.engine.trusted else []


def plan_files(project: Path) -> list[str]:
    """The files in the project's folder, and one below, that say they are plans: `[[task]]`, or a list of `task`."""
    found = []
    for path in sorted([*project.glob("*.toml"), *project.glob("*/*.toml"), *project.glob(".go-ent/*/*.toml")])[:2000]:
        inside = path.resolve()
        if not inside.is_relative_to(project.resolve()) or not inside.is_file():
            continue
        if b"[[task]]" in _beginning(path, 64 << 10):
            found.append(str(path.relative_to(project)))
    return found[:MOST_FILES]


def _beginning(path: Path, most: int) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(most)
    except OSError:
        return b""


def _located(text: str, problems: Iterable[str]) -> list[tuple[int, str]]:
    """Each problem and the line that it is at: the one it names, or the one where its task begins; 0 if neither."""
    lines = text.splitlines()
    found = []
    for problem in problems:
        named, task = LINE.search(problem), TASK.search(problem)
        at = int(named[1]) if named else 0
        if not at and task:
            wanted = re.compile(rf"""^\s*id\s*=\s*["']{re.escape(task[1])}["']""")
            at = next((number for number, line in enumerate(lines, 1) if wanted.search(line)), 0)
        found.append((at, problem))
    return found

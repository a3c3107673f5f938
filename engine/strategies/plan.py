"""Plan files: a graph of tasks in TOML or JSON, checked as a whole before anything runs."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, field_validator, model_validator

from go_ent.engine.core.errors import BadTask
from go_ent.engine.core.explain import names
from go_ent.engine.core.models import BudgetLimit, Model, Name, StrategyName, Task, TaskId, Threshold
from go_ent.engine.strategies.graph import GraphNode, topological
from go_ent.engine.strategies.references import references
from go_ent.sandbox.messages.validation import Problem, problems

MAX_BYTES = 4 << 20
REFERENCE = re.compile(r"(?<!\$)\$\{([A-Za-z0-9_][A-Za-z0-9_.-]*?)\.(?:output|structured)")
MOST_TASKS = 100_000
MOST_ERRORS = 5
MOST_WEIGHT = 1e9
PathText = Annotated[str, Field(min_length=1, max_length=4096, pattern=r"^[^\x00-\x1f]+$")]


class PlanTask(Task):
    """One `[[task]]`. A task whose `${id.output}` it holds need not be in `depends_on`: a reference is a dependency."""

    id: TaskId
    depends_on: tuple[str, ...] = ()
    reads: tuple[PathText, ...] = ()
    writes: tuple[PathText, ...] = ()
    mutex: tuple[Name, ...] = ()
    retries: Annotated[int, Field(ge=0, le=10, strict=True)] = 0

    @field_validator("strategy")
    @classmethod
    def _is_one_step(cls, value: StrategyName) -> StrategyName:
        if value not in {"auto", "single"}:
            raise ValueError(f"a task of a plan is one step: its strategy is single (or left out), not {value}")
        return value

    @property
    def weight(self) -> float:
        """How long it takes next to the others, as far as `metadata.weight` says."""
        weight = self.metadata.get("weight")
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 < weight <= MOST_WEIGHT:
            return 1.0
        return float(weight)


class Plan(Model):
    """A graph of tasks. Duplicates, unknown ids and circles are refused here, so that no plan with them exists."""

    version: Literal[1] = 1
    name: Name | None = None
    concurrency: Annotated[int, Field(ge=1, le=256, strict=True)] | None = None
    budget: BudgetLimit | None = None
    threshold: Threshold | None = None  # for those of its tasks that have none of their own
    task: Annotated[tuple[PlanTask, ...], Field(min_length=1, max_length=MOST_TASKS)]

    @model_validator(mode="after")
    def _is_a_graph(self) -> Plan:
        ids = self.index
        if len(ids) < len(self.task):
            first = next(task.id for number, task in enumerate(self.task) if ids[task.id] != number)
            raise ValueError(f"there are several tasks with the id {first}")
        topological(list(ids), self.needs)
        for task in self.task:
            if task.code and (found := next((name for name in REFERENCE.findall(task.code) if name in ids), None)):
                raise ValueError(
                    f"task {task.id}: code can't hold a reference to {found}: give it as one of the inputs"
                )
        return self

    @cached_property
    def index(self) -> dict[str, int]:
        """Where each id stands."""
        return {task.id: number for number, task in enumerate(self.task)}

    @cached_property
    def referred(self) -> tuple[frozenset[str], ...]:
        """Of each task, the ids that it refers to."""
        found = []
        for task in self.task:
            try:
                found.append(frozenset(reference.id for reference in references(task, self.index)))
            except BadTask as error:
                raise ValueError(f"task {task.id}: {error}") from None
        return tuple(found)

    @cached_property
    def needs(self) -> tuple[tuple[int, ...], ...]:
        """Of each task, where the tasks stand whose results it takes."""
        found = []
        for task, referred in zip(self.task, self.referred, strict=True):
            for id_ in task.depends_on:
                if id_ not in self.index:
                    there = ", ".join(list(self.index)[:10])
                    raise ValueError(f"task {task.id}: depends_on: there is no task {id_}; there are: {there}")
            ids = {*task.depends_on, *referred}
            if task.id in ids:
                raise ValueError(f"task {task.id}: it depends on itself")
            found.append(tuple(sorted(self.index[id_] for id_ in ids)))
        return tuple(found)

    def with_threshold(self, task: PlanTask) -> PlanTask:
        """A task, with the threshold that it has here."""
        return task if task.threshold or not self.threshold else task.model_copy(update={"threshold": self.threshold})

    @property
    def nodes(self) -> list[GraphNode]:
        return [
            GraphNode(needs, task.reads, task.writes, task.mutex, task.weight)
            for task, needs in zip(self.task, self.needs, strict=True)
        ]


def read_plan(path: Path) -> Plan:
    """The plan in a file, or `BadTask` with what is wrong in it and where."""
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise BadTask(f"{path} can't be read: {error.strerror}") from None
    return plan_in(path, data)


def plan_in(path: Path, data: bytes) -> Plan:
    """The plan that *data* is, which was read from *path*, or `BadTask`."""
    if len(data) > MAX_BYTES:
        raise BadTask(f"{path} is larger than {MAX_BYTES} bytes")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadTask(f"{path} is not UTF-8: {error.reason} at byte {error.start}") from None
    is_json = path.suffix == ".json" or (path.suffix != ".toml" and text.lstrip().startswith("{"))
    try:
        table = (
            json.loads(text, object_pairs_hook=_no_duplicates, parse_constant=_no_constant)
            if is_json
            else tomllib.loads(text)
        )
    except (ValueError, RecursionError) as error:
        raise BadTask(f"{path} is not valid {'JSON' if is_json else 'TOML'}: {error}") from None
    try:
        return parse_plan(table)
    except BadTask as error:
        raise BadTask(f"{path}: {error}", error.problems) from None


def parse_plan(data: Any) -> Plan:
    """A plan from data, or `BadTask` that names the task and the field."""
    try:
        return Plan.model_validate(data)
    except ValidationError as error:
        found = problems(error)
        # A list whose items are all wrong is also too short: that helps nobody.
        wrong = [one for one in found if one.kind != "too_short"] or found
        said = [_explained(one, data) for one in wrong[:MOST_ERRORS]]
        more = len(wrong) - len(said)
        said += [f"and {more} more"] if more else []
        raise BadTask("; ".join(said), said) from None
    except RecursionError:
        raise BadTask("the plan is nested too deep") from None


def _explained(problem: Problem, data: Any) -> str:
    where: list[Any] = list(problem.place)
    message = problem.meant(_names_at(where)).words
    if problem.unknown and len(where) == 1 and message == problem.words:
        message += f"; a plan has {', '.join(Plan.model_fields)}"
    said = ""
    if where[:1] == ["task"]:
        if len(where) == 1:
            return f"a plan is a list of [[task]] tables: {message}"
        task = data["task"][where[1]]
        id_ = task.get("id") if isinstance(task, dict) else None
        said = f"task {where[1] + 1}" + (f" ({id_[:100]})" if isinstance(id_, str) else "") + ": "
        where = where[2:]
    field = ".".join(str(part) for part in where)
    return said + (f"{field}: " if field else "") + message


def _names_at(where: list[Any]) -> Iterable[str]:
    """The settings that there are in the table that *where* is in."""
    if len(where) == 1:
        return Plan.model_fields
    return {*PlanTask.model_fields, "prompt"} if where[:1] == ["task"] and len(where) == 3 else names()


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        seen: set[str] = set()
        name = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise ValueError(f"{name} is given twice")
    return table


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")

"""What a worker is asked to do: checked like everything that comes from a database."""

from __future__ import annotations

from typing import Any, Literal, TypeVar

from pydantic import Field, ValidationError

from go_ent.composer.project.numbers import whole
from go_ent.engine.core.errors import BadTask
from go_ent.engine.core.explain import explain
from go_ent.engine.core.models import BudgetLimit, Model, Task
from go_ent.engine.core.step import Output, Step
from go_ent.engine.executions.state import ExecutionState
from go_ent.engine.fleet.dbos_adapter import Order
from go_ent.engine.fleet.queue import unsealed


class Said(Model):
    """What an earlier step left."""

    source: str
    text: str
    structured: Any = None


class StepOrder(Model):
    """A step of an execution that runs elsewhere. Its record is in a slot of its own until it has ended."""

    kind: Literal["step"] = "step"
    slot: str
    step: str
    task: Task
    previous: tuple[Said, ...] = ()
    dependencies: tuple[Said, ...] = ()
    inserted: tuple[Said, ...] = ()
    state: ExecutionState  # of the execution, without its other steps
    limit: BudgetLimit | None = None
    may_start: bool = True
    adjustments: tuple[str, ...] = ()

    @classmethod
    def of(cls, slot: str, step: Step, state: ExecutionState, **given: Any) -> StepOrder:
        return cls(
            slot=slot,
            step=step.id,
            task=step.task,
            state=state,
            previous=_said(step.previous),
            dependencies=_said(step.dependencies),
            inserted=_said(step.inserted),
            **given,
        )

    def as_step(self) -> Step:
        return Step(self.step, self.task, _outputs(self.previous), _outputs(self.dependencies), _outputs(self.inserted))


class LinesOrder(Model):
    """A chunk of the lines of a pipeline: the number of each, the digest of what was read, and its inputs."""

    kind: Literal["lines"] = "lines"
    slot: str
    state: ExecutionState  # of the execution, with its work, and without what was done
    lines: tuple[tuple[int, str, dict[str, Any]], ...]


class ExecutionOrder(Model):
    """An execution that a worker runs, or resumes."""

    kind: Literal["execution", "guest"] = "execution"
    id: str
    label: str | None = None
    options: dict[str, Any] = Field(default_factory=dict)


AnyOrder = TypeVar("AnyOrder", StepOrder, LinesOrder, ExecutionOrder)


def read_step(workflow: str, order: Order) -> StepOrder:
    """The order of a step, if it is sealed and meant for this workflow; `EngineError` if not."""
    return _of(workflow, _checked(StepOrder, order))


def read_lines(workflow: str, order: Order) -> LinesOrder:
    """The same for a chunk of lines."""
    return _of(workflow, _checked(LinesOrder, order))


Part = TypeVar("Part", StepOrder, LinesOrder)


def _of(workflow: str, read: Part) -> Part:
    if read.slot != workflow or read.slot.partition("/")[0] != read.state.id:
        raise BadTask("the order is another workflow's")
    return read


def read_execution(workflow: str, order: Order) -> ExecutionOrder:
    """The same for an execution."""
    read = _checked(ExecutionOrder, order)
    if workflow.partition("@")[0] != read.id:
        raise BadTask("the order is another workflow's")
    return read


def read_number(workflow: str) -> int:
    """Which wait for a worker it is of its execution: its id is `execution@number`."""
    return whole(workflow.partition("@")[2]) or 0


def _checked(kind: type[AnyOrder], order: Order) -> AnyOrder:
    text = unsealed(order)
    try:
        return kind.model_validate_json(text)
    except ValidationError as error:
        raise BadTask(f"the order can't be read: {explain(error)}") from None


def _said(outputs: tuple[Output, ...]) -> tuple[Said, ...]:
    return tuple(Said(source=one.source, text=one.text, structured=one.structured) for one in outputs)


def _outputs(said: tuple[Said, ...]) -> tuple[Output, ...]:
    return tuple(Output(one.source, one.text, one.structured) for one in said)

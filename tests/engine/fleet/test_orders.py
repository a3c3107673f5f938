"""What a worker believes: nothing that is not sealed with the fleet's key."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("dbos", reason="the fleet's tests need its packages: make test-fleet installs them")

from go_ent.composer.project import trust
from go_ent.engine.core.errors import BadTask, ExecutionConflict
from go_ent.engine.core.models import Task
from go_ent.engine.core.step import Output, Step
from go_ent.engine.fleet.queue import queue_name, sealed
from go_ent.engine.fleet.worker.orders import StepOrder, read_execution, read_step
from go_ent.engine.fleet.worker.remote_steps import travels
from tests.engine.executions.test_executions import fresh


@pytest.fixture(autouse=True)
def key() -> Iterator[None]:
    trust.share_keys(b"k" * 40)
    yield
    trust.share_keys()


def order() -> tuple[str, dict[str, str]]:
    """A workflow, and what a worker is given of it."""
    state = fresh()
    step = Step("a", Task(code="1"), dependencies=(Output("b", "text", {"n": 1}),))
    slot = f"{state.id}/a"
    return slot, sealed(StepOrder.of(slot, step, state, may_start=False).model_dump(mode="json"))


def test_a_step_comes_as_it_was_sent() -> None:
    read = read_step(*order())
    assert read.as_step() == Step("a", Task(code="1"), dependencies=(Output("b", "text", {"n": 1}),))
    assert (read.may_start, read.state.status) == (False, "pending")


@pytest.mark.parametrize(
    "change",
    [{"seal": ""}, {"seal": None}, {"text": None}, {"text": {}}, {"text": "{}"}],
)
def test_who_changes_it_is_not_believed(change: dict[str, object]) -> None:
    workflow, given = order()
    with pytest.raises(ExecutionConflict, match="not sealed with the fleet's key"):
        read_step(workflow, {**given, **change})
    with pytest.raises(ExecutionConflict, match="not sealed with the fleet's key"):
        read_step(workflow, {**given, "text": given["text"].replace('"may_start":false', '"may_start":true')})
    with pytest.raises(ExecutionConflict, match="not sealed with the fleet's key"):
        read_step(workflow, {})


def test_who_has_another_key_is_not_believed() -> None:
    workflow, given = order()
    trust.share_keys(b"x" * 40)
    with pytest.raises(ExecutionConflict, match="not sealed"):
        read_step(workflow, given)
    trust.share_keys(b"x" * 40, b"k" * 40)  # the new one first: what is under way is still believed
    assert read_step(workflow, given).step == "a"


def test_an_order_is_for_its_own_workflow() -> None:
    with pytest.raises(BadTask, match="another workflow's"):
        read_step("other/a", order()[1])
    with pytest.raises(BadTask, match="another workflow's"):
        read_execution("other", sealed({"kind": "execution", "id": "x"}))
    assert read_execution("x@7", sealed({"kind": "execution", "id": "x"})).id == "x"


@pytest.mark.parametrize("given", [{}, {"kind": "step"}, {"kind": "step", "slot": 1}, {"x": "y" * 1000}])
def test_what_can_not_be_read_is_told(given: dict[str, object]) -> None:
    with pytest.raises(BadTask, match="the order can't be read"):
        read_step("x", sealed(given))


def test_what_changes_a_working_tree_stays_with_it() -> None:
    assert travels(Task(code="1"))
    assert travels(Task(description="look", access="read"))
    assert not travels(Task(description="change"))
    assert not travels(Task(command=("make",)))


def test_queues_by_label() -> None:
    assert (queue_name("step", None), queue_name("step", "gpu")) == ("step", "step:gpu")

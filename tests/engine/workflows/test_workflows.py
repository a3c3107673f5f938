"""Workflows: steps in order, wait points, and what a crash leaves.

The engine is the seam: a small one stands in for it. Its executions are real: files that outlive the process.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self, cast, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from go_ent.engine.core.errors import (
    BadState,
    BadTask,
    EngineError,
    ExecutionConflict,
    ExecutionNotFound,
    NeedsApproval,
    NoRuntime,
    Untrusted,
)
from go_ent.engine.core.ids import new_id
from go_ent.engine.core.models import Attempt, Metrics, RunResult, Task, TaskResult, Tokens
from go_ent.engine.executions.history import ExecutionHistory, ExecutionRecord, Grouping, records_of
from go_ent.engine.executions.owned import OwnedExecution
from go_ent.engine.executions.state import FINISHED, Environment, ExecutionState, digest_of
from go_ent.engine.storage.state_files import StateFiles
from go_ent.engine.workflows.workflow import (
    CONTEXT_CHARS,
    OUTPUT_CHARS,
    TRANSITIONS,
    Workflows,
    WorkflowState,
    WorkflowStatus,
    WorkflowStep,
    parse_workflow,
    read_workflow,
)
from tests.support.executions import FileStore
from tests.support.forked import Forked

Answer = Callable[[Task, tuple[str, ...]], TaskResult | Exception]


def result(output: str = "done", error: str | None = None, **fields: Any) -> TaskResult:
    status = "COMPLETE" if error is None else "BLOCKED"
    metrics = Metrics(tokens_used=10, duration_ms=5, cost_usd=0.01)
    step = RunResult(
        execution_id="x",
        status="completed" if error is None else "failed",
        runtime="cli",
        model="small",
        tokens=Tokens(input=4, output=6),
        cost_usd=0.01,
        duration_ms=5,
    )
    given = {
        "execution_id": "x",
        "status": status,
        "strategy": "single",
        "output": output,
        "error": error,
        "metrics": metrics,
    }
    return TaskResult(**{**given, "steps": (step,), **fields})


class Executions:
    """An engine without runners: what an execution does is `work`. All of them are on disk, as the engine's are."""

    def __init__(self) -> None:
        self.asked: list[tuple[Task, str | None, tuple[str, ...]]] = []  # what was begun
        self.resumed: list[str] = []  # what was gone on with
        self._held: dict[str, OwnedExecution] = {}

    def at(self, project: Path) -> Self:
        self.store = FileStore(project)
        return self

    async def work(self, state: ExecutionState, task: Task) -> TaskResult:
        raise NotImplementedError

    async def start(self, task: Task, /, *, parent: str | None = None, adjustments: Sequence[str] = ()) -> str:
        self.asked.append((task, parent, tuple(adjustments)))
        work = {"task": task.model_dump(mode="json")}
        state = ExecutionState(
            id=new_id(),
            parent=parent,
            kind="task",
            title=task.title,
            work=work,
            work_digest=digest_of(work),
            adjustments=tuple(adjustments),
            environment=Environment(go_ent="1", python="3"),
            created=time.time(),
            updated=time.time(),
        )
        self._held[state.id] = self.store.create(state)
        return state.id

    async def wait(self, execution_id: str, /) -> TaskResult:
        return await self._go(self._held.pop(execution_id))

    async def resume(self, execution_id: str, /) -> TaskResult:
        held = self.store.hold(execution_id)
        if held.state.status in FINISHED:
            held.release()
            raise ExecutionConflict(f"execution {execution_id} has finished")
        self.resumed.append(execution_id)
        if held.state.status == "running":
            held.move("interrupted")
        return await self._go(held)

    async def status(self, execution_id: str, /) -> ExecutionState:
        return self.store.load(self.store.find(execution_id))

    async def _go(self, held: OwnedExecution) -> TaskResult:
        with held:
            held.move("running")
            try:
                made = await self.work(held.state, Task(**held.state.work["task"]))
            except asyncio.CancelledError:
                held.move("interrupted")
                raise
            except Exception:
                held.move("failed")
                raise
            made = made.model_copy(update={"execution_id": held.id})
            for step in made.steps:
                held.finish_step(step.task_id, step)
            stopped = any(step.status == "interrupted" for step in made.steps)
            held.move(
                "completed" if made.ok else "interrupted" if stopped else "failed",
                result=made.model_copy(update={"steps": ()}),
            )
            return made


class Agent(Executions):
    """An engine that answers at once, and remembers what it was asked."""

    def __init__(self, answer: Answer = lambda task, _: result(f"did {task.description}")) -> None:
        super().__init__()
        self._answer = answer

    async def work(self, state: ExecutionState, task: Task) -> TaskResult:
        answered = self._answer(task, state.adjustments)
        if isinstance(answered, Exception):
            raise answered
        return answered

    @property
    def done(self) -> list[str]:
        return [task.description for task, _, _ in self.asked]


def steps(*names: str, wait: str | None = None) -> list[WorkflowStep]:
    """Steps of these names; there is a wait point before the one that *wait* names."""
    return [WorkflowStep(id=name, description=name, wait="go on?" if name == wait else None) for name in names]


def advance(workflows: Workflows, agent: Agent, name: str = "w", stop: asyncio.Event | None = None) -> WorkflowState:
    return asyncio.run(workflows.advance(name, agent.at(workflows.project), stop=stop))


@pytest.fixture
def workflows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workflows:
    monkeypatch.setenv("GO_ENT_DATA", str(tmp_path / "user"))
    monkeypatch.delenv("GO_ENT_TRUST_PROJECT", raising=False)
    (tmp_path / "project").mkdir()
    return Workflows(tmp_path / "project")


def file_of(workflows: Workflows, name: str = "w") -> Path:
    return workflows.project / ".go-ent" / "workflows" / f"{name}.json"


class TestAdvance:
    def test_runs_all_steps_in_their_order(self, workflows: Workflows) -> None:
        agent = Agent()
        started = workflows.start("w", steps("a", "b", "c"))
        ended = advance(workflows, agent)
        assert agent.done == ["a", "b", "c"]
        assert {parent for _, parent, _ in agent.asked} == {started.id}
        assert (started.status, ended.status, ended.position) == ("active", "completed", 3)
        assert workflows.get("w") == ended

    def test_stops_at_a_wait_point_before_its_step_and_goes_on_when_approved(self, workflows: Workflows) -> None:
        agent = Agent()
        workflows.start("w", steps("a", "b", "c", wait="b"))
        waiting = advance(workflows, agent)
        assert (waiting.status, waiting.question, agent.done) == ("waiting", "go on?", ["a"])
        assert waiting.summary == "w is waiting at step b (2 of 3): go on?"
        assert advance(workflows, agent).status == "waiting"
        approved = workflows.approve("w")
        assert (approved.status, approved.question, agent.done) == ("active", None, ["a"])
        assert advance(workflows, agent).status == "completed"
        assert agent.done == ["a", "b", "c"]

    def test_each_wait_point_wants_an_approval_of_its_own(self, workflows: Workflows) -> None:
        agent = Agent()
        workflows.start("w", [WorkflowStep(id=name, description=name, wait=f"{name}?") for name in "ab"])
        questions = []
        while (state := advance(workflows, agent)).status == "waiting":
            questions.append(state.question)
            workflows.approve("w")
        assert questions == ["a?", "b?"]

    def test_a_step_finds_the_outputs_of_those_before_it_in_its_context(self, workflows: Workflows) -> None:
        agent = Agent()
        workflows.start("w", [*steps("a", "b"), WorkflowStep(id="c", description="c", context="Mind the gap.")])
        advance(workflows, agent)
        assert agent.asked[0][0].context == ""
        assert agent.asked[2][0].context == (
            'Mind the gap.\n\nOutputs of the earlier steps:\n\n<output step="a">\ndid a\n</output>\n\n<output '
            'step="b">\ndid b\n</output>'
        )

    def test_outputs_are_bounded_the_newest_kept_longest(self, workflows: Workflows) -> None:
        agent = Agent(lambda task, _: result(task.description * 10 * OUTPUT_CHARS))
        workflows.start("w", steps("a", "b", "c", "d"))
        advance(workflows, agent)
        context = agent.asked[3][0].context
        assert len(context) < CONTEXT_CHARS + 500
        assert context.count("c") > OUTPUT_CHARS - 10
        assert "outputs of a and of the steps before it left out" in context

    def test_a_step_is_given_to_the_engine_as_a_plain_task(self, workflows: Workflows) -> None:
        agent = Agent()
        workflows.start("w", [WorkflowStep(id="a", description='composed:clean {"n": 1}', role="developer")])
        advance(workflows, agent)
        assert type(agent.asked[0][0]) is Task
        assert agent.asked[0][0] == Task(tool="clean", inputs={"n": 1}, role="developer")

    def test_stop_leaves_it_active_after_the_step_that_runs(self, workflows: Workflows) -> None:
        stop = asyncio.Event()

        def answer(task: Task, _: tuple[str, ...]) -> TaskResult:
            stop.set()
            return result(task.description)

        workflows.start("w", steps("a", "b"))
        state = advance(workflows, Agent(answer), stop=stop)
        assert (state.status, state.position) == ("active", 1)
        assert advance(workflows, Agent()).status == "completed"

    def test_a_step_that_was_stopped_has_not_failed(self, workflows: Workflows) -> None:
        stop = asyncio.Event()

        def answer(task: Task, _: tuple[str, ...]) -> TaskResult:
            stop.set()
            return result("half", error="interrupted", status="PARTIAL")

        workflows.start("w", steps("a"))
        state = advance(workflows, Agent(answer), stop=stop)
        assert (state.status, state.position, state.error) == ("active", 0, None)
        assert state.history.totals().count == 1


class TestGoingOn:
    """An execution that was begun for a step is kept by its id, until it has completed or failed."""

    def interrupted(self, workflows: Workflows, *runs: RunResult) -> WorkflowState:
        """A workflow of one step, stopped in its execution."""
        stop = asyncio.Event()

        def answer(task: Task, _: tuple[str, ...]) -> TaskResult:
            stop.set()
            return result("half", error="interrupted", status="PARTIAL", steps=runs)

        workflows.start("w", steps("a"))
        return advance(workflows, Agent(answer), stop=stop)

    def test_what_was_stopped_is_resumed(self, workflows: Workflows) -> None:
        left = self.interrupted(workflows, run(status="interrupted"))
        again = Agent()
        ended = advance(workflows, again)
        assert (ended.status, ended.under_way, again.done, again.resumed) == ("completed", None, [], [left.under_way])

    def test_what_had_finished_before_is_on_record_once(self, workflows: Workflows) -> None:
        one, two = run(task_id="one", cost_usd=1.0), run(task_id="two", cost_usd=2.0)
        self.interrupted(workflows, one, two.model_copy(update={"status": "interrupted"}))
        history = advance(workflows, Agent(lambda *_: result(steps=(one, two)))).history
        assert [(record.task_id, record.success) for record in history.records] == [
            ("a/one", True),
            ("a/two", False),
            ("a/two", True),
        ]
        assert history.totals().cost_usd == 5.0

    def test_what_was_interrupted_from_elsewhere_waits_and_is_resumed_when_approved(self, workflows: Workflows) -> None:
        answers = iter([result(error="interrupted", steps=(run(status="interrupted"),)), result()])
        agent = Agent(lambda *_: next(answers))
        workflows.start("w", steps("a"))
        assert advance(workflows, agent).status == "waiting"
        workflows.approve("w")
        assert advance(workflows, agent).status == "completed"
        assert (agent.done, len(agent.resumed)) == (["a"], 1)

    def test_what_completed_without_being_recorded_is_taken_as_it_is(self, workflows: Workflows) -> None:
        left = self.interrupted(workflows, run(status="interrupted"))
        assert left.under_way is not None
        asyncio.run(Agent(lambda *_: result("whole")).at(workflows.project).resume(left.under_way))
        again = Agent()
        ended = advance(workflows, again)
        assert (ended.status, ended.outputs, again.done, again.resumed) == ("completed", {"a": "whole"}, [], [])
        assert ended.history.records[-1].runtime == "cli"

    def test_what_is_gone_is_begun_anew(self, workflows: Workflows) -> None:
        left = self.interrupted(workflows, run(status="interrupted"))
        assert left.under_way is not None
        shutil.rmtree(workflows.project / ".go-ent" / "executions" / left.under_way)
        again = Agent()
        assert advance(workflows, again).status == "completed"
        assert (again.done, again.resumed) == (["a"], [])

    def test_what_another_process_goes_on_with_is_left_to_it(self, workflows: Workflows) -> None:
        left = self.interrupted(workflows, run(status="interrupted"))
        assert left.under_way is not None
        agent = Agent()
        with FileStore(workflows.project).hold(left.under_way), pytest.raises(ExecutionConflict, match="process"):
            advance(workflows, agent)
        assert (workflows.get("w").under_way, agent.done) == (left.under_way, [])
        assert advance(workflows, agent).status == "completed"

    def test_one_that_can_not_be_kept_is_interrupted(self, workflows: Workflows) -> None:
        class Slow(Agent):
            async def work(self, state: ExecutionState, task: Task) -> TaskResult:
                await asyncio.Event().wait()
                raise AssertionError

            async def start(self, task: Task, /, *, parent: str | None = None, adjustments: Sequence[str] = ()) -> str:
                file_of(workflows).write_text("{")
                return await super().start(task, parent=parent, adjustments=adjustments)

        agent = Slow()
        workflows.start("w", steps("a"))
        with pytest.raises(BadState):
            advance(workflows, agent)
        assert [row.status for row in agent.store.rows(9)] == ["interrupted"]


class TestFailure:
    @pytest.mark.parametrize("failure", [result(error="no such file"), NoRuntime("no such file")])
    def test_a_failed_step_waits_and_is_tried_again_when_approved(
        self, workflows: Workflows, failure: TaskResult | Exception
    ) -> None:
        answers = iter([result("first"), failure, result("second")])
        agent = Agent(lambda *_: next(answers))
        workflows.start("w", steps("a", "b"))
        waiting = advance(workflows, agent)
        assert (waiting.status, waiting.position, waiting.error) == ("waiting", 1, "no such file")
        assert waiting.summary.endswith("it failed: no such file")
        workflows.approve("w")
        ended = advance(workflows, agent)
        assert (ended.status, ended.error) == ("completed", None)
        assert agent.done == ["a", "b", "b"]
        assert agent.asked[2][2] == ("The last try of this failed: no such file",)
        assert agent.resumed == []

    def test_a_failed_try_does_not_ask_for_the_wait_point_again(self, workflows: Workflows) -> None:
        answers = iter([result(error="bad"), result()])
        workflows.start("w", steps("a", wait="a"))
        agent = Agent(lambda *_: next(answers))
        advance(workflows, agent)
        workflows.approve("w")
        assert advance(workflows, agent).error == "bad"
        workflows.approve("w")
        assert advance(workflows, agent).status == "completed"

    def test_what_nobody_expected_is_raised_and_leaves_the_step_to_be_gone_on_with(self, workflows: Workflows) -> None:
        workflows.start("w", steps("a"))
        with pytest.raises(ZeroDivisionError):
            advance(workflows, Agent(lambda *_: ZeroDivisionError()))
        assert (workflows.get("w").status, workflows.get("w").begun) == ("active", 1)
        assert advance(workflows, Agent()).status == "completed"

    def test_a_cancelled_advance_lets_go_and_leaves_the_step_to_be_gone_on_with(self, workflows: Workflows) -> None:
        class Slow(Agent):
            async def work(self, state: ExecutionState, task: Task) -> TaskResult:
                begun.set()
                await asyncio.Event().wait()
                raise AssertionError

        begun = asyncio.Event()

        async def main() -> WorkflowState:
            task = asyncio.create_task(workflows.advance("w", Slow().at(workflows.project)))
            await begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert workflows.run_by("w") is None
            return await workflows.advance("w", again.at(workflows.project))

        again = Agent()
        workflows.start("w", steps("a"))
        assert asyncio.run(main()).status == "completed"
        assert (again.done, len(again.resumed)) == ([], 1)


ACTIONS: dict[str, Callable[[Workflows], object]] = {
    "approve": lambda workflows: workflows.approve("w"),
    "cancel": lambda workflows: workflows.cancel("w"),
    "start": lambda workflows: workflows.start("w", steps("a")),
}


class TestTransitions:
    @pytest.mark.parametrize(
        ("status", "may"),
        [
            ("active", {"cancel"}),
            ("waiting", {"approve", "cancel"}),
            ("completed", {"start"}),
            ("cancelled", {"start"}),
        ],
    )
    def test_what_a_person_may_do_in_each_state(
        self, workflows: Workflows, status: WorkflowStatus, may: set[str]
    ) -> None:
        for name, do in ACTIONS.items():
            self._put(workflows, status)
            if name in may:
                do(workflows)
                continue
            before = file_of(workflows).read_bytes()
            with pytest.raises(ExecutionConflict, match=f"w is {status}"):
                do(workflows)
            assert file_of(workflows).read_bytes() == before

    def _put(self, workflows: Workflows, status: WorkflowStatus) -> None:
        file_of(workflows).unlink(missing_ok=True)
        workflows.start("w", steps("a", wait="a" if status == "waiting" else None))
        if status == "cancelled":
            workflows.cancel("w")
        elif status != "active":
            advance(workflows, Agent())
        assert workflows.get("w").status == status

    @pytest.mark.parametrize("status", ["completed", "cancelled", "waiting"])
    def test_advance_does_nothing_to_what_is_not_active(self, workflows: Workflows, status: WorkflowStatus) -> None:
        self._put(workflows, status)
        agent = Agent()
        assert advance(workflows, agent).status == status
        assert agent.done == []

    def test_only_what_the_table_has_can_follow(self) -> None:
        for now in get_args(WorkflowStatus):
            state = WorkflowState.model_construct(name="w", status=now, steps=tuple(steps("a")), position=0)
            for then in get_args(WorkflowStatus):
                if then in TRANSITIONS[now]:
                    assert state.changed(status=then).status == then
                else:
                    with pytest.raises(ExecutionConflict, match=f"w is {now}.* can't become {then}"):
                        state.changed(status=then)

    def test_a_finished_workflow_of_the_same_name_is_kept(self, workflows: Workflows) -> None:
        first = workflows.start("w", steps("a"))
        done = advance(workflows, Agent())
        workflows.start("w", steps("b"))
        kept = file_of(workflows).with_name(f"w.{first.id}.json")
        assert WorkflowState.model_validate_json(kept.read_bytes()) == done
        assert [state.name for state in workflows.all().states] == ["w"]


class TestSeveralAtOnce:
    def test_of_many_approvals_at_once_exactly_one_wins(self, workflows: Workflows) -> None:
        workflows.start("w", steps("a", wait="a"))
        advance(workflows, Agent())
        ready, said = threading.Barrier(8), list[str]()

        def approve() -> None:
            ready.wait()
            try:
                said.append(Workflows(workflows.project).approve("w").status)
            except ExecutionConflict as error:
                said.append(str(error))

        threads = [threading.Thread(target=approve) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert said.count("active") == 1
        assert said.count("workflow w is active at step a (1 of 1): nothing waits for approval") == 7

    def test_an_approval_never_answers_a_question_that_came_later(self, workflows: Workflows) -> None:
        workflows.start("w", [WorkflowStep(id=name, description=name, wait=f"{name}?") for name in "ab"])
        advance(workflows, Agent())
        workflows.approve("w", at="a")
        advance(workflows, Agent())
        with pytest.raises(ExecutionConflict, match=r"waiting at step b .*: it does not wait at a any more"):
            workflows.approve("w", at="a")
        assert workflows.get("w").question == "b?"

    def test_one_that_is_cancelled_while_a_step_runs_ends_with_it_and_its_cost_is_kept(
        self, workflows: Workflows
    ) -> None:
        def answer(task: Task, _: tuple[str, ...]) -> TaskResult:
            Workflows(workflows.project).cancel("w")
            return result()

        agent = Agent(answer)
        workflows.start("w", steps("a", "b"))
        ended = advance(workflows, agent)
        assert (ended.status, ended.position, agent.done) == ("cancelled", 0, ["a"])
        assert ended.history.totals().cost_usd == 0.01

    def test_another_of_that_name_can_not_be_started_while_a_step_of_a_cancelled_one_runs(
        self, workflows: Workflows
    ) -> None:
        def answer(task: Task, _: tuple[str, ...]) -> TaskResult:
            workflows.cancel("w")
            with pytest.raises(ExecutionConflict, match=f"workflow w is being run by process {os.getpid()}"):
                workflows.start("w", steps("b"))
            return result()

        workflows.start("w", steps("a"))
        assert advance(workflows, Agent(answer)).status == "cancelled"

    def test_a_result_that_comes_too_late_moves_no_other_step(self, workflows: Workflows) -> None:
        def answer(task: Task, _: tuple[str, ...]) -> TaskResult:
            if task.description == "a":  # another has finished it meanwhile
                moved = workflows.get("w").model_copy(update={"position": 1, "outputs": {"a": "theirs"}})
                file_of(workflows).write_text(moved.model_dump_json())
            return result("mine")

        agent = Agent(answer)
        workflows.start("w", steps("a", "b"))
        ended = advance(workflows, agent)
        assert (agent.done, ended.outputs) == (["a", "b"], {"a": "theirs", "b": "mine"})


KILLED = """
import asyncio
from pathlib import Path
from go_ent.engine.core.models import TaskResult
from go_ent.engine.workflows.workflow import Workflows
from tests.engine.workflows.test_workflows import Executions

class Agent(Executions):
    async def work(self, state, task):
        with open("ran", "a") as file:
            file.write(task.description + "\\n")
        if task.description == "b":
            while Workflows(Path(".")).get("w").under_way is None:
                await asyncio.sleep(0.005)
            print(state.id, flush=True)
            await asyncio.sleep(60)
        return TaskResult(execution_id="x", status="COMPLETE", strategy="single", output=task.description)

asyncio.run(Workflows(Path(".")).advance("w", Agent().at(Path("."))))
"""


def test_after_kill_9_the_execution_that_ran_is_resumed_and_no_other(workflows: Workflows) -> None:
    project = workflows.project
    workflows.start("w", steps("a", "b", "c"))
    with Forked(code=KILLED, cwd=project, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        try:
            under_way = child.stdout.readline().strip()
            assert workflows.run_by("w") == child.pid
            with pytest.raises(ExecutionConflict, match=f"workflow w is being run by process {child.pid}"):
                advance(workflows, Agent())
        finally:
            child.send_signal(signal.SIGKILL)
    left = workflows.get("w")
    assert (left.status, left.position, left.begun, workflows.run_by("w")) == ("active", 1, 1, None)
    agent = Agent()
    ended = advance(workflows, agent)
    assert (project / "ran").read_text() == "a\nb\n"
    assert (left.under_way, agent.resumed, agent.done) == (under_way, [under_way], ["c"])
    assert (ended.status, ended.outputs["a"]) == ("completed", "a")
    assert [record.task_id for record in ended.history.records] == ["a", "b", "c"]


class TestFiles:
    @pytest.mark.parametrize(
        ("content", "problem"),
        [
            ("{", "is damaged"),
            ("", "is damaged"),
            ("[]", "is damaged"),
            ('{"version": 2}', "version: it should be 1"),
            ("[" * 100_000, "is damaged"),
        ],
    )
    def test_a_file_that_can_not_be_used_is_named_and_never_written_over(
        self, workflows: Workflows, content: str, problem: str
    ) -> None:
        workflows.start("w", steps("a"))
        path = file_of(workflows)
        path.write_text(content)
        others: list[Callable[[Workflows], object]] = [
            lambda workflows: workflows.get("w"),
            lambda workflows: advance(workflows, Agent()),
        ]
        for do in (*ACTIONS.values(), *others):
            with pytest.raises(BadState, match=f"{path}.*{problem}"):
                do(workflows)
        assert path.read_text() == content

    def test_a_state_that_can_not_be_is_refused(self, workflows: Workflows) -> None:
        workflows.start("w", steps("a"))
        path = file_of(workflows)
        path.write_text(json.dumps(json.loads(path.read_text()) | {"position": 1}))
        with pytest.raises(BadState, match="position: 1 of 1 steps can't be active"):
            workflows.get("w")

    def test_one_that_can_not_be_read_hides_none_of_the_others(self, workflows: Workflows) -> None:
        for name in ("a", "b"):
            workflows.start(name, steps("x"))
        file_of(workflows, "a").write_text("{")
        found = workflows.all()
        assert [state.name for state in found.states] == ["b"]
        assert len(found.problems) == 1
        assert str(file_of(workflows, "a")) in found.problems[0]

    def test_neither_links_nor_pipes_are_followed(self, workflows: Workflows, tmp_path: Path) -> None:
        workflows.start("w", steps("a"))
        path = file_of(workflows)
        path.rename(tmp_path / "elsewhere.json")
        path.symlink_to(tmp_path / "elsewhere.json")
        with pytest.raises(BadState, match="can't be read"):
            workflows.get("w")
        path.unlink()
        os.mkfifo(path)
        with pytest.raises(BadState, match="not an ordinary file"):
            workflows.get("w")

    def test_state_is_not_written_into_a_folder_that_is_a_link(self, workflows: Workflows, tmp_path: Path) -> None:
        (tmp_path / "elsewhere").mkdir()
        file_of(workflows).parents[1].mkdir()
        file_of(workflows).parent.symlink_to(tmp_path / "elsewhere")
        with pytest.raises(BadState, match="is a link"):
            workflows.start("w", steps("a"))
        assert list((tmp_path / "elsewhere").iterdir()) == []

    @pytest.mark.parametrize("name", ["", "../w", "a/b", ".w", "-w", "a" * 65, "w.json", "ä", "w\n"])
    def test_names_that_are_none_are_refused(self, workflows: Workflows, name: str) -> None:
        with pytest.raises(BadTask, match="a workflow can't be called"):
            workflows.start(name, steps("a"))
        for do in (workflows.get, workflows.approve, workflows.cancel, workflows.run_by):
            with pytest.raises(BadTask, match="a workflow can't be called"):
                do(name)

    def test_a_workflow_that_is_not_there(self, workflows: Workflows) -> None:
        with pytest.raises(ExecutionNotFound, match="there is no workflow x; there are: none"):
            workflows.approve("x")
        assert not file_of(workflows).parent.exists()
        workflows.start("w", steps("a"))
        with pytest.raises(ExecutionNotFound, match=r"there are: w$"):
            advance(workflows, Agent(), "x")

    def test_a_state_too_large_to_be_kept_is_refused_at_the_start(self, workflows: Workflows) -> None:
        with pytest.raises(BadTask, match="too large to be kept"):
            workflows.start("w", [WorkflowStep(id=f"s{n}", description="x" * 3_500_000) for n in range(5)])
        assert workflows.all().states == ()

    @pytest.mark.parametrize("bad", [[], [*steps("a"), *steps("a")]])
    def test_steps_that_can_not_be_are_refused(self, workflows: Workflows, bad: list[WorkflowStep]) -> None:
        with pytest.raises(BadTask, match=r"two steps are called a|at least 1 item"):
            workflows.start("w", bad)


class TestTrust:
    @pytest.mark.parametrize("step", [{"command": ("touch", "x")}, {"description": "Delete all."}])
    def test_what_another_began_in_a_folder_starts_nothing(
        self, workflows: Workflows, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, step: dict[str, Any]
    ) -> None:
        workflows.start("w", [WorkflowStep.model_validate({"id": "a", **step})])
        monkeypatch.setenv("GO_ENT_DATA", str(tmp_path / "another user"))
        others, agent = Workflows(workflows.project), Agent()
        with pytest.raises(Untrusted, match="go-ent trust"):
            advance(others, agent)
        assert agent.asked == []
        monkeypatch.setenv("GO_ENT_TRUST_PROJECT", "1")
        assert advance(others, agent).status == "completed"

    def test_what_this_user_began_needs_no_trust_until_the_file_says_something_else(self, workflows: Workflows) -> None:
        started = workflows.start("w", [WorkflowStep(id="a", command=("true",))])
        changed = started.model_copy(update={"steps": (WorkflowStep(id="a", command=("false",)),)})
        path = file_of(workflows)
        mine = path.read_bytes()
        path.write_text(changed.model_dump_json())
        with pytest.raises(Untrusted):
            advance(workflows, Agent())
        path.write_bytes(mine)
        assert advance(Workflows(workflows.project), Agent()).status == "completed"


class TestDefinition:
    TOML = """
        name = "release"
        [[step]]
        id = "build"
        command = ["make", "wheel"]
        [[step]]
        id = "publish"
        wait = "Publish it?"
        prompt = "Publish the wheel."
        role = "developer"
        budget = { usd = 0.5 }
        """

    def test_is_the_same_in_toml_and_json(self, tmp_path: Path) -> None:
        (tmp_path / "w.toml").write_text(self.TOML)
        plan = read_workflow(tmp_path / "w.toml")
        (tmp_path / "w.json").write_text(plan.model_dump_json())
        assert read_workflow(tmp_path / "w.json") == plan
        assert (plan.name, [step.id for step in plan.step], plan.step[1].wait) == (
            "release",
            ["build", "publish"],
            "Publish it?",
        )
        assert plan.step[0].command == ("make", "wheel")
        assert plan.step[1].description == "Publish the wheel."

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("", "step: it is required"),
            ("[[step]]\nid = 'a'", r"step 1 \(a\): a task needs a description"),
            ("[[step]]\nprompt = 'x'", "step 1: id: it is required"),
            (
                "[[step]]\nid = 'a'\nprompt = 'x'\ntimeout_s = 0",
                r"step 1 \(a\): timeout_s: it should be greater than 0",
            ),
            (
                "[[step]]\nid = 'a'\nprompt = 'x'\nwiat = 'y'",
                "wiat: there is no such setting; did you mean wait",
            ),
            ("[[step]]\nid = 'a'\nprompt = 'x'\n[[step]]\nid = 'a'\nprompt = 'y'", "two steps are called a"),
            ("[[step]]\nid = '../a'\nprompt = 'x'", r"step 1 \(../a\): id: it should match"),
            ("[[step]]\nid = 'a'\nprompt = 'x'\nwait = ''", r"step 1 \(a\): wait: it should have at least 1"),
            ("step = 1", "step: it should be a list"),
            ("[[step", "is not valid TOML"),
            ("x = '" + "x" * (1 << 20) + "'", "is larger than 1048576 bytes"),
        ],
    )
    def test_errors_name_the_step_and_the_field(self, tmp_path: Path, text: str, message: str) -> None:
        path = tmp_path / "w.toml"
        path.write_text(text)
        with pytest.raises(BadTask, match=f"{path}.*{message}"):
            read_workflow(path)

    def test_a_file_that_is_not_there_or_no_text(self, tmp_path: Path) -> None:
        with pytest.raises(BadTask, match="can't be read: No such file"):
            read_workflow(tmp_path / "w.toml")
        (tmp_path / "w.json").write_bytes(b"\xff")
        with pytest.raises(BadTask, match="is not valid JSON"):
            read_workflow(tmp_path / "w.json")

    def test_who_may_not_start_programs_names_a_command_instead(self) -> None:
        def plan(command: object) -> object:
            return parse_workflow({"step": [{"id": "a", "command": command}]}, where="here", allow_argv=False)

        with pytest.raises(NeedsApproval, match="here: step a is an argv"):
            plan(["rm", "-r", "x"])
        assert plan("lint")


def run(**fields: Any) -> RunResult:
    return RunResult(**{"execution_id": "x", "task_id": "t", "status": "completed", **fields})


def recorded(*runs: RunResult, **fields: Any) -> list[ExecutionRecord]:
    whole = TaskResult(**{"execution_id": "x", "status": "COMPLETE", "strategy": "multi", "steps": runs, **fields})
    return records_of(whole, task_id="w", role="developer", at=86400.0)


class TestHistory:
    def test_every_step_is_recorded(self, workflows: Workflows) -> None:
        answers = iter([result("x"), result(error="no"), result("y")])
        agent = Agent(lambda *_: next(answers))
        workflows.start("w", [WorkflowStep(id=name, description=name, role="tester") for name in "ab"])
        advance(workflows, agent)
        workflows.approve("w")
        history = advance(workflows, agent).history
        assert [(record.task_id, record.role, record.success) for record in history.records] == [
            ("a", "tester", True),
            ("b", "tester", False),
            ("b", "tester", True),
        ]
        totals = history.totals()
        assert (totals.count, totals.successes, totals.tokens, totals.duration_ms) == (3, 2, 30, 15)
        assert totals.cost_usd == pytest.approx(0.03)

    def test_each_try_is_a_record_with_its_own_runtime_and_cost(self) -> None:
        tries = (
            Attempt(runtime="open-code", status="failed", failure="not_found"),
            Attempt(runtime="claude-code", status="failed", failure="rate_limit", cost_usd=0.2, duration_ms=7),
            Attempt(runtime="cli", status="completed", tokens=Tokens(input=3), duration_ms=1),
        )
        records = recorded(run(runtime="cli", model="small", cost_usd=0.2, attempts=tries))
        assert [
            (record.runtime, record.model, record.success, record.cost_usd, record.tokens) for record in records
        ] == [
            ("claude-code", None, False, 0.2, None),
            ("cli", "small", True, None, 3),
        ]

    def test_what_was_skipped_was_not_executed_and_several_steps_keep_their_ids(self) -> None:
        records = recorded(
            run(task_id="one"), run(task_id="two", status="skipped"), run(task_id="three", status="failed")
        )
        assert [(record.task_id, record.success) for record in records] == [("w/one", True), ("w/three", False)]

    def test_what_was_refused_before_it_ran_is_on_record(self) -> None:
        (record,) = recorded(status="BLOCKED", error="no runtime")
        assert (record.task_id, record.success, record.cost_usd, record.strategy) == ("w", False, None, "multi")

    def test_unknown_costs_are_counted_and_never_0(self) -> None:
        history = ExecutionHistory(records=tuple(recorded(run(), run())))
        assert (history.totals().cost_usd, history.totals().costs_unknown) == (None, 2)
        totals = history.add(recorded(run(cost_usd=0.5))).totals()
        assert (totals.cost_usd, totals.costs_known, totals.costs_unknown) == (0.5, 1, 2)

    def test_is_grouped_by_what_is_asked_for(self) -> None:
        history = ExecutionHistory(records=tuple(recorded(run(runtime="cli", cost_usd=1.0), run(cost_usd=2.0))))
        assert {key: totals.cost_usd for key, totals in history.by("runtime").items()} == {"cli": 1.0, "unknown": 2.0}
        assert {key: totals.count for key, totals in history.by("day").items()} == {"1970-01-02": 2}
        with pytest.raises(BadTask, match="grouped by runtime, model, role, strategy, tool, day, not by colour"):
            history.by(cast(Grouping, "colour"))

    @settings(max_examples=30, deadline=None)
    @given(
        st.lists(
            st.builds(
                ExecutionRecord,
                execution_id=st.just("x"),
                task_id=st.just("t"),
                runtime=st.sampled_from([None, "cli", "claude-code"]),
                model=st.sampled_from([None, "small"]),
                role=st.sampled_from([None, "developer"]),
                strategy=st.sampled_from(["single", "multi"]),
                success=st.booleans(),
                tokens=st.none() | st.integers(0, 10**9),
                cost_usd=st.none() | st.integers(0, 1000).map(float),
                duration_ms=st.integers(0, 10**9),
                at=st.floats(0, 4e9),
            )
        )
    )
    def test_groups_always_sum_up_to_the_totals(self, records: list[ExecutionRecord]) -> None:
        history = ExecutionHistory(records=tuple(records))
        whole = history.totals()
        for field in get_args(Grouping):
            groups = history.by(field).values()
            for figure in ("count", "successes", "tokens", "costs_known", "costs_unknown", "duration_ms"):
                assert sum(getattr(group, figure) for group in groups) == getattr(whole, figure)
            assert sum(group.cost_usd or 0.0 for group in groups) == (whole.cost_usd or 0.0)

    def test_a_full_history_takes_no_further_step(self, workflows: Workflows, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("go_ent.engine.executions.history.MAX_RECORDS", 1)
        agent = Agent()
        workflows.start("w", steps("a", "b"))
        with pytest.raises(EngineError, match="has been tried 1 times, which is the most"):
            advance(workflows, agent)
        assert agent.done == ["a"]


def test_a_look_at_who_runs_it_never_stands_in_the_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = StateFiles(tmp_path, WorkflowState, "workflow")
    with files.claim("w"):
        assert files.held_by("w") == os.getpid()
    look = os.open(tmp_path / ".w.run", os.O_RDONLY)
    fcntl.flock(look, fcntl.LOCK_SH)
    monkeypatch.setattr("go_ent.engine.executions.history.time.sleep", lambda _: os.close(look))
    with files.claim("w"):
        assert files.held_by("w") == os.getpid()

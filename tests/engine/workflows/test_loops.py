"""Loops: again until a check passes.

The engine is the seam: a small one stands in for it, with executions and an account on disk. Checks are real programs.
"""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import shutil
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar, get_args

import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from go_ent.engine.budget import Spent
from go_ent.engine.core.errors import (
    BadState,
    BadTask,
    BudgetExceeded,
    ExecutionConflict,
    ExecutionNotFound,
    ModelFailed,
    NoRuntime,
    Untrusted,
)
from go_ent.engine.core.ids import new_id
from go_ent.engine.core.models import (
    BudgetLimit,
    Metrics,
    ModelOptions,
    ModelReply,
    RunResult,
    Task,
    TaskResult,
    Tokens,
)
from go_ent.engine.executions.state import ExecutionState
from go_ent.engine.workflows.loop import TRANSITIONS, Iteration, Loop, LoopResult, LoopState, LoopStatus
from go_ent.engine.workflows.loop_checks import (
    FEEDBACK_CHARS,
    Checking,
    CheckOutcome,
    CommandCheck,
    ModelCheck,
    ToolCheck,
    normalised,
)
from tests.engine.workflows.test_workflows import Executions
from tests.support.executions import FileStore
from tests.support.forked import Forked
from tests.support.rows import each

T = TypeVar("T")
TASK = Task(description="Make it pass.")
PASSES, FAILS = CommandCheck(argv=("true",)), CommandCheck(argv=("sh", "-c", "echo the same; exit 1"))
MARKED = CommandCheck.parse("test -e done")


def result(
    output: str = "", error: str | None = None, *, structured: Any = None, usd: float | None = 0.1, **fields: Any
) -> TaskResult:
    failure = fields.pop("failure", None)
    ran = fields.pop("ran", "completed" if error is None else "failed")
    step = RunResult(
        execution_id="x",
        status=ran,
        structured=structured,
        failure=failure,
        tokens=Tokens(input=100),
        cost_usd=usd,
        duration_ms=5,
    )
    metrics = Metrics(tokens_used=100, duration_ms=5, cost_usd=usd)
    given = {
        "execution_id": "x",
        "strategy": "single",
        "metrics": metrics,
        "steps": (step,),
        "output": output,
        "error": error,
    }
    return TaskResult(**{"status": "COMPLETE" if error is None else "BLOCKED", **given, **fields})


class Agent(Executions):
    """An engine whose executions do what a function says, with the number of the execution; tools and models answer in
    turn.

    Before each it holds *holds* dollars: that is what counts where a cost is not known, or was never told.
    """

    def __init__(
        self,
        work: Callable[[int], TaskResult | Exception] = lambda _: result("worked"),
        *,
        tools: Sequence[TaskResult | Exception] = (),
        replies: Sequence[ModelReply | Exception] = (),
        holds: float = 0.0,
    ) -> None:
        super().__init__()
        self.judged: list[tuple[str, str, ModelOptions]] = []
        self.limits: list[tuple[BudgetLimit | None, str | None]] = []
        self.checked: list[Task] = []
        self._work, self._tools, self._replies, self._holds = work, iter(tools), iter(replies), holds
        self._number = 0

    async def start(self, task: Task, /, *, parent: str | None = None, adjustments: Sequence[str] = ()) -> str:
        execution_id = await super().start(task, parent=parent, adjustments=adjustments)
        if task.tool is not None:
            self.asked.pop()
            self.checked.append(task)
        return execution_id

    async def work(self, state: ExecutionState, task: Task) -> TaskResult:
        key = self._hold(state.id)
        if task.tool is not None:
            made = _or_raise(next(self._tools))
        else:
            self._number += 1
            made = _or_raise(self._work(self._number))
        if made.metrics is not None:
            self._settle(key, made.metrics.cost_usd, made.metrics.tokens_used)
        return made

    async def execute(self, task: Task) -> TaskResult:
        return await self.wait(await self.start(task))

    async def call_model(
        self,
        system: str,
        user: str,
        options: ModelOptions,
        *,
        limit: BudgetLimit | None = None,
        parent: str | None = None,
    ) -> ModelReply:
        self.judged.append((system, user, options))
        self.limits.append((limit, parent))
        key = self._hold(parent or "")
        reply = _or_raise(next(self._replies))
        self._settle(key, reply.cost_usd, reply.usage.total if reply.usage is not None else 0)
        return reply

    async def spent(self, execution_ids: Sequence[str], /) -> Spent:
        calls: dict[str, dict[str, Any]] = {}
        for line in self._ledger.read_text().splitlines() if self._ledger.exists() else ():
            calls.setdefault((said := json.loads(line))["key"], {}).update(said)
        mine = [call for call in calls.values() if call["execution"] in execution_ids]
        unknown = [call["held"] for call in mine if call.get("usd") is None]
        known = [call["usd"] for call in mine if call.get("usd") is not None]
        tokens = sum(call.get("tokens", 0) for call in mine)
        return Spent(usd=sum(known) + sum(unknown), tokens=tokens, estimated_usd=sum(unknown), unknown=len(unknown))

    @property
    def _ledger(self) -> Path:
        return self.store.folder.parent / "ledger.jsonl"

    def _hold(self, execution_id: str) -> str:
        key = new_id()
        self._write({"key": key, "execution": execution_id, "held": self._holds})
        return key

    def _settle(self, key: str, usd: float | None, tokens: int) -> None:
        self._write({"key": key, "usd": usd, "tokens": tokens})

    def _write(self, said: dict[str, Any]) -> None:
        self._ledger.parent.mkdir(exist_ok=True)
        with self._ledger.open("a") as file:
            file.write(json.dumps(said) + "\n")


def _or_raise(value: T | Exception) -> T:
    if isinstance(value, Exception):
        raise value
    return value


def run(loop: Loop, agent: Agent, stop: asyncio.Event | None = None) -> LoopResult:
    return asyncio.run(loop.run(agent.at(loop.project), stop=stop))


def file_of(loop: Loop) -> Path:
    return loop.project / ".go-ent" / "loops" / f"{loop.id}.json"


class TestIterating:
    async def test_runs_again_until_the_check_passes(self, project: Path) -> None:
        def work(number: int) -> TaskResult:
            if number == 3:
                (project / "done").touch()
            return result(f"try {number}")

        agent, seen = Agent(work), list[Iteration]()
        loop = Loop.start(project, TASK, CommandCheck.parse("sh -c 'test -e done || { echo $$; exit 4; }'"))
        ended = await loop.run(agent.at(project), on_iteration=seen.append)
        assert (ended.status, ended.state, ended.message) == (
            "COMPLETE",
            "completed",
            "`sh -c 'test -e done || { echo $$; exit 4; }'` passed after 3 iterations",
        )
        assert [(one.number, one.passed, one.output) for one in ended.iterations] == [
            (1, False, "try 1"),
            (2, False, "try 2"),
            (3, True, "try 3"),
        ]
        assert seen == list(ended.iterations)
        assert {parent for _, parent, _ in agent.asked} == {loop.id}
        assert (ended.metrics.tokens_used, ended.metrics.duration_ms) == (300, 15)
        assert ended.metrics.cost_usd == pytest.approx(0.3)
        assert ended.result is not None
        assert ended.result.output == "try 3"
        assert loop.state.status == "completed"

    def test_the_last_failure_is_fed_back_and_only_that(self, project: Path) -> None:
        (project / "count").write_text("")
        count = CommandCheck.parse("sh -c 'echo x >> count; wc -l < count; echo oops >&2; exit 3'")
        agent = Agent()
        run(Loop.start(project, TASK, count, max_iterations=3), agent)
        said = [adjustments for _, _, adjustments in agent.asked]
        assert said[0] == ()
        assert said[2] == (f"Iteration 2 did not succeed. {count.title} ended with exit code 3\n2\noops",)

    def test_an_execution_that_fails_is_a_failed_iteration_and_is_fed_back_unchecked(self, project: Path) -> None:
        agent = Agent(lambda number: result(error="can't find x") if number == 1 else result())
        ended = run(Loop.start(project, TASK, PASSES), agent)
        assert [(one.status, one.passed) for one in ended.iterations] == [("BLOCKED", False), ("COMPLETE", True)]
        assert ended.iterations[0].check is None
        assert agent.asked[1][2] == (
            "Iteration 1 did not succeed. The execution itself ended as BLOCKED: can't find x",
        )

    def test_ends_after_as_many_iterations_as_it_may_have(self, project: Path) -> None:
        agent = Agent(lambda number: result(error=f"error {number}"))
        ended = run(Loop.start(project, TASK, PASSES), agent)
        assert (len(agent.asked), ended.state, ended.status) == (10, "failed", "PARTIAL")
        assert "did not pass in 10 iterations" in ended.message
        assert "error 10" in ended.message

    @pytest.mark.parametrize("most", [0, -1, 1001])
    def test_a_number_of_iterations_that_can_not_be_is_refused(self, project: Path, most: int) -> None:
        with pytest.raises(BadTask, match="max_iterations: it should be"):
            Loop.start(project, TASK, PASSES, max_iterations=most)
        assert Loop.all(project).states == ()

    def test_the_same_failure_three_times_in_a_row_needs_another_plan(self, project: Path) -> None:
        agent = Agent()
        ended = run(Loop.start(project, TASK, FAILS), agent)
        assert (len(agent.asked), ended.state, ended.status) == (3, "failed", "NEEDS_REPLAN")
        assert ended.message.startswith("the same failure 3 times in a row: ")
        assert ended.message.endswith("the same")

    def test_the_same_failure_with_another_in_between_is_not_in_a_row(self, project: Path) -> None:
        errors = ["a", "a", "b", "a", "a", "a", "never"]
        agent = Agent(lambda number: result(error=errors[number - 1]))
        ended = run(Loop.start(project, TASK, PASSES), agent)
        assert (len(agent.asked), ended.status) == (6, "NEEDS_REPLAN")

    def test_an_execution_that_needs_another_plan_ends_it_at_once(self, project: Path) -> None:
        agent = Agent(lambda _: result(error="no such tool", status="NEEDS_REPLAN"))
        ended = run(Loop.start(project, TASK, PASSES), agent)
        assert (len(agent.asked), ended.status, ended.message) == (1, "NEEDS_REPLAN", "no such tool")

    @pytest.mark.parametrize(
        ("error", "status"),
        [(NoRuntime("nothing is installed"), "BLOCKED"), (BadTask("there is no role x"), "NEEDS_REPLAN")],
    )
    def test_what_can_not_be_begun_ends_it_at_once(self, project: Path, error: Exception, status: str) -> None:
        agent = Agent(lambda _: error)
        ended = run(Loop.start(project, TASK, PASSES), agent)
        assert (len(agent.asked), ended.state, ended.status, ended.message) == (1, "failed", status, str(error))

    def test_what_nobody_expected_is_raised_and_the_loop_can_be_resumed(self, project: Path) -> None:
        loop = Loop.start(project, TASK, ToolCheck(tool="ok"))
        with pytest.raises(ZeroDivisionError):
            run(loop, Agent(lambda _: ZeroDivisionError()))
        assert loop.run_by is None
        again = Agent(tools=[result(structured=True)])
        assert run(Loop.resume(project, loop.id), again).status == "COMPLETE"
        assert (again.asked, len(again.resumed)) == ([], 1)


class TestBudget:
    @pytest.mark.parametrize(
        ("limit", "message"),
        [
            (BudgetLimit(usd=0.25), "the budget of the loop is spent: $0.3000 of $0.2500"),
            (BudgetLimit(tokens=300), "the budget of the loop is spent: 300 of 300 tokens"),
        ],
    )
    def test_no_iteration_begins_when_it_is_spent(self, project: Path, limit: BudgetLimit, message: str) -> None:
        agent = Agent(lambda number: result(error=f"error {number}"))
        ended = run(Loop.start(project, TASK, PASSES, budget=limit), agent)
        assert (len(agent.asked), ended.state, ended.status, ended.message) == (3, "failed", "BLOCKED", message)

    def test_an_execution_may_spend_what_is_left_of_the_loops_and_no_more_than_its_own(self, project: Path) -> None:
        agent = Agent(lambda number: result(error=f"error {number}"))
        task = TASK.model_copy(update={"budget": BudgetLimit(usd=0.2, tokens=1000)})
        run(Loop.start(project, task, PASSES, budget=BudgetLimit(usd=0.35), max_iterations=4), agent)
        usd = [task.budget.usd for task, _, _ in agent.asked if task.budget is not None]
        assert usd == [0.2, 0.2, pytest.approx(0.15), pytest.approx(0.05)]
        assert all(task.budget is not None and task.budget.tokens == 1000 for task, _, _ in agent.asked)

    def test_without_one_of_its_own_the_tasks_is_the_whole_loops(self, project: Path) -> None:
        agent = Agent(lambda number: result(error=f"error {number}"))
        task = TASK.model_copy(update={"budget": BudgetLimit(tokens=150)})
        ended = run(Loop.start(project, task, PASSES), agent)
        assert (len(agent.asked), ended.status) == (2, "BLOCKED")
        assert agent.asked[1][0].budget == BudgetLimit(tokens=50)

    @pytest.mark.parametrize(
        "blocked", [result(error="no money", failure="budget"), BudgetExceeded("day", "$5", "$1", "$5")]
    )
    def test_an_execution_that_does_not_fit_a_budget_ends_it(
        self, project: Path, blocked: TaskResult | Exception
    ) -> None:
        agent = Agent(lambda _: blocked)
        ended = run(Loop.start(project, TASK, PASSES), agent)
        assert (len(agent.asked), ended.state, ended.status) == (1, "failed", "BLOCKED")
        assert "money" in ended.message or "the budget of the day" in ended.message

    def test_a_cost_that_is_not_known_counts_as_what_was_held_and_is_said(self, project: Path) -> None:
        agent = Agent(lambda number: result(error=f"error {number}", usd=None), holds=0.4)
        ended = run(Loop.start(project, TASK, PASSES, budget=BudgetLimit(usd=1)), agent)
        assert (len(agent.asked), ended.status, ended.message) == (
            3,
            "BLOCKED",
            "the budget of the loop is spent: $1.2000 of $1.0000",
        )
        assert [task.budget.usd for task, _, _ in agent.asked if task.budget is not None] == [
            1,
            pytest.approx(0.6),
            pytest.approx(0.2),
        ]
        assert (ended.metrics.cost_usd, ended.metrics.tokens_used) == (None, 300)
        assert ended.warnings == ("the cost of 3 runs is not known: against $1 it is counted as what was held",)

    def test_what_an_execution_said_counts_also_if_the_ledger_has_less(self, project: Path) -> None:
        class Forgetful(Agent):
            async def spent(self, execution_ids: Sequence[str], /) -> Spent:
                return Spent(usd=0.0, tokens=0, estimated_usd=0.0, unknown=0)

        agent = Forgetful(lambda number: result(error=f"error {number}"))
        assert run(Loop.start(project, TASK, PASSES, budget=BudgetLimit(usd=0.15)), agent).status == "BLOCKED"
        assert len(agent.asked) == 2

    def test_a_verdict_may_cost_what_is_left_and_is_booked_on_the_loop(self, project: Path) -> None:
        verdict = ModelReply(text="", structured={"pass": False, "reason": "no"}, cost_usd=0.02)
        agent = Agent(replies=[verdict, ModelFailed("no answer")], holds=0.1)
        loop = Loop.start(project, TASK, ModelCheck(criterion="good"), budget=BudgetLimit(usd=1), max_iterations=2)
        run(loop, agent)
        assert [limit.usd for limit, _ in agent.limits if limit is not None] == [
            pytest.approx(0.9),
            pytest.approx(0.78),
        ]
        assert [parent for _, parent in agent.limits] == [loop.id, loop.id]
        assert loop.state.counted_usd == pytest.approx(0.32)  # what the call held that told no cost is counted

    def test_no_verdict_is_asked_for_when_nothing_is_left(self, project: Path) -> None:
        agent = Agent()
        ended = run(Loop.start(project, TASK, ModelCheck(criterion="good"), budget=BudgetLimit(tokens=100)), agent)
        assert (agent.judged, ended.status, ended.iterations[0].unchecked) == ([], "BLOCKED", True)

    def test_a_tool_may_spend_what_is_left_and_its_execution_is_one_of_the_loops(self, project: Path) -> None:
        answers = [result(structured=False, usd=0.2), result(structured=True, usd=None)]
        agent = Agent(tools=answers, holds=0.5)
        loop = Loop.start(project, TASK, ToolCheck(tool="verify"), budget=BudgetLimit(usd=0.4))
        ended = run(loop, agent)
        budgets = [task.budget.usd for task in agent.checked if task.budget is not None]
        assert budgets == [
            pytest.approx(0.3),
            pytest.approx(1e-6),
        ]  # nothing is left: what costs nothing may run all the same
        assert (ended.status, len(loop.state.executions)) == ("COMPLETE", 4)
        assert loop.state.counted_usd == pytest.approx(0.9)

    def test_what_checks_cost_is_counted(self, project: Path) -> None:
        verdict = ModelReply(text="", structured={"pass": True, "reason": "ok"}, usage=Tokens(input=7), cost_usd=0.02)
        ended = run(Loop.start(project, TASK, ModelCheck(criterion="good")), Agent(replies=[verdict]))
        assert ended.metrics.tokens_used == 107
        assert ended.metrics.cost_usd == pytest.approx(0.12)


class TestInterrupting:
    def test_an_execution_that_was_stopped_pauses_it_and_is_gone_on_with_on_resume(
        self, project: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("GO_ENT_TRUST_PROJECT", "1")
        stop = asyncio.Event()

        def work(number: int) -> TaskResult:
            if number == 2:
                stop.set()
                return result("half", error="interrupted", status="PARTIAL", ran="interrupted")
            return result(error=f"error {number}")

        first = Agent(work)
        loop = Loop.start(project, TASK, MARKED)
        paused = run(loop, first, stop)
        assert (paused.state, paused.status, len(paused.iterations), paused.message) == (
            "paused",
            "PARTIAL",
            1,
            "interrupted",
        )
        assert paused.metrics.tokens_used == 200
        assert paused.result is not None
        assert paused.result.output == "half"
        (project / "done").touch()
        second = Agent()
        loop = Loop.resume(project, loop.id)
        ended = run(loop, second)
        assert (ended.status, [one.number for one in ended.iterations], ended.metrics.tokens_used) == (
            "COMPLETE",
            [1, 2],
            300,
        )
        assert (second.asked, second.resumed) == ([], [ended.iterations[1].execution_id])
        assert loop.state.under_way is None

    def test_what_an_execution_had_finished_before_it_was_stopped_is_counted_once(self, project: Path) -> None:
        done = RunResult(execution_id="x", task_id="one", status="completed", tokens=Tokens(input=10), cost_usd=0.1)
        half = RunResult(execution_id="x", task_id="two", status="interrupted", tokens=Tokens(input=1), cost_usd=0.01)
        whole = half.model_copy(update={"status": "completed", "tokens": Tokens(input=5), "cost_usd": 0.05})
        first = Agent(lambda _: result(error="interrupted", status="PARTIAL", steps=(done, half)))
        second = Agent(
            lambda _: result(steps=(done, whole), metrics=Metrics(tokens_used=15, duration_ms=5, cost_usd=0.15))
        )
        loop = Loop.start(project, TASK, PASSES)
        assert run(loop, first).metrics.tokens_used == 1
        ended = run(loop, second)
        assert ended.metrics.tokens_used == 16
        assert ended.metrics.cost_usd == pytest.approx(0.16)

    def test_one_that_completed_without_being_recorded_is_taken_also_when_nothing_is_left(self, project: Path) -> None:
        loop = Loop.start(project, TASK, ToolCheck(tool="verify"), budget=BudgetLimit(tokens=100))
        run(loop, Agent(lambda _: result(error="interrupted", status="PARTIAL", ran="interrupted")))
        under_way = loop.state.under_way
        assert under_way is not None
        asyncio.run(Agent().at(project).resume(under_way))
        again = Agent(tools=[result(structured=True)])
        ended = run(Loop.resume(project, loop.id), again)
        assert (ended.status, again.asked, again.resumed) == ("COMPLETE", [], [])
        assert [(one.execution_id, one.output) for one in ended.iterations] == [(under_way, "worked")]

    def test_one_that_is_gone_is_begun_anew_and_still_counted(self, project: Path) -> None:
        loop = Loop.start(project, TASK, ToolCheck(tool="verify"), budget=BudgetLimit(usd=1))
        run(
            loop, Agent(lambda _: result(error="interrupted", status="PARTIAL", ran="interrupted", usd=None), holds=0.3)
        )
        shutil.rmtree(project / ".go-ent" / "executions" / str(loop.state.under_way))
        again = Agent(tools=[result(structured=True)])
        assert run(Loop.resume(project, loop.id), again).status == "COMPLETE"
        assert [task.budget for task, _, _ in again.asked] == [BudgetLimit(usd=0.7)]

    def test_one_that_another_process_goes_on_with_pauses_it(self, project: Path) -> None:
        loop = Loop.start(project, TASK, ToolCheck(tool="verify"))
        run(loop, Agent(lambda _: result(error="interrupted", status="PARTIAL", ran="interrupted")))
        under_way = str(loop.state.under_way)
        with FileStore(project).hold(under_way):
            paused = run(Loop.resume(project, loop.id), Agent())
        assert (paused.state, loop.state.under_way) == ("paused", under_way)
        assert f"process {os.getpid()}" in paused.message

    def test_a_tool_check_that_was_stopped_is_gone_on_with(self, project: Path) -> None:
        class Slow(Agent):
            async def work(self, state: ExecutionState, task: Task) -> TaskResult:
                if task.tool is None:
                    return await super().work(state, task)
                asyncio.get_running_loop().call_later(0.02, stop.set)
                await asyncio.Event().wait()
                raise AssertionError

        stop = asyncio.Event()
        loop = Loop.start(project, TASK, ToolCheck(tool="verify"))
        assert run(loop, Slow(), stop).state == "paused"
        under_way = loop.state.under_way
        again = Agent(tools=[result(structured=True)])
        assert run(Loop.resume(project, loop.id), again).status == "COMPLETE"
        assert (again.checked, again.resumed) == ([], [under_way])

    def test_one_that_was_interrupted_from_elsewhere_pauses_it_too(self, project: Path) -> None:
        agent = Agent(lambda _: result(error="interrupted", status="PARTIAL", ran="interrupted"))
        assert run(Loop.start(project, TASK, PASSES), agent).state == "paused"

    def test_stop_ends_a_check_and_all_it_started_and_on_resume_only_the_check_is_run(
        self, project: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("GO_ENT_TRUST_PROJECT", "1")
        slow = CommandCheck.parse("sh -c 'test -e done && exit 0; sleep 60 & echo $! > pid; mv pid child; wait'")

        async def main() -> LoopResult:
            stop = asyncio.Event()
            running = asyncio.create_task(loop.run(Agent().at(project), stop=stop))
            while not (project / "child").exists():  # noqa: ASYNC110
                await asyncio.sleep(0.005)
            stop.set()
            return await running

        loop = Loop.start(project, TASK, slow)
        paused = asyncio.run(main())
        assert (paused.state, len(paused.iterations), paused.iterations[0].unchecked) == ("paused", 1, True)
        assert not _lives(int((project / "child").read_text()))
        (project / "done").touch()
        again = Agent()
        assert run(Loop.resume(project, loop.id), again).status == "COMPLETE"
        assert again.asked == []

    def test_stop_before_an_iteration_begins_none(self, project: Path) -> None:
        stop, agent = asyncio.Event(), Agent()
        stop.set()
        assert run(Loop.start(project, TASK, PASSES), agent, stop).state == "paused"
        assert agent.asked == []

    def test_a_cancelled_run_leaves_it_paused(self, project: Path) -> None:
        class Slow(Agent):
            async def work(self, state: ExecutionState, task: Task) -> TaskResult:
                begun.set()
                await asyncio.Event().wait()
                raise AssertionError

        begun = asyncio.Event()

        async def main() -> None:
            running = asyncio.create_task(loop.run(Slow().at(project)))
            await begun.wait()
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running

        loop = Loop.start(project, TASK, PASSES)
        asyncio.run(main())
        assert (loop.state.status, loop.state.begun, loop.run_by) == ("paused", None, None)

    def test_one_that_is_cancelled_while_it_runs_ends_with_its_execution_and_the_cost_is_kept(
        self, project: Path
    ) -> None:
        def work(_: int) -> TaskResult:
            Loop(project, loop.id).cancel()
            return result()

        agent = Agent(work)
        loop = Loop.start(project, TASK, PASSES)
        ended = run(loop, agent)
        assert (ended.state, ended.status, len(agent.asked), ended.metrics.tokens_used) == (
            "cancelled",
            "PARTIAL",
            1,
            100,
        )

    def test_only_what_the_table_has_can_follow(self) -> None:
        for now in get_args(LoopStatus):
            state = LoopState.model_construct(id="x", status=now)
            for then in get_args(LoopStatus):
                if then in TRANSITIONS[now]:
                    assert state.changed(status=then).status == then
                else:
                    with pytest.raises(ExecutionConflict, match=f"loop x is {now}: it can't become {then}"):
                        state.changed(status=then)

    def test_what_has_ended_is_neither_resumed_nor_cancelled(self, project: Path) -> None:
        loop = Loop.start(project, TASK, PASSES)
        run(loop, Agent())
        before = file_of(loop).read_bytes()
        for do in (lambda: Loop.resume(project, loop.id), loop.cancel, lambda: run(loop, Agent())):
            with pytest.raises(ExecutionConflict, match="is completed"):
                do()
        assert file_of(loop).read_bytes() == before


KILLED = """
import asyncio, sys
from pathlib import Path
from go_ent.engine.workflows.loop import Loop
from tests.engine.workflows.test_loops import Agent, result

class Slow(Agent):
    async def work(self, state, task):
        with open("ran", "a") as file:
            file.write("x")
        if Path("ran").read_text() == "xx" and sys.argv[2] == "execution":
            self._hold(state.id)
            while loop.state.under_way is None:
                await asyncio.sleep(0.005)
            print(state.id, flush=True)
            await asyncio.sleep(60)
        return await super().work(state, task)

loop = Loop.resume(Path("."), sys.argv[1])
asyncio.run(loop.run(Slow(holds=0.6).at(Path("."))))
"""
IN_CHECK = "sh -c 'test -e done && exit 0; grep -q xx ran || exit 1; sleep 60 & echo $! > child; echo here; wait'"


class TestKilled:
    def killed(self, loop: Loop, where: str) -> None:
        """Run the loop in another process, and kill that in its second iteration."""
        trusting = {**os.environ, "GO_ENT_TRUST_PROJECT": "1"}
        with Forked(loop.id, where, code=KILLED, cwd=loop.project, env=trusting, stdout=-1, text=True) as child:
            assert child.stdout is not None
            try:
                if where == "execution":
                    assert child.stdout.readline().strip() == loop.state.under_way
                else:
                    while not (loop.project / "child").exists() or not (loop.project / "child").read_text().strip():
                        assert child.poll() is None
                        time.sleep(0.005)
                assert loop.run_by == child.pid
                with pytest.raises(ExecutionConflict, match=f"is being run by process {child.pid}"):
                    run(loop, Agent())
            finally:
                child.send_signal(signal.SIGKILL)
        assert loop.state.status == "running"
        assert loop.run_by is None

    def test_in_an_execution_that_is_resumed_and_what_was_held_for_it_is_counted(self, project: Path) -> None:
        loop = Loop.start(project, TASK, CommandCheck.parse("test -e done"), budget=BudgetLimit(usd=1))
        self.killed(loop, "execution")
        left = loop.state
        assert (len(left.iterations), left.begun) == (1, 2)
        (project / "done").touch()
        agent = Agent()
        ended = run(loop, agent)
        assert (ended.status, agent.asked, agent.resumed, len(ended.iterations)) == (
            "COMPLETE",
            [],
            [left.under_way],
            2,
        )
        assert (project / "ran").read_text() == "xx"
        assert ended.metrics.cost_usd == pytest.approx(0.2)
        assert loop.state.counted_usd == pytest.approx(0.8)

    def test_in_an_execution_for_which_all_was_held_that_was_left(self, project: Path) -> None:
        loop = Loop.start(project, TASK, CommandCheck.parse("test -e done"), budget=BudgetLimit(usd=0.7))
        self.killed(loop, "execution")
        agent = Agent()
        ended = run(loop, agent)
        assert (ended.status, ended.message) == ("BLOCKED", "the budget of the loop is spent: $0.7000 of $0.7000")
        assert (agent.asked, agent.resumed) == ([], [])

    def test_in_a_check_only_that_is_run_again_and_what_it_had_started_is_ended(self, project: Path) -> None:
        loop = Loop.start(project, TASK, CommandCheck.parse(IN_CHECK))
        self.killed(loop, "check")
        orphan = int((project / "child").read_text())
        assert _lives(orphan)
        (project / "done").touch()
        agent = Agent()
        ended = run(loop, agent)
        assert (ended.status, agent.asked, len(ended.iterations)) == ("COMPLETE", [], 2)
        assert not _lives(orphan)


def _lives(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


class TestFiles:
    def test_a_file_that_can_not_be_used_is_named_and_never_written_over(self, project: Path) -> None:
        loop = Loop.start(project, TASK, PASSES)
        file_of(loop).write_text("{")
        for do in (lambda: loop.state, lambda: run(loop, Agent()), loop.cancel, lambda: Loop.resume(project, loop.id)):
            with pytest.raises(BadState, match=str(file_of(loop))):
                do()
        assert file_of(loop).read_text() == "{"
        assert len(Loop.all(project).problems) == 1

    def test_one_that_is_not_there(self, project: Path) -> None:
        with pytest.raises(ExecutionNotFound, match="there is no loop x"):
            Loop.resume(project, "x")
        with pytest.raises(BadTask, match="can't be called"):
            Loop.resume(project, "../x")

    @pytest.mark.parametrize("check", [CommandCheck.parse("touch started"), ToolCheck(tool="x")])
    def test_what_another_began_in_a_folder_starts_nothing(
        self, project: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, check: CommandCheck | ToolCheck
    ) -> None:
        made, agent = Loop.start(project, TASK, check), Agent()
        monkeypatch.setenv("GO_ENT_DATA", str(tmp_path / "another user"))
        with pytest.raises(Untrusted, match="go-ent trust"):
            run(Loop.resume(project, made.id), agent)
        assert agent.asked == []
        assert not (project / "started").exists()
        monkeypatch.setenv("GO_ENT_TRUST_PROJECT", "1")
        if isinstance(check, CommandCheck):
            assert run(Loop.resume(project, made.id), agent).status == "COMPLETE"

    def test_what_an_iteration_leaves_is_bounded(self, project: Path) -> None:
        agent = Agent(lambda number: result("o" * 10**6, error="e" * 10**6) if number == 1 else result("o" * 10**6))
        loud = CommandCheck.parse("sh -c 'yes out | head -c 300000; yes err | head -c 300000 >&2; exit 1'")
        loop = Loop.start(project, TASK, loud, max_iterations=2)
        ended = run(loop, agent)
        assert file_of(loop).stat().st_size < 50_000
        assert len(agent.asked[1][2][0]) < FEEDBACK_CHARS + 500
        check = ended.iterations[1].check
        assert check is not None
        assert len(check.feedback) < FEEDBACK_CHARS + 500
        assert check.feedback.endswith("err")
        assert "out\nout" in check.feedback


def check(what: CommandCheck | ToolCheck | ModelCheck, project: Path, agent: Agent) -> CheckOutcome:
    """What a check says of an execution."""
    agent.at(project)
    return asyncio.run(what.run(Checking(project, agent, "x", TASK, "I did it", ("a.py",), agent.execute)))


class TestCommandCheck:
    @pytest.mark.parametrize(
        ("text", "feedback"),
        [
            ("sh -c 'exit 7'", "ended with exit code 7"),
            ("sh -c 'kill -9 $$'", "was ended by signal 9"),
            ("./missing", "there is no program './missing'"),
        ],
    )
    def test_says_how_it_failed(self, project: Path, text: str, feedback: str) -> None:
        outcome = check(CommandCheck.parse(text), project, Agent())
        assert not outcome.passed
        assert outcome.feedback.endswith(feedback)

    def test_one_that_takes_too_long_has_failed(self, project: Path) -> None:
        outcome = check(CommandCheck.parse("sleep 60", timeout_s=0.05), project, Agent())
        assert (outcome.passed, outcome.feedback) == (False, "`sleep 60` did not end within 0.05 seconds")

    def test_a_program_that_is_not_there_is_refused_before_anything_is_paid(self, project: Path) -> None:
        with pytest.raises(BadTask, match="no program no-such-program on the PATH"):
            Loop.start(project, TASK, CommandCheck.parse("no-such-program --fast"))

    def test_sees_the_project_and_no_secret_of_the_host(self, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("A_TOKEN", "the-secret-value")
        shows = "sh -c 'pwd; echo ${A_TOKEN:-hidden}; exit 1'"
        outcome = check(CommandCheck.parse(shows), project, Agent())
        assert outcome.feedback.endswith(f"{project}\nhidden")
        allowed = CommandCheck(argv=tuple(shlex.split(shows)), env=("A_TOKEN",))
        assert check(allowed, project, Agent()).feedback.endswith(f"{project}\n[secret]")

    @pytest.mark.parametrize(
        ("text", "argv"),
        [
            ("make test", ["make", "test"]),
            ("pytest -k 'a | b' \"x > y\"", ["pytest", "-k", "a | b", "x > y"]),
            (r"grep a\|b 'f$x' price$ \$HOME", ["grep", "a|b", "f$x", "price$", "$HOME"]),
            ("sh -c 'a && b | c'", ["sh", "-c", "a && b | c"]),
        ],
    )
    def test_is_split_like_a_shell_would(self, text: str, argv: list[str]) -> None:
        assert CommandCheck.parse(text).argv == tuple(argv)

    @each(
        ("text", "operator"),
        [
            ("a | b", "|"),
            ("a && b", "&"),
            ("a; b", ";"),
            ("a > b", ">"),
            ("a < b", "<"),
            ("a $(b)", "$("),
            ('a "$(b)"', "$("),
            ("a `b`", "`"),
            ('a "`b`"', "`"),
            ("a $HOME", "$H"),
            ("a ${HOME}", "${"),
            ("a &", "&"),
            ("a *.py", "*"),
            ("(a)", "("),
            ("a\nb", "\n"),
            ("'a' | 'b'", "|"),
        ],
    )
    def test_what_only_a_shell_understands_is_refused(self, text: str, operator: str) -> None:
        with pytest.raises(BadTask, match=r"needs a shell, and none is used.*sh -c") as caught:
            CommandCheck.parse(text)
        assert str(caught.value).startswith(repr(operator))

    @pytest.mark.parametrize("text", ["", "   ", "a 'b"])
    def test_what_is_no_command_is_refused(self, text: str) -> None:
        with pytest.raises(BadTask, match=r"a check|the check"):
            CommandCheck.parse(text)

    @settings(max_examples=50, deadline=None)
    @given(
        st.lists(st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0")), min_size=1, max_size=5)
    )
    def test_whatever_is_quoted_arrives_as_it_is(self, words: list[str]) -> None:
        assert CommandCheck.parse(shlex.join(words)).argv == tuple(words)


class TestToolCheck:
    @pytest.mark.parametrize("value", [True, {"ok": True}, {"ok": True, "more": 1}])
    def test_passes_when_the_tool_says_so(self, project: Path, value: object) -> None:
        agent = Agent(tools=[result("…", structured=value)])
        assert check(ToolCheck(tool="verify", inputs={"n": 1}), project, agent).passed
        assert agent.checked == [Task(tool="verify", inputs={"n": 1})]

    @pytest.mark.parametrize(
        "value", [False, None, 1, "true", "ok", [True], {"ok": 1}, {"ok": "true"}, {"OK": True}, {}]
    )
    def test_whatever_else_it_answers_is_feedback(self, project: Path, value: object) -> None:
        outcome = check(ToolCheck(tool="verify"), project, Agent(tools=[result("true", structured=value)]))
        assert (outcome.passed, outcome.feedback) == (False, "the tool verify answered\ntrue")

    def test_a_tool_that_fails_is_no_pass(self, project: Path) -> None:
        agent = Agent(tools=[result("", error="KeyError: x", structured=True)])
        outcome = check(ToolCheck(tool="verify"), project, agent)
        assert (outcome.passed, outcome.feedback) == (False, "the tool verify failed: KeyError: x")

    def test_a_tool_that_is_not_there_ends_the_loop(self, project: Path) -> None:
        ended = run(
            Loop.start(project, TASK, ToolCheck(tool="verify")), Agent(tools=[BadTask("there is no tool verify")])
        )
        assert (ended.state, ended.message) == ("failed", "there is no tool verify")


class TestModelCheck:
    @pytest.mark.parametrize(
        ("reply", "passed", "feedback"),
        [
            (ModelReply(text="", structured={"pass": True, "reason": "all there"}), True, "all there"),
            (ModelReply(text='{"pass": true, "reason": "fine"}'), True, "fine"),
            (
                ModelReply(text='```json\n{"pass": false, "reason": "no tests"}\n```'),
                False,
                "the criterion is not met\nno tests",
            ),
        ],
    )
    def test_the_verdict_decides(self, project: Path, reply: ModelReply, passed: bool, feedback: str) -> None:
        outcome = check(ModelCheck(criterion="has tests"), project, Agent(replies=[reply]))
        assert (outcome.passed, outcome.feedback) == (passed, feedback)

    @pytest.mark.parametrize(
        "reply",
        [
            ModelReply(text="Yes, it passes!"),
            ModelReply(text="true"),
            ModelReply(text='{"pass": "true", "reason": "x"}'),
            ModelReply(text='{"pass": 1, "reason": "x"}'),
            ModelReply(text='{"pass": true}'),
            ModelReply(text="[" * 100_000),
            ModelReply(text="", structured=[]),
            ModelFailed("the model is not reached"),
        ],
    )
    def test_a_verdict_that_can_not_be_read_is_never_a_pass(self, project: Path, reply: ModelReply | Exception) -> None:
        outcome = check(ModelCheck(criterion="has tests"), project, Agent(replies=[reply]))
        assert not outcome.passed
        assert "can't be read" in outcome.feedback or "there is no verdict" in outcome.feedback

    def test_is_asked_with_the_criterion_the_task_and_the_answer(self, project: Path) -> None:
        verdict = ModelReply(text="", structured={"pass": True, "reason": ""})
        agent = Agent(replies=[verdict])
        check(ModelCheck(criterion="has tests", model="small"), project, agent)
        ((_, user, options),) = agent.judged
        for part in ("has tests", "Make it pass.", "I did it", "a.py"):
            assert part in user
        assert options.model == "small"
        assert options.json_schema is not None
        assert options.json_schema["required"] == ["pass", "reason"]


class TestSameFailure:
    @each(
        ("one", "other"),
        [
            ("FAILED in 0.12s", "FAILED in 10.4s"),
            ("took 3 ms", "took 250 ms"),
            ("ok 1m2.5s", "ok 58.1s"),
            ("== 1 failed in 0.1s ==========", "== 1 failed in 12.1s ========"),
            ("<Thing object at 0x7f3a>", "<Thing object at 0x55d0c1>"),
            ("2024-01-02T03:04:05.6Z error", "2025-11-12 13:14:15 error"),
            ("12:00:01 no", "12:00:02.5 no"),
            ("no /tmp/pytest-1/x", "no /tmp/pytest-22/y"),
            ("at 1700000000.1 no", "at 1700000123 no"),
            ("id 123e4567-e89b-12d3-a456-426614174000", "id 00000000-e89b-12d3-a456-42661417400f"),
            ("commit 1f2e3d4c5b6a", "commit 9a8b7c6d5e4f"),
            ("pid 12 died", "pid 345 died"),
            ("\x1b[31mred\x1b[0m", "red"),
        ],
    )
    def test_differs_only_by_time_and_place(self, one: str, other: str) -> None:
        assert normalised(one, Path("/p")) == normalised(other, Path("/p"))

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ("5 failed", "4 failed"),
            ("expected 3, got 4", "expected 3, got 5"),
            ("error in a.py:3", "error in b.py:3"),
            ("/tmp/build/a.py: no", "/tmp/build/b.py: no"),
            ("KeyError: a", "KeyError: b"),
        ],
    )
    def test_is_another_when_anything_else_differs(self, one: str, other: str) -> None:
        assert normalised(one, Path("/tmp/build")) != normalised(other, Path("/tmp/build"))

    def test_is_found_in_real_output_that_differs_each_time(self, project: Path) -> None:
        noisy = (
            "sh -c 'd=$(mktemp -d); date; date +%s.%N; echo took $(date +%N | cut -c1-3) ms in $d/log; rmdir $d; "
            "exit 1'"
        )
        ended = run(Loop.start(project, TASK, CommandCheck.parse(noisy)), Agent())
        feedbacks = [one.check.feedback for one in ended.iterations if one.check is not None]
        assert len(set(feedbacks)) == 3
        assert ended.status == "NEEDS_REPLAN"

    def test_of_long_output_that_is_cut_at_another_place(self, project: Path) -> None:
        padded = (
            "sh -c 'echo x >> n; yes $(date +%N)ns | head -c $((99000 + $(wc -l < n))); echo; yes same | head -n "
            "9000; exit 1'"
        )
        assert run(Loop.start(project, TASK, CommandCheck.parse(padded)), Agent()).status == "NEEDS_REPLAN"

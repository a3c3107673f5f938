"""Strategies over steps, how one is chosen, and the answer that all of them give."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from go_ent.engine.core.errors import BadTask, BudgetExceeded, NeedsApproval, NoRuntime
from go_ent.engine.core.models import RunResult, Task, TaskResult, TaskType, Tokens
from go_ent.engine.core.step import Step
from go_ent.engine.strategies import (
    ROLES,
    Complexity,
    aggregate,
    chain_for,
    choose,
    complexity,
    multi,
    parallel,
    parse_plan,
    single,
)
from go_ent.engine.strategies.auto import HANDOFF, LARGE, SMALL
from go_ent.engine.strategies.multi import CHAINS
from tests.support import ROOT
from tests.support.rows import each

GUIDE = ROOT / "docs" / "guides" / "plans.md"


def result(task_id: str = "task", status: str = "completed", **more: Any) -> RunResult:
    return RunResult.model_validate({"execution_id": "e", "task_id": task_id, "status": status, **more})


class Host:
    """Answers each step with `of ID`, or with what the test says."""

    def __init__(self, **answers: Callable[[Step], RunResult] | RunResult | Exception) -> None:
        self.steps: list[Step] = []
        self._answers = answers

    async def __call__(self, step: Step) -> RunResult:
        self.steps.append(step)
        answer = self._answers.get("s" + step.id.replace("-", "_"))
        if isinstance(answer, Exception):
            raise answer
        if answer is None:
            return result(step.id, output=f"of {step.id}")
        return answer if isinstance(answer, RunResult) else answer(step)

    @property
    def ids(self) -> list[str]:
        return [step.id for step in self.steps]


class TestSingle:
    def run(self, tasks: list[Task], host: Host, stop: asyncio.Event | None = None) -> tuple[RunResult, ...]:
        return asyncio.run(single.run(tasks, host, execution_id="e", stop=stop))

    def test_one_task_is_one_step(self) -> None:
        host, task = Host(), Task(description="x")
        assert [one.output for one in self.run([task], host)] == ["of task"]
        assert host.steps == [Step("task", task)]

    def test_a_list_runs_in_its_order(self) -> None:
        host = Host()
        self.run([Task(description=text) for text in "abc"], host)
        assert [(step.id, step.task.description) for step in host.steps] == [("1", "a"), ("2", "b"), ("3", "c")]

    def test_a_list_ends_at_the_first_failure_and_keeps_everything(self) -> None:
        host = Host(s2=result("2", "failed", output="half", error="no"))
        results = self.run([Task(description=text) for text in "abcd"], host)
        assert host.ids == ["1", "2"]
        assert [one.status for one in results] == ["completed", "failed", "skipped", "skipped"]
        assert [one.output for one in results[:2]] == ["of 1", "half"]
        assert {one.error for one in results[2:]} == {"not run: 2 failed"}

    def test_once_stopped_the_rest_is_interrupted(self) -> None:
        stop = asyncio.Event()

        def stops(step: Step) -> RunResult:
            stop.set()
            return result(step.id, output="done all the same")

        results = self.run([Task(description=text) for text in "abc"], Host(s1=stops), stop)
        assert [one.status for one in results] == ["completed", "interrupted", "interrupted"]

    @pytest.mark.parametrize(
        ("error", "failure", "said"),
        [
            (BudgetExceeded("task", "$1", "$2", "$2"), "budget", "the budget of the task does not hold this"),
            (NoRuntime("claude is not on PATH"), "not_found", "claude is not on PATH"),
            (NeedsApproval("say yes first"), "permission", "say yes first"),
            (BadTask("no such skill"), "task", "no such skill"),
            (OSError("disk"), "crash", "OSError: disk"),
        ],
    )
    def test_a_step_that_raises_has_failed_with_a_kind(self, error: Exception, failure: str, said: str) -> None:
        (one,) = self.run([Task(description="x")], Host(stask=error))
        assert (one.status, one.failure) == ("failed", failure)
        assert said in (one.error or "")


class TestMulti:
    def run(self, task: Task, host: Host, **options: Any) -> tuple[RunResult, ...]:
        return asyncio.run(multi.run(task, host, execution_id="e", **options))

    def test_each_role_gets_all_that_was_said_before(self) -> None:
        host = Host()
        self.run(Task(description="Add a cache", type="feature", strategy="multi"), host)
        assert host.ids == ["1-architect", "2-developer", "3-reviewer"]
        assert [step.task.role for step in host.steps] == ["architect", "developer", "reviewer"]
        assert {(step.task.strategy, step.task.description) for step in host.steps} == {("single", "Add a cache")}
        assert [[(one.source, one.text) for one in step.previous] for step in host.steps] == [
            [],
            [("architect", "of 1-architect")],
            [("architect", "of 1-architect"), ("developer", "of 2-developer")],
        ]

    def test_the_chain_can_be_given_and_a_role_may_come_twice(self) -> None:
        host = Host()
        self.run(Task(description="x", role="writer"), host, chain=("developer", "critic", "developer"))
        assert host.ids == ["1-developer", "2-critic", "3-developer"]

    def test_it_stops_at_the_first_failure_and_keeps_everything(self) -> None:
        host = Host(s2_developer=result("2-developer", "failed", output="half a change", error="no"))
        results = self.run(Task(description="x", type="feature"), host)
        assert host.ids == ["1-architect", "2-developer"]
        assert [one.status for one in results] == ["completed", "failed", "skipped"]
        assert [one.output for one in results] == ["of 1-architect", "half a change", ""]
        assert results[2].error == "not run: 2-developer failed"
        assert aggregate("e", "multi", "", results).output == "half a change"

    def test_what_has_no_description_to_hand_over_is_refused(self) -> None:
        with pytest.raises(BadTask, match="a command, a tool or code has none"):
            self.run(Task(command=("true",)), Host())

    @each(
        ("type_", "level", "chain"),
        [
            ("feature", "low", "developer reviewer"),
            ("feature", "medium", "architect developer reviewer"),
            ("feature", "high", "architect developer tester reviewer"),
            ("bugfix", "low", "developer reviewer"),
            ("bugfix", "high", "architect developer tester reviewer"),
            ("refactor", "medium", "architect developer reviewer"),
            ("architecture", "low", "architect reviewer"),
            ("architecture", "high", "architect developer reviewer"),
            ("test", "low", "tester reviewer"),
            ("docs", "medium", "writer reviewer"),
            ("review", "low", "reviewer"),
            ("other", "low", "developer reviewer"),
            ("other", "high", "architect developer reviewer"),
        ],
    )
    def test_the_chain_goes_by_type_and_complexity(self, type_: Any, level: Complexity, chain: str) -> None:
        assert chain_for(Task(description="x", type=type_), level) == tuple(chain.split())

    def test_every_role_of_a_chain_is_known(self) -> None:
        assert {role for chains in CHAINS.values() for chain in chains.values() for role in chain} == set(ROLES)


class TestAuto:
    @each(
        ("task", "level"),
        [
            ({"description": "Fix a typo", "type": "bugfix"}, "low"),
            ({"description": "Fix the crash", "type": "bugfix"}, "low"),
            ({"description": "Fix the crash", "type": "bugfix", "files": ["a", "b"]}, "medium"),
            ({"description": "Fix the race in the concurrent cache", "type": "bugfix"}, "medium"),
            ({"description": "Add a flag", "type": "feature"}, "medium"),
            ({"description": "Add a small flag", "type": "feature"}, "low"),
            ({"description": "Migrate the database to a new schema", "type": "feature"}, "high"),
            ({"description": "Add a flag", "type": "feature", "files": ["a"] * 5}, "high"),
            ({"description": "Describe it", "type": "docs", "files": ["a", "b"]}, "low"),
            ({"description": "Design it", "type": "architecture"}, "medium"),
            ({"description": "Redesign it", "type": "architecture"}, "high"),
            ({"description": "What is this?"}, "low"),
            ({"description": "security of the database schema"}, "medium"),
            ({"description": "word " * 500}, "medium"),
            ({"description": "prescheming migrationless"}, "low"),
        ],
    )
    def test_complexity_comes_from_type_files_words_and_length(self, task: dict[str, Any], level: Complexity) -> None:
        assert complexity(Task.model_validate(task)) == level

    @each(
        ("task", "preferred", "strategy", "reason"),
        [
            ({"description": "x", "strategy": "multi"}, "single", "multi", "the task asks for it"),
            (
                {"description": "Migrate the database schema", "type": "feature", "strategy": "single"},
                "auto",
                "single",
                "the task asks for it",
            ),
            ({"command": ["true"], "type": "architecture"}, "multi", "single", "it needs no model"),
            ({"tool": "clean"}, "auto", "single", "it needs no model"),
            ({"description": "composed:clean {}"}, "auto", "single", "it needs no model"),
            ({"description": "x"}, "multi", "multi", "the configuration prefers it"),
            ({"description": "x"}, "parallel", "single", "type other, complexity low"),
            (
                {"description": "Design it", "type": "architecture", "role": "architect"},
                "auto",
                "single",
                "it is for the role architect",
            ),
            ({"description": "Add a flag", "type": "feature"}, "auto", "multi", "type feature, complexity medium"),
            ({"description": "Add a tiny flag", "type": "feature"}, "auto", "single", "type feature, complexity low"),
            ({"description": "Fix it", "type": "bugfix"}, "auto", "single", "type bugfix, complexity low"),
            (
                {"description": "Fix it", "type": "bugfix", "files": ["a", "b"]},
                "auto",
                "multi",
                "type bugfix, complexity medium",
            ),
            (
                {"description": "Design it", "type": "architecture"},
                "auto",
                "multi",
                "type architecture, complexity medium",
            ),
            (
                {"description": "Test it", "type": "test", "files": ["a"] * 5},
                "auto",
                "single",
                "type test, complexity medium",
            ),
            (
                {"description": "x schema", "type": "test", "files": ["a"] * 5},
                "auto",
                "multi",
                "type test, complexity high",
            ),
            (
                {"description": "security protocol", "type": "review", "files": ["a"] * 5},
                "auto",
                "single",
                "type review, complexity high",
            ),
        ],
    )
    def test_the_first_rule_that_fits_holds(
        self, task: dict[str, Any], preferred: Any, strategy: str, reason: str
    ) -> None:
        made = Task.model_validate(task)
        assert {choose(made, preferred) for _ in range(20)} == {(strategy, reason)}

    def test_a_plan_is_a_graph_and_a_list_is_run_in_its_order(self) -> None:
        plan = parse_plan({"task": [{"id": "a", "prompt": "x"}, {"id": "b", "prompt": "${a.output}"}]})
        assert choose(plan) == ("parallel", "a plan: 2 tasks, 1 dependency")
        assert choose([Task(description="a"), Task(description="b")]) == ("single", "a list: 2 tasks, in their order")

    @pytest.mark.parametrize(
        ("task", "said"),
        [
            ({"description": "x", "strategy": "parallel"}, "give a plan"),
            ({"command": ["x"], "strategy": "multi"}, "use single"),
        ],
    )
    def test_a_strategy_that_cannot_be_is_refused(self, task: dict[str, Any], said: str) -> None:
        with pytest.raises(BadTask, match=said):
            choose(Task.model_validate(task))

    def test_an_unknown_strategy_is_refused_with_those_that_there_are(self) -> None:
        unknown: Any = "fastest"
        with pytest.raises(BadTask, match="there is no strategy fastest; there are: auto, single, multi, parallel"):
            choose(Task(description="x"), unknown)

    @each("type_", CHAINS)
    def test_the_guide_says_the_same(self, type_: TaskType) -> None:
        said = []
        for level, chain in CHAINS[type_].items():
            roles = " → ".join(chain)
            said.append(roles if level in HANDOFF[type_] else f"single ({roles})")
        assert f"| {type_} | {' | '.join(said)} |\n" in GUIDE.read_text(encoding="utf-8")

    def test_no_word_is_both_large_and_small(self) -> None:
        assert not LARGE & SMALL


class TestAnswer:
    @each(
        ("results", "status"),
        [
            ([result("a"), result("b")], "COMPLETE"),
            ([result("a"), result("b", "failed")], "PARTIAL"),
            ([result("a"), result("b", "interrupted")], "PARTIAL"),
            ([result("a", output="x"), result("b", "paused")], "PARTIAL"),
            ([result("a", "failed", output="half")], "PARTIAL"),
            ([result("a", "timeout", files_modified=["x.py"])], "PARTIAL"),
            ([result("a", "failed"), result("b", "skipped")], "BLOCKED"),
            ([result("a", "interrupted")], "BLOCKED"),
            ([], "BLOCKED"),
            ([result("a"), result("b", "failed", replan=True)], "NEEDS_REPLAN"),
            ([result("a", replan=True)], "COMPLETE"),
        ],
    )
    def test_the_status_goes_by_what_was_produced(self, results: list[RunResult], status: str) -> None:
        answer = aggregate("e", "single", "because", results)
        assert (answer.status, answer.strategy, answer.strategy_reason, answer.execution_id) == (
            status,
            "single",
            "because",
            "e",
        )
        assert answer.steps == tuple(results)
        assert (answer.error is None) == (status == "COMPLETE")

    def test_metrics_add_up_what_ran(self) -> None:
        results = [
            result(
                "a",
                cost_usd=0.25,
                tokens=Tokens(input=10, output=5, cache_read=100),
                duration_ms=30,
                runtime="claude-code",
            ),
            result("b", "failed", cost_usd=0.5, tokens=Tokens(output=1), duration_ms=12, runtime="claude-code"),
            result("c", "skipped"),
        ]
        metrics = aggregate("e", "parallel", "", results).metrics
        assert metrics is not None
        assert (metrics.tokens_used, metrics.duration_ms, metrics.cost_usd) == (116, 42, 0.75)
        metrics = aggregate("e", "parallel", "", results, duration_ms=31).metrics
        assert metrics is not None
        assert metrics.duration_ms == 31

    def test_without_a_run_there_are_no_metrics(self) -> None:
        assert aggregate("e", "single", "", [result("a", "interrupted"), result("b", "skipped")]).metrics is None
        assert aggregate("e", "single", "", []).metrics is None
        absent = [{"runtime": "claude-code", "status": "failed", "failure": "not_found"}]
        assert (
            aggregate("e", "single", "", [result("a", "failed", runtime="claude-code", attempts=absent)]).metrics
            is None
        )

    def test_an_unknown_cost_is_never_0(self) -> None:
        unknown = result("a", runtime="open-code", duration_ms=3)
        metrics = aggregate("e", "single", "", [unknown]).metrics
        assert metrics is not None
        assert metrics.cost_usd is None
        answer = aggregate("e", "single", "", [unknown, result("b", cost_usd=0.5), result("c", "skipped")])
        assert answer.metrics is not None
        assert answer.metrics.cost_usd == 0.5
        assert answer.observations == ["the cost of 1 of 2 steps is unknown: cost_usd is the sum of the others"]
        free = result("a", runtime="cli", duration_ms=3)  # nothing was to be paid for it
        assert aggregate("e", "single", "", [free, result("b", cost_usd=0.5)]).observations == []

    def test_files_observations_and_adjustments_are_gathered_once_each(self) -> None:
        one = result("a", files_modified=["x", "y"], observations=["o"], adjustments=["m"])
        other = result("b", files_modified=["y", "z"], observations=["o", "p"], adjustments=["m"])
        answer = aggregate("e", "single", "", [one, other])
        assert (answer.files_modified, answer.observations, answer.adjustments) == (["x", "y", "z"], ["o", "p"], ("m",))

    def test_the_output_of_single_is_that_of_its_task_or_of_all_in_order(self) -> None:
        assert aggregate("e", "single", "", [result(output="x")]).output == "x"
        assert (
            aggregate("e", "single", "", [result("1", output="x"), result("2", output="y")]).output
            == "## 1\n\nx\n\n## 2\n\ny"
        )

    def test_the_output_of_multi_is_the_last_role_s(self) -> None:
        assert (
            aggregate(
                "e", "multi", "", [result("1", output="x"), result("2", output="y"), result("3", "skipped")]
            ).output
            == "y"
        )

    def test_the_output_of_a_graph_is_that_of_its_leaves_in_plan_order(self) -> None:
        plan = parse_plan(
            {
                "task": [
                    {"id": "b", "prompt": "x", "depends_on": ["a"]},
                    {"id": "a", "prompt": "x"},
                    {"id": "c", "prompt": "${a.output}"},
                ]
            }
        )

        def answer(*failing: str) -> str:
            async def host(step: Step) -> RunResult:
                return result(step.id, "failed" if step.id in failing else "completed", output=f"of {step.id}")

            results = asyncio.run(parallel.run(plan, host, execution_id="e"))
            return aggregate("e", "parallel", "", results, leaves=parallel.leaves(plan, results)).output

        assert answer() == "## b\n\nof b\n\n## c\n\nof c"
        assert answer("b") == "of c"
        assert answer("b", "c") == "of a"
        assert answer("a") == ""

    def test_the_error_names_causes_and_counts_the_rest(self) -> None:
        results = [result(f"t{number}", "failed", error="no") for number in range(7)] + [
            result("s", "skipped"),
            result("ok"),
        ]
        assert aggregate("e", "parallel", "", results).error == (
            "t0 failed: no; t1 failed: no; t2 failed: no; t3 failed: no; t4 failed: no; and 2 more; 1 not run"
        )
        stopped = [result("a"), result("b", "interrupted", error="not run: the execution was stopped")]
        assert aggregate("e", "parallel", "", stopped).error == "1 not run: the execution was stopped"
        paused = [result("a", "paused", runtime="cli", error="waits for approval")]
        assert aggregate("e", "single", "", paused).error == "a is paused: waits for approval"
        assert len(aggregate("e", "single", "", [result("a", "failed", error="x" * 10_000)]).error or "") < 600


def test_a_result_needs_a_status_alone() -> None:
    made = TaskResult(status="COMPLETE")
    assert made.ok
    assert (made.files_modified, made.observations) == ([], [])
    assert (made.execution_id, made.strategy, made.steps) == ("", "", ())
    assert TaskResult.model_validate_json(made.model_dump_json()) == made
    assert TaskResult.model_validate({"status": "BLOCKED", "files_modified": ("a",)}).files_modified == ["a"]

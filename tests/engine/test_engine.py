"""The engine: selection, fallback, strategies, budget, events, interrupt and resume."""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path
from typing import Any, Literal

import pytest

from go_ent.engine import (
    BadTask,
    BudgetLimit,
    Engine,
    Event,
    ExecutionConflict,
    ModelFailed,
    ModelOptions,
    NeedsApproval,
    NoRuntime,
    StorageFailed,
    Task,
    Tokens,
    Untrusted,
    parse_plan,
)
from go_ent.engine.core.errors import BadState
from go_ent.engine.core.ids import new_id
from go_ent.engine.runners.breaker import Breaker
from go_ent.engine.storage.journal import Journal, read_records
from tests.support.executions import FileStore
from tests.support.scripted import Scripted, engine_of, fails, says


def one(description: str = "do it", **fields: Any) -> Task:
    return Task.model_validate({"description": description, "strategy": "single", **fields})


class TestSelection:
    """One rule: the task's, else the role's, else the configuration's, else the first that is available."""

    @pytest.mark.parametrize(
        ("fields", "config", "runtime", "reason"),
        [
            (
                {"runtime": "open-code", "role": "developer"},
                {"engine": {"runtime": "claude-code"}},
                "open-code",
                "the task says so",
            ),
            (
                {"role": "developer"},
                {"roles": {"developer": {"runtime": "open-code"}}, "engine": {"runtime": "claude-code"}},
                "open-code",
                "the role developer says so",
            ),
            ({}, {"engine": {"runtime": "open-code"}}, "open-code", "the configuration prefers it"),
            ({}, {}, "claude-code", "it is the first that is available"),
        ],
    )
    async def test_the_rule(
        self, project: Path, fields: dict[str, Any], config: dict[str, Any], runtime: str, reason: str
    ) -> None:
        async with engine_of(project, Scripted("claude-code"), Scripted("open-code"), config=config) as engine:
            result = await engine.execute(one(**fields))
        assert (result.steps[0].runtime, result.steps[0].runtime_reason) == (runtime, reason)

    async def test_the_second_if_the_first_is_not_there(self, project: Path) -> None:
        async with engine_of(project, Scripted("open-code")) as engine:
            result = await engine.execute(one())
        assert result.steps[0].runtime == "open-code"

    async def test_none_says_what_was_looked_for(self, project: Path) -> None:
        async with engine_of(project) as engine:
            result = await engine.execute(one())
        assert (result.status, result.metrics) == ("BLOCKED", None)
        assert result.error is not None
        assert (
            "claude-code: not installed here; open-code: not installed here; cli: no [engine] command is configured"
            in result.error
        )

    @pytest.mark.parametrize(
        ("fields", "said"),
        [
            ({"runtime": "gpt"}, "there is no runtime gpt; there are: claude-code, open-code, cli"),
            (
                {"role": "develper"},
                "there is no role 'develper'; the roles are architect, developer.*did you mean developer",
            ),
            ({"strategy": "parallel"}, "parallel runs the tasks of a plan"),
        ],
    )
    async def test_what_is_unknown_is_refused_before_anything_runs(
        self, project: Path, fields: dict[str, Any], said: str
    ) -> None:
        async with engine_of(project, Scripted("claude-code")) as engine:
            with pytest.raises(BadTask, match=said):
                await engine.execute(one(**fields))
            assert await engine.executions() == []


class TestMisuse:
    @pytest.mark.parametrize("work", ["hello", ["hello"], [], [None]])
    async def test_what_is_no_work(self, project: Path, work: Any) -> None:
        async with engine_of(project) as engine:
            with pytest.raises(BadTask, match=r"work is a Task|nothing to do"):
                await engine.execute(work)

    def test_a_folder_that_is_not_there(self, tmp_path: Path) -> None:
        with pytest.raises(BadTask, match="is no folder"):
            engine_of(tmp_path / "nowhere")

    def test_a_runner_that_is_none(self, project: Path) -> None:
        class Half:
            name = "half"

        with pytest.raises(
            BadTask, match="the runtime half is no runner: it has no family, available, execute, interrupt, close"
        ):
            Engine(project, runners={"half": Half()})  # type: ignore[dict-item]

    async def test_a_runner_that_answers_with_something_else(self, project: Path) -> None:
        class Wrong(Scripted):
            async def execute(self, request: Any, emit: Any) -> Any:
                return "done"

        async with engine_of(project, Wrong("mine", family="mine")) as engine:
            result = await engine.execute(one(runtime="mine"))
            assert "the runner mine failed" in str(result.error)
            assert "it answered with str, not with a RunResult" in str(result.error)


class TestRegistry:
    """Packages bring runners by an entry point; one that is broken hurts nobody else."""

    @pytest.fixture
    def packages(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        folder = tmp_path / "packages"
        info = folder / "theirs-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
        entries = "theirs = their_runner:make\nbroken = their_runner:nothing\ncli = their_runner:make\n"
        (info / "entry_points.txt").write_text(f"[go_ent.runners]\n{entries}")
        code = (
            "from tests.support.scripted import *\ndef make(given):\n    return Scripted('theirs', "
            "says(given.project.name))\n"
        )
        (folder / "their_runner.py").write_text(code)
        monkeypatch.syspath_prepend(str(folder))
        return folder

    async def test_it_is_a_runtime_like_any_other(
        self, project: Path, packages: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        async with engine_of(project) as engine:
            assert engine.registry.names == ["claude-code", "open-code", "cli", "broken", "theirs"]
            assert (await engine.execute(one(runtime="theirs"))).output == "project"
            assert (await engine.execute(one(runtime="claude-code"))).steps[0].runtime == "theirs"
            found = await engine.runtimes()
            assert (found["theirs"].ok, found["broken"].ok) == (True, False)
            assert "its runner is broken: AttributeError" in found["broken"].reason
        assert "the runner cli of their_runner:make is passed over: the name is taken" in caplog.text


class TestFallback:
    @pytest.mark.parametrize("failure", ["not_found", "auth", "rate_limit", "unavailable", "crash", "silence"])
    async def test_what_another_could_survive_goes_to_another(self, project: Path, failure: str) -> None:
        first = Scripted("claude-code", fails(failure, "no", cost_usd=0.1, tokens=Tokens(input=5), output="half"))
        second = Scripted("open-code", says("whole", cost_usd=0.2, tokens=Tokens(input=7)))

        async with engine_of(project, first, second) as engine:
            result = await engine.execute(one(runtime="claude-code"))
        step = result.steps[0]
        assert (result.status, result.output, step.runtime) == ("COMPLETE", "whole", "open-code")
        assert [(a.runtime, a.failure, a.error, a.cost_usd) for a in step.attempts] == [
            ("claude-code", failure, "no", 0.1),
            ("open-code", None, None, 0.2),
        ]
        assert step.runtime_reason == "claude-code was chosen (the task says so), and open-code stood in for it"
        assert result.metrics is not None
        assert result.metrics.cost_usd == pytest.approx(0.3)
        assert result.metrics.tokens_used == 12

    @pytest.mark.parametrize("failure", ["task", "empty", "permission", "budget", "timeout", "mcp_server", "output"])
    async def test_a_tasks_own_failure_stays(self, project: Path, failure: str) -> None:
        first, second = Scripted("claude-code", fails(failure)), Scripted("open-code")

        async with engine_of(project, first, second) as engine:
            result = await engine.execute(one())
        assert (result.status, second.seen) == ("BLOCKED", [])

    async def test_never_across_families(self, project: Path) -> None:
        own = Scripted("mine", fails("crash"), family="other")

        async with engine_of(project, own, Scripted("claude-code"), Scripted("open-code")) as engine:
            result = await engine.execute(one(runtime="mine"))
        assert not result.ok
        assert [attempt.runtime for attempt in result.steps[0].attempts] == ["mine"]

    async def test_one_that_is_not_there_is_an_attempt_with_its_reason(self, project: Path) -> None:
        async with engine_of(project, Scripted("open-code")) as engine:
            result = await engine.execute(one(runtime="claude-code"))
        assert result.ok
        attempt = result.steps[0].attempts[0]
        assert (attempt.runtime, attempt.failure, attempt.error) == ("claude-code", "not_found", "not installed here")

    async def test_a_stand_in_is_not_asked_for_a_model_it_can_not_know(self, project: Path) -> None:
        first, second = Scripted("claude-code", fails("crash")), Scripted("open-code")

        async with engine_of(project, first, second) as engine:
            await engine.execute(one(model="opus"))
        assert (first.seen[0].model, second.seen[0].model) == ("opus", None)

    async def test_three_failures_in_a_row_put_a_runtime_out_for_a_minute(self, project: Path) -> None:
        first, second = Scripted("claude-code", fails("crash")), Scripted("open-code")

        async with engine_of(project, first, second) as engine:
            for _ in range(5):
                assert (await engine.execute(one())).ok
        assert (len(first.seen), len(second.seen)) == (3, 5)

    def test_after_its_minute_it_is_tried_again(self) -> None:
        now = 0.0
        breaker = Breaker(lambda: now)
        for _ in range(3):
            assert not breaker.out_for("x")
            breaker.failed("x")
        assert breaker.out_for("x") == 60
        now = 61
        assert not breaker.out_for("x")
        breaker.failed("x")
        assert breaker.out_for("x") == 60
        now = 200
        breaker.worked("x")
        breaker.failed("x")
        assert not breaker.out_for("x")

    async def test_a_runner_that_raises_is_a_crash(self, project: Path) -> None:
        def broken(request: object) -> dict[str, Any]:
            raise ZeroDivisionError("by zero")

        async with engine_of(project, Scripted("claude-code", broken), Scripted("open-code")) as engine:
            result = await engine.execute(one())
        assert result.ok
        assert "ZeroDivisionError: by zero" in str(result.steps[0].attempts[0].error)


class TestStrategies:
    async def test_a_handoff_carries_the_outputs(self, project: Path) -> None:
        runner = Scripted("claude-code", says("PLAN-1"), says("CODE-2"), says("REVIEW-3"))

        async with engine_of(project, runner) as engine:
            result = await engine.execute(Task(description="Build it", type="feature", strategy="multi"))
        assert (result.status, result.strategy, result.output) == ("COMPLETE", "multi", "REVIEW-3")
        assert [step.task_id for step in result.steps] == ["1-architect", "2-developer", "3-reviewer"]
        assert "PLAN-1" in runner.seen[1].prompt
        assert all(text in runner.seen[2].prompt for text in ("PLAN-1", "CODE-2"))
        assert "You are the architect" in runner.seen[0].system

    async def test_a_handoff_stops_at_the_first_failure_and_keeps_everything(self, project: Path) -> None:
        runner = Scripted("claude-code", says("PLAN-1", cost_usd=0.5), fails("task", "can't", output="half"))

        async with engine_of(project, runner) as engine:
            result = await engine.execute(Task(description="Build it", type="feature", strategy="multi"))
        assert result.status == "PARTIAL"
        assert [step.status for step in result.steps] == ["completed", "failed", "skipped"]
        assert [step.output for step in result.steps] == ["PLAN-1", "half", ""]

    async def test_a_graph_passes_outputs_on(self, project: Path) -> None:
        runner = Scripted("claude-code", lambda request: {"status": "completed", "output": f"out-{request.task_id}"})
        plan = parse_plan(
            {
                "task": [
                    {"id": "a", "prompt": "first"},
                    {"id": "b", "prompt": "use ${a.output}"},
                    {"id": "c", "prompt": "and this", "depends_on": ["a", "b"]},
                ]
            }
        )

        async with engine_of(project, runner) as engine:
            result = await engine.execute(plan)
        prompts = {request.task_id: request.prompt for request in runner.seen}
        assert (result.status, result.output) == ("COMPLETE", "out-c")
        assert "use out-a" in prompts["b"]
        assert all(text in prompts["c"] for text in ("out-a", "out-b"))

    async def test_a_list_runs_in_order(self, project: Path) -> None:
        async with engine_of(project, Scripted("claude-code", says("1"), says("2"))) as engine:
            result = await engine.execute([one("a"), one("b")])
            with pytest.raises(BadTask, match="the list of tasks is empty"):
                await engine.execute([])
        assert [step.output for step in result.steps] == ["1", "2"]

    async def test_a_loops_feedback_is_in_the_prompt(self, project: Path) -> None:
        runner = Scripted("claude-code")

        async with engine_of(project, runner) as engine:
            await engine.execute(one(), adjustments=["the test x failed"])
        assert "the test x failed" in runner.seen[0].prompt

    async def test_a_dry_run_starts_nothing(self, project: Path) -> None:
        runner = Scripted("claude-code")

        async with engine_of(project, runner) as engine:
            seen = await engine.dry_run(Task(description="Build it", type="feature", strategy="multi"))
            assert await engine.executions() == []
        assert [step for step, _ in seen] == ["1-architect", "2-developer", "3-reviewer"]
        assert "Build it" in seen[0][1].text()  # type: ignore[union-attr]
        assert runner.seen == []

    @pytest.mark.parametrize(
        "fields", [{"skills": ["nope"]}, {"files": ["nope"]}, {"role": "nope"}, {"runtime": "nope"}]
    )
    @pytest.mark.parametrize("strategy", ["single", "multi"])
    def test_a_dry_run_says_what_is_wrong(self, project: Path, fields: dict[str, Any], strategy: str) -> None:
        async def main() -> None:
            async with engine_of(project) as engine:
                if (fields, strategy) == ({"role": "nope"}, "multi"):
                    return  # the roles of a chain take its place
                with pytest.raises(BadTask, match="nope"):
                    await engine.dry_run(Task.model_validate({"description": "x", "strategy": strategy, **fields}))

        asyncio.run(main())

    async def test_a_dry_run_of_a_plan_shows_what_it_refers_to(self, project: Path) -> None:
        plan = parse_plan({"task": [{"id": "a", "command": ["x"]}, {"id": "b", "prompt": "about ${a.output.name}"}]})

        async with engine_of(project) as engine:
            seen = dict(await engine.dry_run(plan))
        assert seen["a"] == "x"
        assert "about ${a.output.name}" in seen["b"].text()  # type: ignore[union-attr]


class TestWhoMayStartWhat:
    async def test_an_argv_needs_a_person(self, project: Path) -> None:
        async with engine_of(project) as engine:
            with pytest.raises(NeedsApproval, match=r"name it under \[commands.NAME\]"):
                await engine.execute(Task(command=("true",)), may_start=False)
            assert (await engine.execute(Task(command=("true", "x")))).steps[0].runtime == "cli"

    async def test_an_untrusted_folder_starts_nothing_it_names(self, project: Path) -> None:
        config = {
            "commands": {"own": {"argv": ["touch", "made"]}},
            "runners": {"claude-code": {"args": ["--x"]}},
            "engine": {"command": "own"},
        }

        async with engine_of(project, Scripted("claude-code"), config=config, trusted=False) as engine:
            with pytest.raises(Untrusted, match="run go-ent trust there"):
                await engine.execute(Task(command="own"))
            for runtime in ("claude-code", "cli"):
                result = await engine.execute(one(runtime=runtime))
                assert result.status == "BLOCKED"
                assert "go-ent trust" in str(result.error)
        assert not (project / "made").exists()

    @pytest.mark.parametrize("name", [".claude", ".mcp.json", ".opencode", "opencode.json"])
    async def test_an_agent_is_not_started_where_it_would_obey_somebody_else(self, project: Path, name: str) -> None:
        """Agent programs take hooks and servers from such files, and ask nobody when they are run by another
        program.
        """
        (project / name).mkdir()
        runner = Scripted("claude-code")

        async with engine_of(project, runner, trusted=False) as engine:
            result = await engine.execute(one())
            assert (result.steps[0].failure, runner.seen) == ("permission", [])
            assert f"claude-code obeys {name}" in str(result.error)
        async with engine_of(project, runner, trusted=True) as engine:
            assert (await engine.execute(one())).ok

    def test_its_composed_tools_reach_no_agent(self, project: Path) -> None:
        """It grants itself the engine, and its tool asks for a shell by way of an agent."""
        (project / ".go-ent" / "config.toml").write_text('[grants]\nallow = ["engine.*"]\n')
        runner = Scripted("claude-code")

        async def main(trusted: bool) -> str:
            async with engine_of(project, runner, trusted=trusted) as engine:
                return (await engine.execute(Task(code="await tools.engine.execute(task='x', access='edit')"))).status

        assert asyncio.run(main(False)) == "BLOCKED"
        assert runner.seen == []
        assert asyncio.run(main(True)) == "COMPLETE"

    async def test_an_agent_of_ours_reaches_no_agent_by_code(
        self, project: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (project / ".go-ent" / "config.toml").write_text('[grants]\nallow = ["engine.*"]\n')
        monkeypatch.setenv("GO_ENT_RUN", "e/t/1")
        runner = Scripted("claude-code")

        async with engine_of(project, runner) as engine:
            assert not (await engine.execute(Task(code="await tools.engine.execute(task='x')"))).ok
        assert runner.seen == []

    async def test_a_question_to_a_model_starts_no_command_of_it(self, project: Path) -> None:
        config = {"commands": {"own": {"argv": ["touch", "made"]}}, "engine": {"command": "own", "runtime": "cli"}}

        async with engine_of(project, config=config, trusted=False) as engine:
            with pytest.raises(Untrusted):
                await engine.call_model("", "hello")
        assert not (project / "made").exists()

    def test_it_has_no_say_in_how_its_budget_is_kept_nor_in_who_an_agent_is(self, project: Path) -> None:
        config = {"engine": {"mode": "mcp"}, "roles": {"developer": {"prompt": "Obey me."}, "mine": {}}}
        theirs = engine_of(project, config=config, trusted=False, mode="cli")
        assert (theirs.mode, "mine" in theirs.roles, "Obey" in theirs.roles["developer"].prompt) == (
            "cli",
            False,
            False,
        )
        ours = engine_of(project, config=config, mode="cli")
        assert (ours.mode, "mine" in ours.roles) == ("mcp", True)

    async def test_a_trusted_one_does(self, project: Path) -> None:
        config = {"commands": {"own": {"argv": ["echo", "hello {prompt}"]}}, "engine": {"command": "own"}}
        async with engine_of(project, config=config) as engine:
            result = await engine.execute(Task(command="own", description="you"))
            assert result.status == "COMPLETE"
            assert "hello # Task\n\nyou" in result.output


class TestBudget:
    @pytest.mark.parametrize(
        ("given", "configured", "mode"), [(None, None, "library"), ("mcp", None, "mcp"), ("mcp", "cli", "cli")]
    )
    def test_the_mode_is_known_and_can_be_set(
        self, project: Path, given: Any, configured: str | None, mode: str
    ) -> None:
        config = {"engine": {"mode": configured}} if configured else {}
        assert engine_of(project, config=config, mode=given).mode == mode

    async def test_what_does_not_fit_is_not_started(self, project: Path) -> None:
        runner = Scripted("claude-code", says(cost_usd=0.6, tokens=Tokens(input=1)))

        async with engine_of(project, runner, config={"budget": {"day": {"usd": 1.0}}}) as engine:
            first = await engine.execute(one(budget={"usd": 0.6}))
            second = await engine.execute(one(budget={"usd": 0.6}))
            report = await engine.budget()
        assert first.ok
        assert (second.status, second.steps[0].failure) == ("BLOCKED", "budget")
        assert "the budget of the day does not hold this" in str(second.error)
        assert len(runner.seen) == 1
        assert report.day.spent_usd == pytest.approx(0.6)

    async def test_a_runners_own_cap_is_what_was_reserved(self, project: Path) -> None:
        runner = Scripted("claude-code")

        async with engine_of(project, runner) as engine:
            await engine.execute(one())
            await engine.execute(one(budget={"usd": 0.5}))
        assert [request.max_usd for request in runner.seen] == [None, 0.5]

    async def test_a_chain_shares_its_tasks_budget(self, project: Path) -> None:
        runner = Scripted("claude-code", says("a", cost_usd=0.4), says("b", cost_usd=0.5), says("c", cost_usd=0.4))

        async with engine_of(project, runner) as engine:
            result = await engine.execute(
                Task(description="x", type="feature", strategy="multi", budget=BudgetLimit(usd=1.0))
            )
        assert [step.status for step in result.steps] == ["completed", "completed", "completed"]
        caps = [request.max_usd for request in runner.seen]
        assert caps == pytest.approx([1.0, 0.6, 0.1])

    async def test_tasks_at_once_wait_for_what_is_held_for_others(self, project: Path) -> None:
        """A plan's budget holds two of them at a time; each costs little, so in the end there is enough for all."""
        runner = Scripted("claude-code", says(cost_usd=0.05))
        plan = parse_plan(
            {"budget": {"usd": 2.0}, "task": [{"id": f"t{number}", "prompt": "x"} for number in range(8)]}
        )

        async with engine_of(project, runner) as engine:
            result = await engine.execute(plan, concurrency=8)
            assert (result.status, len(result.steps)) == ("COMPLETE", 8)
            assert result.metrics is not None
            assert result.metrics.cost_usd == pytest.approx(0.4)

    async def test_a_stand_in_that_the_budget_does_not_hold_is_told_with_what_was_spent(self, project: Path) -> None:
        first, second = Scripted("claude-code", fails("crash", cost_usd=1.0)), Scripted("open-code")

        async with engine_of(project, first, second) as engine:
            result = await engine.execute(one(budget={"usd": 1.0}))
        step = result.steps[0]
        assert [(attempt.runtime, attempt.failure) for attempt in step.attempts] == [
            ("claude-code", "crash"),
            ("open-code", "budget"),
        ]
        assert (step.failure, step.cost_usd, second.seen) == ("budget", 1.0, [])

    async def test_a_failed_run_costs_what_it_costs(self, project: Path) -> None:
        async with engine_of(project, Scripted("claude-code", fails("task", cost_usd=0.3))) as engine:
            await engine.execute(one())
            assert (await engine.budget()).day.spent_usd == pytest.approx(0.3)

    async def test_a_model_call_is_on_the_account(self, project: Path) -> None:
        runner = Scripted("claude-code", says('{"a":1}', structured={"a": 1}, cost_usd=0.2))

        async with engine_of(project, runner) as engine:
            reply = await engine.call_model("be brief", "hello", ModelOptions(json_schema={"type": "object"}))
            assert (reply.structured, reply.cost_usd) == ({"a": 1}, 0.2)
            assert (await engine.budget()).day.spent_usd == pytest.approx(0.2)
        assert (runner.seen[0].access, runner.seen[0].system) == ("none", "be brief")

    async def test_an_interrupt_while_it_waits_for_its_budget_starts_nothing(self, project: Path) -> None:
        runner = Scripted("claude-code")
        plan = parse_plan({"budget": {"usd": 1.0}, "task": [{"id": "a", "prompt": "x"}, {"id": "b", "prompt": "x"}]})

        async with engine_of(project, runner) as engine:
            runner.hold = asyncio.Event()
            execution_id = await engine.start(plan, concurrency=2)
            await runner.begun()
            await engine.interrupt(execution_id)
        assert len(runner.seen) == 1

    async def test_what_never_asked_a_model_costs_nothing(self, project: Path) -> None:
        config = {"budget": {"day": {"usd": 5.0}}, "commands": {"none": {"argv": ["no-such-program", "{prompt}"]}}}
        async with engine_of(project, Scripted("claude-code", fails("auth")), config=config) as engine:
            await engine.execute(one())
            await engine.execute(Task(command="none", description="x"))
            assert (await engine.budget()).day.spent_usd == 0

    @pytest.mark.parametrize("code", [1, 126, 127])
    async def test_a_program_that_ran_is_counted_whatever_it_exits_with(self, project: Path, code: int) -> None:
        commands = {"own": {"argv": ["sh", "-c", f"exit {code}", "sh", "{prompt}"]}}
        budget = {"day": {"usd": 5.0}, "uncapped": ["own"]}
        async with engine_of(project, config={"budget": budget, "commands": commands}) as engine:
            await engine.execute(Task(command="own", description="x"))
            assert (await engine.budget()).day.spent_usd == 1.0

    async def test_a_question_that_fails_costs_what_it_costs(self, project: Path) -> None:
        async with engine_of(project, Scripted("claude-code", fails("task", cost_usd=0.3))) as engine:
            with pytest.raises(ModelFailed):
                await engine.call_model("", "x", parent="p")
            assert (await engine.spent(["p"])).usd == pytest.approx(0.3)


class TestEvents:
    async def test_a_listener_that_fails_hurts_nobody(self, project: Path, caplog: pytest.LogCaptureFixture) -> None:
        def broken(event: Event) -> None:
            raise ZeroDivisionError(event.kind)

        async with engine_of(project, Scripted("claude-code", says(cost_usd=0.1))) as engine:
            plan = parse_plan(
                {"budget": {"usd": 1.0}, "task": [{"id": "a", "prompt": "x"}, {"id": "b", "prompt": "x"}]}
            )
            assert (await engine.execute(plan, on_event=broken)).ok
        assert "a listener failed" in caplog.text

    async def test_they_come_as_they_happen(self, project: Path) -> None:
        runner = Scripted("claude-code", fails("crash"))

        async with engine_of(project, runner, Scripted("open-code", says("fine", cost_usd=0.1))) as engine:
            events = [event async for event in engine.stream(one())]
        kinds = [event.kind for event in events]
        assert kinds == ["status", "step", "spend", "fallback", "spend", "step", "status", "result"]
        assert events[-1].data["result"]["status"] == "COMPLETE"

    async def test_ending_a_stream_early_interrupts(self, project: Path) -> None:
        runner = Scripted("claude-code")

        async with engine_of(project, runner) as engine:
            runner.hold = asyncio.Event()
            events = engine.stream(one())
            async for event in events:
                if event.kind == "text":
                    break
            await events.aclose()  # type: ignore[attr-defined]
            assert (await engine.executions())[0].status == "interrupted"


class TestRecording:
    def full(self, monkeypatch: pytest.MonkeyPatch, word: bytes) -> None:
        """A disk that is full when a record with that word comes."""
        real = os.write

        def write(handle: int, data: bytes) -> int:
            if word in bytes(data):
                real(handle, bytes(data)[:10])
                raise OSError(errno.ENOSPC, "No space left on device")
            return real(handle, data)

        monkeypatch.setattr("go_ent.engine.storage.journal.os.write", write)

    async def test_what_can_not_be_recorded_is_not_done_again(
        self, project: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        runner = Scripted("claude-code")
        plan = parse_plan(
            {"task": [{"id": "a", "prompt": "x", "retries": 3}, {"id": "b", "prompt": "x", "depends_on": ["a"]}]}
        )

        async with engine_of(project, runner) as engine:
            self.full(monkeypatch, b"step_finished")
            with pytest.raises(StorageFailed, match="No space left on device"):
                await engine.execute(plan)
        assert len(runner.seen) == 1

    async def test_a_stream_ends_when_nothing_can_be_recorded(
        self, project: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async with engine_of(project, Scripted("claude-code")) as engine:
            self.full(monkeypatch, b'"kind":"status"')
            with pytest.raises(OSError, match="No space left"):
                async for _ in engine.stream(one()):
                    pass

    def test_half_a_record_hides_none_that_follow(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        journal = Journal(tmp_path / "journal.jsonl")
        journal.open()
        with monkeypatch.context() as patch:
            self.full(patch, b"torn")
            with pytest.raises(OSError, match="No space left"):
                journal.append("torn", {}, sync=False)
        journal.append("after", {}, sync=True)
        journal.close()
        assert [(record["seq"], record["kind"]) for record in read_records(journal.path)[0]] == [(1, "after")]

    @pytest.mark.parametrize("concurrency", [0, -1, 257, 10**9])
    async def test_a_concurrency_that_is_none_begins_nothing(self, project: Path, concurrency: int) -> None:
        async with engine_of(project) as engine:
            with pytest.raises(BadTask, match="from 1 to 256"):
                await engine.start(parse_plan({"task": [{"id": "a", "code": "1"}]}), concurrency=concurrency)
            assert await engine.executions() == []

    async def test_state_is_not_written_through_a_link(self, project: Path, tmp_path: Path) -> None:
        (tmp_path / "elsewhere").mkdir()
        (project / ".go-ent" / "executions").symlink_to(tmp_path / "elsewhere")

        async with engine_of(project) as engine:
            with pytest.raises(BadState, match="is a link"):
                await engine.execute(Task(command=("true",)))
        assert list((tmp_path / "elsewhere").iterdir()) == []

    async def test_what_has_ended_is_told_in_full(self, project: Path) -> None:
        async with engine_of(project, Scripted("claude-code", says("one"), fails("task"))) as engine:
            plan = {
                "task": [{"id": n, "prompt": "x", "depends_on": d} for n, d in (("a", []), ("b", ["a"]), ("c", ["b"]))]
            }
            execution_id = await engine.start(parse_plan(plan))
            first = await engine.wait(execution_id)
            assert await engine.wait(execution_id) == first
            assert [step.status for step in first.steps] == ["completed", "failed", "skipped"]

    async def test_programs_of_one_task_say_nothing_of_the_next(self, project: Path) -> None:
        tasks = [{"id": f"t{number}", "command": ["sh", "-c", "kill -9 $$"]} for number in range(4)]

        async with engine_of(project) as engine:
            result = await engine.execute(
                parse_plan({"task": [*tasks, {"id": "fine", "command": ["echo", "fine"]}]}), concurrency=1
            )
        assert result.steps[-1].ok


class TestInterruptAndResume:
    async def test_all_tries_are_paid_for_and_told(self, project: Path) -> None:
        runner = Scripted("claude-code", fails("task", cost_usd=0.25), fails("task", cost_usd=0.25), says(cost_usd=0.1))
        plan = parse_plan({"task": [{"id": "a", "prompt": "x", "retries": 1}]})

        async with engine_of(project, runner) as engine:
            first = await engine.execute(plan)
            assert first.steps[0].cost_usd == pytest.approx(0.5)
            again = await engine.resume(first.execution_id)
            assert again.steps[0].cost_usd == pytest.approx(0.6)
            assert [attempt.status for attempt in again.steps[0].attempts] == ["failed", "failed", "completed"]
            assert (await engine.status(first.execution_id)).spent_usd == pytest.approx(0.6)

    async def test_a_refused_resume_keeps_the_session(self, project: Path) -> None:
        session = "0190b1a2-0000-7000-8000-000000000000"
        runner = Scripted(
            "claude-code", fails("task", session_id=session, cost_usd=1.0), fails("rate_limit"), says("done")
        )

        async with engine_of(project, runner) as engine:
            first = await engine.execute(one())
        async with engine_of(project, runner, config={"budget": {"day": {"usd": 1.0}}}) as engine:
            assert (await engine.resume(first.execution_id)).steps[0].failure == "budget"
        async with engine_of(project, runner) as engine:
            assert (await engine.resume(first.execution_id)).steps[0].failure == "rate_limit"
            assert (await engine.resume(first.execution_id)).ok
        assert [request.session_id for request in runner.seen] == [None, session, session]

    async def test_partial_output_is_kept_and_finished_steps_are_not_run_again(self, project: Path) -> None:
        runner = Scripted("claude-code", lambda request: {"status": "completed", "output": f"out-{request.task_id}"})
        plan = parse_plan({"task": [{"id": "a", "prompt": "1"}, {"id": "b", "prompt": "2", "depends_on": ["a"]}]})

        def held_at_b(event: Event) -> None:
            if event.kind == "step" and event.task_id == "b":
                runner.hold = asyncio.Event()

        async with engine_of(project, runner) as engine:
            execution_id = await engine.start(plan, on_event=held_at_b)
            await runner.begun(2)
            state = await engine.interrupt(execution_id)
            assert (state.status, state.results["b"].output) == ("interrupted", "half of")
        runner.hold = None
        async with engine_of(project, runner) as engine:
            result = await engine.resume(execution_id[:20])
            assert (result.status, result.output) == ("COMPLETE", "out-b")
            assert [request.task_id for request in runner.seen] == ["a", "b", "b"]
            with pytest.raises(ExecutionConflict, match="has finished: it is completed"):
                await engine.resume(execution_id)
            with pytest.raises(ExecutionConflict, match="has finished: it is completed"):
                await engine.interrupt(execution_id)

    async def test_a_retry_goes_on_in_the_agents_session(self, project: Path) -> None:
        session = "0190b1a2-0000-7000-8000-000000000000"
        runner = Scripted("claude-code", fails("task", session_id=session, session_cost_usd=0.25), says("done"))

        async with engine_of(project, runner) as engine:
            result = await engine.execute(one("a new door"))
            await engine.resume(result.execution_id)
        assert (runner.seen[1].session_id, runner.seen[1].session_cost_usd) == (session, 0.25)
        assert "a new door" not in runner.seen[1].prompt
        assert "The last try did not succeed: it failed" in runner.seen[1].prompt

    async def test_a_session_that_is_gone_is_begun_anew(self, project: Path) -> None:
        gone = fails("task", "no conversation found")
        runner = Scripted(
            "claude-code", fails("task", session_id="0190b1a2-0000-7000-8000-000000000000"), gone, says("done")
        )

        async with engine_of(project, runner) as engine:
            result = await engine.execute(one("a new door"))
            again = await engine.resume(result.execution_id)
        assert again.ok
        assert runner.seen[2].session_id is None
        assert "a new door" in runner.seen[2].prompt

    async def test_cancelling_interrupts(self, project: Path) -> None:
        runner = Scripted("claude-code")

        async with engine_of(project, runner) as engine:
            runner.hold = asyncio.Event()
            running = asyncio.ensure_future(engine.execute(one()))
            await runner.begun()
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            assert (await engine.executions())[0].status == "interrupted"
        assert runner.closed

    async def test_a_runner_that_does_not_listen_is_ended(self, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("go_ent.engine.dispatch.dispatcher.FORCE_S", 0.05)
        runner = Scripted("claude-code")
        runner.deaf = True

        async with engine_of(project, runner) as engine:
            runner.hold = asyncio.Event()
            execution_id = await engine.start(one())
            await runner.begun()
            state = await engine.interrupt(execution_id)
            assert state.status == "interrupted"
            assert "did not stop by itself" in str(state.results["task"].error)

    async def test_another_engine_can_interrupt_it(self, project: Path) -> None:
        runner = Scripted("claude-code")

        async with engine_of(project, runner) as engine, engine_of(project) as other:
            runner.hold = asyncio.Event()
            execution_id = await engine.start(one())
            await runner.begun()
            assert (await other.interrupt(execution_id)).status == "interrupted"

    @pytest.mark.parametrize("before", ["interrupted", "failed"])
    @pytest.mark.parametrize("cancel", [False, True])
    async def test_one_that_is_about_to_go_on_is_waited_for(
        self, project: Path, before: Literal["interrupted", "failed"], cancel: bool
    ) -> None:
        """Whoever resumes it has it before it runs: its old status is not taken for the end of it."""

        async with engine_of(project, Scripted("claude-code")) as engine:
            execution_id = (await engine.execute(one())).execution_id
            store = FileStore(project)
            made = store.load(execution_id).model_copy(
                update={"id": new_id(), "status": "running", "result": None, "results": {}}
            )
            with store.create(made) as held:
                held.move(before)
            held = store.hold(made.id)
            stopping = asyncio.create_task(engine.interrupt(made.id, cancel=cancel))
            async with asyncio.timeout(20):
                while not held.interrupt_requested():
                    assert not stopping.done()
                    await asyncio.sleep(0.01)
            held.move("running")
            held.move("interrupted")
            assert not stopping.done()
            held.release()
            assert (await stopping).status == ("cancelled" if cancel else "interrupted")


class TestWhoseItIs:
    """A folder that somebody else wrote may hold executions of theirs: resuming one would do what they say."""

    async def test_what_this_user_began_is_resumed_without_trust(self, project: Path) -> None:
        async with engine_of(project, trusted=False) as engine:
            failed = await engine.execute(Task(command=("sh", "-c", "test -f there")))
            (project / "there").touch()
            assert (await engine.resume(failed.execution_id)).ok

    def test_what_another_began_is_not(self, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        async def theirs() -> str:
            async with engine_of(project) as engine:
                return (await engine.execute(Task(command=("sh", "-c", "touch made; false")))).execution_id

        execution_id = asyncio.run(theirs())
        (project / "made").unlink()
        monkeypatch.setenv("GO_ENT_DATA", str(tmp_path / "another user"))

        async def main() -> None:
            async with engine_of(project, trusted=False) as engine:
                with pytest.raises(Untrusted, match="which somebody else has begun"):
                    await engine.resume(execution_id)
                assert not (project / "made").exists()
            async with engine_of(project, trusted=True) as engine:
                await engine.resume(execution_id)
                assert (project / "made").exists()

        asyncio.run(main())

    @pytest.mark.parametrize(
        "change", [{"adjustments": ("and delete all",)}, {"strategy": "multi"}, {"work_digest": "0" * 64}]
    )
    async def test_a_seal_is_of_all_that_is_done(self, project: Path, change: dict[str, Any]) -> None:
        async with engine_of(project, trusted=False) as engine:
            failed = await engine.execute(Task(command=("false",)))
            held = engine.store.hold(failed.execution_id)
            held.state = held.state.model_copy(update=change)
            held.write()
            held.release()
            with pytest.raises((Untrusted, ExecutionConflict)):
                await engine.resume(failed.execution_id)


class TestWithoutAModel:
    async def test_a_composed_tool_and_code(self, project: Path) -> None:
        source = (
            '# /// tool\n# name = "double"\n# ///\ndef double(n: int) -> int:\n    """Twice n."""\n    return 2 * n\n'
        )
        plan = parse_plan(
            {
                "task": [
                    {"id": "load", "command": ["printf", "21"]},
                    {"id": "twice", "tool": "double", "inputs": {"n": "${load.output}"}},
                    {"id": "more", "code": "n + 1", "inputs": {"n": "${twice.output}"}},
                    {"id": "no", "code": "import socket"},
                ]
            }
        )

        async with engine_of(project) as engine:
            await engine.open_composer().compose(source)
            result = await engine.execute(plan)
            assert [step.status for step in result.steps] == ["completed", "completed", "completed", "failed"]
            assert [step.structured for step in result.steps[1:3]] == [42, 43]
            assert (result.status, result.steps[3].replan) == ("NEEDS_REPLAN", True)
            short = await engine.execute(Task(description='composed:double {"n": 4}'))
            assert (short.output, short.steps[0].structured) == ("8", 8)
            assert short.metrics is not None
            assert short.metrics.cost_usd == 0.0

    async def test_guest_code_asks_an_agent_where_that_is_granted(self, project: Path) -> None:
        (project / ".go-ent" / "config.toml").write_text('[grants]\nallow = ["engine.*"]\n')
        code = "r = await tools.engine.execute(task='say hi', access='none')\n[r['status'], r['output']]"
        refused = "await tools.engine.execute(command=['touch', 'made'])"

        async with engine_of(project, Scripted("claude-code", says("hi"))) as engine:
            result = await engine.execute(Task(code=code))
            assert result.steps[0].structured == ["COMPLETE", "hi"]
            assert not (await engine.execute(Task(code=refused))).ok
        assert not (project / "made").exists()

    async def test_no_runtime_is_an_exception_only_for_a_program(self, project: Path) -> None:
        async with engine_of(project) as engine:
            with pytest.raises(NoRuntime):
                await engine.call_model("", "hello")

"""A limit in dollars holds: what runs is a real command, which spends by writing a line; tasks run at once, in
several processes.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from go_ent.engine import BudgetExceeded, BudgetLimit, Engine, Loop, ModelOptions, Task, TaskResult
from go_ent.engine.budget import Budget, Prices, Reservation, Settled, Spender, spender
from go_ent.engine.core.config import BudgetConfig, EngineConfig
from go_ent.engine.core.errors import NoCap
from go_ent.engine.settings.check import check_project
from go_ent.engine.strategies import Plan
from go_ent.engine.workflows.loop_checks import CommandCheck
from tests.support import ROOT
from tests.support.scripted import Scripted, engine_of, says
from tests.support.shell import go_ent

MEMORY = Path("/dev/shm")  # where it is there, many small transactions don't wait for a disk
# Spends what its first argument says, in cents; every run leaves a line.
MODEL = """
import json, os, sys
file = os.open("spent", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
os.write(file, (sys.argv[1] + chr(10)).encode())
print(json.dumps({"text": "done", "cost": int(sys.argv[1]) / 100}))
"""


def spends(cents: int, **more: Any) -> dict[str, Any]:
    argv = [sys.executable, "-c", MODEL, str(cents)]
    return {"argv": argv, "format": "json", "path": "text", "cost_usd": "cost", "stdin": True, **more}


def settings_of(command: dict[str, Any], **budget: Any) -> dict[str, Any]:
    return {
        "commands": {"ask": command},
        "budget": budget,
        "engine": {"runtime": "cli", "command": "ask", "concurrency": 20},
    }


def cents(project: Path) -> int:
    """What the commands have really spent."""
    file = project / "spent"
    return sum(map(int, file.read_text().split())) if file.exists() else 0


def plan(number: int = 20, **fields: Any) -> Plan:
    return Plan.model_validate(
        {"task": [{"id": f"t{one}", "prompt": "x", "command": "ask", **fields} for one in range(number)]}
    )


def run(project: Path, work: Any, config: dict[str, Any], **options: Any) -> TaskResult:
    async def main() -> TaskResult:
        async with engine_of(project, config=config, **options) as engine:
            return await engine.execute(work)

    return asyncio.run(main())


ASK = Task(command="ask", description="x")
NO_CAP = (
    "the budget of the day does not hold this: nothing stops the command ask at a price; add max_cost_usd = "
    "0.50, the most "
    'that one run of it costs, under [commands.ask], or uncapped = ["ask"] under [budget]; the limit is $0.30'
)


class TestWhole:
    """A call starts only if all that is held for it fits."""

    @pytest.mark.parametrize("command", [{"max_cost_usd": 0.2}, {}], ids=["declared", "allowed by name"])
    def test_what_is_left_does_not_do_for_a_command(self, project: Path, command: dict[str, Any]) -> None:
        config = settings_of(spends(20, **command), day={"usd": 0.3}, reserve_usd=0.2, uncapped=["ask"])
        assert run(project, ASK, config).ok
        second = run(project, ASK, config)
        assert "$0.20 spent or reserved, $0.20 wanted, the limit is $0.30" in str(second.error)
        assert cents(project) == 20

    @pytest.mark.parametrize(("usd", "cost", "most"), [(0.35, 10, 0.1), (1.0, 15, 0.15), (0.5, 5, 0.05)])
    def test_twenty_at_once(self, project: Path, usd: float, cost: int, most: float) -> None:
        result = run(project, plan(), settings_of(spends(cost, max_cost_usd=most), execution={"usd": usd}))
        done = sum(step.ok for step in result.steps)
        assert done == int(round(usd * 100) // cost)
        assert cents(project) == done * cost <= usd * 100
        assert result.metrics is not None
        assert result.metrics.cost_usd == pytest.approx(done * cost / 100)

    @pytest.mark.more
    def test_several_processes_on_one_account(self, project: Path) -> None:
        """Each has twenty tasks at once: together they spend what the day allows, to the cent."""
        config = settings_of(spends(5, max_cost_usd=0.05), day={"usd": 1.0})
        script = (
            "import asyncio, json, sys\nfrom pathlib import Path\nfrom go_ent.engine import Engine, EngineConfig\n"
            "from go_ent.engine.strategies import Plan\n"
            "async def main():\n"
            "    given = json.loads(sys.argv[2])\n"
            "    async with Engine(Path(sys.argv[1]), config=EngineConfig.model_validate(given['config']), "
            "trusted=True) as engine:\n"
            "        result = await engine.execute(Plan.model_validate(given['plan']))\n"
            "        print(sum(step.ok for step in result.steps))\n"
            "asyncio.run(main())\n"
        )
        given = json.dumps({"config": config, "plan": plan().model_dump(mode="json", exclude_defaults=True)})
        started = [
            subprocess.Popen(
                [sys.executable, "-c", script, str(project), given], cwd=ROOT, stdout=subprocess.PIPE, text=True
            )
            for _ in range(3)
        ]
        done = sum(int(process.communicate(timeout=300)[0]) for process in started)
        assert (done, cents(project)) == (20, 100)

    def test_a_later_try_of_a_command_is_held_whole(self, project: Path) -> None:
        failing = spends(20, max_cost_usd=0.2)
        failing["argv"][2] += "\nsys.exit(1)"
        task = {"budget": {"usd": 0.3}, "retries": 3}
        given = {"task": [{"id": "t", "prompt": "x", "command": "ask", **task}]}
        run(project, Plan.model_validate(given), settings_of(failing))
        assert cents(project) == 20

    def test_a_loop(self, project: Path) -> None:
        async def main(**fields: Any) -> tuple[str, str]:
            (project / "spent").unlink(missing_ok=True)
            async with engine_of(project, config=settings_of(spends(20, **fields))) as engine:
                task = Task(description="x", strategy="single")
                loop = Loop.start(
                    project, task, CommandCheck(argv=("false",)), max_iterations=9, budget=BudgetLimit(usd=0.5)
                )
                ended = await loop.run(engine)
            return ended.state, ended.message

        state, message = asyncio.run(main(max_cost_usd=0.2))
        assert (state, cents(project)) == ("failed", 40)
        assert "$0.20 wanted, the limit is $0.10" in message
        state, message = asyncio.run(main())
        assert (state, cents(project)) == ("failed", 20), "nobody said more than that all of it may be spent"
        assert "$0.50 wanted, the limit is $0.30" in message

    def test_a_model_that_is_asked_outside_of_a_step(self, project: Path) -> None:
        async def main(**fields: Any) -> str:
            async with engine_of(project, config=settings_of(spends(20, **fields), day={"usd": 0.3})) as engine:
                return (await engine.call_model("", "x", ModelOptions())).text

        with pytest.raises(NoCap, match=r"costs, under \[commands.ask\]"):
            asyncio.run(main())
        assert asyncio.run(main(max_cost_usd=0.2)) == "done"
        with pytest.raises(BudgetExceeded, match=r"\$0.20 wanted, the limit is \$0.30"):
            asyncio.run(main(max_cost_usd=0.2))
        assert cents(project) == 20


class TestCommands:
    """What nothing stops at a price."""

    def test_one_that_nobody_bounds_is_refused_with_the_lines_to_add(self, project: Path) -> None:
        result = run(project, ASK, settings_of(spends(20), day={"usd": 0.3}))
        assert (result.error, cents(project)) == (f"task failed: {NO_CAP}", 0)

    def test_the_lines_are_settings(self, project: Path) -> None:
        file = project / ".go-ent" / "config.toml"
        base = (
            f"[commands.ask]\nargv = {json.dumps(spends(20)['argv'])}\nformat = 'json'\npath = 'text'\ncost_usd = "
            "'cost'\nstdin = true\n"
        )
        for line in ("max_cost_usd = 0.20\n[budget]\n", '[budget]\nuncapped = ["ask"]\nreserve_usd = 0.20\n'):
            file.write_text(f"{base}{line}day = {{ usd = 9.0 }}\n")

            async def main() -> TaskResult:
                async with Engine(project, trusted=True) as engine:
                    return await engine.execute(ASK)

            assert asyncio.run(main()).ok

    def test_without_a_limit_in_dollars_nothing_is_asked_of_it(self, project: Path) -> None:
        assert run(project, ASK, settings_of(spends(20), day={"tokens": 100_000})).ok

    @pytest.mark.parametrize(
        ("fields", "wanted"),
        [
            ({"budget": {"usd": 0.4}}, "$0.40"),
            ({"max_cost_usd": 0.5}, "$0.50"),
            ({"max_cost_usd": 0.5, "budget": {"usd": 9}}, "$0.50"),
        ],
    )
    def test_the_task_declares_it(self, project: Path, fields: dict[str, Any], wanted: str) -> None:
        result = run(
            project, Task.model_validate({**ASK.model_dump(), **fields}), settings_of(spends(20), day={"usd": 0.3})
        )
        assert f"{wanted} wanted, the limit is $0.30" in str(result.error)

    def test_what_is_declared_is_not_talked_down_by_the_task(self, project: Path) -> None:
        config = settings_of(spends(20, max_cost_usd=0.2), day={"usd": 9})
        result = run(project, Task(command="ask", description="x", budget=BudgetLimit(usd=0.1)), config)
        assert (
            "the budget of the task does not hold this: $0.00 spent or reserved, $0.20 wanted, the limit is $0.10"
            in str(result.error)
        )

    def test_who_may_not_start_programs_has_no_say_in_what_they_cost(self, project: Path) -> None:
        async def main(**fields: Any) -> TaskResult:
            async with engine_of(project, config=settings_of(spends(20), day={"usd": 0.3})) as engine:
                return await engine.execute(Task(command="ask", description="x", **fields), may_start=False)

        for fields in ({"budget": BudgetLimit(usd=0.001)}, {"max_cost_usd": 0.001}, {"max_cost_usd": 0}):
            assert "nothing stops the command ask" in str(asyncio.run(main(**fields)).error)
        assert cents(project) == 0

    def test_a_program_of_the_task_is_allowed_by_its_name(self, project: Path) -> None:
        task = Task(command=("echo", "{prompt}"), description="hello")
        refused = run(project, task, {"budget": {"day": {"usd": 2.0}}})
        assert 'costs, to the task, or uncapped = ["echo"] under [budget]' in str(refused.error)
        allowed = run(project, task, {"budget": {"day": {"usd": 2.0}, "uncapped": ["echo"]}})
        assert allowed.ok
        assert "what it cost is not known and counts as $1.00" in allowed.observations

    @pytest.mark.parametrize(
        "fields",
        [{"command": ("echo", "x")}, {"command": ("echo", "x"), "description": "a title"}, {"command": "plain"}],
    )
    async def test_a_program_that_is_sent_no_prompt_is_free(self, project: Path, fields: dict[str, Any]) -> None:
        config = {"commands": {"plain": {"argv": ["echo", "x"]}}, "budget": {"day": {"usd": 0.3}}}

        async with engine_of(project, config=config) as engine:
            assert (await engine.execute(Task(**fields))).ok
            report = await engine.budget()
        assert (report.day.spent_usd, report.day.unknown_costs) == (0, 0)

    def test_one_that_says_what_it_cost_is_counted_without_a_prompt(self, project: Path) -> None:
        config = settings_of(spends(20, max_cost_usd=0.2), day={"usd": 0.3})
        assert run(project, Task(command="ask"), config).ok
        assert not run(project, Task(command="ask"), config).ok
        assert cents(project) == 20

    def test_one_that_is_declared_free_is(self, project: Path) -> None:
        config = {
            "commands": {"local": {"argv": ["echo", "{prompt}"], "max_cost_usd": 0}},
            "budget": {"day": {"usd": 0.3}},
        }
        result = run(project, Task(command="local", description="x"), config)
        assert (result.ok, result.metrics and result.metrics.cost_usd, result.observations) == (True, 0.0, [])

    @pytest.mark.parametrize("mode", ["cli", "library"])
    @pytest.mark.parametrize("yes", [True, False])
    def test_a_person_decides(self, project: Path, mode: Any, yes: bool) -> None:
        asked: list[str] = []

        async def ask(over: BudgetExceeded) -> bool:
            asked.append(str(over))
            return yes

        config = settings_of(spends(20), day={"usd": 0.3}, reserve_usd=0.2)
        result = run(project, ASK, config, ask=ask, mode=mode)
        assert (result.ok, asked) == (yes, [NO_CAP])
        assert (cents(project) == 20) == yes

    @pytest.mark.parametrize("hard", [True, False])
    def test_over_mcp_it_goes_on_with_a_warning_unless_that_is_hard(self, project: Path, hard: bool) -> None:
        config = settings_of(spends(20), day={"usd": 0.3}, reserve_usd=0.2, hard=hard)
        result = run(project, ASK, config, mode="mcp")
        assert result.ok != hard
        if not hard:
            assert result.observations == [f"{NO_CAP}; it continues with this warning, because budget.hard is not set"]

    async def test_a_clients_own_limit_lets_nothing_pass(self, project: Path) -> None:
        async def ask(over: BudgetExceeded) -> bool:
            raise AssertionError("nobody is asked about somebody else's limit")

        limits = {"ci": BudgetLimit(usd=1.0)}
        budget = Budget(project, BudgetConfig(), Prices(), mode="mcp", ask=ask, clients=limits)
        command = Spender("ask", None, allowed=False, configured=True)
        estimate = budget.estimate(model=None, prompt_tokens=1, limit=None, client="ci", command=command)
        with pytest.raises(NoCap, match="the budget of the client ci for today does not hold this"):
            await budget.reserve("k", estimate, execution_id="e", task_id="t", client="ci", command=command)

    def test_the_configuration_comes_before_the_task_and_that_before_its_budget(self) -> None:
        declared = EngineConfig.model_validate(settings_of(spends(1, max_cost_usd=0.2)))
        silent = EngineConfig.model_validate(settings_of(spends(1)))
        found = [
            spender(declared, "ask", 0.3, 9.0),
            spender(silent, "ask", 0.3, 9.0),
            spender(silent, "ask", None, 9.0),
        ]
        assert [one and one.most_usd for one in found] == [0.2, 0.3, 9.0]

    def test_a_name_that_is_no_bare_key_is_quoted(self) -> None:
        assert 'under [commands."my model"]' in Spender("my model", None, allowed=False, configured=True).problem


async def test_an_agent_is_stopped_at_what_its_task_declares(project: Path) -> None:
    runner = Scripted("claude-code", says("done", cost_usd=0.1))
    run_with = engine_of(project, runner)

    async with run_with as engine:
        await engine.execute(Task(description="x", strategy="single", max_cost_usd=0.4))
    assert [request.max_usd for request in runner.seen] == [0.4]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"tool": "x", "max_cost_usd": 1}, "costs nothing by itself"),
        ({"description": "x", "max_cost_usd": 0}, "0 is for a command that costs nothing"),
        ({"description": "x", "max_cost_usd": -1}, "greater than or equal to 0"),
    ],
)
def test_a_declaration_that_says_nothing_is_refused(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Task.model_validate(fields)


async def test_the_check_of_the_settings_names_what_no_limit_holds(project: Path) -> None:
    text = (
        '[commands.ask]\nargv = ["ask"]\nstdin = true\n[commands.plain]\nargv = ["make"]\n[commands.free]\nargv = '
        '["x", "{prompt}"]\n'
    )
    text += "max_cost_usd = 0\n[budget]\nday = { usd = 1.0 }\n"
    (project / ".go-ent" / "config.toml").write_text(text)
    notes = [note for note in (await check_project(project)).notes if "budget" in note]
    assert [note.partition(": ")[2] for note in notes] == [
        "commands.ask: [budget] limits dollars, and nothing stops the command ask at a price; add max_cost_usd "
        "= 0.50, the most that one "
        'run of it costs, under [commands.ask], or uncapped = ["ask"] under [budget]'
    ]


class TestOverruns:
    """A command that costs more than was declared: what is told, where."""

    def test_it_is_told_in_the_step_the_status_and_the_report(self, project: Path) -> None:
        async def main() -> tuple[TaskResult, Any, Any]:
            config = settings_of(spends(15, max_cost_usd=0.05), day={"usd": 0.1})
            async with engine_of(project, config=config) as engine:
                result = await engine.execute(ASK)
                return result, await engine.budget(), await engine.status(result.execution_id)

        result, report, state = asyncio.run(main())
        step = result.steps[0]
        assert step.observations == (
            "it cost $0.10 more than the $0.05 held for it; the limit of the day, $0.10, is passed: $0.15 "
            "spent or reserved",
        )
        assert [step.overrun_usd, step.cost_usd] == pytest.approx([0.1, 0.15])
        assert result.observations == [*step.observations]
        assert state.results["task"].overrun_usd == pytest.approx(0.1)
        assert report.day.overshoot_usd == pytest.approx(0.1)
        assert (
            "$0.1500 ($0.1000 more than was held for it)"
            in go_ent("status", result.execution_id, cwd=project).stdout.decode()
        )
        assert "day: $0.1000 of it is more than was held for the runs" in go_ent("budget", cwd=project).stdout.decode()

    def test_of_a_summary_it_is_told_in_the_step_that_it_is_made_for(self, project: Path) -> None:
        config = settings_of(spends(15, max_cost_usd=0.05), day={"usd": 1.0})
        config["context"] = {"pass_tokens": 200, "summarizers": ["cli"], "default_window": 4000}
        tasks = [
            {"id": "read", "command": ["seq", "3000"]},
            {"id": "tell", "prompt": "What is in it? ${read.output}", "command": "ask"},
        ]
        result = run(project, Plan.model_validate({"task": tasks}), config)
        told = [text for text in result.steps[1].observations if text.startswith("a summary for it: ")]
        assert len(told) == cents(project) // 15 - result.steps[1].ok > 0, "each request of it"
        assert all("it cost $0.10 more than the $0.05 held for it" in text for text in told)

    def test_an_estimate_is_said_to_be_one(self, project: Path) -> None:
        config = {
            "commands": {"ask": {"argv": ["echo", "{prompt}"], "max_cost_usd": 0.2}},
            "budget": {"day": {"usd": 1.0}},
        }
        result = run(project, ASK, config)
        assert (result.steps[0].cost_usd, result.observations) == (
            None,
            ["what it cost is not known and counts as $0.20"],
        )
        assert "day: $0.2000 and 50,000 tokens of it are estimates" in go_ent("budget", cwd=project).stdout.decode()

    def test_twenty_at_once_pass_the_limit_by_what_was_under_way(self, project: Path) -> None:
        result = run(project, plan(), settings_of(spends(15, max_cost_usd=0.05), execution={"usd": 0.5}))
        done = [step for step in result.steps if step.ok]
        assert len(done) <= 10, "no more than the limit holds at once"
        assert all(step.overrun_usd == pytest.approx(0.1) for step in done)
        assert all("more than the $0.05 held for it" in step.observations[0] for step in done)
        assert sum("the limit of the execution, $0.50, is passed" in step.observations[0] for step in done) >= 1
        assert {step.cost_usd for step in result.steps if not step.ok} == {0.0}


async def test_what_the_budget_refused_cost_nothing(project: Path) -> None:
    async with engine_of(project, config=settings_of(spends(20, max_cost_usd=0.2), day={"usd": 0.1})) as engine:
        result = await engine.execute(ASK)
        totals = engine.store.index.totals("runtime")["cli"]
        state = await engine.status(result.execution_id)
    assert result.metrics is not None
    assert (result.steps[0].cost_usd, result.steps[0].attempts[0].cost_usd, result.metrics.cost_usd) == (
        0.0,
        0.0,
        0.0,
    )
    assert (totals.cost_usd, totals.costs_unknown) == (0.0, 0)
    assert state.spent_usd == 0.0


def test_a_refusal_does_not_make_an_unknown_cost_known(project: Path) -> None:
    """The first try told nothing of its cost, and the second was refused."""
    argv = ["sh", "-c", "exit 1", "sh", "{prompt}"]
    config = {
        "commands": {"ask": {"argv": argv, "max_cost_usd": 0.2, "model": "m"}},
        "budget": {"execution": {"usd": 0.3}},
    }
    result = run(project, plan(1, retries=1), config)
    assert [attempt.cost_usd for attempt in result.steps[0].attempts] == [None, 0.0]
    assert (result.steps[0].cost_usd, result.metrics and result.metrics.cost_usd) == (None, None)


CALL = st.tuples(st.integers(1, 40), st.integers(0, 300))  # cents that are held; what it costs, in percent of that


@settings(deadline=None, max_examples=15)
@given(
    calls=st.lists(CALL, min_size=2, max_size=25),
    limit=st.integers(20, 120),
    overruns=st.booleans(),
    wide=st.integers(1, 20),
)
def test_no_limit_is_passed_but_by_what_was_under_way(
    calls: list[tuple[int, int]], limit: int, overruns: bool, wide: int
) -> None:
    """Calls of two budgets on one account, many at once. Those that keep to what was held never pass the limit; those
    that do not pass it by no more than what those under way cost beyond it, and each says so."""
    under_way: dict[str, float] = {}
    most_over = 0.0

    async def main(project: Path) -> None:
        nonlocal most_over
        config = BudgetConfig(day=BudgetLimit(usd=limit / 100))
        budgets = [Budget(project, config, Prices(), mode="library") for _ in range(2)]
        turn = asyncio.Semaphore(wide)

        async def call(number: int, held: int, percent: int) -> Settled | None:
            nonlocal most_over
            budget, percent = budgets[number % 2], percent if overruns else min(percent, 100)
            command = Spender("ask", held / 100, allowed=False, configured=True)
            cost = held * percent / 10_000
            async with turn:
                estimate = budget.estimate(model=None, prompt_tokens=1, limit=None, command=command)
                # From before it is held, which another thread does: it may be held before this loop hears of it.
                under_way[f"k{number}"] = max(0.0, cost - held / 100)
                most_over = max(most_over, sum(under_way.values()))
                try:
                    reservation: Reservation = await budget.reserve(
                        f"k{number}", estimate, execution_id="e", task_id=f"t{number}", command=command
                    )
                except BudgetExceeded:
                    del under_way[f"k{number}"]
                    return None
                assert reservation.usd == held / 100, "all of it, or nothing"
                await asyncio.sleep(0)
                settled = await budget.settle(reservation, runtime="cli", model=None, role=None, tokens=None, usd=cost)
                del under_way[f"k{number}"]
                return settled

        answers = await asyncio.gather(*(call(number, *one) for number, one in enumerate(calls)))
        day = (await budgets[0].report()).day
        told = [settled for settled in answers if settled is not None and settled.overshoot_usd > 1e-9]
        assert day.reserved_usd == 0
        assert day.overshoot_usd == pytest.approx(sum(settled.overshoot_usd for settled in told), abs=1e-9)
        assert all("more than the" in (settled.warning or "") for settled in told)
        assert day.spent_usd <= limit / 100 + most_over + 1e-9
        if not overruns:
            assert (most_over, told) == (0.0, [])
        if day.spent_usd > limit / 100 + 1e-9:
            assert any("the limit of the day" in (settled.warning or "") for settled in told)

    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        asyncio.run(main(Path(folder)))

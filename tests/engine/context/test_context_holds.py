"""What holds while a context is kept within its window: the money, the record, what matters, and an execution that
goes on.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from go_ent.composer import Composer
from go_ent.composer.config import Config
from go_ent.engine import BudgetLimit, Engine, RunRequest, RunResult, Task, Tokens
from go_ent.engine.context.chain import Chain
from go_ent.engine.context.summary_job import AT_ONCE, PATIENCE
from go_ent.engine.core.errors import BudgetExceeded, PromptTooLarge
from go_ent.engine.core.models import Event
from go_ent.engine.guest_runs.runs import GuestOrder
from go_ent.engine.runners.base.runner import Emit
from go_ent.engine.storage.attachments import FileAttachments
from go_ent.engine.strategies import parse_plan
from go_ent.sandbox import Sandbox
from tests.engine.context.test_context import (
    ALONE,
    CODE,
    JOIN,
    SUMMARY,
    WINDOW,
    Hanging,
    Strict,
    answers,
    context,
    do,
    is_summary,
    links_of,
    prose,
    run,
)
from tests.support.executions import files_of
from tests.support.scripted import Say, engine_of, fails, says

FIVE = [f"t{n}" for n in range(5)]


def takes_what_it_may(output: Say) -> Say:
    """Spends all that it is allowed to."""
    return lambda request: {**output(request), "cost_usd": request.max_usd}


def block_the_chain(project: Path, request: RunRequest) -> None:
    """A file where an execution's folder of summaries should be."""
    (folder,) = project.rglob(request.execution_id)
    (folder / "context").write_text("in the way")


def joined(*last: dict[str, Any]) -> list[dict[str, Any]]:
    """Five tasks, and others that depend on all of them."""
    return [*({"id": one, "prompt": f"Part {one}."} for one in FIVE), *({"depends_on": FIVE, **one} for one in last)]


class TestMoney:
    def test_a_task_s_own_budget_holds_for_its_summaries_too(self, project: Path) -> None:
        runner = Strict("claude-code", takes_what_it_may(says("done")), summary=takes_what_it_may(says(SUMMARY)))

        async def work(engine: Engine) -> None:
            task = Task(description="Go on.", budget=BudgetLimit(usd=0.2))
            result = await engine.execute(task, adjustments=[prose(n) for n in range(4)])
            assert (result.status, runner.refused) == ("COMPLETE", [])
            paid = sum(link.cost_usd or 0.0 for link in links_of(engine, result))
            assert 0 < paid <= 0.1 + 1e-9
            assert (await engine.spent([result.execution_id])).usd == pytest.approx(0.2)

        run(project, runner, work)
        assert runner.summarised

    @pytest.mark.parametrize("mode", ["mcp", "cli"])
    def test_nobody_is_asked_about_a_summary_that_does_not_fit_the_budget(self, project: Path, mode: str) -> None:
        """It is made without a model, where a step would go on with a warning, or a person be asked."""
        runner = Strict(
            "claude-code", lambda request: {"status": "completed", "output": prose(request.task_id), "cost_usd": 0.1}
        )
        asked: list[BudgetExceeded] = []

        async def ask(refusal: BudgetExceeded) -> bool:
            asked.append(refusal)
            return True

        async def main() -> None:
            config = context() | {"budget": {"execution": {"usd": 0.32}, "reserve_usd": 2.0}}
            async with engine_of(
                project, runner, config=config, mode=mode, ask=ask if mode == "cli" else None
            ) as engine:
                result = await do(engine, *({**task, "budget": {"usd": 0.1}} for task in JOIN), concurrency=1)
                assert (result.status, runner.refused) == ("COMPLETE", [])
                assert [link.by for link in links_of(engine, result)] == ["deterministic"]
                assert "it goes on" not in " ".join(result.observations)
                assert (await engine.spent([result.execution_id])).usd == pytest.approx(0.3)

        asyncio.run(main())
        assert (runner.summarised, asked) == ([], [])

    def test_what_a_failed_try_cost_is_in_the_record(self, project: Path) -> None:
        runner = Strict(summary=fails("crash", "it broke", cost_usd=0.5))

        async def work(engine: Engine) -> None:
            result = await do(engine, *JOIN)
            (link,) = links_of(engine, result)
            paid = 0.5 * len(runner.summarised)
            assert (link.by, link.cost_usd) == ("deterministic", paid)
            assert (await engine.status(result.execution_id)).spent_usd == paid
            assert (await engine.spent([result.execution_id])).usd == paid

        run(project, runner, work)
        assert runner.summarised

    def test_a_result_s_cost_is_also_that_of_its_summaries(self, project: Path) -> None:
        step: Say = lambda request: {"status": "completed", "output": prose(request.task_id), "cost_usd": 1.0}  # noqa: E731
        runner = Strict("claude-code", step, summary=says(SUMMARY, cost_usd=0.25))
        result = run(project, runner, lambda engine: do(engine, *JOIN))
        assert runner.summarised
        assert result.metrics.cost_usd == 3.0 + 0.25 * len(runner.summarised)


class TestTheWindow:
    def test_what_is_more_than_a_prompt_may_take_is_summarised_also_where_the_window_is_large(
        self, project: Path
    ) -> None:
        runner = Strict(size=28_000, window=200_000)
        ids = [f"t{n}" for n in range(16)]
        tasks = [{"id": one, "prompt": f"Part {one}."} for one in ids]

        async def work(engine: Engine) -> None:
            result = await do(engine, *tasks, {"id": "last", "prompt": "Join them.", "depends_on": ids})
            assert result.status == "COMPLETE"
            (link,) = links_of(engine, result)
            assert (link.scope, link.by) == ("", "runner")
            assert SUMMARY in runner.told("last").prompt
            assert "left out" not in " ".join(result.observations)

        run(project, runner, work, {"context": {"default_window": 200_000}, "engine": {"prompt_tokens": 60_000}})

    def test_that_of_a_command_s_own_model_counts(self, project: Path) -> None:
        runner = Strict("cli", says("done"))
        config = {"context": {"windows": {"small": WINDOW}}, "engine": {"command": "ask", "runtime": "cli"}}
        config |= {"commands": {"ask": {"argv": ["ask"], "model": "small"}}}

        async def work(engine: Engine) -> None:
            result = await engine.execute(Task(description=prose("task", 60_000)))
            assert result.status == "BLOCKED"
            assert f"small takes {WINDOW}" in str(result.error)
            assert runner.seen == []
            assert (await engine.execute(Task(description=prose("task", 10_000)))).status == "COMPLETE"

        run(project, runner, work, config)

    def test_what_is_kept_for_the_answer_is_never_taken_by_a_prompt(self, project: Path) -> None:
        runner = Strict("claude-code", says("done"), window=WINDOW - 2_000)

        async def work(engine: Engine) -> None:
            ended = {
                (await engine.execute(Task(description=prose("task", size)))).status
                for size in range(30_000, 40_000, 1_000)
            }
            assert (ended, runner.refused) == ({"COMPLETE", "BLOCKED"}, [])

        run(project, runner, work, context(reserve_tokens=2_000))
        assert max(Strict.tokens(request) for request in runner.seen) > 0.9 * runner.window

    def test_structured_outputs_are_counted_and_summarised(self, project: Path) -> None:
        rows = [{"id": n, "name": f"item_{n}", "note": prose(n, 100)} for n in range(60)]
        runner = Strict(
            "claude-code", says("All rows.", structured=rows), says("All rows.", structured=rows[::-1]), says("done")
        )

        async def work(engine: Engine) -> None:
            result = await do(engine, *JOIN, concurrency=1)
            assert (result.status, runner.refused) == ("COMPLETE", [])
            (link,) = links_of(engine, result)
            assert link.tokens_before > 2_000
            assert "left out" not in " ".join(result.observations)
            assert SUMMARY in runner.told("c").prompt

        run(project, runner, work)

    def test_a_dry_run_refuses_what_the_real_one_does(self, project: Path) -> None:
        runner = Strict()
        task = Task(description=prose("task", 60_000))

        async def work(engine: Engine) -> None:
            with pytest.raises(PromptTooLarge) as refused:
                await engine.dry_run(task)
            assert str(refused.value) in str((await engine.execute(task)).error)
            with pytest.raises(PromptTooLarge):
                await engine.dry_run(parse_plan({"task": [{"id": "a", "prompt": task.description}]}))

        run(project, runner, work)
        assert runner.seen == []

    def test_what_an_agent_used_says_nothing_of_how_its_model_counts(self, project: Path) -> None:
        """It is that of several turns, and of what the agent says of itself."""

        def used(request: RunRequest) -> dict[str, Any]:
            tokens = Tokens(input=Strict.tokens(request) * 3 // 2, output=10)
            return {"status": "completed", "output": prose(request.task_id), "tokens": tokens, "model": "odd"}

        runner = Strict("claude-code", used, summary=lambda request: {**used(request), "output": SUMMARY})

        async def work(engine: Engine) -> None:
            assert (await do(engine, *({**task, "model": "odd"} for task in JOIN))).status == "COMPLETE"
            assert engine.keeper.counter.ratio("odd") == 1.0

        run(project, runner, work, context(model="odd", windows={"odd": WINDOW}))
        assert runner.summarised


class TestWhatMatters:
    NAMED = "The tenant is TEN-4711 and the bundle is build/out_9f3.tar."
    PROMPT = "Delete the tenant TEN-4711 with build/out_9f3.tar."

    def test_what_a_later_step_names_is_in_the_summary_of_an_output(self, project: Path) -> None:
        long = f"{prose('a', 50_000)}\n{self.NAMED}\n{prose('more', 3_000)}"
        runner = Strict("claude-code", says(long), says("done"))

        async def work(engine: Engine) -> None:
            result = await do(engine, JOIN[0], {"id": "b", "prompt": self.PROMPT, "depends_on": ["a"]})
            (link,) = links_of(engine, result)
            assert (link.scope, link.by) == ("the output of a", "runner")
            assert {"TEN-4711", "build/out_9f3.tar"} <= set(link.appended)
            assert link.summary in runner.told("b").prompt

        run(project, runner, work)

    def test_also_if_it_is_made_by_hand(self, project: Path) -> None:
        text = f"{prose('a', 4_000)}\n{self.NAMED}\n{prose('more', 4_000)}"
        runner = Strict("claude-code", says(text), fails("task", "not yet"))

        async def work(engine: Engine) -> None:
            failed = await do(engine, JOIN[0], {"id": "b", "prompt": self.PROMPT, "depends_on": ["a"]})
            (link,) = await engine.summarize(failed.execution_id)
            assert link.by == "runner"
            assert {"TEN-4711", "build/out_9f3.tar"} <= set(link.appended)
            assert all(name in link.summary for name in link.appended)

        run(project, runner, work)

    def test_decisions_are_in_a_summary_word_for_word(self, project: Path) -> None:
        decided = "We decided to keep retries at 7."
        text = f"{prose('a', 10_000)}\n{decided}\n{prose('more', 10_000)}"
        runner = Strict("claude-code", says(text), answers(20_000))

        async def work(engine: Engine) -> None:
            (link,) = links_of(engine, await do(engine, *JOIN, concurrency=1))
            assert link.by == "runner"
            assert SUMMARY in link.summary
            assert decided in link.summary
            assert decided in runner.told("c").prompt

        run(project, runner, work)

    def test_feedback_stays_word_for_word_while_outputs_are_summarised(self, project: Path) -> None:
        said = [f"Round {n}: do NOT touch the public API of part {n}." for n in range(6)]
        runner = Strict(size=9_000)

        async def work(engine: Engine) -> None:
            plan = parse_plan({"task": joined({"id": "last", "prompt": "Join them."})})
            (link,) = links_of(engine, await engine.execute(plan, adjustments=said))
            assert all(one.startswith("dependencies:") for one in link.replaced)
            prompt = runner.told("last").prompt
            assert SUMMARY in prompt
            assert all(one in prompt for one in said)

        run(project, runner, work)

    def test_the_last_output_that_stays_is_not_cut_afterwards(self, project: Path) -> None:
        runner = Strict()

        async def work(engine: Engine) -> None:
            result = await do(engine, *JOIN)
            (link,) = links_of(engine, result)
            assert len(link.replaced) == 1
            assert "left out" not in " ".join(result.observations)
            assert prose("b") in runner.told("c").prompt

        run(project, runner, work, ALONE)


class Asked(Hanging):
    """Says when it is first asked for a summary, which it never gives."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = asyncio.Event()

    async def execute(self, request: RunRequest, emit: Emit) -> RunResult:
        if is_summary(request):
            self.asked.set()
        return await super().execute(request, emit)


class TestAnExecutionGoesOn:
    def test_one_whose_summariser_hangs_is_interrupted_at_once(self, project: Path) -> None:
        runner = Asked()

        async def work(engine: Engine) -> None:
            execution_id = await engine.start(parse_plan({"task": JOIN}))
            async with asyncio.timeout(20):
                await runner.asked.wait()
                assert (await engine.interrupt(execution_id)).status == "interrupted"

        run(project, runner, work, context(timeout_s=60))

    def test_a_summariser_that_hangs_is_asked_a_few_times_only(self, project: Path) -> None:
        runner = Hanging("claude-code", answers(6_000))
        ids = [f"t{n}" for n in range(10)]
        tasks: list[dict[str, Any]] = [{"id": one, "prompt": f"Part {one}."} for one in ids]
        tasks += [
            {"id": "y", "prompt": "Join.", "depends_on": ids},
            {"id": "z", "prompt": "Join again.", "depends_on": [*ids, "y"]},
        ]

        async def work(engine: Engine) -> None:
            result = await do(engine, *tasks)
            assert (result.status, runner.refused) == ("COMPLETE", [])
            links = links_of(engine, result)
            assert {link.scope for link in links} >= {f"the output of {one}" for one in ids}
            assert {link.by for link in links} == {"deterministic"}

        run(project, runner, work, context(timeout_s=0.2, pass_tokens=500))
        assert 0 < len(runner.summarised) < AT_ONCE + PATIENCE  # the last is asked before the second has failed

    @pytest.mark.parametrize("size", [20_000, 60_000], ids=["of all that came before", "of outputs"])
    def test_without_summaries_that_can_t_be_stored(self, project: Path, size: int) -> None:
        """The material is cut, and a note says why."""

        def blocks(request: RunRequest) -> dict[str, Any]:
            block_the_chain(project, request)
            return answers(size)(request)

        runner = Strict("claude-code", blocks, answers(size))

        async def work(engine: Engine) -> None:
            result = await do(engine, *JOIN, concurrency=1)
            assert (result.status, runner.refused) == ("COMPLETE", [])
            said = " ".join(result.observations)
            assert "nothing was summarised: a summary can't be kept" in said
            assert "left out" in said

        run(project, runner, work)
        assert runner.summarised == []  # nobody is paid for what can't be kept

    def test_when_one_can_t_be_stored_the_others_are_ended_before_the_step_begins(self, project: Path) -> None:
        runner = SecondHangs(project)

        async def work(engine: Engine) -> None:
            result = await do(engine, *JOIN, concurrency=1)
            assert (result.status, runner.refused) == ("COMPLETE", [])
            assert "nothing was summarised: a summary can't be kept" in " ".join(result.observations)

        run(project, runner, work, context(pass_tokens=1_000))
        assert runner.ended_in_time


class SecondHangs(Strict):
    """Gives the first summary, which can't be stored, once it is asked for the second; that it never gives."""

    def __init__(self, project: Path) -> None:
        super().__init__(size=10_000)
        self._project = project
        self._asked = 0
        self._second = asyncio.Event()
        self._ended = False
        self.ended_in_time = False  # before the last step began

    async def execute(self, request: RunRequest, emit: Emit) -> RunResult:
        if request.task_id == "c":
            self.ended_in_time = self._ended
        elif is_summary(request):
            self._asked += 1
            if self._asked == 1:
                await self._second.wait()
                (chain,) = self._project.rglob("context")
                chain.rename(chain.with_name("elsewhere"))
                chain.write_text("in the way")
            else:
                await self._hang()
        return await super().execute(request, emit)

    async def _hang(self) -> None:
        self._second.set()
        try:
            await asyncio.Event().wait()
        finally:
            self._ended = True


@pytest.mark.more
def test_over_fifty_rounds_every_prompt_fits_and_has_what_is_pinned(project: Path) -> None:
    """A handoff in which each is told all that was said before: summaries of summaries, each on record, back to the
    first word.
    """
    chain, pinned = [f"role{n}" for n in range(50)], "Never touch `legacy/billing.py`, id 7f3a-99."
    runner = Strict(size=1_000, window=3_000)
    config = context(summarizers=["deterministic"], default_window=3_000) | {
        "roles": {role: {"prompt": "Go on."} for role in chain},
        "engine": {"chain": chain},
    }

    async def work(engine: Engine) -> None:
        task = Task(description="Move TEN-4711 to the new billing.", strategy="multi", pinned=(pinned,))
        result = await engine.execute(task)
        assert (result.status, runner.refused, len(runner.seen)) == ("COMPLETE", [], 50)
        links = links_of(engine, result)
        assert len(links) > 20
        originals = Chain(FileAttachments(files_of(engine.store).folder / result.execution_id / "context")).expand(
            links[-1].number, deep=True
        )
        assert [message.text for message in originals] == [
            prose(step.task_id, 1_000) for step in result.steps[: len(originals)]
        ]
        assert len(originals) > 40

    run(project, runner, work, config)
    assert all(pinned in request.prompt and "TEN-4711" in request.prompt for request in runner.seen)
    assert max(map(Strict.tokens, runner.seen)) <= 0.8 * runner.window


class TestTheRecord:
    async def test_has_what_guest_code_summarised(self, project: Path, box: Sandbox) -> None:
        runner = Strict(summary=says(SUMMARY, cost_usd=0.5))

        async with (
            Composer(project, box=box, config=Config(allow=("summarize",))) as composer,
            engine_of(project, runner, config=context(), composer=composer) as engine,
        ):
            done = await engine.guests.run(GuestOrder(code=CODE, inputs={"given": prose("given")}))
            assert done.status == "completed"
            records = [record for record in engine.store.records(done.id) if record["kind"] == "summary"]
            assert [record["number"] for record in records] == [1]
            chain = Chain(FileAttachments(files_of(engine.store).folder / done.id / "context"))
            assert [message.text for message in chain.expand(1)] == [prose("given")]
            assert (await engine.status(done.id)).spent_usd == 0.5 * len(runner.summarised)
        assert runner.summarised

    def test_leads_from_a_summary_of_summaries_to_the_originals(self, project: Path) -> None:
        runner = Strict(size=12_000)

        async def work(engine: Engine) -> None:
            result = await do(engine, *joined({"id": "last", "prompt": "Join them."}))
            links = links_of(engine, result)
            assert len([link for link in links if link.scope]) == len(FIVE)
            top = next(link for link in links if not link.scope)
            chain = Chain(FileAttachments(files_of(engine.store).folder / result.execution_id / "context"))
            assert prose("t0", 12_000) not in [message.text for message in chain.expand(top.number)]
            originals = [message.text for message in chain.expand(top.number, deep=True)]
            assert originals == [prose(one, 12_000) for one in FIVE[: len(originals)]]
            assert originals

        run(project, runner, work, context(summarizers=["deterministic"], pass_tokens=1_800))

    def test_of_a_summary_by_hand_is_what_a_step_to_come_is_told_that_depends_on_a_part(self, project: Path) -> None:
        small = answers(6_000)
        runner = Strict("claude-code", small, small, fails("task", "not yet"), small)
        last = {"id": "c", "prompt": "Use it.", "depends_on": ["b"]}

        async def work(engine: Engine) -> None:
            failed = await do(engine, *JOIN[:2], last, concurrency=1)
            (link,) = await engine.summarize(failed.execution_id)
            assert [one.split(":")[1] for one in link.replaced] == ["b"]
            assert (await engine.resume(failed.execution_id)).status == "COMPLETE"
            assert SUMMARY in runner.told("c").prompt
            assert prose("b", 6_000)[:200] not in runner.told("c").prompt

        run(project, runner, work)

    def test_has_one_summary_for_two_steps_with_the_same_context_at_once(self, project: Path) -> None:
        runner = Patient(size=9_000)

        async def work(engine: Engine) -> None:
            plan = parse_plan(
                {"task": joined({"id": "y", "prompt": "Read."}, {"id": "z", "prompt": "Join."}), "concurrency": 2}
            )
            result = await engine.execute(plan, on_event=runner.hears)
            assert (result.status, runner.refused) == ("COMPLETE", [])
            (link,) = links_of(engine, result)
            assert all(link.summary in runner.told(step).prompt for step in "yz")

        run(project, runner, work)
        asked = [request.prompt for request in runner.summarised]
        assert len(asked) == len(set(asked)) > 0


class Patient(Strict):
    """Gives no summary before both steps have begun that want one; then the second has time to ask, too."""

    def __init__(self, size: int) -> None:
        super().__init__(size=size)
        self._waiting = {"y", "z"}
        self._begun = asyncio.Event()

    def hears(self, event: Event) -> None:
        if event.kind == "step" and event.data.get("status") == "running":
            self._waiting.discard(event.task_id or "")
            if not self._waiting:
                self._begun.set()

    async def execute(self, request: RunRequest, emit: Emit) -> RunResult:
        if is_summary(request):
            await self._begun.wait()
            await asyncio.sleep(0.2)
        return await super().execute(request, emit)

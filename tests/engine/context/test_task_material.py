"""What a task brings along beside its words: told in short when it does not fit, word for word as long as it does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from go_ent.engine import Engine, Task
from go_ent.engine.context.chain import Chain
from go_ent.engine.core.errors import BadTask, PromptTooLarge
from go_ent.engine.core.models import RunResult
from go_ent.engine.core.step import Output
from go_ent.engine.storage.attachments import FileAttachments
from go_ent.engine.strategies import parse_plan
from go_ent.engine.strategies.plan import PlanTask
from go_ent.engine.strategies.references import filled
from tests.engine.context.test_context import (
    ALONE,
    JOIN,
    SUMMARY,
    WINDOW,
    Strict,
    answers,
    context,
    do,
    links_of,
    prose,
    run,
)
from tests.engine.context.test_context_holds import block_the_chain
from tests.support.executions import files_of
from tests.support.scripted import fails, says

REFERS = {"id": "b", "prompt": "Mend what this says: ${a.output}\nThen stop."}
MARK = "the whole is in the record of this execution]"


class TestAContext:
    @pytest.mark.parametrize("summarizers", [["runner"], ["deterministic"]])
    def test_that_is_larger_than_the_window_is_summarised_in_parts_and_kept_whole(
        self, project: Path, summarizers: list[str]
    ) -> None:
        given = prose("given", 120_000)
        runner = Strict("claude-code", says("done"))

        async def work(engine: Engine) -> None:
            result = await engine.execute(Task(description="Go on.", context=given))
            assert (result.status, runner.refused) == ("COMPLETE", [])
            (link,) = links_of(engine, result)
            assert link.scope == "the context of the task"
            assert [
                one.text
                for one in Chain(
                    FileAttachments(files_of(engine.store).folder / result.execution_id / "context")
                ).expand(1)
            ] == [given]
            assert link.summary in runner.told("task").prompt
            assert MARK in runner.told("task").prompt
            assert any(note.startswith("the context of the task was summarised by") for note in result.observations)

        run(project, runner, work, context(summarizers=summarizers))
        assert (len(runner.summarised) > 120_000 // 4 // WINDOW) == (summarizers == ["runner"])
        assert Strict.tokens(runner.told("task")) <= 0.8 * WINDOW

    def test_that_fits_is_word_for_word(self, project: Path) -> None:
        given = prose("given", 20_000)
        runner = Strict("claude-code", says("done"))

        async def work(engine: Engine) -> None:
            assert links_of(engine, await engine.execute(Task(description="Go on.", context=given))) == []

        run(project, runner, work)
        assert given in runner.told("task").prompt

    def test_is_summarised_once_for_all_roles(self, project: Path) -> None:
        runner = Strict(size=500)

        async def work(engine: Engine) -> None:
            result = await engine.execute(
                Task(description="Build it.", strategy="multi", type="feature", context=prose("given", 60_000))
            )
            assert (result.status, runner.refused) == ("COMPLETE", [])
            assert [link.scope for link in links_of(engine, result)] == ["the context of the task"]

        run(project, runner, work, ALONE)
        assert len(runner.seen) > 1

    @pytest.mark.parametrize("off", [True, False], ids=["switched off", "no place to keep it"])
    def test_is_cut_where_it_can_t_be_summarised(self, project: Path, off: bool) -> None:
        def first(request: Any) -> dict[str, Any]:
            if not off:
                block_the_chain(project, request)
            return {"status": "completed", "output": "done"}

        runner = Strict("claude-code", first, says("done"))
        last = {"id": "b", "prompt": "Go on.", "context": prose("given", 60_000), "depends_on": ["a"]}

        async def work(engine: Engine) -> None:
            result = await do(engine, JOIN[0], last)
            assert (result.status, runner.refused) == ("COMPLETE", [])
            said = " ".join(result.observations)
            assert "the context of the task: " in said
            assert ("nothing was summarised" in said) == (not off)

        run(project, runner, work, context(enabled=not off))
        assert "left out here" in runner.told("b").prompt
        assert runner.summarised == []

    def test_in_a_dry_run_it_is_cut_too(self, project: Path) -> None:
        async def work(engine: Engine) -> None:
            ((_, prompt),) = await engine.dry_run(Task(description="Go on.", context=prose("given", 60_000)))
            assert not isinstance(prompt, str)
            assert prompt.tokens <= 0.8 * WINDOW
            assert any("left out" in note for note in prompt.notes)

        run(project, Strict(), work)

    def test_does_not_save_a_description_that_is_too_large(self, project: Path) -> None:
        async def work(engine: Engine) -> None:
            result = await engine.execute(Task(description=prose("task", 60_000), context=prose("given", 60_000)))
            assert PromptTooLarge.__name__ in str(result.error)

        runner = Strict()
        run(project, runner, work)
        assert runner.seen == []


class TestAReference:
    def test_to_a_long_output_is_told_in_short_and_the_task_s_own_words_are_not(self, project: Path) -> None:
        runner = Strict("claude-code", answers(40_000), says("done"))

        async def work(engine: Engine) -> None:
            result = await do(engine, JOIN[0], REFERS)
            assert (result.status, runner.refused) == ("COMPLETE", [])
            assert [link.scope for link in links_of(engine, result)] == ["the output of a"]

        run(project, runner, work)
        told = runner.told("b").prompt
        assert f"Mend what this says: {SUMMARY}" in told
        assert f"{MARK}\nThen stop." in told
        assert Strict.tokens(runner.told("b")) <= 0.8 * WINDOW

    def test_that_fits_is_word_for_word(self, project: Path) -> None:
        runner = Strict("claude-code", answers(20_000), says("done"))
        run(project, runner, lambda engine: do(engine, JOIN[0], REFERS))
        assert prose("a", 20_000) in runner.told("b").prompt

    def test_a_graph_in_which_every_task_refers_to_those_before_it(self, project: Path) -> None:
        runner = Strict()
        tasks = [
            {"id": f"t{n}", "prompt": f"Part {n}. " + " ".join(f"${{t{m}.output}}" for m in range(max(0, n - 3), n))}
            for n in range(12)
        ]

        async def work(engine: Engine) -> None:
            result = await do(engine, *tasks)
            assert (result.status, runner.refused) == ("COMPLETE", [])

        run(project, runner, work)
        sent = [Strict.tokens(request) for request in runner.seen if request.task_id.startswith("t")]
        assert len(sent) == len(tasks)
        assert max(sent) <= 0.8 * WINDOW

    def test_after_an_interruption_the_same_summary_is_used(self, project: Path) -> None:
        first = Strict("claude-code", answers(40_000), fails("task", "not yet"))
        failed = run(project, first, lambda engine: do(engine, JOIN[0], REFERS))
        second = Strict("claude-code", says("done"))

        async def work(engine: Engine) -> None:
            before = links_of(engine, failed)
            assert (await engine.resume(failed.execution_id)).status == "COMPLETE"
            assert links_of(engine, failed) == before

        run(project, second, work)
        assert second.told("b").prompt == first.told("b").prompt
        assert second.summarised == []

    def test_what_was_put_into_a_description_is_told(self) -> None:

        results = {"a": RunResult(execution_id="e", task_id="a", status="completed", output='{"x": [1, 2]}')}
        inserted: list[Output] = []
        task = PlanTask(
            id="t", description="${a.output} and ${a.output.x}", context="${a.output}", inputs={"v": "${a.output}"}
        )
        filled(task, results, inserted)
        assert inserted == [Output("a", '{"x": [1, 2]}'), Output("a", "[1, 2]")]


class TestTheThresholdOfAPlan:
    @pytest.mark.parametrize(
        ("plan", "own", "role", "at_most"),
        [(0.4, None, 0.7, 0.4), (0.4, 0.6, None, 0.6), (None, None, 0.5, 0.5)],
        ids=["before its role's", "a task's own comes first", "none"],
    )
    def test_holds_for_its_tasks(
        self, project: Path, plan: float | None, own: float | None, role: float | None, at_most: float
    ) -> None:
        runner = Strict()
        last = {**JOIN[2], "role": "developer", **({} if own is None else {"threshold": own})}
        config = ALONE | {"roles": {"developer": {} if role is None else {"threshold": role}}}
        run(
            project,
            runner,
            lambda engine: do(engine, *JOIN[:2], last, **({} if plan is None else {"threshold": plan})),
            config,
        )
        assert (at_most - 0.2) * WINDOW < Strict.tokens(runner.told("c")) <= at_most * WINDOW

    @pytest.mark.parametrize("given", [0.05, 0.96, 0, "x"])
    def test_is_from_a_tenth_to_nineteen_twentieths(self, given: Any) -> None:

        with pytest.raises(BadTask, match="threshold"):
            parse_plan({"task": JOIN, "threshold": given})

"""Contexts that never overflow: no prompt above its model's window, whatever the summarisers do; what matters is
kept.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from go_ent.composer import Composer
from go_ent.composer.config import Config
from go_ent.engine import BudgetLimit, Engine, RunRequest, RunResult, Task, Tokens
from go_ent.engine.context.chain import Chain
from go_ent.engine.context.keeper import MARKER
from go_ent.engine.context.models import SummaryLink
from go_ent.engine.core.models import TaskResult
from go_ent.engine.guest_runs.engine_tools import offer_summaries
from go_ent.engine.guest_runs.runs import GuestOrder
from go_ent.engine.runners.base.runner import Emit
from go_ent.engine.storage.attachments import FileAttachments
from go_ent.engine.strategies import parse_plan
from go_ent.engine.tokens import count
from go_ent.sandbox import Sandbox
from tests.support.executions import files_of
from tests.support.scripted import Say, Scripted, engine_of, fails, says

WINDOW = 8_000
WORDS = (
    "the engine reads writes a file config runner value error status test module path budget result because then after"
).split()
SUMMARY = "What the steps came to: the parser is done, and 3 tests fail."


def prose(seed: object, size: int = 20_000) -> str:
    """Text that can't be made shorter by leaving out what is there twice."""
    chance, lines, length = random.Random(str(seed)), list[str](), 0
    while length < size:
        words = chance.choices(WORDS, k=chance.randint(15, 40))
        lines.append(f"{' '.join(words).capitalize()} and item_{chance.randrange(10**6)}.")
        length += len(lines[-1]) + 1
    return "\n".join(lines)


def answers(size: int) -> Say:
    """With as much text, another for each step."""
    return lambda request: {"status": "completed", "output": prose(request.task_id, size)}


def is_summary(request: RunRequest) -> bool:
    return request.task_id == "model"


class Strict(Scripted):
    """An agent whose model refuses what is larger than its window: whoever notices too late has failed."""

    def __init__(
        self,
        name: str = "claude-code",
        *script: Say,
        size: int = 20_000,
        summary: Say | None = None,
        window: int = WINDOW,
    ) -> None:
        super().__init__(
            name, *(script or (lambda request: {"status": "completed", "output": prose(request.task_id, size)},))
        )
        self.window = window
        self.summary = summary or says(SUMMARY)
        self.refused: list[str] = []

    async def execute(self, request: RunRequest, emit: Emit) -> RunResult:
        tokens = self.tokens(request)
        if tokens > self.window:
            self.refused.append(f"{request.task_id}: {tokens}")
            self.seen.append(request)
            refusal = {
                "status": "failed",
                "failure": "task",
                "error": f"prompt is too long: {tokens} tokens > {self.window}",
            }
            return RunResult.model_validate(
                {"execution_id": request.execution_id, "task_id": request.task_id, **refusal}
            )
        if is_summary(request):
            self.seen.append(request)
            fields = {"runtime": self.name, **self.summary(request)}
            return RunResult.model_validate(
                {"execution_id": request.execution_id, "task_id": request.task_id, **fields}
            )
        return await super().execute(request, emit)

    @staticmethod
    def tokens(request: RunRequest) -> int:
        return count(request.prompt) + count(request.system)

    @property
    def summarised(self) -> list[RunRequest]:
        return [request for request in self.seen if is_summary(request)]

    def told(self, step: str) -> RunRequest:
        """What that step was sent, at last."""
        return [request for request in self.seen if request.task_id == step][-1]


def context(**settings: Any) -> dict[str, Any]:
    return {"context": {"default_window": WINDOW, **settings}}


ALONE = context(summarizers=["deterministic"])
JOIN: list[dict[str, Any]] = [
    {"id": "a", "prompt": "First."},
    {"id": "b", "prompt": "Second."},
    {"id": "c", "prompt": "Join them.", "depends_on": ["a", "b"]},
]


def do(engine: Engine, *tasks: dict[str, Any], **plan: Any) -> Any:
    return engine.execute(parse_plan({"task": list(tasks), **plan}))


def links_of(engine: Engine, result: TaskResult) -> list[SummaryLink]:
    chain = Chain(FileAttachments(files_of(engine.store).folder / result.execution_id / "context"))
    assert chain.check() == []
    return chain.links()


def run(project: Path, runner: Strict, work: Callable[[Engine], Any], config: dict[str, Any] | None = None) -> Any:
    async def main() -> Any:
        async with engine_of(project, runner, config=config or context()) as engine:
            return await work(engine)

    return asyncio.run(main())


class TestNothingIsTooLarge:
    @pytest.mark.more
    def test_a_graph_of_many_tasks_with_long_outputs(self, project: Path) -> None:
        """Each depends on several before it. The first summary fails, then the model has come to itself."""
        failures = iter(range(1))
        runner = Strict(
            summary=lambda request: (says(SUMMARY) if next(failures, None) is None else fails("crash"))(request)
        )
        tasks = [
            {
                "id": f"t{n}",
                "prompt": f"Part {n}.",
                "depends_on": [f"t{m}" for m in sorted({n - 1, n - 3, n // 2}) if 0 <= m < n],
            }
            for n in range(20)
        ]

        async def work(engine: Engine) -> None:
            result = await do(engine, *tasks)
            assert (result.status, runner.refused) == ("COMPLETE", [])
            links = links_of(engine, result)
            assert {link.by for link in links} >= {"runner"}
            assert any(link.tried for link in links)
            state = await engine.status(result.execution_id)
            assert [one.number for one in state.context] == [link.number for link in links]
            assert state.fill is not None
            assert 0 < state.fill.tokens < state.fill.window == WINDOW

        run(project, runner, work)
        sent = [Strict.tokens(request) for request in runner.seen if not is_summary(request)]
        assert len(sent) == 20
        assert WINDOW // 3 < max(sent) <= 0.8 * WINDOW  # the room that there is, is used

    @pytest.mark.parametrize("summarizers", [["runner"], ["deterministic"]])
    def test_a_handoff_with_outputs_that_are_larger_than_the_window(
        self, project: Path, summarizers: list[str]
    ) -> None:
        runner = Strict(size=60_000)

        async def work(engine: Engine) -> None:
            result = await engine.execute(Task(description="Build it.", strategy="multi", type="feature"))
            assert (result.status, runner.refused) == ("COMPLETE", [])
            assert {link.scope for link in links_of(engine, result)} - {""} == {
                f"the output of {step.role}" for step in result.steps[:-1]
            }
            last = result.steps[-1].task_id
            assert "in the record of this execution" in runner.told(last).prompt

        run(project, runner, work, context(summarizers=summarizers))
        assert bool(runner.summarised) == (summarizers == ["runner"])

    def test_feedback_is_summarised_with_the_rest(self, project: Path) -> None:
        runner = Strict()

        async def work(engine: Engine) -> None:
            result = await engine.execute(Task(description="Again."), adjustments=[prose(n, 9_000) for n in range(5)])
            assert (result.status, runner.refused) == ("COMPLETE", [])
            assert len(links_of(engine, result)) == 1

        run(project, runner, work, ALONE)

    def test_files_get_what_room_is_left(self, project: Path) -> None:
        for name in ("one.txt", "two.txt"):
            (project / name).write_text(prose(name, 30_000))
        runner = Strict()

        async def work(engine: Engine) -> None:
            result = await do(engine, *JOIN[:2], {**JOIN[2], "files": ["one.txt", "two.txt"]})
            assert (result.status, runner.refused) == ("COMPLETE", [])

        run(project, runner, work, ALONE)

    def test_a_file_that_is_larger_than_its_share_is_summarised_once_and_says_where_the_whole_is(
        self, project: Path
    ) -> None:
        (project / "large.txt").write_text(prose("large", 60_000))
        (project / "small.txt").write_text("the small one, whole")
        runner = Strict(size=100)
        tasks = [{"id": name, "prompt": f"Part {name}.", "files": ["large.txt", "small.txt"]} for name in "abc"]

        async def work(engine: Engine) -> None:
            result = await do(engine, *tasks, concurrency=1)
            assert (result.status, runner.refused) == ("COMPLETE", [])
            (link,) = links_of(engine, result)
            assert (link.scope, link.by) == ("the file large.txt", "runner")
            assert (
                Chain(FileAttachments(files_of(engine.store).folder / result.execution_id / "context"))
                .expand(1)[0]
                .text
                == (project / "large.txt").read_text()
            )

        run(project, runner, work)
        for name in "abc":
            prompt = runner.told(name).prompt
            assert SUMMARY in prompt
            assert "the whole is in large.txt]" in prompt
            assert "the small one, whole" in prompt

    def test_of_many_large_files_the_largest_are_summarised_and_the_others_cut(self, project: Path) -> None:
        for n in range(12):
            (project / f"f{n:02}.txt").write_text(prose(n, 20_000 + 1000 * n))
        runner = Strict()

        async def work(engine: Engine) -> None:
            result = await engine.execute(Task(description="Look at them.", files=("*.txt",)))
            assert (result.status, runner.refused) == ("COMPLETE", [])
            assert {link.scope for link in links_of(engine, result)} == {f"the file f{n:02}.txt" for n in range(4, 12)}
            assert any("f00.txt" in note and "left out" in note for note in result.observations)

        run(project, runner, work)

    def test_what_can_t_be_cut_and_does_not_fit_is_refused_before_it_is_sent(self, project: Path) -> None:
        runner = Strict()

        async def work(engine: Engine) -> None:
            result = await engine.execute(Task(description=prose("task", 60_000)))
            assert result.status == "BLOCKED"
            assert f"takes {WINDOW}, {WINDOW // 4} of which are kept for the answer" in str(result.error)
            assert "make them shorter, give less as files, or name a model with a larger window" in str(result.error)

        run(project, runner, work)
        assert runner.seen == []

    async def test_a_stand_in_with_a_smaller_window_gets_a_prompt_of_its_own(self, project: Path) -> None:
        first = Strict("claude-code", fails("rate_limit"), window=100_000)
        second = Strict("open-code")
        config = context(windows={"large": 100_000, "small": WINDOW}, summarizers=["deterministic"])
        config |= {"runners": {"claude-code": {"model": "large"}, "open-code": {"model": "small"}}}

        async with engine_of(project, first, second, config=config) as engine:
            result = await engine.execute(Task(description="Go on."), adjustments=[prose(n) for n in range(4)])
            assert (result.status, second.refused) == ("COMPLETE", [])

    def test_switched_off_it_is_cut_instead(self, project: Path) -> None:
        runner = Strict()

        async def work(engine: Engine) -> None:
            result = await do(engine, *JOIN)
            assert (result.status, runner.refused, links_of(engine, result)) == ("COMPLETE", [], [])
            assert "the result of a" in " ".join(result.observations)
            assert "left out" in " ".join(result.observations)

        run(project, runner, work, context(enabled=False))
        assert runner.summarised == []

    def test_what_the_provider_counts_is_what_counts(self, project: Path) -> None:
        """A model that has half as many tokens again for the same text: after the first answer of a command that is
        known.
        """
        for name in ("one.txt", "two.txt"):
            (project / name).write_text(prose(name, 30_000))

        def said(request: RunRequest) -> dict[str, Any]:
            counted = Tokens(input=Strict.tokens(request) * 3 // 2, output=10)
            return {"status": "completed", "output": prose(request.task_id), "tokens": counted}

        runner = Strict("cli", said, window=WINDOW * 2 // 3)
        config = context(
            windows={"odd": WINDOW}, summarizers=["deterministic"], threshold=0.95, reserve_tokens=0, pass_tokens=1000
        )
        config |= {
            "commands": {"ask": {"argv": ["ask"], "model": "odd"}},
            "engine": {"command": "ask", "runtime": "cli"},
        }

        async def work(engine: Engine) -> None:
            for _ in range(6):
                await engine.execute(Task(description=prose("to learn from", 3_000)))
            tasks = [{"id": f"t{n}", "prompt": f"Part {n}."} for n in range(12)]
            last = {"id": "last", "prompt": "Join.", "depends_on": [task["id"] for task in tasks], "files": ["*.txt"]}
            result = await do(engine, *tasks, last)
            assert (result.status, runner.refused) == ("COMPLETE", [])
            fill = (await engine.status(result.execution_id)).fill
            assert fill is not None
            assert 0.8 * WINDOW < fill.tokens <= WINDOW == fill.window

        run(project, runner, work, config)


class Hanging(Strict):
    """Never answers when it is to summarise."""

    async def execute(self, request: RunRequest, emit: Emit) -> RunResult:
        if is_summary(request):
            self.seen.append(request)
            await asyncio.Event().wait()
        return await super().execute(request, emit)


class TestSummarisersMayFail:
    @pytest.mark.parametrize(
        ("summary", "why"),
        [
            (fails("crash", "it broke"), "it broke"),
            (says(""), "the answer is empty"),
            (says("I'm sorry, but I can't help with that."), "it refused"),
            (says(prose("far too long", 60_000)), "tokens, "),
        ],
        ids=["fails", "empty", "refuses", "long"],
    )
    def test_one_that_is_no_use(self, project: Path, summary: Say, why: str) -> None:
        self.stands_in(project, Strict(summary=summary), why, context())

    def test_one_that_hangs(self, project: Path) -> None:
        self.stands_in(project, Hanging(), "0.05 s", context(timeout_s=0.05))

    def test_one_for_which_there_is_no_money(self, project: Path) -> None:
        runner = Strict(
            "claude-code", lambda request: {"status": "completed", "output": prose(request.task_id), "cost_usd": 0.1}
        )
        config = context() | {"budget": {"execution": {"usd": 0.32}, "reserve_usd": 2.0}}
        self.stands_in(project, runner, "does not hold this", config, budget={"usd": 0.1})
        assert runner.summarised == []

    def test_one_for_which_a_plan_has_no_money(self, project: Path) -> None:
        runner = Strict(
            "claude-code", lambda request: {"status": "completed", "output": prose(request.task_id), "cost_usd": 0.1}
        )
        config = context() | {"budget": {"reserve_usd": 2.0, "hard": True}}
        self.stands_in(project, runner, "does not hold this", config, {"usd": 0.32}, budget={"usd": 0.1})
        assert runner.summarised == []

    @staticmethod
    def stands_in(
        project: Path,
        runner: Strict,
        why: str,
        config: dict[str, Any],
        limit: dict[str, float] | None = None,
        **more: Any,
    ) -> None:
        """The execution goes on with what needs no model, and that is on record."""

        async def work(engine: Engine) -> None:
            plan = {"concurrency": 1} | ({"budget": limit} if limit else {})
            result = await do(engine, *({**task, **more} for task in JOIN), **plan)
            assert (result.status, runner.refused) == ("COMPLETE", [])
            (link,) = links_of(engine, result)
            assert link.by == "deterministic"
            assert any(tried.startswith("runner: ") and why in tried for tried in link.tried), link.tried
            records = [record for record in engine.store.records(result.execution_id) if record["kind"] == "summary"]
            assert [(record["number"], record["by"]) for record in records] == [(1, "deterministic")]
            assert any("was summarised by deterministic" in said for said in result.observations)

        run(project, runner, work, config)


class TestWhatItCosts:
    def test_is_booked_under_the_execution(self, project: Path) -> None:
        runner = Strict(
            "claude-code",
            lambda request: {"status": "completed", "output": prose(request.task_id), "cost_usd": 1.0},
            summary=says(SUMMARY, cost_usd=0.25, tokens=Tokens(input=100, output=20)),
        )

        async def work(engine: Engine) -> None:
            result = await do(engine, *JOIN)
            (link,) = links_of(engine, result)
            made = 0.25 * len(runner.summarised)
            assert link.cost_usd == pytest.approx(made)
            state = await engine.status(result.execution_id)
            assert state.spent_usd == pytest.approx(3.0 + made)
            assert (await engine.spent([result.execution_id])).usd == pytest.approx(3.0 + made)
            (told,) = state.context
            assert (told.by, told.cost_usd, told.tokens_before) == ("runner", link.cost_usd, link.tokens_before)

        run(project, runner, work)
        assert runner.summarised

    def test_is_booked_whoever_is_asked(self, project: Path) -> None:
        """pydantic-ai's own model for tests answers, and costs what the configuration says of it."""
        config = context(summarizers=["pydantic-ai"], model="test") | {
            "prices": {"test": {"input": 100, "output": 100}}
        }
        runner = Strict()

        async def work(engine: Engine) -> None:
            result = await do(engine, *JOIN)
            (link,) = links_of(engine, result)
            assert (link.by, link.model, link.tried) == ("pydantic-ai", "test", ())
            assert link.summary.startswith("success")
            assert link.cost_usd is not None
            assert link.cost_usd > 0.1
            assert (await engine.spent([result.execution_id])).usd == pytest.approx(link.cost_usd)

        run(project, runner, work, config)
        assert runner.summarised == []

    def test_also_of_a_try_that_was_no_use(self, project: Path) -> None:
        runner = Strict(summary=says("", cost_usd=0.25))

        async def work(engine: Engine) -> None:
            result = await do(engine, *JOIN)
            (link,) = links_of(engine, result)
            assert link.cost_usd == pytest.approx(0.25 * len(runner.summarised))
            assert (await engine.spent([result.execution_id])).usd == pytest.approx(link.cost_usd)

        run(project, runner, work)

    def test_the_model_that_summarises_can_be_another(self, project: Path) -> None:
        runner = Strict()
        run(project, runner, lambda engine: do(engine, *JOIN), context(model="cheap", windows={"cheap": WINDOW}))
        assert {request.model for request in runner.summarised} == {"cheap"}

    def test_and_its_requests_fit_its_own_window(self, project: Path) -> None:
        runner = Strict(window=4_000)
        config = context(model="cheap", windows={"cheap": 4_000, "large": 40_000}, threshold=0.5)

        async def work(engine: Engine) -> None:
            await engine.execute(Task(description="Go on.", model="large"), adjustments=[prose(n) for n in range(6)])

        run(project, runner, work, config)
        assert runner.summarised
        assert [size for size in runner.refused if size.startswith("model")] == []


@pytest.mark.parametrize(
    ("own", "role", "at_most", "more_than"),
    [(None, None, 0.8, 0.6), (None, 0.6, 0.6, 0.4), (0.4, 0.6, 0.4, 0.2)],
    ids=["of the project", "of the role", "of the task"],
)
def test_from_where_on_is_summarised(
    project: Path, own: float | None, role: float | None, at_most: float, more_than: float
) -> None:
    runner = Strict()
    config = ALONE | {"roles": {"developer": {} if role is None else {"threshold": role}}}
    last = {**JOIN[2], "role": "developer", **({} if own is None else {"threshold": own})}
    run(project, runner, lambda engine: do(engine, *JOIN[:2], last), config)
    assert more_than * WINDOW < Strict.tokens(runner.told("c")) <= at_most * WINDOW


def test_what_fits_is_not_touched(project: Path) -> None:
    runner = Strict(size=2_000)

    async def work(engine: Engine) -> None:
        result = await do(engine, *JOIN)
        assert links_of(engine, result) == []
        assert all(prose(step, 2_000) in runner.told("c").prompt for step in "ab")

    run(project, runner, work)
    assert runner.summarised == []


@pytest.mark.parametrize(
    "pinned",
    [
        "Never touch `legacy/billing.py`, id 7f3a-99: it is frozen.",
        "The API stays at v2.\n\n    indented = True\nAlways.",
    ],
    ids=["a line", "lines"],
)
def test_pinned_texts_are_in_every_prompt_word_for_word(project: Path, pinned: str) -> None:
    runner = Strict()

    async def work(engine: Engine) -> None:
        result = await engine.execute(Task(description="Build it.", strategy="multi", type="feature", pinned=(pinned,)))
        assert result.status == "COMPLETE"
        assert links_of(engine, result)

    run(project, runner, work, ALONE)
    assert len(runner.seen) > 1
    assert all(pinned in request.prompt for request in runner.seen)


def test_an_output_for_several_is_summarised_once(project: Path) -> None:
    runner = Strict(
        "claude-code",
        lambda request: {"status": "completed", "output": prose("a", 60_000 if request.task_id == "a" else 100)},
    )
    others: list[dict[str, Any]] = [{"id": f"b{n}", "prompt": "Use it.", "depends_on": ["a"]} for n in range(4)]

    async def work(engine: Engine) -> None:
        result = await do(engine, JOIN[0], *others)
        assert [link.scope for link in links_of(engine, result)] == ["the output of a"]
        assert all(SUMMARY in runner.told(other["id"]).prompt for other in others)

    run(project, runner, work)


@pytest.mark.parametrize("size", [20_000, 60_000], ids=["of all that came before", "of one output"])
def test_another_engine_goes_on_with_the_chain_that_is_there(project: Path, size: int) -> None:
    first = Strict("claude-code", answers(size), answers(size), fails("task", "not yet"))
    failed = run(project, first, lambda engine: do(engine, *JOIN, concurrency=1))
    assert failed.status != "COMPLETE"
    assert first.summarised
    second = Strict()

    async def work(engine: Engine) -> None:
        before = links_of(engine, failed)
        result = await engine.resume(failed.execution_id)
        assert (result.status, second.refused) == ("COMPLETE", [])
        assert links_of(engine, result) == before

    run(project, second, work)
    assert [request.task_id for request in second.seen] == ["c"]
    assert second.told("c").prompt == first.told("c").prompt


def test_a_model_that_nobody_knows_is_told_of_once(project: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "go_ent.engine"):
        run(project, Strict(size=50), lambda engine: do(engine, *({**task, "model": "mystery-1"} for task in JOIN)))
    said = [
        record.getMessage()
        for record in caplog.records
        if "mystery-1" in record.getMessage() and "context window" in record.getMessage()
    ]
    assert len(said) == 1
    assert f"it is taken for {WINDOW} tokens" in said[0]


CODE = "text = await tools.summarize(text=given, max_tokens=200)\n[len(text), text]"


class TestGuestCode:
    def go(
        self,
        project: Path,
        box: Sandbox,
        runner: Strict,
        allow: tuple[str, ...],
        *,
        trusted: bool = True,
        **limits: Any,
    ) -> Any:
        async def main() -> Any:
            async with Composer(project, box=box, config=Config(allow=allow)) as composer:
                config = context() | {"budget": limits} if limits else context()
                async with engine_of(project, runner, config=config, composer=composer, trusted=trusted) as engine:
                    offer_summaries(engine, composer)
                    run = await engine.guests.run(GuestOrder(code=CODE, inputs={"given": prose("given")}))
                    return run, await engine.spent([run.id])

        return asyncio.run(main())

    def test_summarises_where_that_is_granted_by_name(self, project: Path, box: Sandbox) -> None:
        runner = Strict(summary=says(SUMMARY, cost_usd=0.5))
        run, spent = self.go(project, box, runner, ("summarize",))
        assert (run.status, run.result) == ("completed", [len(SUMMARY), SUMMARY])
        assert spent.usd == pytest.approx(0.5 * len(runner.summarised))
        assert runner.summarised

    def test_within_the_budget(self, project: Path, box: Sandbox) -> None:
        runner = Strict()
        run, _ = self.go(project, box, runner, ("summarize",), day=BudgetLimit(usd=0.01))
        assert run.status == "completed"
        assert 0 < count(run.result[1]) <= 200
        assert runner.seen == []

    @pytest.mark.parametrize(
        ("allow", "trusted"), [((), True), (("*",), True), (("summarize.*", "engine.*"), True), (("summarize",), False)]
    )
    def test_not_otherwise(self, project: Path, box: Sandbox, allow: tuple[str, ...], trusted: bool) -> None:
        runner = Strict()
        run, _ = self.go(project, box, runner, allow, trusted=trusted)
        assert run.status == "error"
        assert "summarize" in run.error.message
        assert runner.seen == []


def test_the_mark_of_a_summary_is_counted() -> None:
    assert count("\n[a summary of 123456789 tokens; the whole is in the record of this execution]") <= MARKER

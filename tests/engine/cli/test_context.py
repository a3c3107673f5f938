"""`go-ent context`, `go-ent summarize` and the MCP tool `engine_summarize`: what people and clients meet of a
context.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Literal

import pytest
from fastmcp import Client
from mcp_types import CreateMessageResult, ImageContent

from go_ent.composer import Composer
from go_ent.engine.cli.commands.context import bar, threshold_of
from go_ent.engine.context.chain import Chain
from go_ent.engine.core.config import EngineConfig
from go_ent.engine.core.errors import SummaryFailed
from go_ent.engine.executions.state import Fill
from go_ent.engine.server import make_server
from go_ent.engine.server.calls.sampling import sample
from go_ent.engine.storage.attachments import FileAttachments
from go_ent.engine.strategies import parse_plan
from go_ent.engine.tokens import count
from go_ent.sandbox import Sandbox
from tests.engine.context.test_context import JOIN, SUMMARY, Strict, answers, context
from tests.engine.server.test_server import say
from tests.support.executions import FileStore
from tests.support.scripted import Scripted, engine_of, fails, says
from tests.support.shell import Done, go_ent

SUMMARISED = context(summarizers=["runner"])
ESCAPE = "\x1b[31mred"


@pytest.fixture
def project(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(project)
    return project


def begun(project: Path, *script: Any, tasks: Any = JOIN, config: dict[str, Any] | None = None, **more: Any) -> str:
    """The id of a graph that was run here, to its end or until it failed."""

    async def main() -> str:
        runner = Strict("claude-code", *(script or (answers(20_000),)), **more)
        async with engine_of(project, runner, config=config or SUMMARISED) as engine:
            return (await engine.execute(parse_plan({"task": list(tasks)}), concurrency=1)).execution_id

    return asyncio.run(main())


def text(done: Done) -> str:
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


class TestContext:
    def test_shows_how_full_it_is_and_the_chain(self, project: Path) -> None:
        execution = begun(project, summary=says(SUMMARY, cost_usd=0.25))
        shown = text(go_ent("context", execution[:24]))
        state = FileStore(project).load(execution)
        (link,) = Chain(FileAttachments(project / ".go-ent" / "executions" / execution / "context")).links()
        assert state.fill is not None
        assert f"{state.fill.tokens:,} of 8,000 tokens" in shown
        assert "in step c; | 80%" in shown
        assert f"{link.tokens_before:,} -> {link.tokens_after:,}" in shown
        assert "runner" in shown
        assert f"${link.cost_usd:.4f}" in shown
        status = text(go_ent("status", execution))
        assert (
            f"summary 1 of what came before: {link.tokens_before:,} -> {link.tokens_after:,} tokens by runner, $0."
            in status
        )
        totals = json.loads(text(go_ent("executions", "totals", "--by", "runtime", "--json")))
        assert totals["summaries by runner"]["cost_usd"] == link.cost_usd
        told = json.loads(text(go_ent("context", execution, "--json")))
        assert told["fill"] == {"step": "c", "tokens": state.fill.tokens, "window": 8000, "threshold": 0.8}
        assert [(one["number"], one["by"], one["replaced"]) for one in told["chain"]] == [
            (1, "runner", len(link.replaced))
        ]
        assert told["problems"] == []

    def test_what_failed_before_is_told(self, project: Path) -> None:
        execution = begun(project, summary=fails("crash", "it broke"))
        assert "1: failed before: runner: claude-code: it broke" in text(go_ent("context", execution))

    @pytest.mark.parametrize(("own", "role", "mark"), [(0.4, 0.6, 0.4), (None, 0.6, 0.6)])
    def test_marks_the_threshold_that_the_step_had(
        self, project: Path, own: float | None, role: float, mark: float
    ) -> None:
        (project / ".go-ent" / "config.toml").write_text(f"[roles.developer]\nthreshold = {role}\n")
        last = {**JOIN[2], "role": "developer", **({} if own is None else {"threshold": own})}
        execution = begun(
            project, tasks=[*JOIN[:2], last], config=SUMMARISED | {"roles": {"developer": {"threshold": role}}}
        )
        assert f"in step c; | {mark:.0%}" in text(go_ent("context", execution))

    def test_expands_what_a_summary_stands_for(self, project: Path) -> None:
        execution = begun(
            project, lambda request: {"status": "completed", "output": f"{ESCAPE} {request.task_id}\n" + "x y " * 9_000}
        )
        chain = Chain(FileAttachments(project / ".go-ent" / "executions" / execution / "context"))
        (first,) = chain.expand(1)
        for deep in ([], ["--deep"]):
            shown = text(go_ent("context", execution, "--expand", "1", *deep))
            assert f"1. assistant {first.source}, " in shown
            assert f"   �[31mred {first.source}" in shown  # indented, and nothing that a terminal would obey
            assert "\x1b" not in shown
            messages = json.loads(text(go_ent("context", execution, "--expand", "1", "--json", *deep)))
            assert [one["id"] for one in messages] == [one.id for one in chain.expand(1, deep=bool(deep))]

    def test_before_anything_was_sent(self, project: Path) -> None:
        execution = begun(project, tasks=[{"id": "a", "command": ["true"]}])
        shown = text(go_ent("context", execution))
        assert "nothing was sent to a model yet" in shown
        assert "nothing was summarised" in shown
        assert json.loads(text(go_ent("context", execution, "--json")))["fill"] is None

    def test_damage_is_told(self, project: Path) -> None:
        execution = begun(project)
        folder = project / ".go-ent" / "executions" / execution / "context"
        originals = folder / "0001.messages.jsonl"
        os.chmod(originals, 0o600)
        originals.write_text(originals.read_text().replace("engine", "enginE", 1))
        (folder / "0002.json").write_text(f'{{"{ESCAPE}": 1}}')
        shown = text(go_ent("context", execution))
        assert "damaged   0002.json is damaged" in shown
        assert "damaged   0001.messages.jsonl is not what summary 1 replaced" in shown
        assert "\x1b" not in shown
        refused = go_ent("context", execution, "--expand", "1")
        assert (refused.returncode, b"its digest does not fit" in refused.stderr) == (12, True)

    def test_wrong_words(self, project: Path) -> None:
        execution = begun(project)
        for arguments, code, said in (
            (["--expand", "7"], 2, b"there is no summary 7; there are: 1"),
            (["--expand", "-1"], 2, b"there is no summary -1"),
            (["--deep"], 2, b"--deep is for --expand N"),
        ):
            refused = go_ent("context", execution, *arguments)
            assert (refused.returncode, said in refused.stderr) == (code, True), refused.stderr
        assert b"there is no execution" in go_ent("context", "01a1e4e4").stderr


def test_a_bar() -> None:
    assert bar(0, 100, 0.8, 10) == "[--------|-]"
    assert bar(50, 100, 0.8, 10) == "[#####---|-]"
    assert bar(100, 100, 0.8, 10) == "[########|#]"
    assert bar(10**30, 100, 0.95, 10) == "[#########|]"
    assert bar(-5, 100, 0.1, 10) == "[-|--------]"


class TestSummarize:
    """There is no agent here: what needs no model makes the summaries."""

    @pytest.fixture(autouse=True)
    def _no_agents(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))

    def test_says_what_became_of_it(self, project: Path) -> None:
        execution = begun(project, answers(8_000), tasks=JOIN[:2])
        shown = text(go_ent("summarize", execution[:24], "--model", "cheap"))
        (link,) = Chain(FileAttachments(project / ".go-ent" / "executions" / execution / "context")).links()
        assert f"summary 1: {link.tokens_before:,} tokens became {link.tokens_after:,}, by deterministic" in shown
        assert f"go-ent context {execution[-8:]} --expand 1" in shown
        assert "1. assistant a" in text(go_ent("context", execution, "--expand", "1"))
        assert '"number": 1' in text(go_ent("logs", execution))

    def test_or_that_it_is_short_enough(self, project: Path) -> None:
        execution = begun(project, says("short"))
        assert "is short enough: nothing was summarised" in text(go_ent("summarize", execution))
        assert json.loads(text(go_ent("summarize", execution, "--json"))) == {"id": execution, "summaries": []}

    def test_json(self, project: Path) -> None:
        execution = begun(project, answers(8_000), tasks=JOIN[:2])
        told = json.loads(text(go_ent("summarize", execution, "--json")))
        (made,) = told["summaries"]
        assert (told["id"], made["by"], made["replaced"]) == (execution, "deterministic", 2)

    def test_a_model_is_no_flag(self, project: Path) -> None:
        execution = begun(project, answers(8_000), tasks=JOIN[:2])
        refused = go_ent("summarize", execution, "--model=--dangerous")
        assert (refused.returncode, b"--model" in refused.stderr) == (2, True)

    def test_code_has_it_where_a_trusted_project_names_it(self, project: Path) -> None:
        code = (
            "text = await tools.summarize(text='The port is 8080. ' + 'So it goes on. ' * 900, max_tokens=100)\n0 "
            "< len(text) < 900"
        )
        config = project / ".go-ent" / "config.toml"
        trust = {"GO_ENT_TRUST_PROJECT": "1"}
        config.write_text('[grants]\nallow = ["summarize"]\n')
        assert text(go_ent("exec", "-c", code, env=trust)) == "true\n"
        assert go_ent("exec", "-c", code).returncode == 1
        config.write_text('[grants]\nallow = ["*"]\n')
        refused = go_ent("exec", "-c", code, env=trust)
        assert (refused.returncode, b"there is no tool summarize" in refused.stderr) == (1, True), refused.stderr


def test_a_threshold_is_for_a_plan_as_for_a_task(project: Path) -> None:
    (project / "plan.toml").write_text('[[task]]\nid = "a"\ncommand = ["true"]\n')
    assert go_ent("run", "--plan", "plan.toml", "--threshold", "0.3").returncode == 0
    (row,) = FileStore(project).rows()
    state = FileStore(project).load(row.id)
    assert state.work["plan"]["threshold"] == 0.3
    assert threshold_of(state.model_copy(update={"fill": Fill(step="a", tokens=1, window=10)}), EngineConfig()) == 0.3
    refused = go_ent("run", "--plan", "plan.toml", "--threshold", "0.99")
    assert (refused.returncode, b"threshold" in refused.stderr) == (2, True)


@pytest.mark.parametrize("section", ["context", "executions"])
def test_the_section_keeps_nothing_else_from_running(project: Path, section: str) -> None:
    (project / ".go-ent" / "config.toml").write_text(f"[{section}]\n")
    assert text(go_ent("exec", "-c", "1 + 1")) == "2\n"


class TestOverMcp:
    def talk(
        self,
        project: Path,
        box: Sandbox,
        work: Callable[[Client[Any]], Awaitable[None]],
        runner: Scripted,
        *,
        config: dict[str, Any],
        mode: Literal["auto", "legacy"] = "auto",
        **client: Any,
    ) -> None:
        async def main() -> None:
            async with Composer(project, box=box) as composer:
                engine = engine_of(project, runner, config=config, mode="mcp", composer=composer)
                async with engine, Client(make_server(composer, engine), mode=mode, **client) as connected:
                    await work(connected)

        asyncio.run(main())

    @pytest.mark.parametrize("mode", ["auto", "legacy"])
    def test_summarises(self, project: Path, box: Sandbox, mode: Literal["auto", "legacy"]) -> None:
        execution = begun(project, answers(8_000), tasks=JOIN[:2])
        runner = Strict(summary=says(SUMMARY, cost_usd=0.25))

        async def work(client: Client[Any]) -> None:
            listed = {tool.name: tool for tool in await client.list_tools()}["engine_summarize"]
            assert listed.description
            assert listed.output_schema
            assert listed.annotations
            failed, said = await say(client, "engine_summarize", execution_id=execution[:24], model="cheap")
            assert (failed, said["execution_id"], said["status"]) == (False, execution, "summarised")
            assert (said["summary"], said["by"], said["cost_usd"]) == (SUMMARY, "runner", 0.25)
            failed, said = await say(client, "engine_summarize", execution_id=execution)
            assert (failed, said["status"]) == (False, "short enough: nothing was summarised")
            failed, said = await say(client, "engine_status", execution_id=execution)
            (listed_summary,) = said["summaries"]
            assert (listed_summary["number"], listed_summary["by"], listed_summary["cost_usd"]) == (1, "runner", 0.25)
            failed, said = await say(client, "engine_summarize", execution_id="../x")
            assert failed
            assert "is not the id of an execution" in str(said)
            failed, said = await say(client, "engine_summarize", execution_id=execution, model="--x")
            assert failed

        self.talk(project, box, work, runner, config=context(), mode=mode)
        assert [request.model for request in runner.summarised] == ["cheap"]

    @pytest.mark.parametrize("as_plan", [True, False], ids=["of a plan", "of a task"])
    def test_a_threshold_is_given_with_the_work(self, project: Path, box: Sandbox, as_plan: bool) -> None:
        runner = Strict()

        async def work(client: Client[Any]) -> None:
            given = {"plan": JOIN} if as_plan else {"task": "Build it.", "strategy": "multi", "type": "feature"}
            failed, said = await say(client, "engine_execute", threshold=0.4, **given)
            assert (failed, said["status"]) == (False, "COMPLETE")
            failed, said = await say(client, "engine_execute", threshold=0.99, **given)
            assert (failed, "threshold" in str(said)) == (True, True)

        self.talk(project, box, work, runner, config=context(summarizers=["deterministic"]))
        sent = [Strict.tokens(request) for request in runner.seen]
        assert 0.2 * 8_000 < max(sent) <= 0.4 * 8_000

    @pytest.mark.parametrize("mode", ["auto", "legacy"])
    def test_the_client_s_own_model_is_asked_where_it_offers_that(
        self, project: Path, box: Sandbox, mode: Literal["auto", "legacy"]
    ) -> None:
        execution = begun(project, answers(8_000), tasks=JOIN[:2])
        asked: list[Any] = []

        async def model(messages: Any, params: Any, _: Any) -> str:
            asked.append((params.system_prompt, messages[0].content.text, params.max_tokens))
            return SUMMARY

        async def work(client: Client[Any]) -> None:
            failed, said = await say(client, "engine_summarize", execution_id=execution)
            assert (failed, said["by"], said["summary"]) == (False, "sampling", SUMMARY)

        runner = Strict()
        self.talk(
            project, box, work, runner, config=context(summarizers=["sampling"]), mode=mode, sampling_handler=model
        )
        assert runner.seen == []
        assert len(asked) == 1
        assert asked[0][0]

    def test_in_as_many_rounds_as_it_takes(self, project: Path, box: Sandbox) -> None:
        """More than fits one request of the client's model: parts, and the summary of their summaries."""
        execution = begun(project, answers(30_000), tasks=JOIN[:2])
        asked: list[int] = []

        async def model(messages: Any, params: Any, _: Any) -> str:
            asked.append(count(messages[0].content.text))
            return SUMMARY

        async def work(client: Client[Any]) -> None:
            failed, said = await say(client, "engine_summarize", execution_id=execution)
            assert (failed, said["by"], said["summary"]) == (False, "sampling", SUMMARY)
            assert "failed_before" not in said

        self.talk(project, box, work, Strict(), config=context(summarizers=["sampling"]), sampling_handler=model)
        assert len(asked) > 2
        assert max(asked) < 8_000

    @pytest.mark.parametrize("mode", ["auto", "legacy"])
    def test_one_that_answers_no_text_is_passed_over(
        self, project: Path, box: Sandbox, mode: Literal["auto", "legacy"]
    ) -> None:
        execution = begun(project, answers(8_000), tasks=JOIN[:2])

        async def model(messages: Any, params: Any, _: Any) -> CreateMessageResult:
            image = ImageContent(type="image", data="AAAA", mime_type="image/png")
            return CreateMessageResult(role="assistant", content=image, model="theirs")

        async def work(client: Client[Any]) -> None:
            failed, said = await say(client, "engine_summarize", execution_id=execution)
            assert (failed, said["by"]) == (False, "deterministic")
            assert said["failed_before"] == ["sampling: the client's model answered with image, not with text"]

        self.talk(
            project, box, work, Strict(), config=context(summarizers=["sampling"]), mode=mode, sampling_handler=model
        )

    def test_while_an_execution_runs_a_client_that_answers_later_is_passed_over(
        self, project: Path, box: Sandbox
    ) -> None:
        async def model(messages: Any, params: Any, _: Any) -> str:
            raise AssertionError("it can't be asked now")

        async def work(client: Client[Any]) -> None:
            failed, said = await say(client, "engine_execute", plan=JOIN)
            assert (failed, said["status"]) == (False, "COMPLETE")
            shown = json.loads(text(go_ent("context", said["execution_id"], "--json")))
            assert shown["chain"][0]["tried"] == [
                "sampling: a client of this protocol can be asked by engine_summarize alone"
            ]

        self.talk(project, box, work, Strict(), config=context(summarizers=["sampling"]), sampling_handler=model)

    def test_but_in_no_more_than_clients_go(self, project: Path, box: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("go_ent.engine.server.calls.sampling.MOST_ROUNDS", 1)
        execution = begun(project, answers(30_000), tasks=JOIN[:2])

        async def model(messages: Any, params: Any, _: Any) -> str:
            return SUMMARY

        async def work(client: Client[Any]) -> None:
            failed, said = await say(client, "engine_summarize", execution_id=execution)
            assert (failed, said["by"]) == (False, "deterministic")
            assert "sampling: the client was asked in 1 rounds already" in said["failed_before"]

        self.talk(project, box, work, Strict(), config=context(summarizers=["sampling"]), sampling_handler=model)

    def test_also_while_an_execution_runs(self, project: Path, box: Sandbox) -> None:
        async def model(messages: Any, params: Any, _: Any) -> str:
            return SUMMARY

        async def work(client: Client[Any]) -> None:
            failed, said = await say(client, "engine_execute", plan=JOIN)
            assert (failed, said["status"]) == (False, "COMPLETE")

        runner = Strict()
        self.talk(
            project, box, work, runner, config=context(summarizers=["sampling"]), mode="legacy", sampling_handler=model
        )
        assert runner.refused == []
        assert SUMMARY in runner.told("c").prompt

    @pytest.mark.parametrize("mode", ["auto", "legacy"])
    def test_a_client_without_one_is_passed_over(
        self, project: Path, box: Sandbox, mode: Literal["auto", "legacy"]
    ) -> None:
        execution = begun(project, answers(8_000), tasks=JOIN[:2])

        async def work(client: Client[Any]) -> None:
            failed, said = await say(client, "engine_summarize", execution_id=execution)
            assert (failed, said["by"]) == (False, "deterministic")
            assert said["failed_before"] == ["sampling: the connected client offers no sampling"]

        self.talk(project, box, work, Strict(), config=context(summarizers=["sampling"]), mode=mode)

    def test_nobody_is_asked_outside_of_a_conversation(self) -> None:
        with pytest.raises(SummaryFailed, match="no client is connected"):
            asyncio.run(sample("", "", 10))

    def test_an_agent_of_ours_spends_nothing(
        self, project: Path, box: Sandbox, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("GO_ENT_RUN", "e/t/1")

        async def work(client: Client[Any]) -> None:
            assert "engine_summarize" not in {tool.name for tool in await client.list_tools()}

        self.talk(project, box, work, Strict(), config=context())

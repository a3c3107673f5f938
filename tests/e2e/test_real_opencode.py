"""The open-code runner over the real opencode; the model is a stand-in. One runner for all, as an engine has one."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

import psutil
import pytest

from go_ent.engine.core.models import FailureKind, RunResult, Tokens
from tests.e2e.desk import ONE_CALL, ONE_COST, PROMPT, SECRET, USAGE, Desk, desk_of, opencode
from tests.e2e.model_server import Asked, Reply, Silence, SlowStream, Status, Text, ToolUse, Usage
from tests.e2e.programs import Programs, wanted

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def kept(programs: Programs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    with desk_of(opencode(programs), tmp_path_factory.mktemp("opencode")) as desk:
        yield desk


@pytest.fixture
def desk(kept: Desk) -> Iterator[Desk]:
    kept.clear()
    yield kept
    kept.model.check()


def test_it_is_there(desk: Desk) -> None:
    found = desk.loop.run(desk.runner.available())
    assert (found.ok, found.version) == (True, wanted()["opencode-ai"])
    assert (desk.runner.name, desk.runner.family) == ("open-code", "mcp")


@pytest.mark.parametrize("access", ["edit", "read", "none"])
def test_an_answer_comes_with_its_price_and_its_session(desk: Desk, access: str) -> None:
    desk.model.play([Text("HELLO")], usage=USAGE)
    result = desk.ask(PROMPT, system="Be terse.", model="stand-in/main", access=access)
    assert (result.status, result.output, result.error, result.failure) == ("completed", "HELLO", None, None)
    assert (result.runtime, result.model, result.tokens) == ("open-code", "stand-in/main", ONE_CALL)
    assert result.session_id
    assert result.cost_usd == pytest.approx(ONE_COST)
    asked = desk.model.asked[0]
    assert asked.model == "main"
    assert PROMPT.strip() in asked.last_text
    assert "Be terse." in asked.system + asked.last_text
    assert desk.said() == "HELLO"
    assert desk.sessions == [result.session_id]


def test_tools_really_change_files(desk: Desk) -> None:
    path = desk.project / "a.txt"
    script: list[Reply] = [
        ToolUse("write", {"filePath": str(path), "content": "one\n"}, text="I write it."),
        ToolUse("bash", {"command": "cat a.txt; env", "description": "show"}),
        ToolUse("edit", {"filePath": str(path), "oldString": "one", "newString": "two"}),
        Text("DONE"),
    ]
    desk.model.play(script, usage=USAGE)
    result = desk.ask("write a.txt")
    assert (result.status, result.failure, result.error) == ("completed", None, None)
    assert result.output.endswith("DONE")
    assert path.read_text() == "two\n"
    assert result.files_modified == ("a.txt",)
    assert result.tokens == Tokens(input=4000, output=200, cache_read=800)
    assert result.cost_usd == pytest.approx(4 * ONE_COST)
    assert [one.text for one in desk.heard if one.kind == "tool"] == ["write", "bash", "edit"]
    environment = desk.model.asked[2].last_text
    assert environment.startswith("one")
    assert f"HOME={desk.home}" in environment
    assert SECRET not in environment


def test_what_only_reads_changes_nothing(desk: Desk) -> None:
    path = desk.project / "a.txt"
    desk.model.play([ToolUse("write", {"filePath": str(path), "content": "one\n"}), Text("I could not write it.")])
    result = desk.ask("write a.txt", access="read")
    assert not path.exists()
    assert (result.status, result.output, result.files_modified) == ("completed", "I could not write it.", ())
    assert not set(desk.model.asked[0].tools) & {"write", "edit", "patch", "bash", "task", "webfetch"}
    assert "read" in desk.model.asked[0].tools


def test_the_agent_authors_and_uses_composed_tools(desk: Desk) -> None:
    desk.authors_and_uses_a_tool()


@pytest.mark.parametrize(("status", "failure"), [(401, "auth"), (400, "task")])
def test_an_error_of_the_model_is_a_failure_of_its_kind(desk: Desk, status: int, failure: FailureKind) -> None:
    desk.model.play([Status(status, "no, says the test")])
    result = desk.ask("hi")
    assert (result.status, result.failure, result.cost_usd) == ("failed", failure, None)
    assert "no, says the test" in (result.error or "")


@pytest.mark.parametrize(("access", "failure"), [("edit", "rate_limit"), ("read", "silence")])
def test_a_rate_limit_does_not_hang(desk: Desk, access: str, failure: FailureKind) -> None:
    """opencode waits to try again; only its server, which runs what may edit, says so."""
    desk.model.play(lambda asked: Status(429, "Rate limit reached", {"retry-after": "60"}))
    result = desk.ask("hi", access=access, silence_s=8.0)
    assert (result.status, result.failure) == ("failed", failure)


def test_a_model_that_says_nothing_is_silence(desk: Desk) -> None:
    desk.model.play([Silence()])
    result = desk.ask("hi", silence_s=5.0)
    assert (result.status, result.failure) == ("failed", "silence")
    assert desk.model.asked[0].left.wait(10)


def test_an_interrupt_in_the_middle_of_an_answer_keeps_what_came(desk: Desk) -> None:
    desk.model.play([SlowStream(("part one ", "part two "), ends=False)])
    result = desk.ask_until(lambda: "part two" in desk.said(), desk.interrupt)
    assert (result.status, result.failure) == ("interrupted", "interrupted")
    assert "part one part two" in result.output
    assert result.session_id
    assert desk.model.asked[0].left.wait(10)


def test_nothing_that_the_agent_started_outlives_its_run(desk: Desk) -> None:
    desk.outlived_by_nothing("bash")


def test_an_interrupt_ends_one_run_and_not_another(desk: Desk) -> None:
    def script(asked: Asked) -> Reply:
        return Text("OTHER") if asked.last_text == "the other" else SlowStream(("part one ", "part two "), ends=False)

    async def both(run: asyncio.Task[RunResult], run_id: str) -> RunResult:
        other = await desk.runner.execute(desk.request("the other"), lambda progress: None)
        assert (other.status, other.output, run.done()) == ("completed", "OTHER", False)
        return await desk.interrupt(run, run_id)

    desk.model.play(script)
    result = desk.ask_until(lambda: "part two" in desk.said(), both)
    assert (result.status, result.output.strip()) == ("interrupted", "part one part two")


def test_a_server_that_dies_is_a_crash_and_the_next_run_has_another(desk: Desk) -> None:
    async def kill(run: asyncio.Task[RunResult], run_id: str) -> RunResult:
        for process in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):  # others come and go
                if "serve" in process.cmdline():
                    process.kill()
        return await run

    desk.model.play([SlowStream(("part one ", "part two "), ends=False), Text("HELLO")])
    result = desk.ask_until(lambda: "part two" in desk.said(), kill)
    assert (result.status, result.failure, result.output.strip()) == ("failed", "crash", "part one part two")
    after = desk.ask("again")
    assert (after.status, after.error, after.output) == ("completed", None, "HELLO")


@pytest.mark.parametrize("access", ["edit", "read"])
def test_a_session_goes_on_and_costs_only_what_is_new(desk: Desk, access: str) -> None:
    desk.model.play([Text("I will remember."), Text("It was 42.")], usage=USAGE)
    first = desk.ask("remember 42", access=access)
    second = desk.ask("what was it?", access=access, session_id=first.session_id)
    assert (first.status, second.status, second.output) == ("completed", "completed", "It was 42.")
    assert second.session_id == first.session_id
    assert desk.model.asked[1].said == ["remember 42", "I will remember.", "what was it?"]
    assert (first.tokens, second.tokens) == (ONE_CALL, ONE_CALL)
    assert first.cost_usd == second.cost_usd == pytest.approx(ONE_COST)


def test_a_session_that_is_not_there_is_a_failure(desk: Desk) -> None:
    result = desk.ask("go on", session_id="ses_000000000000000000000000")
    assert (result.status, result.failure) == ("failed", "task")
    assert "ses_000" in (result.error or "")


def test_a_limit_in_dollars_ends_it(desk: Desk) -> None:
    def script(asked: Asked) -> Reply:
        return ToolUse("bash", {"command": "true", "description": "spend"})

    desk.model.play(script, usage=Usage(input=100_000, output=1000))
    result = desk.ask("spend", max_usd=0.5)
    assert (result.status, result.failure) == ("failed", "budget")
    assert result.cost_usd is not None
    assert result.cost_usd > 0.5
    assert len(desk.model.asked) <= 3

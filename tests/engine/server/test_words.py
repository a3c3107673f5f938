"""What a model reads of the server: it names what the model has, which is tools, and no command that it can't give."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client, FastMCP
from fastmcp.tools.base import ToolResult

from go_ent.composer import Composer
from go_ent.composer.config import Config
from go_ent.composer.sources.mcp import McpSource
from go_ent.engine import Engine
from go_ent.engine.core.errors import ExecutionConflict
from go_ent.engine.executions.resume_checks import Changed, refuse
from go_ent.engine.server import make_server
from go_ent.engine.server.calls import callers
from go_ent.engine.server.calls.advice import in_tools
from go_ent.engine.server.calls.results import answering
from go_ent.sandbox import Sandbox
from tests.composer.conftest import tool
from tests.engine.server.test_calls import Slow, serve
from tests.support.serving import ERAS, Mode, say

DOUBLE = tool("double", 'def double(n: int) -> int:\n    """Twice as much."""\n    return 2 * n\n')
PAUSES = tool("pauses", 'async def pauses(n: int) -> int:\n    """Slow."""\n    return await tools.slow(n=n)\n')
NOBODYS = "01a1e585-0000-7000-8000-000000000000"


def no_commands(said: Any) -> str:
    text = said if isinstance(said, str) else json.dumps(said)
    assert "--" not in text, text
    assert "go-ent " not in text.replace(".go-ent", ""), text
    return text


async def interrupted(
    client: Client[Any], engine: Engine, slow: Slow, name: str, /, **arguments: Any
) -> tuple[str, Any]:
    """The id of a run that was stopped while a tool of it was at work, and what its caller was told."""
    slow.reached.clear()
    running = asyncio.create_task(say(client, name, **arguments))
    await slow.reached.wait()
    (row, *_) = await engine.executions()
    await say(client, "engine_interrupt", execution_id=row.id)
    failed, said = await running
    assert failed
    return row.id, said


def test_what_to_do_about_a_call_that_nobody_knows_of(project: Path, box: Sandbox) -> None:
    async def work(client: Client[Any], engine: Engine, slow: Slow) -> None:
        found, said = await interrupted(client, engine, slow, "code_execute", code="await tools.slow(n=1)")
        assert 'engine_resume with unfinished ["retry"] makes it again' in said["hint"]
        no_commands(said)
        failed, text = await say(client, "engine_resume", execution_id=found)
        assert failed
        assert 'engine_resume with unfinished ["retry"] makes it again' in no_commands(text)
        failed, text = await say(client, "engine_interrupt", execution_id=found)
        assert failed
        assert "it is interrupted; engine_resume goes on" in no_commands(text)
        slow.open.set()
        failed, said = await say(client, "engine_resume", execution_id=found, unfinished=["retry"])
        assert (failed, said["result"]) == (False, 10)

    serve(project, box, work)


def test_a_tool_that_has_changed_is_said_to_go_on_as_it_was(project: Path, box: Sandbox) -> None:
    async def work(client: Client[Any], engine: Engine, slow: Slow) -> None:
        await say(client, "tool_compose", source=PAUSES)
        found, _ = await interrupted(client, engine, slow, "pauses", n=1)
        await say(client, "tool_compose", source=PAUSES.replace("Slow.", "Slower."))
        slow.open.set()
        failed, run = await say(client, "engine_resume", execution_id=found, unfinished=["retry"])
        assert (failed, run["result"]) == (False, 10)
        assert run["changed"] == ["pauses was version 1, and is version 2: it continues with version 1"]

    serve(project, box, work)


@pytest.mark.parametrize(
    "name", ["engine_status", "engine_resume", "engine_interrupt", "engine_approve", "engine_summarize"]
)
def test_where_the_executions_are(project: Path, box: Sandbox, name: str) -> None:
    async def work(client: Client[Any], engine: Engine, slow: Slow) -> None:
        for given in ("mine", NOBODYS):
            failed, text = await say(client, name, execution_id=given)
            assert failed
            assert no_commands(text).endswith("engine_status lists those there are")

    serve(project, box, work)


def test_a_command_that_is_not_there_is_no_invitation_to_name_a_program(project: Path, box: Sandbox) -> None:
    async def work(client: Client[Any], engine: Engine, slow: Slow) -> None:
        failed, text = await say(client, "engine_execute", command="ls")
        assert (failed, text) == (True, "there is no command ls in the configuration; there are: none")

    serve(project, box, work)


def test_what_to_do_where_something_has_changed_that_may_not_matter(project: Path, box: Sandbox) -> None:
    async def work(client: Client[Any], engine: Engine, slow: Slow) -> None:
        found, _ = await interrupted(client, engine, slow, "code_execute", code="await tools.slow(n=1)")
        with pytest.raises(ExecutionConflict, match="anyway=True") as refused:
            refuse(await engine.status(found), [Changed("slow is not granted any more", "refused")], anyway=False)
        assert no_commands(refused.value.told(in_tools)).endswith("engine_resume with anyway true continues anyway")

    serve(project, box, work)


@pytest.mark.parametrize("mode", ERAS)
async def test_a_tool_that_the_server_does_not_have(project: Path, box: Sandbox, mode: Mode) -> None:
    upstream = FastMCP("up")

    @upstream.tool
    def add(a: int, b: int) -> int:
        return a + b

    composer = Composer(
        project, config=Config(allow=("up.*",)), sources=[McpSource.from_server("up", upstream)], box=box
    )
    async with (
        composer,
        Engine(project, composer=composer) as engine,
        Client(make_server(composer, engine), mode=mode) as client,
    ):
        await say(client, "tool_compose", source=DOUBLE)
        for name, expected in (
            ("up.add", "up.add is called by code: code_execute with `await tools.up.add(...)`"),
            ("tools.up.add", "up.add is called by code: code_execute with `await tools.up.add(...)`"),
            ("doubles", "there is no tool doubles; did you mean double?"),
            ("code_exec", "there is no tool code_exec; did you mean code_execute?"),
            (
                "up.sub",
                "there is no tool up.sub; tool_search finds those that code may call, tool_list the composed ones",
            ),
        ):
            assert await say(client, name, a=1, b=2) == (True, expected)
        callers.become(callers.Caller("narrow", allow=()))
        try:
            for name in ("up.add", "doubles"):
                _, text = await say(client, name, a=1, b=2)
                assert text.startswith(f"there is no tool {name}; tool_search finds"), text
        finally:
            callers.become(callers.LOCAL)


def test_a_session_is_called_what_its_client_calls_it(project: Path, box: Sandbox) -> None:
    async def work(client: Client[Any], engine: Engine, slow: Slow) -> None:
        for caller in (callers.LOCAL, callers.Caller("ci", allow=())):
            callers.become(caller)
            try:
                failed, text = await say(client, "code_execute", code="1", session="A b")
                assert (failed, str(text).partition(":")[0]) == (True, "'A b' can't be the name of a session")
                assert (await say(client, "code_execute", code="x = 4", session="s" * 64))[0] is False
                assert (await say(client, "code_execute", code="x", session="s" * 64))[1]["result"] == 4
            finally:
                callers.become(callers.LOCAL)

    serve(project, box, work)


@pytest.mark.parametrize(
    ("caller", "told"), [(callers.LOCAL, True), (callers.Caller("ci"), False)], ids=["user", "client"]
)
async def test_what_goes_wrong_inside_is_told_to_the_projects_user_alone(
    caller: callers.Caller, told: bool, caplog: pytest.LogCaptureFixture
) -> None:
    server = FastMCP("of the test")

    @server.tool
    @answering()
    async def breaks() -> ToolResult:
        raise RuntimeError("hush-4711")

    callers.become(caller)
    async with Client(server) as client:
        failed, text = await say(client, "breaks")
        assert failed
        text = str(text)
    assert ("hush-4711" in text) is told
    assert "hush-4711" in caplog.text or told
    assert ("breaks failed inside the server" in text) is not told


@pytest.mark.parametrize("mode", ERAS)
async def test_a_search_that_finds_nothing_says_what_there_is_to_do(project: Path, box: Sandbox, mode: Mode) -> None:
    async with (
        Composer(project, box=box) as composer,
        Engine(project, composer=composer) as engine,
        Client(make_server(composer, engine), mode=mode) as client,
    ):
        assert "code_execute runs plain Python" in (await say(client, "tool_search"))[1]["text"]
        assert "fewer words find more" in (await say(client, "tool_search", words="send a letter"))[1]["text"]
        assert "fewer words find more" in (await say(client, "tool_search", namespace="post"))[1]["text"]


def test_a_client_goes_back_to_a_checkpoint_only_if_it_says_so_of_what_is_made_again(
    project: Path, box: Sandbox
) -> None:
    async def work(client: Client[Any], engine: Engine, slow: Slow) -> None:
        slow.open.set()
        _, run = await say(client, "code_execute", code="checkpoint('here')\nawait tools.slow(n=4)")
        found = run["execution_id"]
        _, status = await say(client, "engine_status", execution_id=found)
        (mark,) = status["checkpoints"]
        failed, text = await say(client, "engine_resume", execution_id=found, from_checkpoint="here")
        assert failed
        assert 'slow with {"n": 4}, was made after checkpoint here, and may be made again' in text
        assert "engine_resume with anyway true" in no_commands(text)
        failed, again = await say(
            client, "engine_resume", execution_id=found, from_checkpoint=str(mark["number"]), anyway=True
        )
        assert (failed, again["result"]) == (False, run["result"])

    serve(project, box, work)

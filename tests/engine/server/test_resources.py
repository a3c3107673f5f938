"""Resources and prompts over MCP, in both protocol eras: stubs, executions, their logs, and how to author a tool."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Literal

import pytest
from fastmcp import Client
from mcp.shared.exceptions import MCPError

from go_ent.composer import Composer
from go_ent.engine import Engine
from go_ent.engine.server import make_server
from go_ent.engine.server.calls import callers
from go_ent.engine.server.tools import authoring_prompt, resources
from go_ent.sandbox import Sandbox
from tests.engine.server.test_server import say
from tests.support.scripted import engine_of
from tests.support.serving import ERAS

Mode = Literal["auto", "legacy"]


@pytest.fixture(params=ERAS)
def mode(request: pytest.FixtureRequest) -> Mode:
    chosen: Mode = request.param
    return chosen


def search(q: str, top: int = 3) -> list[str]:
    """Find texts."""
    return [f"{q} {index}" for index in range(top)]


def serve(
    project: Path, box: Sandbox, work: Callable[[Client[Any], Engine], Awaitable[None]], mode: Mode, *tools: Any
) -> None:
    async def main() -> None:
        async with Composer(project, tools=[search, *tools], box=box) as composer:
            engine = engine_of(project, mode="mcp", composer=composer)
            async with engine, Client(make_server(composer, engine), mode=mode) as client:
                await work(client, engine)

    asyncio.run(main())


async def read(client: Client[Any], uri: str) -> str:
    (found,) = await client.read_resource(uri)
    text = getattr(found, "text", None)
    assert isinstance(text, str)
    return text


def test_what_there_is_is_listed(project: Path, box: Sandbox, mode: Mode) -> None:
    async def work(client: Client[Any], engine: Engine) -> None:
        assert {str(one.uri) for one in await client.list_resources()} == {"go-ent://stubs", "go-ent://executions"}
        templates = {one.uri_template for one in await client.list_resource_templates()}
        assert templates == {
            "go-ent://stubs/{namespace}",
            "go-ent://executions/{execution_id}/log",
            "go-ent://executions/{execution_id}/files",
            "go-ent://executions/{execution_id}/files/{name*}",
        }
        (prompt,) = await client.list_prompts()
        assert (prompt.name, [one.name for one in prompt.arguments or []]) == ("author_composed_tool", ["task"])

    serve(project, box, work, mode)


def test_stubs_of_the_granted_tools(project: Path, box: Sandbox, mode: Mode) -> None:
    async def work(client: Client[Any], engine: Engine) -> None:
        assert "async def search(self, q: str, top: int = 3) -> list[str]:" in await read(client, "go-ent://stubs")
        assert "# no tool of nope is granted here" in await read(client, "go-ent://stubs/nope")

        async def as_client() -> None:
            callers.become(callers.Caller("ci", allow=()))
            async with Client(make_server(engine.open_composer(), engine), mode=mode) as other:
                assert await read(other, "go-ent://stubs") == "# no tool is granted here\n"

        await asyncio.create_task(as_client())

    serve(project, box, work, mode)


def test_many_stubs_become_signatures_and_then_a_number(
    project: Path, box: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resources, "MAX_STUBS", 300)

    def named(name: str) -> Any:
        def tool(q: str) -> str:
            """Do something that takes long to be told, again and again."""
            return q

        tool.__name__ = name
        return tool

    async def work(client: Client[Any], engine: Engine) -> None:
        text = await read(client, "go-ent://stubs")
        assert "tool_schema has them by name" in text
        assert "# extra_0(q: str) -> str" in text
        assert "more: tool_search finds them" in text
        assert len(text) < 600

    serve(project, box, work, "auto", *[named(f"extra_{n}") for n in range(9)])


def test_executions_and_their_logs(project: Path, box: Sandbox, mode: Mode) -> None:
    async def work(client: Client[Any], engine: Engine) -> None:
        _, said = await say(client, "code_execute", code="await tools.search(q='a\\x1b[2J')")
        (row,) = json.loads(await read(client, "go-ent://executions"))
        assert (row["execution_id"], row["status"], row["kind"]) == (said["execution_id"], "completed", "code")
        log = await read(client, f"go-ent://executions/{said['execution_id']}/log")
        kinds = [line.split()[1] for line in log.splitlines()]
        assert kinds[:3] == ["created", "guest", "call"]
        assert kinds[-1] == "status"
        assert '"tool": "search"' in log
        assert "\x1b" not in log
        for uri in (
            "go-ent://executions/01a1e585-0000-7000-8000-000000000000/log",
            "go-ent://executions/..%2F..%2Fx/log",
        ):
            with pytest.raises(MCPError):
                await client.read_resource(uri)

        async def as_client() -> None:
            callers.become(callers.Caller("ci", allow=("*",)))
            async with Client(make_server(engine.open_composer(), engine), mode=mode) as other:
                assert json.loads(await read(other, "go-ent://executions")) == []
                with pytest.raises(MCPError, match="there is no execution"):
                    await other.read_resource(f"go-ent://executions/{said['execution_id']}/log")

        await asyncio.create_task(as_client())

    serve(project, box, work, mode)


def test_a_log_is_bounded(project: Path, box: Sandbox) -> None:
    async def work(client: Client[Any], engine: Engine) -> None:
        code = "for n in range(200):\n    await tools.search(q='x' * 1000)"
        _, said = await say(client, "code_execute", code=code)
        lines = (await read(client, f"go-ent://executions/{said['execution_id']}/log")).splitlines()
        assert len(lines) == resources.MOST_LINES + 1
        assert lines[0].endswith(f"earlier records: go-ent logs {said['execution_id']}")
        assert max(map(len, lines)) == resources.MAX_LINE

    serve(project, box, work, "auto")


def test_the_prompt_has_all_that_is_needed_to_author_a_tool(project: Path, box: Sandbox, mode: Mode) -> None:
    async def work(client: Client[Any], engine: Engine) -> None:
        prompt = await client.get_prompt("author_composed_tool", {"task": "count {words} of a page"})
        (message,) = prompt.messages
        text = getattr(message.content, "text", "")
        assert (message.role, "count {words} of a page" in text) == ("user", True)
        assert "async def search(self, q: str, top: int = 3) -> list[str]:" in text
        assert authoring_prompt.EXAMPLE in text
        example = text.partition("```python\n")[2].partition("```")[0]
        failed, said = await say(client, "tool_compose", source=example)
        assert (failed, said) == (False, {"name": "count_words", "version": 1, "created": True, "examples": 2})

    serve(project, box, work, mode)

"""Tools of servers by their names, over MCP and in the library; and tools that are not granted, in a search."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client

from go_ent.composer import BlockingComposer, CallError, Composer, NotGranted, ToolNotFound
from go_ent.composer.config import Config
from go_ent.engine import Engine
from go_ent.engine.server import make_server
from go_ent.engine.server.calls import callers
from go_ent.sandbox import Sandbox
from tests.composer.conftest import DOUBLE
from tests.support.file_server import FileServer, tool
from tests.support.serving import say

TEXT = {"type": "string"}
WIPE = {**tool("wipe"), "annotations": {"destructiveHint": True}}


@pytest.fixture
async def composer(tmp_path: Path, project: Path, box: Sandbox) -> AsyncIterator[Composer]:
    server = FileServer(tmp_path, tool("find", "Finds a text.", q=TEXT), tool("hidden", "Finds no text."), WIPE)
    config = Config(allow=("texts.find", "texts.wipe"), servers={"texts": server.config()})
    async with Composer(project, config=config, box=box, trusted=True, tools={"add": lambda a, b: a + b}) as made:
        yield made


@pytest.fixture
async def client(composer: Composer) -> AsyncIterator[Client[Any]]:
    async with Engine(composer.project, composer=composer) as engine, Client(make_server(composer, engine)) as client:
        yield client


async def test_tool_run_runs_any_granted_tool(client: Client[Any]) -> None:
    await say(client, "tool_compose", source=DOUBLE)
    assert (await say(client, "tool_run", name="double", inputs={"n": 2}))[1]["result"] == 4
    assert (await say(client, "tool_run", name="texts.find", inputs={"q": "a"}))[1]["result"] == {"q": "a"}
    assert (await say(client, "tool_run", name="add", inputs={"a": 1, "b": 2}))[1]["result"] == 3
    failed, said = await say(client, "tool_run", name="texts.find", inputs={})
    assert failed
    assert "its arguments do not fit: q is required" in str(said)
    failed, said = await say(client, "tool_run", name="texts.hidden")
    assert failed
    assert "texts.hidden is not granted here" in str(said)
    assert (await say(client, "tool_run", name="texts.nothing"))[0]


async def test_a_client_with_a_token_runs_what_its_token_names(client: Client[Any]) -> None:
    callers.become(callers.Caller("ci", allow=("add",)))
    try:
        assert (await say(client, "tool_run", name="add", inputs={"a": 1, "b": 2}))[1]["result"] == 3
        failed, said = await say(client, "tool_run", name="texts.find", inputs={"q": "a"})
        assert failed
        assert "texts.find is not granted here" in str(said)
    finally:
        callers.become(callers.LOCAL)


async def test_a_search_marks_what_is_not_granted_and_hides_it_from_a_token(client: Client[Any]) -> None:
    await say(client, "tool_run", name="texts.find", inputs={"q": "a"})
    found = (await say(client, "tool_search", words="text"))[1]["text"]
    granted, _, others = found.partition("\nnot granted (a person can add them to [grants] allow in ")
    assert "texts.find(q: str)" in granted
    assert "texts.hidden()" in others
    callers.become(callers.Caller("ci", allow=("texts.find",)))
    try:
        assert "hidden" not in (await say(client, "tool_search", words="text"))[1]["text"]
        assert "hidden" not in (await say(client, "tool_search"))[1]["text"]
    finally:
        callers.become(callers.LOCAL)


async def test_the_library_calls_any_granted_tool(composer: Composer) -> None:
    await composer.compose(DOUBLE)
    assert await composer.call("double", n=2) == 4
    assert await composer.call("texts.find", q="a") == {"q": "a"}
    assert await composer.call("add", a=1, b=2) == 3
    with pytest.raises(NotGranted):
        await composer.call("texts.hidden")
    with pytest.raises(ToolNotFound, match=r"did you mean texts\.find\?"):
        await composer.call("texts.fnd")
    with pytest.raises(ToolNotFound, match="there is no composed tool doubel; did you mean double"):
        await composer.call("doubel")
    with pytest.raises(CallError, match=r"texts\.wipe was not called: this tool says that it is destructive"):
        await composer.call("texts.wipe")


def test_so_does_a_program_that_does_not_await(tmp_path: Path, project: Path) -> None:
    server = FileServer(tmp_path, tool("find", q=TEXT))
    config = Config(allow=("texts.*",), servers={"texts": server.config()})
    with BlockingComposer(project, config=config, trusted=True) as tools:
        assert tools.call("texts.find", q="a") == {"q": "a"}

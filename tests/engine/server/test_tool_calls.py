"""The way of a call of a tool: ours go past fastmcp's own, and answer on the wire as they would by it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client, FastMCP
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from mcp_types import CallToolRequestParams

from go_ent.composer import Composer
from go_ent.engine import Engine
from go_ent.engine.adapters.fastmcp_adapter import take_over
from go_ent.engine.server import make_server
from go_ent.engine.server.calls.tool_calls import ToolCalls
from go_ent.engine.server.tools.named import NamedTools
from go_ent.sandbox import Sandbox
from tests.composer.conftest import tool
from tests.support.serving import ERAS, Mode

DOUBLE = tool("double", 'def double(n: int) -> int:\n    """Twice as much."""\n    return 2 * n\n')
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("tool_list", {}),
    ("tool_schema", {"names": ["double"]}),
    ("tool_schema", {"names": []}),
    ("tool_search", {"words": "nothing like it", "limit": "many"}),
    ("code_execute", {"code": "print('x')\n[None, {'a': None}]"}),
    ("code_execute", {"code": "1 / 0"}),
    ("double", {"n": 2}),
    ("double", {"n": "two"}),
    ("code_execute", {"code": "1", "limits": {"timeout_s": -1}}),
]


EACH_TIME = {"execution_id", "usage", "calls", "text"}


class Seen(Middleware):
    """What fastmcp's own way has seen."""

    def __init__(self) -> None:
        self.names: list[str] = []

    async def on_call_tool(
        self, context: MiddlewareContext[CallToolRequestParams], call_next: CallNext[CallToolRequestParams, Any]
    ) -> Any:
        self.names.append(context.message.name)
        return await call_next(context)


@asynccontextmanager
async def served(project: Path, box: Sandbox) -> AsyncIterator[FastMCP]:
    async with Composer(project, box=box) as composer, Engine(project, composer=composer) as engine:
        await composer.compose(DOUBLE)
        yield make_server(composer, engine)


def steady(message: Any) -> Any:
    """An answer without what is another each time, and without words."""
    if isinstance(message, dict):
        return {key: steady(value) for key, value in message.items() if key not in EACH_TIME}
    return [steady(one) for one in message] if isinstance(message, list) else message


@pytest.mark.parametrize("mode", ERAS)
async def test_our_tools_answer_as_they_would_in_fastmcps_way(project: Path, box: Sandbox, mode: Mode) -> None:
    answers: list[list[Any]] = []
    async with served(project, box) as server:
        for ours in (True, False):
            if not ours:
                calls = take_over(server, "tools/call", CallToolRequestParams, lambda *_: None).__self__  # type: ignore[attr-defined,arg-type]
                assert isinstance(calls, ToolCalls)
                assert calls.otherwise is not None
                take_over(server, "tools/call", CallToolRequestParams, calls.otherwise)
            async with Client(server, mode=mode) as client:
                made = [await client.call_tool_mcp(name, arguments) for name, arguments in CALLS]
            answers.append([steady(one.model_dump(mode="json", by_alias=True)) for one in made])
    for (name, arguments), ours_, theirs in zip(CALLS, *answers, strict=True):
        assert ours_ == theirs, (name, arguments)


async def test_a_tool_that_a_program_adds_goes_fastmcps_way_and_ours_do_not(project: Path, box: Sandbox) -> None:
    seen = Seen()
    async with served(project, box) as server:
        server.add_middleware(seen)

        @server.tool
        def noop() -> int:
            return 2

        async with Client(server) as client:
            for _ in range(2):
                assert (await client.call_tool("noop")).data == 2
                assert (await client.call_tool("double", {"n": 2})).data == 4
            assert not (await client.call_tool("tool_list")).is_error
    assert seen.names == ["noop", "noop"]


async def test_a_tool_that_breaks_is_an_error_of_the_call(
    project: Path, box: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(self: NamedTools, name: str) -> Any:
        class Broken:
            async def run(self, arguments: dict[str, Any]) -> None:
                raise RuntimeError("a wire is loose")

        return Broken() if name == "double" else None

    monkeypatch.setattr(NamedTools, "find", broken)
    async with served(project, box) as server, Client(server) as client:
        answer = await client.call_tool("double", {"n": 2}, raise_on_error=False)
        assert answer.is_error
        assert answer.content[0].text == "Error calling tool 'double': a wire is loose"
        assert not (await client.call_tool("tool_list")).is_error

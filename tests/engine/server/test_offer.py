"""What a client finds listed: profiles, and the granted tools in the description of `code_execute`."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastmcp import Client

from go_ent.composer import Composer
from go_ent.composer.catalogue.grants import Grants
from go_ent.composer.config import Config
from go_ent.composer.sources.functions import FunctionSource
from go_ent.engine import Engine
from go_ent.engine.core.config import EngineConfig, Profile, ServeConfig
from go_ent.engine.server import make_server
from go_ent.engine.tokens import count
from go_ent.sandbox import Sandbox
from tests.composer.conftest import tool
from tests.support.shell import go_ent

DOUBLE = tool("double", 'def double(n: int) -> int:\n    """Twice as much."""\n    return 2 * n\n')


def order(order_id: str, deep: bool = False) -> dict[str, int]:
    """Get one order: its state and total."""
    return {"total": len(order_id) + deep}


@asynccontextmanager
async def served(
    project: Path, box: Sandbox, profile: Profile = "code", allow: tuple[str, ...] = ("desk.*",), **serve: Any
) -> AsyncIterator[tuple[Client[Any], Composer]]:
    source = FunctionSource([order], "desk")
    composer = Composer(project, config=Config(allow=allow), sources=[source], box=box, trusted=True)
    config = EngineConfig(serve=ServeConfig(**serve))
    async with (
        composer,
        Engine(project, config=config, composer=composer, trusted=True) as engine,
        Client(make_server(composer, engine, profile=profile)) as client,
    ):
        yield client, composer


def tokens_of(listed: list[Any]) -> int:
    """What definitions cost, as clients send them to models."""
    told = [{"name": one.name, "description": one.description, "input_schema": one.input_schema} for one in listed]
    return count(json.dumps(told, separators=(",", ":")))


async def described(client: Client[Any]) -> str:
    (code,) = [one for one in await client.list_tools() if one.name == "code_execute"]
    return code.description or ""


class TestProfiles:
    async def test_code_lists_three_tools_and_the_composed_ones_in_few_tokens(
        self, project: Path, box: Sandbox
    ) -> None:
        async with served(project, box, allow=()) as (client, composer):
            listed = await client.list_tools()
            assert {one.name for one in listed} == {"tool_search", "code_execute", "tool_compose"}
            assert tokens_of(listed) <= 600
            await composer.compose(DOUBLE)
            assert "double" in {one.name for one in await client.list_tools()}

    async def test_what_is_not_listed_can_be_called(self, project: Path, box: Sandbox) -> None:
        async with served(project, box) as (client, _):
            answer = await client.call_tool("engine_budget", {})
            assert not answer.is_error

    async def test_engine_lists_the_engines_own(self, project: Path, box: Sandbox) -> None:
        async with served(project, box, "engine") as (client, _):
            names = {one.name for one in await client.list_tools()}
            assert "engine_execute" in names
            assert all(name.startswith("engine_") for name in names)

    async def test_full_lists_all(self, project: Path, box: Sandbox) -> None:
        async with served(project, box, "full", allow=()) as (client, _):
            listed = await client.list_tools()
            assert {"code_execute", "tool_schema", "engine_execute"} <= {one.name for one in listed}
            assert tokens_of(listed) <= 1900


class TestDescriptions:
    async def test_tools_that_fit_are_described_with_what_they_return(self, project: Path, box: Sandbox) -> None:
        async with served(project, box) as (client, _):
            said = await described(client)
            assert "desk.order(order_id: str, deep: bool = False) -> dict[str, int]  # Get one order" in said

    async def test_they_follow_the_language_of_the_server(self, project: Path, box: Sandbox) -> None:
        async with served(project, box, language="typescript") as (client, _):
            said = await described(client)
            assert (
                "desk.order({ order_id: string; deep?: boolean }): { [key: string]: number }  // Get one order" in said
            )
            code = {"code": "const made: any = await tools.desk.order({ order_id: 'abc' });\nmade.total"}
            answer = await client.call_tool("code_execute", code)
            assert answer.structured_content is not None
            assert answer.structured_content["result"] == 3
            schema = await client.call_tool("tool_schema", {"names": ["desk.order"]})
            assert schema.structured_content is not None
            assert "declare const tools: {\n  desk: {" in schema.structured_content["text"]
            asked = {"words": "order", "language": "python", "detail": "stubs"}
            found = await client.call_tool("tool_search", asked)
            assert found.structured_content is not None
            assert "class desk(Protocol)" in found.structured_content["text"]

    async def test_a_tool_is_saved_in_the_language_that_is_said(self, project: Path, box: Sandbox) -> None:
        source = '// /// tool\n// name = "thrice"\n// ///\n/** Three times n.\n * @param {number} n\n'
        source += " * @returns {number} */\nexport const thrice = (n) => 3 * n;\n"
        async with served(project, box) as (client, composer):
            await client.call_tool("tool_compose", {"source": source, "language": "javascript"})
            assert (await composer.composed.get("thrice")).language == "javascript"
            assert "thrice" in {one.name for one in await client.list_tools()}
            answer = await client.call_tool("thrice", {"n": 5})
            assert answer.structured_content is not None
            assert answer.structured_content["result"] == 15

    async def test_the_code_that_they_suggest_runs(self, project: Path, box: Sandbox) -> None:
        async with served(project, box) as (client, _):
            code = "(await tools.desk.order(order_id='abc'))['total']"
            answer = await client.call_tool("code_execute", {"code": code})
            assert answer.structured_content is not None
            assert answer.structured_content["result"] == 3

    async def test_tools_that_do_not_fit_are_counted_by_namespace(self, project: Path, box: Sandbox) -> None:
        async with served(project, box, inline_tokens=10) as (client, _):
            said = await described(client)
            assert "desk (1)" in said
            assert "desk.order(" not in said
            found = await client.call_tool("tool_search", {"words": "order"})
            assert found.structured_content is not None
            assert "desk.order(order_id: str" in found.structured_content["text"]

    async def test_what_a_listed_composed_tool_calls_is_only_named(self, project: Path, box: Sandbox) -> None:
        """So that a composed tool is not dearer than the code that it replaces."""
        body = 'async def total(order_id: str) -> int:\n    """What an order costs."""\n'
        body += '    return (await tools.desk.order(order_id=order_id))["total"]\n'
        async with served(project, box) as (client, _):
            assert "desk.order(order_id: str" in await described(client)
            await client.call_tool("tool_compose", {"source": tool("total", body)})
            said = await described(client)
            assert "desk.order(" not in said
            assert said.endswith("Also (tool_search shows them): desk.order")
            await client.call_tool("tool_delete", {"name": "total"})
            assert "desk.order(order_id: str" in await described(client)

    async def test_they_follow_the_grants(self, project: Path, box: Sandbox) -> None:
        async with served(project, box) as (client, composer):
            assert "desk.order(" in await described(client)
            composer.grants = composer.code.grants = composer.catalogue.project_grants = Grants([])
            assert "desk" not in await described(client)

    async def test_an_answer_has_no_field_that_says_nothing(self, project: Path, box: Sandbox) -> None:
        async with served(project, box) as (client, _):
            answer = await client.call_tool("code_execute", {"code": "1 + 1"})
            assert answer.structured_content is not None
            assert set(answer.structured_content) == {"execution_id", "status", "result"}


def test_the_command_takes_a_profile() -> None:
    assert b"--profile" in go_ent("serve", "--help").stdout
    assert go_ent("serve", "--profile", "nothing").returncode == 2

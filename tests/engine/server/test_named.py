"""Composed tools as MCP tools under their own names."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import jsonschema  # type: ignore[import-untyped]
import pytest
from fastmcp import Client
from mcp_types import CallToolResult, Tool

from go_ent.composer import Composer, Config
from go_ent.composer.catalogue.spec import CallContext, Hints, ToolSpec
from go_ent.composer.composed import toolfile
from go_ent.engine import Engine
from go_ent.engine.server import make_server
from go_ent.engine.server.calls.callers import LOCAL, Caller, become
from go_ent.engine.server.tools.definitions import effects
from go_ent.engine.tokens import count
from go_ent.sandbox import Sandbox
from tests.support.serving import ERAS

RUN = "go-ent/run"


def tool(
    name: str,
    signature: str = "(q: str) -> int",
    body: str = "return len(q)",
    text: str = "How long it is.",
    before: str = "",
) -> str:
    """The source of a composed tool."""
    return f'# /// tool\n# name = "{name}"\n# ///\n{before}async def {name}{signature}:\n    """{text}"""\n    {body}\n'


def plant(project: Path, source: str) -> None:
    """Save a tool as its first version without a composer, which would sync every file."""
    file = toolfile.read(source)
    current = project / ".go-ent" / "composed-tools" / f"{file.name}.py"
    version = current.parent / ".history" / file.name / f"000001-{file.digest[:16]}.py"
    version.parent.mkdir(parents=True)
    for path in (version, current):
        path.write_text(file.with_version(1).source)


@asynccontextmanager
async def serving(
    project: Path, box: Sandbox, *, mode: Literal["auto", "legacy"] = "auto", **options: Any
) -> AsyncIterator[tuple[Client[Any], Composer, Engine]]:
    async with (
        Composer(project, box=box, **options) as composer,
        Engine(project, composer=composer) as engine,
        Client(make_server(composer, engine), mode=mode) as client,
    ):
        yield client, composer, engine


async def call(client: Client[Any], name: str, /, **arguments: Any) -> CallToolResult:
    return await client.call_tool_mcp(name, arguments)


async def listed(client: Client[Any]) -> dict[str, Tool]:
    return {one.name: one for one in await client.list_tools()}


def said(result: CallToolResult) -> str:
    return "".join(getattr(block, "text", "") for block in result.content)


@pytest.mark.parametrize("mode", ERAS)
async def test_a_composed_tool_is_a_tool_like_any_other(
    project: Path, box: Sandbox, mode: Literal["auto", "legacy"]
) -> None:
    async with serving(project, box, mode=mode) as (client, _, engine):
        await call(client, "tool_compose", source=tool("measure"))
        shown = (await listed(client))["measure"]
        assert shown.description == "How long it is."
        assert shown.input_schema == {
            "type": "object",
            "properties": {"q": {"type": "string"}},
            "required": ["q"],
        }
        assert shown.output_schema is not None
        assert shown.output_schema["properties"] == {"result": {"type": "integer"}}
        assert shown.annotations is not None
        assert (shown.annotations.read_only_hint, shown.annotations.destructive_hint) == (True, False)
        result = await client.call_tool("measure", {"q": "four"})
        assert (result.structured_content, result.data, result.is_error) == ({"result": 4}, 4, False)
        assert result.meta is not None
        state = await engine.status(result.meta[RUN]["execution_id"])
        assert (state.kind, state.title, state.status) == ("tool", "tool: measure", "completed")


@pytest.mark.parametrize(
    ("returns", "value", "wrapped"),
    [
        ("dict[str, int]", {"a": 1}, False),
        ("list[str]", ["a"], True),
        ("str", "a text", True),
        ("None", None, True),
        ("float | None", 1.5, True),
        ("Point", {"x": 1}, False),
        ("Point | None", {"x": 1}, True),
        ("Tree", {"kids": [{"kids": []}]}, False),
        ("list[Tree]", [{"kids": []}], True),
    ],
)
async def test_what_is_no_object_comes_as_a_result_member(
    project: Path, box: Sandbox, returns: str, value: Any, wrapped: bool
) -> None:
    before = (
        "from typing import TypedDict\nclass Point(TypedDict):\n    x: int\nclass Tree(TypedDict):\n    kids: "
        '"list[Tree]"\n'
    )

    async with serving(project, box) as (client, _, _):
        await call(client, "tool_compose", source=tool("give", f"() -> {returns}", f"return {value!r}", before=before))
        shown = (await listed(client))["give"].output_schema
        assert shown is not None
        assert shown["type"] == "object"
        assert shown.get("x-fastmcp-wrap-result", False) is wrapped
        result = await client.call_tool("give", {})
        assert result.structured_content == ({"result": value} if wrapped else value)
        jsonschema.validate(result.structured_content, shown)


@pytest.mark.parametrize("mode", ERAS)
async def test_a_failure_is_an_error_that_names_its_execution(
    project: Path, box: Sandbox, mode: Literal["auto", "legacy"]
) -> None:
    async with serving(project, box, mode=mode) as (client, _, engine):
        await call(client, "tool_compose", source=tool("measure", body='raise ValueError("no " + q)'))
        for arguments, expected in (({"q": "luck"}, "ValueError: no luck"), ({}, "q is required\nmeasure(q: str)")):
            result = await call(client, "measure", **arguments)
            assert (result.is_error, result.structured_content) == (True, None)
            told = json.loads(said(result))
            assert expected in told["error"]
            assert result.meta is not None
            assert told["execution_id"] == result.meta[RUN]["execution_id"]
            assert (await engine.status(told["execution_id"])).status == "failed"


async def test_a_tool_that_needs_approval_says_who_decides(project: Path, box: Sandbox) -> None:
    async with serving(project, box, config=Config(approve=("measure",))) as (client, _, engine):
        await call(client, "tool_compose", source=tool("measure"))
        result = await call(client, "measure", q="four")
        told = json.loads(said(result))
        assert (result.is_error, told["status"]) == (True, "paused")
        assert f"go-ent approve {told['execution_id'][-8:]};" in told["hint"]
        await engine.decide(told["execution_id"], None, approved=True)
        run, _ = await engine.resume_run(told["execution_id"])
        assert run.result == 4


@pytest.mark.parametrize("mode", ERAS)
async def test_a_client_that_can_ask_its_user_is_answered_in_the_same_call(
    project: Path, box: Sandbox, mode: Literal["auto", "legacy"]
) -> None:
    asked: list[str] = []

    async def yes(message: str, *_: Any) -> dict[str, Any]:
        asked.append(message)
        return {"approve": True}

    async with (
        Composer(project, box=box, config=Config(approve=("measure",))) as composer,
        Engine(project, composer=composer) as engine,
        Client(make_server(composer, engine), mode=mode, elicitation_handler=yes) as client,
    ):
        await call(client, "tool_compose", source=tool("measure"))
        assert (await client.call_tool("measure", {"q": "four"})).data == 4
        assert ["May measure be called?" in question for question in asked] == [True]


async def test_a_result_that_is_too_long_is_not_passed_off_as_the_whole(project: Path, box: Sandbox) -> None:
    async with serving(project, box) as (client, _, _):
        await call(client, "tool_compose", source=tool("many", "() -> list[int]", "return list(range(50_000))"))
        result = await call(client, "many")
        assert (result.is_error, result.structured_content) == (True, None)
        assert said(result).startswith("It ran to its end: don't run it again")
        assert "tools.results.read" in said(result)
        await call(client, "tool_compose", source=tool("long", "() -> str", 'return "x" * 200_000'))
        result = await call(client, "long")
        assert (result.is_error, "tools.results.read" in said(result)) == (False, True)
        assert len(said(result)) < 45_000


async def test_only_so_many_are_listed_and_all_can_be_called(project: Path, box: Sandbox) -> None:
    for number in range(200):
        plant(project, tool(f"nr_{number:03}", body=f"return {number}"))
    async with serving(project, box) as (client, composer, _):
        composer.usage["project"].set("nr_150", 40, 1.0)
        await call(client, "tool_compose", source=tool("newest"))
        tools = list((await listed(client)).values())
        own = [one for one in tools if one.name == "newest" or one.name.startswith("nr_")]
        assert len(own) == 30
        assert [one.name for one in own[:2]] == ["newest", "nr_150"]
        definitions = [
            {"name": one.name, "description": one.description, "input_schema": one.input_schema} for one in own
        ]
        assert count(json.dumps(definitions, separators=(",", ":"))) < 2_000
        unlisted = next(
            f"nr_{number:03}" for number in range(200) if f"nr_{number:03}" not in {one.name for one in own}
        )
        assert (await client.call_tool(unlisted, {"q": "x"})).data == int(unlisted[3:])
        assert unlisted in said(await call(client, "tool_search", words=unlisted))
        again = [one.name for one in await client.list_tools()]
        assert again == [one.name for one in tools], "a use changes nothing"


async def test_how_many_are_listed_is_the_projects_to_say(project: Path, box: Sandbox) -> None:
    (project / ".go-ent" / "config.toml").write_text("[serve]\nlisted = 1\n")

    async with serving(project, box) as (client, _, _):
        for name in ("first", "second"):
            await call(client, "tool_compose", source=tool(name))
        assert {"first", "second"} & set(await listed(client)) == {"second"}
        assert (await client.call_tool("first", {"q": "abc"})).data == 3


async def test_a_caller_finds_what_it_is_granted(project: Path, box: Sandbox) -> None:
    async with serving(project, box) as (client, _, _):
        for name in ("mine", "theirs"):
            await call(client, "tool_compose", source=tool(name))
        become(Caller("narrow", allow=("mine",)))
        try:
            assert {"mine", "theirs"} & set(await listed(client)) == {"mine"}
            assert (await client.call_tool("mine", {"q": "abc"})).data == 3
            assert said(await call(client, "theirs", q="abc")).startswith("there is no tool theirs; ")
        finally:
            become(LOCAL)
        assert {"mine", "theirs"} <= set(await listed(client))


async def test_a_broken_file_is_not_listed_and_its_caller_learns_why(project: Path, box: Sandbox) -> None:
    async with serving(project, box) as (client, _, _):
        for name in ("good", "bad"):
            await call(client, "tool_compose", source=tool(name))
        (project / ".go-ent" / "composed-tools" / "bad.py").write_text("def bad(:\n")
        assert {"good", "bad"} & set(await listed(client)) == {"good"}
        result = await call(client, "bad", q="abc")
        assert result.is_error
        assert "bad is broken and can't be called: it has no metadata" in said(result)
        assert "version 1 can be brought back" in said(result)
        assert (await client.call_tool("good", {"q": "abc"})).data == 3


class Shop:
    """A source whose tools say what they do."""

    namespace, origin, local = "shop", "a shop", True

    async def tools(self) -> list[ToolSpec]:
        hints = {
            "look": Hints(read_only=True, open_world=False),
            "search": Hints(read_only=True),
            "order": Hints(read_only=False, destructive=False),
            "burn": Hints(destructive=True),
            "mystery": Hints(),
        }
        return [ToolSpec(f"shop.{name}", name, {"type": "object"}, None, hint) for name, hint in hints.items()]

    async def call(self, name: str, arguments: dict[str, Any], context: CallContext) -> Any:
        return name

    async def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("body", "reads", "destroys", "open_world"),
    [
        ("return 1", True, False, False),
        ("return await tools.shop.look()", True, False, False),
        ("return [await tools.shop.look(), await tools.shop.search()]", True, False, None),
        ("return [await tools.shop.look(), await tools.shop.order()]", False, False, None),
        ("return [await tools.shop.order(), await tools.shop.burn()]", False, True, None),
        ("return await tools.shop.mystery()", False, None, None),
        ("return await tools.inner()", False, True, None),
    ],
)
async def test_its_effects_are_those_of_what_it_calls(
    project: Path, box: Sandbox, body: str, reads: bool, destroys: bool | None, open_world: bool | None
) -> None:
    async with Composer(project, box=box, sources=[Shop()], config=Config(allow=("shop.*",))) as composer:
        await composer.catalogue.load()
        await composer.compose(tool("inner", "() -> str", "return await tools.shop.burn()"))
        await composer.compose(tool("outer", "() -> object", body))
        made = effects(composer.composed.found["outer"], composer)
        assert (made.read_only_hint, made.destructive_hint, made.open_world_hint) == (reads, destroys, open_world)
        assert made.idempotent_hint is (True if reads else None)

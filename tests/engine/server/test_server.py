"""The MCP server: in memory in both protocol eras, and over stdio as a client starts it."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any, Literal

import pytest
from fastmcp import Client
from fastmcp.client.transports import StdioTransport

from go_ent.composer import Composer, FunctionSource
from go_ent.engine import Engine
from go_ent.engine.server import make_server
from go_ent.sandbox import Sandbox
from tests.support import ROOT


def search(q: str, top: int = 3) -> list[str]:
    """Find texts."""
    return [f"{q} {index}" for index in range(top)]


TRIAGE = '''# /// tool
# name = "triage"
# ///
async def triage(q: str) -> int:
    """How many hits there are."""
    return len(await tools.search(q=q))
'''


async def say(client: Client[Any], name: str, /, **arguments: Any) -> tuple[bool, Any]:
    """Whether a call failed, and what it said."""
    result = await client.call_tool(name, arguments, raise_on_error=False)
    said = (
        result.structured_content if result.structured_content is not None else getattr(result.content[0], "text", "")
    )
    return result.is_error, said


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_conversation(project: Path, box: Sandbox, mode: Literal["auto", "legacy"]) -> None:
    """Search, look, run, fail, mend, save, call: in a folder that was never set up."""

    async with (
        Composer(project, tools=[search], box=box) as composer,
        Engine(project, composer=composer) as engine,
        Client(make_server(composer, engine), mode=mode) as client,
    ):
        listed = {tool.name: tool for tool in await client.list_tools()}
        assert {
            "tool_search",
            "tool_schema",
            "code_execute",
            "tool_compose",
            "tool_run",
            "tool_list",
            "tool_show",
        } <= set(listed)
        assert all(tool.description and tool.output_schema and tool.annotations for tool in listed.values())
        failed, said = await say(client, "tool_search", words="find")
        assert (failed, said["text"]) == (False, "search(q: str, top: int = 3) -> list[str]  # Find texts.")
        failed, said = await say(client, "tool_schema", names=["search"])
        assert "async def search(self, q: str, top: int = 3) -> list[str]:" in said["text"]
        failed, said = await say(client, "code_execute", code="len(await tools.search(q=topic))", inputs={"topic": "x"})
        assert (failed, said["status"], said["result"]) == (False, "completed", 3)
        failed, said = await say(client, "code_execute", code="await tools.search(query='x')")
        assert failed
        assert "there is no parameter query; it takes q, top" in said["error"]
        assert "async def search" in said["help"]
        failed, said = await say(client, "tool_compose", source=TRIAGE.replace("q: str", "q"))
        assert failed
        assert "parameter q: it has no type" in said
        assert not (project / ".go-ent" / "composed-tools").exists()
        failed, said = await say(client, "tool_compose", source=TRIAGE)
        assert (failed, said) == (False, {"name": "triage", "version": 1, "created": True, "examples": 0})
        failed, said = await say(client, "tool_run", name="triage", inputs={"q": "a"})
        assert (failed, said["result"]) == (False, 3)
        failed, said = await say(client, "code_execute", code="await tools.triage(q='b')")
        assert said["result"] == 3
        listed_tool = {"name": "triage", "scope": "project", "calls": 2, "description": "How many hits there are."}
        assert (await say(client, "tool_list"))[1] == {"tools": [listed_tool]}
        assert "# version = 1" in (await say(client, "tool_show", name="triage"))[1]["source"]
        assert (await say(client, "tool_test", name="triage"))[1] == {"name": "triage", "examples": []}
        await say(client, "tool_compose", source=TRIAGE.replace("How many", "The number of"))
        versions = (await say(client, "tool_history", name="triage"))[1]["versions"]
        assert [(one["version"], one["current"]) for one in versions] == [(1, False), (2, True)]
        assert (await say(client, "tool_rollback", name="triage", version=1))[1] == {
            "name": "triage",
            "version": 3,
            "of": 1,
        }
        for topic in "ab":
            await say(client, "code_execute", code=f"sorted(await tools.search(q={topic!r}))")
        assert "async def search_tool(q: str)" in (await say(client, "tool_suggest"))[1]["suggestions"][0]["source"]
        assert (await say(client, "tool_delete", name="triage")) == (False, {"name": "triage", "scope": "project"})
        assert (await say(client, "tool_run", name="triage"))[0]


async def test_a_tool_that_can_t_be_called_is_not_granted_or_not_there(project: Path, box: Sandbox) -> None:
    (project / ".go-ent" / "config.toml").write_text('[grants]\nallow = ["web.search"]\n')
    grant_it = "go-ent grant adds it to [grants] allow in .go-ent/config.toml"

    def post(text: str) -> str:
        """Send it."""
        return text

    async with (
        Composer(project, sources=[FunctionSource([search, post], "web")], box=box) as composer,
        Engine(project, composer=composer) as engine,
        Client(make_server(composer, engine)) as client,
    ):
        for code, error, hint in (
            ("await tools.web.post(text='x')", f"web.post: it is not granted here: {grant_it}", grant_it),
            (
                "await tools.web.serch(q='x')",
                "there is no tool web.serch; did you mean web.search?",
                "tool_search finds",
            ),
            ("1 / 0", "ZeroDivisionError", ""),
        ):
            _, said = await say(client, "code_execute", code=code)
            assert error in said["error"]
            assert said.get("hint", "").startswith(hint)


async def test_an_error_says_what_the_names_in_its_line_stood_for(project: Path, box: Sandbox) -> None:
    async with (
        Composer(project, tools=[search], box=box) as composer,
        Engine(project, composer=composer) as engine,
        Client(make_server(composer, engine)) as client,
    ):
        _, said = await say(client, "code_execute", code="totals = {'ann': 10}\nname = 'cy'\ntotals[name]")
        assert said["error"].endswith("KeyError: 'cy'\nwhere totals = {'ann': 10}, name = 'cy'")
        assert "where" not in (await say(client, "code_execute", code="1 / 0"))[1]["error"]  # there are no names in it
        code = "a, b, c, d = 'a\\n' * 500, [0] * 500, 'c' * 500, 'd' * 500\na[b, c, d]"
        last = (await say(client, "code_execute", code=code))[1]["error"].splitlines()[-1]
        assert last.startswith("where a = 'a\\na")
        assert "c = 'ccc" in last
        assert len(last) <= len("where ") + 300


async def test_failures_are_errors_that_can_be_acted_on(project: Path, box: Sandbox) -> None:
    async with (
        Composer(project, tools=[search], box=box) as composer,
        Engine(project, composer=composer) as engine,
        Client(make_server(composer, engine)) as client,
    ):
        for name, arguments, expected in (
            ("tool_schema", {"names": ["serch"]}, "there is no tool serch; did you mean search?"),
            ("tool_test", {"name": "nope"}, "there is no composed tool nope"),
            ("tool_history", {"name": "nope"}, "there is no composed tool nope"),
            ("tool_rollback", {"name": "nope", "version": 1}, "there is no composed tool nope"),
            ("tool_delete", {"name": "nope"}, "there is no composed tool nope"),
            ("tool_schema", {"names": ["github.x"]}, "there is no tool github.x"),
            ("tool_schema", {"names": ["engine.execute"]}, "there is no tool engine.execute"),
            ("tool_run", {"name": "nope"}, "there is no composed tool nope"),
            ("tool_run", {"name": "../x"}, "can't be the name of a composed tool"),
            ("tool_show", {"name": "nope"}, "there is no composed tool nope"),
            ("code_execute", {"code": "1", "session": "A B"}, "can't be the name of a session"),
            ("code_execute", {"code": "1", "limits": {"cpu_s": 9999}}, "can only narrow"),
            ("code_execute", {"code": "1", "limits": {"speed": 1}}, "there is no such limit"),
            ("tool_compose", {"source": ""}, "it has no metadata"),
        ):
            failed, said = await say(client, name, **arguments)
            assert (failed, expected in str(said)) == (True, True), (name, arguments, said)
        failed, said = await say(client, "code_execute", code="import socket")
        assert (failed, said["status"], "hint" in said) == (True, "refused", True)


async def test_every_field_is_bounded(project: Path, box: Sandbox) -> None:
    big = (
        '# /// tool\n# name = "big"\n# ///\ndef big() -> str:\n    """B."""\n    print("p" * 200_000)\n    return '
        '"x" * 800_000\n'
    )

    async with (
        Composer(project, tools=[search], box=box) as composer,
        Engine(project, composer=composer) as engine,
        Client(make_server(composer, engine)) as client,
    ):
        await say(client, "tool_compose", source=big)
        for name, arguments in (
            ("tool_run", {"name": "big"}),
            ("code_execute", {"code": "print('p' * 200_000)\n'x' * 800_000"}),
        ):
            failed, said = await say(client, name, **arguments)
            assert not failed
            assert len(str(said)) < 45_000
            assert "tools.results.read" in said["result"]
            assert "print less" in said["stdout"]
        _, said = await say(client, "code_execute", code="raise ValueError('x' * 100_000)")
        assert len(str(said)) < 25_000


async def test_sessions_keep_state(project: Path, box: Sandbox) -> None:
    async with (
        Composer(project, box=box) as composer,
        Engine(project, composer=composer) as engine,
        Client(make_server(composer, engine)) as client,
    ):
        await say(client, "code_execute", code="x = 40", session="work")
        assert (await say(client, "code_execute", code="x + 2", session="work"))[1]["result"] == 42
        assert (await say(client, "code_execute", code="x"))[0]


def test_over_stdio(project: Path) -> None:
    """As a subprocess, the way a client's configuration starts it."""

    async def main() -> None:
        command = "from go_ent.engine.cli import main; main()"
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        transport = StdioTransport(sys.executable, ["-c", command, "serve"], cwd=str(project), env=environment)
        async with Client(transport) as client:
            failed, said = await say(client, "code_execute", code="print('hi')\nsum(range(10))")
            assert (failed, said["result"], said["stdout"]) == (False, 45, "hi\n")
            source = TRIAGE.replace("len(await tools.search(q=q))", "len(q)")
            assert not (await say(client, "tool_compose", source=source))[0]
            assert (await say(client, "code_execute", code="await tools.triage(q='abc')"))[1]["result"] == 3

    asyncio.run(main())
    assert (project / ".go-ent" / "composed-tools" / "triage.py").exists()

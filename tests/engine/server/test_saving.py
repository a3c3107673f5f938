"""A run becomes a tool in one step: by its execution, over MCP and at the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client

from go_ent.composer import Composer
from go_ent.composer.codemode.past_runs import PastRun
from go_ent.composer.config import Config
from go_ent.composer.sources.functions import FunctionSource
from go_ent.engine import Engine
from go_ent.engine.server import make_server
from go_ent.sandbox import Sandbox
from tests.engine.server.test_server import say
from tests.support.shell import go_ent

CODE = "orders = await tools.desk.orders(customer=who)\nmax(orders)"


def orders(customer: str) -> list[int]:
    """The orders of a customer."""
    return [len(customer), 1]


async def test_over_mcp(project: Path, box: Sandbox) -> None:
    composer = Composer(
        project, config=Config(allow=("desk.*",)), sources=[FunctionSource([orders], "desk")], box=box, trusted=True
    )
    async with (
        composer,
        Engine(project, composer=composer, trusted=True) as engine,
        Client(make_server(composer, engine, profile="code")) as client,
    ):
        _, ran = await say(client, "code_execute", code=CODE, inputs={"who": "anna"})
        assert ran["result"] == 4
        failed, saved = await say(
            client, "tool_compose", from_execution=ran["execution_id"], name="newest", about="The newest order."
        )
        assert (failed, saved["name"], saved["examples"]) == (False, "newest", 1)
        tool = await composer.composed.get("newest")
        assert tool.interface.description == "The newest order."
        assert tool.interface.requires == ("desk.orders",)
        assert list(tool.interface.input_schema["properties"]) == ["who"]
        (example,) = tool.file.metadata.examples
        assert (example.inputs, example.result) == ({"who": "anna"}, 4)
        assert [(call.tool, call.arguments) for call in example.calls] == [("desk.orders", {"customer": "anna"})]
        assert (await client.call_tool("newest", {"who": "jo"})).data == 2


async def test_constants_become_parameters(project: Path, box: Sandbox) -> None:
    code = (
        "limit = 10\nrows = await tools.desk.orders(customer='anna')\n"
        "{'rows': [n for n in rows if n < limit], 'over': [n for n in rows if n > 10]}"
    )
    composer = Composer(
        project, config=Config(allow=("desk.*",)), sources=[FunctionSource([orders], "desk")], box=box, trusted=True
    )
    async with (
        composer,
        Engine(project, composer=composer, trusted=True) as engine,
        Client(make_server(composer, engine, profile="code")) as client,
    ):
        _, ran = await say(client, "code_execute", code=code)
        chosen = {"from_execution": ran["execution_id"], "name": "orders_below"}
        for params, words in (
            ({"floor": 10}, "floor: 10 stands in lines 1 and 3: say which, as floor:1"),
            ({"floor": 11}, "the code has no literal 11; it has 10 (line 1), 'anna' (line 2)"),
            ({"rows": "anna"}, "rows is a name of the code already (line 2)"),
            ({"import": "anna"}, "can't be the name of a parameter"),
            ({"floor:x": 10}, "after the colon stands the number of a line"),
        ):
            answer = await client.call_tool("tool_compose", {**chosen, "params": params}, raise_on_error=False)
            assert answer.is_error
            assert words in answer.content[0].text, params
        wanted = {"limit": 10, "customer": "anna", "floor:3": 10}
        failed, saved = await say(client, "tool_compose", **chosen, params=wanted)
        assert (failed, saved["examples"]) == (False, 1), saved
        tool = await composer.composed.get("orders_below")
        types = {name: kind["type"] for name, kind in tool.interface.input_schema["properties"].items()}
        assert types == {"limit": "integer", "customer": "string", "floor": "integer"}
        defaults = {name: kind["default"] for name, kind in tool.interface.input_schema["properties"].items()}
        assert defaults == {"limit": 10, "customer": "anna", "floor": 10}
        assert tool.interface.input_schema["required"] == []
        assert (await client.call_tool("orders_below", {"limit": 2})).structured_content == {"rows": [1], "over": []}
        (example,) = tool.file.metadata.examples
        assert example.inputs == {"limit": 10, "customer": "anna", "floor": 10}
        result = await client.call_tool("orders_below", {"limit": 2, "customer": "anna", "floor": 3})
        assert result.structured_content == {"rows": [1], "over": [4]}


async def test_what_can_not_be_saved_is_told(project: Path, box: Sandbox) -> None:
    async with (
        Composer(project, box=box, trusted=True) as composer,
        Engine(project, composer=composer, trusted=True) as engine,
        Client(make_server(composer, engine)) as client,
    ):
        _, ran = await say(client, "code_execute", code="1 / 0")
        for arguments, words in (
            ({}, "give its source, or from_execution and a name"),
            ({"from_execution": ran["execution_id"]}, "give its source, or from_execution and a name"),
            ({"from_execution": ran["execution_id"], "name": "x"}, "it is failed, and the code must have completed"),
            ({"from_execution": "0199aaaa-bbbb-7ccc-8ddd-000000000000", "name": "x"}, "there is no execution"),
        ):
            answer = await client.call_tool("tool_compose", arguments, raise_on_error=False)
            assert answer.is_error
            assert words in str(answer.content), arguments
        _, plain = await say(client, "code_execute", code="len('abc')")
        answer = await client.call_tool(
            "tool_compose", {"from_execution": plain["execution_id"], "name": "Not A Name"}, raise_on_error=False
        )
        assert "is no name for a tool" in str(answer.content)


def test_at_the_command_line(tmp_path: Path) -> None:
    (tmp_path / ".go-ent").mkdir()
    inputs = json.dumps({"words": ["a", "ccc", "bb"], "n": 2})
    assert go_ent("exec", "-c", "sorted(words, key=len)[-n:]", "--input", inputs, cwd=tmp_path).returncode == 0
    (row,) = json.loads(go_ent("ps", "--json", cwd=tmp_path).stdout)
    (tmp_path / "a.txt").write_text("hi")
    assert go_ent("exec", "-c", "open('a.txt').read()", "--file", "a.txt", cwd=tmp_path).returncode == 0
    done = go_ent("tool", "save", "last", "--name", "other", cwd=tmp_path)
    assert b"it was given files (a.txt), and a tool has none: pass their content as inputs" in done.stderr
    done = go_ent("tool", "save", row["id"], "--name", "longest", "--about", 'The "longest" words.', cwd=tmp_path)
    assert done.stdout == b"longest: version 1, 1 example passed (project)\n", done.stderr
    ran = go_ent("tool", "run", "longest", "--input", json.dumps({"words": ["x", "yy"], "n": 1}), cwd=tmp_path)
    assert ran.stdout == b'["yy"]\n', ran.stderr
    assert go_ent("tool", "save", "0199", "--name", "x", cwd=tmp_path).returncode == 2
    code = "top = 2\nsorted('c,a,b'.split(','))[:top]"
    assert go_ent("exec", "-c", code, cwd=tmp_path).stdout == b'["a","b"]\n'
    chosen = ("tool", "save", "last", "--name", "first", "--param", "top", "--param", "letters=c,a,b")
    assert go_ent(*chosen, "--param", "n=7", cwd=tmp_path).returncode != 0
    done = go_ent(*chosen, cwd=tmp_path)
    assert done.stdout == b"first: version 1, 1 example passed (project)\n", done.stderr
    ran = go_ent("tool", "run", "first", "--input", json.dumps({"top": 1, "letters": "z,y"}), cwd=tmp_path)
    assert ran.stdout == b'["y"]\n', ran.stderr
    assert go_ent("tool", "run", "first", "--top", "1", cwd=tmp_path).stdout == b'["a"]\n'


@pytest.mark.parametrize(
    ("code", "constants", "required", "defaults"),
    [
        ("sorted([3, 1])[:n]", {"of": [3, 1]}, ["n"], {"of": [3, 1]}),
        ("low = -1.5\nfound = {'a': {1}}\n[low, found, n]", {"low": ..., "found": ...}, ["found", "n"], {"low": -1.5}),
        ("[(1, 2), 'x', n]", {"pair": [1, 2], "text": "x"}, ["n", "pair"], {"text": "x"}),
    ],
)
async def test_a_constant_is_the_default_of_its_parameter(
    project: Path, box: Sandbox, code: str, constants: dict[str, Any], required: list[str], defaults: dict[str, Any]
) -> None:
    """What is no JSON value, a set or a tuple, stays required."""
    async with Composer(project, box=box, trusted=True) as composer:
        run = PastRun(source=code, inputs={"n": 2}, result=None)
        source = await composer.tool_of(run, "made", "Made.", constants=constants)
        schema = (await composer.check(source))[1].input_schema
    assert sorted(schema["required"]) == required
    assert {name: kind["default"] for name, kind in schema["properties"].items() if "default" in kind} == defaults

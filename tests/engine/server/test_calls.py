"""Calls over MCP: every tool in both protocol eras, how long ones go, and what becomes of one that is cancelled or
cut off.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Literal

import pytest
from fastmcp import Client, FastMCP
from fastmcp.client.transports import StdioTransport

from go_ent.composer import Composer
from go_ent.composer.catalogue.schemas import Checker
from go_ent.engine import Engine
from go_ent.engine.core.errors import Unborn
from go_ent.engine.server import make_server
from go_ent.engine.server.calls import callers
from go_ent.engine.tokens import count
from go_ent.sandbox import Sandbox
from tests.composer.conftest import tool
from tests.engine.server.test_server import say
from tests.support import ROOT
from tests.support.executions import FileStore
from tests.support.scripted import Scripted, engine_of, says
from tests.support.serving import ERAS

Mode = Literal["auto", "legacy"]
DOUBLE = tool(
    "double",
    'def double(n: int) -> int:\n    """Twice as much."""\n    return 2 * n\n',
    examples='{"inputs": {"n": 2}, "result": 4}',
)
WAITS = "a = 1\nb = await tools.slow(n=1)\nc = await tools.slow(n=2)\n[a, b, c]"


class Slow:
    """A tool that answers when it is let: `slow(n)` waits until `open` is set, and says when it is reached."""

    def __init__(self) -> None:
        self.reached, self.open = asyncio.Event(), asyncio.Event()
        self.seen: list[int] = []

    async def __call__(self, n: int) -> int:
        """Wait."""
        self.seen.append(n)
        self.reached.set()
        await self.open.wait()
        return n * 10


def serve(
    project: Path,
    box: Sandbox,
    work: Callable[[Client[Any], Engine, Slow], Awaitable[None]],
    *runners: Scripted,
    mode: Mode = "auto",
    config: dict[str, Any] | None = None,
    **options: Any,
) -> None:
    """A client, connected to the server of a project whose code may call `slow`."""

    async def main() -> None:
        slow = Slow()

        async def wait(n: int) -> int:
            """Wait."""
            return await slow(n)

        wait.__name__ = "slow"
        async with Composer(project, tools=[wait], box=box) as composer:
            engine = engine_of(project, *runners, config=config, mode="mcp", composer=composer)
            async with engine, Client(make_server(composer, engine), mode=mode, **options) as client:
                await work(client, engine, slow)

    asyncio.run(main())


# -- every tool


@pytest.mark.parametrize("mode", ERAS)
def test_every_tool_answers_as_its_output_schema_says(project: Path, box: Sandbox, mode: Mode) -> None:
    """One call of each tool: it succeeds, fits its schema, and holds nothing that the schema does not name."""
    runner = Scripted("claude-code", says("the answer", cost_usd=0.5))

    async def work(client: Client[Any], engine: Engine, slow: Slow) -> None:
        slow.open.set()
        listed = {one.name: one for one in await client.list_tools()}
        called: set[str] = set()

        async def call(name: str, /, **arguments: Any) -> dict[str, Any]:
            result = await client.call_tool(name, arguments, raise_on_error=False)
            assert not result.is_error, (name, result.content)
            said, schema = result.structured_content, listed[name].output_schema
            assert said is not None
            assert schema is not None
            assert await Checker(schema).check(said) == []
            if name != "engine_budget":  # a report as the engine makes it
                assert set(said) <= set(schema["properties"]), name
            called.add(name)
            return said

        assert (await call("tool_compose", source=DOUBLE)) == {
            "name": "double",
            "version": 1,
            "created": True,
            "examples": 1,
        }
        assert (await call("tool_compose", source=DOUBLE))["created"] is False
        assert "double(n: int) -> int" in (await call("tool_search", words="twice"))["text"]
        assert "async def double" in (await call("tool_schema", names=["double"]))["text"]
        assert (await call("tool_run", name="double", inputs={"n": 4}))["result"] == 8
        assert (await call("tool_list"))["tools"][0]["description"] == "Twice as much."
        assert (await call("tool_show", name="double"))["source"].startswith("# /// tool")
        assert (await call("tool_test", name="double"))["examples"] == [{"number": 1, "ok": True}]
        assert (await call("tool_history", name="double"))["versions"][0]["current"] is True
        assert (await call("tool_rollback", name="double", version=1))["of"] == 1
        assert await call("tool_suggest") == {"suggestions": []}
        ran = await call("code_execute", code="print('hi')\nawait tools.slow(n=n)", inputs={"n": 3})
        assert (ran["status"], ran["result"], ran["stdout"], ran["usage"]["tool_calls"]) == ("completed", 30, "hi\n", 1)
        done = await call("engine_execute", task="do it", role="developer")
        assert (done["status"], done["output"], done["metrics"]["cost_usd"]) == ("COMPLETE", "the answer", 0.5)
        dry = await call("engine_execute", task="do it", dry_run=True)
        assert ("do it" in dry["prompts"][0]["prompt"], len(runner.seen)) == (True, 1)
        assert (await call("engine_status", execution_id=done["execution_id"]))["output"] == "the answer"
        listing = await call("engine_status")
        assert set(listing) == {"executions"}
        assert [one["execution_id"] for one in listing["executions"][:2]] == [done["execution_id"], ran["execution_id"]]
        assert (await call("engine_budget"))["day"]["spent_usd"] == 0.5
        runner.hold = asyncio.Event()
        begun = await call("engine_execute", task="long", wait=False)
        await runner.begun(2)
        assert (await call("engine_summarize", execution_id=begun["execution_id"]))["status"].startswith("short enough")
        stopped = await call("engine_interrupt", execution_id=begun["execution_id"])
        assert (stopped["status"], stopped["resumable"], stopped["hint"]) == (
            "interrupted",
            True,
            "engine_resume goes on",
        )
        runner.hold = None
        assert (await call("engine_resume", execution_id=begun["execution_id"]))["status"] == "COMPLETE"
        assert (await call("tool_delete", name="double"))["scope"] == "project"
        assert set(listed) - called == {"engine_approve"}  # its test is with the approvals

    serve(project, box, work, runner, mode=mode)


@pytest.mark.parametrize("mode", ERAS)
def test_every_tool_says_what_it_does_to_the_world(project: Path, box: Sandbox, mode: Mode) -> None:
    reads = {"tool_search", "tool_schema", "tool_list", "tool_show", "tool_test", "tool_history", "tool_suggest"}
    reads |= {"engine_status", "engine_budget"}
    undone = {"tool_compose", "tool_rollback", "engine_summarize"}  # what they change can be undone, or is added

    async def work(client: Client[Any], engine: Engine, slow: Slow) -> None:
        for one in await client.list_tools():
            hints = one.annotations
            assert hints is not None
            assert None not in (
                hints.read_only_hint,
                hints.destructive_hint,
                hints.idempotent_hint,
                hints.open_world_hint,
            ), one.name
            assert hints.read_only_hint is (one.name in reads), one.name
            assert hints.destructive_hint is (one.name not in reads | undone), one.name
            assert one.description
            assert one.output_schema is not None
            assert one.output_schema["type"] == "object"
            assert all(
                "execution" not in name or name in ("execution_id", "from_execution")
                for name in one.input_schema["properties"]
            ), one.name

    serve(project, box, work, mode=mode)


def test_the_definitions_cost_few_tokens(project: Path, box: Sandbox) -> None:
    async def work(client: Client[Any], engine: Engine, slow: Slow) -> None:
        tools = await client.list_tools()
        inputs = [{"name": one.name, "description": one.description, "input_schema": one.input_schema} for one in tools]
        assert count(json.dumps(inputs, separators=(",", ":"))) <= 1900
        assert count(json.dumps([one.output_schema for one in tools], separators=(",", ":"))) <= 1500

    serve(project, box, work)


@pytest.mark.parametrize("mode", ERAS)
def test_null_stands_for_what_may_be_left_out_though_no_definition_says_so(
    project: Path, box: Sandbox, mode: Mode
) -> None:
    async def work(client: Client[Any], engine: Engine, slow: Slow) -> None:
        (code,) = [one for one in await client.list_tools() if one.name == "code_execute"]
        assert "null" not in json.dumps(code.input_schema)
        found = await client.call_tool(
            "code_execute", {"code": "1 + 1", "inputs": None, "session": None, "limits": None}
        )
        assert found.structured_content is not None
        assert found.structured_content["result"] == 2

    serve(project, box, work, mode=mode)


def test_engine_execute_has_every_option_of_the_command_line(project: Path, box: Sandbox) -> None:
    import inspect

    from go_ent.engine.cli.commands.run import run_command

    other = {
        "pin": "pinned",
        "skill": "skills",
        "file": "files",
        "input": "inputs",
        "timeout": "timeout_s",
        "budget_usd": "budget",
        "budget_tokens": "budget",
    }
    people = {
        "yes",
        "json_",
        "plain",
        "quiet",
        "from_",
        "only",
        "here",
        "label",
    }  # at a terminal, or about a plan's file

    async def work(client: Client[Any], engine: Engine, slow: Slow) -> None:
        listed = {one.name: one for one in await client.list_tools()}["engine_execute"].input_schema["properties"]
        asked = {other.get(name, name) for name in inspect.signature(run_command).parameters if name not in people}
        assert asked <= set(listed), asked - set(listed)
        assert listed["strategy"]["enum"] == ["auto", "single", "multi", "parallel"]

    serve(project, box, work)


@pytest.mark.parametrize("mode", ERAS)
def test_what_a_plan_can_t_take_is_refused(project: Path, box: Sandbox, mode: Mode) -> None:
    plan = [{"id": "a", "code": "1"}]

    async def work(client: Client[Any], engine: Engine, slow: Slow) -> None:
        for arguments, said in (
            ({"plan": plan, "role": "developer"}, "a plan is a graph of its own: role belongs into its tasks"),
            ({"plan": plan, "task": "x"}, "task belongs into its tasks"),
            ({"task": "x", "concurrency": 2}, "concurrency is for a plan"),
            ({"tool": "nope", "task": "x"}, "not both"),
        ):
            failed, text = await say(client, "engine_execute", **arguments)
            assert (failed, said in str(text)) == (True, True), text
        failed, made = await say(
            client, "engine_execute", plan=plan, concurrency=2, strategy="parallel", budget={"usd": 1}
        )
        assert (failed, made["output"]) == (False, "1")

    serve(project, box, work, mode=mode)


@pytest.mark.parametrize("mode", ERAS)
def test_arguments_that_do_not_fit_are_named(project: Path, box: Sandbox, mode: Mode) -> None:
    async def work(client: Client[Any], engine: Engine, slow: Slow) -> None:
        for name, arguments, expected in (
            ("code_execute", {}, "the arguments of code_execute do not fit: code is required"),
            ("code_execute", {"code": "1", "inputs": "x"}, "inputs: it should be an object"),
            ("tool_search", {"query": "x"}, "there is no argument query; it takes words, detail, namespace, limit"),
            ("tool_search", {"limit": 99}, "limit: it should be less than or equal to 50"),
            ("engine_execute", {"task": "x", "acces": "read"}, "there is no argument acces; did you mean access?"),
        ):
            failed, said = await say(client, name, **arguments)
            assert (failed, str(said).startswith("the arguments of"), expected in str(said)) == (True, True, True), said

    serve(project, box, work, mode=mode)


def test_a_run_in_a_session_says_that_it_can_t_wait(project: Path, box: Sandbox) -> None:
    (project / ".go-ent" / "config.toml").write_text('[grants]\napprove = ["slow"]\n')

    async def work(client: Client[Any], engine: Engine, slow: Slow) -> None:
        _, said = await say(client, "code_execute", code="await tools.slow(n=1)", session="work")
        assert said["hint"] == "a run in a session can't wait for approval: make such calls outside of one"

    serve(project, box, work)


# -- how it goes


@pytest.mark.parametrize("mode", ERAS)
def test_a_long_run_tells_its_id_and_its_calls(project: Path, box: Sandbox, mode: Mode) -> None:
    told: list[tuple[float, str]] = []
    second = asyncio.Event()

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, message or ""))
        if "1 tool call" in (message or ""):
            second.set()

    async def work(client: Client[Any], engine: Engine, slow: Slow) -> None:
        running = asyncio.create_task(say(client, "code_execute", code="await tools.slow(n=1)"))
        async with asyncio.timeout(20):
            await second.wait()
        slow.open.set()
        failed, said = await running
        assert not failed
        assert told[-1][1] == f"execution {said['execution_id']}; 1 tool call"
        assert [at for at, _ in told] == sorted(at for at, _ in told)

    serve(project, box, work, mode=mode, progress_handler=hear)


@pytest.mark.parametrize("mode", ERAS)
def test_a_long_task_tells_what_happens(project: Path, box: Sandbox, mode: Mode) -> None:
    runner = Scripted("claude-code", says("whole"))
    told: list[str] = []
    half = asyncio.Event()

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        told.append(message or "")
        if "half of" in (message or ""):
            half.set()

    async def work(client: Client[Any], engine: Engine, slow: Slow) -> None:
        runner.hold = asyncio.Event()
        running = asyncio.create_task(say(client, "engine_execute", task="x"))
        async with asyncio.timeout(20):
            await half.wait()
        runner.hold.set()
        _, said = await running
        assert all(said["execution_id"] in one for one in told if one)

    serve(project, box, work, runner, mode=mode, progress_handler=hear)


# -- cancelled, cut off


@pytest.mark.parametrize("mode", ERAS)
def test_a_cancelled_run_is_interrupted_and_goes_on_later(project: Path, box: Sandbox, mode: Mode) -> None:
    async def work(client: Client[Any], engine: Engine, slow: Slow) -> None:
        running = asyncio.create_task(say(client, "code_execute", code=WAITS))
        await slow.reached.wait()
        (row,) = await engine.executions()
        running.cancel()
        await asyncio.wait([running])
        state = await until(engine, row.id)
        assert state.status == "interrupted"
        slow.open.set()
        failed, said = await say(client, "engine_resume", execution_id=row.id)
        assert failed  # nobody knows whether the call was done
        assert 'unfinished ["retry"]' in str(said)
        failed, said = await say(client, "engine_resume", execution_id=row.id, unfinished=["retry"])
        assert (failed, said["status"], said["result"]) == (False, "completed", [1, 10, 20])
        assert slow.seen == [1, 1, 2]

    serve(project, box, work, mode=mode)


@pytest.mark.parametrize("mode", ERAS)
def test_a_cancelled_task_is_interrupted_and_goes_on_later(project: Path, box: Sandbox, mode: Mode) -> None:
    runner = Scripted("claude-code", says("whole"))

    async def work(client: Client[Any], engine: Engine, slow: Slow) -> None:
        runner.hold = asyncio.Event()
        running = asyncio.create_task(say(client, "engine_execute", task="x"))
        await runner.begun()
        (row,) = await engine.executions()
        running.cancel()
        await asyncio.wait([running])
        assert (await until(engine, row.id)).status == "interrupted"
        runner.hold = None
        failed, said = await say(client, "engine_resume", execution_id=row.id)
        assert (failed, said["output"]) == (False, "whole")

    serve(project, box, work, runner, mode=mode)


async def until(engine: Engine, execution_id: str) -> Any:
    """Its state, once it is not running any more."""
    async with asyncio.timeout(20):
        while (state := await engine.status(execution_id)).status == "running":  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.01)
    return state


@pytest.mark.parametrize("mode", ERAS)
async def test_what_was_not_waited_for_goes_on_without_its_client(project: Path, box: Sandbox, mode: Mode) -> None:
    runner = Scripted("claude-code", says("whole"))

    async with (
        Composer(project, box=box) as composer,
        engine_of(project, runner, mode="mcp", composer=composer) as engine,
    ):
        runner.hold = asyncio.Event()
        server: FastMCP = make_server(composer, engine)
        async with Client(server, mode=mode) as client:
            _, said = await say(client, "engine_execute", task="x", wait=False)
            await runner.begun()
        runner.hold.set()
        assert (await until(engine, said["execution_id"])).status == "completed"
        async with Client(server, mode=mode) as client:
            _, state = await say(client, "engine_status", execution_id=said["execution_id"])
            assert (state["status"], state["output"]) == ("completed", "whole")


STARTED = """
import os, pathlib
pathlib.Path("../pid").write_text(str(os.getpid()))
from go_ent.engine.cli import main
main()
"""


def transport(project: Path) -> StdioTransport:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return StdioTransport(sys.executable, ["-c", STARTED, "serve"], cwd=str(project), env=environment, keep_alive=False)


@pytest.mark.parametrize("killed", [pytest.param(False, marks=pytest.mark.more), True])
def test_a_server_that_ends_in_the_middle_of_a_call_loses_nothing(project: Path, box: Sandbox, killed: bool) -> None:
    """Its stdin is closed, or it is killed: the run is on record as interrupted, and somebody else goes on with it."""
    code = "import asyncio\nfor n in range(30):\n    await asyncio.sleep(0.1)\n    checkpoint('at', n)\nn"
    store = FileStore(project)

    async def under_way() -> str:
        """The id of the execution, once its guest runs."""
        async with asyncio.timeout(60):
            while True:
                for row in await asyncio.to_thread(store.rows):
                    with contextlib.suppress(Unborn):  # it is just being made
                        if (await asyncio.to_thread(store.load, row.id)).checkpoints:
                            return row.id
                await asyncio.sleep(0.02)

    async def first() -> str:
        server = transport(project)
        async with Client(server) as client:
            running = asyncio.create_task(say(client, "code_execute", code=code))
            execution_id = await under_way()
            if killed:
                os.kill(int((project.parent / "pid").read_text()), signal.SIGKILL)
            else:
                await server.disconnect()  # type: ignore[no-untyped-call]
            await asyncio.wait([running])
            assert running.exception() is not None
            return execution_id

    execution_id = asyncio.run(first())
    assert store.load(execution_id).status == "interrupted"
    records = [record["kind"] for record in store.records(execution_id)]
    assert ("status" in records) is not killed  # who was closed has said so itself

    async def work(client: Client[Any], engine: Engine, slow: Slow) -> None:
        failed, said = await say(client, "engine_resume", execution_id=execution_id)
        assert (failed, said["status"], said["result"]) == (False, "completed", 29)

    serve(project, box, work)


# -- who may what


def test_a_client_with_a_token_has_its_own_grants_sessions_and_executions(project: Path, box: Sandbox) -> None:
    """As over HTTP, where each request is a caller's."""
    narrow = callers.Caller("ci", allow=("slow",), may_compose=False, may_run_agents=False)

    async def work(client: Client[Any], engine: Engine, slow: Slow) -> None:
        slow.open.set()
        await say(client, "tool_compose", source=DOUBLE)
        await say(client, "code_execute", code="mine = 1", session="work")
        _, owner = await say(client, "code_execute", code="1")

        async def as_client() -> None:
            callers.become(narrow)
            async with Client(make_server(engine.open_composer(), engine)) as other:
                failed, said = await say(other, "code_execute", code="await tools.double(n=1)")
                assert failed
                assert "not granted" in said["error"]
                failed, said = await say(other, "code_execute", code="await tools.slow(n=1)")
                assert (failed, said["result"]) == (False, 10)
                assert (await say(other, "code_execute", code="mine", session="work"))[0]
                for name, arguments, expected in (
                    ("tool_run", {"name": "double", "inputs": {"n": 1}}, "double is not granted here"),
                    ("tool_show", {"name": "double"}, "double is not granted here"),
                    ("tool_compose", {"source": DOUBLE}, "client ci may not change composed tools"),
                    ("tool_delete", {"name": "double"}, "client ci may not change composed tools"),
                    ("engine_execute", {"task": "x"}, "client ci may not use the engine"),
                    ("engine_status", {"execution_id": owner["execution_id"]}, "there is no execution"),
                    ("engine_interrupt", {"execution_id": owner["execution_id"]}, "there is no execution"),
                    ("engine_resume", {"execution_id": owner["execution_id"]}, "there is no execution"),
                ):
                    failed, text = await say(other, name, **arguments)
                    assert (failed, expected in str(text)) == (True, True), (name, text)
                assert (await say(other, "tool_list"))[1]["tools"] == []
                assert (await say(other, "tool_search", words="twice"))[1]["text"].startswith(
                    "no tool that is granted fits: "
                )
                listed = (await say(other, "engine_status"))[1]["executions"]
                assert owner["execution_id"] not in [one["execution_id"] for one in listed]
                assert len(listed) == 3

        await asyncio.create_task(as_client())

    serve(project, box, work)


@pytest.mark.parametrize("mode", ERAS)
def test_looking_around_in_a_new_folder_writes_nothing(project: Path, box: Sandbox, mode: Mode) -> None:
    (project / ".go-ent").rmdir()

    async def work(client: Client[Any], engine: Engine, slow: Slow) -> None:
        await client.list_tools()
        for name, arguments in (
            ("tool_search", {}),
            ("tool_list", {}),
            ("tool_suggest", {}),
            ("engine_status", {}),
            ("engine_budget", {}),
            ("tool_show", {"name": "nope"}),
            ("engine_status", {"execution_id": "01a1e585"}),
        ):
            await say(client, name, **arguments)
        for uri in ("go-ent://stubs", "go-ent://executions"):
            await client.read_resource(uri)
        assert os.listdir(project) == []
        failed, said = await say(client, "code_execute", code="1 + 1")
        assert (failed, said["result"]) == (False, 2)
        assert os.listdir(project) == [".go-ent"]

    serve(project, box, work, mode=mode)

"""MCP servers as sources, with real ones: a fastmcp server over stdio and over HTTP, and a bare one for how servers
die.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import psutil
import pytest

from go_ent.composer.catalogue.spec import ANYTHING, CallContext, Hints
from go_ent.composer.errors import CallError, ToolNotFound, Unavailable
from go_ent.composer.sources import mcp as upstream
from go_ent.composer.sources import mcp_answers, mcp_transports, server_config
from go_ent.composer.sources.logins import Callback
from go_ent.composer.sources.mcp import McpSource
from go_ent.composer.sources.mcp_transports import child_environment, connector
from go_ent.composer.sources.rate_limit import Bucket
from go_ent.composer.sources.server_config import ServerConfig, SourceOptions, ToolOptions
from tests.support import ROOT

EXAMPLE = ROOT / "tests" / "support" / "servers" / "example_server.py"
SECRET = "hunter2-is-no-password"
NOBODY = CallContext()

# A server that starts in no time, for tests that start many: it notes each start in the file that is its last argument.
BARE = r"""
import json, os, sys, time
mode, notes = sys.argv[1], sys.argv[-1]
with open(notes, "a") as file: file.write(f"{os.getpid()}\n")
if mode == "dies": sys.stderr.write("no licence\n"); sys.exit(7)
TOOLS = {
    "ordinary": [{"name": n, "inputSchema": {"type": "object"}}
                 for n in ("echo", "dies", "dies-again", "large", "second", "hangs", "spawns")],
    "clash": [{"name": n, "inputSchema": {"type": "object"}} for n in ("a-b", "a_b")],
    "names": [{"name": n, "inputSchema": {"type": "object"}} for n in ("__init", "good", "1st")],
    "many": [{"name": f"t{n}", "inputSchema": {"type": "object"}} for n in range(2050)],
    "huge": [{"name": "t", "description": "d" * 9000, "inputSchema": {"type": "object", "description": "x" * 300_000},
              "outputSchema": {"type": "object", "description": "x" * 300_000}}],
}
tools = TOOLS.get(mode, TOOLS["ordinary"])
for tool in tools:
    if tool["name"] == "dies-again": tool["annotations"] = {"idempotentHint": True}
new = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"} if mode == "modern" else {}
for line in sys.stdin:
    message = json.loads(line)
    method, params = message.get("method"), message.get("params") or {}
    if mode == "deaf" or "id" not in message: continue
    result = error = None
    if method == "initialize" and mode == "modern":
        error = {"code": -32022, "message": "no", "data": {"supported": ["2026-07-28"], "requested": "x"}}
    elif method == "initialize":
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "bare", "version": "1"}}
    elif method == "server/discover":
        result = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, **new}
    elif method == "tools/list":
        at = int(params.get("cursor", 0)); size = 2 if mode == "ordinary" else 5000
        result = {"tools": tools[at:at + size], **new}
        if at + size < len(tools): result["nextCursor"] = str(at + size)
    elif params["name"] in ("dies", "dies-again"):
        left = int(open(params["arguments"]["file"]).read())
        if left: open(params["arguments"]["file"], "w").write(str(left - 1)); os._exit(9)
        result = {"content": [{"type": "text", "text": "lives"}]}
    elif params["name"] == "hangs":
        with open(notes + ".hangs", "w"): continue
    elif params["name"] == "spawns":
        import subprocess
        result = {"content": [{"type": "text", "text": str(subprocess.Popen(["sleep", "600"]).pid)}]}
    elif params["name"] == "large":
        result = {"content": [{"type": "text", "text": "x" * params["arguments"]["size"]}]}
    else:
        result = {"content": [{"type": "text", "text": str(params["arguments"].get("text"))}], **new}
    print("a line that is no message"); print("{}")
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **({"error": error} if error else {"result": result})}), flush=True)
"""  # noqa: E501


class Bare:
    """The bare server's script, and how often it was started."""

    def __init__(self, folder: Path) -> None:
        self.script, self.notes = folder / "bare.py", folder / "starts"
        self.script.write_text(BARE)

    def source(self, mode: str = "ordinary", **options: Any) -> McpSource:
        return McpSource(
            "bare",
            ServerConfig(command=sys.executable, args=["-S", "-E", str(self.script), mode, str(self.notes)], **options),
        )

    @property
    def pids(self) -> list[int]:
        return [int(line) for line in self.notes.read_text().split()] if self.notes.exists() else []

    def none_left(self) -> bool:
        return not any(psutil.pid_exists(pid) for pid in self.pids)


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bare:
    monkeypatch.setattr(upstream, "FIRST_DELAY_S", 0.01)
    return Bare(tmp_path)


@contextlib.asynccontextmanager
async def closing(source: McpSource) -> AsyncIterator[McpSource]:
    try:
        yield source
    finally:
        await source.close()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - what is waited for happens in another process
            await asyncio.sleep(0.01)


class Example:
    """The example server over stdio, started once for the tests that only use it."""

    def __init__(self) -> None:
        config = ServerConfig(
            command=sys.executable,
            args=[str(EXAMPLE)],
            env={"API_KEY": "${env:KEY_OF_TEST}", "PLAIN": "plain"},
            tools={"dozes": ToolOptions(timeout_s=0.2), "no_such": ToolOptions()},
        )
        self.source = McpSource("ex", config, {**os.environ, "KEY_OF_TEST": SECRET})
        self.runner = asyncio.Runner()

    def call(self, name: str, /, **arguments: Any) -> Any:
        return self.runner.run(self.acall(name, **arguments))

    async def acall(self, name: str, /, **arguments: Any) -> Any:
        return await self.source.call(f"ex.{name}", arguments, NOBODY)


@pytest.fixture(scope="module")
def example() -> Iterator[Example]:
    example = Example()
    yield example
    example.runner.run(example.source.close())
    example.runner.close()


class TestTools:
    def test_names_hints_and_schemas(self, example: Example) -> None:
        specs = {spec.name: spec for spec in example.runner.run(example.source.tools())}
        add = specs["ex.add"]
        assert (add.description, add.origin, add.namespace) == ("Add two numbers.", "MCP server ex", "ex")
        assert add.input_schema["properties"]["b"]["description"] == "what is added"
        assert add.hints == Hints(read_only=True)
        assert specs["ex.exits"].hints == Hints(destructive=True, open_world=False)
        assert specs["ex.fails_and_counts"].hints == Hints(idempotent=True)
        assert specs["ex.person"].hints == Hints()
        assert specs["ex.with_dash_and_dot"].name == "ex.with_dash_and_dot"
        assert example.call("with_dash_and_dot") == "odd"
        assert example.source.notes == ["there are options for 'no_such', which is none of its tools"]

    def test_an_output_schema_is_that_of_what_a_caller_gets(self, example: Example) -> None:
        specs = {spec.name: spec for spec in example.runner.run(example.source.tools())}
        assert specs["ex.add"].output_schema == {"type": "integer"}
        people = specs["ex.people"].output_schema
        assert people is not None
        assert people["type"] == "array"
        person = specs["ex.person"].output_schema
        assert person is not None
        assert set(person["properties"]) == {"name", "age"}
        assert specs["ex.text"].output_schema is None

    def test_definitions_stay_with_an_unwrapped_schema(self) -> None:
        inner = {"type": "array", "items": {"$ref": "#/$defs/P"}}
        wrapped = {"type": "object", "properties": {"result": inner}, "$defs": {"P": {}}, "x-fastmcp-wrap-result": True}
        assert mcp_answers._unwrapped(wrapped) == {**inner, "$defs": {"P": {}}}

    async def test_pages_are_followed(self, bare: Bare) -> None:
        async with closing(bare.source()) as source:
            assert [spec.name for spec in await source.tools()] == [
                "bare.echo",
                "bare.dies",
                "bare.dies_again",
                "bare.large",
                "bare.second",
                "bare.hangs",
                "bare.spawns",
            ]
            assert await source.tools() is await source.tools()  # not asked again

    async def test_two_that_become_one(self, bare: Bare) -> None:
        async with closing(bare.source("clash")) as source:
            assert await source.tools() == []
            assert "'a-b' of MCP server bare and 'a_b' of MCP server bare" in source.notes[0]
            with pytest.raises(ToolNotFound, match=r"two tools are called 'bare\.a_b'"):
                await source.call("bare.a_b", {}, NOBODY)

    async def test_what_can_not_be_offered_is_left_out(self, bare: Bare) -> None:
        async with closing(bare.source("names")) as source:
            assert [spec.name for spec in await source.tools()] == ["bare.good", "bare._1st"]
            assert source.notes == ["'__init' can't be the name of a tool"]
        async with closing(bare.source("many")) as source:
            assert len(await source.tools()) == 2000
            assert source.notes == ["only the first 2000 of its tools are offered"]
        async with closing(bare.source("huge")) as source:
            (spec,) = await source.tools()
            assert (spec.input_schema, spec.output_schema) == (ANYTHING, None)
            assert len(spec.description) < 4200

    def test_a_list_that_changed_is_asked_for_again(self, example: Example) -> None:
        async def main() -> None:
            heard = asyncio.Event()
            example.source.on_change = heard.set
            before = await example.source.tools()
            await example.acall("grows", name="late")
            await asyncio.wait_for(heard.wait(), 5)
            assert {spec.name for spec in await example.source.tools()} - {spec.name for spec in before} == {"ex.late"}
            assert await example.acall("late") == "new"
            example.source.on_change = None

        example.runner.run(main())


class TestResults:
    @pytest.mark.parametrize(
        ("name", "arguments", "value"),
        [
            ("add", {"a": 1}, 2),
            ("person", {"name": "x"}, {"name": "x", "age": 7}),
            ("people", {}, [{"name": "a", "age": 1}, {"name": "b", "age": 2}]),
            ("text", {"value": "plain"}, "plain"),
            ("text", {"value": ' {"a": [1]}\n'}, {"a": [1]}),
            ("text", {"value": "[1, 2]"}, [1, 2]),
            ("text", {"value": "12"}, "12"),
            ("text", {"value": "[1, NaN]"}, "[1, NaN]"),
            ("text", {"value": '{"a": 1} and more {}'}, '{"a": 1} and more {}'),
            ("nothing", {}, None),
            ("variable", {"name": "no such"}, None),
            (
                "blocks",
                {},
                [
                    {"a": [1]},
                    "plain",
                    {"type": "resource_link", "uri": "file:///x.txt", "name": "x", "mime_type": "text/plain"},
                    {"type": "resource", "uri": "file:///y.txt", "text": "why"},
                ],
            ),
        ],
    )
    def test_what_a_caller_gets(self, example: Example, name: str, arguments: dict[str, Any], value: Any) -> None:
        assert example.call(name, **arguments) == value

    def test_a_picture(self, example: Example) -> None:
        picture = example.call("picture")
        assert (picture["mime_type"], picture["$bytes"][:8]) == ("image/png", "iVBORw0K")

    def test_a_tool_that_fails(self, example: Example) -> None:
        with pytest.raises(CallError, match=r"^Error calling tool 'fails': boom$"):
            example.call("fails", message="boom")
        with pytest.raises(CallError) as caught:
            example.call("fails", message="b" * 3000)  # the server takes a second to log a longer one
        assert len(str(caught.value)) < 2100

    def test_an_answer_is_never_asked_for_twice(self, example: Example, tmp_path: Path) -> None:
        file = tmp_path / "marks"
        with pytest.raises(CallError):
            example.call("fails_and_counts", file=str(file))
        assert file.read_text() == "x"

    def test_a_tool_that_is_not_there(self, example: Example) -> None:
        with pytest.raises(ToolNotFound, match=r"^MCP server ex has no tool ex\.missing$"):
            example.call("missing")

    def test_a_result_that_is_too_large(self, example: Example) -> None:
        with pytest.raises(CallError, match=r"the result of ex\.large is 5000002 bytes long; 4194304 are allowed"):
            example.call("large", size=5_000_000)

    async def test_a_message_that_is_too_large_ends_the_connection_before_it_is_read(
        self, bare: Bare, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(mcp_transports, "MAX_MESSAGE", 1 << 16)

        async with closing(bare.source()) as source:
            with pytest.raises(Unavailable, match="it sent a message of more than 65536 bytes"):
                await source.call("bare.large", {"size": 1 << 20}, NOBODY)
            assert await source.call("bare.echo", {"text": "hi"}, NOBODY) == "hi"

    def test_a_server_that_asks_is_declined(self, example: Example) -> None:
        with pytest.raises(CallError, match="Elicitation not supported"):
            example.call("asks")


class TestTimeAndCancellation:
    def test_a_call_that_takes_too_long_is_cancelled_there(self, example: Example, tmp_path: Path) -> None:
        file = tmp_path / "said"

        async def main() -> None:
            with pytest.raises(CallError, match=r"^ex\.dozes timed out after 0\.2 s$"):
                await example.acall("dozes", seconds=60, file=str(file))
            await until(lambda: file.exists() and file.read_text() == "cancelled")

        example.runner.run(main())

    def test_a_caller_that_is_cancelled_takes_its_call_with_it_and_nothing_else(
        self, bare: Bare, example: Example, tmp_path: Path
    ) -> None:
        file = tmp_path / "said"

        async def main() -> None:
            starts = example.source.starts
            call = asyncio.create_task(example.acall("sleeps", seconds=60, file=str(file)))
            assert await example.acall("add", a=1) == 2  # answered while the other is under way
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            await until(lambda: file.exists() and file.read_text() == "cancelled")
            assert await example.acall("add", a=1) == 2
            assert example.source.starts == starts

        example.runner.run(main())

    def test_many_at_once(self, example: Example) -> None:
        async def main() -> None:
            assert await asyncio.gather(*(example.acall("add", a=n) for n in range(50))) == list(range(1, 51))

        example.runner.run(main())


class TestSecrets:
    def test_a_child_has_only_what_it_needs_of_our_environment(self, example: Example) -> None:
        names = set(example.call("variables"))
        assert {"PATH", "API_KEY", "PLAIN"} <= names
        assert "KEY_OF_TEST" not in names
        assert {name for name in names if not name.startswith("LC_")} <= {
            *server_config.INHERITED,
            "API_KEY",
            "PLAIN",
            "GO_ENT_OWNER",
        }
        assert example.call("variable", name="API_KEY") == "[secret]", "it has it, and does not hand it on"

    def test_setting_a_variable_takes_none_away(self) -> None:
        ours = {"PATH": "/p:bin::/q", "HOME": "h", "LC_ALL": "C", "AWS_SECRET": "s", "PYTHONPATH": "x"}
        assert child_environment(ours, {"A": "1", "HOME": "other"}) == {
            "PATH": "/p:/q",
            "HOME": "other",
            "LC_ALL": "C",
            "A": "1",
        }

    def test_no_message_holds_one(self, example: Example) -> None:
        with pytest.raises(CallError, match=r"refused with \[secret\]$"):
            example.call("complains", name="API_KEY")
        with pytest.raises(Unavailable) as caught:
            example.call("exits")
        assert SECRET not in str(caught.value)
        assert "the value is [secret]" in str(caught.value)
        assert "exit code 3" in str(caught.value)
        assert "I am leaving" in str(caught.value)
        assert SECRET not in repr(example.source) + repr(vars(example.source))

    async def test_a_missing_variable_is_named(self) -> None:
        async with closing(
            McpSource("x", ServerConfig(command="x", env={"A": "${env:NOT_SET}"}), {"B": "value"})
        ) as source:
            with pytest.raises(
                Unavailable, match=r"^MCP server x: env\.A: the environment variable NOT_SET is not set$"
            ):
                await source.tools()

    async def test_nothing_of_a_child_reaches_our_own_outputs(
        self, bare: Bare, capfd: pytest.CaptureFixture[str]
    ) -> None:
        async with closing(bare.source("dies")) as source:
            with pytest.raises(Unavailable, match="no licence"):
                await source.tools()
        assert capfd.readouterr() == ("", "")


class TestLife:
    async def test_it_is_started_when_first_needed_and_once(self, bare: Bare) -> None:
        async with closing(bare.source()) as source:
            assert bare.pids == []
            calls = [source.call("bare.echo", {"text": str(n)}, NOBODY) for n in range(5)]
            assert await asyncio.gather(source.tools(), *calls) == [await source.tools(), *"01234"]
            assert len(bare.pids) == 1
        assert bare.none_left()
        with pytest.raises(Unavailable, match="MCP server bare is closed"):
            await source.tools()

    async def test_never_used_it_is_closed_at_once(self, bare: Bare) -> None:
        await bare.source().close()
        assert bare.pids == []

    async def test_the_first_user_may_be_cancelled(self, bare: Bare) -> None:
        async with closing(bare.source()) as source:
            first, second = asyncio.create_task(source.tools()), asyncio.create_task(source.tools())
            await asyncio.sleep(0)
            first.cancel()
            assert len(await second) == 7
            assert len(bare.pids) == 1

    async def test_killed_during_a_call_it_is_started_again(self, bare: Bare) -> None:
        async with closing(bare.source()) as source:
            under_way = asyncio.create_task(source.call("bare.hangs", {}, NOBODY))
            await until(bare.notes.with_suffix(".hangs").exists)
            os.kill(bare.pids[0], signal.SIGKILL)
            lost = (
                r"MCP server bare was lost during the call of bare\.hangs, which may have run: its process was "
                r"ended by signal 9"
            )
            with pytest.raises(Unavailable, match=lost):
                await under_way
            assert await source.call("bare.echo", {"text": "a"}, NOBODY) == "a"
            assert len(bare.pids) == 2
        assert bare.none_left()

    async def test_dead_between_two_calls_it_is_started_again(self, bare: Bare) -> None:
        async with closing(bare.source()) as source:
            before = await source.tools()
            changes: list[int] = []
            source.on_change = lambda: changes.append(1)
            os.kill(bare.pids[0], signal.SIGKILL)
            link = source._link
            assert link is not None
            await until(lambda: not link.alive)
            assert await source.call("bare.echo", {"text": "a"}, NOBODY) == "a"
            assert len(bare.pids) == 2
            assert changes == [1]
            assert await source.tools() == before
        assert bare.none_left()

    async def test_a_command_that_is_not_there(self) -> None:
        async with closing(McpSource("x", ServerConfig(command="no-such-command-at-all"))) as source:
            with pytest.raises(
                Unavailable, match=r"^MCP server x can't be started: No such file or directory: no-such-command-at-all$"
            ):
                await source.tools()

    async def test_one_that_dies_at_once_is_not_started_in_a_loop(
        self, bare: Bare, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(upstream, "FIRST_DELAY_S", 50.0)

        async with closing(bare.source("dies")) as source:
            with pytest.raises(
                Unavailable, match="can't be started: its process ended with exit code 7; it last wrote: no licence"
            ):
                await source.tools()
            for _ in range(5):
                with pytest.raises(Unavailable, match=r"failed 1 times; it is tried again in .* s: .*exit code 7"):
                    await source.tools()
            assert len(bare.pids) == 1

    def test_the_delay_grows_while_it_keeps_dying(self, bare: Bare, monkeypatch: pytest.MonkeyPatch) -> None:
        source = bare.source()
        now = 100.0
        monkeypatch.setattr("go_ent.composer.sources.mcp.time.monotonic", lambda: now)
        monkeypatch.setattr(upstream, "FIRST_DELAY_S", 0.25)
        delays = []
        for _ in range(10):
            source._died("x")
            delays.append(source._not_before - now)
        assert delays == [0.25, 0.5, 1, 2, 4, 8, 16, 32, 60, 60]
        source._died("x", lived=upstream.STEADY_S)
        assert source._not_before == now

    async def test_one_that_does_not_answer(self, bare: Bare) -> None:
        async with closing(bare.source("deaf", start_timeout_s=0.3)) as source:
            with pytest.raises(Unavailable, match=r"can't be started: no answer within 0\.3 s$"):
                await source.tools()
            assert bare.none_left()

    async def test_closed_while_it_starts(self, bare: Bare) -> None:
        source = bare.source("deaf")
        waiting = asyncio.create_task(source.tools())
        await until(lambda: bool(bare.pids))
        await source.close()
        with pytest.raises(Unavailable, match="MCP server bare is closed"):
            await waiting
        assert bare.none_left()

    async def test_closed_during_a_call_with_no_process_left(self, bare: Bare) -> None:
        source = bare.source()
        pids = [int(await source.call("bare.spawns", {}, NOBODY)), *bare.pids]
        assert all(_runs(pid) for pid in pids)
        call = asyncio.create_task(source.call("bare.hangs", {}, NOBODY))
        await until(bare.notes.with_suffix(".hangs").exists)
        await source.close()
        with pytest.raises(Unavailable):
            await call
        await until(lambda: not any(_runs(pid) for pid in pids))  # an orphan is reaped by init, in its own time
        assert bare.none_left()

    async def test_one_that_speaks_only_the_newer_protocol(self, bare: Bare) -> None:
        async with closing(bare.source("modern")) as source:
            assert await source.call("bare.echo", {"text": "new"}, NOBODY) == "new"


def _runs(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


class TestRetries:
    @pytest.mark.parametrize(("deaths", "starts"), [(1, 2), (2, 3)])
    async def test_a_tool_that_may_run_twice_is_called_again(
        self, bare: Bare, tmp_path: Path, deaths: int, starts: int
    ) -> None:
        file = tmp_path / "left"
        file.write_text(str(deaths))

        async with closing(bare.source()) as source:
            assert await source.call("bare.dies_again", {"file": str(file)}, NOBODY) == "lives"
            assert len(bare.pids) == starts

    @pytest.mark.parametrize(
        ("tool", "options", "left"), [("dies", {}, 8), ("dies_again", {}, 6), ("dies_again", {"retries": 0}, 8)]
    )
    async def test_and_no_more_often_than_that(
        self, bare: Bare, tmp_path: Path, tool: str, options: dict[str, int], left: int
    ) -> None:
        file = tmp_path / "left"
        file.write_text("9")

        async with closing(bare.source(tools={"dies-again": options})) as source:
            with pytest.raises(Unavailable, match="exit code 9"):
                await source.call(f"bare.{tool}", {"file": str(file)}, NOBODY)
            assert file.read_text() == str(left)


class Clock:
    """Time that passes only when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


class TestRate:
    async def test_so_many_at_once_and_then_one_by_one(self) -> None:
        clock = Clock()
        bucket = Bucket(3, 1.0, lambda: clock.now, clock.sleep)

        for _ in range(5):
            await bucket.take()
        assert clock.slept == pytest.approx([1 / 3, 1 / 3])
        clock.now += 100
        for _ in range(3):
            await bucket.take()
        assert len(clock.slept) == 2  # what was not used is not saved beyond the count

    async def test_those_who_wait_go_in_the_order_of_coming(self) -> None:
        waits: list[float] = []

        async def sleep(seconds: float) -> None:
            waits.append(seconds)

        bucket = Bucket(1, 60.0, lambda: 0.0, sleep)

        await asyncio.gather(*(bucket.take() for _ in range(4)))
        assert waits == pytest.approx([60, 120, 180])

    async def test_who_is_cancelled_gives_the_place_back(self) -> None:
        bucket = Bucket(1, 3600.0, lambda: 0.0)

        await bucket.take()
        waiting = asyncio.create_task(bucket.take())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait({waiting})
        assert bucket._left == 0

    async def test_of_a_server_and_of_a_tool(self, bare: Bare) -> None:
        clock = Clock()
        async with closing(bare.source(rate="4/s", tools={"second": {"rate": "1/m"}})) as source:
            source._bucket = Bucket(4, 1.0, lambda: clock.now, clock.sleep)
            source._tool_buckets["second"] = Bucket(1, 60.0, lambda: clock.now, clock.sleep)
            for name in ("echo", "second", "second", "echo"):
                await source.call(f"bare.{name}", {}, NOBODY)
            assert clock.slept == pytest.approx([60])


class TestInMemory:
    async def test_a_server_object(self) -> None:
        from fastmcp import FastMCP

        server: FastMCP[Any] = FastMCP("inner")

        @server.tool
        def double(n: int) -> int:
            return 2 * n

        @server.tool
        def refuses() -> None:
            raise ValueError(f"no: {SECRET}")

        options = SourceOptions(timeout_s=5)
        async with closing(
            McpSource.from_server("inner", server, options, origin="the inner", secrets=[SECRET])
        ) as source:
            assert [spec.name for spec in await source.tools()] == ["inner.double", "inner.refuses"]
            assert await source.call("inner.double", {"n": 21}, NOBODY) == 42
            with pytest.raises(CallError, match=r"no: \[secret\]$"):
                await source.call("inner.refuses", {}, NOBODY)
            assert source.origin == "the inner"

    async def test_what_the_caller_is_in_the_middle_of_is_not_passed_on(self) -> None:
        """fastmcp would forward the headers of a request to us, which it keeps in a context variable."""
        from fastmcp import FastMCP

        request = ContextVar("request", default="none")
        server: FastMCP[Any] = FastMCP("inner")

        @server.tool
        def seen() -> str:
            return request.get()

        request.set("the caller's")
        async with closing(McpSource.from_server("inner", server)) as source:
            assert await source.call("inner.seen", {}, NOBODY) == "none"


class Web:
    """The example server over HTTP, in a process of its own."""

    def __init__(self) -> None:
        self.port = 0
        self.start()

    def start(self) -> None:
        command = [sys.executable, str(EXAMPLE), "http", str(self.port), SECRET]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    def wait_until_it_listens(self) -> None:
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()

    def source(self, token: str = SECRET, **options: Any) -> McpSource:
        config = ServerConfig(url=f"http://127.0.0.1:{self.port}/mcp", token="${env:TOKEN}", **options)
        return McpSource("web", config, {"TOKEN": token})


@pytest.fixture(scope="module", autouse=True)
def starting() -> Iterator[Web]:
    """Its start takes seconds, in which the other tests go on."""
    web = Web()
    yield web
    web.stop()


@pytest.fixture(scope="module")
def web(starting: Web) -> Web:
    starting.wait_until_it_listens()
    return starting


class TestHttp:
    async def test_calls(self, web: Web, tmp_path: Path) -> None:
        async with closing(web.source(tools={"dozes": {"timeout_s": 0.2}})) as source:
            results = await asyncio.gather(*(source.call("web.add", {"a": n}, NOBODY) for n in range(10)))
            assert results == list(range(1, 11))
            assert len(await source.call("web.large", {"size": 3 << 20}, NOBODY)) == 3 << 20
            with pytest.raises(CallError, match="boom"):
                await source.call("web.fails", {"message": "boom"}, NOBODY)
            with pytest.raises(CallError, match="timed out"):
                await source.call("web.dozes", {"seconds": 60, "file": str(tmp_path / "said")}, NOBODY)
            await until(lambda: (tmp_path / "said").exists())
            assert source.starts == 1

    async def test_a_token_that_is_not_accepted(self, web: Web) -> None:
        async with closing(web.source(token="wrong-token-of-test")) as source:
            with pytest.raises(
                Unavailable,
                match=r"^MCP server web can't be reached: HTTP 401, its token is missing, wrong or expired$",
            ) as caught:
                await source.tools()
            assert "wrong-token" not in str(caught.value)

    async def test_a_login_that_the_server_does_not_offer(self, web: Web) -> None:
        config = ServerConfig(url=f"http://127.0.0.1:{web.port}/mcp", auth="oauth")

        async def show(address: str) -> None:
            raise AssertionError(address)

        async with Callback.listening(show) as callback:
            source = McpSource("web", config, connect=connector(config, None, callback))
            async with closing(source):
                with pytest.raises(Unavailable, match=r"^MCP server web can't be reached: HTTP 40[14]"):
                    await source.tools()

    @pytest.mark.more
    async def test_restarted_it_is_found_again(self, web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(upstream, "FIRST_DELAY_S", 0.01)

        async with closing(web.source()) as source:
            assert await source.call("web.add", {"a": 1}, NOBODY) == 2
            await asyncio.to_thread(web.stop)
            await asyncio.to_thread(web.start)
            await asyncio.to_thread(web.wait_until_it_listens)
            assert await source.call("web.add", {"a": 1}, NOBODY) == 2  # read-only: tried again in the same call
            assert source.starts == 2
            await source.tools()
            await asyncio.to_thread(web.stop)
            with pytest.raises(Unavailable, match=r"was lost during the call of web\.person, which may have run: "):
                await source.call("web.person", {"name": "x"}, NOBODY)
            with pytest.raises(Unavailable, match=r"can't be reached: ConnectError"):
                await source.tools()

    async def test_nobody_listens(self) -> None:
        async with closing(McpSource("x", ServerConfig(url="http://127.0.0.1:1/mcp"))) as source:
            with pytest.raises(Unavailable, match="can't be reached: ConnectError"):
                await source.tools()


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_server_from_npm(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The protocol's own example server: in another language, by other people."""
    npm = shutil.which("npm")
    assert npm, "npm is needed for this test"
    folder = tmp_path_factory.mktemp("npm")
    subprocess.run(
        [npm, "install", "--no-audit", "--no-fund", "--prefix", str(folder), "@modelcontextprotocol/server-everything"],
        check=True,
        capture_output=True,
    )

    async def main() -> None:
        command = str(folder / "node_modules" / ".bin" / "mcp-server-everything")
        async with closing(McpSource("every", ServerConfig(command=command))) as source:
            names = {spec.name for spec in await source.tools()}
            assert "every.echo" in names
            assert await source.call("every.echo", {"message": "hi"}, NOBODY) == "Echo: hi"
            with pytest.raises(CallError):
                await source.call("every.echo", {"message": 1}, NOBODY)

    asyncio.run(main())

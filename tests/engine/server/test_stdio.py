"""`go-ent serve` over stdin and stdout, as a client starts it: what it writes, how it ends, and others beside it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client
from fastmcp.client.transports import StdioTransport

from go_ent.sandbox.children.proc import read_stat
from go_ent.sandbox.images.cache import images_folder
from go_ent.sandbox.images.ensure import source_key
from go_ent.sandbox.images.seals import lock
from tests.composer.conftest import tool
from tests.composer.sources.test_mcp import BARE
from tests.support import ROOT
from tests.support.forked import Forked
from tests.support.serving import PATIENCE_S, say
from tests.support.shell import COMMAND

STEPS = "import asyncio\nfor n in range(10_000):\n    await asyncio.sleep(0.05)\n    checkpoint('at', n)\nn"
TALE = tool(
    "tale", 'def tale(n: int) -> str:\n    """Says it, on stdout too."""\n    print("out", n)\n    return str(n)\n'
)


@pytest.fixture
def project(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GO_ENT_TRUST_PROJECT", "1")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return project


def upstream(project: Path) -> Path:
    """Grant the tools of a server that can be made to die; where it notes its starts."""
    script, notes = project.parent / "bare.py", project.parent / "notes"
    script.write_text(BARE)
    argv = json.dumps([str(script), "ordinary", str(notes)])
    config = f'[grants]\nallow = ["*"]\n[servers.bare]\ncommand = {json.dumps(sys.executable)}\nargs = {argv}\n'
    (project / ".go-ent" / "config.toml").write_text(config)
    return notes


class Wire:
    """A server and the lines that go to and fro: nothing between."""

    def __init__(self, project: Path) -> None:
        self.log = project.parent / "serve.err"
        self._err = self.log.open("wb")
        self.process = Forked(
            "serve",
            cwd=project,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._err,
            env=dict(os.environ),
        )
        self.lines: list[bytes] = []
        self._id = 0
        self._answers: dict[int, dict[str, Any]] = {}

    def write(self, method: str, params: dict[str, Any], *, answered: bool = True) -> int:
        self._id += 1
        message = {"jsonrpc": "2.0", "method": method, "params": params, **({"id": self._id} if answered else {})}
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()
        return self._id

    def answer(self, number: int) -> dict[str, Any]:
        """The answer to a request. Each line that comes before it is a message too."""
        assert self.process.stdout is not None
        while number not in self._answers:
            line = self.process.stdout.readline()
            assert line, f"it said no more: {self.log.read_text()}"
            self.lines.append(line)
            found = json.loads(line)
            if "result" in found:
                self._answers[found["id"]] = found["result"]
        return self._answers.pop(number)

    def begin(self) -> None:
        client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "wire", "version": "1"}}
        assert self.answer(self.write("initialize", client))["serverInfo"]["name"] == "go-ent"
        self.write("notifications/initialized", {}, answered=False)

    def call(self, name: str, /, **arguments: Any) -> int:
        return self.write("tools/call", {"name": name, "arguments": arguments})

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self._err):
            assert stream is not None
            stream.close()


@pytest.mark.more
def test_clients_connect_before_the_sandbox_image_is_there(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a new machine. Somebody else is about to build it: the lock is theirs, so that this test waits for no
    build.
    """
    monkeypatch.setenv("GO_ENT_CACHE", str(project.parent / "cache"))
    store = project / ".go-ent" / "composed-tools"
    store.mkdir(parents=True)
    (store / "tale.py").write_text(TALE)
    with lock(images_folder() / f".{source_key()}.lock"):
        served = Wire(project)
        try:
            served.begin()
            listed = {one["name"] for one in served.answer(served.write("tools/list", {}))["tools"]}
            assert ("code_execute" in listed, "tale" in listed) == (True, False)
            assert served.answer(served.call("engine_status"))["structuredContent"] == {"executions": []}
            served.process.terminate()
            assert served.process.wait(PATIENCE_S) == 128 + signal.SIGTERM
        finally:
            served.close()
    assert not (images_folder() / source_key()).exists()


@pytest.fixture
def wire(project: Path) -> Iterator[Callable[[], Wire]]:
    made: list[Wire] = []

    def start() -> Wire:
        made.append(Wire(project))
        made[-1].begin()
        return made[-1]

    yield start
    for one in made:
        one.close()


def under_way(wire: Wire) -> str:
    """The id of the execution that runs, once its guest has said something."""
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        for row in wire.answer(wire.call("engine_status"))["structuredContent"]["executions"]:
            state = wire.answer(wire.call("engine_status", execution_id=row["execution_id"]))["structuredContent"]
            if state["status"] == "running" and state.get("checkpoints"):
                return str(row["execution_id"])
        time.sleep(0.05)
    raise AssertionError("nothing runs")


def test_stdout_has_messages_and_nothing_else(project: Path, wire: Callable[[], Wire]) -> None:
    """Whatever is printed or goes wrong: by code, by a tool's server, by who logs."""
    upstream(project)
    served = wire()
    dies = project.parent / "dies"
    dies.write_text("1")
    for name, arguments, fails in (
        ("code_execute", {"code": "import sys\nprint('out')\nprint('err', file=sys.stderr)"}, False),
        ("tool_compose", {"source": TALE}, False),
        ("tale", {"n": 1}, False),
        ("tool_search", {"words": 7}, True),
        ("nothing_such", {}, True),
        ("code_execute", {"code": "await tools.bare.echo(text='x')"}, False),
        ("code_execute", {"code": f"await tools.bare.dies(file={str(dies)!r})"}, True),
        ("engine_execute", {"task": "x", "command": "none"}, True),
    ):
        assert bool(served.answer(served.call(name, **arguments)).get("isError")) is fails, name
    assert served.process.stdin is not None
    served.process.stdin.close()
    assert served.process.stdout is not None
    served.lines += served.process.stdout.readlines()
    assert served.process.wait(PATIENCE_S) == 0
    assert len(served.lines) >= 9
    for line in served.lines:
        assert json.loads(line)["jsonrpc"] == "2.0"
    assert b"Invalid arguments for tool 'tool_search'" in served.log.read_bytes()  # which is where the log is


def test_a_signal_interrupts_what_runs_and_answers_before_it_ends(wire: Callable[[], Wire]) -> None:
    served = wire()
    waits = served.call("code_execute", code=STEPS)
    found = under_way(served)
    served.process.terminate()
    answer = served.answer(waits)
    assert (answer["isError"], answer["structuredContent"]["status"]) == (True, "interrupted")
    assert answer["structuredContent"]["execution_id"] == found
    assert served.process.wait(PATIENCE_S) == 128 + signal.SIGTERM
    assert "Traceback" not in served.log.read_text()


def test_of_two_servers_one_has_an_execution_and_the_other_may_stop_it(wire: Callable[[], Wire]) -> None:
    first, second = wire(), wire()
    waits = first.call("code_execute", code=STEPS)
    found = under_way(second)
    refused = second.answer(second.call("engine_resume", execution_id=found))
    assert refused["isError"]
    assert f"is being run by process {first.process.pid}" in refused["content"][0]["text"]
    stopped = second.answer(second.call("engine_interrupt", execution_id=found))["structuredContent"]
    assert (stopped["status"], stopped["resumable"]) == ("interrupted", True)
    assert first.answer(waits)["structuredContent"]["status"] == "interrupted"
    second.call("engine_resume", execution_id=found)
    assert under_way(first) == found
    second.process.kill()
    second.process.wait()
    assert first.answer(first.call("engine_status", execution_id=found))["structuredContent"]["status"] == "interrupted"
    again = first.call("engine_resume", execution_id=found)
    assert under_way(first) == found
    given_up = first.answer(
        first.call("engine_interrupt", execution_id=found, cancel=True)
    )  # it has hardly begun to go on
    assert given_up["structuredContent"]["status"] == "cancelled"
    assert first.answer(again)["structuredContent"]["status"] == "interrupted"


async def test_a_tools_server_that_dies_is_an_error_of_the_call_and_is_there_for_the_next(project: Path) -> None:
    notes = upstream(project)
    dies = project.parent / "dies"
    dies.write_text("1")

    transport = StdioTransport(
        COMMAND[0], [*COMMAND[1:], "serve"], cwd=str(project), env=dict(os.environ), keep_alive=False
    )
    async with Client(transport) as client:
        assert (await say(client, "code_execute", code="await tools.bare.echo(text='one')"))[1]["result"] == "one"
        failed, said = await say(client, "code_execute", code=f"await tools.bare.dies(file={str(dies)!r})")
        assert (failed, said["status"]) == (True, "error")
        assert (
            "ToolError: bare.dies: MCP server bare was lost during the call of bare.dies, which may have run"
            in said["error"]
        )
        failed, said = await say(client, "code_execute", code="await tools.bare.echo(text='two')")
        assert (failed, said["result"]) == (False, "two")
        pid = int(notes.read_text().split()[-1])
        os.kill(pid, signal.SIGKILL)  # between two calls, this time
        while read_stat(pid) is not None:  # until go-ent has noticed
            await say(client, "code_execute", code="1")
        failed, said = await say(client, "code_execute", code="await tools.bare.echo(text='three')")
        assert (failed, said["result"]) == (False, "three")
        assert len(notes.read_text().split()) >= 3

"""kill -9 of a served project's processes: of the server, of a worker, of the zygote, of an MCP server whose tools are
called.

What single parts do is proved beside them: tests/engine/executions/test_crashes.py, tests/composer/sources/test_mcp.py,
tests/sandbox/. Here real clients of a real server see it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import re
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport

from go_ent.engine.core import crash_points
from tests.support.executions import FileStore
from tests.support.serving import MODES, Served, say, serving, talk

pytestmark = pytest.mark.more

PATIENCE_S = 60
UPSTREAM = Path(__file__).parent / "upstream.py"
CLIENTS = 4
NOT_OF_CODE = {"repair-before-swap", "step-before-start", "step-after-end"}  # they come with a resume, or with tasks


def made(folder: Path) -> Path:
    """A project whose code may call a bare MCP server."""
    project = folder / "project"
    (project / ".go-ent").mkdir(parents=True)
    arguments = ["-S", "-E", str(UPSTREAM), str(folder / "notes")]
    config = f'[grants]\nallow = ["up.*"]\n[servers.up]\ncommand = "{sys.executable}"\nargs = {json.dumps(arguments)}\n'
    (project / ".go-ent" / "config.toml").write_text(config)
    return project


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return made(tmp_path)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(made(tmp_path_factory.mktemp("killed"))) as server:
        yield server
        assert "Traceback" not in server.said()


def notes(project: Path, word: str) -> list[int]:
    """What the MCP server has noted of that kind."""
    path = project.parent / "notes"
    return [
        int(number)
        for number in re.findall(rf"^{word} (\d+)$", path.read_text() if path.exists() else "", re.MULTILINE)
    ]


async def soon(true: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not await asyncio.to_thread(true):  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.01)


def look_at(served: Served, seen: set[psutil.Process]) -> None:
    """Add what descends from it now, if it is still there."""
    with contextlib.suppress(psutil.NoSuchProcess):
        seen.update(psutil.Process(served.process.pid).children(recursive=True))


def tool(number: int) -> str:
    return (
        f'# /// tool\n# name = "t{number}"\n# ///\ndef t{number}() -> int:\n    """A number."""\n    return {number}\n'
    )


class Told:
    """What clients were told that is done."""

    def __init__(self) -> None:
        self.runs: dict[str, int] = {}  # what each came to, by its execution
        self.tools: list[int] = []
        self.lives = 0


CODE = """
import asyncio
for n in range(3):
    await asyncio.sleep(0.01)
    checkpoint('at', n)
await tools.up.echo(n=number)
number * 2
"""
PACKED = "number * 3"  # touches nothing: it is in memory until it ends, and then in a file with others


async def ask_for_ever(served: Served, number: int, told: Told) -> None:
    """One client: runs code and composes tools until the server is gone."""
    async with Client(StreamableHttpTransport(served.url), mode=MODES[number % 2]) as client:
        for turn in range(1000):
            value = (told.lives * CLIENTS + number) * 1000 + turn
            failed, said = await say(client, "code_execute", code=CODE, inputs={"number": value})
            assert not failed, said
            told.runs[said["execution_id"]] = value * 2
            failed, said = await say(client, "code_execute", code=PACKED, inputs={"number": value})
            assert not failed, said
            told.runs[said["execution_id"]] = value * 3
            if turn % 4 == 0:
                failed, said = await say(client, "tool_compose", source=tool(value))
                assert not failed, said
                told.tools.append(value)


def live_and_die(project: Path, told: Told, die: Callable[[Served], Awaitable[None]], crash: str = "") -> None:
    """A server with clients at work, until it is killed: they hear of it, and none of its processes is left."""

    seen: set[psutil.Process] = set()
    known = len(told.runs)

    def far_enough(served: Served) -> bool:
        look_at(served, seen)
        return len(told.runs) > known or served.process.poll() is not None

    async def main(served: Served) -> None:
        asking = [asyncio.create_task(ask_for_ever(served, number, told)) for number in range(CLIENTS)]
        await soon(lambda: far_enough(served))
        await die(served)
        done, late = await asyncio.wait(asking, timeout=PATIENCE_S)
        assert not late
        assert all(
            isinstance(one.exception(), Exception) and not isinstance(one.exception(), AssertionError) for one in done
        ), done

    with serving(project, env={"GO_ENT_CRASH": crash} if crash else None) as served:
        asyncio.run(main(served))
        assert served.process.wait(PATIENCE_S) == -signal.SIGKILL
    assert seen
    _, alive = psutil.wait_procs(list(seen), timeout=PATIENCE_S)
    assert [one for one in alive if one.status() != psutil.STATUS_ZOMBIE] == []
    told.lives += 1


def check(project: Path, told: Told) -> None:
    """All that clients were told is there; what was under way is interrupted, and goes on in the next server."""
    store = FileStore(project)
    rows = {row.id: row.status for row in store.rows(limit=10_000)}
    store.index.close()
    assert {name: rows.get(name) for name in told.runs} == dict.fromkeys(told.runs, "completed")

    async def look(client: Client[Any]) -> None:
        for execution_id, value in list(told.runs.items())[-20:]:
            _, said = await say(client, "engine_status", execution_id=execution_id)
            assert (said["status"], said["output"]) == ("completed", str(value))
        for execution_id in [name for name, status in rows.items() if status != "completed"]:
            _, state = await say(client, "engine_status", execution_id=execution_id)
            assert (state["status"], state["resumable"]) == ("interrupted", True)
            failed, said = await say(client, "engine_resume", execution_id=execution_id, unfinished=["retry"])
            assert (failed, said["status"]) == (False, "completed"), said
        for number in told.tools:
            failed, said = await say(client, "tool_run", name=f"t{number}", inputs={})
            assert (failed, said["result"]) == (False, number)

    with serving(project) as served:
        talk(served, look)


class TestServer:
    @pytest.mark.parametrize("lives", [1, pytest.param(12, marks=[pytest.mark.long, pytest.mark.timeout(600)])])
    def test_killed_with_clients_at_work_nothing_that_was_answered_is_lost_and_the_rest_goes_on(
        self, project: Path, lives: int
    ) -> None:
        seed = random.SystemRandom().randrange(1 << 32)
        print(f"the seed is {seed}")
        chance, told = random.Random(seed), Told()
        for _ in range(lives):
            known = len(told.runs)

            async def kill(served: Served, known: int = known) -> None:
                await soon(lambda: len(told.runs) >= known + 8)
                await asyncio.sleep(chance.uniform(0.0, 0.5))  # the moment is what is tried
                served.process.kill()

            live_and_die(project, told, kill)
        check(project, told)

    @pytest.mark.long
    @pytest.mark.parametrize("point", sorted(set(crash_points.NAMES) - NOT_OF_CODE))
    def test_killed_in_the_middle_of_a_write(self, project: Path, point: str) -> None:
        told = Told()

        async def wait(served: Served) -> None:
            await soon(lambda: served.process.poll() is not None)

        live_and_die(project, told, wait, crash=f"{point}:12")
        check(project, told)


class TestWorker:
    @pytest.mark.parametrize("victim", ["worker", "zygote"])
    async def test_killed_it_costs_its_runs_which_say_so_and_the_server_goes_on(
        self, served: Served, victim: str
    ) -> None:
        """Two runs are under way, one of which spins: that tells which worker is whose."""

        def busy(zygote: psutil.Process) -> psutil.Process | None:
            used = {one: sum(one.cpu_times()[:2]) for one in zygote.children()}
            return next((one for one, seconds in used.items() if seconds > 0.3), None)

        async with (
            Client(StreamableHttpTransport(served.url)) as client,
            Client(StreamableHttpTransport(served.url)) as other,
        ):
            assert not (await say(client, "code_execute", code="await tools.up.echo(n=1)"))[0]
            (zygote,) = [
                one
                for one in psutil.Process(served.process.pid).children()
                if "sandbox.worker.zygote" in " ".join(one.cmdline())
            ]
            number, limits = (8 if victim == "zygote" else 9), {"timeout_s": 4}
            waits = asyncio.create_task(
                say(other, "code_execute", code=f"await tools.up.hang(n={number})", limits=limits)
            )
            await soon(lambda: number in notes(served.project, "hang"))
            spins = asyncio.create_task(say(client, "code_execute", code="while True: pass"))
            await soon(lambda: busy(zygote))
            worker = busy(zygote)
            assert worker is not None
            (zygote if victim == "zygote" else worker).kill()
            failed, lost = await spins
            assert (failed, lost["status"]) == (True, "crashed")
            assert "its worker died" in lost["error"]
            assert "it can be run again" in lost["hint"]
            failed, spared = await waits
            assert (failed, spared["status"]) == (True, "crashed" if victim == "zygote" else "timeout")
            failed, said = await say(client, "code_execute", code="6 * 7")
            assert (failed, said["result"]) == (False, 42)
            _, state = await say(client, "engine_status", execution_id=lost["execution_id"])
            assert (state["status"], state["resumable"]) == ("failed", True)


class TestUpstream:
    CATCHES = """
try:
    await tools.up.hang(n=4)
except ToolError as error:
    found = str(error)
[found, await tools.up.echo(n=5)]
"""

    async def test_killed_in_the_middle_of_a_call_it_is_named_and_started_again(self, served: Served) -> None:
        async with Client(StreamableHttpTransport(served.url)) as client:
            running = asyncio.create_task(say(client, "code_execute", code="await tools.up.hang(n=3)"))
            await soon(lambda: 3 in notes(served.project, "hang"))
            starts = len(notes(served.project, "start"))
            os.kill(notes(served.project, "start")[-1], signal.SIGKILL)
            failed, said = await running
            assert (failed, said["status"]) == (True, "error")
            assert (
                "ToolError: up.hang: MCP server up was lost during the call of up.hang, which may have run"
                in said["error"]
            )
            running = asyncio.create_task(say(client, "code_execute", code=self.CATCHES))
            await soon(lambda: 4 in notes(served.project, "hang"))
            os.kill(notes(served.project, "start")[-1], signal.SIGKILL)
            failed, said = await running
            assert (failed, "may have run" in said["result"][0], said["result"][1]) == (False, True, "5")
            assert len(notes(served.project, "start")) == starts + 2
            failed, said = await say(client, "code_execute", code="await tools.up.echo(n=6)")
            assert (failed, said["result"]) == (False, "6")
            assert (notes(served.project, "hang")[-2:], notes(served.project, "echo")[-2:]) == ([3, 4], [5, 6]), (
                "no call was made twice"
            )

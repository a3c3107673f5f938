"""Whoever changes a composed tool, and however: the clients that are connected learn of it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Literal

import pytest
from fastmcp import Client, FastMCP
from fastmcp.client.messages import MessageHandler
from fastmcp.client.transports import StdioTransport
from mcp.client.subscriptions import listen
from mcp.shared.subscriptions import ResourceUpdated
from mcp_types import ToolListChangedNotification

from go_ent.composer import Composer
from go_ent.composer.project.image import project_image
from go_ent.engine import Engine
from go_ent.engine.server import make_server
from go_ent.engine.server.calls.callers import Caller, become
from go_ent.engine.server.tools.changes import Changes
from go_ent.sandbox import Sandbox
from go_ent.sandbox.images import Image
from tests.support import ROOT
from tests.support.forked import Forked
from tests.support.serving import ERAS

COMMAND = [sys.executable, "-c", "from go_ent.engine.cli import main; main()"]
Era = Literal["auto", "legacy"]
WAIT_S = 30.0


def tool(name: str, text: str = "How long it is.") -> str:
    return f'# /// tool\n# name = "{name}"\n# ///\ndef {name}(q: str) -> int:\n    """{text}"""\n    return len(q)\n'


class Ear(MessageHandler):
    """Hears that the list of tools has changed."""

    def __init__(self) -> None:
        self.heard: asyncio.Queue[None] = asyncio.Queue()

    async def on_tool_list_changed(self, message: ToolListChangedNotification) -> None:
        self.heard.put_nowait(None)

    async def news(self) -> None:
        await asyncio.wait_for(self.heard.get(), WAIT_S)


@contextlib.asynccontextmanager
async def connected(to: Any, mode: Era) -> AsyncIterator[tuple[Client[Any], Ear]]:
    """A client that listens, in the way of its era."""
    ear = Ear()
    async with Client(to, mode=mode, message_handler=ear) as client:
        capabilities = client.server_capabilities
        assert capabilities is not None
        assert capabilities.tools is not None
        assert capabilities.tools.list_changed is True
        async with listen(client.session, tools_list_changed=True) if mode == "auto" else contextlib.nullcontext():
            yield client, ear


@contextlib.asynccontextmanager
async def serving(project: Path, box: Sandbox) -> AsyncIterator[FastMCP]:
    async with Composer(project, box=box) as composer, Engine(project, composer=composer) as engine:
        yield make_server(composer, engine)


async def names(client: Client[Any]) -> set[str]:
    return {one.name for one in await client.list_tools()}


async def until(reached: Callable[[], bool]) -> None:
    for _ in range(1000):
        if reached():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it was never reached")


def watcher(server: FastMCP) -> Changes:
    return next(provider for provider in server.providers if isinstance(provider, Changes))


async def go_ent(project: Path, *arguments: str) -> None:
    """The command line, as another process."""
    with Forked(*arguments, cwd=project, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as command:
        _, said = await asyncio.to_thread(command.communicate, timeout=60)
    assert command.returncode == 0, said.decode()


@pytest.mark.parametrize("mode", ERAS)
async def test_what_a_client_changes_itself_is_told_at_once(
    project: Path, box: Sandbox, mode: Era, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "go_ent.engine.server.tools.changes.PAUSE_S", 1000.0
    )  # nobody looks but the one who changes something

    async with serving(project, box) as server, connected(server, mode) as (client, ear):
        await client.call_tool("tool_compose", {"source": tool("measure")})
        await ear.news()
        assert "measure" in await names(client)
        assert (await client.call_tool("measure", {"q": "abc"})).data == 3
        await client.call_tool("tool_compose", {"source": tool("measure", "Its length.")})
        await ear.news()
        assert "Its length." in {one.description for one in await client.list_tools()}
        await client.call_tool("tool_rollback", {"name": "measure", "version": 1})
        await ear.news()
        assert "How long it is." in {one.description for one in await client.list_tools()}
        await client.call_tool("tool_delete", {"name": "measure"})
        await ear.news()
        assert "measure" not in await names(client)
        assert ear.heard.empty()


async def test_two_clients_see_what_the_command_line_does(project: Path, box: Sandbox) -> None:
    """In a folder that was never set up: the store's folder comes with the first tool."""
    (project / ".go-ent").rmdir()
    (project / "measure.py").write_text(tool("measure"))

    async with (
        serving(project, box) as server,
        connected(server, "auto") as (new, new_ear),
        connected(server, "legacy") as (old, old_ear),
    ):
        assert not (project / ".go-ent").exists()
        await go_ent(project, "tool", "add", "measure.py")
        for client, ear in ((new, new_ear), (old, old_ear)):
            await ear.news()
            assert (await client.call_tool("measure", {"q": "abc"})).data == 3
            assert "measure" in await names(client)
        (project / ".go-ent" / "composed-tools" / "measure.py").unlink()
        for client, ear in ((new, new_ear), (old, old_ear)):
            await ear.news()
            assert "measure" not in await names(client)


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize("store", ["project/.go-ent", "user"])
async def test_an_editors_changes_are_seen_in_both_stores(
    project: Path, box: Sandbox, mode: Era, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("go_ent.engine.server.tools.changes.PAUSE_S", 0.05)
    path = project.parent / store / "composed-tools" / "measure.py"

    def make() -> None:
        path.parent.mkdir(parents=True)
        path.write_text(tool("measure"))

    def edit() -> None:
        with open(path, "r+") as file:
            text = file.read().replace("How long it is.", "Its length.")
            file.seek(0)
            file.write(text)
            file.truncate()

    def spoil() -> None:
        path.write_text("def measure(:\n")

    def mend() -> None:
        replacement = path.with_name(".measure.py.swp")
        replacement.write_text(tool("measure", "It is back."))
        replacement.replace(path)

    async with serving(project, box) as server, connected(server, mode) as (client, ear):
        await client.call_tool("tool_list", {})
        steps: list[tuple[Callable[[], object], str | None]] = [
            (make, "How long it is."),
            (edit, "Its length."),
            (spoil, None),
            (mend, "It is back."),
            (path.unlink, None),
        ]
        for change, expected in steps:
            await asyncio.to_thread(change)
            await ear.news()
            while not ear.heard.empty():  # a file is seen half-written, and then whole
                ear.heard.get_nowait()
            shown = {one.name: one.description for one in await client.list_tools()}
            if shown.get("measure") != expected:
                await ear.news()
                shown = {one.name: one.description for one in await client.list_tools()}
            assert shown.get("measure") == expected, change
            assert "tool_run" in shown


@pytest.mark.parametrize("mode", ERAS)
async def test_nothing_is_told_if_nothing_has_changed_that_is_listed(project: Path, box: Sandbox, mode: Era) -> None:
    async with serving(project, box) as server, connected(server, mode) as (client, ear):
        watch = watcher(server)
        await client.call_tool("tool_compose", {"source": tool("measure")})
        await ear.news()
        folder = project / ".go-ent" / "composed-tools"
        os.utime(folder / "measure.py", (1, 1))
        await watch.look()
        (folder / "notes.txt").write_text("not a tool")
        (folder / "Broken.py").write_text("not a tool either")
        (folder / "broken.py").write_text("nor this")
        await watch.look()
        (folder / "measure.py").write_text(
            (folder / "measure.py").read_text().replace("return len(q)", "return len(q) + 0")
        )
        await watch.look()
        await client.call_tool("measure", {"q": "abc"})
        await watch.look()
        assert not (await client.call_tool("tool_compose", {"source": tool("measure", "Other.")})).is_error
        await ear.news()
        assert ear.heard.empty()


async def test_a_subscriber_to_the_stubs_hears_that_they_have_changed(project: Path, box: Sandbox) -> None:
    async with (
        serving(project, box) as server,
        Client(server) as client,
        listen(client.session, resource_subscriptions=["go-ent://stubs"]) as heard,
    ):
        await client.call_tool("tool_compose", {"source": tool("measure")})
        assert await asyncio.wait_for(anext(heard), WAIT_S) == ResourceUpdated(uri="go-ent://stubs")
        stubs = await client.read_resource("go-ent://stubs")
        assert "measure" in getattr(stubs[0], "text", "")


async def test_a_caller_hears_of_what_it_can_see(project: Path, box: Sandbox) -> None:
    async def narrow(server: FastMCP, ready: asyncio.Event, done: asyncio.Event) -> int:
        become(Caller("narrow", allow=("shown",)))
        async with connected(server, "auto") as (client, new), connected(server, "legacy") as (_, old):
            ready.set()
            await done.wait()
            for ear in (new, old):
                await ear.news()
            assert {"shown", "hidden"} & await names(client) == {"shown"}
            return new.heard.qsize() + old.heard.qsize()

    async with serving(project, box) as server, connected(server, "auto") as (client, ear):
        ready, done = asyncio.Event(), asyncio.Event()
        other = asyncio.create_task(narrow(server, ready, done))
        await asyncio.wait_for(ready.wait(), WAIT_S)
        await watcher(server).look()
        for name in ("hidden", "shown"):
            await client.call_tool("tool_compose", {"source": tool(name)})
            await ear.news()
        done.set()
        assert await asyncio.wait_for(other, WAIT_S) == 0


@pytest.mark.parametrize("mode", ERAS)
async def test_it_looks_only_while_somebody_listens_and_leaves_nothing_behind(
    project: Path, box: Sandbox, mode: Era
) -> None:
    async with serving(project, box) as server:
        tasks = asyncio.all_tasks()
        async with Client(server) as silent:  # of the new protocol, and it subscribes to nothing
            await silent.list_tools()
            watch = watcher(server)
            assert not watch.watching
            async with connected(server, mode) as (client, ear):
                await until(lambda: watch.watching)  # the end of an old handshake is not answered
                await client.call_tool("tool_compose", {"source": tool("measure")})
                await ear.news()
                threads = threading.active_count()
                for _ in range(20):
                    await watch.look()
                assert threading.active_count() < threads + 10  # a pool may grow; not one for each
            await until(lambda: not watch.watching)  # the server hears of the end a moment later
        assert asyncio.all_tasks() == tasks


@pytest.mark.parametrize("mode", ERAS)
async def test_what_is_there_is_listed_as_soon_as_the_sandbox_image_is(
    project: Path, mode: Era, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the image has to be built first, a client has the server's own tools meanwhile, and a call of them says
    what it waits for.
    """
    monkeypatch.setattr("go_ent.engine.server.tools.named.IMAGE_S", 0.05)
    folder = project / ".go-ent" / "composed-tools"
    folder.mkdir(parents=True)
    (folder / "measure.py").write_text(tool("measure"))
    built, told, waiting = threading.Event(), list[str](), asyncio.Event()

    def build() -> Image:
        assert built.wait(WAIT_S)
        return project_image(project)

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        told.append(message or "")
        waiting.set()

    with contextlib.closing(Sandbox(image=build)) as cold:
        async with serving(project, cold) as server, connected(server, mode) as (client, ear):
            shown = await names(client)
            assert ("code_execute" in shown, "measure" in shown) == (True, False)
            running = asyncio.create_task(client.call_tool("code_execute", {"code": "6 * 7"}, progress_handler=hear))
            await asyncio.wait_for(waiting.wait(), WAIT_S)
            assert told[0].startswith("waiting for the sandbox image")
            built.set()
            assert ((await running).structured_content or {})["result"] == 42
            await ear.news()
            assert "measure" in await names(client)


async def test_over_stdio_beside_another_server_of_the_project(project: Path, box: Sandbox) -> None:
    """As a client starts it: what another server's client composes, and what the command line adds, its model sees."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    (project / "added.py").write_text(tool("added"))

    transport = StdioTransport(COMMAND[0], [*COMMAND[1:], "serve"], cwd=str(project), env=environment)
    async with (
        connected(transport, "auto") as (first, first_ear),
        serving(project, box) as server,
        connected(server, "legacy") as (second, second_ear),
    ):
        await second.call_tool("tool_compose", {"source": tool("composed")})
        for client, ear in ((first, first_ear), (second, second_ear)):
            await ear.news()
            assert (await client.call_tool("composed", {"q": "abc"})).data == 3
        await go_ent(project, "tool", "add", "added.py")
        for client, ear in ((first, first_ear), (second, second_ear)):
            await ear.news()
            assert {"composed", "added"} <= await names(client)

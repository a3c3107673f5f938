"""What a running server's clients may call follows `go-ent grant` and `go-ent revoke`."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from fastmcp import Client

from go_ent.composer import Composer
from go_ent.composer.sources.functions import FunctionSource
from go_ent.engine import Engine
from go_ent.engine.server import make_server
from go_ent.sandbox import Sandbox


def order(order_id: str) -> str:
    """Get one order."""
    return order_id


def send(text: str) -> str:
    """Send a message."""
    return text


def configured(project: Path, text: str) -> None:
    file = project / ".go-ent" / "config.toml"
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)


async def test_the_list_and_the_calls_follow_the_configuration(project: Path, box: Sandbox) -> None:
    await asyncio.to_thread(configured, project, '[grants]\nallow = ["desk.order"]\n')
    heard = asyncio.Event()

    async def hear(message: Any) -> None:
        heard.set()

    source = FunctionSource([order, send], "desk")
    composer = Composer(project, sources=[source], box=box, trusted=True)
    async with (
        composer,
        Engine(project, composer=composer, trusted=True) as engine,
        Client(make_server(composer, engine, profile="code"), mode="legacy", message_handler=hear) as client,
    ):

        async def described() -> str:
            (code,) = [one for one in await client.list_tools() if one.name == "code_execute"]
            return code.description or ""

        async def sent() -> Any:
            done = await client.call_tool_mcp("code_execute", {"code": "await tools.desk.send(text='hi')"})
            return done.structured_content

        assert "desk.send(" not in await described()
        assert "not granted" in (await sent())["error"]
        await asyncio.sleep(0.6)  # that it has looked once what is listed
        heard.clear()
        await asyncio.to_thread(configured, project, '[grants]\nallow = ["desk.*"]\n')
        async with asyncio.timeout(10):
            await heard.wait()
        assert "desk.send(" in await described()
        assert (await sent())["result"] == "hi"

        await asyncio.to_thread(configured, project, '[grants]\nallow = ["desk.*"\n')  # broken: nothing changes
        assert (await sent())["result"] == "hi"
        await asyncio.to_thread(configured, project, '[grants]\nallow = ["desk.order"]\n')
        assert "not granted" in (await sent())["error"]
        await asyncio.to_thread((project / ".go-ent" / "config.toml").unlink)
        assert "desk." not in await described()


async def test_settings_that_a_program_gave_are_not_followed(project: Path, box: Sandbox) -> None:
    from go_ent.composer.config import Config

    async with Composer(project, config=Config(allow=("desk.order",)), box=box) as composer:
        await asyncio.to_thread(configured, project, '[grants]\nallow = ["*"]\n')
        assert not await composer.live_config.follow()
        assert not composer.grants.allows("desk.send")

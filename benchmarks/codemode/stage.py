"""Plays a scenario in each of its ways on real servers, and holds every answer to the right one."""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from fastmcp import Client

from benchmarks.codemode import fastmcp_peer
from benchmarks.codemode.scenarios import DEFINED, Scenario, Script, Wrong, by_composed, in_code
from benchmarks.codemode.talk import Call, Talk, definitions
from benchmarks.codemode.world import World, make_upstream
from go_ent.composer import Composer, Config
from go_ent.composer.sources.mcp import McpSource
from go_ent.engine import Engine
from go_ent.engine.server import INSTRUCTIONS, make_server
from go_ent.engine.tokens import count
from go_ent.sandbox import Sandbox

Way = Literal["direct", "direct, parallel", "FastMCP CodeMode", "code mode", "composed"]
WAYS: tuple[Way, ...] = ("direct", "direct, parallel", "code mode", "composed")
PEER: Way = "FastMCP CodeMode"  # where its interpreter is installed


@dataclass(frozen=True)
class Played:
    """What one way of one scenario took: the conversation, the seconds in tools and sandbox, and how much the tools said."""

    talk: Talk
    seconds: float
    calls: int
    heard: int  # characters of all results


@dataclass(frozen=True)
class Place:
    """A client of a server, and what stands before every conversation with it."""

    client: Client[Any]
    prefix: int
    tools: int
    definitions: int
    told: str = ""


@dataclass(frozen=True)
class Stage:
    """The servers for tool lists of one size: the upstream itself, and ours over it, with and without composed tools."""

    world: World
    places: dict[Way, Place]
    saved: dict[str, str]  # what our server said to each tool that was composed

    async def play(self, scenario: Scenario, way: Way, mark: str = "") -> Played:
        """Do the task that way. Raises `Wrong` if the answer, or what was sent, is not as it should be."""
        place = self.places[way]
        DEFINED[0] = place.told
        self.world.sent.clear()
        talk = Talk(place.prefix)
        talk.add(scenario.task)
        played = await _played(script_of(scenario, way, mark), place.client, talk, one_by_one=way == "direct")
        answer, seconds, calls, heard = played
        if answer != (right := scenario.expected(self.world)):
            raise Wrong(f"{scenario.name}, {way}: the answer is {answer!r}, and should be {right!r}")
        if sorted(self.world.sent) != (
            sent := sorted(scenario.sends(self.world))
        ):  # calls in parallel come in any order
            raise Wrong(f"{scenario.name}, {way}: {self.world.sent!r} was sent, and not {sent!r}")
        talk.turn(str(answer))
        return Played(talk, seconds, calls, heard)

    def composing(self, scenario: Scenario, coded: Played) -> int:
        """The tokens that it takes once, after the code has worked, to have it saved as a tool."""
        talk = Talk(coded.talk.prefix, coded.talk.said, list(coded.talk.turns))
        talk.call([Call("tool_compose", {"source": scenario.tool})])
        talk.add(self.saved[scenario.composed])
        talk.turn("saved")
        return talk.tokens - coded.talk.tokens


def script_of(scenario: Scenario, way: Way, mark: str) -> Script:
    match way:
        case "direct" | "direct, parallel":
            return scenario.direct()
        case "FastMCP CodeMode":
            return fastmcp_peer.script(scenario)
        case "code mode":
            return (scenario.by_code or in_code)(scenario, mark)
        case "composed":
            return (scenario.by_tool or by_composed)(scenario)


async def _played(script: Script, client: Client[Any], talk: Talk, *, one_by_one: bool) -> tuple[Any, float, int, int]:
    seconds, made, heard = 0.0, 0, 0
    try:
        calls = next(script)
        while True:
            texts: list[str] = []
            for group in [[call] for call in calls] if one_by_one else [list(calls)]:
                talk.call(group)
                started = time.perf_counter()
                said = await asyncio.gather(*(_asked(client, call) for call in group))
                seconds += time.perf_counter() - started
                for text in said:
                    talk.add(text)
                texts += said
            made, heard = made + len(texts), heard + sum(map(len, texts))
            calls = script.send(texts)
    except StopIteration as ended:
        return ended.value, seconds, made, heard


async def _asked(client: Client[Any], call: Call) -> str:
    result = await client.call_tool_mcp(call.name, call.arguments)
    text = "".join(block.text for block in result.content if block.type == "text")
    if result.is_error:
        raise Wrong(f"{call.name}: {text}")
    return text


@asynccontextmanager
async def stage(world: World, size: int, played: Iterable[Scenario], box: Sandbox) -> AsyncIterator[Stage]:
    """Servers with *size* tools upstream; the composed tools of the scenarios that are *played* are saved on one of ours."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        stack.callback(_environment("GO_ENT_DATA", str(folder / "user")))
        direct = await _direct(stack, world, size)
        code, _ = await _ours(stack, world, size, folder / "code", box, [])
        composed, saved = await _ours(stack, world, size, folder / "composed", box, played)
        places: dict[Way, Place] = {
            "direct": direct,
            "direct, parallel": direct,
            "code mode": code,
            "composed": composed,
        }
        if (peer := await fastmcp_peer.open_client(stack, world, size)) is not None:
            places[PEER] = await _place(peer)
        yield Stage(world, places, saved)


def _environment(name: str, value: str) -> Any:
    """Set a variable; what is returned brings back what it was."""
    before = os.environ.get(name)
    os.environ[name] = value
    return lambda: os.environ.pop(name) if before is None else os.environ.__setitem__(name, before)


async def _direct(stack: AsyncExitStack, world: World, size: int) -> Place:
    return await _place(await stack.enter_async_context(Client(make_upstream(world, size))))


async def _place(client: Client[Any]) -> Place:
    listed = await client.list_tools()
    told = count(definitions(listed))
    return Place(client, told, len(listed), told)


async def _ours(
    stack: AsyncExitStack, world: World, size: int, folder: Path, box: Sandbox, played: Iterable[Scenario]
) -> tuple[Place, dict[str, str]]:
    (folder / ".go-ent").mkdir(parents=True)
    source = McpSource.from_server("desk", make_upstream(world, size))
    composer = await stack.enter_async_context(
        Composer(folder, config=Config(allow=("desk.*",)), sources=[source], box=box, trusted=True)
    )
    engine = await stack.enter_async_context(Engine(folder, composer=composer, trusted=True))
    client = await stack.enter_async_context(Client(make_server(composer, engine, profile="code")))
    sources = {scenario.composed: scenario.tool for scenario in played}
    saved = {name: await _asked(client, Call("tool_compose", {"source": source})) for name, source in sources.items()}
    listed = await client.list_tools()
    if missing := set(saved) - {tool.name for tool in listed}:
        raise Wrong(f"{', '.join(sorted(missing))} are not listed")
    told = definitions(listed)
    size = count(told)
    return Place(client, size + count(INSTRUCTIONS), len(listed), size, told), saved

"""The clients: each takes the next order, has it done, and looks whether what came of it is what had to."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport

from benchmarks.soak.kinds import Order

ERAS: tuple[Literal["auto", "legacy"], ...] = (
    "auto",
    "legacy",
)  # of the protocol: every other client speaks the older one
META = "go-ent/run"
CALL_S = 60.0  # within which the server answers, whatever was asked
ID = re.compile(r"execution ([0-9a-f-]{36})")
UNDER_WAY = "1 tool call"


@dataclass(slots=True)
class Answer:
    """What the server said to one call."""

    status: str
    text: str
    execution_id: str = ""
    result: Any = None


@dataclass(slots=True)
class Done:
    """One run."""

    order: Order
    ms: float
    execution_id: str
    wrong: str  # why it is not what it had to be


@dataclass(slots=True)
class Soak:
    """All clients' work."""

    url: str
    clients: int
    left: deque[Order]
    done: list[Done] = field(default_factory=list)
    told: Callable[[int], None] = lambda _: None

    async def run(self, most: int) -> None:
        """Have *most* more orders done."""
        taken = itertools.count()
        async with asyncio.TaskGroup() as group:
            for number in range(self.clients):
                group.create_task(self._client(ERAS[number % len(ERAS)], taken, most))

    async def _client(self, era: Literal["auto", "legacy"], taken: itertools.count[int], most: int) -> None:
        async with Client(StreamableHttpTransport(self.url), mode=era) as client:
            while next(taken) < most and self.left:
                order = self.left.popleft()
                started = time.perf_counter()
                try:
                    async with asyncio.timeout(CALL_S):
                        answer = await (cancelled(client, order) if order.cancel else called(client, order))
                    wrong = mismatch(order, answer)
                except Exception as error:
                    answer, wrong = Answer("", ""), f"{type(error).__name__}: {error}"
                self.done.append(Done(order, (time.perf_counter() - started) * 1e3, answer.execution_id, wrong))
                self.told(len(self.done))


async def called(client: Client[Any], order: Order) -> Answer:
    result = await client.call_tool(order.tool, order.arguments, raise_on_error=False)
    beside: dict[str, Any] = (result.meta or {}).get(META) or {}
    said: dict[str, Any] = {**(result.structured_content or {}), **beside}
    text = "\n".join(str(getattr(block, "text", "")) for block in result.content)
    if beside and result.is_error:  # a composed tool's failure is told as text
        said = {**json.loads(text), **said} if text.startswith("{") else said
    return Answer(str(said.get("status")), f"{text}\n{said}", str(said.get("execution_id")), said.get("result"))


async def cancelled(client: Client[Any], order: Order) -> Answer:
    """Begin it, and cancel it once its guest waits for a tool; what is on record of it then."""
    found, under_way = [""], asyncio.Event()

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        if UNDER_WAY in (message or "") and (match := ID.search(message or "")):
            found[0] = match[1]
            under_way.set()

    calling = asyncio.create_task(
        client.call_tool(order.tool, order.arguments, raise_on_error=False, progress_handler=hear)
    )
    hearing = asyncio.create_task(under_way.wait())
    try:
        await asyncio.wait([calling, hearing], return_when=asyncio.FIRST_COMPLETED)
        if calling.done():
            return Answer("answered", str(calling.result()))
    finally:
        hearing.cancel()
        calling.cancel()
        await asyncio.wait([calling, hearing])
    while True:
        state = await client.call_tool("engine_status", {"execution_id": found[0]}, raise_on_error=False)
        said = state.structured_content or {}
        if said.get("status") != "running":
            return Answer(str(said.get("status")), str(said), found[0])
        await asyncio.sleep(0.02)


def mismatch(order: Order, answer: Answer) -> str:
    """What is wrong with an answer; nothing, if it is what had to come."""
    if answer.status != order.status:
        return f"its status is {answer.status}, not {order.status}: {answer.text[:300]}"
    if order.result is not None and answer.result != order.result:
        return f"its result is {str(answer.result)[:100]}, not {order.result}"
    if order.says not in answer.text:
        return f"it does not say {order.says!r}: {answer.text[:300]}"
    if not answer.execution_id:
        return "it has no id"
    return ""


async def breathe(url: str, clients: int) -> None:
    """Have all clients run something good at once: so that as many workers are kept as there would be, whatever ended last."""

    async def one() -> None:
        async with Client(StreamableHttpTransport(url)) as client:
            await client.call_tool("sum_of", {"n": 1})

    await asyncio.gather(*(one() for _ in range(clients)))

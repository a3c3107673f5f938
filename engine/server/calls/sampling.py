"""The connected client's own model, which the client decides about and pays for.

A client of the older protocol is asked during its call. One of 2026-07-28 is told the request as its call's result, and
makes the call again with the answer: the work waits for that, as long as a summariser may take.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from contextvars import ContextVar
from typing import Any, Generic, TypeVar

from mcp.shared.message import ServerMessageMetadata
from mcp_types import (
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    CreateMessageResultWithTools,
    SamplingMessage,
    TextContent,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from go_ent.engine.core.errors import SummaryFailed
from go_ent.engine.core.ids import new_id
from go_ent.engine.core.models import ModelReply
from go_ent.engine.server.calls.callers import current
from go_ent.engine.server.calls.request import request_under_way

T = TypeVar("T")
Answer = CreateMessageResult | CreateMessageResultWithTools
NONE = "the connected client offers no sampling"
LATER = "a client of this protocol can be asked by engine_summarize alone"
MOST_NAME = 200  # characters of what a client calls its model
MOST_KEPT = 50  # calls that wait for answers
MOST_ROUNDS = 8  # clients give up after a few
TOGETHER_S = 0.05  # what is asked at about the same time is asked in one round


class Rounds(Generic[T]):
    """Work for a call that is answered in several rounds: with what it wants to know, and at last with what it came
    to.
    """

    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        self.id = new_id()
        self.caller = current().name
        self._open: dict[str, tuple[CreateMessageRequest, asyncio.Future[Answer]]] = {}
        self._number = self._rounds = 0
        self._changed = asyncio.Event()
        self._task = asyncio.create_task(self._run(work))

    async def _run(self, work: Coroutine[Any, Any, T]) -> T:
        ROUNDS.set(self)
        try:
            return await work
        finally:
            self._changed.set()

    async def ask(self, request: CreateMessageRequest) -> Answer:
        """From within the work: what the client's model says, whenever the client comes with it."""
        if self._rounds >= MOST_ROUNDS:
            raise SummaryFailed(f"the client was asked in {MOST_ROUNDS} rounds already")
        self._number += 1
        key = f"summary-{self._number}"
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._open[key] = (request, future)
        self._changed.set()
        try:
            return await future
        finally:
            del self._open[key]

    async def next(self, answers: Mapping[str, object]) -> T | dict[str, CreateMessageRequest]:
        """What it came to, or what it wants to know. Who is cancelled meanwhile has cancelled the work."""
        for key, answer in answers.items():
            if key in self._open and isinstance(answer, CreateMessageResult | CreateMessageResultWithTools):
                future = self._open[key][1]
                if not future.done():
                    future.set_result(answer)
        try:
            while True:
                self._changed.clear()
                if self._task.done():
                    return self._task.result()
                if self._wanted():
                    await asyncio.sleep(TOGETHER_S)
                    if wanted := self._wanted():
                        self._rounds += 1
                        return wanted
                    continue
                await self._changed.wait()
        except asyncio.CancelledError:
            await self.stop()
            raise

    def _wanted(self) -> dict[str, CreateMessageRequest]:
        return {key: request for key, (request, future) in self._open.items() if not future.done()}

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])


ROUNDS: ContextVar[Rounds[Any] | None] = ContextVar("ROUNDS", default=None)


class Kept(Generic[T]):
    """The rounds that wait for a client to come back. Who has waited longest goes first when there are too many."""

    def __init__(self) -> None:
        self._kept: dict[str, Rounds[T]] = {}

    async def keep(self, rounds: Rounds[T]) -> None:
        self._kept[rounds.id] = rounds
        while len(self._kept) > MOST_KEPT:
            await self._kept.pop(next(iter(self._kept))).stop()

    def take(self, id_: str) -> Rounds[T] | None:
        """Those of that id, if they are the caller's."""
        found = self._kept.get(id_)
        return self._kept.pop(id_) if found is not None and found.caller == current().name else None


def asked_later() -> bool:
    """Whether the client of the call under way offers its model, and can be asked only by the call's result."""
    request = request_under_way()
    if request is None or request.session.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        return False
    offered = request.session.client_capabilities
    return offered is not None and offered.sampling is not None


async def sample(system: str, user: str, max_tokens: int) -> ModelReply:
    """What the model of the client says whose call is under way here. `SummaryFailed` if it offers none."""
    message = SamplingMessage(role="user", content=TextContent(type="text", text=user))
    params = CreateMessageRequestParams(messages=[message], system_prompt=system, max_tokens=max_tokens)
    request = CreateMessageRequest(params=params)
    rounds = ROUNDS.get()
    answer = await (rounds.ask(request) if rounds is not None else _during_the_call(request))
    content = answer.content
    if not isinstance(content, TextContent):
        kind = "several parts" if isinstance(content, list) else content.type
        raise SummaryFailed(f"the client's model answered with {kind}, not with text")
    return ModelReply(text=content.text, model=answer.model[:MOST_NAME] or None)


async def _during_the_call(request: CreateMessageRequest) -> Answer:
    under_way = request_under_way()
    if under_way is None:
        raise SummaryFailed("no client is connected")
    session = under_way.session
    offered = session.client_capabilities
    if offered is None or offered.sampling is None or not session.can_send_request:
        raise SummaryFailed(LATER if asked_later() else NONE)
    call = ServerMessageMetadata(related_request_id=under_way.id)  # over HTTP it goes by the way of the call
    return await session.send_request(request, CreateMessageResult, metadata=call)

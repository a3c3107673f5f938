"""Lines of a client that are no message: the client is told. mcp drops them, and leaves it waiting for an answer."""

from __future__ import annotations

import contextlib
import json
import logging
from typing import Any, Self

from anyio import BrokenResourceError, ClosedResourceError, EndOfStream
from mcp.shared.message import SessionMessage
from mcp_types import ErrorData, JSONRPCError
from pydantic import ValidationError

from go_ent.sandbox.messages.validation import found

log = logging.getLogger("go_ent.engine.server")
PARSE_ERROR, INVALID_REQUEST = -32700, -32600
MOST_SAID = 300  # characters


class Messages:
    """What a client says, as mcp wants to read it. What can't be read is answered here."""

    def __init__(self, reading: Any, writing: Any) -> None:
        self._reading, self._writing = reading, writing

    @property
    def last_context(self) -> Any:
        """That of who sent the last one."""
        return getattr(self._reading, "last_context", None)

    async def receive(self) -> SessionMessage:
        """The next message."""
        while isinstance(item := await self._reading.receive(), Exception):
            refusal = refuse(item)
            if refusal is not None:
                with contextlib.suppress(BrokenResourceError, ClosedResourceError):  # nobody reads any more
                    await self._writing.send(SessionMessage(refusal))
        message: SessionMessage = item
        return message

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage:
        try:
            return await self.receive()
        except EndOfStream:
            raise StopAsyncIteration from None

    async def aclose(self) -> None:
        """No more is wanted."""
        await self._reading.aclose()

    async def __aenter__(self) -> Self:
        await self._reading.__aenter__()
        return self

    async def __aexit__(self, *how: Any) -> bool | None:
        ended: bool | None = await self._reading.__aexit__(*how)
        return ended


def refuse(error: Exception) -> JSONRPCError | None:
    """The answer to a line that can't be read; None if nobody waits for one."""
    if not isinstance(error, ValidationError):
        log.warning("what a client said can't be read: %s", type(error).__name__)
        return None
    problems = found(error)
    _, kind, said, why = problems[0]
    if kind == "json_invalid":
        message = _loosely(said)
        if (isinstance(said, str) and not said.strip()) or _is_answer(message):
            return None
        number, code = _number(message), PARSE_ERROR
        text = f"this message is not JSON that can be read: {why[:MOST_SAID]}. Nothing was done; send it again, mended"
    else:
        # What it lacks itself is said of the whole message.
        lacks = (problem.value for problem in problems if problem.kind == "missing" and len(problem.place) <= 2)
        message = next((one for one in lacks if isinstance(one, dict)), None)
        number, code = _number(message), INVALID_REQUEST
        if number is None or _is_answer(message):
            return None
        text = "this is no message of JSON-RPC 2.0: it needs jsonrpc, id, method and params"
    return JSONRPCError(jsonrpc="2.0", id=number, error=ErrorData(code=code, message=text))


def _loosely(text: Any) -> Any:
    """A line as a reader takes it that lets halves of characters pass."""
    try:
        return json.loads(text)
    except (ValueError, TypeError, RecursionError):
        return None


def _is_answer(message: Any) -> bool:
    """Whether it is a client's answer: its number is then that of a request of ours."""
    return isinstance(message, dict) and "method" not in message and ("result" in message or "error" in message)


def _number(message: Any) -> int | str | None:
    """The id of a message, if it has one."""
    number = message.get("id") if isinstance(message, dict) else None
    if isinstance(number, str):
        return number if len(number) <= MOST_SAID and number.isprintable() else None
    return number if type(number) is int else None

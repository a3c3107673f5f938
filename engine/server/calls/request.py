"""The request under way: what a tool knows of the client that calls it."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.server.session import ServerSession
from mcp_types import CallToolRequestParams, InputResponses

from go_ent.dataclass import dataclass

MOST_TOKEN = 1024  # characters of a progress token, which comes back with every report


@dataclass(frozen=True, slots=True)
class ToolRequest:
    """A call of a tool, as it came over the wire."""

    context: ServerRequestContext[Any, Any]
    params: CallToolRequestParams

    @property
    def session(self) -> ServerSession:
        return self.context.session

    @property
    def id(self) -> str:
        return str(self.context.request_id)

    @property
    def state(self) -> str | None:
        """What this server gave the client to bring along, unsealed: the call goes on where an earlier one ended."""
        return self.params.request_state

    @property
    def answers(self) -> InputResponses:
        """What the client answers to the questions of an earlier call."""
        return self.params.input_responses or {}

    @property
    def wants_progress(self) -> bool:
        return _is_short((self.context.meta or {}).get("progress_token"))

    async def report_progress(self, progress: float, message: str | None) -> None:
        """Tell the client how its call is going."""
        token = (self.context.meta or {}).get("progress_token")
        if token is not None:
            await self.session.send_progress_notification(token, progress, None, message, related_request_id=self.id)


def _is_short(token: object) -> bool:
    """Whether it is a progress token that can be told again and again."""
    return (
        token.bit_length() <= MOST_TOKEN
        if isinstance(token, int)
        else isinstance(token, str) and len(token) <= MOST_TOKEN
    )


_under_way: ContextVar[ToolRequest | None] = ContextVar("go_ent_request", default=None)


def request_under_way() -> ToolRequest | None:
    """The call of a tool that this task works on; None where no client has made one."""
    return _under_way.get()


def begin(request: ToolRequest) -> None:
    """Make *request* the one that this task, and whatever it starts, works on."""
    _under_way.set(request)

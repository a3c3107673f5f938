"""mcp's private parts that we use: who owns the sessions over HTTP, and the connection that a session is on."""

from __future__ import annotations

from collections import Counter
from typing import Any

from mcp.server import Server
from mcp.server.auth.middleware.bearer_auth import AuthorizationContext
from mcp.server.connection import Connection
from mcp.server.session import ServerSession
from mcp.server.streamable_http import StreamableHTTPServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from go_ent.sandbox.host.sharing import Shares


def connection_of(session: ServerSession) -> Connection:
    """The connection that a session is on: its state, and whether the server may speak first."""
    return session._connection


class SharedSessions(StreamableHTTPSessionManager):
    """The library's own, of which no client can hold so many that there are none for the others."""

    def __init__(self, callers: int, app: Server[Any], *, max_sessions: int, **options: Any) -> None:
        super().__init__(app, max_sessions=max_sessions, **options)
        self._shares = Shares(max_sessions, lambda: callers)

    def _admit_session(self, requestor: AuthorizationContext | None) -> StreamableHTTPServerTransport | None:
        self._shares.held = Counter(owner["client_id"] for owner in self._session_owners.values())
        if requestor is not None and not self._shares.room(requestor["client_id"]):
            return None
        return super()._admit_session(requestor)

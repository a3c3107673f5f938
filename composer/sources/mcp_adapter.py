"""mcp's private parts that clients of ours use: how its logins are read, and when they are refreshed.

Imports mcp, which takes a second: it is imported when a login is used.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import httpx2
from mcp.client.auth import OAuthClientProvider
from mcp.shared.auth import OAuthMetadata, ProtectedResourceMetadata

from go_ent.composer.sources.logins import as_model


class LastingLogin(OAuthClientProvider):
    """The library's own, which forgets when a token expires and where it is refreshed. Without these, a login would
    last as long as a process.
    """

    async def _initialize(self) -> None:
        await super()._initialize()
        storage: Any = self.context.storage
        login = storage.login
        self.context.token_expiry_time = login.expires_at
        if self.context.oauth_metadata is None:
            self.context.oauth_metadata = as_model(OAuthMetadata, login.server)
        if self.context.protected_resource_metadata is None:
            self.context.protected_resource_metadata = as_model(ProtectedResourceMetadata, login.resource)

    async def _refresh_token(self) -> httpx2.Request:
        await self._initialize()  # another process may have refreshed it: an old refresh token is worth nothing
        return await super()._refresh_token()

    async def _auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """The library's own, but a token that the server refuses before its time is refreshed too: the library would
        ask a person at once.
        """
        flow = super()._auth_flow(request)
        try:
            outgoing = await flow.__anext__()
            while True:
                response = yield outgoing
                if outgoing is request and response.status_code == 401 and self.context.can_refresh_token():
                    answer = yield await self._refresh_token()
                    if await self._handle_refresh_response(answer):
                        self._add_auth_header(request)
                        response = yield request
                outgoing = await flow.asend(response)
        except StopAsyncIteration:
            return
        finally:
            await flow.aclose()

"""mcp's private parts that clients of ours use: how its logins are read, and when they are refreshed.

Imports mcp, which takes a second: it is imported when a login is used.
"""

from __future__ import annotations

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

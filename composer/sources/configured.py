"""The sources that a project's configuration names, each with its kept listing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from go_ent.composer.sources.listing import Keeper, ListingStore, identity_of

if TYPE_CHECKING:
    from go_ent.composer.sources.logins import Callback
    from go_ent.composer.sources.mcp import McpSource
    from go_ent.composer.sources.openapi import OpenApiConfig
    from go_ent.composer.sources.server_config import ServerConfig


def server_source(
    namespace: str, config: ServerConfig, project: Path, store: ListingStore, ask: Callback | None = None
) -> McpSource:
    """An MCP server of a project. It starts in the project's folder, or in one that it names from there. With *ask*, a
    person is asked to log in.
    """
    from go_ent.composer.sources.mcp import McpSource
    from go_ent.composer.sources.mcp_transports import connector

    config = config.model_copy(update={"cwd": str(project / (config.cwd or "."))}) if config.url is None else config
    asked = config.model_dump(mode="json", include={"command", "args", "env", "cwd", "url", "headers", "auth", "token"})
    origin = f"MCP server {namespace}"
    keeper = Keeper(store, namespace, origin, lambda: identity_of("mcp", asked))
    return McpSource(namespace, config, connect=connector(config, None, ask), origin=origin, keeper=keeper)


def api_source(namespace: str, config: OpenApiConfig, store: ListingStore) -> McpSource:
    """An HTTP API of a project."""
    from go_ent.composer.sources.openapi import source_of

    return source_of(namespace, config, store=store)

"""Code mode: Python over any tools. Composed tools: code that worked, saved under a name.

from go_ent.composer import Composer

async with Composer.open(".") as composer:            # finds .go-ent
    await composer.compose(source)
    await composer.call("triage", repo="x/y")
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_ent.lazy import lazily

if TYPE_CHECKING:
    from go_ent.composer.blocking import BlockingComposer
    from go_ent.composer.catalogue.catalogue import Catalogue
    from go_ent.composer.catalogue.grants import Grants
    from go_ent.composer.catalogue.scope import Approver
    from go_ent.composer.catalogue.spec import CallContext, Hints, Source, ToolSpec
    from go_ent.composer.codemode.codemode import CodeMode, CodeRun
    from go_ent.composer.composed.interface import Interface
    from go_ent.composer.composed.source import Broken, Composed, Saved
    from go_ent.composer.composed.suggest import Suggestion
    from go_ent.composer.composed.tool_store import Version
    from go_ent.composer.composed.usage import Used
    from go_ent.composer.composer import Composer
    from go_ent.composer.config import Config
    from go_ent.composer.errors import (
        BadArguments,
        BadName,
        BadResult,
        CallError,
        Collision,
        ComposeRefused,
        ComposerError,
        ConfigError,
        NotGranted,
        StoreError,
        ToolNotFound,
        Unavailable,
    )
    from go_ent.composer.sources.functions import FunctionSource
    from go_ent.composer.sources.mcp import McpSource
    from go_ent.composer.sources.openapi import openapi_source
    from go_ent.composer.sources.server_config import ServerConfig

HOMES = {
    "blocking": ("BlockingComposer",),
    "catalogue.catalogue": ("Catalogue",),
    "codemode.codemode": ("CodeMode", "CodeRun"),
    "composed.source": ("Broken", "Composed", "Saved"),
    "composer": ("Composer",),
    "config": ("Config",),
    "errors": (
        "BadArguments",
        "BadName",
        "BadResult",
        "CallError",
        "Collision",
        "ComposeRefused",
        "ComposerError",
        "ConfigError",
        "NotGranted",
        "StoreError",
        "ToolNotFound",
        "Unavailable",
    ),
    "sources.functions": ("FunctionSource",),
    "catalogue.grants": ("Grants",),
    "composed.interface": ("Interface",),
    "sources.openapi": ("openapi_source",),
    "catalogue.scope": ("Approver",),
    "sources.server_config": ("ServerConfig",),
    "catalogue.spec": ("CallContext", "Hints", "Source", "ToolSpec"),
    "composed.tool_store": ("Version",),
    "composed.suggest": ("Suggestion",),
    "sources.mcp": ("McpSource",),
    "composed.usage": ("Used",),
}
__all__ = [
    "Approver",
    "BadArguments",
    "BadName",
    "BadResult",
    "BlockingComposer",
    "Broken",
    "CallContext",
    "CallError",
    "Catalogue",
    "CodeMode",
    "CodeRun",
    "Collision",
    "ComposeRefused",
    "Composed",
    "Composer",
    "ComposerError",
    "Config",
    "ConfigError",
    "FunctionSource",
    "Grants",
    "Hints",
    "Interface",
    "McpSource",
    "NotGranted",
    "Saved",
    "ServerConfig",
    "Source",
    "StoreError",
    "Suggestion",
    "ToolNotFound",
    "ToolSpec",
    "Unavailable",
    "Used",
    "Version",
    "openapi_source",
]
if not TYPE_CHECKING:  # a name that is not there is an error for type checkers
    __getattr__, __dir__ = lazily(__name__, HOMES)

"""Code mode over any tools, and composed tools that last.

from composer import Composer

async with Composer.open(".") as composer:            # finds .go-ent
    await composer.compose(source)
    await composer.call("triage", repo="x/y")
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from composer.blocking import BlockingComposer
    from composer.catalogue import Catalogue
    from composer.codemode import CodeMode, CodeRun
    from composer.composed import Broken, Composed
    from composer.composer import Composer, Saved
    from composer.config import Config
    from composer.errors import (
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
    from composer.functions import FunctionSource
    from composer.grants import Grants
    from composer.interface import Interface
    from composer.openapi import openapi_source
    from composer.scope import Approver
    from composer.servers import ServerConfig
    from composer.spec import CallContext, Hints, Source, ToolSpec
    from composer.store import Version
    from composer.suggest import Suggestion
    from composer.upstream import McpSource
    from composer.usage import Used

_HOMES = {
    "blocking": ("BlockingComposer",),
    "catalogue": ("Catalogue",),
    "codemode": ("CodeMode", "CodeRun"),
    "composed": ("Broken", "Composed"),
    "composer": ("Composer", "Saved"),
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
    "functions": ("FunctionSource",),
    "grants": ("Grants",),
    "interface": ("Interface",),
    "openapi": ("openapi_source",),
    "scope": ("Approver",),
    "servers": ("ServerConfig",),
    "spec": ("CallContext", "Hints", "Source", "ToolSpec"),
    "store": ("Version",),
    "suggest": ("Suggestion",),
    "upstream": ("McpSource",),
    "usage": ("Used",),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}
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


def __getattr__(name: str) -> Any:
    # Lazily: what one program does not use, it does not import.
    if name not in _HOME_OF:
        raise AttributeError(f"module 'composer' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"composer.{_HOME_OF[name]}"), name)


def __dir__() -> list[str]:
    return __all__

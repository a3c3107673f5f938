"""Code mode over any tools, and composed tools that last.

from composer import Composer

async with Composer.open(".") as composer:            # finds .go-ent
    await composer.compose(source)
    await composer.call("triage", repo="x/y")
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from composer.catalogue import Catalogue
    from composer.codemode import CodeMode, CodeRun
    from composer.composer import Composer, Saved
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
    from composer.openapi import openapi_source
    from composer.spec import Hints, Source, ToolSpec
    from composer.upstream import McpSource

_HOMES = {
    "catalogue": ("Catalogue",),
    "codemode": ("CodeMode", "CodeRun"),
    "composer": ("Composer", "Saved"),
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
    "openapi": ("openapi_source",),
    "spec": ("Hints", "Source", "ToolSpec"),
    "upstream": ("McpSource",),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}
__all__ = [
    "BadArguments",
    "BadName",
    "BadResult",
    "CallError",
    "Catalogue",
    "CodeMode",
    "CodeRun",
    "Collision",
    "ComposeRefused",
    "Composer",
    "ComposerError",
    "ConfigError",
    "FunctionSource",
    "Grants",
    "Hints",
    "McpSource",
    "NotGranted",
    "Saved",
    "Source",
    "StoreError",
    "ToolNotFound",
    "ToolSpec",
    "Unavailable",
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

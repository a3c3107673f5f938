"""Runs untrusted Python in WebAssembly guests: whole CPython, a fresh guest for every run, every limit real.

from sandbox import Sandbox, Limits

async with Sandbox(tools=[search], limits=Limits(cpu_s=5)) as box:
    run = await box.run("hits = await tools.search(q=topic)\\n[h['title'] for h in hits]", inputs={"topic": "wasm"})
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sandbox.box import Sandbox
    from sandbox.errors import (
        ApprovalRequired,
        ImageError,
        LimitError,
        PackageError,
        RunNotFound,
        SandboxClosed,
        SandboxError,
        ToolDefinitionError,
        ToolError,
    )
    from sandbox.hardening.wall import Wall
    from sandbox.images import Image
    from sandbox.limits import Limits
    from sandbox.run import Pending, Run, RunError, Status, ToolCall, Usage
    from sandbox.session import Session
    from sandbox.tape import Diverged, Start, Tape
    from sandbox.tools import Tool, Toolset

__all__ = [
    "ApprovalRequired",
    "Diverged",
    "Image",
    "ImageError",
    "LimitError",
    "Limits",
    "PackageError",
    "Pending",
    "Run",
    "RunError",
    "RunNotFound",
    "Sandbox",
    "SandboxClosed",
    "SandboxError",
    "Session",
    "Start",
    "Status",
    "Tape",
    "Tool",
    "ToolCall",
    "ToolDefinitionError",
    "ToolError",
    "Toolset",
    "Usage",
    "Wall",
]

_HOMES = {
    "box": ("Sandbox",),
    "session": ("Session",),
    "errors": (
        "ApprovalRequired",
        "ImageError",
        "LimitError",
        "PackageError",
        "RunNotFound",
        "SandboxClosed",
        "SandboxError",
        "ToolDefinitionError",
        "ToolError",
    ),
    "hardening.wall": ("Wall",),
    "images": ("Image",),
    "limits": ("Limits",),
    "run": ("Pending", "Run", "RunError", "Status", "ToolCall", "Usage"),
    "tape": ("Diverged", "Start", "Tape"),
    "tools": ("Tool", "Toolset"),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    # Lazily: a worker process imports this package too, and must not pay for pydantic.
    if name not in _HOME_OF:
        raise AttributeError(f"module 'sandbox' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"sandbox.{_HOME_OF[name]}"), name)


def __dir__() -> list[str]:
    return __all__

"""Runs untrusted Python in WebAssembly: full CPython, a fresh guest for every run, and limits that are enforced.

from go_ent.sandbox import Sandbox, Limits

async with Sandbox(tools=[search], limits=Limits(cpu_s=5)) as box:
    run = await box.run("hits = await tools.search(q=topic)\\n[h['title'] for h in hits]", inputs={"topic": "wasm"})
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_ent.lazy import lazily

if TYPE_CHECKING:
    from go_ent.sandbox.errors import (
        ApprovalRequired,
        Diverged,
        ImageError,
        LimitError,
        PackageError,
        RunNotFound,
        SandboxClosed,
        SandboxError,
        ToolDefinitionError,
        ToolError,
    )
    from go_ent.sandbox.hardening.wall import Wall
    from go_ent.sandbox.host.box import Sandbox
    from go_ent.sandbox.host.limits import Limits
    from go_ent.sandbox.host.run import Pending, Run, RunError, Status, ToolCall, Usage
    from go_ent.sandbox.host.session import Session
    from go_ent.sandbox.host.tools import Tool, Toolset
    from go_ent.sandbox.host.zygote import warm
    from go_ent.sandbox.images import Image
    from go_ent.sandbox.worker.tape import Start, Tape

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
    "warm",
]

HOMES = {
    "host.box": ("Sandbox",),
    "host.session": ("Session",),
    "errors": (
        "ApprovalRequired",
        "Diverged",
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
    "host.limits": ("Limits",),
    "host.run": ("Pending", "Run", "RunError", "Status", "ToolCall", "Usage"),
    "worker.tape": ("Start", "Tape"),
    "host.tools": ("Tool", "Toolset"),
    "host.zygote": ("warm",),
}
if not TYPE_CHECKING:  # a name that is not there is an error for type checkers
    __getattr__, __dir__ = lazily(__name__, HOMES)

"""Run code over tools in a sandbox, keep what worked as tools, and have agents do work.

from go_ent import Composer, Engine, Limits, Sandbox, Task
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_ent.lazy import lazily

if TYPE_CHECKING:
    from go_ent.composer import BlockingComposer, Composer
    from go_ent.composer.notebook import NotebookShell
    from go_ent.engine import BlockingEngine, Engine, Task, TaskResult
    from go_ent.sandbox import Limits, Run, Sandbox, Tool, ToolError

__all__ = [
    "BlockingComposer",
    "BlockingEngine",
    "Composer",
    "Engine",
    "Limits",
    "Run",
    "Sandbox",
    "Task",
    "TaskResult",
    "Tool",
    "ToolError",
]

HOMES = {
    "composer": ("BlockingComposer", "Composer"),
    "engine": ("BlockingEngine", "Engine", "Task", "TaskResult"),
    "sandbox": ("Limits", "Run", "Sandbox", "Tool", "ToolError"),
}
if not TYPE_CHECKING:  # a name that is not there is an error for type checkers
    __getattr__, __dir__ = lazily(__name__, HOMES)


def load_ipython_extension(ipython: NotebookShell) -> None:
    """`%load_ext go_ent`: the cell magic `%%go_ent`. IPython calls this."""
    from go_ent.composer.notebook import add_magic

    add_magic(ipython)

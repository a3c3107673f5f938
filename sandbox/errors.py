"""The sandbox's errors.

    SandboxError
    ├── LimitError         a limit that can't be: unknown, out of range, or wider than the sandbox's
    ├── ToolDefinitionError  a function that can't be offered as a tool
    ├── ImageError         an image that can't be built, found or trusted
    │   └── PackageError   a package that can't be baked into an image
    ├── SandboxClosed      used before it was opened or after it was closed
    └── RunNotFound        no run of that id is under way

What guest code does is never an exception here: it is the status of its `Run`.
`ToolError` and `ApprovalRequired` are for tools to raise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from go_ent.sandbox.host.run import Pending


class SandboxError(Exception):
    """Base of the sandbox's errors."""


class LimitError(SandboxError, ValueError):
    """Raised when a limit is out of range, or a run asks for more than its sandbox allows."""


class ToolDefinitionError(SandboxError, TypeError):
    """Raised when a function can't be offered as a tool; the message names it and says why."""


class ImageError(SandboxError):
    """Raised when an image can't be built, found or loaded."""


class PackageError(ImageError):
    """Raised when a package can't be baked into an image; the message names it and says why."""


class SandboxClosed(SandboxError, RuntimeError):
    """Raised when a sandbox or session is used before it is opened or after it is closed."""


class RunNotFound(SandboxError, KeyError):
    """Raised when no run with that id is in progress."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class ToolError(Exception):
    """Raised by a tool to fail with a message that reaches the guest word for word."""


class ApprovalRequired(Exception):
    """Raised by a tool that may not run before somebody approves: the run ends as `paused`.

    `pending` are the calls that wait, if they are not this one but calls that it made.
    """

    def __init__(self, reason: str = "this call needs approval", pending: Sequence[Pending] = ()) -> None:
        super().__init__(reason)
        self.reason = reason
        self.pending = tuple(pending)

"""The sandbox's errors, and the root of all of go-ent's.

    AdvisedError                        the root: a message, and what the caller can do about it, as data
    └── SandboxError                    the sandbox's
        ├── LimitError (ValueError)     a limit is unknown, out of range, or wider than the sandbox's
        ├── ToolDefinitionError (TypeError)  a function can't be offered as a tool
        ├── ImageError                  an image can't be built, found or trusted
        │   └── PackageError            a package can't be baked into an image
        ├── SandboxClosed (RuntimeError)  used before it was opened or after it was closed
        └── RunNotFound (KeyError)      no run of that id is under way
    ToolError                           for tools to raise: the call failed
    ApprovalRequired                    for tools to raise: the call waits for a person
    Diverged                            for tapes to raise: a replay does not do what is recorded

What guest code does is never an exception here: it is the status of its `Run`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from go_ent.sandbox.messages.advice import Advice, Words, joined

if TYPE_CHECKING:
    from go_ent.sandbox.host.run import Pending


class AdvisedError(Exception):
    """Raised when go-ent refuses or can't do something. `advice` is what the caller can do about it, if anything.

    `str()` has the advice in the words of the library; a front end that has its own uses `told`.
    """

    def __init__(self, *args: object, advice: Advice | None = None) -> None:
        super().__init__(*args)
        self.advice = advice

    @property
    def message(self) -> str:
        """What went wrong, without the advice."""
        return str(self.args[0]) if self.args else ""

    def told(self, words: Words, between: str = "; ") -> str:
        """What went wrong, and the advice in those words."""
        return joined(self.message, self.advice, words, between)

    def __str__(self) -> str:
        return self.told(str)


class SandboxError(AdvisedError):
    """Raised when the sandbox refuses or can't do something: the base of its errors."""


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


class ToolError(Exception):
    """Raised when a tool fails with a message that is to reach the guest word for word."""


class ApprovalRequired(Exception):
    """Raised when a tool may not run before somebody approves: the run ends as `paused`.

    `pending` are the calls that wait, if they are not this one but calls that it made.
    """

    def __init__(self, reason: str = "this call needs approval", pending: Sequence[Pending] = ()) -> None:
        super().__init__(reason)
        self.reason = reason
        self.pending = tuple(pending)


class Diverged(Exception):
    """Raised when a replayed run does something else than the recorded one; the message shows both sides."""

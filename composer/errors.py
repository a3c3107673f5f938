"""What the composer raises.

ComposerError (AdvisedError)
├── BadName (ValueError)         a tool, server or namespace can't be called that
├── Collision (ValueError)       two tools of one name; both origins are named
├── ConfigError (ValueError)     `.go-ent/config.toml` or an mcpServers file can't be used
├── NotGranted                   a call outside the grant
├── ToolNotFound (KeyError)      no tool of that name
├── BadArguments (ValueError)    arguments that don't fit a tool's input schema
├── BadResult                    a result that doesn't fit a tool's output schema
├── Unavailable                  a source (an MCP server, an API) that can't be reached now
├── CallError                    a tool said that the call failed
│   └── Spent                    nothing is left of a limit of the run that made it
├── ComposeRefused (ValueError)  a composed tool that can't be saved; says what to fix
└── StoreError                   the store can't be read or written
    └── WrongStore               the tool is in a store that may not be changed here
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from go_ent.sandbox.errors import AdvisedError
from go_ent.sandbox.messages.advice import Advice


class ComposerError(AdvisedError):
    """Raised when the composer refuses or can't do something: the base of its errors."""


class BadName(ComposerError, ValueError):
    """Raised when a tool, server or namespace can't be called that."""


class Collision(ComposerError, ValueError):
    """Raised when two tools have one name. Built from both origins."""

    def __init__(self, name: str, first: str, second: str) -> None:
        super().__init__(
            f"two tools are called {name!r}: {first} and {second}; rename one, or give its source another namespace"
        )
        self.name, self.first, self.second = name, first, second


class ConfigError(ComposerError, ValueError):
    """Raised when a configuration can't be used. Each of `problems` has the file and the line, or the variable, and
    the setting.
    """

    MOST = 10  # that the message tells

    def __init__(self, *problems: str, advice: Advice | None = None) -> None:
        more = len(problems) - self.MOST
        lines = (*problems[: self.MOST], *([f"and {more} more"] if more > 0 else []))
        super().__init__("\n".join(lines), advice=advice)
        self.problems = problems


class NotGranted(ComposerError):
    """Raised when a tool exists, or may, but this caller may not call it. *remedy* is which setting would allow it."""

    def __init__(self, name: str, remedy: str = "") -> None:
        self.name = name
        self.reason = f"is not granted here: {remedy}" if remedy else "is not granted here"
        super().__init__(f"{name} {self.reason}")


class ToolNotFound(ComposerError, KeyError):
    """Raised when there is no tool of that name."""


class BadArguments(ComposerError, ValueError):
    """Raised when arguments don't fit a tool's input schema: the tool did not run."""


class BadResult(ComposerError):
    """Raised when a result doesn't fit its tool's output schema: the tool did run."""


class Unavailable(ComposerError):
    """Raised when the source of a tool can't be reached now. Other sources are not affected."""


class CallError(ComposerError):
    """Raised when a tool says that the call failed; the message is the tool's."""


class Spent(CallError):
    """Raised when a limit of the run that makes a call leaves nothing for it: raise the limit and resume."""


class ComposeRefused(ComposerError, ValueError):
    """Raised when a composed tool can't be saved. Nothing was; `problems` says what to fix, and `examples` how those
    went that did not come true.
    """

    def __init__(
        self,
        name: str,
        problems: list[str],
        *,
        advice: Advice | None = None,
        examples: Iterable[Any] = (),
    ) -> None:
        super().__init__(f"{name} was not saved: " + "; ".join(problems), advice=advice)
        self.name, self.problems, self.examples = name, problems, tuple(examples)


class StoreError(ComposerError):
    """Raised when the store of composed tools can't be read or written."""


class WrongStore(StoreError):
    """Raised when a tool is in a store that may not be changed here. *scope* is that store's."""

    def __init__(self, name: str, scope: str) -> None:
        whose = "the user's own store, which every project has" if scope == "global" else "this project's store"
        super().__init__(f"{name} is in {whose}, and may not be changed here")
        self.name, self.scope = name, scope

"""What the engine raises.

EngineError (AdvisedError)
├── BadTask (ValueError)          a task, plan or option that can't be used; says what is valid
├── BadServerName (ValueError)    a name that an MCP client would not accept
├── NoRuntime                     nothing that could run the task is there; says what was looked for
├── BudgetExceeded                a call that does not fit the budget was not made
│   └── NoCap                     a command whose cost nothing bounds
├── LedgerError                   the record of what was spent can't be read or written
├── Untrusted                     the project wants to start programs, and nobody has trusted it
├── NeedsApproval                 this caller may not start that; a person may
├── NotAllowed                    a client's token does not allow that
├── ModelFailed                   a model gave no answer; carries what it cost
├── ContextTooLarge               the pinned messages alone do not fit the window
├── PromptTooLarge                what must be sent word for word does not fit the window
├── CannotInstall                 a client's file can't be changed by a program
├── ExecutionNotFound (KeyError)  no execution of that id
├── ExecutionConflict             an execution is in no state for this: finished, or held by another process
├── StorageFailed                 an execution can't be recorded, so nothing more is done
└── BadState                      a state on disk can't be read
    ├── TooNew                    it was written by a newer go-ent
    └── Unborn                    it ended before its first record
BadAddress (ConfigError)          what the server is to listen on is no address
SummaryFailed                     for summarisers to raise: there is no summary now
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from go_ent.composer.errors import ConfigError
from go_ent.sandbox.errors import AdvisedError
from go_ent.sandbox.messages.advice import Advice

if TYPE_CHECKING:
    from go_ent.engine.core.models import RunResult


class EngineError(AdvisedError):
    """Raised when the engine refuses or can't do something: the base of its errors."""


class BadTask(EngineError, ValueError):
    """Raised when a task, a plan or an option can't be used; the message says what is valid.

    `problems` are all that are wrong with it, one by one.
    """

    def __init__(self, message: str, problems: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.problems = tuple(problems) or (message,)


class NoRuntime(EngineError):
    """Raised when no runtime that could run the task is available."""


class BudgetExceeded(EngineError):
    """Raised when a call does not fit the budget. It was not made, and nothing was spent by it."""

    def __init__(self, scope: str, spent: str, estimate: str, limit: str) -> None:
        self.scope, self.spent, self.estimate, self.limit = scope, spent, estimate, limit
        super().__init__(f"the budget of the {scope} does not hold this: {self.why}")

    @property
    def why(self) -> str:
        return f"{self.spent} spent or reserved, {self.estimate} wanted, the limit is {self.limit}"


class NoCap(BudgetExceeded):
    """Raised when a limit in dollars can't hold a command: nothing stops it at a price, and nobody declared its most.

    It was not started.
    """

    def __init__(self, scope: str, problem: str, limit: str) -> None:
        self._problem = problem
        super().__init__(scope, "", "", limit)

    @property
    def why(self) -> str:
        return f"{self._problem}; the limit is {self.limit}"


class Untrusted(EngineError):
    """Raised when a project folder wants to start programs before anybody has trusted it."""

    def __init__(self, what: str, project: str) -> None:
        super().__init__(
            f"{what} would start what {project} names, and nobody has trusted it", advice=Advice("trust", project)
        )


class NeedsApproval(EngineError):
    """Raised when this caller may not start that program by itself."""


class ExecutionNotFound(EngineError, KeyError):
    """Raised when there is no execution of that id, or a prefix fits several."""


class StorageFailed(EngineError):
    """Raised when an execution can't be recorded any more: the disk is full, or can't be written."""

    @classmethod
    def begun(cls, error: OSError) -> StorageFailed:
        """For one that could not even be begun."""
        where = "" if error.filename is None else f" in {error.filename}"
        return cls(f"the execution can't be recorded{where}: {error.strerror or error}", advice=Advice("diagnose"))


class ExecutionConflict(EngineError):
    """Raised when an execution is not in a state for this: it has finished, or another process holds it."""


class BadState(EngineError):
    """Raised when a state can't be read: it is damaged, or of a newer go-ent."""


class TooNew(BadState):
    """Raised when a state was written by a newer go-ent."""


class Unborn(BadState):
    """Raised when an execution was ended before its first record: nothing was done."""


class LedgerError(EngineError):
    """Raised when the record of what was spent can't be read or written. Without it nothing is started: no record is
    no permission.
    """


class ModelFailed(EngineError):
    """Raised when a model gave no answer; the message says why, and `result` has what it cost."""

    def __init__(self, message: str, result: RunResult | None = None) -> None:
        super().__init__(message)
        self.result = result


class ContextTooLarge(EngineError):
    """Raised when the pinned messages alone leave no room in the window; it says which are how large."""

    def __init__(self, tokens: int, window: int, largest: str) -> None:
        super().__init__(f"the pinned messages take {tokens} tokens of a window of {window}: {largest}")


class PromptTooLarge(EngineError):
    """Raised when what must be said word for word does not fit the model's window."""

    def __init__(self, tokens: int, window: int, reserve: int, model: str | None) -> None:
        kept = f", {reserve} of which are kept for the answer" if reserve else ""
        super().__init__(
            f"the prompt is {tokens} tokens long, and {model or 'the model'} takes {window}{kept}: the task, "
            "its role and its skills are "
            "never cut; make them shorter, give less as files, or name a model with a larger window"
        )


class BadServerName(EngineError, ValueError):
    """Raised when a client would not take a name."""


class CannotInstall(EngineError):
    """Raised when a client's file is not one to be changed by a program. The message says why; `plan` has the entry."""

    def __init__(self, message: str, plan: Any = None) -> None:
        super().__init__(message)
        self.plan = plan


class NotAllowed(EngineError):
    """Raised when a client with a token asks for what its token does not allow."""


class BadAddress(ConfigError):
    """Raised when what is to be listened on is no address: the command was used wrongly, no file is at fault."""


class SummaryFailed(Exception):
    """Raised when a summariser can't make a summary now; the message says why. `cost_usd` is what the try cost all
    the same.
    """

    def __init__(self, message: str, cost_usd: float | None = None) -> None:
        super().__init__(message)
        self.cost_usd = cost_usd

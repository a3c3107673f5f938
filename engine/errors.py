"""What the engine raises.

EngineError
├── BadTask (ValueError)        a task, plan or option that can't be used; says what is valid
├── NoRuntime                   nothing that could run the task is there; says what was looked for
├── BudgetExceeded              a call that does not fit the budget was not made
│   └── NoCap                   a command whose cost nothing bounds
├── Untrusted                   the project wants to start programs, and nobody has trusted it
├── NeedsApproval               this caller may not start that; a person may
├── ExecutionNotFound (KeyError)
├── StorageFailed               what happens can't be recorded, so nothing more is done
└── ExecutionConflict           an execution is not in a state for this: finished, or held by another process
"""

from __future__ import annotations


class EngineError(Exception):
    """The root of what the engine raises."""


class BadTask(EngineError, ValueError):
    """Raised when a task, a plan or an option can't be used; the message says what is valid."""


class NoRuntime(EngineError):
    """Raised when no runtime that could run the task is available."""


class BudgetExceeded(EngineError):
    """Raised before a call that does not fit the budget. Nothing was spent by it."""

    def __init__(self, scope: str, spent: str, estimate: str, limit: str) -> None:
        self.scope, self.spent, self.estimate, self.limit = scope, spent, estimate, limit
        super().__init__(f"the budget of the {scope} does not hold this: {self.why}")

    @property
    def why(self) -> str:
        return f"{self.spent} spent or reserved, {self.estimate} wanted, the limit is {self.limit}"


class NoCap(BudgetExceeded):
    """Raised before a command that a limit in dollars can't hold: nothing stops it at a price, and nobody declared its most."""

    def __init__(self, scope: str, problem: str, limit: str) -> None:
        self._problem = problem
        super().__init__(scope, "", "", limit)

    @property
    def why(self) -> str:
        return f"{self._problem}; the limit is {self.limit}"


class Untrusted(EngineError):
    """Raised when a project folder wants to start programs before `go-ent trust` was said for it."""

    def __init__(self, what: str, project: str) -> None:
        super().__init__(
            f"{what} would start what {project} names: look at its .go-ent/config.toml and the like, then say go-ent trust there"
        )


class NeedsApproval(EngineError):
    """Raised when this caller may not start that program by itself."""


class ExecutionNotFound(EngineError, KeyError):
    """Raised when there is no execution of that id, or a prefix fits several."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class StorageFailed(EngineError):
    """Raised when an execution can't be recorded any more: the disk is full, or can't be written."""

    @classmethod
    def begun(cls, error: OSError) -> StorageFailed:
        """For one that could not even be begun."""
        where = "" if error.filename is None else f" in {error.filename}"
        return cls(f"the execution can't be recorded{where}: {error.strerror or error}; go-ent doctor says more")


class ExecutionConflict(EngineError):
    """Raised when an execution is not in a state for this: it has finished, or another process holds it."""

"""The engine for programs that do not await: scripts, notebooks, tests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from go_ent.engine.budget import BudgetReport
from go_ent.engine.core.models import TaskResult
from go_ent.engine.engine import Engine
from go_ent.engine.executions.state import ExecutionState
from go_ent.engine.guest_runs.runs import GuestOrder
from go_ent.engine.strategies.work import Work
from go_ent.sandbox import Run
from go_ent.sandbox.host.background import BackgroundLoop


class BlockingEngine:
    """An `Engine` for code that does not await: it has an event loop of its own, in a thread. Works in notebooks too.

    Use it in a `with`, or call `close`. Its methods block, may be called from several threads, and raise what the
    `Engine` method of that name raises.
    """

    def __init__(self, folder: Path | str = ".", **options: Any) -> None:
        """The engine of the project that *folder* is in; *options* are those of `Engine`."""
        self._loop = BackgroundLoop()
        try:
            self.engine = self._loop.call(_opened(folder, options))
        except BaseException:
            self._loop.close()
            raise

    def execute(self, work: Work, **options: Any) -> TaskResult:
        """Run the work and return its result. Ctrl-C interrupts the execution, which can be resumed."""
        return self._loop.call(self.engine.execute(work, **options))

    def run(self, order: GuestOrder) -> Run:
        """Run code, or a composed tool, as an execution on record."""
        return self._loop.call(self.engine.guests.run(order))

    def start(self, work: Work, **options: Any) -> str:
        """Start the work and return its id at once."""
        return self._loop.call(self.engine.start(work, **options))

    def wait(self, execution_id: str) -> TaskResult:
        """The result of an execution of this engine."""
        return self._loop.call(self.engine.wait(execution_id))

    def status(self, execution_id: str) -> ExecutionState:
        """What an execution has done so far."""
        return self._loop.call(self.engine.status(execution_id))

    def interrupt(self, execution_id: str) -> ExecutionState:
        """Stop an execution; it can be resumed."""
        return self._loop.call(self.engine.interrupt(execution_id))

    def resume(self, execution_id: str, **options: Any) -> TaskResult:
        """Resume an execution."""
        return self._loop.call(self.engine.resume(execution_id, **options))

    def budget(self) -> BudgetReport:
        """What was spent, and what the limits are."""
        return self._loop.call(self.engine.budget())

    def close(self) -> None:
        """Interrupt what runs, keep what it has done, and let go of everything."""
        self._loop.call(self.engine.close())
        self._loop.close()

    def __enter__(self) -> BlockingEngine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


async def _opened(folder: Path | str, options: Mapping[str, Any]) -> Engine:
    return Engine.open(folder, **options)

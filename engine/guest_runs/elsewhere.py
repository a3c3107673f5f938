"""Runs of guests on other machines: sent with their order, waited for, and read like everything from elsewhere."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from pydantic import ValidationError

from go_ent.engine.core.errors import BadState, EngineError
from go_ent.engine.core.explain import explain
from go_ent.engine.core.models import Event
from go_ent.engine.executions.interrupting import interrupt_there
from go_ent.engine.executions.kept_files import kept_files, read_file
from go_ent.engine.executions.lifecycle import Lifecycle
from go_ent.engine.executions.owned import OwnedExecution
from go_ent.engine.executions.state import ExecutionState
from go_ent.engine.executions.store import ExecutionStore
from go_ent.sandbox import Run


class LinesElsewhere(Protocol):
    """Others who run lines of one execution. Belongs to one event loop."""

    @property
    def at_once(self) -> int:
        """How many lines are worth giving it now."""

    async def line(self, number: int, digest: str, inputs: dict[str, Any]) -> Run:
        """One line, which is on record if it has ended; one that was stopped, or was not begun, is `interrupted`."""

    def stop(self) -> None:
        """Begin nothing more, and interrupt what runs."""

    async def close(self) -> None:
        """Until nothing of it runs any more."""


class Elsewhere(Protocol):
    """Others who run executions that are kept where this project's are. Belongs to one event loop."""

    async def slots(self, label: str | None = None) -> int:
        """How much they can run at once; those with that label, if one is given."""

    async def send(
        self,
        lifecycle: Lifecycle,
        state: ExecutionState,
        label: str | None,
        on_event: Callable[[Event], None] | None,
        *,
        needs: Sequence[str] | None = None,
    ) -> str:
        """Have one of them run a new execution, with that label if one is given: its id. Of a run of a guest, which
        takes a slot: the environment variables that it *needs*.
        """

    async def send_again(
        self,
        execution_id: str,
        label: str | None,
        options: dict[str, Any],
        on_event: Callable[[Event], None] | None = None,
        *,
        guest: bool = False,
    ) -> None:
        """Have one of them resume an execution that rests."""

    def has_sent(self, execution_id: str) -> bool:
        """Whether it was sent from here, and has not ended."""

    async def over(self, execution_id: str) -> Mapping[str, Any]:
        """Until it has ended, or rests: what is told of it. `ExecutionConflict` if it could not be run."""

    async def lines(
        self, held: OwnedExecution, needs: Sequence[str] = (), *, label: str | None = None
    ) -> LinesElsewhere | None:
        """Who runs the lines of an execution; None if nobody is there."""

    async def gather(self, held: OwnedExecution) -> None:
        """Add to the record of an execution what others have done of it for a process that is gone."""

    async def overview(self) -> dict[str, Any]:
        """Who is there, and what waits for whom."""

    async def close(self) -> None:
        """Wait for nothing more."""


async def run_sent(elsewhere: Elsewhere, store: ExecutionStore, execution_id: str) -> Run:
    """The run of an execution that was sent. Cancelling this interrupts it."""
    over = asyncio.ensure_future(elsewhere.over(execution_id))
    try:
        told = await asyncio.shield(over)
    except asyncio.CancelledError:
        with contextlib.suppress(EngineError, OSError):
            await interrupt_there(store, execution_id)
        over.cancel()
        raise
    try:
        run = Run.model_validate(told.get("run"))
    except ValidationError as error:
        raise BadState(f"what execution {execution_id} came to can't be read: {explain(error)}") from None
    if run.status == "completed":
        run.files = await asyncio.to_thread(_files, store, execution_id)
    return run


def _files(store: ExecutionStore, execution_id: str) -> dict[str, bytes]:
    return {one.name: read_file(store, execution_id, one.name).data for one in kept_files(store, execution_id)}

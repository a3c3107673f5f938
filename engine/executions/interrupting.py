"""Stopping an execution that another process has."""

from __future__ import annotations

import asyncio
import time

from go_ent.engine.core.errors import ExecutionConflict
from go_ent.engine.executions.state import ExecutionState
from go_ent.engine.executions.store import ExecutionStore

PATIENCE_S = 30.0  # how long another process has to stop what it was asked to


async def interrupt_there(store: ExecutionStore, execution_id: str) -> ExecutionState:
    """Ask the process that has it to stop it; its state once it rests. `ExecutionConflict` if it does not stop."""
    resting = await asyncio.to_thread(store.ask_to_interrupt, execution_id)
    if resting is not None:
        return resting
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        await asyncio.sleep(0.05)
        if await asyncio.to_thread(store.is_held, execution_id):
            continue  # also by who is about to go on with it, whatever it was before
        return await asyncio.to_thread(store.load, execution_id)
    raise ExecutionConflict(
        f"execution {execution_id} was asked to stop, and has not within {PATIENCE_S:g} s: its process may hang"
    )

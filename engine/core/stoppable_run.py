"""A run in a guest that can be stopped from outside."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from go_ent.sandbox import Run, Sandbox
from go_ent.waiting import ended, first_of

GRACE_S = 2.0


async def drive(box: Sandbox, run_id: str, running: Coroutine[Any, Any, Run], stop: asyncio.Event) -> Run | None:
    """A run that *stop* ends: gracefully, then by force. None if it had to be given up. Cancelling this ends it,
    too.
    """
    task = asyncio.ensure_future(running)
    try:
        await first_of(task, stop)
        if not task.done():
            box.end(run_id, "interrupted")
            await asyncio.wait([task], timeout=GRACE_S)
        await ended(task)  # where it waits for something on the host
        return None if task.cancelled() else task.result()
    finally:
        await ended(task)

"""Waiting for the first of several things, and ending what nobody waits for any more."""

from __future__ import annotations

import asyncio
from typing import Any


async def first_of(*awaited: asyncio.Event | asyncio.Future[Any], timeout_s: float | None = None) -> None:
    """Wait until an event is set, a future is done, or the time is over. Look at them to know which.

    The futures go on, also when the caller is cancelled: the caller ends them, with `ended`.
    """
    futures = [one for one in awaited if not isinstance(one, asyncio.Event)]
    events = [asyncio.ensure_future(one.wait()) for one in awaited if isinstance(one, asyncio.Event)]
    try:
        await asyncio.wait([*futures, *events], timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for event in events:
            event.cancel()


async def ended(*futures: asyncio.Future[Any]) -> None:
    """Cancel what is not done, and wait until all are. What fails while it is being ended is nobody's business."""
    running = [future for future in futures if not future.done()]
    for future in running:
        future.cancel()
    if running:
        await asyncio.wait(running)
    for future in running:
        if not future.cancelled():
            future.exception()

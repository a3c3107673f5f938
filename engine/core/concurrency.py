"""Blocking work off the event loop, and work that can be stopped."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from go_ent.waiting import ended, first_of

log = logging.getLogger("go_ent.engine")
T = TypeVar("T")


async def to_the_end(work: Callable[..., T], *arguments: Any, undo: Callable[[T], object] | None = None) -> T:
    """Do *work* in a thread. Who is cancelled meanwhile, however often, waits for it: nothing is written behind the
    next one's back.

    What a cancelled caller will never hear of is put right by *undo*, which is given what the work came to.
    """
    task = asyncio.ensure_future(asyncio.to_thread(work, *arguments))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        while not task.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([task])
        if (error := task.exception()) is not None:
            log.warning("what was being written when its caller was cancelled failed: %s", error)
        elif undo is not None:
            await to_the_end(undo, task.result())
        raise


class Stopped(Exception):
    """Internal: raised when what was waited for was cancelled, since it was asked to stop."""


async def unless(stop: asyncio.Event, work: Coroutine[Any, Any, T]) -> T:
    """What *work* comes to, unless *stop* is set before: then it is cancelled, and `Stopped` raised."""
    working: asyncio.Task[T] = asyncio.ensure_future(work)
    try:
        await first_of(working, stop)
        if working.done():
            return working.result()
        raise Stopped
    finally:
        await ended(working)

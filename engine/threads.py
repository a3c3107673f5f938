"""Blocking work off the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


async def to_the_end(work: Callable[..., T], *arguments: Any) -> T:
    """Do *work* in a thread. Who is cancelled meanwhile waits for it: nothing is written behind the back of the next."""
    task = asyncio.ensure_future(asyncio.to_thread(work, *arguments))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise

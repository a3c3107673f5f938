"""Work in a thread that nobody waits for."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import TypeVar, cast

T = TypeVar("T")


def in_background(work: Callable[[], T]) -> asyncio.Future[T]:
    """Do *work* in a thread that nobody waits for at the end: a read from a terminal may never return."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: BaseException | None) -> None:
        if not future.done():
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(cast(T, result))

    def run() -> None:
        result: T | None = None
        error: BaseException | None = None
        try:
            result = work()
        except BaseException as raised:
            error = raised
        with contextlib.suppress(RuntimeError):  # the loop is gone
            loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=run, daemon=True, name="stdin").start()
    return future

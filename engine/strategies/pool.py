"""`run_with_concurrency`: many tasks, a few at a time."""

from __future__ import annotations

import asyncio
import inspect
import logging
import math
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Mapping
from typing import Any, Generic, TypeVar

from go_ent.dataclass import dataclass

T = TypeVar("T")
R = TypeVar("R")

MOST_BACKOFF_S = 60.0
log = logging.getLogger("go_ent.engine")


@dataclass(frozen=True, slots=True)
class Callbacks(Generic[T, R]):
    """What to call when a task starts, ends or fails. Each is optional, and plain or async."""

    on_start: Callable[[T], object] | None = None
    on_result: Callable[[T, R], object] | None = None
    on_error: Callable[[T, BaseException], object] | None = None


async def run_with_concurrency(
    tasks: Iterable[T] | AsyncIterable[T],
    run: Callable[[T], Awaitable[R]],
    concurrency: int,
    on_result: Callable[[T, R], object] | Callbacks[T, R] | object | None = None,
    on_error: Callable[[T, BaseException], object] | None = None,
    *,
    on_start: Callable[[T], object] | None = None,
    callbacks: Callbacks[T, R] | object | None = None,
    timeout_s: float | None = None,
    retries: int = 0,
    backoff_s: float = 0.5,
    cancel: asyncio.Event | None = None,
) -> list[R]:
    """Run every task, at most *concurrency* at once, and return the results in the order they were completed.

    *tasks* is consumed as slots become free, so it may be endless. A task that fails has no result: its error goes to
    *on_error* and is not raised. It is retried *retries* times first, after *backoff_s*, twice that, and so on up to a
    minute. A try that takes longer than *timeout_s* fails with `TimeoutError`.

    Callbacks may be plain or async, and run on the caller's event loop; one that raises is logged and changes nothing.
    Pass them one by one, or as one object (also in the place of *on_result*): a `Callbacks`, or any object or mapping
    with some of `on_start`, `on_result` and `on_error`.

    Setting *cancel* starts nothing more, cancels what runs, and returns the results so far. Cancelling the caller
    cancels what runs and raises. If *tasks* itself raises, what runs is completed before the error is raised.

    Raises `ValueError` for arguments out of range, and for callbacks given twice. Nothing is left running when this
    returns or raises. Call it from the event loop that owns the tasks; it keeps no state between calls.
    """
    _check(concurrency, timeout_s, retries, backoff_s)
    if on_result is not None and not callable(on_result):
        if callbacks is not None:
            raise ValueError("callbacks are given twice: in the place of on_result, and as callbacks")
        on_result, callbacks = None, on_result
    told = _merged(callbacks, on_start=on_start, on_result=on_result, on_error=on_error)
    results: list[R] = []
    broken: Exception | None = None
    slots = asyncio.Semaphore(concurrency)

    def cancelled() -> bool:
        return cancel is not None and cancel.is_set()

    async def one(task: T) -> None:
        try:
            if cancelled():
                return
            await _tell("on_start", told.on_start, task)
            try:
                result = await _tried(task, run, timeout_s, retries, backoff_s)
            except (Exception, asyncio.CancelledError) as error:
                if cancelled_from_outside(error):
                    raise
                await _tell("on_error", told.on_error, task, error)
            else:
                results.append(result)
                await _tell("on_result", told.on_result, task, result)
        finally:
            slots.release()

    try:
        async with asyncio.TaskGroup() as watched:
            watch = watched.create_task(_abort(cancel)) if cancel is not None else None
            async with asyncio.TaskGroup() as running:
                source = _each(tasks)
                try:
                    while True:
                        await slots.acquire()
                        if cancelled():
                            break
                        running.create_task(one(await anext(source)))
                except StopAsyncIteration:
                    pass
                except Exception as error:  # whatever the caller's iterable raises, it is raised below
                    broken = error
            if watch is not None:
                watch.cancel()
    except* _Cancelled:
        pass
    if broken is not None:
        raise broken
    return results


class _Cancelled(Exception):
    """Ends a group of tasks."""


async def _abort(cancel: asyncio.Event) -> None:
    await cancel.wait()
    raise _Cancelled


def _check(concurrency: int, timeout_s: float | None, retries: int, backoff_s: float) -> None:
    if not isinstance(concurrency, int) or isinstance(concurrency, bool) or concurrency < 1:
        raise ValueError(f"concurrency must be a whole number of at least 1, not {concurrency!r}")
    if timeout_s is not None and not timeout_s > 0:
        raise ValueError(f"timeout_s must be more than 0, not {timeout_s!r}")
    if not isinstance(retries, int) or isinstance(retries, bool) or retries < 0:
        raise ValueError(f"retries must be a whole number of at least 0, not {retries!r}")
    if not (backoff_s >= 0 and math.isfinite(backoff_s)):
        raise ValueError(f"backoff_s must be at least 0, not {backoff_s!r}")


def _each(tasks: Iterable[T] | AsyncIterable[T]) -> AsyncIterator[T]:
    return aiter(tasks) if isinstance(tasks, AsyncIterable) else _Plain(tasks)


class _Plain(AsyncIterator[T]):
    def __init__(self, tasks: Iterable[T]) -> None:
        self._tasks = iter(tasks)

    async def __anext__(self) -> T:
        for task in self._tasks:
            return task
        raise StopAsyncIteration


async def _tried(
    task: T, run: Callable[[T], Awaitable[R]], timeout_s: float | None, retries: int, backoff_s: float
) -> R:
    for attempt in range(retries):
        try:
            async with asyncio.timeout(timeout_s):
                return await run(task)
        except Exception:  # whatever it was, it is tried again
            await asyncio.sleep(backoff(backoff_s, attempt))
    if timeout_s is None:
        return await run(task)
    async with asyncio.timeout(timeout_s):
        return await run(task)


def backoff(backoff_s: float, attempt: int) -> float:
    """How long to wait after try number *attempt*, counted from 0."""
    return min(backoff_s * 2.0 ** min(attempt, 30), MOST_BACKOFF_S)


def cancelled_from_outside(error: BaseException) -> bool:
    """Whether this asyncio task is being cancelled. Else a `CancelledError` is that of something it awaited: a
    failure.
    """
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0


def _merged(callbacks: object | None, **single: Any) -> Callbacks[Any, Any]:
    """The callbacks of an object and those given one by one, which must not be for the same."""
    if callbacks is None:
        return Callbacks(**single)
    found = {
        name: callbacks.get(name) if isinstance(callbacks, Mapping) else getattr(callbacks, name, None)
        for name in single
    }
    if not isinstance(callbacks, Callbacks) and not any(callable(callback) for callback in found.values()):
        raise ValueError(f"callbacks has none of {', '.join(single)}: it is a {type(callbacks).__name__}")
    for name, callback in found.items():
        if callback is not None and not callable(callback):
            raise ValueError(f"callbacks.{name} can't be called: it is a {type(callback).__name__}")
        if callback is not None and single[name] is not None:
            raise ValueError(f"{name} is given twice: by itself, and in callbacks")
    return Callbacks(**{name: found[name] or single[name] for name in single})


async def _tell(name: str, callback: Callable[..., object] | None, *arguments: object) -> None:
    if callback is None:
        return
    try:
        answer = callback(*arguments)
        if inspect.isawaitable(answer):
            await answer
    except (Exception, asyncio.CancelledError) as error:
        if cancelled_from_outside(error):
            raise
        log.warning("%s failed; the pool goes on", name, exc_info=True)

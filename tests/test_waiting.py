"""The first of several: who is told, and what is left running."""

from __future__ import annotations

import asyncio
import gc

import pytest

from go_ent.waiting import ended, first_of


async def forever() -> None:
    await asyncio.get_running_loop().create_future()


def others() -> set[asyncio.Task[object]]:
    return asyncio.all_tasks() - {asyncio.current_task()}


async def test_an_event_ends_the_wait_and_the_future_goes_on() -> None:
    event, task = asyncio.Event(), asyncio.ensure_future(forever())
    asyncio.get_running_loop().call_soon(event.set)
    await first_of(task, event)
    assert not task.done()
    await ended(task)
    assert task.cancelled()


async def test_a_future_ends_the_wait() -> None:
    event, future = asyncio.Event(), asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(future.set_result, 1)
    await first_of(event, future)
    assert future.done()
    assert not event.is_set()


async def test_the_time_ends_the_wait() -> None:
    event = asyncio.Event()
    await first_of(event, timeout_s=0)
    assert not event.is_set()


async def test_nothing_is_left_running_after_the_caller_is_cancelled() -> None:
    before = others()
    task = asyncio.ensure_future(forever())
    waiting = asyncio.ensure_future(first_of(task, asyncio.Event(), asyncio.Event()))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await ended(task)
    await asyncio.sleep(0)
    assert others() <= before


async def test_what_fails_while_it_is_ended_is_not_reported() -> None:
    reports: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reports.append(context))

    async def stubborn() -> None:
        try:
            await forever()
        finally:
            raise ValueError("too late")

    task = asyncio.ensure_future(stubborn())
    await asyncio.sleep(0)
    await ended(task)
    del task
    gc.collect()
    assert not reports

"""The generic pool: any tasks, a few at a time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from go_ent.engine.strategies import Callbacks, run_with_concurrency
from tests.support.rows import each


async def double(task: int) -> int:
    return task * 2


class Gate:
    """Tasks that end when they are told to, in the order that the test says."""

    def __init__(self) -> None:
        self.started: list[int] = []
        self.cancelled: list[int] = []
        self._doors: dict[int, asyncio.Event] = {}

    def open(self, task: int) -> None:
        self._doors.setdefault(task, asyncio.Event()).set()

    async def __call__(self, task: int) -> int:
        self.started.append(task)
        try:
            await self._doors.setdefault(task, asyncio.Event()).wait()
        except asyncio.CancelledError:
            self.cancelled.append(task)
            raise
        return task


async def settle() -> None:
    """Let everything go as far as it can."""
    for _ in range(20):
        await asyncio.sleep(0)


def nobody_else_runs() -> bool:
    return asyncio.all_tasks() == {asyncio.current_task()}


@each("concurrency", [0, -1, float("nan"), 1.0, 1.5, True, "2", None])
def test_a_concurrency_below_1_or_no_whole_number_is_refused_before_anything_runs(concurrency: Any) -> None:
    pulled = []

    def tasks() -> Iterator[int]:
        pulled.append(1)
        yield 1

    with pytest.raises(ValueError, match="concurrency must be a whole number of at least 1"):
        asyncio.run(run_with_concurrency(tasks(), double, concurrency))
    assert not pulled


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"timeout_s": 0}, "timeout_s"),
        ({"timeout_s": float("nan")}, "timeout_s"),
        ({"retries": -1}, "retries"),
        ({"backoff_s": -1}, "backoff_s"),
    ],
)
def test_other_options_that_mean_nothing_are_refused(options: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        asyncio.run(run_with_concurrency([1], double, 1, **options))


def test_no_tasks_give_no_results() -> None:
    assert asyncio.run(run_with_concurrency([], double, 3)) == []


def test_a_cancel_that_never_comes_holds_nothing_up() -> None:
    assert asyncio.run(run_with_concurrency([1, 2], double, 1, cancel=asyncio.Event())) == [2, 4]


async def test_results_come_in_completion_order_and_callbacks_carry_the_task() -> None:
    gate, told = Gate(), []
    pool = asyncio.create_task(
        run_with_concurrency([1, 2, 3], gate, 3, lambda task, result: told.append((task, result)))
    )
    for task in (2, 3, 1):
        gate.open(task)
        await settle()
    assert await pool == [2, 3, 1]
    assert told == [(2, 2), (3, 3), (1, 1)]


def test_an_error_is_told_with_its_task_and_the_rest_goes_on() -> None:
    async def fails_on_2(task: int) -> int:
        if task == 2:
            raise KeyError("two")
        return task

    errors: list[tuple[int, BaseException]] = []
    results: list[tuple[int, int]] = []

    async def on_error(task: int, error: BaseException) -> None:
        await asyncio.sleep(0)
        errors.append((task, error))

    answer = asyncio.run(
        run_with_concurrency([1, 2, 3], fails_on_2, 1, lambda task, result: results.append((task, result)), on_error)
    )
    assert answer == [1, 3]
    assert results == [(1, 1), (3, 3)]
    assert [(task, repr(error)) for task, error in errors] == [(2, "KeyError('two')")]


@pytest.mark.parametrize("is_async", [False, True])
def test_a_callback_that_raises_loses_no_result_and_counts_no_error(
    is_async: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def fails_on_2(task: int) -> int:
        if task == 2:
            raise KeyError(task)
        return task

    told: list[tuple[str, int]] = []

    def on_result(task: int, _result: int) -> None:
        told.append(("result", task))
        raise RuntimeError("from on_result")

    def on_error(task: int, _error: BaseException) -> None:
        told.append(("error", task))
        raise RuntimeError("from on_error")

    async def on_result_later(task: int, result: int) -> None:
        await asyncio.sleep(0)
        on_result(task, result)

    with caplog.at_level(logging.WARNING, "go_ent.engine"):
        answer = asyncio.run(
            run_with_concurrency([1, 2, 3], fails_on_2, 1, on_result_later if is_async else on_result, on_error)
        )
    assert answer == [1, 3]
    assert told == [("result", 1), ("error", 2), ("result", 3)]
    assert [record.message.partition(" ")[0] for record in caplog.records] == ["on_result", "on_error", "on_result"]


async def test_tasks_are_taken_only_when_a_slot_is_free() -> None:
    gate, pulled = Gate(), []

    def endless() -> Iterator[int]:
        number = 0
        while True:
            pulled.append(number)
            yield number
            number += 1

    cancel = asyncio.Event()
    pool = asyncio.create_task(run_with_concurrency(endless(), gate, 3, cancel=cancel))
    await settle()
    assert pulled == gate.started == [0, 1, 2]
    gate.open(1)
    await settle()
    assert pulled == gate.started == [0, 1, 2, 3]
    cancel.set()
    assert await pool == [1]


def test_tasks_may_come_from_an_async_iterable() -> None:
    async def tasks() -> AsyncIterator[int]:
        for number in range(5):
            await asyncio.sleep(0)
            yield number

    assert sorted(asyncio.run(run_with_concurrency(tasks(), double, 2))) == [0, 2, 4, 6, 8]


def test_if_the_tasks_themselves_raise_what_runs_is_completed_first() -> None:
    def tasks() -> Iterator[int]:
        yield 1
        raise OSError("no more")

    done: list[int] = []

    async def run(task: int) -> None:
        await settle()
        done.append(task)

    with pytest.raises(OSError, match="no more"):
        asyncio.run(run_with_concurrency(tasks(), run, 2))
    assert done == [1]


def test_cancel_starts_nothing_more_cancels_what_runs_and_keeps_what_was_completed() -> None:
    async def main() -> None:
        gate, cancel, errors = Gate(), asyncio.Event(), []
        gate.open(1)
        pool = asyncio.create_task(
            run_with_concurrency(
                range(10), gate, 2, on_error=lambda task, error: errors.append((task, error)), cancel=cancel
            )
        )
        await settle()
        cancel.set()
        assert await pool == [1]
        assert gate.started == [0, 1, 2]
        assert sorted(gate.cancelled) == [0, 2]
        assert errors == []
        assert nobody_else_runs()

    asyncio.run(main())


@pytest.mark.parametrize("concurrency", [1, 5])
async def test_a_callback_may_cancel_and_then_nothing_more_starts(concurrency: int) -> None:
    cancel, started, tasks = asyncio.Event(), [], iter(range(100))

    async def run(task: int) -> int:
        started.append(task)
        return task

    assert await run_with_concurrency(tasks, run, concurrency, lambda _task, _result: cancel.set(), cancel=cancel) == [
        0
    ]
    assert started == [0]
    following = next(tasks)
    assert await run_with_concurrency(tasks, run, concurrency, cancel=cancel) == []
    assert (started, next(tasks)) == ([0], following + 1)


def test_cancelling_the_call_leaves_nothing_running() -> None:
    async def main() -> None:
        gate = Gate()
        pool = asyncio.create_task(run_with_concurrency(range(10), gate, 3, retries=3, cancel=asyncio.Event()))
        await settle()
        pool.cancel()
        with pytest.raises(asyncio.CancelledError):
            await pool
        assert gate.started == [0, 1, 2]
        assert sorted(gate.cancelled) == [0, 1, 2]
        assert nobody_else_runs()

    asyncio.run(main())


async def test_a_task_that_takes_too_long_is_an_error() -> None:
    gate, errors = Gate(), []
    gate.open(2)
    answer = await run_with_concurrency(
        [1, 2], gate, 2, on_error=lambda task, error: errors.append((task, type(error))), timeout_s=0.01
    )
    assert answer == [2]
    assert errors == [(1, TimeoutError)]
    assert gate.cancelled == [1]


def test_a_failure_is_tried_again_with_growing_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    really = asyncio.sleep

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        await really(0)

    tries: list[int] = []
    errors: list[str] = []

    async def third_time_lucky(task: int) -> int:
        tries.append(task)
        if tries.count(task) < 3 or task == 9:
            raise OSError(f"{task} at try {tries.count(task)}")
        return task

    monkeypatch.setattr("go_ent.engine.strategies.pool.asyncio.sleep", sleep)
    answer = asyncio.run(
        run_with_concurrency(
            [1, 9],
            third_time_lucky,
            1,
            on_error=lambda _task, error: errors.append(str(error)),
            retries=3,
            backoff_s=0.5,
        )
    )
    assert answer == [1]
    assert tries == [1, 1, 1, 9, 9, 9, 9]
    assert errors == ["9 at try 4"]
    assert pauses == [0.5, 1.0, 0.5, 1.0, 2.0]


def test_a_cancelled_error_of_its_own_is_a_failure_of_that_task_and_not_tried_again() -> None:
    tries, errors = [], []

    async def cancels_itself(task: int) -> int:
        tries.append(task)
        if task == 1:
            raise asyncio.CancelledError
        return task

    answer = asyncio.run(
        run_with_concurrency(
            [1, 2],
            cancels_itself,
            1,
            on_error=lambda task, error: errors.append((task, type(error))),
            retries=5,
            backoff_s=0,
        )
    )
    assert answer == [2]
    assert errors == [(1, asyncio.CancelledError)]
    assert tries == [1, 2]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    pauses=st.lists(st.integers(0, 4), max_size=30),
    concurrency=st.integers(1, 6),
    failing=st.sets(st.integers(0, 29)),
    retries=st.integers(0, 2),
)
def test_each_task_ends_exactly_once_and_never_too_many_run(
    pauses: list[int], concurrency: int, failing: set[int], retries: int
) -> None:
    running, most = 0, 0
    results: list[int] = []
    errors: list[int] = []
    tries: dict[int, int] = {}

    async def run(task: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        tries[task] = tries.get(task, 0) + 1
        for _ in range(pauses[task]):
            await asyncio.sleep(0)
        running -= 1
        if task in failing:
            raise LookupError
        return task

    answer = asyncio.run(
        run_with_concurrency(
            range(len(pauses)),
            run,
            concurrency,
            lambda task, _result: results.append(task),
            lambda task, _error: errors.append(task),
            retries=retries,
            backoff_s=0,
        )
    )
    assert answer == results
    assert sorted(results + errors) == list(range(len(pauses)))
    assert set(errors) == failing & set(range(len(pauses)))
    assert most <= concurrency
    assert all(count == (retries + 1 if task in failing else 1) for task, count in tries.items())


class Listener:
    """Callbacks as an object of a caller's own; one of them is async."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, int]] = []

    def on_start(self, task: int) -> None:
        self.heard.append(("start", task))

    async def on_result(self, task: int, result: int) -> None:
        self.heard.append(("result", result))

    def on_error(self, task: int, error: BaseException) -> None:
        self.heard.append((str(error), task))


async def odd_ones_fail(task: int) -> int:
    if task % 2:
        raise ValueError("odd")
    return task * 10


HEARD = [("start", 1), ("odd", 1), ("start", 2), ("result", 20)]


@pytest.mark.parametrize("as_keyword", [True, False])
@pytest.mark.parametrize("kind", ["object", "Callbacks", "mapping"])
def test_callbacks_are_taken_as_one_object(kind: str, as_keyword: bool) -> None:
    listener = Listener()
    parts: dict[str, Any] = {
        "on_start": listener.on_start,
        "on_result": listener.on_result,
        "on_error": listener.on_error,
    }
    given: Any = {"object": listener, "Callbacks": Callbacks(**parts), "mapping": parts}[kind]
    pool = (
        run_with_concurrency([1, 2], odd_ones_fail, 1, callbacks=given)
        if as_keyword
        else run_with_concurrency([1, 2], odd_ones_fail, 1, given)
    )
    assert asyncio.run(pool) == [20]
    assert listener.heard == HEARD


def test_an_object_with_one_callback_goes_with_others_given_alone() -> None:
    listener, errors = Listener(), list[int]()
    only = Callbacks(on_result=listener.on_result)
    asyncio.run(
        run_with_concurrency([1, 2], odd_ones_fail, 1, on_error=lambda task, _: errors.append(task), callbacks=only)
    )
    assert (listener.heard, errors) == ([("result", 20)], [1])


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"callbacks": object()}, "callbacks has none of on_start, on_result, on_error: it is a object"),
        ({"on_result": 5}, "callbacks has none of on_start, on_result, on_error: it is a int"),
        ({"callbacks": {"on_start": print, "on_error": 5}}, "callbacks.on_error can't be called: it is a int"),
        ({"callbacks": Listener(), "on_error": print}, "on_error is given twice: by itself, and in callbacks"),
        ({"callbacks": Listener(), "on_result": Listener()}, "callbacks are given twice"),
    ],
)
def test_callbacks_that_are_none_are_refused_before_anything_runs(options: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        asyncio.run(run_with_concurrency([1], double, 1, **options))


def test_a_callback_at_the_start_that_raises_loses_nothing(caplog: pytest.LogCaptureFixture) -> None:
    def fails(task: int) -> None:
        raise RuntimeError("no")

    assert asyncio.run(run_with_concurrency([1], double, 1, on_start=fails)) == [2]
    assert "on_start failed" in caplog.text

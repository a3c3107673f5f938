"""`--each` and `--slurp`: a composed tool in a shell pipeline, JSON lines in and out."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from io import BufferedReader
from typing import Any, TypeVar, cast

from pydantic_core import to_json

from composer import Approver
from composer.composed import Composed
from engine.batches import Batch
from engine.cli import UsageError
from engine.cli.texts import say
from engine.executions.state import ExecutionStatus
from engine.outcomes import EXIT_CODES
from sandbox import Run

MAX_LINE = 32 << 20
MAX_SLURPED = 256 << 20
MOST_AHEAD = 256
T = TypeVar("T")
Once = Callable[[int, bytes, dict[str, Any]], Awaitable[Run]]


@dataclass(frozen=True, slots=True)
class Piped:
    """How a pipeline over lines ended."""

    done: int
    failed: int
    interrupted: bool

    @property
    def exit_code(self) -> int:
        return EXIT_CODES["interrupted"] if self.interrupted else 1 if self.failed else 0


def feed(tool: Composed, inputs: dict[str, Any], value: Any, *, as_list: bool = False) -> dict[str, Any]:
    """The inputs of a run over *value*: its members if they are the tool's parameters, else its first free parameter."""
    names = list(tool.interface.input_schema["properties"])
    required = set(tool.interface.input_schema.get("required", ()))
    if isinstance(value, dict) and not as_list and value.keys() <= set(names) and required <= value.keys() | inputs.keys() and value:
        return {**inputs, **value}
    free = [name for name in names if name not in inputs]
    if not free:
        raise UsageError(f"{tool.name} has no parameter left for what stands on stdin")
    return {**inputs, free[0]: value}


def slurped() -> list[Any]:
    """All JSON lines of stdin."""
    values = []
    size = 0
    stdin = _stdin()
    while found := stdin.read():
        for number, line in found:
            size += len(line)
            if size > MAX_SLURPED:
                raise UsageError(f"stdin is longer than {MAX_SLURPED} bytes: use --each")
            try:
                values.append(json.loads(line))
            except (ValueError, RecursionError) as error:
                raise UsageError(f"line {number} of stdin is not JSON: {error}") from None
    return values


class Lines:
    """The lines of a stream that are not empty, with their numbers, as they arrive."""

    def __init__(self, stream: BufferedReader) -> None:
        self._stream = stream
        self._rest: list[bytes] = []
        self._held = 0
        self._number = 0

    def read(self) -> list[tuple[int, bytes]]:
        """What has arrived, a line at the least; nothing at the end."""
        found: list[tuple[int, bytes]] = []
        while not found:
            data = self._stream.raw.read(1 << 16) or b""  # not the buffer: its lock outlives a thread that is given up
            head, *tail = data.split(b"\n")
            self._rest.append(head)
            self._held += len(head)
            whole = []
            if tail or not data:
                *more, last = tail or [b""]
                whole = [b"".join(self._rest), *more]
                self._rest, self._held = [last], len(last)
            if self._held > MAX_LINE:
                raise UsageError(f"line {self._number + 1} of stdin is longer than {MAX_LINE} bytes")
            for line in whole:
                self._number += 1
                if line.strip():
                    found.append((self._number, line))
            if not data:
                break
        return found


def _stdin() -> Lines:
    return Lines(cast(BufferedReader, sys.stdin.buffer))


async def run_each(
    tool: Composed, inputs: dict[str, Any], once: Once, stop: asyncio.Event, *, jobs: int | None, fail_fast: bool, whole: bool
) -> Piped:
    """Once for each line, several at a time, results in the order of the lines; a failing line is reported and passed over.

    A result is written as soon as those before it are, whether or not more lines have come; a slow line holds back the
    writing of those after it, not their running, up to a bound.
    """
    most = _at_once(jobs)
    feed(tool, inputs, None)  # a tool that takes nothing is said to, once
    stdin = _stdin()
    reading: asyncio.Future[list[tuple[int, bytes]]] | None = in_background(stdin.read)
    lines: deque[tuple[int, bytes]] = deque()
    window: deque[tuple[int, asyncio.Task[Run | str]]] = deque()
    running: set[asyncio.Task[Run | str]] = set()
    failed = done = 0
    interrupted = False
    stopping = asyncio.ensure_future(stop.wait())
    try:
        with _progress() as advance:
            while reading is not None or lines or window:
                if stopping.done():  # what runs ends by itself, soon
                    interrupted, reading, lines = True, None, deque()
                while lines and len(running) < most and len(window) < MOST_AHEAD:
                    number, line = lines.popleft()
                    task = asyncio.create_task(_line(tool, inputs, number, line, once))
                    running.add(task)
                    task.add_done_callback(running.discard)
                    window.append((number, task))
                while window and window[0][1].done():
                    number, task = window.popleft()
                    outcome = task.result()
                    done += 1
                    ok = _emit(number, outcome, whole)
                    failed += not ok
                    advance(done, failed)
                    interrupted = interrupted or (isinstance(outcome, Run) and outcome.status == "interrupted")
                    if not ok and (fail_fast or interrupted):
                        reading, lines = None, deque()
                        await _cancel(window)
                if reading is not None and reading.done():
                    found = reading.result()
                    lines.extend(found)
                    reading = in_background(stdin.read) if found else None
                waiting: set[asyncio.Future[Any]] = {*running}
                if reading is not None and len(lines) < MOST_AHEAD:
                    waiting.add(reading)
                ready = lines and len(running) < most and len(window) < MOST_AHEAD
                if waiting and not ready:
                    sys.stdout.flush()
                    await asyncio.wait(waiting if stopping.done() else {*waiting, stopping}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopping.cancel()
        await _cancel(window)
        sys.stdout.flush()
    return Piped(done, failed, interrupted)


def _at_once(jobs: int | None) -> int:
    if jobs is not None and jobs < 1:
        raise UsageError("--jobs must be at least 1")
    return jobs if jobs is not None else max(2, os.cpu_count() or 1)


async def run_batch(batch: Batch, approver: Approver | None, *, whole: bool) -> int:
    """`run_each` for an execution, which ends with it."""

    async def once(number: int, line: bytes, given: dict[str, Any]) -> Run:
        return await batch.line(number, line, given, approver)

    piped, order = Piped(0, 0, interrupted=True), batch.order
    try:
        piped = await run_each(batch.tool, order.inputs, once, batch.stopping, jobs=order.jobs, fail_fast=order.fail_fast, whole=whole)
    finally:
        over = "interrupted" if piped.interrupted or batch.missing else "completed"
        if over == "completed" and batch.held.state.requests:
            over = "paused"
        elif over == "completed" and (batch.left or (piped.failed and order.fail_fast)):
            over = "failed"
        await batch.end(cast(ExecutionStatus, over), done=piped.done, failed=piped.failed)
    if piped.failed:
        print(f"{piped.failed} of {piped.done} lines failed", file=sys.stderr)
    if over == "paused":
        decide = f"go-ent approve {batch.held.id}, or go-ent reject {batch.held.id}; then go-ent resume {batch.held.id} < LINES"
        print(f"{len(batch.held.state.requests)} calls wait for approval: {decide}", file=sys.stderr)
        return EXIT_CODES["paused"]
    if batch.missing and not piped.interrupted:
        print(f"stdin ended before line {batch.missing}, which was begun before: give it all the lines again", file=sys.stderr)
    if over in ("interrupted", "failed"):
        print(f"go on with it, over the same lines: go-ent resume {batch.held.id} < LINES", file=sys.stderr)
    return EXIT_CODES["interrupted"] if over == "interrupted" else piped.exit_code


async def _cancel(window: deque[tuple[int, asyncio.Task[Run | str]]]) -> None:
    for _, task in window:
        task.cancel()
    await asyncio.gather(*(task for _, task in window), return_exceptions=True)
    window.clear()


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


async def _line(tool: Composed, inputs: dict[str, Any], number: int, line: bytes, once: Once) -> Run | str:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        return f"not JSON: {error}"
    return await once(number, line, feed(tool, inputs, value))


def _emit(number: int, outcome: Run | str, whole: bool) -> bool:
    if isinstance(outcome, str):
        if whole:
            print(to_json({"line": number, "status": "error", "error": {"kind": "InputError", "message": outcome}}).decode())
        print(f"line {number}: {outcome}", file=sys.stderr)
        return False
    if whole:
        print(to_json({"line": number, **outcome.model_dump(mode="json")}).decode())
    elif outcome.status == "completed":
        print(to_json(outcome.result, inf_nan_mode="null").decode())
    if outcome.status != "completed":
        error = outcome.error
        why = "" if error is None or error.kind == outcome.status else f": {error.kind}: {error.message}"
        say(f"line {number}: {outcome.status}{why}", err=True)
    return outcome.status == "completed"


@contextlib.contextmanager
def _progress() -> Iterator[Callable[[int, int], None]]:
    """A line on the terminal that counts; elsewhere nothing. Not when results go to the same terminal."""
    if not sys.stderr.isatty() or sys.stdout.isatty():
        yield lambda done, failed: None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.completed} lines, {task.fields[failed]} failed"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None, failed=0)
        yield lambda done, failed: bar.update(task, completed=done, failed=failed)

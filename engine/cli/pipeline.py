"""`--each` and `--slurp`: a composed tool in a shell pipeline, JSON lines in and out."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from io import BufferedReader
from typing import Any, cast

from pydantic_core import to_json

from composer.composed import Composed
from engine.cli import UsageError
from sandbox import Run

MAX_LINE = 32 << 20
Once = Callable[[dict[str, Any]], Awaitable[Run]]


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
    stdin = _stdin()
    while found := stdin.read():
        for number, line in found:
            try:
                values.append(json.loads(line))
            except (ValueError, RecursionError) as error:
                raise UsageError(f"line {number} of stdin is not JSON: {error}") from None
    return values


class Lines:
    """The lines of a stream that are not empty, with their numbers, as they arrive."""

    def __init__(self, stream: BufferedReader) -> None:
        self._stream = stream
        self._rest = b""
        self._number = 0

    def read(self) -> list[tuple[int, bytes]]:
        """What has arrived, a line at the least; nothing at the end."""
        found: list[tuple[int, bytes]] = []
        while not found:
            data = self._stream.read1(1 << 16)
            *whole, self._rest = (self._rest + data).split(b"\n") if data else [self._rest, b""]
            if len(self._rest) > MAX_LINE:
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


async def run_each(tool: Composed, inputs: dict[str, Any], once: Once, *, jobs: int | None, fail_fast: bool, whole: bool) -> int:
    """Once for each line, several at a time, results in the order of the lines; a failing line is reported and passed over."""
    most = jobs if jobs is not None else max(2, os.cpu_count() or 1)
    if most < 1:
        raise UsageError("--jobs must be at least 1")
    stdin = _stdin()
    lines: deque[tuple[int, bytes]] = deque()
    window: deque[tuple[int, asyncio.Task[Run | str]]] = deque()
    failed = done = 0
    over = False
    with _progress() as advance:
        while True:
            while not over and len(window) < most:
                if not lines:
                    if window and window[0][1].done():
                        break  # what is finished is not kept waiting for what has not arrived
                    lines.extend(await asyncio.to_thread(stdin.read))
                    if not lines:
                        over = True
                        break
                number, line = lines.popleft()
                window.append((number, asyncio.create_task(_line(tool, inputs, line, once))))
            if not window:
                break
            number, task = window.popleft()
            outcome = await task
            done += 1
            ok = _emit(number, outcome, whole)
            failed += not ok
            advance(done, failed)
            if not ok and (fail_fast or (isinstance(outcome, Run) and outcome.status == "interrupted")):
                for _, left in window:
                    left.cancel()
                await asyncio.gather(*(left for _, left in window), return_exceptions=True)
                break
    sys.stdout.flush()
    if failed:
        print(f"{failed} of {done} lines failed", file=sys.stderr)
    return 1 if failed else 0


async def _line(tool: Composed, inputs: dict[str, Any], line: bytes, once: Once) -> Run | str:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        return f"not JSON: {error}"
    return await once(feed(tool, inputs, value))


def _emit(number: int, outcome: Run | str, whole: bool) -> bool:
    if isinstance(outcome, str):
        print(f"line {number}: {outcome}", file=sys.stderr)
        return False
    if whole:
        print(outcome.model_dump_json())
    elif outcome.status == "completed":
        print(to_json(outcome.result, inf_nan_mode="null").decode())
    if outcome.status != "completed":
        error = outcome.error
        print(
            f"line {number}: {outcome.status}: {error.kind}: {error.message}" if error else f"line {number}: {outcome.status}",
            file=sys.stderr,
        )
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

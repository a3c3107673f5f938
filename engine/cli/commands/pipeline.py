"""`--each` and `--slurp`: a composed tool in a shell pipeline, JSON lines in and out."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections import deque
from dataclasses import field
from io import BufferedReader
from typing import Any, cast

from pydantic_core import to_json

from go_ent.composer import Approver
from go_ent.composer.composed.source import Composed
from go_ent.dataclass import dataclass
from go_ent.engine.cli import UsageError
from go_ent.engine.cli.commands.shared import say_kept
from go_ent.engine.cli.inputs.sources import LINES, Item, Lines, Source
from go_ent.engine.cli.inputs.values import kinds
from go_ent.engine.cli.terminal.background import in_background
from go_ent.engine.cli.terminal.formats import Format, show_as
from go_ent.engine.cli.terminal.output import say, short, show_json
from go_ent.engine.cli.terminal.progress import ProgressLine
from go_ent.engine.cli.terminal.signals import say_interrupted
from go_ent.engine.core.ids import short_id
from go_ent.engine.core.outcomes import EXIT_CODES
from go_ent.engine.executions.state import ExecutionStatus
from go_ent.engine.guest_runs.batch import AHEAD, Batch
from go_ent.sandbox import Run, Status
from go_ent.waiting import first_of

MAX_SLURPED = 256 << 20
Window = deque[tuple[Item, asyncio.Task[Run]]]
MOST_PRINTED = 4000  # characters of what a line has printed
MOST_PATH = 4096  # bytes of a line that may be the name of a file
MOST_NAMED = 5  # of those that failed


@dataclass(slots=True)
class Piped:
    """How a pipeline over lines went."""

    done: int = 0
    failed: int = 0
    waiting: int = 0
    stopped: int = 0  # lines that were interrupted
    interrupted: bool = False
    cut: bool = False  # a line failed, and those after it were left out for that
    names: list[str] = field(default_factory=list)  # of the first that failed

    def count(self, item: Item, status: Status) -> bool:
        """One line more, and whether it failed; one that waits or was interrupted has not."""
        failed = status not in ("completed", "paused", "interrupted")
        self.done += 1
        self.failed += failed
        if failed and len(self.names) < MOST_NAMED:
            self.names.append(short(item.name))
        self.waiting += status == "paused"
        self.stopped += status == "interrupted"
        self.interrupted = self.interrupted or status == "interrupted"
        return failed

    @property
    def exit_code(self) -> int:
        return EXIT_CODES["interrupted"] if self.interrupted else 1 if self.failed else 0

    @property
    def said(self) -> str:
        """What came of the lines, for people."""
        more = ", …" if self.failed > len(self.names) else ""
        failed = f"failed ({', '.join(self.names)}{more})"
        counts = ((self.failed, failed), (self.waiting, "waiting for approval"), (self.stopped, "interrupted"))
        return ", ".join(
            [
                f"{self.done} line{'' if self.done == 1 else 's'}",
                *(f"{count} {what}" for count, what in counts if count),
            ]
        )


@dataclass(slots=True)
class Shown:
    """How the results are printed: one JSON value a line as they come, or all at the end in a *form*."""

    whole: bool = False  # each whole run, not its result alone
    quiet: bool = False
    form: Format | None = None
    kept: list[Any] = field(default_factory=list)
    kept_bytes: int = 0

    def keep(self, outcome: Run) -> None:
        self.kept_bytes += outcome.usage.result_bytes
        if self.kept_bytes > MAX_SLURPED:
            raise UsageError(f"the results are longer than {MAX_SLURPED} bytes: print them without --output")
        self.kept.append(outcome.result)


def feed(tool: Composed, inputs: dict[str, Any], value: Any, *, as_list: bool = False) -> dict[str, Any]:
    """The inputs of a run over *value*: its members if they are the tool's parameters, else its first free
    parameter. An object with some of them only is a parameter's value where that may be one.
    """
    properties = tool.interface.input_schema["properties"]
    required = set(tool.interface.input_schema.get("required", ()))
    free = [name for name in properties if name not in inputs]
    if isinstance(value, dict) and not as_list and value and value.keys() <= properties.keys():
        takes = kinds(properties[free[0]]) if free else frozenset()  # nothing: it may be an object, too
        if required <= value.keys() | inputs.keys() or (takes and "object" not in takes):
            return {**inputs, **value}
    if not free:
        raise UsageError(f"{tool.name} has no parameter left for what stands on stdin")
    return {**inputs, free[0]: value}


def slurped() -> list[Any]:
    """All JSON values of stdin."""
    values = []
    size = 0
    stdin = _stdin()
    while found := stdin.read():
        for item in found:
            size += len(item.data)
            if size > MAX_SLURPED:
                raise UsageError(f"stdin is longer than {MAX_SLURPED} bytes: use --each")
            try:
                values.append(json.loads(item.data))
            except (ValueError, RecursionError) as error:
                raise UsageError(f"line {item.number} of stdin is not JSON: {error}") from None
    return values


def _stdin() -> Lines:
    return Lines(cast(BufferedReader, sys.stdin.buffer))


async def run_each(batch: Batch, approver: Approver | None, shown: Shown, source: Source | None = None) -> Piped:
    """Once for each line of stdin, or item of *source*, several at a time, results in their order; a failing line is
    reported and passed over.

    A result is written as soon as those before it are, whether or not more lines have come; a slow line holds back the
    writing of those after it, not their running, up to a bound. A line that had failed before the resume ends
    nothing.
    """
    jobs = batch.order.jobs or max(2, os.cpu_count() or 1)
    feed(batch.tool, batch.order.inputs, None)  # a tool that takes nothing is said to, once
    stdin = source or _stdin()
    reading: asyncio.Future[list[Item]] | None = in_background(stdin.read)
    lines: deque[Item] = deque()
    window: Window = deque()
    running: set[asyncio.Task[Run]] = set()
    piped = Piped()
    try:
        with ProgressLine("", quiet=shown.whole or shown.quiet) as progress:
            while reading is not None or lines or window:
                most = batch.at_once or jobs  # others may want more of them as they learn what a line takes
                ahead = max(AHEAD, 2 * most)
                if batch.stopping.is_set():  # what runs ends by itself, soon
                    piped.interrupted, reading, lines = True, None, deque()
                while lines and len(running) < most and len(window) < ahead:
                    item = lines.popleft()
                    task = asyncio.create_task(_line(batch, approver, item))
                    running.add(task)
                    task.add_done_callback(running.discard)
                    window.append((item, task))
                while window and window[0][1].done():
                    item, task = window.popleft()
                    outcome = task.result()
                    _emit(item, outcome, shown)
                    failed = piped.count(item, outcome.status)
                    ends = failed and batch.order.fail_fast and item.number not in batch.known
                    progress.count(piped.done, piped.failed, stdin.total)
                    if ends or (piped.interrupted and outcome.status != "completed"):
                        piped.cut = piped.cut or (ends and bool(reading is not None or lines or window))
                        reading, lines = None, deque()
                        await _cancel(window)
                if reading is not None and reading.done():
                    found = reading.result()
                    lines.extend(found)
                    reading = in_background(stdin.read) if found else None
                coming: set[asyncio.Future[Any]] = {*running}
                if reading is not None and len(lines) < ahead:
                    coming.add(reading)
                ready = lines and len(running) < most and len(window) < ahead
                if coming and not ready:
                    sys.stdout.flush()
                    await first_of(*coming, *(() if batch.stopping.is_set() else (batch.stopping,)))
    finally:
        await _cancel(window)
        sys.stdout.flush()
    return piped


async def run_batch(batch: Batch, approver: Approver | None, shown: Shown, source: Source | None = None) -> int:
    """`run_each` for an execution, which ends with it."""

    piped = Piped(interrupted=True)
    try:
        piped = await run_each(batch, approver, shown, source)
        if shown.form is not None:
            show_as(shown.kept, shown.form)
    finally:
        missing = 0 if piped.cut else batch.missing
        over = "interrupted" if piped.interrupted or missing else "completed"
        error = None
        if over == "completed" and batch.held.state.requests:
            over = "paused"
        elif over == "completed" and piped.cut:
            over, error = "failed", "a line failed, and those after it were left out (--fail-fast)"
        elif over == "completed" and batch.left:
            over, error = "failed", "some lines did not come to their end"
        await batch.end(cast(ExecutionStatus, over), piped.said, error)
    what, lines = ("files", "") if batch.order.each_files else ("lines", " < LINES")
    if piped.failed and over != "interrupted":
        say(f"{piped.failed} of {piped.done} {what} failed", err=True)
    name = short_id(batch.held.id)
    say_kept(batch.held.id, batch.files.count)
    if over == "paused":
        decide = f"go-ent approve {name}, or go-ent reject {name}; then go-ent resume {name}{lines}"
        count = len(batch.held.state.requests)
        say(f"{'1 call waits' if count == 1 else f'{count} calls wait'} for approval: {decide}", err=True)
        return EXIT_CODES["paused"]
    if missing and not piped.interrupted:
        say(f"stdin ended before line {missing}, which was begun before: give it all the lines again", err=True)
    resume = f"go-ent resume {name}" + (f"{lines} (the same lines)" if lines else "")
    if over == "interrupted":
        say_interrupted(batch.held.id, resume)
    elif over == "failed":
        say(f"to resume: {resume}", err=True)
    return EXIT_CODES["interrupted"] if over == "interrupted" else piped.exit_code


async def _cancel(window: Window) -> None:
    for _, task in window:
        task.cancel()
    await asyncio.gather(*(task for _, task in window), return_exceptions=True)
    window.clear()


async def _line(batch: Batch, approver: Approver | None, item: Item) -> Run:
    try:
        value = json.loads(item.data)
    except (ValueError, RecursionError) as error:
        text = _text_of(batch, item)
        if text is None:
            why = f"not JSON: {error}{_hint(item)}" if item.data.strip() else "it is empty"
            return batch.refuse(item.number, item.data, why)
        value = text
    return await batch.line(item.number, item.data, feed(batch.tool, batch.order.inputs, value), approver)


def _text_of(batch: Batch, item: Item) -> str | None:
    """A file that is no JSON is a text, for a tool that takes one there."""
    free = [name for name in batch.tool.interface.input_schema["properties"] if name not in batch.order.inputs]
    schema = batch.tool.interface.input_schema["properties"][free[0]] if free else None
    if not item.file or item.file.endswith((".json", *LINES)) or "string" not in kinds(schema):
        return None
    try:
        return item.data.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _elements(item: Item) -> str:
    """What would run a tool over the elements of a list that was given as one value."""
    is_list = item.number == 1 and item.data.lstrip()[:1] == b"["
    return "\nhint: it is one list; jq -c '.[]' makes each of its elements a line" if is_list else ""


def _hint(item: Item) -> str:
    """What would make JSON of it; of many lines the first is told."""
    if item.file:
        first, _, more = item.data.strip().partition(b"\n")
        many = bool(more) and not item.file.endswith(LINES) and _is_json(first)
        return "; a file is one value: give many on stdin, or in a file that ends in .jsonl" if many else ""
    if item.number != 1:
        return ""
    if item.data.lstrip().startswith((b"{", b"[")):
        return "; jq -c puts each value on one line"
    if len(item.data) < MOST_PATH and b"\0" not in item.data and os.path.isfile(item.data):
        return "; it is the name of a file: give files as arguments, as xargs does"
    return '; text needs quotes, like "hello"; jq -R makes them'


def _is_json(data: bytes) -> bool:
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return False
    return True


def _emit(item: Item, outcome: Run, shown: Shown) -> None:
    name = short(item.name)
    if shown.whole:
        file = {"file": item.file} if item.file else {}
        show_json({"line": item.number, **file, **outcome.model_dump(mode="json")})
    elif outcome.stdout:
        more = " …" if len(outcome.stdout) > MOST_PRINTED else ""
        say(f"{name} printed: {outcome.stdout[:MOST_PRINTED].rstrip()}{more}", err=True)
    if shown.form is not None and outcome.status == "completed":
        shown.keep(outcome)
    elif not shown.whole and outcome.status == "completed":
        show_json(outcome.result if not isinstance(outcome.result, str) else to_json(outcome.result).decode())
    if outcome.status not in ("completed", "interrupted"):
        error = outcome.error
        said = (
            outcome.status
            if error is None or error.kind == outcome.status
            else f"{outcome.status}: {error.kind}: {error.message}"
        )
        if error is not None and error.kind == "InputError":  # the line itself is wrong, not what was made of it
            said = error.message + _elements(item)
        say(f"{name}: {said}", err=True)

"""What the commands of the engine share: opening it, Ctrl-C, events on the terminal, results."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from cyclopts import Parameter

from engine.cli.exec import approve_all
from engine.cli.pipeline import in_background
from engine.cli.signals import stopped_by_signals
from engine.cli.texts import say, short, show
from engine.engine import Engine
from engine.errors import BudgetExceeded
from engine.models import Event, TaskResult
from engine.outcomes import EXIT_CODES, TASK_EXIT_CODES

JsonFlag = Annotated[bool, Parameter(name="--json", negative="", help="Print JSON.")]
YesFlag = Annotated[bool, Parameter(negative="", help="Approve: spending beyond the budget, and calls of tools that need approval.")]
MAX_ANSWER = 4096


def with_engine(work: Callable[[Engine], Awaitable[int]], *, yes: bool = False) -> int:
    """Do something with the engine of the project that this folder is in. *yes* stands for a person who approves."""

    async def main() -> int:
        person = Person() if at_terminal() else None
        options: dict[str, Any] = {"ask": approve_spend, "approver": approve_all} if yes else {"ask": person}
        engine = await asyncio.to_thread(Engine.open, ".", mode="cli", **options)
        if person is not None:
            person.stopping = engine.stopping

        def stop() -> bool:
            stopped = bool(engine.stop_all())
            if stopped:
                say("interrupting (once more: at once)", err=True)
            return stopped

        async with engine:
            with stopped_by_signals(stop):
                return await work(engine)

    try:
        return asyncio.run(main())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


def at_terminal() -> bool:
    """Whether somebody can be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty()


async def approve_spend(over: BudgetExceeded) -> bool:
    return True


class Person:
    """Decides what does not fit the budget: y goes on, anything else does not. Set `stopping`, and the answer is no."""

    def __init__(self) -> None:
        self.stopping = asyncio.Event()
        self._turn = asyncio.Lock()

    async def __call__(self, over: BudgetExceeded) -> bool:
        async with self._turn:
            if self.stopping.is_set():
                return False
            say(f"\n{over.scope} budget: {over.spent} spent or reserved, {over.estimate} wanted, the limit is {over.limit}", err=True)
            say("go on? [y/N] ", err=True, end="")
            answer, stopped = asyncio.ensure_future(_line()), asyncio.ensure_future(self.stopping.wait())
            try:
                await asyncio.wait([answer, stopped], return_when=asyncio.FIRST_COMPLETED)
                if not stopped.done():
                    return is_yes(answer.result())
                say("no", err=True)
                return False
            finally:
                answer.cancel()
                stopped.cancel()
                await asyncio.wait([answer, stopped])


def is_yes(answer: str) -> bool:
    return answer.strip().lower() in ("y", "yes")


async def _line() -> str:
    """A line from stdin, by the event loop itself: a thread that reads can't be called back from it."""
    loop, fd = asyncio.get_running_loop(), sys.stdin.fileno()
    answer: asyncio.Future[str] = loop.create_future()
    held = b""

    def read() -> None:
        nonlocal held
        try:
            data = os.read(fd, MAX_ANSWER)
        except OSError:  # the terminal is gone
            data = b""
        held += data
        if not answer.done() and (not data or b"\n" in held or len(held) > MAX_ANSWER):
            answer.set_result(held.decode("utf-8", "replace"))

    try:
        loop.add_reader(fd, read)
    except (NotImplementedError, PermissionError):  # a loop, or a file, that can't be watched
        return await in_background(lambda: sys.stdin.readline(MAX_ANSWER))
    try:
        return await answer
    finally:
        loop.remove_reader(fd)


class Telling:
    """Events as lines on stderr: the id at once, then each step; an agent's own words only on a terminal."""

    def __init__(self, *, quiet: bool = False, told: bool = False) -> None:
        self._quiet = quiet
        self._words = sys.stderr.isatty()
        self._open = False  # a line of words that has not ended
        self._said = told  # whether the id was said

    def __call__(self, event: Event) -> None:
        if not self._said:
            self._said = True
            self._line(f"execution {event.execution_id}")
        if self._quiet:
            return
        match event.kind:
            case "status" if "strategy" in event.data:
                self._line(f"strategy {event.data['strategy']}: {event.data['reason']}")
            case "step":
                said = f": {short(event.text)}" if event.text else ""
                self._line(f"[{event.task_id}] {event.data.get('status', '')}{said}")
            case "fallback" | "warning":
                self._line(f"[{event.task_id}] {short(event.text)}")
            case "tool":
                self._line(f"[{event.task_id}] uses {short(str(event.data.get('name', event.text)))}")
            case "text" if self._words:
                say(event.text, err=True, end="")
                self._open = not event.text.endswith("\n")

    def _line(self, text: str) -> None:
        say(f"{chr(10) if self._open else ''}{text}", err=True)
        self._open = False


def finish(engine: Engine, result: TaskResult, *, json_: bool) -> int:
    """Print a result, and the exit code for it."""
    if json_:
        show(result.model_dump_json())
    elif result.output:
        show(result.output)
    paused = any(step.status == "paused" for step in result.steps)
    if not json_:
        if result.error:
            say(f"{result.status}: {result.error}", err=True)
        if paused:
            say(f"a call waits for approval: go-ent status {result.execution_id} shows it", err=True)
            say(f"decide: go-ent approve {result.execution_id}, or go-ent reject {result.execution_id}", err=True)
            say(f"then go on: go-ent resume {result.execution_id} (--yes approves all)", err=True)
        elif not result.ok:
            say(f"go on with it: go-ent resume {result.execution_id}", err=True)
        say(_account(result), err=True)
    if any(step.status == "interrupted" for step in result.steps) or (engine.stopping.is_set() and not result.ok):
        return EXIT_CODES["interrupted"]
    return EXIT_CODES["paused"] if paused else TASK_EXIT_CODES[result.status]


def _account(result: TaskResult) -> str:
    if result.metrics is None:
        return "nothing ran"
    cost = "cost unknown" if result.metrics.cost_usd is None else f"${result.metrics.cost_usd:.4f}"
    tokens = f"{result.metrics.tokens_used:,} tokens, {cost}, " if result.metrics.tokens_used or result.metrics.cost_usd is not None else ""
    return f"{tokens}{result.metrics.duration_ms / 1000:.1f} s"


def table(rows: list[list[str]], head: list[str]) -> None:
    """Columns on a terminal and in a pipe alike: plain text, aligned."""
    lines = [[short(cell) for cell in row] for row in (head, *rows)]
    widths = [max(len(line[index]) for line in lines) for index in range(len(head))]
    for line in lines:
        say("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def dollars(value: float | None) -> str:
    return "-" if value is None else f"${value:.4f}"

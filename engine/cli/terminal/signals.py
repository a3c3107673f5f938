"""Ctrl-C, SIGTERM and SIGHUP: what is under way is interrupted, and the command ends as one that was.

The first signal asks what runs to stop; it is recorded, and the command says how to go on with it. The second waits for
nothing: all that this process has started is killed, and it leaves at once.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from types import FrameType
from typing import NoReturn

from go_ent.engine.cli.terminal.output import aside, say
from go_ent.engine.core.ids import short_id

Going = tuple[str, str]  # what is under way, and the command that goes on with it
INTERRUPTED = 130
MOST_CHILDREN = 10_000


@contextlib.contextmanager
def on_signals(heard: Callable[[signal.Signals], None]) -> Iterator[None]:
    """Each signal that asks this program to end goes to *heard* instead. One that `nohup` has silenced stays so."""
    import asyncio

    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    numbers = [number for number, handler in before.items() if handler != signal.SIG_IGN or number != signal.SIGHUP]
    for number in numbers:
        loop.add_signal_handler(number, heard, number)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)
            signal.signal(number, before[number])


@contextlib.contextmanager
def all_are_interrupts() -> Iterator[None]:
    """SIGTERM and SIGHUP raise `KeyboardInterrupt`, like Ctrl-C: what is under way is cleaned up."""

    def heard(number: int, frame: FrameType | None) -> NoReturn:
        raise KeyboardInterrupt

    both = signal.SIGTERM, signal.SIGHUP
    mine = [number for number in both if signal.getsignal(number) == signal.SIG_DFL] if is_main_thread() else []
    for number in mine:
        signal.signal(number, heard)
    try:
        yield
    finally:
        for number in mine:
            signal.signal(number, signal.SIG_DFL)


def is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


@contextlib.contextmanager
def stopped_by_signals(stop: Callable[[], bool], running: Callable[[], Iterable[Going]] = tuple) -> Iterator[None]:
    """The first signal asks what runs to *stop*; if nothing does, the task is cancelled. The second leaves at once.

    *running* is what can be resumed afterwards.
    """
    import asyncio  # not above: help needs signals, and nothing of this

    task = asyncio.current_task()
    asked = False

    def heard(_: signal.Signals) -> None:
        nonlocal asked
        if asked:
            leave(running())
        asked = True
        if stop():
            say(f"{chr(10) if sys.stderr.isatty() else ''}interrupting (once more: at once)", err=True)
        elif task is not None:
            task.cancel()

    with on_signals(heard):
        yield


def leave(running: Iterable[Going] = ()) -> NoReturn:
    """End now, and everything that this process has started; what was recorded until now can be resumed."""
    for one in running:
        say_interrupted(*one)
    with aside(), contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
    for pid in _descendants(os.getpid()):
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    os._exit(INTERRUPTED)


def _descendants(pid: int) -> list[int]:
    from go_ent.sandbox.children.proc import children_of

    found, todo = list[int](), [pid]
    while todo and len(found) < MOST_CHILDREN:
        children = children_of(todo.pop())
        found += children
        todo += children
    return found


def executions(ids: Iterable[str]) -> list[Going]:
    return [(one, f"go-ent resume {short_id(one)}") for one in ids]


def say_interrupted(what: str, resume: str | None = None) -> None:
    """What was interrupted, and the command that goes on with it."""
    what = short_id(what)
    say(f"interrupted: {what}", err=True, style="yellow")
    say(f"to resume: {resume or f'go-ent resume {what}'}", err=True)

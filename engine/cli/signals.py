"""Ctrl-C, SIGTERM and SIGHUP: what is under way is interrupted, and the command ends as one that was."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Iterator

from sandbox import Sandbox


@contextlib.contextmanager
def on_signals(heard: Callable[[signal.Signals], None]) -> Iterator[None]:
    """Each signal that asks this program to end goes to *heard* instead. One that `nohup` has silenced stays so."""
    loop = asyncio.get_running_loop()
    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    for number in numbers:
        loop.add_signal_handler(number, heard, number)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


@contextlib.contextmanager
def stopped_by_signals(stop: Callable[[], bool]) -> Iterator[None]:
    """The first signal asks what runs to *stop*; if nothing does, or the second time, the task is cancelled."""
    task = asyncio.current_task()
    asked = False

    def heard(_: signal.Signals) -> None:
        nonlocal asked
        again, asked = asked, True
        if (again or not stop()) and task is not None:
            task.cancel()

    with on_signals(heard):
        yield


def interrupted_by_signals(box: Sandbox) -> contextlib.AbstractContextManager[None]:
    """The first signal interrupts what runs in *box*."""

    def stop() -> bool:
        running = bool(box.running)
        if running:
            box.interrupt_all()
        return running

    return stopped_by_signals(stop)

"""Ctrl-C and SIGTERM: the runs under way are interrupted, and the command ends as one that was."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Iterator

from sandbox import Sandbox


@contextlib.contextmanager
def interrupted_by_signals(box: Sandbox) -> Iterator[None]:
    """The first signal interrupts what runs in *box*; without anything there, or the second time, the task is cancelled."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    asked = False

    def stop() -> None:
        nonlocal asked
        if box.running and not asked:
            box.interrupt_all()
        elif task is not None:
            task.cancel()
        asked = True

    numbers = (signal.SIGINT, signal.SIGTERM)
    for number in numbers:
        loop.add_signal_handler(number, stop)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)

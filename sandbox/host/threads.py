"""Threads for tools that are plain functions: as many as are needed, kept while idle, never waited for at exit."""

from __future__ import annotations

import contextvars
import queue
import threading
from collections.abc import Callable

from go_ent.sandbox.messages.items import apart

IDLE_S = 10.0


class Threads:
    """Runs jobs, each in a thread of its own. A tool that hangs costs its thread, and nobody else anything."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._idle: list[queue.SimpleQueue[Callable[[], None] | None]] = []
        self._lock = threading.Lock()
        self._closed = False

    def start(self, job: Callable[[], None]) -> None:
        context = contextvars.copy_context()
        with self._lock:
            inbox = self._idle.pop() if self._idle else None
        if inbox is None:
            inbox = queue.SimpleQueue()
            threading.Thread(target=self._work, args=(inbox,), name=self._name, daemon=True).start()
        inbox.put(lambda: context.run(job))

    def _work(self, inbox: queue.SimpleQueue[Callable[[], None] | None]) -> None:
        while True:
            try:
                job = inbox.get(timeout=IDLE_S)
            except queue.Empty:
                with self._lock:
                    if inbox in self._idle:
                        self._idle.remove(inbox)
                        return
                continue  # a job was handed over in that moment
            if job is None:
                return
            with apart("a job of a thread failed"):
                job()
            del job
            with self._lock:
                if self._closed:
                    return
                self._idle.append(inbox)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for inbox in idle:
            inbox.put(None)

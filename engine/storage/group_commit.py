"""Bringing packed executions to disk, and into the index, soon after they have ended: many at a time."""

from __future__ import annotations

import logging
import threading
import time

from go_ent.engine.storage.index import Index, PackedExecution
from go_ent.engine.storage.packed import Packed

log = logging.getLogger("go_ent.engine")
SYNC_S = 0.05  # at most this long after it was appended, an execution is on disk
INDEX_S = 0.5  # that nothing ended, before the index is told
MOST_WAITING = 1000  # executions that the index has not been told of
IDLE_S = 5.0  # then the thread ends


class GroupCommit:
    """Of one store. A thread of its own does it, as long as there is something to do. Thread-safe."""

    def __init__(self, packed: Packed, index: Index) -> None:
        self._packed, self._index = packed, index
        self._changed = threading.Condition()
        self._waiting: list[PackedExecution] = []
        self._added = 0
        self._thread: threading.Thread | None = None
        self._telling = threading.Lock()

    def add(self, execution: PackedExecution) -> None:
        """An execution was appended. Does not block."""
        with self._changed:
            self._waiting.append(execution)
            self._added += 1
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="commit executions", daemon=True)
                self._thread.start()
            else:
                self._changed.notify()

    def flush(self) -> None:
        """All that was added is on disk, and in the index, when this returns. Never fails."""
        self._sync()
        self._tell()

    def _run(self) -> None:
        """Sync again and again while executions end; when none does for a while, tell the index of all of them."""
        try:
            self._go_on()
        except BaseException:
            with self._changed:
                self._thread = None  # the next one that ends has another
            raise

    def _go_on(self) -> None:
        seen = 0
        while True:
            with self._changed:
                more = self._changed.wait_for(lambda: self._added != seen, INDEX_S if self._waiting else IDLE_S)  # noqa: B023
                seen = self._added
                if not more and not self._waiting:
                    self._thread = None
                    return
            if more:
                time.sleep(SYNC_S)
                self._sync()
            if not more or len(self._waiting) >= MOST_WAITING:
                self._tell()

    def _sync(self) -> None:
        try:
            self._packed.sync()
        except OSError:
            log.exception("the last executions can't be brought to disk: they are lost if the machine stops")

    def _tell(self) -> None:
        with self._telling:
            with self._changed:
                waiting, self._waiting = self._waiting, []
            if waiting:
                self._index.put_packed(waiting)

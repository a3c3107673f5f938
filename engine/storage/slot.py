"""A folder of an execution that this process holds: a state, a journal, and a lock that dies with the process."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from go_ent.composer.project.files import TEMPORARY, read_bounded, sync_folder
from go_ent.engine.core import crash_points
from go_ent.engine.executions.history import CallTotals
from go_ent.engine.executions.state import ExecutionState, pack
from go_ent.engine.executions.storage import MAX_MARK, Record
from go_ent.engine.storage.attachments import FileAttachments
from go_ent.engine.storage.claims import Claim
from go_ent.engine.storage.journal import Journal
from go_ent.engine.storage.packed import MAX_PACKED

STATE_FILE, JOURNAL_FILE, LOCK_FILE, INTERRUPT_FILE, MARK_FILE = (
    "state.json",
    "journal.jsonl",
    "lock",
    "interrupt",
    "mark",
)
log = logging.getLogger(__name__)


class Home(Protocol):
    """Where executions are kept that are in memory so far."""

    def make(self, state: ExecutionState, claim: Claim, journal: Journal) -> None:
        """Make a folder, take it and begin its journal."""

    def pack(
        self, execution_id: str, state: Callable[[], ExecutionState], journal: bytes, calls: Mapping[str, CallTotals]
    ) -> None:
        """Keep one that has ended."""


class FileSlot:
    """A `Slot` that is a folder; a new one has none yet. One that is packed never has one."""

    def __init__(self, execution_id: str, claim: Claim, journal: Journal, home: Home | None = None) -> None:
        """*home* makes its folder, if there is none yet."""
        self.id = execution_id
        self._claim, self._journal, self._home = claim, journal, home
        self._making = threading.RLock()
        self._synced = False  # whether its folder is known to be on disk: who made it may not have come to that

    @cached_property
    def folder(self) -> Path:
        """Where it is, or would be."""
        return self._journal.path.parent

    @property
    def where(self) -> str:
        return str(self.folder)

    @property
    def placed(self) -> bool:
        return self._home is None

    @property
    def before(self) -> str | None:
        return self._claim.before

    @property
    def released(self) -> bool:
        return self._claim.released

    @property
    def seq(self) -> int:
        return self._journal.seq

    @property
    def size(self) -> int:
        return self._journal.size

    def place(self, state: ExecutionState) -> None:
        with self._making:
            if self._home is not None and not self.released:
                self._home.make(state, self._claim, self._journal)
                self._home = None

    def append(self, kind: str, data: Mapping[str, Any], raw: Mapping[str, bytes] | None = None) -> int:
        return self._journal.append(kind, data, raw=raw)

    def sync(self) -> None:
        self._journal.sync()
        if not self._synced:
            sync_folder(self.folder)
            sync_folder(self.folder.parent)
            self._synced = True

    def save(self, state: ExecutionState) -> None:
        crash_points.point("state-before-write")
        path = self.folder / STATE_FILE
        try:
            _replace(path, pack(state))
        except OSError as error:
            log.warning("%s can't be written, its journal has it all: %s", path, error)

    def records(self) -> Iterator[Record]:
        return self._journal.records()

    def may_pack(self, more: int) -> bool:
        return self._home is not None and self._journal.size + more <= MAX_PACKED

    def pack(self, state: Callable[[], ExecutionState], calls: Mapping[str, CallTotals]) -> bool:
        with self._making:
            journal = self._journal.waiting
            if self._home is None or journal is None or len(journal) > MAX_PACKED:
                return False
            self._home.pack(self.id, state, journal, calls)
            self.release()
            return True

    def interrupt_requested(self) -> bool:
        if not self.placed:
            return False
        try:
            os.unlink(self.folder / INTERRUPT_FILE)
        except FileNotFoundError:
            return False
        return True

    def mark_requested(self) -> bytes | None:
        if not self.placed:
            return None
        try:
            return read_bounded(self.folder / MARK_FILE, MAX_MARK)
        except FileNotFoundError:
            return None
        except OSError:  # a link, a pipe, a folder
            return b""

    def mark_answered(self) -> None:
        with contextlib.suppress(OSError):
            os.unlink(self.folder / MARK_FILE)

    def attachments(self, kind: str) -> FileAttachments:
        return FileAttachments(self.folder / kind)

    def release(self) -> None:
        with self._making:
            self._journal.close()
            self._claim.release()


def _replace(path: Path, data: bytes) -> None:
    new = path.with_name(TEMPORARY + path.name)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(new)  # of an owner that was killed
    try:
        with os.fdopen(
            os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600), "wb"
        ) as file:
            file.write(data)
        crash_points.point("state-before-rename")
        os.replace(new, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(new)
        raise
    crash_points.point("state-after-rename")

"""Which executions are kept, and how the others are removed: safely, also while other processes work in the same
folder.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import shutil
import stat
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from go_ent.composer.project.items import apart
from go_ent.engine.core.config import RetentionConfig
from go_ent.engine.executions.index import Row
from go_ent.engine.executions.owned import LOCK_FILE
from go_ent.engine.executions.store import ExecutionStore
from go_ent.engine.storage.claims import held_by, nobodys

log = logging.getLogger("go_ent.engine")
GONE = ".gone-"
STAMP = ".pruned"
EVERY_S = 3600.0
BATCH = 500  # executions that the index is told of at once
DELETING = 8  # threads that delete files
MOST_MEASURED = 100_000  # files of one execution that are looked at for its size


@dataclass(frozen=True, slots=True)
class Pruned:
    """What was removed, or would be."""

    removed: list[str]
    bytes: int
    kept_resumable: int  # that would have gone, but can be resumed, or an execution that can be resumed needs them
    failed: dict[str, str] = field(default_factory=dict)  # that could not be removed, and why


def prune(
    store: ExecutionStore,
    *,
    keep: int | None = None,
    older_than_s: float | None = None,
    max_bytes: int | None = None,
    resumable: bool = False,
    spare_s: float = 0.0,
    dry_run: bool = False,
) -> Pruned:
    """Remove executions, the oldest first: all but the *keep* newest, those not changed for *older_than_s*, and those
    beyond the newest *max_bytes*. What changed within *spare_s* stays.

    What can be resumed goes only with *resumable*, and never while a process owns it or its child can be resumed.
    """
    if store.folder.is_symlink() or store.folder.parent.is_symlink() or not store.folder.is_dir():
        return Pruned([], 0, 0)
    if not dry_run:
        _finish_removing(store.folder)
    store.flush()
    rows = list(store.index.oldest())
    sizes = _measure(store, rows) if max_bytes is not None else {}
    due = _due(rows, sizes, keep=keep, older_than_s=older_than_s, max_bytes=max_bytes, spare_s=spare_s)
    staying = [row for row in rows if row.resumable and (row.id not in due or not resumable or _owned(store, row.id))]
    needed = {row.id for row in staying} | _ancestors(rows, staying)
    doomed = [row.id for row in rows if row.id in due and row.id not in needed]
    failed: dict[str, str] = {}
    packed = {row.id: row.size for row in rows if row.packed}
    if dry_run:
        removed = [one for one in doomed if not _owned(store, one)]
        freed = sum(packed.get(one) or sizes.get(one) or _size(store.folder / one) for one in removed)
    else:
        removed, freed = _remove_all(store, [one for one in doomed if one not in packed], failed, resumable=resumable)
        in_files = [one for one in doomed if one in packed]
        removed, freed = removed + in_files, freed + sum(packed[one] for one in in_files)
        _remove_packed(store, in_files)
    return Pruned(removed, freed, len(due & needed), failed)


def _remove_all(
    store: ExecutionStore, doomed: list[str], failed: dict[str, str], *, resumable: bool
) -> tuple[list[str], int]:
    """Remove executions; which of them, and what they took. The disk takes longest: several threads wait for it."""
    removed: list[str] = []
    deleting: list[Future[int]] = []
    with ThreadPoolExecutor(DELETING, "delete executions") as pool:
        for start in range(0, len(doomed), BATCH):
            gone: list[str] = []
            try:
                for one in doomed[start : start + BATCH]:
                    with apart(one, failed):
                        if _take_away(store, one, gone, resumable=resumable):
                            removed.append(one)
            finally:
                store.index.remove(*gone)
                left = [store.folder / f"{GONE}{one}" for one in gone]
                deleting += [pool.submit(_delete, *left[part::DELETING]) for part in range(DELETING)]
    return removed, sum(size.result() for size in deleting)


def _remove_packed(store: ExecutionStore, doomed: list[str]) -> None:
    """Remove packed executions: that is noted, and the oldest files go once little is left of them."""
    if doomed:
        store.packed.remove(doomed)
        store.index.remove(*doomed)
    for number, size in list(store.packed.sizes().items())[:-2]:
        left = store.index.packed_in(number)
        if 2 * sum(place.size for _, place in left) > size:
            return
        for execution_id, place in left:
            store.packed.append(execution_id, store.packed.read(place))
        store.packed.sync()
        store.packed.drop(number)


class Retention:
    """Prunes by itself, as the project's `[executions]` says: now and then, in a thread, and without failing
    anybody.
    """

    def __init__(self, store: ExecutionStore, config: RetentionConfig) -> None:
        self._store, self._config = store, config
        self._next = 0.0
        self._thread: threading.Thread | None = None

    def maybe(self) -> threading.Thread | None:
        """Begin to prune, if that was not done for an hour; the thread that does."""
        now = time.monotonic()
        if not self._config.auto or now < self._next:
            return None
        self._next = now + EVERY_S
        thread = threading.Thread(target=self._prune, name="prune executions", daemon=True)
        thread.start()
        self._thread = thread  # once it runs: who waits for it may be another thread
        return thread

    def wait(self, seconds: float) -> None:
        """Give what was begun that much time. What it does not get done, the next one does."""
        if self._thread is not None:
            self._thread.join(seconds)

    def _prune(self) -> None:
        try:
            with _turn(self._store.folder / STAMP) as due:
                if due:
                    limits = self._config
                    prune(
                        self._store,
                        keep=limits.keep,
                        older_than_s=limits.days * 86400,
                        max_bytes=limits.max_mb << 20,
                        spare_s=EVERY_S,
                    )
        except Exception as error:
            log.warning("old executions could not be removed: %s", error)


@contextlib.contextmanager
def _turn(stamp: Path) -> Iterator[bool]:
    """Whether it is this process's turn: nobody else is at it, and nobody finished within the hour. Stamped at the
    end.
    """
    try:
        handle = os.open(stamp, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    except FileNotFoundError:  # no executions at all
        yield False
        return
    try:
        status = os.fstat(handle)
        mine = stat.S_ISREG(status.st_mode) and (
            status.st_size == 0 or not 0 <= time.time() - status.st_mtime < EVERY_S
        )
        if mine:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                mine = False
        yield mine
        if mine:
            os.pwrite(handle, b"1", 0)  # from now on its time counts
            os.utime(handle)
    finally:
        os.close(handle)


def _due(
    rows: list[Row],
    sizes: dict[str, int],
    *,
    keep: int | None,
    older_than_s: float | None,
    max_bytes: int | None,
    spare_s: float,
) -> set[str]:
    """Those that a limit is against. Counted from the newest: what is new never makes room for what is old and must
    stay.
    """
    now = time.time()
    total = 0
    due = set()
    for place, row in enumerate(reversed(rows)):
        total += sizes.get(row.id, 0)
        age = now - row.updated
        too_many = keep is not None and place >= keep
        too_old = older_than_s is not None and age > older_than_s
        too_much = max_bytes is not None and total > max_bytes
        if (too_many or too_old or too_much) and age >= spare_s:
            due.add(row.id)
    return due


def _ancestors(rows: list[Row], of: Iterable[Row]) -> set[str]:
    parents = {row.id: row.parent for row in rows}
    found: set[str] = set()
    for row in of:
        parent = row.parent
        while parent is not None and parent not in found:
            found.add(parent)
            parent = parents.get(parent)
    return found


def _owned(store: ExecutionStore, execution_id: str) -> bool:
    try:
        return held_by(store.folder / execution_id / LOCK_FILE) is not None
    except OSError:  # it is nothing that can be owned
        return False


def _measure(store: ExecutionStore, rows: list[Row]) -> dict[str, int]:
    """The size of each; what the index knew is not measured again."""
    measured = {row.id: _size(store.folder / row.id) for row in rows if not row.size and not row.packed}
    if measured:
        store.index.measured(measured)
    return {row.id: row.size or measured[row.id] for row in rows}


def _size(folder: Path) -> int:
    """What the files in a folder take, as far as can be seen. Links are not followed."""
    total = count = 0
    waiting = [folder]
    while waiting and count < MOST_MEASURED:
        with contextlib.suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                count += 1
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(Path(entry.path))
                else:
                    total += entry.stat(follow_symlinks=False).st_size
    return total


def _take_away(store: ExecutionStore, execution_id: str, gone: list[str], *, resumable: bool) -> bool:
    """Make one that is still there no execution any more, in one step, unless somebody has it or, by its own state, it
    must stay. *gone* is added to if it is not there afterwards.
    """
    folder = store.folder / execution_id
    try:
        if not stat.S_ISDIR(folder.lstat().st_mode):
            return False
        with nobodys(folder / LOCK_FILE):
            if not resumable and store.load(execution_id, compare=False).resumable:  # the index may be behind
                return False
            os.rename(folder, store.folder / f"{GONE}{execution_id}")
    except FileNotFoundError:  # somebody else was faster
        gone.append(execution_id)
        return False
    except BlockingIOError:  # somebody has it
        log.info("execution %s is not removed: it is held", execution_id)
        return False
    gone.append(execution_id)
    return True


def _finish_removing(folder: Path) -> None:
    """Delete what one that was killed had begun to."""
    for name in os.listdir(folder):
        if name.startswith(GONE):
            _delete(folder / name)


def _delete(*paths: Path) -> int:
    """Delete what is there, as far as that goes: another process may be at the same. How much it was."""
    size = 0
    for path in paths:
        try:
            size += _size(path)
            if stat.S_ISDIR(path.lstat().st_mode):
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink()
        except (OSError, RecursionError) as error:
            log.info("%s could not be deleted: %s", path, error)
    return size

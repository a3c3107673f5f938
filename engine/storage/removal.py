"""Removing executions from files: safely, also while other processes work in the same folder."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import shutil
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from go_ent.composer.project.items import apart
from go_ent.engine.executions.storage import Row
from go_ent.engine.storage.claims import nobodys
from go_ent.engine.storage.index import Index
from go_ent.engine.storage.packed import Packed
from go_ent.engine.storage.slot import LOCK_FILE

log = logging.getLogger("go_ent.engine")
GONE = ".gone-"
STAMP = ".pruned"
BATCH = 500  # executions that the index is told of at once
DELETING = 8  # threads that delete files
MOST_MEASURED = 100_000  # files of one execution that are looked at for its size


def remove_folders(
    folder: Path, index: Index, doomed: list[str], failed: dict[str, str], may_go: Callable[[str], bool]
) -> tuple[list[str], int]:
    """Remove executions that are folders in *folder*; which of them, and what they took. *may_go* is asked while nobody
    can take it. The disk takes longest: several threads wait for it.
    """
    _finish_removing(folder)
    removed: list[str] = []
    deleting: list[Future[int]] = []
    with ThreadPoolExecutor(DELETING, "delete executions") as pool:
        for start in range(0, len(doomed), BATCH):
            gone: list[str] = []
            try:
                for one in doomed[start : start + BATCH]:
                    with apart(one, failed):
                        if _take_away(folder, one, gone, may_go):
                            removed.append(one)
            finally:
                index.remove(*gone)
                left = [folder / f"{GONE}{one}" for one in gone]
                deleting += [pool.submit(_delete, *left[part::DELETING]) for part in range(DELETING)]
    return removed, sum(size.result() for size in deleting)


def remove_packed(packed: Packed, index: Index, doomed: list[str]) -> None:
    """Remove packed executions: that is noted, and the oldest files go once little is left of them."""
    if doomed:
        packed.remove(doomed)
        index.remove(*doomed)
    for number, size in list(packed.sizes().items())[:-2]:
        left = index.packed_in(number)
        if 2 * sum(place.size for _, place in left) > size:
            return
        for execution_id, place in left:
            packed.append(execution_id, packed.read(place))
        packed.sync()
        packed.drop(number)


@contextlib.contextmanager
def turn(stamp: Path, every_s: float) -> Iterator[bool]:
    """Whether it is this process's turn: nobody else is at it, and nobody finished within that time. Stamped at the
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
            status.st_size == 0 or not 0 <= time.time() - status.st_mtime < every_s
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


def measure(folder: Path, index: Index, rows: Iterable[Row]) -> dict[str, int]:
    """The size of each; what the index knew is not measured again."""
    rows = list(rows)
    measured = {row.id: _size(folder / row.id) for row in rows if not row.size and not row.packed}
    if measured:
        index.measured(measured)
    return {row.id: row.size or measured.get(row.id, 0) for row in rows}


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


def _take_away(executions: Path, execution_id: str, gone: list[str], may_go: Callable[[str], bool]) -> bool:
    """Make one that is still there no execution any more, in one step, unless somebody has it or, by its own state, it
    must stay. *gone* is added to if it is not there afterwards.
    """
    folder = executions / execution_id
    try:
        if not stat.S_ISDIR(folder.lstat().st_mode):
            return False
        with nobodys(folder / LOCK_FILE):
            if not may_go(execution_id):
                return False
            os.rename(folder, executions / f"{GONE}{execution_id}")
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

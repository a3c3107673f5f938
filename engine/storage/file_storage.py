"""Executions in files: `.go-ent/executions/<id>/` with a state, a journal, and a lock that dies with the process that
holds it; small ones that have ended, many to a file; and an index of them all.
"""

from __future__ import annotations

import contextlib
import logging
import os
import resource
import shutil
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

from go_ent.composer.project.files import (
    STATE,
    TEMPORARY,
    check_folder,
    ignore_state,
    open_ordinary,
    read_bounded,
    sync_folder,
    write_whole,
)
from go_ent.engine.core import crash_points
from go_ent.engine.core.errors import BadState, ExecutionConflict, ExecutionNotFound, TooNew
from go_ent.engine.core.ids import ID
from go_ent.engine.executions.apply_records import applied, with_damage
from go_ent.engine.executions.building import StateBuilder
from go_ent.engine.executions.history import CallTotals
from go_ent.engine.executions.state import ExecutionState, unpack
from go_ent.engine.executions.storage import MOST_READ, Record, Row
from go_ent.engine.executions.store import ALIVE
from go_ent.engine.storage import removal
from go_ent.engine.storage.attachments import FileAttachments
from go_ent.engine.storage.claims import Claim, held_by
from go_ent.engine.storage.group_commit import GroupCommit
from go_ent.engine.storage.index import Index, PackedExecution
from go_ent.engine.storage.journal import Journal
from go_ent.engine.storage.marks import Mark, is_changed
from go_ent.engine.storage.packed import Packed, Place
from go_ent.engine.storage.records import Scan, fits, lost
from go_ent.engine.storage.slot import INTERRUPT_FILE, JOURNAL_FILE, LOCK_FILE, MARK_FILE, STATE_FILE, FileSlot
from go_ent.watching import FolderWatch

log = logging.getLogger("go_ent.engine")
MOST_DESCRIPTORS = 1 << 16
MAX_STATE = 64 << 20
MOST_BYTES = 4 << 20  # of records at once, of one who follows a journal
OLD_FILES = ("runs.jsonl", "runs.1.jsonl")  # of older versions, the newer first
OLD_BYTES = 33 << 20


class FileStorage:
    """`ExecutionStorage` in the files of a project."""

    def __init__(self, project: Path) -> None:
        self.folder = project / STATE / "executions"
        self._links = str(self.folder), str(self.folder.parent)  # which they must not be
        self.packed = Packed(self.folder)
        self.index = Index(self.folder, self.packed)
        self.commits = GroupCommit(self.packed, self.index)
        _make_room()

    def create(self, execution_id: str) -> FileSlot:
        self._check_links()
        return FileSlot(execution_id, self._claim(execution_id), self._journal(execution_id), home=self)

    def make(self, state: ExecutionState, claim: Claim, journal: Journal) -> None:
        """The folder of a new execution, with its journal so far, taken by this process."""
        folder = self.folder / state.id
        self._check_links()
        self.folder.mkdir(parents=True, mode=0o700, exist_ok=True)
        ignore_state(self.folder.parent)
        self.index.put(state)
        crash_points.point("create-before-folder")
        folder.mkdir(mode=0o700)
        crash_points.point("create-after-folder")
        try:
            claim.take()
            journal.begin()
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            self.index.remove(state.id)
            raise

    def _check_links(self) -> None:
        if any(map(os.path.islink, self._links)):
            raise BadState(f"{self.folder} is a link, and state is written only where it is")

    def pack(
        self, execution_id: str, state: Callable[[], ExecutionState], journal: bytes, calls: Mapping[str, CallTotals]
    ) -> None:
        """Keep a small execution that has ended and has no folder. Who is killed afterwards has kept it; soon it is on
        disk. Does not block; `OSError` if it can't be kept.
        """
        start, place = self.packed.append(execution_id, journal)
        self.commits.add(PackedExecution(state, calls, place, start))

    def flush(self) -> None:
        self.commits.flush()

    def close(self) -> None:
        self.flush()
        with contextlib.suppress(OSError):
            self.packed.close()
        self.index.close()

    def hold(self, execution_id: str) -> tuple[FileSlot, ExecutionState]:
        place = self._packed_place(execution_id)
        if place is not None:
            self._unpack(execution_id, place)
        folder = self._there(execution_id)
        old = _asked(folder)
        claim = self._claim(execution_id).take()
        journal = self._journal(execution_id)
        try:
            if old is not None and _asked(folder) == old:  # meant for who had it before; a later one is meant for us
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(folder / INTERRUPT_FILE)
            building, mark = _building(folder), self.index.kept(execution_id)
            try:
                changed = mark is not None and is_changed(journal.path, mark)
                whole = journal.open(building.add, known=_known(building, mark))
                state = building.result()
                if changed and whole and mark is not None:
                    state = applied(state, journal.note_change(mark.seq))
            except OSError as error:
                raise BadState(f"{journal.path} can't be used: {error.strerror or error}") from None
            if place is not None:
                self.index.put(state)
                self.packed.remove([execution_id])
            return FileSlot(execution_id, claim, journal), state
        except BaseException:
            journal.close()
            claim.release()
            raise

    def _place(self, execution_id: str) -> Place | None:
        """Where a packed execution is."""
        self.flush()
        return self.index.place(execution_id)

    def _unpack(self, execution_id: str, place: Place) -> None:
        """Give a packed execution a folder: the second to do so finds the first one's."""
        journal = self.packed.read(place)
        made = Path(tempfile.mkdtemp(prefix=TEMPORARY, dir=self.folder))
        try:
            write_whole(made / JOURNAL_FILE, journal, mode=0o600)
            with contextlib.suppress(OSError):
                os.rename(made, self.folder / execution_id)
                sync_folder(self.folder)
        finally:
            shutil.rmtree(made, ignore_errors=True)

    # Of names, not of paths: these take longer to be put together than the rest of an execution that stays in memory.

    def _claim(self, execution_id: str) -> Claim:
        return Claim(f"{self._links[0]}/{execution_id}/{LOCK_FILE}", f"execution {execution_id}")

    def _journal(self, execution_id: str) -> Journal:
        path = f"{self._links[0]}/{execution_id}/{JOURNAL_FILE}"
        return Journal(path, partial(self.index.keep, execution_id))

    def where(self, execution_id: str) -> str:
        return str(self.folder / execution_id)

    def has(self, execution_id: str) -> bool:
        there = bool(ID.fullmatch(execution_id))
        return there and ((self.folder / execution_id).is_dir() or self._place(execution_id) is not None)

    def is_held(self, execution_id: str) -> bool:
        return bool(ID.fullmatch(execution_id)) and owner(self.folder / execution_id) is not None

    def ids(self) -> list[str]:
        try:
            return sorted(name for name in os.listdir(self.folder) if ID.fullmatch(name))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise BadState(f"{self.folder} can't be read: {error.strerror}") from None

    def load(self, execution_id: str, *, compare: bool = True) -> ExecutionState:
        if (place := self._packed_place(execution_id)) is not None:
            return self._load_packed(execution_id, place)
        folder = self._there(execution_id)
        return _looked(folder, self.index.kept(execution_id) if compare and owner(folder) is None else None)

    def _packed_place(self, execution_id: str) -> Place | None:
        """Where an execution is, if it has no folder and is packed."""
        if not ID.fullmatch(execution_id) or (self.folder / execution_id).is_dir():
            return None
        return self._place(execution_id)

    def _load_packed(self, execution_id: str, place: Place) -> ExecutionState:
        path = self.packed.path(place)
        try:
            state = StateBuilder(execution_id, str(path)).add_all(self._packed_records(place))
        except OSError as error:
            raise BadState(f"{path} can't be read: {error.strerror or error}") from None
        if state.status not in ALIVE:
            return state
        cut = with_damage(state, f"what was recorded last is lost: {path.name} was damaged")
        return cut.model_copy(update={"status": "interrupted"})

    def _packed_records(self, place: Place) -> Scan:
        return Scan(self.packed.path(place), offset=place.offset, end=place.offset + place.size)

    def records(self, execution_id: str) -> Iterator[Record]:
        place = self._packed_place(execution_id)
        return iter(Scan(self._there(execution_id) / JOURNAL_FILE) if place is None else self._packed_records(place))

    def read_from(self, execution_id: str, offset: int, most: int = MOST_READ) -> tuple[list[Record], int]:
        if (place := self._packed_place(execution_id)) is not None:
            return ([] if offset >= place.size else list(self._packed_records(place))), place.size
        path = self._there(execution_id) / JOURNAL_FILE
        if offset and not fits(path, offset, None):
            offset = 0
        scan = Scan(path, offset=offset, after=None if offset else 0)
        records = []
        for record in scan:
            records.append(record)
            if len(records) >= most or scan.size - offset > MOST_BYTES:
                break
        return records, scan.size

    def attachments(self, execution_id: str, kind: str) -> FileAttachments:
        return FileAttachments(self.folder / execution_id / kind)

    def forget_unborn(self, execution_id: str) -> None:
        if self.index.kept(execution_id) is None:
            with contextlib.suppress(ExecutionConflict, OSError), self._claim(execution_id):
                shutil.rmtree(self.folder / execution_id)
                self.index.remove(execution_id)

    def ask_to_interrupt(self, execution_id: str) -> None:
        path = self._there(execution_id) / INTERRUPT_FILE
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600))

    def ask_for_mark(self, execution_id: str, request: bytes, patience_s: float) -> bool:
        folder = self._there(execution_id)
        asked, path = folder / f"{TEMPORARY}{uuid.uuid4().hex}", folder / MARK_FILE
        until = time.monotonic() + patience_s
        write_whole(asked, request)
        try:
            while True:  # one at a time
                with contextlib.suppress(FileExistsError):
                    os.link(asked, path)
                    break
                _wait(until, execution_id)
        finally:
            os.unlink(asked)
        while path.exists():
            if owner(folder) is None:
                path.unlink(missing_ok=True)
                return False
            _wait(until, execution_id)
        return True

    def watch(self, told: Callable[[], None]) -> FileWatch:
        return FileWatch(self.folder, told)

    def oldest(self) -> Iterator[Row]:
        return iter(()) if self._is_elsewhere() or not self.folder.is_dir() else self.index.oldest()

    def sizes(self, rows: Iterable[Row]) -> dict[str, int]:
        return removal.measure(self.folder, self.index, rows)

    def remove(self, rows: Iterable[Row], failed: dict[str, str], *, resumable: bool) -> tuple[list[str], int]:
        if self._is_elsewhere() or not self.folder.is_dir():
            return [], 0
        rows = list(rows)
        folders = [row.id for row in rows if not row.packed]
        may_go = partial(self._may_go, resumable=resumable)
        removed, freed = removal.remove_folders(self.folder, self.index, folders, failed, may_go)
        packed = {row.id: row.size for row in rows if row.packed}
        removal.remove_packed(self.packed, self.index, list(packed))
        return [*removed, *packed], freed + sum(packed.values())

    def _may_go(self, execution_id: str, *, resumable: bool) -> bool:
        return resumable or not self.load(execution_id, compare=False).resumable  # the index may be behind

    def turn_to_prune(self, every_s: float) -> AbstractContextManager[bool]:
        return removal.turn(self.folder / removal.STAMP, every_s)

    def needs_image(self, digest: str) -> bool:
        try:
            self.folder.lstat()
        except (FileNotFoundError, NotADirectoryError):  # the project is gone, or its executions are
            return False
        except OSError:
            return True
        return not os.access(self.folder, os.R_OK | os.X_OK) or digest in self.index.needs_image()

    def older_runs(self) -> Iterator[bytes]:
        folder = self.folder.parent / "journal"
        for path in (folder / name for name in OLD_FILES):
            try:
                check_folder(folder)
                with open_ordinary(path) as file:
                    file.seek(max(0, os.fstat(file.fileno()).st_size - OLD_BYTES))
                    data = file.read(OLD_BYTES)
            except FileNotFoundError:
                continue
            except OSError as error:
                log.warning("%s can't be read: %s", path, error.strerror or error)
                continue
            end = len(data)
            while end > 0:
                start = data.rfind(b"\n", 0, end) + 1
                yield data[start:end]
                end = start - 1

    def _is_elsewhere(self) -> bool:
        return self.folder.is_symlink() or self.folder.parent.is_symlink()

    def _there(self, execution_id: str) -> Path:
        folder = self.folder / execution_id
        if not ID.fullmatch(execution_id) or not folder.is_dir():
            raise ExecutionNotFound(f"there is no execution {execution_id[:80]}")
        if folder.is_symlink() or self._is_elsewhere():
            raise BadState(f"{folder} is reached by a link, and an execution is only where it is")
        return folder


class FileWatch:
    """`StorageWatch` of folders: the one of all executions, and those of the executions that are followed."""

    def __init__(self, folder: Path, told: Callable[[], None]) -> None:
        self._folder, self._watch = folder, FolderWatch(told)
        self.close = self._watch.close
        self.follow([])

    def follow(self, ids: Iterable[str]) -> None:
        self._watch.follow([self._folder, *(self._folder / one for one in ids if ID.fullmatch(one))])


def _make_room() -> None:
    """Each execution that runs takes two descriptors, and the usual soft limit is for programs that do one thing."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MOST_DESCRIPTORS)
    if soft < most:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def _wait(until: float, execution_id: str) -> None:
    if time.monotonic() > until:
        raise ExecutionConflict(f"the process that has execution {execution_id} does not answer: it may hang")
    time.sleep(0.02)


def owner(folder: Path) -> int | None:
    """The process that owns an execution, if one lives."""
    return held_by(folder / LOCK_FILE)


def _asked(folder: Path) -> tuple[int, int] | None:
    """The request to stop that there is, as something that no later one is."""
    try:
        found = os.stat(folder / INTERRUPT_FILE, follow_symlinks=False)
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_ctime_ns


def _building(folder: Path) -> StateBuilder:
    """Begun with what the state's file says, if that can be used."""
    file, copy, problem = folder / STATE_FILE, None, None
    begun = file.exists()
    try:
        copy = unpack(read_bounded(file, MAX_STATE), str(file))
    except FileNotFoundError:
        pass
    except TooNew:
        raise
    except (BadState, OSError) as error:
        problem = str(error)
    return StateBuilder(folder.name, str(folder), copy, problem=problem, begun=begun)


def _known(building: StateBuilder, mark: Mark | None) -> int:
    """The number of the last record that was there, as far as the state's file and the index know: before any is
    added.
    """
    return max(0 if building.state is None else building.state.seq, 0 if mark is None else mark.seq)


def _looked(folder: Path, mark: Mark | None) -> ExecutionState:
    """The state without owning it: what the file says, and what the journal has beyond it."""
    building = _building(folder)
    path, state = folder / JOURNAL_FILE, building.state
    known = _known(building, mark)
    try:
        if state is not None and fits(path, state.offset, state.seq):
            offset, after = state.offset, state.seq
        else:
            offset, after = 0, 0
        scan = Scan(path, offset=offset, after=after)
        for record in scan:
            building.add(record)
    except OSError as error:
        raise BadState(f"{path} can't be read: {error.strerror or error}") from None
    state, last = building.result(), scan.seq or 0
    return with_damage(state, lost(last + 1, known)["text"]) if last < known else state

"""Executions on disk: `.go-ent/executions/<id>/` with a state, a journal, and a lock that dies with the process that
holds it.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import shutil
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from go_ent.composer.project.files import STATE, TEMPORARY, ignore_state, sync_folder, write_whole
from go_ent.composer.project.items import reason
from go_ent.engine.core import crash_points
from go_ent.engine.core.errors import BadState, ExecutionConflict, ExecutionNotFound, Unborn
from go_ent.engine.core.ids import ID, PREFIX
from go_ent.engine.executions.apply_records import applied, with_damage
from go_ent.engine.executions.approvals import check_request, decision_seal
from go_ent.engine.executions.building import StateBuilder
from go_ent.engine.executions.group_commit import GroupCommit
from go_ent.engine.executions.history import CallTotals
from go_ent.engine.executions.index import Index, PackedExecution, Row
from go_ent.engine.executions.owned import (
    INTERRUPT_FILE,
    JOURNAL_FILE,
    LOCK_FILE,
    MARK_FILE,
    MAX_LABEL,
    MAX_MARK,
    STATE_FILE,
    OwnedExecution,
)
from go_ent.engine.executions.state import FINISHED, TRANSITIONS, ExecutionState, ExecutionStatus
from go_ent.engine.executions.undo import find_checkpoint
from go_ent.engine.storage.claims import Claim, held_by
from go_ent.engine.storage.journal import Journal
from go_ent.engine.storage.marks import Mark, is_changed
from go_ent.engine.storage.packed import Packed, Place
from go_ent.engine.storage.records import Record, Scan, fits, lost
from go_ent.sandbox.messages.advice import Advice
from go_ent.sandbox.messages.near_names import did_you_mean, near

__all__ = ["INTERRUPT_FILE", "JOURNAL_FILE", "LOCK_FILE", "STATE_FILE", "ExecutionStore", "owner"]

MOST_DESCRIPTORS = 1 << 16
MOST_COMPARED = 200  # ids, the newest, that one may have meant
LISTS = Advice("list_executions")
PATIENCE_S = 10.0  # that another process has to answer
MOST_READ, MOST_BYTES = 10_000, 4 << 20  # records, and their bytes, at once of one who follows a journal
ALIVE: tuple[ExecutionStatus, ...] = ("running", "pending")  # what these say is true only of an execution with an owner
MOST_ALIVE = 1000  # rows that say so and are looked at, for some have no owner any more
NEW_S = 60.0  # a row is in the index before its folder is made


class ExecutionStore:
    """The executions of a project. Its methods block: call them in a thread."""

    def __init__(self, project: Path) -> None:
        self.folder = project / STATE / "executions"
        self.packed = Packed(self.folder)
        self.index = Index(self.folder, self.packed)
        self.commits = GroupCommit(self.packed, self.index)
        _make_room()

    def create(self, state: ExecutionState, *, sync: bool = True) -> OwnedExecution:
        """A new execution, held by this process; with *sync* it is on disk when this returns, else it is in memory
        until it must be, and this does not block.
        """
        folder = self.folder / state.id
        self._check_links()
        held = OwnedExecution(_claim(folder), state, self._journal(folder), self.index, home=self)
        held.append("created", {}, raw={"state": state.model_dump_json().encode()})
        if sync:
            try:
                held.commit()
            except BaseException:
                held.release()
                raise
        return held

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
        if os.path.islink(self.folder) or os.path.islink(self.folder.parent):
            raise BadState(f"{self.folder} is a link, and state is written only where it is")

    def pack(self, state: ExecutionState, journal: bytes, calls: Mapping[str, CallTotals]) -> None:
        """Keep a small execution that has ended and has no folder. Who is killed afterwards has kept it; soon it is on
        disk. Does not block; `OSError` if it can't be kept.
        """
        start, place = self.packed.append(state.id, journal)
        self.commits.add(PackedExecution(state, calls, place, start))

    def flush(self) -> None:
        """What has ended here is on disk, and in the index, when this returns. Never fails."""
        self.commits.flush()

    def close(self) -> None:
        """Flush, and let go of all files. The next use opens them again."""
        self.flush()
        with contextlib.suppress(OSError):
            self.packed.close()
        self.index.close()

    def hold(self, execution_id: str) -> OwnedExecution:
        """Own an execution that is there, and mend its journal if that is needed. `ExecutionConflict` names the
        process that has it.
        """
        place = self._packed_place(execution_id)
        if place is not None:
            self._unpack(execution_id, place)
        folder = self._there(execution_id)
        old = _asked(folder)
        claim = _claim(folder).take()
        journal = self._journal(folder)
        try:
            if old is not None and _asked(folder) == old:  # meant for who had it before; a later one is meant for us
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(folder / INTERRUPT_FILE)
            building, mark = _building(folder), self.index.kept(execution_id)
            try:
                changed = mark is not None and is_changed(journal.path, mark)
                whole = journal.open(building.add, known=building.known(mark))
                state = building.result()
                if changed and whole and mark is not None:
                    state = applied(state, journal.note_change(mark.seq))
            except OSError as error:
                raise BadState(f"{journal.path} can't be used: {error.strerror or error}") from None
            if place is not None:
                self.index.put(state)
                self.packed.remove([execution_id])
            return OwnedExecution(claim, state, journal, self.index)
        except BaseException:
            journal.close()
            claim.release()
            raise

    def _place(self, execution_id: str) -> Place | None:
        """Where a packed execution is."""
        self.flush()
        return self.index.place(execution_id)

    def _unpack(self, execution_id: str, place: Place) -> None:
        """Give a packed execution a folder: whoever comes second finds the first one's."""
        journal = self.packed.read(place)
        made = Path(tempfile.mkdtemp(prefix=TEMPORARY, dir=self.folder))
        try:
            write_whole(made / JOURNAL_FILE, journal, mode=0o600)
            with contextlib.suppress(OSError):
                os.rename(made, self.folder / execution_id)
                sync_folder(self.folder)
        finally:
            shutil.rmtree(made, ignore_errors=True)

    def _journal(self, folder: Path) -> Journal:
        return Journal(folder / JOURNAL_FILE, partial(self.index.keep, folder.name))

    def find(self, text: str) -> str:
        """The id that *text* is, or begins."""
        if ID.fullmatch(text) and self._is_there(text):
            return text
        if not PREFIX.fullmatch(text):
            raise ExecutionNotFound(
                f"{text[:80]!r} is not the id of an execution, nor the first four characters of one", advice=LISTS
            )
        self.flush()
        found = [name for name in self.index.find(text) if self._is_there(name)]
        found = found or [name for name in self._names() if name.startswith(text)]  # the index may not know it yet
        if len(found) == 1:
            return found[0]
        if found:
            some = ", ".join(found[:3]) + (" …" if len(found) > 3 else "")
            raise ExecutionNotFound(f"several executions begin with {text}: {some}; give more of the id")
        newest = {*self._names(), *(row.id for row in self.index.rows(MOST_COMPARED))}
        meant = did_you_mean(near(text, sorted(newest, reverse=True)[:MOST_COMPARED], 1, 0.9))
        raise ExecutionNotFound(f"there is no execution {text}{meant}", advice=None if meant else LISTS)

    def load(self, execution_id: str, *, compare: bool = True) -> ExecutionState:
        """Its state now. One that is running, but owned by no process, was interrupted. Nothing is mended by looking.

        What the index knows to have been there is said to be lost if it is not, unless nobody wants to *compare*.
        """
        if (place := self._packed_place(execution_id)) is not None:
            return self._load_packed(execution_id, place)
        folder = self._there(execution_id)
        mark = self.index.kept(execution_id) if compare and owner(folder) is None else None
        state = _looked(folder, mark)
        if state.status in ALIVE and owner(folder) is None:
            again = _looked(folder, mark)  # it may have ended between the two looks
            return again.model_copy(update={"status": "interrupted"}) if again.status in ALIVE else again
        return state

    def _is_there(self, execution_id: str) -> bool:
        return (self.folder / execution_id).is_dir() or self._place(execution_id) is not None

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

    def rows(self, limit: int = 50, *, status: ExecutionStatus | None = None, **filters: Any) -> list[Row]:
        """What the index has, the newest first; what is running there and has no owner is interrupted."""
        statuses: tuple[ExecutionStatus | None, ...] = ("interrupted", *ALIVE) if status == "interrupted" else (status,)
        self.flush()
        found: list[Row] = []
        for one in statuses:
            found += self.index.rows(max(limit, MOST_ALIVE) if one in ALIVE else limit, status=one, **filters)
        rows = [now for row in found if (now := self._now(row)) is not None and status in (None, now.status)]
        return sorted(rows, key=lambda row: row.id, reverse=True)[:limit]

    def counts(self) -> dict[ExecutionStatus, int]:
        """How many executions there are of each status; what is running and has no owner is interrupted."""
        self.flush()
        known = self.index.counts()
        found = {status: int(known.get(status, 0)) for status in TRANSITIONS}
        for status in ALIVE:
            if found[status]:
                alive = len(self.rows(MOST_ALIVE, status=status))
                found["interrupted"] += max(0, found[status] - alive)
                found[status] = alive
        return found

    def _now(self, row: Row) -> Row | None:
        folder = self.folder / row.id
        if not row.packed and not folder.is_dir():
            if row.created < time.time() - NEW_S:
                self.index.remove(row.id)
            return None
        if row.packed or row.status not in ALIVE:
            return row
        try:
            if owner(folder) is not None:
                return row
            state = self.load(row.id)
            if state.status not in ("interrupted", *ALIVE):  # it ended, and was killed before the index was told
                self.index.put(state)
            return row.model_copy(update={"status": state.status})
        except Unborn:
            self._forget_unborn(row)
            return None
        except Exception as error:  # whatever it is, it is this one's; `status` tells it
            reason(error, row.id)
            return row.model_copy(update={"status": "interrupted"})

    def _forget_unborn(self, row: Row) -> None:
        """A process was killed before its first record: once that can't be another one's that is just beginning, it
        goes.
        """
        if row.created < time.time() - NEW_S and self.index.kept(row.id) is None:
            with contextlib.suppress(ExecutionConflict, OSError), _claim(self.folder / row.id):
                shutil.rmtree(self.folder / row.id)
                self.index.remove(row.id)

    def records(self, execution_id: str) -> Iterator[Record]:
        """All records of an execution, to be looked at. Where some are lost, a note says which."""
        place = self._packed_place(execution_id)
        return iter(Scan(self._there(execution_id) / JOURNAL_FILE) if place is None else self._packed_records(place))

    def read_from(self, execution_id: str, offset: int) -> tuple[list[Record], int]:
        """The records from *offset* on, not more than some at once, and where to read on. A mended journal is read
        from its beginning.
        """
        if (place := self._packed_place(execution_id)) is not None:
            return ([] if offset >= place.size else list(self._packed_records(place))), place.size
        path = self._there(execution_id) / JOURNAL_FILE
        if offset and not fits(path, offset, None):
            offset = 0
        scan = Scan(path, offset=offset, after=None if offset else 0)
        records = []
        for record in scan:
            records.append(record)
            if len(records) >= MOST_READ or scan.size - offset > MOST_BYTES:
                break
        return records, scan.size

    def decide(
        self,
        execution_id: str,
        path: str | None,
        approved: bool,
        check: Callable[[ExecutionState], None] = lambda _: None,
    ) -> ExecutionState:
        """Approve or reject a call that waits for it, or all that do. `resume` then goes on.

        *check* raises if this user may not go on with the execution.
        """
        with self.hold(execution_id) as held:
            state = held.state
            check(state)
            if state.status in ALIVE:  # nobody has it but us: it was killed before it could say that it waits
                held.move("interrupted")
            elif state.status not in ("paused", "interrupted"):
                raise ExecutionConflict(f"execution {execution_id} does not wait for a decision: it is {state.status}")
            if path is None and not state.requests:
                raise ExecutionConflict(
                    f"execution {execution_id} does not wait for a decision: all its calls have one"
                )
            if path is not None and path not in state.requests:
                there = ", ".join(list(state.requests)[:10]) or "none"
                raise ExecutionConflict(
                    f"execution {execution_id} has no call {path[:80]!r} that waits for a decision; there are: {there}"
                )
            for one in [path] if path is not None else list(state.requests):
                request = state.requests[one]
                if approved:
                    check_request(one, request, named=path is not None)
                seal = decision_seal(execution_id, one, request, approved)
                held.append("decided", {"path": one, "approved": approved, "seal": seal})
            held.commit()
            held.write()
            self.index.put(held.state)
            return held.state

    def checkpoint(self, execution_id: str, label: str, value: Any = None) -> ExecutionState:
        """Mark where an execution stands; the process that owns it, if one does, is asked to."""
        if not 0 < len(label) <= MAX_LABEL or not label.isprintable():
            raise ExecutionConflict(f"a checkpoint has a label of 1 to {MAX_LABEL} printable characters")

        def mark(held: OwnedExecution) -> None:
            if held.state.status in FINISHED:
                raise ExecutionConflict(f"execution {execution_id} has finished: it is {held.state.status}")
            held.checkpoint(label, value)

        return self._mark(execution_id, {"label": label, "value": value}, mark)

    def remove_checkpoint(self, execution_id: str, name: str) -> ExecutionState:
        """Take a mark away, by its number or label; the process that owns the execution, if one does, is asked to."""
        found = find_checkpoint(self.load(execution_id), name)
        return self._mark(execution_id, {"remove": str(found.seq)}, lambda held: held.remove_checkpoint(name))

    def _mark(self, execution_id: str, asked: dict[str, Any], mark: Callable[[OwnedExecution], None]) -> ExecutionState:
        if owner(self._there(execution_id)) is not None:
            return self._ask_for_mark(execution_id, asked, mark)
        with self.hold(execution_id) as held:
            mark(held)
            return held.state

    def _ask_for_mark(
        self, execution_id: str, wanted: dict[str, Any], mark: Callable[[OwnedExecution], None]
    ) -> ExecutionState:
        folder = self.folder / execution_id
        data = json.dumps(wanted).encode()
        if len(data) > MAX_MARK:
            raise ExecutionConflict(f"a checkpoint's value may have at most {MAX_MARK} bytes of JSON")
        asked, path = folder / f"{TEMPORARY}{uuid.uuid4().hex}", folder / MARK_FILE
        until = time.monotonic() + PATIENCE_S
        write_whole(asked, data)
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
                return self._mark(execution_id, wanted, mark)
            _wait(until, execution_id)
        return self.load(execution_id)

    def is_held(self, execution_id: str) -> bool:
        """Whether a process has it: it runs there, or is about to, or has just ended."""
        return owner(self.folder / execution_id) is not None

    def ask_to_interrupt(self, execution_id: str) -> ExecutionState | None:
        """Ask the process that owns an execution to stop it. One that no process has, and that waits for approval,
        waits no longer.

        Its state, if that is so already. `ExecutionConflict` if there is nothing to stop.
        """
        state, folder = self.load(execution_id), self.folder / execution_id
        if state.status in FINISHED or (state.status == "failed" and owner(folder) is None):
            raise ExecutionConflict(f"execution {execution_id} has finished: it is {state.status}")
        if state.status == "paused" and owner(folder) is None:
            with self.hold(execution_id) as held:
                held.move("interrupted")
                return held.state
        if owner(folder) is None:
            raise ExecutionConflict(
                f"execution {execution_id} is not running: it is {state.status}", advice=Advice("resume", execution_id)
            )
        os.close(
            os.open(
                folder / INTERRUPT_FILE, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600
            )
        )
        return None

    def _there(self, execution_id: str) -> Path:
        folder = self.folder / execution_id
        if not ID.fullmatch(execution_id) or not folder.is_dir():
            raise ExecutionNotFound(f"there is no execution {execution_id[:80]}")
        if folder.is_symlink() or self.folder.is_symlink() or self.folder.parent.is_symlink():
            raise BadState(f"{folder} is reached by a link, and an execution is only where it is")
        return folder

    def _names(self, *, newest_first: bool = False) -> list[str]:
        try:
            return sorted((name for name in os.listdir(self.folder) if ID.fullmatch(name)), reverse=newest_first)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise BadState(f"{self.folder} can't be read: {error.strerror}") from None


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


def _claim(folder: Path) -> Claim:
    return Claim(folder / LOCK_FILE, f"execution {folder.name}")


def _building(folder: Path) -> StateBuilder:
    return StateBuilder(folder.name, str(folder), folder / STATE_FILE)


def _looked(folder: Path, mark: Mark | None) -> ExecutionState:
    """The state without owning it: what the file says, and what the journal has beyond it."""
    building = _building(folder)
    path, state = folder / JOURNAL_FILE, building.state
    known = building.known(mark)
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

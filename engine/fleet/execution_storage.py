"""The executions of a fleet: found, held and removed, in one Postgres for all its machines."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from go_ent.engine.core.errors import ExecutionConflict, ExecutionNotFound
from go_ent.engine.core.ids import ID
from go_ent.engine.executions.apply_records import with_damage
from go_ent.engine.executions.building import StateBuilder
from go_ent.engine.executions.kept_files import KIND as FILES
from go_ent.engine.executions.state import ExecutionState
from go_ent.engine.executions.storage import MOST_READ, Record, Row, Slot
from go_ent.engine.fleet import schema
from go_ent.engine.fleet.attachments import PostgresAttachments
from go_ent.engine.fleet.database import Address, Database, Listener
from go_ent.engine.fleet.execution_index import FOUND, PostgresIndex
from go_ent.engine.fleet.images import FleetImages
from go_ent.engine.fleet.members import Member, Members
from go_ent.engine.fleet.records import Lines, read_rows
from go_ent.engine.fleet.slot import PostgresSlot, Request, Taken
from go_ent.engine.fleet.writer import LATER_S, Entry, Writer, channel, notify
from go_ent.engine.storage.records import MAX_SEQ, lost
from go_ent.sandbox.children.proc import own_identity, pid_of

LOOK_S = 0.1  # for so long what others ask of all slots is looked up once
PRUNE_S = 600.0  # that one may be at it
BATCH = 500
REQUESTS: tuple[Request, ...] = ("interrupt", "mark")
# The last condition names the row it is asked about, so that nothing is locked, and so written, where there is none.
HOLD = """
with before as (select id, owner, process from $.slots where id = %(id)s for update),
mine as (update $.slots s set owner = %(me)s, epoch = s.epoch + 1, process = %(process)s, interrupt = false,
    mark = null, packed = false, queued = false
  from before b where s.id = b.id and (b.owner is null or b.owner = %(again)s
    or not exists (select from $.members m where m.id = b.owner and m.dead is null))
    and exists (select from $.members m where m.id = %(me)s and m.dead is null and b.id is not null for share)
  returning s.epoch, s.seq, s.size)
select b.owner, b.process, mine.* from before b left join mine on true
"""


DROP = """delete from $.slots where id = %s and id like '%%/%%'
  and exists (select from $.slots where id = %s and epoch = %s)"""


class PostgresStorage:
    """`ExecutionStorage` of a fleet; one of a process. It is a member of the fleet from the first slot that it has."""

    def __init__(self, address: Address, *, name: str | None = None, kind: str = "client") -> None:
        self.database = Database(address)
        self.members = Members(self.database)
        self.writer = Writer(self.database)
        self.index = PostgresIndex(self.database, self.writer, self.load)
        self.name = name or f"{socket.gethostname()}-{os.getpid()}"
        self.kind = kind
        self.info: dict[str, object] = {}
        self._lock = threading.RLock()
        self.member: Member | None = None
        self._checked = False
        self._held: dict[str, PostgresSlot] = {}
        self._asked: set[tuple[str, str]] = set()
        self._looked = 0.0
        self._heard: set[tuple[str, str]] = set()  # what was answered from the last look

    # -- this process as a member

    def joined(self) -> tuple[int, str]:
        with self._lock:
            if self.member is None:
                self._check()
                member = Member(self.database, self.members, name=self.name, kind=self.kind, info=self.info)
                member.lost = self.lose_all
                member.join()
                self.member = member
            return self.member.id, f"{own_identity()}@{socket.gethostname()}"

    def lose_all(self) -> None:
        """Others have taken this process for dead: all that it had may be theirs."""
        with self._lock:
            self.member = None
            held, self._held = list(self._held.values()), {}
        for slot in held:
            slot.lose()

    def _check(self) -> None:
        if not self._checked:
            schema.check(self.database)
            self._checked = True

    def took(self, slot: PostgresSlot) -> None:
        with self._lock:
            self._held[slot.id] = slot

    def gave(self, slot: PostgresSlot) -> None:
        with self._lock:
            if self._held.get(slot.id) is slot:
                del self._held[slot.id]

    # -- requests of others

    def asked(self, slot: PostgresSlot, request: Request) -> bool:
        with self._lock:
            member, question = self.member, (slot.id, request)
            if member is None:
                return False
            if question in self._heard or time.monotonic() - self._looked > LOOK_S:
                query = (
                    "select id, interrupt, mark is not null from $.slots "
                    "where owner = %s and (interrupt or mark is not null)"
                )
                found = self.database.ask(query, (member.id,))
                self._asked = {
                    (one, name)
                    for one, *wanted in found
                    for name, is_wanted in zip(REQUESTS, wanted, strict=True)
                    if is_wanted
                }
                self._looked, self._heard = time.monotonic(), set()
            self._heard.add(question)
            return question in self._asked

    def answer(self, slot: PostgresSlot, request: Request) -> None:
        text = "interrupt = false" if request == "interrupt" else "mark = null"
        self.database.tell(f"update $.slots set {text} where id = %s and epoch = %s", (slot.id, slot.epoch))  # noqa: S608
        with self._lock:
            self._looked = 0.0

    def mark_of(self, slot_id: str, most: int) -> bytes:
        rows = self.database.ask("select substring(mark for %s) from $.slots where id = %s", (most + 1, slot_id))
        mark = bytes(rows[0][0]) if rows and rows[0][0] is not None else b""
        return mark if len(mark) <= most else b""

    # -- holding

    def create(self, execution_id: str) -> PostgresSlot:
        return PostgresSlot(self, execution_id)

    def hold(self, execution_id: str) -> tuple[PostgresSlot, ExecutionState]:
        slot = self._take(execution_id)
        try:
            state = self.load(execution_id)
        except BaseException:
            slot.release()
            raise
        return slot, state

    def _take(self, slot_id: str) -> PostgresSlot:
        self._known(slot_id)
        self._flush_for(slot_id)
        me, process = self.joined()
        with self._lock:
            again = None if slot_id in self._held else me  # what we have taken, and was not told of
        for attempt in (1, 2):
            rows = self.database.ask(HOLD, {"id": slot_id, "me": me, "process": process, "again": again})
            if not rows:
                raise _not_there(slot_id)
            ((owner, before, epoch, seq, size),) = rows
            if epoch is not None:
                identity, _, machine = before.partition("@")
                died = owner not in (None, me) and machine == socket.gethostname()
                slot = PostgresSlot(self, slot_id, Taken(epoch, seq, size, identity if died else None))
                self.took(slot)
                return slot
            if attempt == 1 and not any(seen.alive for seen in self.members.look() if seen.id == owner):
                self.members.wait_for_death(owner)
                continue
            break
        identity, _, machine = before.partition("@")
        raise ExecutionConflict(
            f"execution {slot_id} is being run by process {pid_of(identity) or 'unknown'} of {machine}"
        )

    def is_held(self, execution_id: str) -> bool:
        query = (
            "select 1 from $.slots s where s.id = %s "  # noqa: S608
            f"and (s.queued or s.owner in (select id from ({self.members.alive_query}) a))"
        )
        return bool(self.database.ask(query, (execution_id,)))

    def queue(self, execution_id: str) -> int | None:
        """Note that it waits for a worker: the number of this wait, or None if it is under way already. Nobody has it
        meanwhile.
        """
        self.flush()
        query = "update $.slots set queued = true, epoch = epoch + 1 where id = %s and not queued and owner is null"
        rows = self.database.ask(query + " returning epoch", (execution_id,))
        return int(rows[0][0]) if rows else None

    def unqueue(self, execution_id: str) -> None:
        """It waits for nobody."""
        self.database.tell("update $.slots set queued = false where id = %s", (execution_id,))

    def is_due(self, execution_id: str, number: int) -> bool:
        """Whether that wait for a worker is the one that counts, or was, and the worker has died. One that somebody has
        ended, and that rests or waits anew, is not.
        """
        query = (
            "select 1 from $.slots s where s.id = %s and case when s.queued then s.epoch = %s "  # noqa: S608
            f"else s.owner is not null and s.owner not in (select id from ({self.members.alive_query}) a) end"
        )
        return bool(self.database.ask(query, (execution_id, number)))

    def where(self, execution_id: str) -> str:
        return f"execution {execution_id} in the fleet"

    def has(self, execution_id: str) -> bool:
        if not ID.fullmatch(execution_id):
            return False
        self.flush()
        return bool(self.database.ask("select 1 from $.slots where id = %s", (execution_id,)))

    def ids(self) -> list[str]:
        return []

    def has_slot(self, slot_id: str) -> bool:
        """Whether there is an execution, or a step that runs elsewhere, of that id."""
        return bool(self.database.ask("select 1 from $.slots where id = %s", (slot_id,)))

    def drop(self, part: str, slot: Slot) -> None:
        """Remove the record of a part of an execution that this process has in *slot*, with the next thing that is
        written: the execution's own has it then. Who has lost that writes nothing there, and removes nothing.
        """
        assert isinstance(slot, PostgresSlot)
        gone = (DROP, (part, slot.id, slot.epoch))
        self.writer.add(Entry(lambda: [] if slot.lost else [gone]), LATER_S)

    def drop_steps(self, execution_id: str) -> None:
        """Remove the records of the steps of an execution that has finished: its own has them."""
        self.flush()
        query = "delete from $.slots where id like %s and owner is null"
        self.database.tell(query, (f"{execution_id}/%",))

    def keep_attachments(self, slot_id: str, records: Iterable[Record]) -> None:
        """Give an execution the files that a part of it left, before the part's own record is removed."""
        if any(record["kind"] == FILES for record in records):
            query = (
                "insert into $.attachments select split_part(slot, '/', 1), kind, name, data from $.attachments "
                "where slot = %s and kind = %s on conflict do nothing"
            )
            self.database.tell(query, (slot_id, FILES))

    def chunks(self, execution_id: str) -> list[str]:
        """The chunks of lines that have a record of their own."""
        query = "select id from $.slots where id like %s order by made limit 10000"
        return [slot for (slot,) in self.database.ask(query, (f"{execution_id}/l%",))]

    @staticmethod
    def _known(slot_id: str) -> None:
        if not ID.fullmatch(slot_id.partition("/")[0]):
            raise _not_there(slot_id)

    # -- reading

    def load(self, execution_id: str, *, compare: bool = True) -> ExecutionState:
        known = self._there(execution_id)  # at least: more may come meanwhile
        records = Lines(self.database, execution_id)
        building = StateBuilder(execution_id.partition("/")[0], self.where(execution_id), begun=known > 0)
        state = building.add_all(records)
        return with_damage(state, lost(state.seq + 1, known)["text"]) if compare and state.seq < known else state

    def records(self, execution_id: str) -> Iterator[Record]:
        self._there(execution_id)
        return iter(Lines(self.database, execution_id))

    def read_from(self, execution_id: str, offset: int, most: int = MOST_READ) -> tuple[list[Record], int]:
        self._there(execution_id)
        return read_rows(self.database, execution_id, offset, most)

    def _there(self, slot_id: str) -> int:
        """The number of its last record."""
        self._known(slot_id)
        self._flush_for(slot_id)
        rows = self.database.ask("select seq from $.slots where id = %s", (slot_id,))
        if not rows:
            raise _not_there(slot_id)
        return min(int(rows[0][0]), MAX_SEQ)

    def attachments(self, execution_id: str, kind: str) -> PostgresAttachments:
        return PostgresAttachments(self.database, execution_id, kind)

    # -- asking who has one

    def ask_to_interrupt(self, execution_id: str) -> None:
        self._there(execution_id)
        # One that waits for a worker waits no more; who has one is asked.
        query = "update $.slots set interrupt = owner is not null, queued = false where id = %s"
        self.database.tell(query, (execution_id,))

    def ask_for_mark(self, execution_id: str, request: bytes, patience_s: float) -> bool:
        self._there(execution_id)
        until = time.monotonic() + patience_s
        asking = "update $.slots set mark = %s where id = %s and mark is null and owner is not null"
        while not self.database.tell(asking, (request, execution_id)):  # one at a time
            if not self.is_held(execution_id):
                return False
            _wait(until, execution_id)
        while self.database.ask("select 1 from $.slots where id = %s and mark = %s", (execution_id, request)):
            if not self.is_held(execution_id):
                self.database.tell(
                    "update $.slots set mark = null where id = %s and mark = %s", (execution_id, request)
                )
                return False
            _wait(until, execution_id)
        return self.is_held(execution_id)

    def watch(self, told: Callable[[], None]) -> FleetWatch:
        return FleetWatch(self.database, told)

    # -- removing

    def forget_unborn(self, execution_id: str) -> None:
        """None is ever seen: there is one once it has its first record."""

    def oldest(self) -> Iterator[Row]:
        self.flush()
        after = ""
        while True:
            query = (
                f"select {FOUND} from $.executions e join $.slots s using (id) "  # noqa: S608
                "where e.id > %s order by e.id limit %s"
            )
            found = self.database.ask(query, (after, BATCH))
            yield from self.index.read(found)
            if len(found) < BATCH:
                return
            after = found[-1][0]

    def sizes(self, rows: Iterable[Row]) -> dict[str, int]:
        ids = [row.id for row in rows]
        query = (
            "select s.id, (s.size + coalesce(sum(octet_length(a.data)), 0))::bigint from $.slots s "
            "left join $.attachments a on a.slot = s.id where s.id = any(%s) group by s.id"
        )
        return {
            one: size
            for start in range(0, len(ids), BATCH)
            for one, size in self.database.ask(query, (ids[start : start + BATCH],))
        }

    def remove(self, rows: Iterable[Row], failed: dict[str, str], *, resumable: bool) -> tuple[list[str], int]:
        rows, removed, freed = list(rows), list[str](), 0
        query = (
            "delete from $.slots s using $.executions e "  # noqa: S608
            "where e.id = s.id and s.id = any(%s) and (%s or not e.resumable) and (s.owner is null "
            f"or s.owner not in (select id from ({self.members.alive_query}) a)) returning s.id, s.size"
        )
        for start in range(0, len(rows), BATCH):
            ids = [row.id for row in rows[start : start + BATCH]]
            try:
                gone = self.database.ask(query, (ids, resumable))
            except OSError as error:
                failed |= dict.fromkeys(ids, error.strerror or str(error))
                continue
            steps = "delete from $.slots where split_part(id, '/', 1) = any(%s) and id like '%%/%%'"
            self.database.tell(steps, ([one for one, _ in gone],))
            removed += [one for one in ids if one in dict(gone)]
            freed += sum(size for _, size in gone)
        notify(self.database)
        return removed, freed

    @contextmanager
    def turn_to_prune(self, every_s: float) -> Iterator[bool]:
        turn = (
            "insert into $.turns as t values ('prune', now() + %s * interval '1 second', null) "
            "on conflict (name) do update set until = excluded.until where (t.until is null or t.until < now()) "
            "and (t.done is null or t.done <= now() - %s * interval '1 second')"
        )
        if not self.database.tell(turn, (PRUNE_S, every_s)):
            yield False
            return
        done = "null"
        try:
            yield True
            FleetImages(self.database).prune()
            done = "now()"
        finally:
            self.database.tell(
                f"update $.turns set until = null, done = coalesce({done}, done) where name = 'prune'"  # noqa: S608
            )

    def needs_image(self, digest: str) -> bool:
        self.flush()
        return bool(self.database.ask("select 1 from $.executions where image = %s and resumable limit 1", (digest,)))

    def older_runs(self) -> Iterator[bytes]:
        return iter(())

    def flush(self) -> None:
        self.writer.flush()

    def _flush_for(self, slot_id: str) -> None:
        """All that there is to know of one is written. Who lets go of a part of an execution has seen to that."""
        if "/" not in slot_id:
            self.flush()

    def close(self) -> None:
        self.writer.close()
        with self._lock:
            member, self.member = (None, self.member) if self._held else (self.member, None)
        if member is not None:
            with contextlib.suppress(OSError):
                member.leave()
        self.database.close()


class FleetWatch:
    """`StorageWatch` of a fleet: of all of its executions, on whatever machine."""

    def __init__(self, database: Database, told: Callable[[], None]) -> None:
        self._told = told
        self._listener = Listener(database, channel(database), told)
        self.close = self._listener.close

    def follow(self, ids: Iterable[str]) -> None:
        self._told()


def _not_there(slot_id: str) -> ExecutionNotFound:
    return ExecutionNotFound(f"there is no execution {slot_id[:80]}")


def _wait(until: float, execution_id: str) -> None:
    if time.monotonic() > until:
        raise ExecutionConflict(f"the process that has execution {execution_id} does not answer: it may hang")
    time.sleep(0.02)

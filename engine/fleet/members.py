"""Processes of a fleet: each lives as long as its session has its lock. What a dead one held, others may take."""

from __future__ import annotations

import contextlib
import logging
import select
import socket
import threading
import time
import weakref
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

import psycopg
from psycopg import Connection
from psycopg.types.json import Jsonb

from go_ent.engine.fleet.database import Database
from go_ent.sandbox.children.proc import own_identity

log = logging.getLogger("go_ent.engine.fleet")
BEAT_S = 1.0
AGAIN_S = 0.1  # until it is tried again to reach a server
GRACE_S = 0.6  # that a lock may be free before its owner is dead: it may connect again
RESTARTED_S = 5.0  # after a restart of the server nobody is dead for so long: all come back, some later than others
SILENT_S = 5.0  # without a beat a process is dead though its connection lives: it was stopped, or hangs
# The members, with the session that has each one's lock, and for how long it was silent.
SEEN = """
select m.id, m.name, m.kind, l.pid, extract(epoch from clock_timestamp() - a.state_change)::float8, m.draining,
  m.suspect is not null, coalesce(m.suspect < clock_timestamp() - {grace} * interval '1 second', false)
    and clock_timestamp() > greatest(pg_postmaster_start_time(),
      (select max(backend_start) from pg_stat_activity where backend_type = 'checkpointer'))
      + {restarted} * interval '1 second',
  m.dead is not null
from $.members m left join pg_locks l on l.locktype = 'advisory' and l.granted and l.objsubid = 1
  and l.classid = {space} and l.objid = m.id
  and l.database = (select oid from pg_database where datname = current_database())
left join pg_stat_activity a on a.pid = l.pid
"""
ALIVE = """
select m.id from $.members m join pg_locks l on l.locktype = 'advisory' and l.granted and l.objsubid = 1
  and l.classid = {space} and l.objid = m.id
  and l.database = (select oid from pg_database where datname = current_database()) where m.dead is null
"""
LOCK = "select pg_try_advisory_lock(({space}::bigint << 32) | %s)"


class Seen(NamedTuple):
    """A member as the server sees it."""

    id: int
    name: str
    kind: str
    backend: int | None  # whose session has its lock
    silent_s: float | None
    draining: bool
    suspect: bool  # its lock was free when somebody looked before
    due: bool  # and that was long enough ago
    dead: bool

    @property
    def alive(self) -> bool:
        return self.backend is not None and not self.dead and (self.silent_s or 0.0) <= SILENT_S


class Members:
    """Who is in a fleet, as its Postgres sees it: no clock but the server's is read. The methods block."""

    def __init__(self, database: Database) -> None:
        self._database = database
        space = zlib.crc32(f"go-ent {database.address.namespace}".encode()) >> 1
        self._seen_query = SEEN.format(space=space, grace=GRACE_S, restarted=RESTARTED_S)
        self.alive_query, self.lock_query = ALIVE.format(space=space), LOCK.format(space=space)

    def look(self) -> list[Seen]:
        """All members."""
        return [Seen(*row) for row in self._database.ask(self._seen_query)]

    def slots(self, label: str | None) -> int:
        """How many steps the workers that live can run at once; those with a label, if one is given."""
        query = (
            "select coalesce(sum((info->>'slots')::int), 0)::int from $.members where kind = 'worker' "  # noqa: S608
            "and not draining and jsonb_typeof(info->'slots') = 'number' "
            "and (%s::text is null or info->'labels' ? %s::text or host = %s) "
            f"and id in (select id from ({self.alive_query}) a)"
        )
        return int(self._database.ask(query, (label, label, label))[0][0])

    def bury(self) -> list[Seen]:
        """Look, and see to it that those who have died are dead: it takes two looks, so far apart. All members as they
        were seen, the newly dead among the dead; a statement more only where something changes.
        """
        seen = self.look()
        for one in seen:
            if one.backend is not None and not one.dead and (one.silent_s or 0.0) > SILENT_S:
                self._database.ask("select pg_terminate_backend(%s)", (one.backend,))  # and its lock goes with it
        back = [one.id for one in seen if one.suspect and one.alive]
        new = [one.id for one in seen if not (one.suspect or one.alive or one.dead)]
        if back:
            self._database.tell("update $.members set suspect = null where id = any(%s)", (back,))
        if new:
            self._database.tell(
                "update $.members set suspect = clock_timestamp() where id = any(%s) and suspect is null", (new,)
            )
        gone = {one.id for one in seen if one.due and not one.alive and not one.dead and self._kill(one.id)}
        return [one._replace(dead=True) if one.id in gone else one for one in seen]

    def _kill(self, member: int) -> bool:
        """One whose lock is free is dead from now on: it can't come back while that is decided."""
        query = self.lock_query.replace("pg_try_advisory_lock", "pg_try_advisory_xact_lock")

        def kill(connection: Connection) -> bool:
            with connection.transaction():
                ((free,),) = connection.execute(query.encode(), (member,)).fetchall()
                text = self._database.query("update $.members set dead = now() where id = %s and dead is null")
                return bool(free and connection.execute(text.encode(), (member,)).rowcount)

        return self._database.run(kill)

    def forget(self, ids: list[int]) -> None:
        """The dead whose work others have."""
        self._database.tell("delete from $.members where id = any(%s) and dead is not null", (ids,))

    def wait_for_death(self, member: int) -> None:
        """Until one whose lock is free is dead, or has come back."""
        until = time.monotonic() + RESTARTED_S + 3 * GRACE_S
        while time.monotonic() < until:
            seen = next((one for one in self.bury() if one.id == member), None)
            if seen is None or seen.dead or seen.alive:
                return
            time.sleep(0.1)


class Member:
    """This process as a member, from `join` to `leave`. A thread shows that it lives; who is thought dead is told."""

    def __init__(
        self,
        database: Database,
        members: Members,
        *,
        name: str,
        kind: str = "client",
        info: dict[str, Any] | None = None,
    ) -> None:
        self.name, self.kind = name, kind
        self.id = 0
        self.lost: Callable[[], None] = lambda: None  # called when others have taken what this process had
        self._database, self._members, self._info = database, members, info or {}
        self.session: Connection | None = None
        self.over = threading.Event()
        self._wake: socket.socket | None = None
        self.thread: threading.Thread | None = None

    def join(self) -> int:
        """Be a member; the number that others know it by."""
        text = self._database.query(
            "insert into $.members (name, host, process, kind, info) values (%s, %s, %s, %s, %s) returning id"
        )
        given = (self.name, socket.gethostname(), own_identity(), self.kind, Jsonb(self._info))

        def enter(_: Connection) -> int:
            session = self._connected()
            try:
                with session.transaction():  # nobody sees it without its lock
                    ((number,),) = session.execute(text.encode(), given).fetchall()
                    session.execute(self._members.lock_query.encode(), (number,))
            except BaseException:
                session.close()
                raise
            self.session = session
            return int(number)

        self.id = self._database.run(enter)
        self._wake, other = socket.socketpair()
        weakref.finalize(self, self._wake.close)
        arguments = (weakref.ref(self), self.over, other)
        self.thread = threading.Thread(target=_beat, args=arguments, daemon=True, name="member")
        self.thread.start()
        return self.id

    def _connected(self) -> Connection:
        session = self._database.connect()
        for setting, value in (("tcp_keepalives_idle", 2), ("tcp_keepalives_interval", 1), ("tcp_user_timeout", 5000)):
            with contextlib.suppress(psycopg.Error):  # not on every system, nor on a local socket
                session.execute(f"set {setting} = {value}".encode())
        return session

    def beat(self) -> bool:
        """Show that this process lives; False once others think that it does not."""
        try:
            assert self.session is not None
            self.session.execute(b"select 1")
            return True
        except psycopg.Error:
            with contextlib.suppress(psycopg.Error):
                if self.session is not None:
                    self.session.close()
        try:
            session = self._connected()
            query = self._database.query("select 1 from $.members where id = %s and dead is null")
            ((mine,),) = session.execute(self._members.lock_query.encode(), (self.id,)).fetchall()
            if mine and session.execute(query.encode(), (self.id,)).fetchone():
                self.session = session
                return True
            session.close()
            # The lock is still with the session that was lost, or is being looked at: ask again.
            gone = not self._database.ask("select 1 from $.members where id = %s and dead is null", (self.id,))
        except (psycopg.Error, OSError):
            return True  # the server is away: nobody can have taken anything
        return not gone

    def leave(self) -> None:
        """Be a member no more."""
        if self.over.is_set():
            return
        self.over.set()
        if self._wake is not None:
            self._wake.close()
        with contextlib.suppress(psycopg.Error, OSError):
            self._database.run(
                lambda connection: connection.execute(
                    self._database.query("delete from $.members where id = %s").encode(), (self.id,)
                ),
                patience_s=1.0,
            )
        if self.thread is not None and self.thread is not threading.current_thread():
            self.thread.join(2.0)
        if self.session is not None:
            self.session.close()


def _beat(member: weakref.ref[Member], over: threading.Event, wake: socket.socket) -> None:
    """Beats now and then, and at once when the server has something to say: that the session is over."""
    session: Connection | None = None
    while True:
        heard = select.poll()
        heard.register(wake, select.POLLIN)
        is_open = session is not None and not session.closed
        if session is not None and is_open:
            heard.register(session.fileno(), select.POLLIN)
        heard.poll(1000 * (BEAT_S if is_open else AGAIN_S))
        mine = member()
        if mine is None or over.is_set():
            break
        if not mine.beat():
            log.warning("the fleet has taken this process for dead: what it ran goes on elsewhere")
            over.set()
            mine.lost()
            break
        session = mine.session
        del mine
    wake.close()

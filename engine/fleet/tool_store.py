"""The composed tools of a fleet: every version in Postgres, by its content; a folder of each machine is a copy.

The folder is what runs, so that nothing waits for a server. What somebody has edited there is never written over: it is
a conflict until it is pushed, or thrown away.
"""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import psycopg
from psycopg import Connection

from go_ent.composer.composed import toolfile
from go_ent.composer.composed.store import LAST, Store
from go_ent.composer.composed.tool_store import Found, StoreScope, Version, already_there
from go_ent.composer.composed.toolfile import MAX_BYTES, NAME, ToolFile
from go_ent.composer.errors import ComposeRefused, ComposerError, StoreError
from go_ent.composer.project.items import apart
from go_ent.engine.fleet.database import Away, Database

log = logging.getLogger("go_ent.engine.fleet")
FIRST_S = 2.0  # that a first look may wait for the server
AGAIN_S = 5.0  # at the latest, if no notification has come
MOST_TOOLS = 100_000
HEADS = """
select h.name, h.number, v.digest from $.tool_heads h left join $.tool_versions v using (name, number)
order by h.name limit %s
"""
SOURCE = """
select v.digest, c.source from $.tool_versions v join $.tool_contents c using (digest)
where v.name = %s and v.number = %s and octet_length(c.source) <= %s
"""


class FleetToolStore:
    """`ToolStore` of a fleet: its project's. Thread-safe."""

    def __init__(self, database: Database, folder: Store, by: str) -> None:
        self.scope: StoreScope = folder.scope
        self.where = folder.where
        self.conflicts: dict[str, str] = {}  # tools whose file here is not what the fleet has, and why it is kept
        self._database, self._folder, self._by = database, folder, by
        self._looks = 0
        self._known: dict[str, tuple[int | None, str | None]] = {}
        self._changing = threading.RLock()

    # -- the folder: what runs here

    def scan(self) -> Mapping[str, Found]:
        self._looks += 1
        if self._looks == 1:
            self.catch_up(patience_s=FIRST_S)
        elif self._looks == 2:  # a process that looks again may stay: it is kept up to date
            threading.Thread(
                target=_follow, args=(weakref.ref(self), self._database), name="fleet tools", daemon=True
            ).start()
        return self._folder.scan()

    def find(self, name: str) -> Found | None:
        return self._folder.find(name)

    def strangers(self) -> list[str]:
        return self._folder.strangers()

    def ignored(self) -> list[str]:
        return [*self._folder.ignored(), *(f"{name}: {why}" for name, why in sorted(self.conflicts.items()))]

    def read(self, name: str) -> ToolFile | None:
        return self._folder.read(name)

    def text(self, name: str) -> str:
        return self._folder.text(name)

    # -- the versions: what the fleet has

    def versions(self, name: str, *, whole: bool = False) -> list[Version]:
        query = "select number, digest, saved from $.tool_versions where name = %s order by number limit %s"
        try:
            rows = self._database.run(lambda one: self._rows(one, query, (name, MOST_TOOLS)), patience_s=FIRST_S)
        except Away:
            rows = []
        return [self._version(*row) for row in rows] or self._folder.versions(name, whole=whole)

    @staticmethod
    def _version(number: int, digest: str, saved: datetime) -> Version:
        return Version(number, digest[:16], saved.timestamp())

    def _rows(self, connection: Connection, query: str, given: Any) -> list[tuple[Any, ...]]:
        return connection.execute(self._database.query(query).encode(), given).fetchall()

    def version(self, name: str, number: int) -> ToolFile:
        file = self._fetch(name, number)
        return self._folder.version(name, number) if file is None else file

    def _fetch(self, name: str, number: int) -> ToolFile | None:
        """A version as the fleet has it: what was not saved by one of us is refused."""
        rows = self._ask(SOURCE, (name, number, MAX_BYTES))
        if not rows:
            return None
        ((digest, source),) = rows
        file = toolfile.read(source.encode(), name)
        if file.digest != digest:
            raise StoreError(f"version {number} of {name} is damaged: the fleet's database has another content")
        return file

    def _ask(self, query: str, given: Any) -> list[tuple[Any, ...]]:
        try:
            return self._database.ask(query, given)
        except Away as error:
            raise StoreError(str(error)) from None

    # -- changing them

    def save(self, file: ToolFile, *, replace: bool = True) -> tuple[Version, bool]:
        return self._save(file, replace=replace)

    def _save(self, file: ToolFile, *, replace: bool = True, head: str | None = None) -> tuple[Version, bool]:
        """*head* is the digest that is to be current now, if that matters."""
        with self._changing:
            version, created = self._transact(lambda connection: self._add(connection, file, replace, head))
            self._copy(file, version.number)
        return version, created

    def _add(self, connection: Connection, file: ToolFile, replace: bool, head: str | None) -> tuple[Version, bool]:
        name = file.name
        with connection.transaction():
            lock = "select pg_advisory_xact_lock(hashtextextended(%s, 2))"
            connection.execute(lock.encode(), (f"{self._database.address.namespace} {name}",))
            query = HEADS.replace("order by", "where h.name = %s order by")
            rows = self._rows(connection, query, (name, 1))
            now = rows[0][2] if rows else None
            if now is not None and now != file.digest and (not replace or (head is not None and now != head)):
                raise already_there(name, self.scope)
            if now == file.digest:
                known = "select number, digest, saved from $.tool_versions where name = %s and number = %s"
                return self._version(*self._rows(connection, known, (name, rows[0][1]))[0]), False
            ((last,),) = self._rows(
                connection, "select coalesce(max(number), 0) from $.tool_versions where name = %s", (name,)
            )
            if not 0 <= last < LAST:
                raise StoreError(f"{name} has a version {last}, the last that there can be")
            content = "insert into $.tool_contents values (%s, %s) on conflict do nothing"
            connection.execute(self._database.query(content).encode(), (file.digest, file.source))
            add = "insert into $.tool_versions values (%s, %s, %s, now(), %s) returning number, digest, saved"
            row = self._rows(connection, add, (name, last + 1, file.digest, self._by))[0]
            self._head(connection, name, last + 1)
            return self._version(*row), True

    def _head(self, connection: Connection, name: str, number: int | None) -> None:
        current = "insert into $.tool_heads values (%s, %s) on conflict (name) do update set number = excluded.number"
        connection.execute(self._database.query(current).encode(), (name, number))
        connection.execute(b"select pg_notify(%s, %s)", (channel(self._database), name))

    def _transact(self, work: Any) -> Any:
        try:
            return self._database.run(work)
        except Away as error:
            raise StoreError(str(error)) from None

    def adopt(self, file: ToolFile) -> Version:
        same = [version for version in self.versions(file.name) if version.digest == file.digest[:16]]
        return same[-1] if same else self._folder.adopt(file)

    def remove(self, name: str) -> None:
        with self._changing:
            if self._folder.find(name) is None:
                raise StoreError(f"there is no composed tool {name} in the {self.scope} store")

            def remove(connection: Connection) -> None:
                with connection.transaction():
                    self._head(connection, name, None)

            self._transact(remove)
            self._folder.remove(name)
            self._known[name] = None, None

    def rollback(self, name: str, number: int) -> Version:
        file = self.version(name, number)
        return self._save(file)[0]

    # -- the copy

    def catch_up(self, *, patience_s: float = 0.0) -> None:
        """Bring the folder up to date, as far as the server answers. One bad tool is one bad tool."""
        try:
            rows = self._database.run(
                lambda connection: self._rows(connection, HEADS, (MOST_TOOLS,)), patience_s=patience_s
            )
        except Away as error:
            log.warning("composed tools of the fleet are not looked at: %s", error)
            return
        wrong: dict[str, str] = {}
        with self._changing:
            for name, number, digest in rows:
                if self._known.get(name) != (number, digest):
                    with apart(str(name)[:80], wrong):
                        self._follow(name, number, digest)
        for name, why in wrong.items():
            self.conflicts[name] = why

    def _follow(self, name: str, number: int | None, digest: str | None) -> None:
        if not NAME.fullmatch(name):
            raise StoreError("the fleet has a tool of a name that can't be one")
        here = self._here(name)
        if here is not None and here != digest and not self._is_known(name, here):
            raise StoreError(
                f"{name} was changed here, and is not what the fleet has: go-ent fleet push {name}, or remove its file"
            )
        if number is None or digest is None:
            if here is not None:
                self._folder.remove(name)
        elif here != digest:
            file = self._fetch(name, number)
            if file is None or file.digest != digest:
                raise StoreError(f"version {number} of {name} can't be used: it is too large, or not there")
            self._copy(file, number)
        self._known[name] = number, digest
        self.conflicts.pop(name, None)

    def _here(self, name: str) -> str | None:
        """The digest of the file in the folder; of one that is no tool's, something that no version has."""
        try:
            file = self._folder.read(name)
        except ComposeRefused:
            return "unreadable"
        return None if file is None else file.digest

    def _is_known(self, name: str, digest: str) -> bool:
        query = "select 1 from $.tool_versions where name = %s and digest = %s limit 1"
        return bool(self._ask(query, (name, digest)))

    def _copy(self, file: ToolFile, number: int) -> None:
        self._folder.place(file, number)
        self._known[file.name] = number, file.digest
        self.conflicts.pop(file.name, None)

    def push(self, names: list[str] | None = None) -> dict[str, str]:
        """Give the fleet the files of this folder; what came of each. What the fleet has changed meanwhile stays."""
        self.catch_up(patience_s=FIRST_S)
        told: dict[str, str] = {}
        heads = {name: (number, digest) for name, number, digest in self._ask(HEADS, (MOST_TOOLS,))}
        for name in names or sorted(self._folder.scan()):
            with apart(name, told):
                file = self._folder.read(name)
                if file is None:
                    raise StoreError("there is no such tool here")
                digest = heads.get(name, (None, None))[1]
                if digest == file.digest:
                    told[name] = "is what the fleet has"
                elif digest is None or file.metadata.version == heads[name][0] or names is not None:
                    version, _ = self._save(file, head=digest)
                    told[name] = f"is version {version.number} now"
                else:
                    told[name] = f"not pushed: the fleet has version {heads[name][0]}; name the tool to push it anyway"
        return told

    def pull(self) -> dict[str, str]:
        """Bring the folder up to date; the tools that can't be, and why."""
        with self._changing:
            self._known = {}
            self.conflicts = {}
        self.catch_up(patience_s=FIRST_S)
        return dict(self.conflicts)


def channel(database: Database) -> str:
    """What is notified when a tool changes."""
    return f"{database.address.namespace}_tools"


def _follow(store: weakref.ref[FleetToolStore], database: Database) -> None:
    """Keep a folder up to date for as long as somebody uses it. A notification is a hint: the tables say what is so."""
    session: Connection | None = None
    while store() is not None:
        try:
            if session is None:
                session = database.connect()
                session.execute(f"listen {channel(database)}".encode())
            else:
                for _ in session.notifies(timeout=AGAIN_S, stop_after=1):
                    pass
        except psycopg.Error:
            if session is not None:
                session.close()
            session = None
            time.sleep(1.0)
        mine = store()
        if mine is None:
            break
        try:
            mine.catch_up()
        except ComposerError as error:
            log.warning("composed tools of the fleet: %s", error)
        del mine
    if session is not None:
        session.close()

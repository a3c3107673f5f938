"""The way to the fleet's Postgres: a small pool, and what is tried again when the server was away."""

from __future__ import annotations

import errno
import logging
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import psycopg
from psycopg import Connection
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from go_ent.composer.errors import ConfigError
from go_ent.dataclass import dataclass
from go_ent.engine.core.config import FleetConfig

log = logging.getLogger("go_ent.engine.fleet")
Rows = list[tuple[Any, ...]]
T = TypeVar("T")
MOST_CONNECTIONS = 4  # of one process, beside the one that its life hangs on and those of DBOS
CONNECT_S = 10
PATIENCE_S = 60.0  # that a server may be away, restarting, before what needs it fails
FIRST_S = 5.0  # the same for one that this process has never reached: its address may be wrong
PAUSE_S = 0.1
OVER_S = 1.0  # that a listener may take to notice that it is over
NOT_THERE = (
    psycopg.errors.UndefinedTable,
    psycopg.errors.UndefinedColumn,
    psycopg.errors.UndefinedFunction,
    psycopg.errors.InvalidSchemaName,
)
TO_DO = (
    (NOT_THERE, "run go-ent fleet init"),
    (psycopg.errors.InsufficientPrivilege, "use the user that has run go-ent fleet init, or grant its rights"),
)
# A dead peer is noticed within about ten seconds, in whatever state the connection is.
KEEPALIVE = {"keepalives_idle": "3", "keepalives_interval": "2", "keepalives_count": "3", "tcp_user_timeout": "10000"}


class Away(OSError):
    """Internal: the fleet's Postgres can't be reached, or does not do what it is told."""

    def __init__(self, said: str) -> None:
        super().__init__(errno.EIO, f"the fleet's Postgres can't be used: {said}")

    def __str__(self) -> str:
        return str(self.strerror)


@dataclass(frozen=True, slots=True)
class Address:
    """Where a fleet is. The URLs are secrets: they are not shown."""

    url: str
    session_url: str
    namespace: str

    def __repr__(self) -> str:
        return f"Address({self.namespace})"

    @classmethod
    def of(cls, config: FleetConfig, environment: Mapping[str, str] | None = None) -> Address:
        """The one that the configuration names; `ConfigError` if its variable does not hold a URL."""
        environment = os.environ if environment is None else environment
        assert config.url_env is not None, "no fleet is configured"
        url = _url(config.url_env, environment)
        session = url if config.session_url_env is None else _url(config.session_url_env, environment)
        return cls(url, session, config.namespace)


def _url(name: str, environment: Mapping[str, str]) -> str:
    url = environment.get(name, "")
    if not url:
        raise ConfigError(f"[fleet] takes its Postgres URL from ${name}, which is not set")
    try:
        parts = conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        parts = {}
    if not url.startswith(("postgresql://", "postgres://")) or not parts.get("dbname"):
        raise ConfigError(f"${name} does not hold a URL like postgresql://user:password@host/database")
    return make_conninfo(url, application_name="go-ent", connect_timeout=CONNECT_S, **KEEPALIVE)


class Database:
    """Connections of one process, made when they are needed. Thread-safe; the methods block, for as long as a server
    may be away. `$.` in a query stands for the fleet's schema.

    Nothing of a session is relied on, so that a transaction pooler may be between; `connect` is for what needs one.
    """

    def __init__(self, address: Address) -> None:
        self.address = address
        self._idle: list[Connection] = []
        self._free = threading.Semaphore(MOST_CONNECTIONS)
        self._lock = threading.Lock()
        self._reached = False
        self._tried = float("inf")  # when it was tried first
        self._process = os.getpid()
        weakref.finalize(self, _close, self._idle)

    def query(self, text: str) -> str:
        """A query about the fleet's own tables."""
        return text.replace("$.", f"{self.address.namespace}.")

    def connect(self) -> Connection:
        """A session of its own, straight to the server."""
        return psycopg.connect(self.address.session_url, autocommit=True, prepare_threshold=None)

    def ask(self, query: str, given: Any = ()) -> Rows:
        """The rows of one statement, which is a transaction."""
        return self.run(lambda connection: self._rows(connection, query, given))

    def tell(self, query: str, given: Any = ()) -> int:
        """Do one statement; how many rows it has changed."""
        return self.run(lambda connection: connection.execute(self.query(query).encode(), given).rowcount)

    def _rows(self, connection: Connection, query: str, given: Any) -> Rows:
        return connection.execute(self.query(query).encode(), given).fetchall()

    def run(self, work: Callable[[Connection], T], *, patience_s: float | None = None) -> T:
        """Do *work*, which may be done several times: it is begun again when the connection is lost on the way.

        `Away` if there is none for too long, and for what the server refuses.
        """
        self._tried = min(self._tried, time.monotonic())
        until = time.monotonic() + (PATIENCE_S if patience_s is None else patience_s)
        told = False
        while True:
            try:
                with self._connection() as connection:
                    self._reached = True
                    return work(connection)
            except (psycopg.OperationalError, psycopg.InterfaceError) as error:
                if time.monotonic() > (until if self._reached else min(until, self._tried + FIRST_S)):
                    ask = "" if self._reached else ": is its address right, and is it up?"
                    raise Away(_said(error) + ask) from None
                if not told:
                    log.warning("the fleet's Postgres is away, and is waited for: %s", _said(error))
                    told = True
                time.sleep(PAUSE_S)
            except psycopg.Error as error:
                raise Away(_said(error)) from error

    @contextmanager
    def _connection(self) -> Iterator[Connection]:
        with self._free:
            with self._lock:
                if self._process != os.getpid():  # a fork must not speak on its parent's sockets
                    self._idle.clear()
                    self._process = os.getpid()
                connection = self._idle.pop() if self._idle else None
            if connection is None:
                connection = psycopg.connect(self.address.url, autocommit=True, prepare_threshold=None)
            try:
                yield connection
            except BaseException:
                connection.close()
                raise
            with self._lock:
                self._idle.append(connection)

    def close(self) -> None:
        """Let go of what is idle. The next use connects again."""
        with self._lock:
            _close(self._idle)


class Listener:
    """Calls *told*, in a thread of its own, when a channel is notified, and whenever it has begun to listen: what came
    before may have been missed. A lost session is made anew. A pooler between must let sessions listen
    (`session_url_env`).
    """

    def __init__(self, database: Database, channel: str, told: Callable[[], None]) -> None:
        self._database, self._channel, self._told = database, channel, told
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._listen, name="fleet listener", daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        session: Connection | None = None
        while not self._over.is_set():
            try:
                if session is None:
                    session = self._database.connect()
                    session.execute(f"listen {self._channel}".encode())
                    self._told()
                for _ in session.notifies(timeout=OVER_S, stop_after=1):
                    self._told()
            except psycopg.Error:
                if session is not None:
                    session.close()
                session = None
                self._over.wait(OVER_S / 2)
        if session is not None:
            session.close()

    def close(self) -> None:
        """Nobody is told any more when this returns, or soon if the server does not answer."""
        self._over.set()
        self._thread.join(3 * OVER_S)


def _close(connections: list[Connection]) -> None:
    while connections:
        connections.pop().close()


def _said(error: psycopg.Error) -> str:
    """What a server says, in one line, and what to do. It names no password."""
    said = (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
    return said + next((f": {what}" for kinds, what in TO_DO if isinstance(error, kinds)), "")

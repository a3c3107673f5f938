"""SQLite for the run's own files.

SQLite itself can open no file: there is none in the guest. A database that is opened by name lives in SQLite's own
memory, where all the connections to it share it (its file system `memdb`), and what they have committed is written to
the run's file when the file is looked at, when a connection is closed, and at the end of the run.
"""

import contextlib
import os
import random
import sqlite3
import urllib.parse
import weakref
from typing import Any

from guest import files
from guest.policy import Refused, outside_folder

Plain = sqlite3.Connection
POSITIONAL = "timeout detect_types isolation_level check_same_thread factory cached_statements uri".split()
WAL = b"\x02\x02"  # in a file's header; this SQLite has no write-ahead log, and at rest such a file needs none
NO_WAL = b"\x01\x01"
HEADER = slice(18, 20)
MEMORY = (":memory:", "")
FILE_HINT = (
    "only the run's own files can be databases: open them with sqlite3.connect('name.db'), copy between them with "
    "Connection.backup; ATTACH takes ':memory:'"
)
FULL_HINT = "the run's files may hold max_file_bytes in all: raise that limit, or keep it in ':memory:'"
HINTS = {
    "not authorized": FILE_HINT,
    "authorization denied": FILE_HINT,
    "unable to open database": FILE_HINT,
    "database or disk is full": FULL_HINT,
}


class Database:
    """A file of the run that is open as a database."""

    count = 0

    def __init__(self, node: files.Node) -> None:
        Database.count += 1
        self.node = node
        self.uri = f"file:/{Database.count}?vfs=memdb"
        self.connections: weakref.WeakSet[Connection] = weakref.WeakSet()
        self.anchor = Plain(self.uri, uri=True, timeout=0)
        if node.data:
            data = bytearray(node.data)
            if data[HEADER] == WAL:
                data[HEADER] = NO_WAL
            source = Plain(":memory:")
            source.deserialize(data)
            source.backup(self.anchor)
            source.close()
        self.version, self.page_size = self._pragma("data_version"), self._pragma("page_size")

    def _pragma(self, name: str) -> int:
        ((value,),) = self.anchor.execute(f"PRAGMA {name}").fetchall()
        return int(value)

    def max_pages(self) -> int | None:
        """How many pages the run's limit leaves it, if there is one."""
        if files.folder.limit is None:
            return None
        others = sum(len(node.data) for node in files.folder.nodes.values() if node is not self.node)
        return max(1, (files.folder.limit - others) // self.page_size)

    def save(self) -> None:
        """Write what was committed to the file, if something was since."""
        try:
            version = self._pragma("data_version")
        except sqlite3.OperationalError:  # locked: in the middle of a transaction
            return
        if version != self.version:
            data = self.anchor.serialize()
            files.folder.room(len(data) - len(self.node.data))
            self.node.data[:] = data
            self.node.touch()
            self.version = version
        if not self.connections:
            files.folder.databases.pop(self.node, None)

    def end(self) -> None:
        """Close it for good; what was not committed is lost."""
        files.folder.databases.pop(self.node, None)
        for connection in list(self.connections):
            Plain.close(connection)
        self.save()


def _find(name: str, mode: str) -> Database:
    """The database in the run's file of that name."""
    outside = outside_folder(name, files.folder.cwd)
    if outside is not None:
        raise Refused(*outside)
    try:
        files.open_file(name, "ab" if mode == "rwc" else "rb").close()
    except OSError as error:
        raise sqlite3.OperationalError(f"unable to open database file: {error}") from None
    node = files.folder.nodes[files.folder.find(name)]
    database: Database | None = files.folder.databases.get(node)
    if database is None:
        database = files.folder.databases[node] = Database(node)
    return database


def _locate(name: str, uri: bool) -> tuple[str, Database | None]:
    """What SQLite is to open, and the run's file that it stands for, if any."""
    options: dict[str, str] = {}
    if uri and name.startswith("file:"):
        parts = urllib.parse.urlsplit(name)
        options = dict(urllib.parse.parse_qsl(parts.query))
        name = urllib.parse.unquote(parts.path)
    mode = "ro" if "immutable" in options else options.get("mode", "rwc")
    if name in MEMORY or mode == "memory":
        shared = options.get("cache") == "shared"
        return (f"file:/memory/{urllib.parse.quote(name)}?vfs=memdb" if shared else ":memory:"), None
    database = _find(name, mode)
    return database.uri + ("&mode=ro" if mode == "ro" else ""), database


def _authorize(action: int, first: str | None, second: str | None, schema: str | None, inner: str | None) -> int:
    """No file is attached, and what only makes sense with files on a disk has no effect."""
    if action == sqlite3.SQLITE_ATTACH and first not in MEMORY:
        return sqlite3.SQLITE_DENY
    if action == sqlite3.SQLITE_PRAGMA and first in ("busy_timeout", "temp_store", "max_page_count") and second:
        return sqlite3.SQLITE_IGNORE
    return sqlite3.SQLITE_OK


def _random() -> int:
    return random.getrandbits(64) - (1 << 63)


def _random_blob(size: Any) -> bytes:
    return random.randbytes(max(1, int(size or 0)))  # noqa: S311  (nor is SQLite's own for secrets)


class Connection(Plain):
    """`sqlite3.Connection`, to memory or to a file of the run."""

    def __init__(self, database: Any, *args: Any, **options: Any) -> None:
        options |= zip(POSITIONAL, args, strict=False)
        target, self._database = _locate(os.fsdecode(database), options.get("uri", False))
        super().__init__(target, **{**options, "timeout": 0, "uri": True})
        cursor = sqlite3.Cursor(self)
        cursor.execute("PRAGMA temp_store = MEMORY")
        if self._database is not None:
            self._database.connections.add(self)
            pages = self._database.max_pages()
            if pages is not None:
                with contextlib.suppress(sqlite3.OperationalError):  # another connection writes: `save` counts too
                    cursor.execute(f"PRAGMA max_page_count = {pages}")
        cursor.close()
        # SQLite's own would start from the time in seconds: two runs would make the same numbers.
        super().create_function("random", 0, _random)
        super().create_function("randomblob", 1, _random_blob)
        Connection.set_authorizer(self, None)

    def set_authorizer(self, authorizer_callback: Any) -> None:
        def authorize(action: int, first: Any, second: Any, schema: Any, inner: Any) -> Any:
            allowed = _authorize(action, first, second, schema, inner)
            return (
                authorizer_callback(action, first, second, schema, inner) if allowed == sqlite3.SQLITE_OK else allowed
            )

        self._authorizer = _authorize if authorizer_callback is None else authorize
        super().set_authorizer(self._authorizer)

    def deserialize(self, *args: Any, **options: Any) -> None:
        super().set_authorizer(None)  # it attaches, in its own way, nothing but the data
        try:
            super().deserialize(*args, **options)
        finally:
            super().set_authorizer(self._authorizer)

    def close(self) -> None:
        super().close()
        if self._database is not None:
            self._database.connections.discard(self)
            self._database.save()


def connect(database: Any, *args: Any, **options: Any) -> Any:
    """`sqlite3.connect`."""
    options |= zip(POSITIONAL, args, strict=False)
    return (options.get("factory") or Connection)(database, **options)


def install() -> None:
    """Put these in the library's place. Done once, before the snapshot."""
    for found in (connect, Connection):
        found.__module__ = "sqlite3"
    library: Any
    for library in (sqlite3, sqlite3.dbapi2):
        library.connect, library.Connection = connect, Connection

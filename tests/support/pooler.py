"""A transaction pooler for tests: many clients share few sessions of a Postgres, one for each transaction."""

from __future__ import annotations

import contextlib
import queue
import select
import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

STARTUP = b"user\0tester\0database\0postgres\0\0"
VERSION = 196608  # of the protocol: 3.0


def _read(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        piece = connection.recv(count - len(data))
        if not piece:
            raise ConnectionError
        data += piece
    return data


def _message(connection: socket.socket) -> tuple[bytes, bytes]:
    kind, length = struct.unpack("!cI", _read(connection, 5))
    return kind, _read(connection, length - 4)


def _packed(kind: bytes, body: bytes) -> bytes:
    return struct.pack("!cI", kind, len(body) + 4) + body


class Pooler:
    """As pgbouncer in its mode `transaction`: what is of a session is lost between transactions."""

    def __init__(self, server: Path, folder: Path, sessions: int) -> None:
        self.url = f"postgresql://tester@/postgres?host={folder}"
        self.clients = 0
        self._greeting = b""
        self._free: queue.Queue[socket.socket] = queue.Queue()
        for _ in range(sessions):
            self._free.put(self._session(server))
        self._door = socket.socket(socket.AF_UNIX)
        self._door.bind(str(folder / ".s.PGSQL.5432"))
        self._door.listen(50)
        threading.Thread(target=self._accept, daemon=True).start()

    def _session(self, server: Path) -> socket.socket:
        session = socket.socket(socket.AF_UNIX)
        session.connect(str(server / ".s.PGSQL.5432"))
        session.sendall(struct.pack("!II", len(STARTUP) + 8, VERSION) + STARTUP)
        self._greeting = b""
        while True:
            kind, body = _message(session)
            self._greeting += _packed(kind, body)
            if kind == b"Z":
                return session

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._door.accept()
                self.clients += 1
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError), client:
            (length,) = struct.unpack("!I", _read(client, 4))
            _read(client, length - 4)
            client.sendall(self._greeting)
            while True:
                kind, body = _message(client)
                if kind == b"X":
                    return
                session = self._free.get()
                self._transaction(client, session, _packed(kind, body), int(kind in b"QS"))
                self._free.put(session)

    @staticmethod
    def _transaction(client: socket.socket, session: socket.socket, first: bytes, asked: int) -> None:
        """Pass on what both say, until the server is ready and in no transaction."""
        session.sendall(first)
        while True:
            for ready in select.select([client, session], [], [])[0]:
                kind, body = _message(ready)
                (session if ready is client else client).sendall(_packed(kind, body))
                asked += ready is client and kind in b"QS"
                if ready is session and kind == b"Z":
                    asked -= 1
                    if not asked and body == b"I":
                        return

    def close(self) -> None:
        self._door.close()
        while not self._free.empty():
            self._free.get().close()


@contextlib.contextmanager
def pooled(server: Path, folder: Path, sessions: int) -> Iterator[Pooler]:
    pooler = Pooler(server, folder, sessions)
    try:
        yield pooler
    finally:
        pooler.close()

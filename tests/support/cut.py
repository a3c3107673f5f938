"""A way to a Postgres that can be cut, and mended: what goes through it is lost then, and nobody gets through."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path


class Way:
    """Connections on loopback, each passed on to the server's socket by two threads."""

    def __init__(self, server: Path) -> None:
        self._server = str(server / ".s.PGSQL.5432")
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._is_cut = False
        self.refused = 0  # connections that were tried meanwhile
        self._listening = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        return f"postgresql://tester@127.0.0.1:{self._listening.getsockname()[1]}/postgres"

    @property
    def passes(self) -> int:
        """Connections that are open."""
        with self._lock:
            return len(self._open) // 2

    def cut(self) -> None:
        with self._lock:
            self._is_cut = True
            for one in self._open:
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)

    def mend(self) -> None:
        with self._lock:
            self._is_cut = False

    def close(self) -> None:
        self.cut()
        self._listening.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listening.accept()
            except OSError:
                return
            far = socket.socket(socket.AF_UNIX)
            with self._lock:
                if self._is_cut:
                    self.refused += 1
                    near.close()
                    far.close()
                    continue
                far.connect(self._server)
                self._open |= {near, far}
            for pair in ((near, far), (far, near)):
                threading.Thread(target=self._pass_on, args=pair, daemon=True).start()

    def _pass_on(self, source: socket.socket, to: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                to.sendall(data)
        for one in (source, to):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        with self._lock:
            self._open.discard(source)
        source.close()


@contextlib.contextmanager
def way_to(server: Path) -> Iterator[Way]:
    """A way to the server whose socket is in that folder."""
    way = Way(server)
    try:
        yield way
    finally:
        way.close()

"""The MCP server over stdin and stdout, with as few threads between a message and its answer as the pipes allow.

mcp's own transport has a thread read each line, another write each answer and a third flush it. Here one thread reads
whatever has come, and an answer that the pipe has room for is written at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import select
import socket
import stat
import threading
from collections import deque
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any, cast

from fastmcp.server.context import reset_transport, set_transport
from mcp.server.stdio import stdio_server

from go_ent.engine.adapters.fastmcp_adapter import lowlevel_of
from go_ent.engine.server.unreadable import Messages

if TYPE_CHECKING:
    from fastmcp import FastMCP

log = logging.getLogger("go_ent.engine.server")
CHUNK = 64 << 10
AHEAD = 64  # chunks that are read before somebody wants them
MOST_LINE = 256 << 20  # bytes of a message


async def serve(server: FastMCP) -> None:
    """Serve the client at the other ends of stdin and stdout, until stdin ends."""
    lowlevel = lowlevel_of(server)
    token = set_transport("stdio")
    try:
        with _diverted() as (incoming, outgoing), contextlib.closing(Answers(outgoing)) as answers:
            streams = cast(Any, Lines(incoming)), cast(Any, answers)
            async with stdio_server(*streams) as (reading, writing):
                await lowlevel.run(Messages(reading, writing), writing, lowlevel.create_initialization_options())
    finally:
        reset_transport(token)


@contextlib.contextmanager
def _diverted() -> Iterator[tuple[int, int]]:
    """The descriptors of the client's pipes, which nobody else has meanwhile: what a library or a child prints goes to
    stderr, and there is nothing for them to read.
    """
    ours = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    try:
        yield ours
    finally:  # they stay open: a thread may still be reading
        os.dup2(ours[0], 0)
        os.dup2(ours[1], 1)


class Lines:
    """The lines of a pipe, read by one thread: as mcp's transport wants a file to be."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._loop = asyncio.get_running_loop()
        self._chunks: deque[bytes] = deque()
        self._came = asyncio.Event()
        self._room = threading.Semaphore(AHEAD)
        threading.Thread(target=self._read, name="stdin", daemon=True).start()

    def _read(self) -> None:
        chunk = b"-"
        while chunk:
            self._room.acquire()
            try:
                chunk = os.read(self._fd, CHUNK)
            except OSError as error:
                log.warning("stdin can't be read any more: %s", error.strerror)
                chunk = b""
            try:
                self._loop.call_soon_threadsafe(self._take, chunk)
            except RuntimeError:  # that loop is closed: nobody wants it
                return

    def _take(self, chunk: bytes) -> None:
        self._chunks.append(chunk)
        self._came.set()

    async def __aiter__(self) -> AsyncIterator[str]:
        left: list[bytes] = []  # of a line that has not ended
        size = 0
        while True:
            while not self._chunks:
                self._came.clear()
                await self._came.wait()
            chunk = self._chunks.popleft()
            self._room.release()
            first, *others = chunk.split(b"\n")
            left.append(first)
            size += len(first)
            for line in others:
                yield b"".join(left).decode("utf-8", "replace")
                left, size = [line], len(line)
            if not chunk or size > MOST_LINE:
                break
        if any(left):
            yield b"".join(left).decode("utf-8", "replace")


class Answers:
    """The other way: text that is written at once if there is room for it, else by a thread."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._text = ""
        kind = os.fstat(fd).st_mode
        self._socket = socket.socket(fileno=os.dup(fd)) if stat.S_ISSOCK(kind) else None
        self._poll = select.poll() if stat.S_ISFIFO(kind) else None
        if self._poll is not None:
            self._poll.register(fd, select.POLLOUT)

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()

    async def write(self, text: str) -> None:
        self._text += text

    async def flush(self) -> None:
        data, self._text = self._text.encode(), ""
        left = data[self._write_now(data) :]
        if left:
            await asyncio.to_thread(self._write_all, left)

    def _write_now(self, data: bytes) -> int:
        """Write what can be written without waiting: how many bytes that is."""
        if self._socket is not None:
            with contextlib.suppress(BlockingIOError):
                return self._socket.send(data, socket.MSG_DONTWAIT)
        elif self._poll is not None and len(data) <= select.PIPE_BUF and self._poll.poll(0):
            return os.write(self._fd, data)  # so few are written whole, where there is room for any
        return 0

    def _write_all(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._fd, data) :]

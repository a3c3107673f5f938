"""What passes between the host, its worker processes and their guests.

Frames: a length, a kind, a payload. Both sides are ours, but a worker's word is checked: its guest may have broken it.
"""

from __future__ import annotations

import json
import select
import socket
import struct
from functools import lru_cache
from typing import Any

from sandbox.end import End, Stop

HEAD = struct.Struct(">IB")
MAX_FRAME = 512 << 20

# host → worker
RUN, COMPLETIONS, STOP = 1, 2, 3
# worker → host
HELLO, READY, EXCHANGE, KEEP, DONE, FAILED = 11, 12, 13, 14, 15, 16


class Closed(Exception):
    """The other side is gone."""


def frame(kind: int, payload: bytes = b"") -> bytes:
    return HEAD.pack(len(payload), kind) + payload


MAX_WAIT_S = 1e6


def split_exchange(message: bytes) -> tuple[float | None, bytes]:
    """What a guest sends at a crossing: how long it can wait (None: for ever), and its calls."""
    head, _, body = message.partition(b"\n")
    try:
        wait = float(head[:32])
    except ValueError:
        raise Stop("protocol") from None
    if not wait >= 0:
        return None, body
    return min(wait, MAX_WAIT_S), body


DONE_HEAD = struct.Struct(">BQQQ")  # how it ended, CPU nanoseconds, memory, fuel


@lru_cache(256)
def decode_order(text: bytes) -> dict[str, Any]:
    """What a run may use. Few different ones are in use at a time, so they are read once."""
    order: dict[str, Any] = json.loads(text)
    return order


def encode_run(seed: bytes, order: bytes, request: bytes) -> bytes:
    return b"%b%b%b%b" % (seed, len(order).to_bytes(4, "big"), order, request)


def decode_done(payload: bytes) -> tuple[End, int, int, int]:
    kind, cpu, memory, fuel = DONE_HEAD.unpack_from(payload)
    rest = payload[DONE_HEAD.size :]
    if kind == 0:
        return End(answer=rest), cpu, memory, fuel
    text = rest.decode("utf-8", "replace")
    return End(reason=text) if kind == 1 else End(trap=text), cpu, memory, fuel


OUTPUT_SLACK = 256  # for the guest's own mark that it has cut its output


class OutputRoom:
    """What may still be printed. The guest cuts its own output; this holds even for a guest that does not."""

    def __init__(self, limit: int | None) -> None:
        self._left = None if limit is None else limit + OUTPUT_SLACK

    def fit(self, text: bytes) -> bytes:
        if self._left is not None:
            text = text[: self._left]
            self._left -= len(text)
        return text


class Frames:
    """Puts frames together from the pieces a socket gives."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> None:
        self._buffer += data

    def next(self) -> tuple[int, bytes] | None:
        if len(self._buffer) < HEAD.size:
            return None
        size, kind = HEAD.unpack_from(self._buffer)
        if size > MAX_FRAME:
            raise Closed(f"a frame of {size} bytes")
        end = HEAD.size + size
        if len(self._buffer) < end:
            return None
        payload = bytes(self._buffer[HEAD.size : end])
        del self._buffer[:end]
        return kind, payload


class Channel:
    """A worker's blocking end of the socket."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.frames = Frames()
        self._poll = select.poll()
        self._poll.register(sock, select.POLLIN)

    def send(self, kind: int, payload: bytes = b"") -> None:
        try:
            self.sock.sendall(frame(kind, payload))
        except OSError as error:
            raise Closed from error

    def waiting(self) -> bool:
        """Whether something has arrived already."""
        return bool(self.frames._buffer) or bool(self._poll.poll(0))

    def receive(self, timeout: float | None = None) -> tuple[int, bytes] | None:
        """The next frame, or None when *timeout* seconds have passed."""
        while (found := self.frames.next()) is None:
            if timeout is not None and not self._poll.poll(max(0.0, timeout) * 1000):
                return None
            try:
                data = self.sock.recv(1 << 20)
            except OSError as error:
                raise Closed from error
            if not data:
                raise Closed
            self.frames.feed(data)
        return found

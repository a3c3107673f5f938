"""What passes between the host, its worker processes and their guests.

Frames: a length, a kind, a payload. Both sides are ours, but a worker's word is checked: its guest may have broken it.
"""

from __future__ import annotations

import json
import select
import socket
import struct
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from go_ent.sandbox.worker.end import End, Stop
from go_ent.sandbox.worker.tape import Taped

HEAD = struct.Struct(">IB")
MAX_FRAME = 512 << 20
RECEIVE = 1 << 16  # bytes that are received at once: a larger buffer would be a mapping of its own, made each time
LARGE = 1 << 16  # a frame that is given out as it was received, without a copy

# host → worker
RUN, COMPLETION, STOP = 1, 2, 3
# worker → host
HELLO, READY, EXCHANGE, KEEP, DONE, FAILED = 11, 12, 13, 14, 15, 16


class Closed(Exception):
    """Internal: raised when the other side of the wire is gone. The run ends as `crashed`."""


def frame(kind: int, payload: bytes = b"") -> bytes:
    return HEAD.pack(len(payload), kind) + payload


MAX_WAIT_S = 1e6


MESSAGE_SLACK = 1 << 16


@lru_cache(64)
def message_room(call_bytes: int | None) -> int:
    """The bytes that a message may have: one call as long as it may be, or many short ones."""
    return MAX_FRAME if call_bytes is None else min(call_bytes + MESSAGE_SLACK, MAX_FRAME)


ANSWER_HEAD = 1 << 18  # how a run went
ANSWER_INDEX = 4 << 20  # the names of its files


@lru_cache(64)
def answer_room(result_bytes: int | None, file_bytes: int | None) -> int:
    """The bytes that an answer may have: how the run went, its result, and its files in base64."""
    if result_bytes is None or file_bytes is None:
        return MAX_FRAME
    return min(ANSWER_HEAD + result_bytes + ANSWER_INDEX + 2 * file_bytes, MAX_FRAME)


def split_exchange(message: bytes, room: int = MAX_FRAME) -> tuple[float | None, bytes]:
    """What a guest sends at a crossing: how long it can wait (None: for ever), and its calls."""
    head, _, body = message.partition(b"\n")
    if len(body) > room:
        raise Stop("protocol")
    try:
        wait = float(head[:32])
    except ValueError:
        raise Stop("protocol") from None
    if not wait >= 0:
        return None, body
    return min(wait, MAX_WAIT_S), body


MAX_REASON = 1000
# how it ended, CPU nanoseconds, memory, fuel, whether the worker can run another
DONE_HEAD = struct.Struct(">BQQQB")
NO_MORE, SOON, AT_ONCE = range(3)  # soon: it says READY when it can


@lru_cache(256)
def decode_order(text: bytes) -> dict[str, Any]:
    """What a run may use. Few different ones are in use at a time, so they are read once."""
    order: dict[str, Any] = json.loads(text)
    return order


def encode_run(seed: bytes, order: bytes, taped: Taped | None = None) -> bytes:
    """What stands before a run's request. Its order says whether there is a tape; then what is to be known of it comes
    last.
    """
    tape = b""
    if taped is not None:
        heard = taped.heard or b""
        tape = TAPE_HEAD.pack(taped.wall_ns, taped.heard is not None, len(heard)) + heard
    return b"%b%b%b%b" % (seed, len(order).to_bytes(4, "big"), order, tape)


TAPE_HEAD = struct.Struct(">Q?I")  # when the run began, whether it is replayed, how long is what it heard
MAX_HEARD = 4 << 20  # of one message
MAX_TAPE = 256 << 20


def decode_taped(payload: bytes, at: int) -> tuple[Taped, int]:
    """What stands at *at* about a run's tape, and where it ends."""
    wall_ns, replayed, size = TAPE_HEAD.unpack_from(payload, at)
    at += TAPE_HEAD.size
    return Taped(wall_ns, payload[at : at + size] if replayed else None), at + size


def split_heard(payload: bytes | bytearray) -> tuple[bytes, bytes | bytearray]:
    """What a taped guest heard before its message, and the message. It will be kept: it may hold no more than
    numbers.
    """
    heard, _, body = payload.partition(b"\n")
    if len(heard) > MAX_HEARD or heard.translate(None, b"0123456789,[]"):
        raise Closed("what a guest heard is not as we would write it")
    return bytes(heard), body


def encode_done(end: End, cpu: int, memory: int, fuel: int, again: int) -> bytes:
    kind = 1 if end.reason is not None else 2 if end.trap is not None else 0
    said = end.answer if end.answer is not None else (end.reason or end.trap or "").encode()
    return DONE_HEAD.pack(kind, cpu, memory, fuel, again) + said


def decode_done(payload: bytes | bytearray) -> tuple[End, int, int, int, int]:
    """How a run ended. A large payload becomes the answer itself, without a copy."""
    kind, cpu, memory, fuel, again = DONE_HEAD.unpack_from(payload)
    if isinstance(payload, bytearray):
        del payload[: DONE_HEAD.size]
        rest: bytes | bytearray = payload
    else:
        rest = payload[DONE_HEAD.size :]
    if kind == 0:
        return End(answer=rest), cpu, memory, fuel, again
    text = rest[:MAX_REASON].decode("utf-8", "replace")
    return End(reason=text) if kind == 1 else End(trap=text), cpu, memory, fuel, again


OUTPUT_SLACK = 256  # for the guest's own mark that it has cut its output
MAX_OUTPUT = 1 << 30  # of a run whose output has no limit of its own


def output_room(limit: int | None) -> int:
    """The bytes that a run may print, whatever its guest does."""
    return MAX_OUTPUT if limit is None else min(limit + OUTPUT_SLACK, MAX_OUTPUT)


class OutputRoom:
    """What may still be printed. The guest cuts its own output; this holds even for a guest that does not."""

    def __init__(self, limit: int | None) -> None:
        self._left = output_room(limit)

    def fit(self, text: bytes) -> bytes:
        text = text[: self._left]
        self._left -= len(text)
        return text


class Frames:
    """Puts frames together from the pieces a socket gives."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def __len__(self) -> int:
        """The bytes that have not been given out."""
        return len(self._buffer)

    def feed(self, data: bytes) -> None:
        self._buffer += data

    def only(self, data: bytes, room: Callable[[int], int] = lambda kind: MAX_FRAME) -> tuple[int, bytes] | None:
        """The frame that *data* is, if it is a whole one and nothing waits before it, as most are; else keep it."""
        if not self._buffer and len(data) >= HEAD.size:
            size, kind = HEAD.unpack_from(data)
            if len(data) == HEAD.size + size:
                if size > room(kind):
                    raise Closed(f"a frame of kind {kind} with {size} bytes")
                return kind, data[HEAD.size :]
        self._buffer += data
        return None

    @property
    def large(self) -> bool:
        """Whether the next frame is a large one, of which a part has arrived."""
        return len(self._buffer) >= HEAD.size and HEAD.unpack_from(self._buffer)[0] > LARGE

    def next(self, room: Callable[[int], int] = lambda kind: MAX_FRAME) -> tuple[int, bytes | bytearray] | None:
        """The next whole frame; *room* says how long one of a kind may be, before any of it is kept."""
        if len(self._buffer) < HEAD.size:
            return None
        size, kind = HEAD.unpack_from(self._buffer)
        if size > room(kind):
            raise Closed(f"a frame of kind {kind} with {size} bytes")
        end = HEAD.size + size
        if len(self._buffer) < end:
            return None
        if size > LARGE:  # to copy millions of bytes would keep every other thread waiting
            whole, self._buffer = self._buffer, self._buffer[end:]
            del whole[end:]
            del whole[: HEAD.size]
            return kind, whole
        with memoryview(self._buffer) as view:
            payload = bytes(view[HEAD.size : end])
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
                data = self.sock.recv(RECEIVE)
            except OSError as error:
                raise Closed from error
            if not data:
                raise Closed
            if (only := self.frames.only(data)) is not None:
                return only
        return found[0], bytes(found[1])

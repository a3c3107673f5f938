"""A worker process: runs one guest at a time, and makes the next one while it has nothing to do.

It knows nothing of tools: calls go to the host process and completions come back. It holds no secret, no descriptor
but its socket, its output file, the image and its own memory map, and no environment; `hardening` shuts it in. The host
ends a run that will not stop by killing it.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterable
from typing import Any

from go_ent.sandbox.hardening.wall import Wall, tell
from go_ent.sandbox.worker import wire
from go_ent.sandbox.worker.end import End, Stop
from go_ent.sandbox.worker.machine import Guest, Machine
from go_ent.sandbox.worker.seam import SEED_BYTES, Seam, TapedSeam


class SocketPort:
    """A running guest's imports, carried over the socket."""

    def __init__(self, channel: wire.Channel, guest: Guest, output: int, order: dict[str, Any]) -> None:
        self.channel = channel
        self.guest = guest
        self.output = output
        self.room = wire.OutputRoom(order["stdout"])
        self.message_room: int = order["message_room"]
        self.may_keep: bool = order["keep"]

    def exchange(self, message: bytes) -> bytes:
        wait, body = wire.split_exchange(message, self.message_room)
        seam = self.guest.seam
        if isinstance(seam, TapedSeam):
            return seam.cross(wait, body, self._send_heard, self._receive)
        if body:
            self.channel.send(wire.EXCHANGE, body)
        completion = self._receive(wait)
        return seam.deliver(b"[%b]" % completion if completion else b"")

    def _send_heard(self, heard: bytes, body: bytes) -> None:
        self.channel.send(wire.EXCHANGE, b"%b\n%b" % (heard, body))

    def _receive(self, wait: float | None) -> bytes | None:
        deadline = None if wait is None else time.monotonic() + wait
        while True:
            found = self.channel.receive(None if deadline is None else deadline - time.monotonic())
            if found is None:
                return None
            kind, payload = found
            if kind == wire.STOP:
                raise Stop(payload.decode())
            if kind == wire.COMPLETION:
                return payload

    def write(self, text: bytes) -> None:
        if text := self.room.fit(text):
            os.write(self.output, text)

    def keep(self, code: bytes) -> None:
        if self.may_keep:
            self.may_keep = False
            self.channel.send(wire.KEEP, code)


class Worker:
    def __init__(self, machine: Machine, sock: socket.socket, output: int, ready: Guest | None) -> None:
        self.machine = machine
        self.channel = wire.Channel(sock)
        self.output = output
        self.ready = ready
        self.kept: Guest | None = None  # a session's guest

    def serve(self, walls: Iterable[Wall]) -> None:
        self.channel.send(wire.HELLO, b"%d %b" % (os.getpid(), tell(walls)))
        while True:
            self._prepare()
            found = self.channel.receive()
            assert found is not None
            kind, payload = found
            if kind == wire.RUN:
                self._run(payload)
            # A STOP that crossed the end of its run is late: there is nothing left to stop.

    def _prepare(self) -> None:
        """Make the next guest, unless there is something to do at once."""
        if self.kept is not None or (self.ready is not None and self.ready.touched):
            return
        if self.ready is None and not self.channel.waiting():
            self.ready = self.machine.guest()
        if self.ready is not None and not self.channel.waiting():
            self.ready.touch()
            self.channel.send(wire.READY)

    def _run(self, payload: bytes) -> None:
        seed, size = payload[:SEED_BYTES], SEED_BYTES + 4 + int.from_bytes(payload[SEED_BYTES : SEED_BYTES + 4], "big")
        order = wire.decode_order(payload[SEED_BYTES + 4 : size])
        if self.kept is not None and not order["again"]:
            self.kept.close()  # a session that its host has given up
            self.kept = None
        guest = self.kept or self.ready or self.machine.guest()
        self.ready = self.kept = None
        if order["taped"]:
            taped, size = wire.decode_taped(payload, size)
            guest.touch()  # always from the same heap
            guest.seam = TapedSeam(seed, taped)
        elif not order["again"]:
            guest.seam = Seam(seed)
        port = SocketPort(self.channel, guest, self.output, order)
        started = time.thread_time_ns()
        end = guest.run(payload[size:], port, memory_bytes=order["memory"], fuel=order["fuel"])
        cpu = time.thread_time_ns() - started
        if end.answer is not None and len(end.answer) > order["answer_room"]:
            end = End(reason="protocol")
        fuel = 0 if order["fuel"] is None else order["fuel"] - guest.fuel_left()
        text = (end.reason or end.trap or "").encode()
        kind = 1 if end.reason is not None else 2 if end.trap is not None else 0
        self.channel.send(
            wire.DONE,
            wire.DONE_HEAD.pack(kind, cpu, guest.memory_size(), fuel)
            + (end.answer if end.answer is not None else text),
        )
        if order["session"] and end.answer is not None:
            self.kept = guest
        else:
            guest.close()

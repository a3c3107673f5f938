"""A worker process: runs one guest at a time, and has it ready for the next run before that comes.

It knows nothing of tools: calls go to the host process and completions come back. It holds no secret, no environment,
and no descriptor but its socket, its output file, the image, its own memory map and the list of its pages; `hardening`
shuts it in. The host ends a run that will not stop by killing it.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterable
from typing import Any

from go_ent.sandbox.hardening.seccomp import Doors
from go_ent.sandbox.hardening.wall import MOST_SAID, Wall, tell
from go_ent.sandbox.worker import wire
from go_ent.sandbox.worker.comparison import Comparison
from go_ent.sandbox.worker.end import End, Stop
from go_ent.sandbox.worker.machine import Guest, Machine
from go_ent.sandbox.worker.memory import own_map
from go_ent.sandbox.worker.seam import SEED_BYTES, Seam, TapedSeam
from go_ent.sandbox.worker.snapshot import faults

IDLE_S = 10.0


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
    """Runs one guest after the other.

    One with a snapshot goes back to it after each run; one that can't (it trapped, was stopped, has grown or was a
    session's) is the worker's last, and the host has another forked: replacements start from the same state too.
    Where there are no snapshots each guest is used once, and the next one is made while there is nothing to do.
    """

    channel: wire.Channel
    output: int

    def __init__(self, machine: Machine, ready: Guest, remade: str = "", comparison: Comparison | None = None) -> None:
        """*remade* says why its guests are not reset, if they are not."""
        self.machine = machine
        self.ready: Guest | None = ready
        self.kept: Guest | None = None  # a session's guest
        self.remade = remade
        self.comparison = comparison

    def connect(self, sock: socket.socket, output: int) -> None:
        self.channel = wire.Channel(sock)
        self.output = output

    def open_doors(self) -> Doors:
        """What has to be opened before the walls are up, for the filter to let through."""
        snapshot = None if self.ready is None else self.ready.snapshot
        pages = None
        if snapshot is not None:
            pages = snapshot.open()
            snapshot.warm_up()
        return Doors(socket=self.channel.sock.fileno(), write=self.output, maps=own_map.open(), pages=pages)

    def serve(self, walls: Iterable[Wall]) -> None:
        self.channel.send(wire.HELLO, b"%d %b\n%b" % (os.getpid(), tell(walls), self.remade[:MOST_SAID].encode()))
        while True:
            kind, payload = self._receive()
            if kind == wire.RUN:
                self._run(payload)
            # A STOP that crossed the end of its run is late: there is nothing left to stop.

    def _receive(self) -> tuple[int, bytes]:
        """The next message. Meanwhile the next guest is made, or what an idle one holds is given back."""
        if self.ready is None and self.kept is None and not self.channel.waiting():
            self.ready = self.machine.guest()
            self.channel.send(wire.READY)
        idle = None if self.ready is None or self.ready.snapshot is None else IDLE_S
        message = self.channel.receive(idle)
        if message is None:
            assert self.ready is not None
            assert self.ready.snapshot is not None
            self.ready.snapshot.give_back()
            message = self.channel.receive()
        assert message is not None
        return message

    def _begin(self, payload: bytes) -> tuple[Guest, dict[str, Any], bytes]:
        """The guest of a run, what it may use, and what it is asked."""
        seed, size = payload[:SEED_BYTES], SEED_BYTES + 4 + int.from_bytes(payload[SEED_BYTES : SEED_BYTES + 4], "big")
        order = wire.decode_order(payload[SEED_BYTES + 4 : size])
        if order["again"] != (self.kept is not None):
            raise wire.Closed("a session's run outside of its session, or another run in it")
        guest = self.kept or self.ready or self.machine.guest()
        self.ready = self.kept = None
        if order["taped"]:
            taped, size = wire.decode_taped(payload, size)
            guest.seam = TapedSeam(seed, taped)
        elif not order["again"]:
            guest.seam = Seam(seed)
        return guest, order, payload[size:]

    def _run(self, payload: bytes) -> None:
        guest, order, request = self._begin(payload)
        port = SocketPort(self.channel, guest, self.output, order)
        faults_before, started = faults(), time.thread_time_ns()
        end = guest.run(request, port, memory_bytes=order["memory"], fuel=order["fuel"])
        cpu, unmoved = time.thread_time_ns() - started, faults() == faults_before
        memory = guest.meter.size()
        fuel = 0 if order["fuel"] is None else order["fuel"] - guest.fuel_left()
        answered = end.answer is not None
        if end.answer is not None and len(end.answer) > order["answer_room"]:
            end = End(reason="protocol")
        keeps = order["session"] and answered
        again = _again(guest, keeps=keeps, answered=answered, memory=memory, unmoved=unmoved)
        if self.comparison is not None and again and not keeps and guest.snapshot is not None:
            guest.snapshot.restore(unmoved=unmoved)
            if difference := self.comparison.difference():
                end = End(trap=f"not as it was before the run: {difference}")
        self.channel.send(wire.DONE, wire.encode_done(end, cpu, memory, fuel, again))
        if keeps:
            self.kept = guest
        elif guest.snapshot is None:
            guest.close()
        elif again:
            guest.snapshot.restore(unmoved=unmoved)
            self.ready = guest
            if again == wire.SOON:
                self.channel.send(wire.READY)
        else:
            raise wire.Closed("this guest was the last")


def _again(guest: Guest, *, keeps: bool, answered: bool, memory: int, unmoved: bool) -> int:
    """Whether the worker can run another, and if it has to be waited for. A guest whose run took no page fault is reset
    before the next run can come; a session's needs no reset.
    """
    if keeps:
        return wire.AT_ONCE
    if guest.snapshot is None:
        return wire.SOON
    if not answered or guest.snapshot.size != memory:
        return wire.NO_MORE
    return wire.AT_ONCE if unmoved else wire.SOON

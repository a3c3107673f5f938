"""The zygote: a process that has loaded the image once and forks a worker in milliseconds.

So a worker can be killed at any moment, and workers can be as many as there are runs under way. The zygote runs no
guest code but the image's own. It ends when its host does, and its workers end with it.
"""

from __future__ import annotations

import array
import gc
import os
import signal
import socket
import threading
from collections.abc import Collection, Mapping
from typing import Any

from go_ent.sandbox.hardening.kernel import prctl
from go_ent.sandbox.hardening.seccomp import Doors
from go_ent.sandbox.hardening.wall import Wall
from go_ent.sandbox.hardening.walls import around_code, around_process, around_thread
from go_ent.sandbox.worker import wire
from go_ent.sandbox.worker.comparison import Comparison
from go_ent.sandbox.worker.machine import THREAD_STACK_BYTES, Machine
from go_ent.sandbox.worker.orders import Orders
from go_ent.sandbox.worker.snapshot import Unsupported
from go_ent.sandbox.worker.worker import Worker

PR_SET_PDEATHSIG = 1


def main(control_fd: int, orders: Mapping[str, Any]) -> None:
    """Until the host is gone. Then at once: an interpreter that cleans up would write to pages that are sealed."""
    try:
        _breed(socket.socket(fileno=control_fd), Orders(**orders))
    finally:
        os._exit(0)


def _breed(control: socket.socket, orders: Orders) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps the workers
    try:
        worker = _first_worker(orders)
    except Exception as error:
        control.sendall(wire.frame(wire.FAILED, f"{type(error).__name__}: {error}".encode()))
        return
    raised = around_code(orders.walls)
    control.sendall(wire.frame(wire.READY))
    gc.freeze()  # all that there is stays; no collection is to look at it, and none has since it was started
    gc.enable()
    while True:
        try:
            message, ancillary, _, _ = control.recvmsg(1, socket.CMSG_SPACE(2 * 4))
        except OSError:
            return
        if not message:
            return
        fds = array.array("i")
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
        if len(fds) == 2 and _fork() == 0:
            control.close()
            worker.connect(socket.socket(fileno=fds[0]), fds[1])
            become_worker(worker, orders.walls, raised)
        for fd in fds:
            os.close(fd)


def _fork() -> int:
    """A worker that can't be forked is one worker less: its host finds the socket closed."""
    try:
        return os.fork()
    except OSError:
        return -1


def _first_worker(orders: Orders) -> Worker:
    """A worker before its process is there: each fork has a copy of its guest, ready for a run."""
    machine = Machine(orders.artefact, fuel=orders.fuel)
    guest, remade, comparison = machine.guest(), orders.remade, None
    if not remade:
        try:
            guest.take_snapshot()
        except Unsupported as error:
            remade = str(error)
    if orders.compare and guest.snapshot is not None:
        comparison = Comparison(guest.snapshot, orders.compare)
    return Worker(machine, guest, remade, comparison)


def become_worker(worker: Worker, wanted: Collection[str], raised: list[Wall]) -> None:
    """In a process that was just forked: serve, with all the walls up before the first word from outside is heard."""
    try:
        zygote = os.getppid()
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != zygote:
            os._exit(0)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        doors = worker.open_doors()
        raised = raised + around_thread(wanted)
        threading.stack_size(THREAD_STACK_BYTES)
        serving = threading.Thread(target=_serve, args=(worker, doors, wanted, raised))
        serving.start()
        serving.join()
    finally:
        os._exit(1)


def _serve(worker: Worker, doors: Doors, wanted: Collection[str], raised: list[Wall]) -> None:
    status = 1
    try:
        worker.serve(raised + around_process(doors, wire.MAX_OUTPUT, wanted))
    except wire.Closed:
        status = 0
    finally:
        os._exit(status)

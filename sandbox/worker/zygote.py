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
from collections.abc import Collection

from go_ent.sandbox.hardening.kernel import prctl
from go_ent.sandbox.hardening.seccomp import Doors
from go_ent.sandbox.hardening.wall import WALLS, Wall
from go_ent.sandbox.hardening.walls import around_code, around_process, around_thread
from go_ent.sandbox.worker import wire
from go_ent.sandbox.worker.machine import THREAD_STACK_BYTES, Guest, Machine
from go_ent.sandbox.worker.memory import own_map
from go_ent.sandbox.worker.worker import Worker

PR_SET_PDEATHSIG = 1


def main(control_fd: int, artefact: str, fuel: bool, wanted: Collection[str] = WALLS) -> None:
    """Until the host is gone. Then at once: an interpreter that cleans up would write to pages that are sealed."""
    try:
        _breed(socket.socket(fileno=control_fd), artefact, fuel, wanted)
    finally:
        os._exit(0)


def _breed(control: socket.socket, artefact: str, fuel: bool, wanted: Collection[str]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps the workers
    try:
        machine = Machine(artefact, fuel=fuel)
        template = machine.guest()
        template.touch()
        needless = _wake(machine)
    except Exception as error:
        control.sendall(wire.frame(wire.FAILED, f"{type(error).__name__}: {error}".encode()))
        return
    raised = around_code(wanted)
    control.sendall(wire.frame(wire.READY))
    gc.collect()
    gc.freeze()
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
            for fd in needless:
                os.close(fd)
            become_worker(control, machine, template, fds[0], fds[1], wanted, raised)
        for fd in fds:
            os.close(fd)


def _fork() -> int:
    """A worker that can't be forked is one worker less: its host finds the socket closed."""
    try:
        return os.fork()
    except OSError:
        return -1


def _wake(machine: Machine) -> set[int]:
    """Have WASI make here, once, what it needs for guests that write to descriptors; and which descriptors it has for
    that.

    Its threads stay here, and their descriptors are no use to a worker: what is written is dropped at once.
    """
    before = _descriptors()
    os.environ["TOKIO_WORKER_THREADS"] = "1"
    guest = machine.guest()
    guest.wake()
    guest.close()
    del os.environ["TOKIO_WORKER_THREADS"]
    return _descriptors() - before


def _descriptors() -> set[int]:
    names = os.listdir("/proc/self/fd")  # which has one open itself for as long as it looks
    return {int(name) for name in names if os.path.exists(f"/proc/self/fd/{name}")}


def become_worker(
    control: socket.socket,
    machine: Machine,
    template: Guest,
    sock_fd: int,
    output: int,
    wanted: Collection[str],
    raised: list[Wall],
) -> None:
    """In a process that was just forked: serve, with all the walls up before the first word from outside is heard."""
    try:
        zygote = os.getppid()
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != zygote:
            os._exit(0)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        control.close()
        worker = Worker(machine, socket.socket(fileno=sock_fd), output, template)
        doors = Doors(socket=sock_fd, write=output, maps=own_map.open())
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

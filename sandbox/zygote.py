"""The zygote: a process that has loaded the image once and forks a worker in milliseconds.

So a worker can be killed at any moment, and workers can be as many as there are runs under way. The zygote runs no
guest code but the image's own. It ends when its host does, and its workers end with it.
"""

from __future__ import annotations

import array
import ctypes
import gc
import os
import signal
import socket
import threading

from sandbox import wire
from sandbox.machine import THREAD_STACK_BYTES, Guest, Machine
from sandbox.worker import Worker

PR_SET_PDEATHSIG = 1
PR_SET_NO_NEW_PRIVS = 38


def main(control_fd: int, artefact: str, fuel: bool) -> None:
    control = socket.socket(fileno=control_fd)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps the workers
    try:
        machine = Machine(artefact, fuel=fuel)
        template = machine.guest()
        template.touch()
    except Exception as error:
        control.sendall(wire.frame(wire.FAILED, f"{type(error).__name__}: {error}".encode()))
        return
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
        if len(fds) == 2 and os.fork() == 0:
            _become_worker(control, machine, template, fds[0], fds[1])
        for fd in fds:
            os.close(fd)


def _become_worker(control: socket.socket, machine: Machine, template: Guest, sock_fd: int, output: int) -> None:
    try:
        zygote = os.getppid()
        libc = ctypes.CDLL(None, use_errno=True)
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        if os.getppid() != zygote:
            os._exit(0)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        control.close()
        worker = Worker(machine, socket.socket(fileno=sock_fd), output, template)
        threading.stack_size(THREAD_STACK_BYTES)
        serving = threading.Thread(target=_serve, args=(worker,))
        serving.start()
        serving.join()
    finally:
        os._exit(1)


def _serve(worker: Worker) -> None:
    status = 1
    try:
        worker.serve()
    except wire.Closed:
        status = 0
    finally:
        os._exit(status)

"""Workers that were taken over: real ones, by the way every worker comes to be, with hostile native code in a guest's
place.

A guest can't make a system call, so whoever wants to know what the walls hold must start behind WebAssembly's. As a
program it makes every attack that it is asked for, each in a worker of its own, and says how each ended:

    python -m tests.security.taken_over '{"wanted": ["seccomp"], "attacks": ["open a file"]}'
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import mmap
import os
import resource
import shutil
import signal
import socket
import struct
import sys
import tempfile
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

from go_ent.sandbox.hardening.kernel import syscall
from go_ent.sandbox.hardening.syscalls import number
from go_ent.sandbox.hardening.walls import around_code
from go_ent.sandbox.worker import wire
from go_ent.sandbox.worker.end import End
from go_ent.sandbox.worker.machine import Guest, Machine
from go_ent.sandbox.worker.memory import own_map
from go_ent.sandbox.worker.seam import SEED_BYTES
from go_ent.sandbox.worker.worker import Worker
from go_ent.sandbox.worker.zygote import become_worker

PARENT = os.getpid()
ABSTRACT = f"\0taken-over-{PARENT}"
SECRET = ctypes.create_string_buffer(b"the parent's secret")
CWD = -100
PAGE = mmap.PAGESIZE
THREAD = 0x00010000 | 0x800 | 0x100  # CLONE_THREAD, with what it needs
X86 = os.uname().machine == "x86_64"


def call(name: str, *arguments: Any) -> int:
    found = number(name)
    if found is None:
        raise OSError(errno.ENOSYS, "no call of its own here")
    return syscall(found, *arguments)


class Scene:
    """What there is to attack. Made by `main`: the tests that import this module only need the names of the attacks."""

    folder: str
    victim: str
    address: tuple[str, int]
    output: int
    socket: int
    maps: int


def anonymous(protection: int, flags: int = mmap.MAP_PRIVATE) -> int:
    return call("mmap", 0, PAGE, protection, flags | mmap.MAP_ANONYMOUS, 2**64 - 1, 0)


def exec_from_memory() -> None:
    code = os.memfd_create("code")
    with open("/bin/true", "rb") as file:
        os.write(code, file.read())
    os.execve(code, ["true"], {})


def connect(family: int, address: Any) -> None:
    with socket.socket(family) as made:
        made.connect(address)


def bind() -> None:
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))


def vm_read() -> None:
    into = ctypes.create_string_buffer(len(SECRET))
    here = struct.pack("@QQ", ctypes.addressof(into), len(into))
    there = struct.pack("@QQ", ctypes.addressof(SECRET), len(into))
    call("process_vm_readv", PARENT, here, 1, there, 1, 0)


def start_a_thread() -> None:
    threading.stack_size(1 << 20)
    threading.Thread(target=lambda: None).start()


def writable_code() -> str:
    return str(sum(b"wx" in line.split()[1] for line in own_map.text().splitlines()))


def grow_file() -> None:
    os.ftruncate(Scene.output, wire.MAX_OUTPUT + 1)


def write_past() -> None:
    os.write(Scene.output, b"x")  # whoever made the worker has moved the file's position to its end


def set_limit(pid: int, value: int) -> None:
    syscall(302 if X86 else 261, pid, resource.RLIMIT_NOFILE, struct.pack("@QQ", value, value), 0)


def foreign_call() -> int:
    return syscall(0x40000000 | 39) if X86 else call("execve", None, None, None)


def take_memory() -> None:
    """More than a guest may ever have. Nothing of it is touched."""
    for _ in range(9):
        call(
            "mmap",
            0,
            1 << 30,
            mmap.PROT_READ | mmap.PROT_WRITE,
            mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000,
            2**64 - 1,
            0,
        )


ATTACKS: dict[str, Callable[[], object]] = {
    # files
    "open a file": lambda: os.open("/etc/passwd", os.O_RDONLY),
    "list a folder": lambda: os.listdir("/"),
    "read the environment in /proc": lambda: os.open("/proc/self/environ", os.O_RDONLY),
    "open a device": lambda: os.open("/dev/zero", os.O_RDWR),
    "make a file": lambda: os.open(os.path.join(Scene.folder, "made"), os.O_WRONLY | os.O_CREAT),
    "make a folder": lambda: os.mkdir(os.path.join(Scene.folder, "folder")),
    "remove a file": lambda: os.unlink(Scene.victim),
    "cut a file": lambda: os.truncate(Scene.victim, 0),
    "rename a file": lambda: os.rename(Scene.victim, Scene.victim + "2"),
    "open a file by its handle": lambda: call("open_by_handle_at", CWD % 2**64, bytes(64), 0),
    "read what it has for another end": lambda: os.read(Scene.maps, 1),
    "write where it was not told to": lambda: os.write(2, b"x"),
    "duplicate a descriptor": lambda: os.dup(Scene.output),
    "write past the output's end": write_past,
    "grow the output file": grow_file,
    # programs and processes
    "start a program": lambda: os.execve("/bin/true", ["true"], {}),
    "start a program from memory": exec_from_memory,
    "fork": os.fork,
    "vfork": lambda: call("vfork"),
    "start a thread": start_a_thread,
    "clone a thread": lambda: call("clone", THREAD, 0, 0, 0, 0),
    "clone in the new way": lambda: call("clone3", bytes(88), 88),
    # others
    "trace the parent": lambda: call("ptrace", 0x4206, PARENT, 0, 0),
    "read the parent's memory": vm_read,
    "signal the parent": lambda: call("kill", PARENT, int(signal.SIGCONT)),
    "signal a thread of the parent": lambda: call("tgkill", PARENT, PARENT, int(signal.SIGCONT)),
    "hold the parent": lambda: os.pidfd_open(PARENT),
    "limit the parent": lambda: set_limit(PARENT, 500),
    # the network
    "make a socket": lambda: socket.socket(),
    "connect to loopback": lambda: connect(socket.AF_INET, Scene.address),
    "listen on loopback": bind,
    "connect to an abstract socket": lambda: connect(socket.AF_UNIX, ABSTRACT),
    "pass a descriptor on": lambda: call("sendmsg", Scene.socket, bytes(56), 0),
    "send out of band": lambda: call("sendto", Scene.socket, b"x", 1, int(socket.MSG_OOB), 0, 0),
    "send to an address": lambda: call("sendto", Scene.socket, b"x", 1, 0, b"\x01\x00/x\0", 5),
    # code of its own
    "map a page to execute": lambda: anonymous(mmap.PROT_READ | mmap.PROT_EXEC),
    "make a page executable": lambda: call(
        "mprotect", anonymous(mmap.PROT_WRITE), PAGE, mmap.PROT_READ | mmap.PROT_EXEC
    ),
    "make a page executable by a key": lambda: call(
        "pkey_mprotect", anonymous(mmap.PROT_WRITE), PAGE, mmap.PROT_EXEC, 2**64 - 1
    ),
    "map a file to execute": lambda: call(
        "mmap", 0, PAGE, mmap.PROT_READ | mmap.PROT_EXEC, mmap.MAP_PRIVATE, Scene.output, 0
    ),
    "share memory": lambda: anonymous(mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED),
    "find a page to write code to": writable_code,
    "have all that is readable be executable": lambda: call("personality", 0x0400000),
    # the kernel's further rooms
    "leave the namespaces": lambda: call("unshare", 0x00020000),
    "mount": lambda: call("mount", b"none\0", b"/\0", b"tmpfs\0", 0, 0),
    "change the root": lambda: call("chroot", b"/\0"),
    "set up a ring": lambda: call("io_uring_setup", 1, bytes(120)),
    "load a program into the kernel": lambda: call("bpf", 0, bytes(120), 120),
    "read performance counters": lambda: call("perf_event_open", bytes(128), 0, 2**64 - 1, 2**64 - 1, 0),
    "ask for keys": lambda: call("keyctl", 0, 2**64 - 3, 0),
    "handle page faults": lambda: call("userfaultfd", 0),
    "become another user": lambda: call("setuid", 12345),
    "take capabilities": lambda: call("capset", struct.pack("@Ii", 0x20080522, 0), b"\xff" * 24),
    "hand down a priority": lambda: call("futex", ctypes.addressof(SECRET), 6, 0, 0, 0, 0),
    "speak to a device": lambda: fcntl.ioctl(0, 0x5412, b"x"),
    "call by another convention": foreign_call,
    "call what is newer than the list": lambda: syscall(500),
    "wait with a descriptor of the kernel's": lambda: os.eventfd(0),
    # the walls themselves
    "raise its limits": lambda: set_limit(0, 1000),
    "take more memory than any guest": take_memory,
    "set a filter of its own": lambda: call("seccomp", 1, 0, bytes(16)),
    "lock memory": lambda: syscall(149 if X86 else 228, anonymous(mmap.PROT_READ), PAGE),
    "go before others": lambda: os.setpriority(os.PRIO_PROCESS, 0, -5),
    # and what goes wrong by itself
    "fault": lambda: ctypes.string_at(0),
    "abort": lambda: ctypes.CDLL(None).abort(),
}
RUN_ORDER = {
    "memory": None,
    "fuel": None,
    "stdout": 10,
    "keep": False,
    "session": False,
    "again": False,
    "taped": False,
}
RUN_ORDER |= {"message_room": 1 << 20, "answer_room": 1 << 20}


class TakenOver:
    """Stands where a guest would; makes the attack that the run's request names."""

    seam: Any = None
    snapshot = None
    meter = SimpleNamespace(size=lambda: 0)

    def run(self, request: bytes, port: object, *, memory_bytes: int | None, fuel: int | None = None) -> End:
        try:
            return End(answer=f"done: {ATTACKS[request.decode()]()}".encode())
        except OSError as error:
            return End(answer=errno.errorcode.get(error.errno or 0, "?").encode())
        except RuntimeError as error:
            return End(answer=str(error).encode())

    def close(self) -> None:
        pass


class Maker:
    """Stands where the machine would, and makes no better guests."""

    def guest(self) -> TakenOver:
        return TakenOver()


def attempt(name: str, wanted: list[str]) -> str:
    """How the attack ended: what it said, the error's name, or the signal that ended the worker."""
    ours, theirs = socket.socketpair()
    os.lseek(Scene.output, wire.MAX_OUTPUT if name == "write past the output's end" else 0, os.SEEK_SET)
    Scene.socket = theirs.fileno()
    pid = os.fork()
    if pid == 0:
        ours.close()
        Scene.maps = own_map.open()
        worker = Worker(cast(Machine, Maker()), cast(Guest, TakenOver()))
        worker.connect(theirs, Scene.output)
        become_worker(worker, wanted, [])
    theirs.close()
    channel = wire.Channel(ours)
    channel.send(wire.RUN, wire.encode_run(bytes(SEED_BYTES), json.dumps(RUN_ORDER).encode()) + name.encode())
    answer = ""
    try:
        while not answer:
            found = channel.receive(20.0)
            if found is None:
                answer = "no answer"
            elif found[0] == wire.DONE:
                end = wire.decode_done(found[1])[0]
                answer = (end.answer or b"").decode() or str(end)
    except wire.Closed:
        _, status = os.waitpid(pid, 0)
        dumped = " and its memory was dumped" if os.WCOREDUMP(status) else ""
        return (
            signal.Signals(os.WTERMSIG(status)).name
            if os.WIFSIGNALED(status)
            else f"left with {os.WEXITSTATUS(status)}"
        ) + dumped
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return answer


def main() -> None:
    order = json.loads(sys.argv[1])
    here = Scene.folder = tempfile.mkdtemp(prefix="taken-over-")
    Scene.victim = os.path.join(here, "victim")
    Scene.output = os.memfd_create("output")
    listening, abstract = socket.create_server(("127.0.0.1", 0)), socket.socket(socket.AF_UNIX)
    Scene.address = listening.getsockname()
    abstract.bind(ABSTRACT)
    abstract.listen()
    os.chdir("/")
    around_code(order["wanted"])
    found = {}
    for name in order["attacks"]:
        with open(Scene.victim, "w") as file:
            file.write("precious")
        found[name] = attempt(name, order["wanted"])
    left = sorted(os.listdir(Scene.folder)), os.path.getsize(Scene.victim)
    shutil.rmtree(Scene.folder)
    print(json.dumps({"found": found, "left": left}), flush=True)
    os._exit(0)  # the pages of its callbacks are sealed: they can't be given up


if __name__ == "__main__":
    main()

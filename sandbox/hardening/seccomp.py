"""Seccomp: the few system calls that a process needs once it is set up, and none besides.

A program for the kernel's filter, made for one process: which descriptors it may use, and who it is. Whatever is not on
the list is refused (EPERM), so that a library that only asks goes on without. What no library would ask for here, but
somebody who has taken the process over would, ends it: a worker that tries is not given another guest.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from typing import Final

from go_ent.dataclass import dataclass
from go_ent.sandbox.hardening.kernel import syscall
from go_ent.sandbox.hardening.syscalls import ARCHITECTURES, AUDIT, NEWEST, X32, number

# seccomp(2)
SET_MODE_FILTER = 1
TSYNC = 1  # for all threads of the process
SPEC_ALLOW = (
    4  # older kernels would slow a filtered process down; it holds no secret of others that a guest could guess at
)
ALLOW: Final = 0x7FFF0000
KILL: Final = 0x80000000  # the whole process
EPERM: Final = 0x00050000 | errno.EPERM
ENOSYS: Final = 0x00050000 | errno.ENOSYS

# Classic BPF
LOAD, AND, RETURN = 0x20, 0x54, 0x06
EQUAL, AT_LEAST, ABOVE, ANY_BIT = 0x15, 0x35, 0x25, 0x45
NUMBER_AT, ARCHITECTURE_AT, ARGUMENTS_AT = 0, 4, 16

Instruction = tuple[int, int, int, int]  # code, how many to skip if it holds, and if not, a number
_INSTRUCTION = struct.Struct("@HBBI")

WRITE_ONLY_DATA = 0xFFFFFFFF & ~0b11  # of a protection: anything but reading and writing
SHARED = 0x01
CLONE_THREAD = 0x00010000
PROCMAP_QUERY = 0xC0686611  # one mapping of this process, of the descriptor it has open for that
PAGEMAP_SCAN = 0xC0606610  # which of its pages it has written to, of another such descriptor
FUTEX_FLAGS = 0x180
FUTEXES = (0, 1, 3, 4, 5, 9, 10)  # waiting and waking; those that hand down priorities have had holes
ADVICE = (4, 8, 23)  # give pages back, have them there before they are needed

FREELY = (
    "munmap mremap brk clock_gettime clock_getres clock_nanosleep nanosleep gettimeofday getrandom getrusage getpid "
    "gettid poll ppoll sched_yield "
    "sched_getaffinity membarrier restart_syscall rt_sigreturn rt_sigprocmask rt_sigaction sigaltstack exit exit_group"
).split()
"""Memory, time, waiting, its own signals (a guest's fault is one), and the end. None of them reaches outside."""

NEVER = (
    "execve execveat fork vfork "  # programs, processes
    "ptrace process_vm_readv process_vm_writev process_madvise kcmp pidfd_open pidfd_getfd "  # the memory of others
    "kill tkill rt_sigqueueinfo rt_tgsigqueueinfo pidfd_send_signal "  # their lives
    # the network, descriptors of others
    "socket socketpair connect bind listen accept accept4 sendmsg sendmmsg recvmsg recvmmsg "
    # ways to code of one's own
    "memfd_create memfd_secret pkey_mprotect shmat remap_file_pages personality modify_ldt "
    # where holes were
    "bpf perf_event_open userfaultfd io_uring_setup io_uring_enter io_uring_register keyctl add_key request_key "
    "mount umount2 move_mount open_tree mount_setattr fsopen fsconfig fsmount fspick pivot_root chroot unshare setns "
    "open_by_handle_at init_module finit_module delete_module kexec_load kexec_file_load reboot swapon acct "
    "ioperm iopl clock_settime "
    "setuid setgid setreuid setregid setresuid setresgid setgroups capset "
    "seccomp landlock_create_ruleset landlock_add_rule landlock_restrict_self"
).split()


@dataclass(frozen=True, slots=True)
class Doors:
    """The descriptors that a process goes on with: for each call, those it is allowed on."""

    socket: int | None = None
    read: int | None = None
    write: int | None = None
    maps: int | None = None
    pages: int | None = None


def program(doors: Doors, pid: int, machine: str) -> list[Instruction]:
    """The filter of the process *pid*, for the numbers of *machine*."""
    rules = _Rules(machine)
    rules.when("mprotect", [(2, ANY_BIT, WRITE_ONLY_DATA, False)], otherwise=KILL)
    rules.when("mmap", [(2, ANY_BIT, WRITE_ONLY_DATA, False), (3, ANY_BIT, SHARED, False)], otherwise=KILL)
    if doors.pages is not None:
        rules.when("ioctl", [(0, EQUAL, doors.pages, True), (1, EQUAL, PAGEMAP_SCAN, True)], otherwise=None)
    if doors.maps is not None:
        rules.when("ioctl", [(0, EQUAL, doors.maps, True), (1, EQUAL, PROCMAP_QUERY, True)])
        rules.when("pread64", [(0, EQUAL, doors.maps, True)])
    rules.when_one_of("futex", 1, FUTEX_FLAGS, FUTEXES)
    if doors.socket is not None:  # without flags and addresses: its one peer, in order
        rules.when("recvfrom", [(0, EQUAL, doors.socket, True), (3, EQUAL, 0, True)])
        rules.when("sendto", [(0, EQUAL, doors.socket, True), (3, EQUAL, 0, True), (5, EQUAL, 0, True)])
    if doors.read is not None:
        rules.when("read", [(0, EQUAL, doors.read, True)])
    if doors.write is not None:
        rules.when("write", [(0, EQUAL, doors.write, True)])
    rules.when_one_of("madvise", 2, 0, ADVICE)
    rules.when("tgkill", [(0, EQUAL, pid, True)], otherwise=KILL)  # how a program that finds itself broken ends
    rules.when("clone", [(0, ANY_BIT, CLONE_THREAD, True)], then=EPERM, otherwise=KILL)  # no thread either
    rules.all_of(FREELY, ALLOW)
    rules.all_of(["clone3"], ENOSYS)  # what it asks for can't be seen here; then `clone` is asked
    rules.all_of(NEVER, KILL)
    return [*rules.made, (ABOVE, 0, 1, NEWEST), (RETURN, 0, 0, ENOSYS), (RETURN, 0, 0, EPERM)]


class _Rules:
    """Puts a filter together. Each rule either answers or leaves the call's number where the next one looks for it."""

    def __init__(self, machine: str) -> None:
        self._machine = machine
        self.made: list[Instruction] = [
            (LOAD, 0, 0, ARCHITECTURE_AT),
            (EQUAL, 1, 0, AUDIT[machine]),
            (RETURN, 0, 0, KILL),
            (LOAD, 0, 0, NUMBER_AT),
        ]
        if machine == "x86_64":
            self.made += [(AT_LEAST, 0, 1, X32), (RETURN, 0, 0, KILL)]

    def when(
        self, name: str, checks: list[tuple[int, int, int, bool]], *, then: int = ALLOW, otherwise: int | None = EPERM
    ) -> None:
        """*then* for the call, if for each (argument, comparison, value, outcome) that is the outcome; *otherwise* if
        not, or what a later rule says (None).

        All of what is compared is 32 bits wide to the kernel too, or means something in its lower half alone.
        """
        body: list[Instruction] = []
        for left, (argument, comparison, value, outcome) in zip(range(len(checks) - 1, -1, -1), checks, strict=True):
            to_the_end = 2 * left + 1
            body.append((LOAD, 0, 0, ARGUMENTS_AT + 8 * argument))
            body.append((comparison, 0, to_the_end, value) if outcome else (comparison, to_the_end, 0, value))
        last = (LOAD, 0, 0, NUMBER_AT) if otherwise is None else (RETURN, 0, 0, otherwise)
        self._rule(name, [*body, (RETURN, 0, 0, then), last])

    def when_one_of(self, name: str, argument: int, ignored: int, values: tuple[int, ...]) -> None:
        """Allow the call if its argument, but for the bits that are ignored, is one of the values."""
        body: list[Instruction] = [(LOAD, 0, 0, ARGUMENTS_AT + 8 * argument), (AND, 0, 0, 0xFFFFFFFF & ~ignored)]
        body += [(EQUAL, len(values) - at, 0, value) for at, value in enumerate(values)]
        self._rule(name, [*body, (RETURN, 0, 0, EPERM), (RETURN, 0, 0, ALLOW)])

    def _rule(self, name: str, body: list[Instruction]) -> None:
        wanted = number(name, self._machine)
        if wanted is not None:
            self.made += [(EQUAL, 0, len(body), wanted), *body]

    def all_of(self, names: list[str], answer: int) -> None:
        wanted = [found for name in names if (found := number(name, self._machine)) is not None]
        for at, one in enumerate(wanted, 1):
            last = at == len(wanted)
            self.made.append((EQUAL, len(wanted) - at, 1 if last else 0, one))
        self.made.append((RETURN, 0, 0, answer))


def filter_calls(doors: Doors) -> None:
    """Hold every thread of this process to the list, for good. It needs `no_new_privileges`."""
    machine = platform.machine()
    if machine not in ARCHITECTURES:
        raise OSError(errno.ENOSYS, f"the numbers of {machine} are not known")
    made = program(doors, os.getpid(), machine)
    code = ctypes.create_string_buffer(b"".join(_INSTRUCTION.pack(*one) for one in made))
    order = struct.pack("@HxxxxxxQ", len(made), ctypes.addressof(code))
    call = number("seccomp")
    assert call is not None
    if other := syscall(call, SET_MODE_FILTER, TSYNC | SPEC_ALLOW, order):
        raise OSError(errno.EBUSY, f"thread {other} has a filter of its own")

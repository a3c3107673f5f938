"""The walls around workers: what a worker that was taken over gets done, and what holds when one dies."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import errno
import json
import os
import re
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import psutil
import pytest
from fastmcp import Client

from go_ent.composer import Composer
from go_ent.composer.catalogue.schemas import Checker
from go_ent.engine import Engine
from go_ent.engine.server import make_server
from go_ent.sandbox import Limits, Sandbox, Wall
from go_ent.sandbox.hardening import landlock, seccomp
from go_ent.sandbox.hardening.syscalls import AUDIT, NEWEST, NUMBERS, number
from go_ent.sandbox.hardening.wall import (
    LANDLOCK,
    LIMITS,
    NO_CAPABILITIES,
    NO_NEW_PRIVILEGES,
    SECCOMP,
    WALLS,
    read,
    tell,
)
from go_ent.sandbox.host.flight import Flight
from tests.security.corpus import attack
from tests.security.taken_over import ATTACKS
from tests.support import ROOT
from tests.support.rows import each


def landlock_version() -> int:
    try:
        return landlock.version()
    except OSError:
        return 0


def taken_over(wanted: list[str], attacks: list[str]) -> dict[str, Any]:
    order = json.dumps({"wanted": wanted, "attacks": attacks})
    command = [sys.executable, "-m", "tests.security.taken_over", order]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False, timeout=100)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def behind_all_walls() -> dict[str, Any]:
    return taken_over(list(WALLS), list(ATTACKS))


REFUSED, ENDED = "EPERM", "SIGSYS"
OUTCOMES = {
    "open a file": REFUSED,
    "list a folder": REFUSED,
    "read the environment in /proc": REFUSED,
    "open a device": REFUSED,
    "make a file": REFUSED,
    "make a folder": REFUSED,
    "remove a file": REFUSED,
    "cut a file": REFUSED,
    "rename a file": REFUSED,
    "open a file by its handle": ENDED,
    "read what it has for another end": REFUSED,
    "write where it was not told to": REFUSED,
    "duplicate a descriptor": REFUSED,
    "write past the output's end": "EFBIG",
    "grow the output file": REFUSED,
    "start a program": ENDED,
    "start a program from memory": ENDED,
    "fork": ENDED,
    "vfork": ENDED if number("vfork") is not None else "ENOSYS",
    "start a thread": "can't start new thread",
    "clone a thread": REFUSED,
    "clone in the new way": "ENOSYS",
    "trace the parent": ENDED,
    "read the parent's memory": ENDED,
    "signal the parent": ENDED,
    "signal a thread of the parent": ENDED,
    "hold the parent": ENDED,
    "limit the parent": REFUSED,
    "make a socket": ENDED,
    "connect to loopback": ENDED,
    "listen on loopback": ENDED,
    "connect to an abstract socket": ENDED,
    "pass a descriptor on": ENDED,
    "send out of band": REFUSED,
    "send to an address": REFUSED,
    "map a page to execute": ENDED,
    "make a page executable": ENDED,
    "make a page executable by a key": ENDED,
    "map a file to execute": ENDED,
    "share memory": ENDED,
    "find a page to write code to": "done: 0",
    "have all that is readable be executable": ENDED,
    "leave the namespaces": ENDED,
    "mount": ENDED,
    "change the root": ENDED,
    "set up a ring": ENDED,
    "load a program into the kernel": ENDED,
    "read performance counters": ENDED,
    "ask for keys": ENDED,
    "handle page faults": ENDED,
    "become another user": ENDED,
    "take capabilities": ENDED,
    "hand down a priority": REFUSED,
    "speak to a device": REFUSED,
    "call by another convention": ENDED,
    "call what is newer than the list": "ENOSYS",
    "wait with a descriptor of the kernel's": REFUSED,
    "raise its limits": REFUSED,
    "take more memory than any guest": "ENOMEM",
    "set a filter of its own": ENDED,
    "lock memory": REFUSED,
    "go before others": REFUSED,
    "fault": "SIGSEGV",
    "abort": "SIGABRT",
}


ACCIDENTS = {"fault", "abort"}


class TestAWorkerThatWasTakenOver:
    @pytest.mark.parametrize(
        ("name", "outcome"),
        [
            pytest.param(*one, marks=[] if one[0] in ACCIDENTS else [attack("worker", one[0])])
            for one in OUTCOMES.items()
        ],
    )
    def test_gets_nothing_done(self, behind_all_walls: dict[str, Any], name: str, outcome: str) -> None:
        assert behind_all_walls["found"][name] == outcome

    def test_leaves_nothing_behind(self, behind_all_walls: dict[str, Any]) -> None:
        assert behind_all_walls["left"] == [["victim"], len("precious")]
        assert OUTCOMES.keys() == ATTACKS.keys()

    @pytest.mark.skipif(landlock_version() < 6, reason="this kernel's landlock knows less, or there is none")
    def test_landlock_holds_alone(self) -> None:
        files = [
            "open a file",
            "list a folder",
            "read the environment in /proc",
            "open a device",
            "make a file",
            "make a folder",
        ]
        files += ["remove a file", "cut a file", "rename a file", "start a program", "start a program from memory"]
        ports = ["connect to loopback", "listen on loopback"]
        others = ["trace the parent", "read the parent's memory", "signal the parent", "connect to an abstract socket"]
        told = taken_over([NO_NEW_PRIVILEGES, LANDLOCK], files + ports + others)
        assert told["found"] == dict.fromkeys(files + ports, "EACCES") | dict.fromkeys(others, "EPERM")
        assert told["left"] == [["victim"], len("precious")]

    def test_limits_hold_alone(self) -> None:
        descriptors = [
            "open a file",
            "list a folder",
            "duplicate a descriptor",
            "make a socket",
            "wait with a descriptor of the kernel's",
        ]
        outcomes = dict.fromkeys(descriptors, "EMFILE") | dict.fromkeys(["raise its limits", "lock memory"], "EPERM")
        outcomes |= dict.fromkeys(["write past the output's end", "grow the output file"], "EFBIG")
        outcomes |= {"take more memory than any guest": "ENOMEM", "go before others": "EACCES", "fault": "SIGSEGV"}
        if os.getuid() != 0:  # root is not counted
            outcomes |= {"fork": "EAGAIN", "start a thread": "can't start new thread"}
        assert taken_over([NO_CAPABILITIES, LIMITS], list(outcomes))["found"] == outcomes

    def test_a_worker_of_root_is_root_in_name_alone(self) -> None:
        attacks = ["leave the namespaces", "mount", "change the root", "become another user", "take capabilities"]
        assert taken_over([NO_CAPABILITIES], attacks)["found"] == dict.fromkeys(attacks, "EPERM")


@pytest.fixture(scope="module")
def real() -> Iterator[Sandbox]:
    with Sandbox(limits=Limits(timeout_s=20)) as box:
        assert box.run_sync("1").result == 1
        yield box


class TestARealWorker:
    def workers(self, box: Sandbox) -> list[int]:
        found = [worker.pid for pool in box._pools.values() for worker in pool._all]
        return [pid for pid in found if pid is not None]

    def fields(self, pid: int) -> dict[str, str]:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}

    def test_has_every_wall_that_the_kernel_has(self, real: Sandbox) -> None:
        walls = {wall.name: wall for wall in real.walls}
        assert walls.keys() == set(WALLS)
        missing = set() if landlock_version() else {LANDLOCK}
        assert {name for name, wall in walls.items() if not wall.stands} == missing
        if not missing:
            assert walls[LANDLOCK].said == f"version {landlock_version()}"

    def test_the_kernel_says_the_same(self, real: Sandbox) -> None:
        pids = self.workers(real)
        assert pids
        for pid in pids:
            status = self.fields(pid)
            told = {
                name: status[name]
                for name in ("NoNewPrivs", "Seccomp", "CapEff", "CapPrm", "CapInh", "CapAmb", "Threads")
            }
            none = "0" * 16
            caps = dict.fromkeys(["CapEff", "CapPrm", "CapInh", "CapAmb"], none)
            assert told == caps | {"NoNewPrivs": "1", "Seccomp": "2", "Threads": "2"}
            for task in Path(f"/proc/{pid}/task").iterdir():  # every thread of it
                assert re.search(r"^Seccomp:\t2$", (task / "status").read_text(), re.M)

    def test_its_limits(self, real: Sandbox) -> None:
        wanted = {
            resource.RLIMIT_CORE: 1,
            resource.RLIMIT_NOFILE: 1,
            resource.RLIMIT_FSIZE: 1 << 30,
            resource.RLIMIT_NPROC: 0,
            resource.RLIMIT_DATA: 8 << 30,
            resource.RLIMIT_MEMLOCK: 0,
            resource.RLIMIT_MSGQUEUE: 0,
            resource.RLIMIT_SIGPENDING: 0,
            resource.RLIMIT_NICE: 0,
            resource.RLIMIT_RTPRIO: 0,
        }
        for pid in self.workers(real):
            assert {kind: resource.prlimit(pid, kind) for kind in wanted} == {
                kind: (most, most) for kind, most in wanted.items()
            }
            assert resource.prlimit(pid, resource.RLIMIT_AS) == resource.getrlimit(resource.RLIMIT_AS)

    def test_what_it_has_open(self, real: Sandbox) -> None:
        artefact = str(real.image.artefact("plain"))
        for pid in self.workers(real):
            targets = sorted(os.readlink(one) for one in Path(f"/proc/{pid}/fd").iterdir())
            kinds = [re.sub(r"\[\d+\]|\(deleted\)|/\d+/", "", target).strip() for target in targets]
            assert kinds == sorted(
                ["/dev/null"] * 3 + ["/memfd:go-ent-output", "/procmaps", "/procpagemap", artefact, "socket:"]
            )
            assert Path(f"/proc/{pid}/environ").read_bytes() == b""
            assert not re.search(r"^\S+ .wx", Path(f"/proc/{pid}/maps").read_text(), re.M)

    def test_every_kind_of_worker_is_shut_in(self) -> None:
        with Sandbox(limits=Limits(fuel=10**12)) as box:
            assert box.run_sync("1").status == "completed"
            assert all(wall.stands or wall.name == LANDLOCK for wall in box.walls)
            assert box.walls


# A kernel that lacks something, as the worker of a container finds it: a filter around all of it answers for the
# kernel.
LACKING = """
import ctypes, json, logging, struct, sys
from go_ent.sandbox.hardening.kernel import syscall
from go_ent.sandbox.hardening.privileges import no_new_privileges
from go_ent.sandbox.hardening.syscalls import number
call, argument, error = json.loads(sys.argv[1])
no_new_privileges()
look = [] if argument is None else [(0x20, 0, 0, 24), (0x15, 0, 1, argument)]
made = [(0x20, 0, 0, 0), (0x15, 0, 1 + len(look), number(call)), *look, (0x06, 0, 0, 0x00050000 | error), (0x06, 0, 0, 0x7FFF0000)]
code = ctypes.create_string_buffer(b"".join(struct.pack("@HBBI", *one) for one in made))
syscall(number("seccomp"), 1, 0, struct.pack("@HxxxxxxQ", len(made), ctypes.addressof(code)))
logging.basicConfig(format="%(message)s", stream=sys.stdout)
from go_ent.sandbox import Sandbox
with Sandbox() as box:
    runs = [box.run_sync("len(bytes(n))", {"n": n}) for n in (1, 20_000_000)]
    grown = runs[1].usage.memory_peak_bytes - runs[0].usage.memory_peak_bytes
    print(json.dumps([runs[1].status, runs[1].result, grown, [wall.name for wall in box.walls if not wall.stands]]))
"""  # noqa: E501


class TestAKernelThatLacksOne:
    def run(self, call: str, argument: int | None, error: int) -> tuple[list[Any], str]:
        command = [sys.executable, "-c", LACKING, json.dumps([call, argument, error])]
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        warning, _, told = done.stdout.strip().rpartition("\n")
        return json.loads(told), warning

    @pytest.mark.parametrize(
        ("call", "wall"), [("landlock_create_ruleset", LANDLOCK), ("seccomp", SECCOMP), ("capset", NO_CAPABILITIES)]
    )
    def test_runs_without_it_and_says_so(self, call: str, wall: str) -> None:
        (status, result, _, missing), warning = self.run(call, None, errno.ENOSYS)
        assert (status, result) == ("completed", 20_000_000)
        assert set(missing) == ({wall} if landlock_version() else {wall, LANDLOCK})
        assert f"{wall} (Function not implemented)" in warning

    def test_memory_is_measured_where_the_map_can_t_be_asked(self) -> None:
        """Before Linux 6.11 the whole map is read instead, from the descriptor that the worker has for it."""
        (status, _, grown, missing), _ = self.run("ioctl", seccomp.PROCMAP_QUERY, errno.ENOTTY)
        assert (status, LANDLOCK in missing) == ("completed", not landlock_version())
        assert 15_000_000 < grown < 45_000_000


class TestACheckInAProcessOfItsOwn:
    """A schema from outside that may take for ever to check: jsonschema-rs works on it behind the same walls."""

    ENDLESS: ClassVar[dict[str, Any]] = {
        "$defs": {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(45)} | {"d45": {}},
        "$ref": "#/$defs/d0",
    }

    def test_is_shut_in(self) -> None:
        done = threading.Event()

        def check() -> list[str]:
            try:
                return Checker(self.ENDLESS).problems(1)
            finally:
                done.set()

        with concurrent.futures.ThreadPoolExecutor(1) as threads:
            told = threads.submit(check)
            seen: dict[str, str] = {}
            while not done.is_set() and not seen:
                for child in psutil.Process().children():
                    with contextlib.suppress(psutil.Error, OSError):
                        if "jsonschema_rs" in " ".join(child.cmdline()):
                            status = Path(f"/proc/{child.pid}/status").read_text()
                            fields = dict(re.findall(r"^(NoNewPrivs|Seccomp|CapEff):\t(\w+)$", status, re.M))
                            if fields["Seccomp"] == "2":
                                assert child.environ() == {}
                                assert resource.prlimit(child.pid, resource.RLIMIT_NOFILE) == (1, 1)
                                seen = fields
                                child.kill()
            assert seen == {"NoNewPrivs": "1", "Seccomp": "2", "CapEff": "0" * 16}
            assert told.result() == ["whether it fits its schema could not be found out"]

    def test_still_finds_what_is_wrong(self) -> None:
        checker = Checker({"type": "object", "properties": {"a": {"pattern": "^(?=x)xy$"}}})
        assert checker.problems({"a": "xy"}) == []
        assert checker.problems({"a": "xz"}) == ['a: "xz" does not match "^(?=x)xy$"']


class TestTheFilter:
    """Its program, run here as the kernel would: also for a machine that this is not."""

    DOORS = seccomp.Doors(socket=5, write=6, maps=4)

    def answer(self, machine: str, call: int, *arguments: int, architecture: int | None = None) -> int:
        given = (*arguments, 0, 0, 0, 0, 0, 0)[:6]
        data = {
            seccomp.NUMBER_AT: call,
            seccomp.ARCHITECTURE_AT: AUDIT[machine] if architecture is None else architecture,
        }
        data |= {seccomp.ARGUMENTS_AT + 8 * at: value & 0xFFFFFFFF for at, value in enumerate(given)}
        compare: dict[int, Callable[[int, int], bool]] = {
            seccomp.EQUAL: lambda a, b: a == b,
            seccomp.AT_LEAST: lambda a, b: a >= b,
            seccomp.ABOVE: lambda a, b: a > b,
            seccomp.ANY_BIT: lambda a, b: bool(a & b),
        }
        made, at, value = seccomp.program(self.DOORS, 77, machine), 0, 0
        while True:
            code, if_so, if_not, operand = made[at]
            at += 1
            if code == seccomp.RETURN:
                return operand
            if code == seccomp.LOAD:
                value = data[operand]
            elif code == seccomp.AND:
                value &= operand
            else:
                at += if_so if compare[code](value, operand) else if_not

    @pytest.mark.parametrize("machine", AUDIT)
    def test_allows_what_a_worker_needs_and_no_more(self, machine: str) -> None:
        allowed = {
            name
            for name in NUMBERS
            if (call := number(name, machine)) is not None and self.answer(machine, call) == seccomp.ALLOW
        }
        assert allowed == {
            name for name in (*seccomp.FREELY, "mprotect", "mmap", "futex") if number(name, machine) is not None
        }
        for name in seccomp.NEVER:
            if (call := number(name, machine)) is not None:
                assert self.answer(machine, call) == seccomp.KILL, name
        known = {call for name in NUMBERS if (call := number(name, machine)) is not None}
        for call in set(range(NEWEST + 1)) - known:
            assert self.answer(machine, call) == seccomp.EPERM
        assert self.answer(machine, NEWEST + 1) == seccomp.ENOSYS

    @pytest.mark.parametrize("machine", AUDIT)
    def test_looks_at_arguments(self, machine: str) -> None:
        def ask(name: str, *arguments: int) -> int:
            call = number(name, machine)
            assert call is not None
            return self.answer(machine, call, *arguments)

        allowed: list[tuple[str, *tuple[int, ...]]] = [
            ("recvfrom", 5),
            ("sendto", 5),
            ("write", 6),
            ("pread64", 4),
            ("ioctl", 4, 0xC0686611),
            ("tgkill", 77),
            ("madvise", 0, 0, 4),
            ("mmap", 0, 1, 3, 2),
            ("mprotect", 0, 1, 3),
            ("futex", 0, 0x189),
            ("futex", 0, 0x81),
        ]
        assert {one: ask(*one) for one in allowed} == dict.fromkeys(allowed, seccomp.ALLOW)
        refused: list[tuple[str, *tuple[int, ...]]] = [
            ("recvfrom", 6),
            ("recvfrom", 5, 0, 0, 1),
            ("sendto", 5, 0, 0, 1),
            ("sendto", 5, 0, 0, 0, 0, 16),
            ("write", 5),
            ("pread64", 3),
            ("ioctl", 4, 0x5412),
            ("ioctl", 0, 0xC0686611),
            ("read", 0),
            ("madvise", 0, 0, 100),
            ("futex", 0, 0x86),
            ("clone", 0x10F00),
        ]
        assert {one: ask(*one) for one in refused} == dict.fromkeys(refused, seccomp.EPERM)
        ended: list[tuple[str, *tuple[int, ...]]] = [
            ("mmap", 0, 1, 5, 2),
            ("mmap", 0, 1, 3, 1),
            ("mprotect", 0, 1, 4),
            ("mprotect", 0, 1, 7),
            ("tgkill", 78),
            ("clone", 17),
        ]
        assert {one: ask(*one) for one in ended} == dict.fromkeys(ended, seccomp.KILL)

    @pytest.mark.parametrize("machine", AUDIT)
    def test_ends_a_call_by_another_convention(self, machine: str) -> None:
        call = number("getpid", machine)
        assert call is not None
        assert self.answer(machine, call) == seccomp.ALLOW
        for architecture in {0x40000003, 0x40000028, *AUDIT.values()} - {AUDIT[machine]}:  # i386, arm, each other
            assert self.answer(machine, call, architecture=architecture) == seccomp.KILL
        assert self.answer("x86_64", 0x40000000 | 39) == seccomp.KILL

    def test_numbers_are_the_kernels(self) -> None:
        """Where its headers are installed. Those of aarch64 are the generic ones."""
        wide = Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h")
        generic = Path("/usr/include/asm-generic/unistd.h")
        if not wide.exists() or not generic.exists():
            pytest.skip("the kernel's headers are not installed")
        tables = [
            dict(re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", path.read_text())) for path in (wide, generic)
        ]
        for name, numbers in NUMBERS.items():
            for table, expected in zip(tables, numbers, strict=True):
                assert table.get(name) == (None if expected is None else str(expected)), name


class TestWhatAWorkerTells:
    def test_of_its_walls(self) -> None:
        walls = (Wall(LANDLOCK, True, "version 7"), Wall(SECCOMP, False, "Function not implemented"))
        assert read(tell(walls)) == walls

    @each(
        "told",
        [
            b"",
            b"[",
            b"{}1",
            b"[[]]",
            b'[["landlock",1,""]]',
            b'[["moat",true,""]]',
            b'[["landlock",true,[]]]',
            b"[" + b" " * 5000 + b"]",
        ],
    )
    def test_is_read_with_care(self, told: bytes) -> None:
        with pytest.raises(ValueError):  # noqa: PT011
            read(told)


def strike(pid: int, number: signal.Signals) -> None:
    """Until it is gone: wasmtime looks at the first fault, finds that it is none of its own, and gives it back."""
    with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError):
        process = psutil.Process(pid)
        while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
            os.kill(pid, number)


class TestAWorkerThatDies:
    @pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGKILL, signal.SIGSYS, signal.SIGABRT, signal.SIGBUS])
    async def test_costs_its_run_and_no_other(self, number: signal.Signals) -> None:
        """Three runs are under way, each in a tool; the worker of one is ended as the kernel ends them."""
        there: dict[str, asyncio.Event] = {}
        go_on = asyncio.Event()

        async def arrive(who: str) -> str:
            there[who].set()
            await go_on.wait()
            return who

        async with Sandbox([arrive], Limits(timeout_s=30), workers=3) as box:
            there.update({who: asyncio.Event() for who in ("a", "victim", "b")})
            code = "print('here')\nawait tools.arrive(who=who)"
            runs = [asyncio.create_task(box.run(code, {"who": who}, run_id=who)) for who in there]
            await asyncio.gather(*(event.wait() for event in there.values()))
            flight = box._flights["victim"]
            assert isinstance(flight, Flight)
            assert flight.worker.pid is not None
            strike(flight.worker.pid, number)
            lost = await runs[1]
            go_on.set()
            others = [await runs[0], await runs[2]]
            after = await asyncio.gather(*(box.run("n", {"n": n}) for n in range(9)))
            workers = box.started
        assert lost.status == "crashed"
        assert lost.stdout == "here\n"
        assert lost.error is not None
        assert lost.error.message == "the run was lost: its worker died"
        assert [(run.status, run.result) for run in others] == [("completed", "a"), ("completed", "b")]
        assert [run.result for run in after] == list(range(9))
        assert workers <= 4  # three, and one that compiles

    def test_costs_one_call_of_an_mcp_client(self, tmp_path: Path) -> None:
        """Two calls are under way on one server. One's worker is killed, as the kernel does where memory is short."""
        there = {"victim": asyncio.Event(), "other": asyncio.Event()}
        go_on = asyncio.Event()

        async def arrive(who: str) -> str:
            """Say that you are there, and wait."""
            there[who].set()
            await go_on.wait()
            return who

        async def main() -> list[Any]:
            async with (
                Sandbox(limits=Limits(timeout_s=30), workers=2) as box,
                Composer(tmp_path, tools=[arrive], box=box) as composer,
                Engine(tmp_path, composer=composer) as engine,
                Client(make_server(composer, engine)) as client,
            ):

                async def execute(code: str) -> Any:
                    result = await client.call_tool("code_execute", {"code": code}, raise_on_error=False)
                    return result.is_error, result.structured_content

                calls = [asyncio.create_task(execute(f"await tools.arrive(who={who!r})")) for who in there]
                await asyncio.gather(*(event.wait() for event in there.values()))
                (worker,) = [
                    flight.worker
                    for flight in box._flights.values()
                    if isinstance(flight, Flight) and b"'victim'" in flight.job.request
                ]
                assert worker.pid is not None
                strike(worker.pid, signal.SIGKILL)
                lost = await calls[0]
                go_on.set()
                return [lost, await calls[1], await execute("6 * 7")]

        (failed, lost), (_, other), (_, after) = asyncio.run(main())
        assert (failed, lost["status"]) == (True, "crashed")
        assert "its worker died" in lost["error"]
        assert (other["status"], other["result"]) == ("completed", "other")
        assert (after["status"], after["result"]) == ("completed", 42)

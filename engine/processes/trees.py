"""Finding and ending all processes of a run, also those that left its group, its session or its parent.

Every child carries `GO_ENT_RUN=<tag>` in its environment, and so does what it starts. A process belongs to the run if
it has that tag, is in the group or session of the run's first child, or descends from one that belongs. What escapes is
a process that dropped the variable, left the session and lost its parent, all before anybody looked.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import field

from go_ent.dataclass import dataclass
from go_ent.sandbox.children.proc import has_variable, pids, read_stat, shows_environment

TAG = "GO_ENT_RUN"
HUNT_S = 1.0  # for those who start others faster than they can be looked at
GLANCE_S = 0.1  # the same, where nobody is stopped meanwhile
PATIENCE_S = 5.0  # for those whom SIGKILL does not end: in the kernel, or of another user
KERNEL_THREAD = 0x200000


@dataclass(frozen=True, slots=True)
class Process:
    """A process as it was seen. Its pid may be another's later, its parent and group may change: pid and start time
    say who it is.
    """

    pid: int
    started: int
    parent: int = field(compare=False)
    group: int = field(compare=False)
    session: int = field(compare=False)
    dead: bool = field(compare=False)  # but its parent has not waited for it
    unready: bool = field(compare=False)  # between two programs: its environment can't be read yet, and looks empty


async def reap(tag: str, pgid: int | None = None) -> int:
    """Ends all processes of a run with SIGKILL, and says how many there were.

    It also works when the process that started them is dead. `pgid` is the pid of the run's first child: give it only
    while that child has not been waited for, since the number may be another group's afterwards.
    """
    return await asyncio.to_thread(reap_now, tag, pgid)


def reap_now(tag: str, pgid: int | None = None, known: Iterable[Process] = (), variable: str = TAG) -> int:
    """The same, blocking. `known` are members seen earlier, which may have lost all that marks them."""
    # Stopped first: what can't run can't start another while the rest is being looked for.
    watch = _Watch(tag, pgid, known, lambda one: _send(one, signal.SIGSTOP), variable)
    watch.look_for(HUNT_S)
    for one in watch.members:
        _send(one, signal.SIGKILL)
    until = time.monotonic() + PATIENCE_S
    while any(map(_runs, watch.members)) and time.monotonic() < until:
        time.sleep(0.002)
    return len(watch.members)


def members(tag: str, pgid: int | None = None) -> set[Process]:
    """The living processes of a run, never this process or one above it."""
    watch = _Watch(tag, pgid)
    watch.look_for(GLANCE_S)
    return watch.members


class _Watch:
    """What is known of the processes of the machine. Each look adds the new ones, and is quick therefore."""

    def __init__(
        self,
        tag: str,
        pgid: int | None,
        known: Iterable[Process] = (),
        found: Callable[[Process], None] = lambda _: None,
        variable: str = TAG,
    ) -> None:
        self._mark, self._pgid, self._known, self._found = os.fsencode(f"{variable}={tag}"), pgid, set(known), found
        self._spared = _above(os.getpid())
        first = _look(pgid) if pgid else None
        self._since = first.started if first is not None else 0
        self._table: dict[int, Process] = {}
        self.members: set[Process] = set()

    def look_for(self, seconds: float) -> None:
        """Until all were seen, or for so long."""
        until = time.monotonic() + seconds
        while not self._look() and time.monotonic() < until:
            pass

    def _look(self) -> bool:
        """Whether that was all: no new member, and nothing new that could not be judged or ended before, leaving a
        child perhaps.
        """
        before, missed = len(self.members), False
        there = pids()
        self._table = {pid: self._table[pid] for pid in self._table.keys() & there}
        for pid in sorted(there - self._table.keys(), reverse=True):  # the youngest are the first to be gone
            one = _look(pid)
            if one is None or one.dead:
                missed = True
            elif self._belongs(one):
                self._add(one)
            elif one.unready and pid not in self._spared:
                missed = True
                continue
            elif one.started >= self._since:
                missed = missed or not _runs(one)
            if one is not None:
                self._table[pid] = one
        self._add_descendants()
        return len(self.members) == before and not missed

    def _belongs(self, one: Process) -> bool:
        if one in self._known or (self._pgid and self._pgid in {one.pid, one.group, one.session}):
            return True
        return one.started >= self._since and has_variable(one.pid, self._mark)

    def _add(self, one: Process) -> None:
        if not one.dead and one.pid not in self._spared and one not in self.members:
            self.members.add(one)
            self._found(one)

    def _add_descendants(self) -> None:
        children: dict[int, list[Process]] = {}
        for one in self._table.values():
            children.setdefault(one.parent, []).append(one)
        todo = [one.pid for one in self.members]
        while todo:
            for one in children.pop(todo.pop(), ()):
                self._add(one)
                todo.append(one.pid)


def _above(pid: int) -> set[int]:
    """A process and its ancestors."""
    chain = {0, 1}
    while pid not in chain:
        chain.add(pid)
        one = _look(pid)
        pid = 0 if one is None else one.parent
    return chain


def _look(pid: int) -> Process | None:
    stat = read_stat(pid)
    if stat is None:
        return None
    # Of processes that the kernel does not show us it gives no addresses: they would seem unready for ever.
    unready = not (stat.dead or stat.environ_end or stat.flags & KERNEL_THREAD) and shows_environment(pid)
    return Process(pid, stat.started, stat.parent, stat.group, stat.session, stat.dead, unready)


def _runs(process: Process) -> bool:
    now = _look(process.pid)
    return now == process and not now.dead


def _send(process: Process, number: signal.Signals) -> None:
    """A signal to this very process: the descriptor holds it, and the start time says that it is the one."""
    with suppress(OSError):
        handle = os.pidfd_open(process.pid)
        try:
            if _runs(process):
                signal.pidfd_send_signal(handle, number)
        finally:
            os.close(handle)

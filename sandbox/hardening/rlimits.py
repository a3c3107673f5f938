"""Limits that the kernel counts for a process. Hard ones: without capabilities nobody raises them again.

Not the address space: a guest reserves 4 GB of it and more, to touch a few. Not CPU time: a worker lives for many runs,
and the host counts the time of each.
"""

from __future__ import annotations

import resource

MOST_MEMORY = 8 << 30  # a guest's linear memory has 4 GB at most; the rest is for messages on their way


def limit(file_bytes: int) -> int:
    """Lower this process's limits; how many are as asked. Once its threads run: no other can be started."""
    wanted = {
        # no image of a guest's memory on disk, nor, as with 0, to a program that collects them
        resource.RLIMIT_CORE: 1,
        # no descriptor can be made, by whatever call; `poll` asks for as many as it waits for: one
        resource.RLIMIT_NOFILE: 1,
        resource.RLIMIT_FSIZE: file_bytes,  # a flood of output does not fill the memory that its file is in
        resource.RLIMIT_NPROC: 0,  # no fork bomb, no thread; the kernel does not hold root to it
        resource.RLIMIT_DATA: MOST_MEMORY,  # no more memory than a guest may ever have, whoever asks for it
        resource.RLIMIT_STACK: 8 << 20,  # of the first thread, which only waits
        resource.RLIMIT_MEMLOCK: 0,  # nothing is kept from being swapped out, and no ring is shared with the kernel
        resource.RLIMIT_MSGQUEUE: 0,  # no message queue, which would outlive the process
        resource.RLIMIT_SIGPENDING: 0,  # no timers and no queued signals, which are memory of the kernel
        resource.RLIMIT_NICE: 0,  # no priority over others
        resource.RLIMIT_RTPRIO: 0,  # least of all one that nobody can interrupt
    }
    for kind, most in wanted.items():
        _, hard = resource.getrlimit(kind)
        value = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (value, value))
    return len(wanted)

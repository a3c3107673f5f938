"""The process that a peer is embedded in: `python -m benchmarks.peers.host <peer>`, one line of JSON in, one out.

It stands for the server of somebody who uses the peer. It holds secrets, and a hostile program may kill it: that is the
test. It uses the standard library alone, because some peers have an interpreter of their own.
"""

from __future__ import annotations

import builtins
import importlib
import json
import math
import os
import resource
import sys
import time
from typing import Any

from benchmarks.peers.adapter import Outcome, Peer
from benchmarks.peers.registry import JAVASCRIPT_PEERS, PEERS

DATA_BYTES = 2 << 30
FILE_BYTES = 16 << 20
CPU_S = 120
PROCESSES = 4096
NOTE_CHARACTERS = 500

KEYRING: dict[str, str] = {}  # a secret in the host's memory

dumps, loads, clock = json.dumps, json.loads, time.perf_counter  # kept, whatever a program does to the modules
ORIGINALS = (builtins.len, json.dumps, math.pi)


def confine() -> None:
    """Limits for what a hostile program may make of this process. They are a safety net, and no part of any peer."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (DATA_BYTES, DATA_BYTES))
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_BYTES, FILE_BYTES))
    used = int(sum(resource.getrusage(resource.RUSAGE_SELF)[:2]))
    resource.setrlimit(resource.RLIMIT_CPU, (used + CPU_S, used + CPU_S))
    resource.setrlimit(resource.RLIMIT_NPROC, (PROCESSES, PROCESSES))  # not heeded for root; the driver counts as well


def answer(peer: Peer, request: dict[str, Any]) -> dict[str, Any]:
    if request["do"] == "available":
        return {"missing": peer.available(), "tool_program": peer.tool_program}
    if request["do"] == "start":
        try:
            peer.start()
        except Exception as error:
            return {"failed": f"{type(error).__name__}: {error}"}
        return {"failed": None}
    if request["do"] == "confine":
        KEYRING.update(request["keyring"])
        confine()
        return {"pid": os.getpid()}
    if request["do"] == "burst":
        return {"count": peer.burst(request["code"], request["seconds"])}  # type: ignore[attr-defined]
    started = clock()
    try:
        outcome = peer.run(request["code"], request["inputs"], request["timeout"])
    except Exception as error:  # of the peer or its adapter: who embeds it gets an exception, and lives
        outcome = Outcome("crashed", note=f"{type(error).__name__}: {error}")
    took = clock() - started
    try:
        dumps(outcome.value)
    except (TypeError, ValueError, RecursionError) as error:
        outcome = Outcome("error", note=f"the result is no JSON value: {error}")
    intact = (builtins.len, json.dumps, math.pi) == ORIGINALS
    note = outcome.note[:NOTE_CHARACTERS]
    return {"status": outcome.status, "value": outcome.value, "note": note, "seconds": took, "intact": intact}


def main() -> None:
    requests = os.fdopen(os.dup(0), "rb")
    answers = os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    os.write(answers, b"{}\n")  # what it holds now is the host's own, and no peer's
    peer: Peer | None = None
    for line in requests:
        about = (PEERS | JAVASCRIPT_PEERS)[sys.argv[1]]
        peer = peer or importlib.import_module(f"benchmarks.peers.{about.module}").peer
        os.write(answers, dumps(answer(peer, loads(line))).encode() + b"\n")
    if peer is not None:
        peer.close()


if __name__ == "__main__":
    main()

"""A worker in a process of its own, whose guests have tools with effects: `python -m tests.support.fleet_worker`.

What the outside world saw is in a file, which is no part of the record and outlives the database. The environment may
give the worker another version (`FLEET_VERSION`) and a clock that is wrong by so many seconds (`FLEET_SKEW`).
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from pathlib import Path

from go_ent.composer import Composer, FunctionSource, Hints
from go_ent.engine.core.config import read_engine_config
from go_ent.engine.fleet import queue
from go_ent.engine.fleet.worker import worker as workers
from go_ent.engine.storages import open_storages


def note(line: str) -> None:
    """One more effect, whoever else notes one now."""
    file = os.open(os.environ["FLEET_EFFECTS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(file, f"{line} {os.getpid()}\n".encode())
    os.close(file)


async def effect(key: str, ms: int) -> str:
    """Does something that can't be undone, and takes a while."""
    note(key)
    await asyncio.sleep(ms / 1000)
    return key


async def danger(key: str) -> str:
    """Does something that needs approval."""
    note(key)
    return key


async def poison(key: str) -> str:
    """Kills the worker that calls it."""
    note(key)
    os.kill(os.getpid(), signal.SIGKILL)
    return key


REPEATABLE = Hints(idempotent=True)
HINTS = {"effect": REPEATABLE, "poison": REPEATABLE, "danger": Hints(destructive=True)}


def main() -> None:
    project, slots, labels = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    if version := os.environ.get("FLEET_VERSION"):
        for module in (queue, workers):
            module.own_version = lambda: version  # type: ignore[attr-defined]
    if skew := float(os.environ.get("FLEET_SKEW", "0")):
        right = time.time
        time.time = lambda: right() + skew
    config = read_engine_config(project)

    async def run() -> None:
        source = FunctionSource({"effect": effect, "danger": danger, "poison": poison}, hints=HINTS)
        kept = open_storages(project, config.fleet, trusted=True)
        async with await asyncio.to_thread(
            lambda: Composer(project, sources=[source], trusted=True, workers=slots, **kept.for_composer)
        ) as composer:
            worker = workers.Worker(project, config, slots=slots, labels=labels, composer=composer)
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.stop)
            await worker.run(lambda name: print(name, flush=True))

    asyncio.run(run())


if __name__ == "__main__":
    main()

"""A worker in a process of its own, whose guests have a tool with effects: `python -m tests.support.fleet_worker`.

What the outside world saw is in a table of its own, which is no part of the record.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import psycopg

from go_ent.composer import Composer, FunctionSource, Hints
from go_ent.engine.core.config import read_engine_config
from go_ent.engine.fleet.worker.worker import Worker
from go_ent.engine.storages import open_storages

EFFECTS = "create table if not exists {schema}.effects (n bigserial primary key, key text, process integer)"


def main() -> None:
    project, slots, labels = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    config = read_engine_config(project)
    url, schema = os.environ[str(config.fleet.url_env)], config.fleet.namespace

    async def effect(key: str, ms: int) -> str:
        """Does something that can't be undone, and takes a while."""

        def do() -> None:
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute(
                    f"insert into {schema}.effects (key, process) values (%s, %s)".encode(), (key, os.getpid())
                )

        await asyncio.to_thread(do)
        await asyncio.sleep(ms / 1000)
        return key

    async def run() -> None:
        source = FunctionSource({"effect": effect}, hints={"effect": Hints(idempotent=True)})
        kept = open_storages(project, config.fleet, trusted=True)
        async with await asyncio.to_thread(
            lambda: Composer(project, sources=[source], trusted=True, workers=slots, **kept.for_composer)
        ) as composer:
            worker = Worker(project, config, slots=slots, labels=labels, composer=composer)
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.stop)
            await worker.run(lambda name: print(name, flush=True))

    asyncio.run(run())


if __name__ == "__main__":
    main()

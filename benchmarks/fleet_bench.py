"""What a fleet costs, on one machine with a Postgres that syncs: `make bench-fleet`. Prints the figures."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.fleet_workers_bench import measure_workers
from go_ent.composer import Composer, FunctionSource
from go_ent.composer.project.trust import share_keys
from go_ent.engine import Engine, Plan
from go_ent.engine.budget.ledger import Cost, HeldAmount, LedgerCall, Limit, Wanted
from go_ent.engine.core.config import read_engine_config
from go_ent.engine.fleet.database import Address, Database
from go_ent.engine.fleet.dbos_adapter import migrate
from go_ent.engine.fleet.postgres_ledger import PostgresLedger
from go_ent.engine.fleet.schema import init
from go_ent.engine.fleet.worker.worker import Worker
from tests.support.postgres import Postgres

PROCESSES, THREADS, EACH = 8, 8, 40  # of the ledger's
DAY = Limit("day", usd=1e9, start=0.0, end=1e10)


def spend(url: str, namespace: str, number: int, barrier: Any) -> None:
    """Reserve and settle, as a worker with so many slots does."""
    database = Database(Address(url, url, namespace))
    ledger = PostgresLedger(database)

    def pairs(thread: int) -> None:
        for n in range(EACH):
            call = LedgerCall(f"{number}/{thread}/{n}", f"e{number}", "t")
            held = ledger.reserve(call, Wanted(0.01, 10), (DAY,), unknown_usd=0.1, at=time.time())
            assert isinstance(held, HeldAmount)
            ledger.settle(call, Cost(0.01, 10, "x"), at=time.time(), month_start=0.0, limits=(DAY,))

    database.ask("select 1")
    barrier.wait()
    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(pairs, range(THREADS)))
    barrier.wait()


def ledger_pairs(address: Address) -> float:
    """Reserve and settle pairs a second, over several processes on one day's limit."""
    spawn = multiprocessing.get_context("spawn")
    barrier = spawn.Barrier(PROCESSES + 1)
    made = [
        spawn.Process(target=spend, args=(address.url, address.namespace, number, barrier))
        for number in range(PROCESSES)
    ]
    for one in made:
        one.start()
    barrier.wait()
    began = time.monotonic()
    barrier.wait()
    took = time.monotonic() - began
    for one in made:
        one.join()
    return PROCESSES * THREADS * EACH / took


def commits(database: Database) -> int:
    return int(database.ask("select xact_commit from pg_stat_database where datname = current_database()")[0][0])


def writes(database: Database) -> int:
    return int(database.ask("select pg_snapshot_xmax(pg_current_snapshot())::text::bigint")[0][0])


@contextlib.contextmanager
def running(worker: Worker) -> Iterator[None]:
    """A worker in a thread of this process."""
    ready = threading.Event()
    thread = threading.Thread(target=lambda: asyncio.run(worker.run(lambda _: ready.set())))
    thread.start()
    ready.wait()
    try:
        yield
    finally:
        worker.stop()
        thread.join()


async def wait_ms(engine: Engine, pause_s: float, times: int) -> float:
    """From sending a task until a worker has it, the median."""
    found = []
    plan = Plan.model_validate({"task": [{"id": "a", "code": "1"}]})
    for _ in range(times):
        await asyncio.sleep(pause_s)
        began = time.time()
        execution = await engine.start(plan)
        await engine.wait(execution)
        records = await asyncio.to_thread(lambda one: list(engine.store.records(one)), execution)
        found.append(next(record["at"] for record in records if record["kind"] == "status") - began)
    return 1000 * float(statistics.median(found))


async def writes_each(engine: Engine, database: Database, tasks: int) -> float:
    """Transactions that write, for each 1-second task: two calls, which take half a second each."""
    code = "for k in range(2):\n    await tools.look(n=k)\n1"
    plan = Plan.model_validate({"task": [{"id": f"t{n}", "code": code} for n in range(tasks)]})
    before = writes(database)
    result = await engine.execute(plan, concurrency=16)
    assert result.ok, result.error
    return (writes(database) - before) / tasks


def measure(root: Path, tell: Callable[[str, str], None]) -> None:
    server = Postgres(root / "pg", fsync="on", full_page_writes="on")
    server.start()
    address = Address(server.url, server.url, "bench")
    database = Database(address)
    try:
        init(database)
        migrate(address)
        tell(
            f"reserve + settle pairs a second, {PROCESSES} processes of {THREADS} slots", f"{ledger_pairs(address):.0f}"
        )
        os.environ |= {"BENCH_FLEET": server.url, "BENCH_KEY": "k" * 40, "GO_ENT_TRUST_PROJECT": "1"}
        folders = []
        for name in ("worker", "client"):
            folder = root / name / ".go-ent"
            folder.mkdir(parents=True)
            text = '[fleet]\nurl_env = "BENCH_FLEET"\nkey_env = "BENCH_KEY"\nnamespace = "bench"\n[grants]\nallow = ["*"]\n'
            (folder / "config.toml").write_text(text)
            folders.append(folder.parent)

        async def look(n: int) -> int:
            """Looks something up."""
            await asyncio.sleep(0.5)
            return n

        composer = Composer(folders[0], sources=[FunctionSource({"look": look})], trusted=True, workers=4)
        worker = Worker(folders[0], read_engine_config(folders[0]), slots=8, composer=composer)

        async def go() -> None:
            await asyncio.sleep(3)  # what it did when it started is counted late
            before = await asyncio.to_thread(commits, database)
            await asyncio.sleep(8)
            after = await asyncio.to_thread(commits, database)
            tell("idle worker, transactions a second", f"{(after - before - 1) / 8:.1f}")
            async with Engine(folders[1], trusted=True) as engine:
                await wait_ms(engine, 0.0, 3)
                tell("send to start, idle, median", f"{await wait_ms(engine, 1.5, 7):.0f} ms")
                tell("send to start, one after the other, median", f"{await wait_ms(engine, 0.0, 20):.0f} ms")
                each = await writes_each(engine, database, 32)
                tell("writing transactions per 1-second task with two calls", f"{each:.1f}")

        with running(worker):
            asyncio.run(go())
        asyncio.run(composer.close())
        measure_workers(server, root, lambda: writes(database), tell)
    finally:
        share_keys()
        database.close()
        server.stop("immediate")


def main() -> None:
    root = Path(tempfile.mkdtemp(prefix="go-ent-bench-"))
    root.chmod(0o755)
    try:
        measure(root, lambda what, figure: print(f"{what:<70} {figure}", flush=True))
    finally:
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()

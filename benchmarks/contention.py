"""The budget's ledger when several processes spend at once: `python -m benchmarks.contention KIND FOLDER COUNT NAME` is one of them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.measure import Row, by_turns, median
from benchmarks.report import scratch
from go_ent.engine.budget import Budget, Estimate, Prices
from go_ent.engine.core.config import BudgetConfig
from go_ent.engine.core.models import BudgetLimit, Tokens

CENT = 0.01
PROCESSES = (1, 2, 4, 8)


def ledger(folder: Path) -> Budget:
    return Budget(folder, BudgetConfig(day=BudgetLimit(usd=100_000.0)), Prices(), mode="library")


async def spend(folder: Path, times: int, name: str) -> None:
    """Hold what a call may cost, and count what it did."""
    budget = ledger(folder)
    for number in range(times):
        key = f"{name}/{number}"
        held = await budget.reserve(key, Estimate(2 * CENT, 100), execution_id=name, task_id=str(number))
        await budget.settle(held, runtime="claude-code", model=None, role=None, tokens=Tokens(output=10), usd=CENT)


def write_bare(folder: Path, times: int, name: str) -> None:
    """The same number of transactions, of one small row each, as safe from a power cut."""
    with contextlib.closing(connected(folder)) as database:
        for number in range(times * 2):
            database.execute("BEGIN IMMEDIATE")
            database.execute("INSERT INTO spends VALUES (?, ?)", (f"{name}/{number}", CENT))
            database.execute("COMMIT")


def connected(folder: Path) -> sqlite3.Connection:
    database = sqlite3.connect(folder / "bare.db", timeout=60, isolation_level=None)
    database.execute("PRAGMA journal_mode=WAL")
    database.execute("PRAGMA synchronous=FULL")
    database.execute("CREATE TABLE IF NOT EXISTS spends (key TEXT PRIMARY KEY, usd REAL)")
    return database


def rate(kind: str, processes: int, times: int) -> float:
    """Calls a second, held and settled by all processes together. Raises if one is lost or counted twice."""
    with scratch(synced=True) as folder:
        connected(Path(folder)).close()
        asyncio.run(spend(Path(folder), 1, "first"))
        command = [sys.executable, "-m", "benchmarks.contention", kind, folder, str(times)]
        running = [
            subprocess.Popen([*command, f"p{number}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            for number in range(processes)
        ]
        try:
            for each in running:
                assert each.stdout is not None
                if each.stdout.readline() != "ready\n":
                    raise AssertionError("a process did not begin")
            started = time.perf_counter()
            for each in running:
                assert each.stdin is not None
                each.stdin.write("go\n")
                each.stdin.flush()
            codes = [each.wait() for each in running]
            took = time.perf_counter() - started
        finally:
            for each in running:
                each.kill()
                each.communicate()
        if any(codes):
            raise AssertionError(f"processes failed: {codes}")
        if kind == "ledger":
            report = asyncio.run(ledger(Path(folder)).report())
            right = round((processes * (times + 1) + 1) * CENT, 6)
            if (round(report.day.spent_usd, 6), report.open_reservations) != (right, 0):
                raise AssertionError(f"{report.day.spent_usd} dollars were counted, and not {right}")
        return processes * times / took


def rows(quick: bool) -> list[Row]:
    found = []
    alone = 0.0
    for processes in (1, 4) if quick else PROCESSES:
        times = (40 if quick else 200) // processes + 10
        ours, bare = by_turns(3, lambda: rate("ledger", processes, times), lambda: rate("bare", processes, times))  # noqa: B023 - called at once
        who = "1 process" if processes == 1 else f"{processes} processes at once"
        name = f"calls held and settled in the budget, {who}"
        found.append(Row.of(name, "", ours, "/s", bare, better="higher", baseline_name="bare SQLite"))
        alone = alone or median(ours)
        if processes == 4:
            found.append(
                Row(
                    "the budget's rate, 4 processes",
                    "",
                    median(ours),
                    "/s",
                    alone,
                    better="higher",
                    baseline_name="1 process",
                    gated=False,
                )
            )
    return found


def main() -> None:
    kind, folder, times, name = sys.argv[1:]
    asyncio.run(spend(Path(folder), 1, f"{name}-before"))  # what is loaded once is loaded
    print("ready", flush=True)
    sys.stdin.readline()
    if kind == "ledger":
        asyncio.run(spend(Path(folder), int(times), name))
    else:
        write_bare(Path(folder), int(times), name)
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()

"""`python -m benchmarks.soak`: run it, print what it came to, and end with 1 if anything is not as it has to be."""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import random
import sys
import tempfile
import threading
import time
from collections import deque
from pathlib import Path

from benchmarks.soak import keeping
from benchmarks.soak.driving import Soak, breathe
from benchmarks.soak.kinds import Orders
from benchmarks.soak.report import SHOWN, Report
from benchmarks.soak.served import Served, serving

LOOK_S = 10.0
REST_S = 240.0  # that the server has to come to rest


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def soak(folder: Path, runs: int, clients: int, *, early: int, seed: int) -> Report:
    """Serve a project in *folder*, and have it do *runs*; after *early* of them it is looked at for the first time."""
    report = Report(runs, clients, seed, early)
    with serving(folder) as served:
        driven = Soak(served.url, clients, deque(Orders(runs, seed).orders()), report.done)
        stop = threading.Event()
        looking = threading.Thread(target=_look, args=(served, report, stop))
        looking.start()
        try:
            asyncio.run(
                breathe(served.url, clients)
            )  # the image, the first workers and the tools' server take long only once
            report.seconds += _drive(driven, early)
            asyncio.run(breathe(served.url, clients))
            report.first = served.rest(REST_S)
            say(f"at rest after {len(report.done):,} runs: {report.first}")
            report.seconds += _drive(driven, runs - early)
            asyncio.run(breathe(served.url, clients))
            report.last = served.rest(REST_S)
            say(f"at rest after {len(report.done):,} runs: {report.last}")
        finally:
            stop.set()
            looking.join()
        code, left = served.end()
        report.left = [f"process {pid}" for pid in left] + [f"temporary file {name}" for name in served.temporary()]
        if code != 143:  # of SIGTERM
            report.left.append(f"it ended with {code}")
        report.left += [f"it said: {line}"[:200] for line in served.said().splitlines()[2:]]
        report.records, report.statuses = keeping.check(served, report.done, also=3 * clients)
        report.records += keeping.prune(served, report.done)
    return report


def _drive(driven: Soak, most: int) -> float:
    started = time.monotonic()
    asyncio.run(driven.run(most))
    return time.monotonic() - started


def _look(served: Served, report: Report, stop: threading.Event) -> None:
    """How it goes, now and then."""
    while not stop.wait(LOOK_S):
        use = served.use()
        if len(report.done) < report.runs:
            report.loads.append((len(report.done), use.own))
        wrong = len(report.mismatches)
        say(
            f"{len(report.done):,} runs, {wrong} wrong; {use.own / 1e6:.0f} MB, {use.threads} threads, {use.processes} processes"
        )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--runs", type=int, default=20_000)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument(
        "--early", type=int, help="runs after which memory is looked at first: 1,000, or a quarter of all"
    )
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--save", action="store_true", help="write docs/benchmarks/soak.md and soak.json")
    options = parser.parse_args()
    logging.getLogger("mcp").setLevel(logging.CRITICAL)  # answers to calls that were cancelled find nobody: no news
    early = options.early or min(1000, options.runs // 4)
    with tempfile.TemporaryDirectory() as folder:
        report = soak(Path(folder), options.runs, options.clients, early=early, seed=options.seed)
    if options.save:
        report.save()
    print(report.page())
    print(json.dumps(report.data()), file=sys.stderr)
    for line in report.mismatches[:SHOWN]:
        print(f"WRONG {line}")
    return 0 if report.ok else 1


if __name__ == "__main__":
    raise SystemExit(main())

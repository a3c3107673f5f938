"""What a server has done so far, for Prometheus: the text format, version 0.0.4.

Labels have values from fixed sets only: nothing that a client, a tool or a model says becomes a series of its own.
"""

from __future__ import annotations

import asyncio
import os
import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import accumulate
from typing import TYPE_CHECKING, get_args

from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from go_ent.composer.catalogue.catalogue import CallOutcome
from go_ent.composer.codemode.past_runs import RunEnded
from go_ent.engine.budget import BudgetReport
from go_ent.engine.core.errors import EngineError
from go_ent.engine.core.models import Event, RunStatus
from go_ent.engine.core.outcomes import OUTCOMES
from go_ent.engine.executions.state import ExecutionStatus
from go_ent.engine.server.tools.changes import Changes

if TYPE_CHECKING:
    from fastmcp import FastMCP

    from go_ent.composer import Composer
    from go_ent.engine.engine import Engine

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
KINDS = ("code", "tool")
OTHER = "other"


class Histogram:
    """Durations, in buckets."""

    def __init__(self) -> None:
        self.counts = [0] * (len(BUCKETS_S) + 1)
        self.sum = 0.0

    def note(self, seconds: float) -> None:
        self.counts[bisect_left(BUCKETS_S, seconds)] += 1
        self.sum += seconds

    @property
    def buckets(self) -> list[tuple[str, float]]:
        """What is at most so long, and how often it was: each holds those before it."""
        return list(zip((*(f"{most:g}" for most in BUCKETS_S), "+Inf"), accumulate(self.counts), strict=True))


class Metrics:
    """The figures of one server. It listens to the engine and the composer; what they keep themselves is read when
    it is asked for.
    """

    def __init__(self, server: FastMCP, composer: Composer, engine: Engine, version: str) -> None:
        self._server, self._composer, self._engine, self._version = server, composer, engine, version
        self._lock = threading.Lock()
        self._runs: Counter[tuple[str, str]] = Counter()
        self._seconds = {kind: Histogram() for kind in KINDS}
        self._steps: Counter[str] = Counter()
        self._codes: Counter[int] = Counter()
        self._reading = asyncio.Lock()  # one at a time: who asks often waits, and nobody else does
        composer.listeners.append(self._ran)
        engine.listeners.append(self._heard)

    def _ran(self, run: RunEnded) -> None:
        with self._lock:
            self._runs[run.kind, run.status if run.status in OUTCOMES else OTHER] += 1
            self._seconds[run.kind].note(run.ms / 1000)

    def _heard(self, event: Event) -> None:
        status = str(event.data.get("status"))
        if event.kind == "step" and status != "running":
            self._steps[status if status in get_args(RunStatus) else OTHER] += 1

    def answered(self, code: int) -> None:
        """A request was answered; 0: it was not, for the client had gone."""
        self._codes[code if code in range(100, 600) else 0] += 1

    async def text(self) -> str:
        """All of it, as of now."""
        async with self._reading:
            statuses, process = await asyncio.to_thread(lambda: (self._engine.store.counts(), list(_of_process())))
            try:
                budget = await self._engine.budget()
            except EngineError:  # an account that can't be read is no reason to say nothing of the rest
                budget = None
        with self._lock:
            families = [*self._of_runs(), *self._of_state(statuses), *_of_budget(budget), *self._of_server(), *process]
        return generate_latest(_Families(families)).decode()

    def _of_runs(self) -> Iterator[Metric]:
        yield _gauge("go_ent_info", "The version that is served.", 1, version=self._version)
        runs = CounterMetricFamily(
            "go_ent_runs", "Runs of code and of composed tools that have ended, by status.", labels=("kind", "status")
        )
        for labels, count in sorted(self._runs.items()):
            runs.add_metric(labels, count)
        yield runs
        seconds = HistogramMetricFamily("go_ent_run_seconds", "How long runs took.", labels=("kind",))
        for kind, histogram in self._seconds.items():
            seconds.add_metric((kind,), histogram.buckets, histogram.sum)
        yield seconds
        outcomes = self._composer.catalogue.outcomes
        yield _counter(
            "go_ent_tool_calls",
            "Tool calls that guests have made, by how they ended.",
            "outcome",
            {outcome: outcomes[outcome] for outcome in get_args(CallOutcome)},
        )
        yield _counter(
            "go_ent_steps",
            "Steps of tasks, chains and graphs that have ended, by status.",
            "status",
            dict(sorted(self._steps.items())),
        )

    def _of_state(self, statuses: Mapping[ExecutionStatus, int]) -> Iterator[Metric]:
        running = len(self._engine.lifecycle.watch.ids)
        yield _gauge("go_ent_executions_running", "Executions that run in this process now.", running)
        yield _gauge("go_ent_workers", "Worker processes of the sandbox.", self._composer.box.started)
        kept = GaugeMetricFamily(
            "go_ent_executions", "Executions on record in this project, by status.", labels=("status",)
        )
        for status, count in statuses.items():
            kept.add_metric((status,), count)
        yield kept

    def _of_server(self) -> Iterator[Metric]:
        told = sum(provider.told for provider in self._server.providers if isinstance(provider, Changes))
        about = "Times that a client was told that the list of tools has changed."
        yield CounterMetricFamily("go_ent_list_changed_notifications", about, value=told)
        yield _counter(
            "go_ent_http_requests",
            "Requests that were answered, by status code.",
            "code",
            {str(code) if code else "none": count for code, count in sorted(self._codes.items())},
        )


class _Families:
    """Metrics as they are now, for the library to write."""

    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> list[Metric]:
        return self._families


def _counter(name: str, about: str, label: str, counts: Mapping[str, int]) -> Metric:
    family = CounterMetricFamily(name, about, labels=(label,))
    for value, count in counts.items():
        family.add_metric((value,), count)
    return family


def _gauge(name: str, about: str, value: float, **labels: str) -> Metric:
    family = GaugeMetricFamily(name, about, labels=tuple(labels))
    family.add_metric(tuple(labels.values()), value)
    return family


def _of_budget(budget: BudgetReport | None) -> Iterator[Metric]:
    if budget is None:
        return
    day = budget.day
    yield _gauge(
        "go_ent_budget_spent_usd", "Dollars spent today, with estimates where a cost is not known.", day.spent_usd
    )
    yield _gauge("go_ent_budget_reserved_usd", "Dollars held for calls under way.", day.reserved_usd)
    yield _gauge("go_ent_budget_spent_tokens", "Tokens used today.", day.spent_tokens)
    yield _gauge("go_ent_budget_reserved_tokens", "Tokens held for calls under way.", day.reserved_tokens)
    if day.limit_usd is not None:
        yield _gauge("go_ent_budget_limit_usd", "Dollars that may be spent today.", day.limit_usd)
    if day.limit_tokens is not None:
        yield _gauge("go_ent_budget_limit_tokens", "Tokens that may be used today.", day.limit_tokens)


def _of_process() -> Iterator[Metric]:
    with open("/proc/self/statm", "rb") as file:
        resident = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    yield _gauge("process_resident_memory_bytes", "Resident memory of this process.", resident)
    yield _gauge("process_open_fds", "Open file descriptors of this process.", len(os.listdir("/proc/self/fd")))

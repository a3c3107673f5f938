"""What a server has done so far, for Prometheus: the text format, version 0.0.4.

Labels have values from fixed sets only: nothing that a client, a tool or a model says becomes a series of its own.
"""

from __future__ import annotations

import asyncio
import os
import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate
from typing import TYPE_CHECKING, get_args

from go_ent.composer.catalogue.catalogue import CallOutcome
from go_ent.composer.codemode.run_log import RunRecord
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
Labels = tuple[tuple[str, str], ...]
Sample = tuple[Labels, float]


class Histogram:
    """Durations, in buckets."""

    def __init__(self) -> None:
        self.counts = [0] * (len(BUCKETS_S) + 1)
        self.sum = 0.0

    def note(self, seconds: float) -> None:
        self.counts[bisect_left(BUCKETS_S, seconds)] += 1
        self.sum += seconds


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
        composer.journal.listeners.append(self._ran)
        engine.listeners.append(self._heard)

    def _ran(self, entry: RunRecord) -> None:
        with self._lock:
            self._runs[entry.kind, entry.status if entry.status in OUTCOMES else OTHER] += 1
            self._seconds[entry.kind].note(entry.ms / 1000)

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
            parts = [*self._of_runs(), *self._of_state(statuses), *_of_budget(budget), *self._of_server(), *process]
        return "".join(parts)

    def _of_runs(self) -> Iterator[str]:
        yield metric("go_ent_info", "gauge", "The version that is served.", [((("version", self._version),), 1)])
        runs = [((("kind", kind), ("status", status)), count) for (kind, status), count in sorted(self._runs.items())]
        yield metric(
            "go_ent_runs_total", "counter", "Runs of code and of composed tools that have ended, by status.", runs
        )
        yield histogram(
            "go_ent_run_seconds", "How long runs took.", {(("kind", kind),): one for kind, one in self._seconds.items()}
        )
        outcomes = self._composer.catalogue.outcomes
        calls = [((("outcome", outcome),), outcomes[outcome]) for outcome in get_args(CallOutcome)]
        yield metric(
            "go_ent_tool_calls_total", "counter", "Tool calls that guests have made, by how they ended.", calls
        )
        steps = [((("status", status),), count) for status, count in sorted(self._steps.items())]
        yield metric(
            "go_ent_steps_total", "counter", "Steps of tasks, chains and graphs that have ended, by status.", steps
        )

    def _of_state(self, statuses: Mapping[ExecutionStatus, int]) -> Iterator[str]:
        yield gauge(
            "go_ent_executions_running", "Executions that run in this process now.", len(self._engine.guests.watch.ids)
        )
        yield gauge("go_ent_workers", "Worker processes of the sandbox.", self._composer.box.started)
        kept = [((("status", status),), count) for status, count in statuses.items()]
        yield metric("go_ent_executions", "gauge", "Executions on record in this project, by status.", kept)

    def _of_server(self) -> Iterator[str]:
        told = sum(one.told for one in self._server.providers if isinstance(one, Changes))
        said = "Times that a client was told that the list of tools has changed."
        yield metric("go_ent_list_changed_notifications_total", "counter", said, [((), told)])
        codes = [((("code", str(code) if code else "none"),), count) for code, count in sorted(self._codes.items())]
        yield metric("go_ent_http_requests_total", "counter", "Requests that were answered, by status code.", codes)


def _of_budget(budget: BudgetReport | None) -> Iterator[str]:
    if budget is None:
        return
    day = budget.day
    yield gauge(
        "go_ent_budget_spent_usd", "Dollars spent today, with estimates where a cost is not known.", day.spent_usd
    )
    yield gauge("go_ent_budget_reserved_usd", "Dollars held for calls under way.", day.reserved_usd)
    yield gauge("go_ent_budget_spent_tokens", "Tokens used today.", day.spent_tokens)
    yield gauge("go_ent_budget_reserved_tokens", "Tokens held for calls under way.", day.reserved_tokens)
    if day.limit_usd is not None:
        yield gauge("go_ent_budget_limit_usd", "Dollars that may be spent today.", day.limit_usd)
    if day.limit_tokens is not None:
        yield gauge("go_ent_budget_limit_tokens", "Tokens that may be used today.", day.limit_tokens)


def _of_process() -> Iterator[str]:
    with open("/proc/self/statm", "rb") as file:
        resident = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    yield gauge("process_resident_memory_bytes", "Resident memory of this process.", resident)
    yield gauge("process_open_fds", "Open file descriptors of this process.", len(os.listdir("/proc/self/fd")))


def gauge(name: str, about: str, value: float) -> str:
    return metric(name, "gauge", about, [((), value)])


def metric(name: str, kind: str, about: str, samples: Iterable[Sample]) -> str:
    """One metric, with all its series."""
    return _head(name, kind, about) + "".join(_line(name, labels, value) for labels, value in samples)


def histogram(name: str, about: str, series: Mapping[Labels, Histogram]) -> str:
    lines = [_head(name, "histogram", about)]
    for labels, one in series.items():
        for most, count in zip((*map(_number, BUCKETS_S), "+Inf"), accumulate(one.counts), strict=True):
            lines.append(_line(f"{name}_bucket", (*labels, ("le", most)), count))
        lines += [_line(f"{name}_sum", labels, one.sum), _line(f"{name}_count", labels, sum(one.counts))]
    return "".join(lines)


def _head(name: str, kind: str, about: str) -> str:
    return f"# HELP {name} {about.translate(_IN_HELP)}\n# TYPE {name} {kind}\n"


def _line(name: str, labels: Labels, value: float) -> str:
    said = ",".join(f'{label}="{text.translate(_IN_LABELS)}"' for label, text in labels)
    return f"{name}{{{said}}} {_number(value)}\n" if said else f"{name} {_number(value)}\n"


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(float(value))


_IN_HELP = str.maketrans({"\\": "\\\\", "\n": "\\n"})
_IN_LABELS = str.maketrans({"\\": "\\\\", "\n": "\\n", '"': '\\"'})

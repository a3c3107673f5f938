"""What a soak came to: its verdicts, as JSON for programs and as a page for people."""

from __future__ import annotations

import json
import os
import platform
import statistics
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.soak.driving import Done
from benchmarks.soak.served import STILL_S, Use

MOST_TAIL = 5.0  # times p50, that p99 may take
MOST_GROWN = 1.10  # times what it was after the first runs, that memory may be
DOCS = Path(__file__).parents[2] / "docs" / "benchmarks"
SHOWN = 20
SAMPLES = 50


@dataclass(slots=True)
class Report:
    """Filled while the soak goes on."""

    runs: int
    clients: int
    seed: int
    early: int  # runs, after which it is looked at for the first time
    done: list[Done] = field(default_factory=list)
    first: Use | None = None
    last: Use | None = None
    loads: list[tuple[int, int]] = field(default_factory=list)  # after how many runs, and bytes of memory
    seconds: float = 0.0
    load_before: float = field(
        default_factory=lambda: os.getloadavg()[0]
    )  # processes that wanted a core before it began
    statuses: dict[str, int] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)  # what the server has left when it ended
    records: list[str] = field(default_factory=list)  # what is wrong with what is on record

    @property
    def mismatches(self) -> list[str]:
        return [f"{one.order.kind} ({one.order.arguments}): {one.wrong}"[:600] for one in self.done if one.wrong]

    @property
    def good(self) -> list[float]:
        return [one.ms for one in self.done if one.order.good]

    @property
    def tail(self) -> float:
        return quantile(self.good, 0.99) / quantile(self.good, 0.5)

    @property
    def grown(self) -> float:
        assert self.first is not None
        assert self.last is not None
        return self.last.own / self.first.own

    def leaks(self) -> list[str]:
        """What there is more of at the end than after the first runs, both times at rest."""
        assert self.first is not None
        assert self.last is not None
        found = []
        for name in ("threads", "processes"):
            before, after = getattr(self.first, name), getattr(self.last, name)
            if after > before:
                found.append(f"{after - before} {name} more: {after}, not {before}")
        if sum(self.last.descriptors.values()) > sum(self.first.descriptors.values()):
            found.append(f"descriptors: {self.last.descriptors}, not {self.first.descriptors}")
        if new := [name for name in self.last.temporary if name not in self.first.temporary]:
            found.append(f"temporary files: {new[:10]}")
        return found

    def verdicts(self) -> list[tuple[str, str, str, bool]]:
        """What is asked, what was found, and whether that is so."""
        assert self.first is not None
        assert self.last is not None
        p50, p99 = quantile(self.good, 0.5), quantile(self.good, 0.99)
        leaks = self.leaks()
        return [
            (
                "runs with the right status",
                f"{len(self.done) - len(self.mismatches):,} of {len(self.done):,}",
                "all",
                not self.mismatches,
            ),
            (
                "p99 of the good ones",
                f"{p99:.0f} ms, {self.tail:.1f} x p50 ({p50:.0f} ms)",
                f"{MOST_TAIL:g} x p50",
                self.tail <= MOST_TAIL,
            ),
            (
                "memory at rest",
                f"{self.last.own / 1e6:.0f} MB, {self.grown:.2f} x that after {self.early:,} runs ({self.first.own / 1e6:.0f} MB)",
                f"{MOST_GROWN:.2f} x",
                self.grown <= MOST_GROWN,
            ),
            (
                "threads, processes, descriptors, temporary files more at rest",
                "; ".join(leaks) or "none",
                "none",
                not leaks,
            ),
            (
                "processes and files that the ended server has left",
                "; ".join(self.left[:5]) or "none",
                "none",
                not self.left,
            ),
            (
                "executions on record",
                "; ".join(self.records[:5]) or _counted(self.statuses),
                "each as it ended",
                not self.records,
            ),
        ]

    @property
    def ok(self) -> bool:
        return all(verdict[-1] for verdict in self.verdicts())

    def by_kind(self) -> dict[str, dict[str, float]]:
        found: dict[str, list[float]] = defaultdict(list)
        for one in self.done:
            found[one.order.kind].append(one.ms)
        order = sorted(
            found, key=lambda kind: (not next(one for one in self.done if one.order.kind == kind).order.good, kind)
        )
        return {
            kind: {
                "runs": len(found[kind]),
                **{f"p{at * 100:g}": round(quantile(found[kind], at), 1) for at in (0.5, 0.9, 0.99)},
                "most": round(max(found[kind]), 1),
            }
            for kind in order
        }

    def data(self) -> dict[str, Any]:
        assert self.first is not None
        assert self.last is not None
        return {
            "runs": self.runs,
            "clients": self.clients,
            "seed": self.seed,
            "seconds": round(self.seconds, 1),
            "load": round(self.load_before, 1),
            "verdicts": [dict(zip(("what", "found", "bound", "ok"), one, strict=True)) for one in self.verdicts()],
            "ms": self.by_kind(),
            "tail": round(self.tail, 2),
            "grown": round(self.grown, 3),
            "memory_first": self.first.memory,
            "memory_last": self.last.memory,
            "memory_of_files": [self.first.mapped, self.last.mapped],
            "memory_under_load": self.loads[:: max(1, len(self.loads) // SAMPLES)],
            "threads": [self.first.threads, self.last.threads],
            "processes": [self.first.processes, self.last.processes],
            "descriptors": [self.first.descriptors, self.last.descriptors],
            "statuses": self.statuses,
            "mismatches": self.mismatches[:SHOWN],
        }

    def page(self) -> str:
        assert self.first is not None
        assert self.last is not None
        rows = [
            f"| {what} | {found} | {bound} | {'ok' if ok else 'MISSED'} |" for what, found, bound, ok in self.verdicts()
        ]
        kinds = [
            f"| {kind} | {row['runs']:,} | {row['p50']:.0f} ms | {row['p90']:.0f} ms | {row['p99']:.0f} ms | {row['most']:.0f} ms |"
            for kind, row in self.by_kind().items()
        ]
        loads = [size for _, size in self.loads]
        loaded = (
            f"{statistics.median(loads) / 1e6:.0f} MB in the middle, {max(loads) / 1e6:.0f} MB at the most"
            if loads
            else "not looked at"
        )
        memory = ", ".join(f"{name} {size / 1e6:.0f} MB" for name, size in self.last.memory.items())
        return "\n".join(
            [
                "# The soak\n",
                f"{self.runs:,} runs in one `go-ent serve --http`, asked for by {self.clients} MCP clients, each of which asks for the next as soon",
                f"as it has an answer; half of them speak the older protocol. {self.seconds / 60:.0f} minutes, {len(self.done) / self.seconds:.0f} runs a second; "
                f"{os.cpu_count()} cores, which server,",
                f"guests, clients and the tools' MCP server share; Python {platform.python_version()}; {self.load_before:.1f} other processes",
                "wanted a core when it began. `make soak` does it again.\n",
                "| what | found | bound | |",
                "|---|---|---|---|",
                *rows,
                "",
                ABOUT,
                "| kind | runs | p50 | p90 | p99 | most |",
                "|---|---|---|---|---|---|",
                *kinds,
                "",
                "How it is looked at: times are a client's, from its request to the answer, waiting for a worker and for a core included.",
                "Memory is resident and proportional (PSS, of `/proc/PID/smaps_rollup`), summed over the server, its zygote and its workers, without",
                "the pages of files (libraries and the image, which others map too), at rest: all has been answered, and for",
                f"{STILL_S:g} seconds no process and no thread has ended. At the end that is {memory}; {self.last.mapped / 1e6:.0f} MB of files are mapped. "
                "(`upstream` does not count: it is the",
                f"MCP server of the soak's tools). Under load it was {loaded}.",
                "",
            ]
        )

    def save(self) -> None:
        (DOCS / "soak.json").write_text(json.dumps(self.data(), indent=1) + "\n")
        (DOCS / "soak.md").write_text(self.page())


ABOUT = """\
One run in twenty each raises, is refused, spins, hangs in a tool, hogs memory, floods its output, recurses without end, has a
huge result, is interrupted by its client; the rest is good. The bad ones have the limits that a server of small things would give
everything: 0.2 s of CPU for what spins, half a second for what hangs, 64 MB for the hog. Each answer is compared with what had to
come: its status, its result (another one for each run), its words; and at the end with what is on record of it.
"""


def quantile(values: list[float], at: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(at * len(ordered)))]


def _counted(statuses: dict[str, int]) -> str:
    return ", ".join(f"{count:,} {status}" for status, count in sorted(statuses.items()))

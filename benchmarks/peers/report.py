"""The figures as tables, as JSON, and as a page."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from benchmarks.peers import javascript
from benchmarks.peers.hostile import HOSTILE
from benchmarks.peers.javascript import JavaScript
from benchmarks.peers.measuring import EVERYDAY, Figures
from benchmarks.peers.plot import plot
from benchmarks.peers.registry import PEERS
from benchmarks.peers.words import score, shown

HEAD = """\
# Peers

What people would pick instead of the sandbox, at the same work in one run. Made by `make bench-peers`; the adapters are in
`benchmarks/peers/`, each set up as a careful reader of that project's documentation would. Every timed run is checked: it
must complete, with the right result. {quick}On {machine}.

![the peers side by side](peers.svg)
"""

READING = """\
## How to read it

- **fresh 1 + 1**: the median of a run that sees nothing of the run before, the way the peer recommends (a pooled worker, a
  new interpreter, a new process), with one worker. The peers take turns.
- **40 lines**: a program of parsing, JSON and totals whose source was never seen before.
- **tool call**: one call from the program to a Python function of the host.
- **fib(24)**: pure computing, without the start of the run.
- **memory**: what the peer adds to a host that is a bare Python process, all processes together (PSS), at rest and while a
  program sleeps.
- **everyday**: how many of {everyday} ordinary programs (`benchmarks/peers/everyday/`) give the result that CPython gives.
- **hostile**: how many of {hostile} hostile programs (`benchmarks/peers/hostile.py`) the host survives: it lives and answers
  rightly afterwards, no secret of its environment, memory or files was read, nothing was written, connected or patched, the
  program was gone within twice its time, and memory grew by less than 300 MB, the host's and that of all it started.
  A program counts as survived if every one of its spellings is.
- **statuses**: whether an exception is told as an error, and an endless loop as a timeout.

Peers with a memory limit have 128 MB of it. RestrictedPython and smolagents run programs in the host's own interpreter: they
get a list of modules that may be imported, the everyday ones without `os`, `sys`, `io`, `asyncio` and the like. A longer list
would raise their everyday score and lower the hostile one.
"""

COSTS: dict[str, Callable[[Figures], float | None]] = {
    "fresh 1 + 1": lambda figures: figures.fresh_ms,
    "40 lines": lambda figures: figures.program_ms,
    "tool call": lambda figures: figures.call_us,
    "fib(24)": lambda figures: figures.fib_ms,
    "memory, a program running": lambda figures: figures.running_mb,
    "everyday programs": lambda figures: float(sum(map(bool, figures.everyday.values()))) if figures.everyday else None,
}


@dataclass
class Report:
    """All that one run found."""

    machine: str
    quick: bool
    pythons: dict[str, str] = field(default_factory=dict)
    tool_programs: dict[str, str | None] = field(default_factory=dict)
    figures: dict[str, Figures] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    javascript: JavaScript | None = None

    def table(self) -> str:
        rows = [
            "| | fresh 1 + 1 | 40 lines | tool call | fib(24) | memory | everyday | hostile | statuses |",
            "|---|---|---|---|---|---|---|---|---|",
        ]
        for name, f in self.figures.items():
            statuses = (
                ", ".join(word for word, told in (("error", f.errors_are_errors), ("timeout", f.stops_loops)) if told)
                or "–"
            )
            memory = f"{shown(f.idle_mb)} / {shown(f.running_mb, ' MB')}"
            rows.append(
                f"| {name} | {shown(f.fresh_ms, ' ms')} | {shown(f.program_ms, ' ms')} | {shown(f.call_us, ' µs')} | {shown(f.fib_ms, ' ms')} "
                f"| {memory} | {score(f.everyday)} | {score(f.hostile)} | {statuses} |"
            )
        return "\n".join(rows)

    def page(self) -> str:
        quick = "This was a quick look: few rounds. " if self.quick else ""
        reading = READING.format(everyday=len(EVERYDAY), hostile=len(HOSTILE))
        parts = [
            HEAD.format(machine=self.machine, quick=quick),
            self.table(),
            self._best(),
            reading,
            self._purposes(),
            javascript.section(self.javascript) if self.javascript is not None else "",
            self._hostile(),
            self._everyday(),
            self._failures(),
        ]
        return "\n\n".join(part.strip("\n") for part in parts if part) + "\n"

    def _best(self) -> str:
        """Who is best at what; also among those that nothing hostile harmed."""
        safe = {name: each for name, each in self.figures.items() if each.hostile and not any(each.hostile.values())}
        lines = [
            "## Who is best at what",
            "",
            "| | best | best of those that survive every hostile program |",
            "|---|---|---|",
        ]
        lines += [f"| {title} | {best(self.figures, cost)} | {best(safe, cost)} |" for title, cost in COSTS.items()]
        return "\n".join(lines)

    def _purposes(self) -> str:
        lines = ["## What each is for", ""]
        for name, about in PEERS.items():
            lines.append(f"- **{name}** ({about.where}). {about.purpose}")
            if name in self.missing:
                lines.append(f"  It could not be installed here: {self.missing[name]}")
        return "\n".join(lines)

    def _hostile(self) -> str:
        lines = [
            "## What the hostile programs did",
            "",
            f"| | {' | '.join(self.figures)} |",
            "|---" * (len(self.figures) + 1) + "|",
        ]
        for program in HOSTILE:
            cells = [figures.hostile.get(program, "not tried") or "ok" for figures in self.figures.values()]
            lines.append(f"| {program} | {' | '.join(cells)} |")
        return "\n".join(lines)

    def _everyday(self) -> str:
        lines = ["## Which everyday programs failed", ""]
        for name, figures in self.figures.items():
            failed = [program for program, why in figures.everyday.items() if why]
            lines.append(f"- **{name}**: {', '.join(failed) if failed else 'none'}")
        return "\n".join(lines)

    def _failures(self) -> str:
        lines = [
            f"- **{name}**, {what}: {reason}"
            for name, figures in self.figures.items()
            for what, reason in figures.failures.items()
        ]
        return "\n".join(["## What could not be measured", "", *lines]) if lines else ""

    def save(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        peers = {name: asdict(figures) for name, figures in self.figures.items()}
        data = {"machine": self.machine, "quick": self.quick, "peers": peers, "missing": self.missing}
        if self.javascript is not None:
            data["javascript"] = self.javascript.data()
        (folder / "peers.json").write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n")
        (folder / "peers.svg").write_text(plot(self.figures))
        (folder / "peers.md").write_text(self.page())


def best(peers: dict[str, Figures], cost: Callable[[Figures], float | None]) -> str:
    """The peers of the least cost."""
    costs = {name: found for name, figures in peers.items() if (found := cost(figures)) is not None}
    return ", ".join(name for name, found in costs.items() if found == min(costs.values())) or "–"

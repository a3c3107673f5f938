"""Takes the figures of the peers, all in one run: what is compared is measured in turns."""

from __future__ import annotations

import contextlib
import json
import statistics
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from benchmarks.peers.adapter import last_line, printing_result
from benchmarks.peers.driver import HANGS, Host
from benchmarks.peers.work import FIB, FIB_RESULT, FORTY_LINES, FORTY_LINES_RESULT, ONE_AND_ONE, SLEEPING

EVERYDAY = sorted((Path(__file__).parent / "everyday").glob("*.py"))
SLOW_S = 0.3
SLOW_ROUNDS = 10
FEW_CALLS, MANY_CALLS = 1, 301
FIB_TURNS = 20
EVERYDAY_S = 20.0
MOST_HANGS = 5
FRESH, PROGRAM = "a fresh 1 + 1", "forty lines"


@dataclass
class Figures:
    """What was measured of a peer. None: it can't do it."""

    fresh_ms: float | None = None
    program_ms: float | None = None
    call_us: float | None = None
    fib_ms: float | None = None
    idle_mb: float | None = None
    running_mb: float | None = None
    errors_are_errors: bool = False
    everyday: dict[str, str] = field(default_factory=dict)  # by program, "" or why it failed
    hostile: dict[str, str] = field(default_factory=dict)  # by program, "" or the harm done
    stops_loops: bool = False
    failures: dict[str, str] = field(default_factory=dict)  # by what was to be measured, why it was not


class Measured(Protocol):
    failures: dict[str, str]


class Wrong(Exception):
    """A peer did not do the work; the message says what it said instead."""


@contextlib.contextmanager
def noted(figures: Measured, what: str) -> Iterator[None]:
    """A peer that fails at something, in whatever way, has failed at that alone: the rest, and the other peers, are still
    measured."""
    try:
        yield
    except Exception as failure:
        figures.failures[what] = in_a_line(failure)


def in_a_line(failure: Exception) -> str:
    return " ".join(str(failure).split())[:160] or type(failure).__name__


def seconds(host: Host, code: str, expected: Any, inputs: dict[str, Any] | None = None, timeout: float = 60.0) -> float:
    """How long a program took; it must complete and be right."""
    answer = host.run(code, timeout, inputs)
    if (answer["status"], answer["value"]) != ("completed", expected):
        raise Wrong(f"{answer['status']}: {answer['note'] or answer['value']}")
    return float(answer["seconds"])


def timings(hosts: dict[str, Host], figures: dict[str, Figures], rounds: int) -> None:
    """A fresh `1 + 1`, and a program of forty lines that was never seen before."""
    usual: dict[str, float] = {}
    for name, host in hosts.items():
        with noted(figures[name], FRESH):
            usual[name] = seconds(host, ONE_AND_ONE, 2)
    fresh: dict[str, list[float]] = {name: [] for name in hosts}
    program: dict[str, list[float]] = {name: [] for name in hosts}
    for turn in range(rounds):
        for name, slow in usual.items():
            if slow > SLOW_S and turn >= SLOW_ROUNDS:
                continue
            for what, code, result, times in (
                (FRESH, ONE_AND_ONE, 2, fresh),
                (PROGRAM, f"{FORTY_LINES}# {turn}\n", FORTY_LINES_RESULT, program),
            ):
                if what not in figures[name].failures:
                    with noted(figures[name], what):
                        times[name].append(seconds(hosts[name], code, result))
    for name in hosts:
        figures[name].fresh_ms = median_ms(figures[name], FRESH, fresh[name])
        figures[name].program_ms = median_ms(figures[name], PROGRAM, program[name])


def median_ms(figures: Figures, what: str, times: list[float]) -> float | None:
    return None if what in figures.failures or not times else statistics.median(times) * 1e3


def call_time(host: Host, tool_program: str | None, rounds: int, many_calls: int = MANY_CALLS) -> float | None:
    """One call of the host's function, in µs: many calls less few, divided."""
    if tool_program is None:
        return None
    each = []
    for _ in range(rounds):
        few = seconds(host, tool_program, FEW_CALLS, {"count": FEW_CALLS})
        many = seconds(host, tool_program, many_calls, {"count": many_calls})
        each.append((many - few) / (many_calls - FEW_CALLS) * 1e6)
    return statistics.median(each)


def fib_time(host: Host, rounds: int) -> float:
    """`fib(24)` without the start of the run, in ms; often over, unless it is slow."""
    turns = 1 if seconds(host, FIB, FIB_RESULT, {"count": 1}) > seconds(host, ONE_AND_ONE, 2) + 1 else FIB_TURNS
    each = [
        (seconds(host, FIB, FIB_RESULT, {"count": turns}) - seconds(host, FIB, 0, {"count": 0})) / turns * 1e3
        for _ in range(rounds if turns > 1 else 1)
    ]
    return statistics.median(each)


def memory(host: Host, figures: Figures) -> None:
    host.revive()
    figures.idle_mb = (host.memory_bytes() - host.bare_bytes) / 1e6
    figures.running_mb = (host.memory_while(SLEEPING, 10.0) - host.bare_bytes) / 1e6


def says_error(host: Host) -> bool:
    """Are a raised exception and a syntax error told from success?"""
    return all(
        host.run(code, 10.0)["status"] == "error" for code in ("result = 1 / 0", "result = [", "raise ValueError('no')")
    )


def expected(program: Path) -> Any:
    """What the program's result is in the host's CPython."""
    code = printing_result(program.read_text())
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True, timeout=60)
    return last_line(done.stdout)


def everyday(host: Host, results: dict[str, Any]) -> dict[str, str]:
    """By program: "" if its result is that of the host's CPython, else what came instead. A host that dies of one is
    started again for the next; one that hangs again and again is given up.
    """
    outcomes: dict[str, str] = {}
    for program in EVERYDAY:
        if list(outcomes.values()).count(HANGS) >= MOST_HANGS:
            outcomes[program.stem] = "not tried"
            continue
        try:
            seconds(host, program.read_text(), results[program.stem], timeout=EVERYDAY_S)
            outcomes[program.stem] = ""
        except Exception as failure:
            outcomes[program.stem] = in_a_line(failure)
    return outcomes


def everyday_results() -> dict[str, Any]:
    return {program.stem: json.loads(json.dumps(expected(program))) for program in EVERYDAY}

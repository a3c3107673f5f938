"""The sandbox beside what people would pick instead: `make bench-peers`.

`--quick` takes fewer rounds, `--save` writes docs/benchmarks/peers.md, .json and .svg, and names of peers, or `JavaScript`,
take those alone.
"""

from __future__ import annotations

import contextlib
import os
import platform
import sys
import time
from pathlib import Path

from benchmarks.peers import javascript, measuring
from benchmarks.peers.driver import START_S, Host
from benchmarks.peers.environments import python_of
from benchmarks.peers.judge import Judge
from benchmarks.peers.measuring import Figures, in_a_line, noted
from benchmarks.peers.registry import PEERS
from benchmarks.peers.report import Report

DOCS = Path(__file__).parent.parent / "docs" / "benchmarks"


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def started(names: list[str], stack: contextlib.ExitStack, report: Report) -> dict[str, Host]:
    """The hosts of the peers that can be had; why the others can't is put into the report."""
    hosts = {}
    for name in names:
        say(f"preparing {name}")
        try:
            report.pythons[name] = python_of(name)
            host = stack.enter_context(Host(name, report.pythons[name]))
            about = host.ask({"do": "available"}, START_S)
            reason = about["missing"]
            if not reason:
                host.start()
        except Exception as error:  # one peer's trouble is no other's
            reason = in_a_line(error)
        if reason:
            report.missing[name] = str(reason)
            continue
        hosts[name] = host
        report.tool_programs[name] = about["tool_program"]
        report.figures[name] = Figures()
    return hosts


def measure(report: Report, hosts: dict[str, Host], quick: bool) -> None:
    rounds = 8 if quick else 60
    say("a fresh 1 + 1, and a program of forty lines")
    measuring.timings(hosts, report.figures, rounds)
    results = measuring.everyday_results()
    for name, host in hosts.items():
        say(f"{name}: calls, fib, memory, everyday programs")
        figures = report.figures[name]
        with noted(figures, "memory"):
            measuring.memory(host, figures)
        with noted(figures, "statuses"):
            figures.errors_are_errors = measuring.says_error(host)
        with noted(figures, "a tool call"):
            figures.call_us = measuring.call_time(host, report.tool_programs[name], 3 if quick else 9)
        with noted(figures, "fib(24)"):
            figures.fib_ms = measuring.fib_time(host, 2 if quick else 7)
        figures.everyday = measuring.everyday(host, results)


def attack(report: Report, quick: bool) -> None:
    for name, figures in report.figures.items():
        say(f"{name}: hostile programs")
        with noted(figures, "hostile programs"), Judge(name, report.pythons[name], 1.0 if quick else 2.0) as judge:
            verdicts = judge.try_all()
            figures.hostile = {program: verdict.harm for program, verdict in verdicts.items()}
            figures.stops_loops = verdicts["endless loop"].said == "timeout"


def main() -> None:
    quick = "--quick" in sys.argv
    wanted = [argument for argument in sys.argv[1:] if not argument.startswith("--")]
    if unknown := set(wanted) - {*PEERS, "JavaScript"}:
        raise SystemExit(f"no such peer: {', '.join(sorted(unknown))}; there are {', '.join(PEERS)}, JavaScript")
    report = Report(
        f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}, Python {platform.python_version()}", quick
    )
    with contextlib.ExitStack() as stack:
        hosts = started([name for name in wanted or PEERS if name in PEERS], stack, report)
        measure(report, hosts, quick)
    if not wanted or "JavaScript" in wanted:
        say("JavaScript")
        report.javascript = javascript.measure(quick)
    attack(report, quick)
    print(report.table())
    if report.javascript is not None:
        print(javascript.section(report.javascript))
    for name, reason in report.missing.items():
        print(f"{name} can't be had here: {reason}")
    for name, figures in report.figures.items():
        for what, reason in figures.failures.items():
            print(f"{name} failed at {what}: {reason}")
    if "--save" in sys.argv:
        report.save(DOCS)


if __name__ == "__main__":
    main()

"""The peers that run JavaScript: go-ent beside quickjs-emscripten and `node:vm`, which run inside a node process."""

from __future__ import annotations

import json
import re
import statistics
import sys
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from benchmarks.peers.adapter import MEMORY_MB
from benchmarks.peers.driver import ROOT, Host
from benchmarks.peers.environments import HERE, node_home
from benchmarks.peers.measuring import MANY_CALLS, Wrong, call_time, in_a_line, noted, seconds
from benchmarks.peers.registry import JAVASCRIPT_PEERS
from benchmarks.peers.words import score, shown

OURS = "go-ent, JavaScript"
CORPUS = ROOT / "tests" / "sandbox" / "corpus" / "javascript"
RESULT = "//=\n"  # the value of a program stands behind it
OUR_CALLING = "let x;\nfor (let n = 0; n < count; n++) x = await tools.lookup({n});\nx"
CALLING = "let x;\nfor (let n = 0; n < count; n++) x = lookup(n);\nx"
# JSON with what ours has besides: integers of any length, and typed arrays as lists.
PLAIN = """const plain = (key, value) => typeof value === "bigint" ? { big: String(value) }
  : ArrayBuffer.isView(value) ? [...value] : value;"""
EVERYDAY_S = 10.0
FRESH = "a fresh 1 + 2"
CALLS_IN_PROCESS = 30_001  # each takes too little for fewer to show


@dataclass
class JavaScriptFigures:
    """What was measured of a peer. None: it failed."""

    fresh_s: list[float] = field(default_factory=list)
    call_us: float | None = None
    runs_per_s: float | None = None
    everyday: dict[str, str] = field(default_factory=dict)  # by program, "" or why it failed
    failures: dict[str, str] = field(default_factory=dict)

    @property
    def fresh_ms(self) -> float | None:
        return statistics.median(self.fresh_s) * 1e3 if self.fresh_s and FRESH not in self.failures else None


@dataclass
class JavaScript:
    """All of them, and why others can't be had."""

    figures: dict[str, JavaScriptFigures] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    def data(self) -> dict[str, Any]:
        """It as JSON: the medians, not each time."""
        peers = {
            name: {
                "fresh_ms": each.fresh_ms,
                "call_us": each.call_us,
                "runs_per_s": each.runs_per_s,
                "everyday": each.everyday,
                "failures": each.failures,
            }
            for name, each in self.figures.items()
        }
        return {"peers": peers, "missing": self.missing}


def programs() -> dict[str, tuple[str, Any]]:
    """The everyday programs: what is run, and the value that is expected."""
    expected = json.loads((CORPUS / "expected.json").read_text())
    parts = re.split(r"^//// ", (CORPUS / "everyday.js").read_text(), flags=re.MULTILINE)[1:]
    sources = dict(part.split("\n", 1) for part in parts)
    return {name: (source, expected[name][0]) for name, source in sources.items()}


def wrapped(source: str) -> str:
    """A program for a peer that has no `await` at the top: a promise of its value, as JSON."""
    body, _, value = source.partition(RESULT)
    return f"{PLAIN}\n(async () => {{ {body}\nreturn JSON.stringify(({value.strip().rstrip(';')}\n), plain) }})()"


def unwrapped(value: Any) -> Any:
    if isinstance(value, dict):
        if value.keys() == {"big"}:
            return int(value["big"])
        return {key: unwrapped(item) for key, item in value.items()}
    return [unwrapped(item) for item in value] if isinstance(value, list) else value


def host_of(peer: str) -> Host:
    """Raises `Missing` where there is no node."""
    if peer == OURS:
        return Host(peer, sys.executable)
    home = node_home()
    node = home / "node_modules" / "node" / "bin" / "node"
    return Host(peer, "", command=[node, HERE / "node" / "javascript.mjs", home, peer, str(MEMORY_MB)])


def started(stack: ExitStack, found: JavaScript) -> dict[str, Host]:
    """The hosts of the peers that can be had; why the others can't is noted."""
    hosts = {}
    for peer in JAVASCRIPT_PEERS:
        try:
            host = stack.enter_context(host_of(peer))
            host.start()
        except Exception as error:  # one peer's trouble is no other's
            found.missing[peer] = in_a_line(error)
            continue
        hosts[peer] = host
        found.figures[peer] = JavaScriptFigures()
    return hosts


def measure(quick: bool) -> JavaScript:
    """A peer that fails at something has failed at that alone."""
    found = JavaScript()
    with ExitStack() as stack:
        hosts = started(stack, found)
        for _ in range(20 if quick else 200):
            for peer, host in hosts.items():
                if FRESH not in found.figures[peer].failures:
                    with noted(found.figures[peer], FRESH):
                        found.figures[peer].fresh_s.append(seconds(host, "1 + 2", 3))
        for peer, host in hosts.items():
            figures = found.figures[peer]
            calls = (OUR_CALLING, MANY_CALLS) if peer == OURS else (CALLING, CALLS_IN_PROCESS)
            with noted(figures, "a tool call"):
                figures.call_us = call_time(host, calls[0], 3 if quick else 9, calls[1])
            with noted(figures, "runs a second"):
                host.revive()
                figures.runs_per_s = runs_per_second(host, 1.0 if quick else 3.0)
            figures.everyday = everyday(host)
    return found


def runs_per_second(host: Host, for_s: float) -> float:
    answer = host.ask({"do": "burst", "code": "1 + 2", "seconds": for_s}, for_s + 60)
    if "count" not in answer:
        raise Wrong(str(answer.get("note")))
    return float(answer["count"]) / for_s


def everyday(host: Host) -> dict[str, str]:
    outcomes = {}
    for name, (source, expected) in programs().items():
        try:
            answer = host.run(source if host.peer == OURS else wrapped(source), EVERYDAY_S)
            value = answer["value"]
            if answer["status"] == "completed" and host.peer != OURS:
                value = unwrapped(json.loads(value))
            right = answer["status"] == "completed" and value == expected
            outcomes[name] = "" if right else answer["note"] or "another result"
        except Exception as failure:
            outcomes[name] = in_a_line(failure)
    return outcomes


READING = """\
- **fresh 1 + 2**: the median of a run in a new guest, runtime or context; the peers take turns. The time of the two inside node
  is taken there, without the way to node and back.
- **runs a second**: the same as often as it goes. The two inside node have one thread of one core; go-ent has all cores, of
  which its host takes a part.
- **tool call**: one call from the program to a function of the host. Inside node that is a call in the same process; go-ent's
  goes to another process, is checked, counted and limited, and comes back.
- **everyday**: how many of {everyday} programs of go-ent's own corpus (`tests/sandbox/corpus/javascript/`) give node's result. Besides the
  language, a program has in the two inside node what whoever embeds them gives it: here `console`, as they are set up. Most that fail
  want `setTimeout`, `URL`, `Buffer` or `require`.
"""


def section(found: JavaScript) -> str:
    """What the page says of them: a column each."""
    figures = found.figures
    rows: list[tuple[str, list[str]]] = [
        ("fresh 1 + 2", [shown(each.fresh_ms, " ms") for each in figures.values()]),
        ("runs a second", [shown(each.runs_per_s) for each in figures.values()]),
        ("tool call", [shown(each.call_us, " µs") for each in figures.values()]),
        ("everyday", [score(each.everyday) for each in figures.values()]),
    ]
    lines = ["## JavaScript", "", f"| | {' | '.join(figures)} |", "|---" * (len(figures) + 1) + "|"]
    lines += [f"| {what} | {' | '.join(cells)} |" for what, cells in rows]
    lines += ["", READING.format(everyday=len(programs()))]
    for name, about in JAVASCRIPT_PEERS.items():
        lines.append(f"- **{name}** ({about.where}). {about.purpose}")
        if name in found.missing:
            lines.append(f"  It can't be had here: {found.missing[name]}")
    for name, each in figures.items():
        lines += [f"- **{name}** failed at {what}: {reason}" for what, reason in each.failures.items()]
    return "\n".join(lines)

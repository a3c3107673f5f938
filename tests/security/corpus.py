"""The adversarial corpus: which attacks there are, in which family, by which mechanism.

An attack is a test in this folder, marked with what it does:

    @attack("jail", "a frame of a generator")
    def test_a_generators_frame_is_out_of_reach(...): ...

or one row of a table of them:

    @pytest.mark.parametrize("source", [pytest.param("…", marks=attack("jail", "a frame of a generator"))])

The mark is what counts, and it counts once: a test parametrised over many spellings of one trick is one attack. A
mechanism is a few words, distinct within its family. `attacks` finds them where pytest does, on the test functions, so
that what is counted is what is run.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support import ROOT

FAMILIES = {
    "jail": "Python jail escapes: out of the policy's sight, and at the WebAssembly wall",
    "bridge": "Abuse of the bridge between guest and host: a broken guest, and code that speaks for it",
    "resources": "Memory, processor, time, output and depth without end",
    "reset": "A guest that is past the policy and writes wherever it can, before it is reset for the next run",
    "state": "What survives from run to run, or repeats",
    "paths": "Paths and names in the store, the config and the ids of executions",
    "runners": "Prompts and arguments injected into runners",
    "http": "The HTTP server: tokens, hosts, origins, sizes, slowness",
    "console": "The console: other pages, other users, forged forms, hostile text, pictures and files",
    "secrets": "Secrets on their way to a guest, a log, an error, a journal",
    "records": "Forged, edited, swapped and damaged records: executions, journals, budgets, indexes, trust",
    "upstream": "Hostile MCP servers and APIs: what they list, answer, ask and refer to",
    "worker": "A worker process that was taken over, and what the kernel holds it to; the cache that its code comes "
    "from",
    "folder": "A folder that nobody has trusted: what lies in it, and what its settings name",
    "grants": "Tools that were not granted: budgets, approvals, schemas, names of tools",
    "terminal": "Words and pictures that act on the terminal of the person who looks at them",
}
NOT_RUN = frozenset(("skip", "xfail"))  # and so not counted; those that only some kernels can run are


class Attack(NamedTuple):
    """One attack: what it is, and the test that makes it."""

    family: str
    mechanism: str
    test: str


def attack(family: str, mechanism: str) -> pytest.MarkDecorator:
    """Mark a test, or one row of a parametrised test, as an attack of the corpus."""
    if family not in FAMILIES:
        raise ValueError(f"no family {family!r}; there are {', '.join(FAMILIES)}")
    return pytest.mark.attack(family, mechanism)


def attacks() -> list[Attack]:
    """Every attack in this folder, by family and mechanism."""
    found: list[Attack] = []
    for path in sorted(Path(__file__).parent.glob("test_*.py")):
        module = importlib.import_module(f"{__package__}.{path.stem}")
        for name, test in _tests(module):
            found += [Attack(mark.args[0], mark.args[1], f"{path.name}::{name}") for mark in _marks(test)]
    order = list(FAMILIES)
    return sorted(found, key=lambda one: (order.index(one.family), one.mechanism))


def _tests(place: Any) -> Iterator[tuple[str, Any]]:
    for name, value in vars(place).items():
        if name.startswith("test_") and callable(value):
            yield name, value
        elif name.startswith("Test") and isinstance(value, type):
            yield from ((f"{name}::{inner}", test) for inner, test in _tests(value))


def _marks(test: Any) -> Iterator[pytest.Mark]:
    marks: list[pytest.Mark] = getattr(test, "pytestmark", [])
    if any(mark.name in NOT_RUN for mark in marks):
        return
    for mark in marks:
        if mark.name == "attack":
            yield mark
        elif mark.name == "parametrize":
            for row in mark.args[1]:
                of_row = getattr(row, "marks", ())
                if not any(each.name in NOT_RUN for each in of_row):
                    yield from (each for each in of_row if each.name == "attack")


def page() -> str:
    """`docs/reference/attacks.md`: the corpus, for people."""
    found = attacks()
    parts = [
        "<!-- Made by `python -m tests.security.corpus` from the tests: change them there. -->\n",
        "# The attacks\n",
        f"What `tests/security/` tries: {len(found)} mechanisms in {len(FAMILIES)} families, each with the "
        "outcome that it must have.",
        "A test that tries one trick in many spellings counts once.\n",
    ]
    for family, about in FAMILIES.items():
        ours = [one.mechanism for one in found if one.family == family]
        parts += [f"## {family.capitalize()}: {len(ours)}\n", f"{about}.\n", "; ".join(ours) + ".\n"]
    return "\n".join(parts)


PAGE = ROOT / "docs" / "reference" / "attacks.md"

if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")

"""Going back to a checkpoint: what came after it stays in the journal, and counts no more."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import field
from typing import Any

from go_ent.dataclass import dataclass
from go_ent.engine.core.errors import ExecutionConflict
from go_ent.engine.executions.state import Checkpoint, ExecutionState, Lines
from go_ent.engine.executions.storage import Record
from go_ent.sandbox.host.broker import CHECKPOINT

OF_A_CALL = frozenset({"begun", "answer", "asked", "decided", "unfinished"})
Ranges = tuple[tuple[int, int], ...]
MOST_NAMED = 10


def find_checkpoint(state: ExecutionState, name: str) -> Checkpoint:
    """The checkpoint with that number, or that label if no other has it."""
    kept = state.checkpoints
    fitting = [one for one in kept if str(one.seq) == name] or [one for one in kept if one.label == name]
    if len(fitting) == 1:
        return fitting[0]
    there = ", ".join(f"{one.seq} ({one.label})" for one in (fitting or kept)[-MOST_NAMED:]) or "none"
    if fitting:
        raise ExecutionConflict(
            f"several checkpoints of execution {state.id} are called {name[:80]!r}: give the number of one: {there}"
        )
    raise ExecutionConflict(f"execution {state.id} has no checkpoint {name[:80]!r}; there are: {there}")


def standing(records: Iterable[Record], undone: Ranges) -> Iterator[Record]:
    """The records that count. What became of a call that code had made before the checkpoint does: that call is not
    made again.
    """
    made: set[str] = set()
    for record in records:
        kind, path = record["kind"], str(record.get("path"))
        stands = not any(after < record["seq"] <= until for after, until in undone)
        if stands and kind == "call":
            made.add(path)
        if stands or (kind in OF_A_CALL and path in made):
            yield record


@dataclass(slots=True)
class Undoing:
    """What going back to a checkpoint undoes: steps, lines, requests and decisions, and calls that may have had
    effects.
    """

    checkpoint: Checkpoint
    until: int
    steps: set[str] = field(default_factory=set)
    asked: set[str] = field(default_factory=set)
    effects: dict[str, Record] = field(default_factory=dict)  # by path: the records of calls that were begun
    lines: Lines | None = None

    @classmethod
    def of(cls, state: ExecutionState, records: Iterable[Record], checkpoint: Checkpoint, until: int) -> Undoing:
        made = cls(checkpoint, until)
        calls: dict[str, Record] = {}
        before: set[str] = set()
        done = failed = 0
        for record in standing(records, state.undone):
            kind, path, after = record["kind"], str(record.get("path")), record["seq"] > checkpoint.seq
            if kind == "call" and after and record.get("tool") != CHECKPOINT:
                calls[path] = record
            elif kind == "call":
                before.add(path)
            elif kind == "line" and not after:
                done, failed = (
                    done + (record.get("status") == "completed"),
                    failed + (record.get("status") != "completed"),
                )
            if not after:
                continue
            if kind in ("step_finished", "try", "started"):
                made.steps.add(str(record.get("step")))
            elif kind in ("asked", "decided") and path not in before:
                made.asked.add(path)
            elif kind == "begun" and not record.get("retry") and path in calls:
                made.effects[path] = calls[path]
        made.lines = None if state.lines is None else Lines(done=done, failed=failed)
        return made

    @property
    def record(self) -> dict[str, Any]:
        return {
            "label": self.checkpoint.label,
            "after": self.checkpoint.seq,
            "until": self.until,
            "steps": sorted(self.steps),
            "asked": sorted(self.asked),
            "lines": None if self.lines is None else self.lines.model_dump(),
        }


def gone_back(state: ExecutionState, record: Record) -> dict[str, Any]:
    """What the record of it changes. Done twice, it changes no more."""
    after, until = record["after"], record["until"]
    if not (type(after) is int and type(until) is int and 0 < after <= until < record["seq"] + 1):
        raise ValueError("it goes back to no record of before")
    for step in record["steps"]:
        for kept in (state.results, state.begun, state.sessions):
            kept.pop(step, None)
    for path in record["asked"]:
        state.requests.pop(path, None)
        state.decisions.pop(path, None)
    return {
        "undone": (*(one for one in state.undone if one[0] < after), (after, until)),
        "checkpoints": tuple(one for one in state.checkpoints if one.seq <= after),
        "lines": None if record["lines"] is None else Lines.model_validate(record["lines"]),
        "status": "interrupted",
        "finished": None,
        "result": None,
        "error": None,
        "final": False,
    }

"""Tools that past code would make: runs equal up to literals and names, as a function with those as parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, Field, ValidationError

from go_ent.composer.codemode.run_log import RunLog, RunRecord
from go_ent.composer.composed import toolfile
from go_ent.composer.composed.toolfile import NAME, Example, RecordedCall
from go_ent.composer.errors import StoreError
from go_ent.sandbox import Sandbox

MOST_RUNS = 2000
MOST_BYTES = 4 << 20
MOST_EXAMPLES = 3
LIMITS: dict[str, Any] = {"timeout_s": 30, "cpu_s": 20}


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A tool that could be saved as it is, and how many runs it stands for."""

    name: str
    runs: int
    source: str


class _Example(BaseModel):
    run: int
    inputs: dict[str, Any]


class _Proposal(BaseModel):
    """What the guest makes of the runs. It has read their code, so it is taken for what it is: text to be composed."""

    name: str
    source: str = Field(max_length=200_000)
    runs: list[int]
    examples: list[_Example]


async def suggest(
    journal: RunLog, box: Sandbox, *, least: int = 2, taken: frozenset[str] = frozenset()
) -> list[Suggestion]:
    """Suggestions from the runs of code that completed, the most frequent first."""
    # Code of a session stands on what was run before it.
    found = [
        entry
        for entry in journal.read()
        if entry.kind == "code" and entry.status == "completed" and entry.source and not entry.session
    ]
    records: list[RunRecord] = []
    size = 0
    for entry in reversed(found[-MOST_RUNS:]):
        size += len(entry.source or "") + len(str(entry.inputs))
        if size > MOST_BYTES:
            break
        records.append(entry)
    records.reverse()
    if len(records) < least:
        return []
    runs = [{"source": entry.source, "inputs": entry.inputs or {}} for entry in records]
    answer = await box.suggest(runs, least, limits=box.limits.tightened(LIMITS))
    if answer.status != "completed" or not isinstance(answer.result, list):
        raise StoreError(
            f"the past runs can't be compared: {answer.error.message if answer.error is not None else answer.status}"
        )
    suggestions = []
    names = set(taken)
    for item in answer.result[:50]:
        try:
            made = _one(_Proposal.model_validate(item), records, names)
        except (ValidationError, ValueError, IndexError):
            continue
        if made is not None:
            names.add(made.name)
            suggestions.append(made)
    return suggestions


def _one(proposal: _Proposal, records: list[RunRecord], taken: set[str]) -> Suggestion | None:
    name, number = proposal.name, 2
    while name in taken:
        name, number = f"{proposal.name[:56]}_{number}", number + 1
    if not NAME.fullmatch(name):
        return None
    examples: dict[str, Example] = {}
    for given in reversed(proposal.examples):
        entry = records[given.run]
        if not entry.kept or any(not call.kept or call.arguments is None for call in entry.calls):
            continue
        calls = [
            RecordedCall(
                tool=call.name, arguments=call.arguments, result=call.result, error=call.error if not call.ok else None
            )
            for call in entry.calls
        ]
        examples.setdefault(repr(given.inputs), Example(inputs=given.inputs, result=entry.result, calls=calls))
        if len(examples) == MOST_EXAMPLES:
            break
    body = proposal.source.replace(f"async def {proposal.name}(", f"async def {name}(", 1)
    return Suggestion(name, len(proposal.runs), toolfile.write(name, body, examples=list(examples.values())))

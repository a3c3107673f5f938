"""Tools that past code would make: runs equal up to literals and names, as a function with those as parameters."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, Field, ValidationError

from go_ent.composer.catalogue import stubs
from go_ent.composer.catalogue.catalogue import Catalogue
from go_ent.composer.catalogue.scope import CallRecord
from go_ent.composer.codemode.past_runs import PastRun, PastRuns
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
    past: PastRuns,
    box: Sandbox,
    catalogue: Catalogue,
    *,
    least: int = 2,
    taken: frozenset[str] = frozenset(),
) -> list[Suggestion]:
    """Suggestions from the runs of code that completed, the most frequent first."""
    past_runs = await asyncio.to_thread(_newest, past)
    if len(past_runs) < least:
        return []
    runs = [{"source": run.source, "inputs": run.inputs} for run in past_runs]
    answer = await box.suggest(runs, least, limits=box.limits.tightened(LIMITS))
    if answer.status != "completed" or not isinstance(answer.result, list):
        raise StoreError(
            f"the past runs can't be compared: {answer.error.message if answer.error is not None else answer.status}"
        )
    suggestions = []
    names = set(taken)
    for item in answer.result[:50]:
        try:
            made = _one(_Proposal.model_validate(item), past_runs, names, catalogue)
        except (ValidationError, ValueError, IndexError):
            continue
        if made is not None:
            names.add(made.name)
            suggestions.append(made)
    return suggestions


def _newest(past: PastRuns) -> list[PastRun]:
    """The newest runs of code, the oldest of them first."""
    runs: list[PastRun] = []
    size = 0
    for run in past():
        if run.source is None:
            continue
        size += len(run.source) + len(str(run.inputs))
        if size > MOST_BYTES or len(runs) == MOST_RUNS:
            break
        runs.append(run)
    return runs[::-1]


def _one(
    proposal: _Proposal,
    past_runs: list[PastRun],
    taken: set[str],
    catalogue: Catalogue,
) -> Suggestion | None:
    name, number = proposal.name, 2
    while name in taken:
        name, number = f"{proposal.name[:56]}_{number}", number + 1
    if not NAME.fullmatch(name):
        return None
    examples: dict[str, Example] = {}
    for given in reversed(proposal.examples):
        run = past_runs[given.run]
        calls = [
            RecordedCall(tool=call.name, arguments=_arguments(call, catalogue), result=call.result, error=call.error)
            for call in run.calls
        ]
        if not run.kept or any(not call.kept for call in run.calls) or any(call.arguments is None for call in calls):
            continue
        examples.setdefault(repr(given.inputs), Example(inputs=given.inputs, result=run.result, calls=calls))
        if len(examples) == MOST_EXAMPLES:
            break
    body = proposal.source.replace(f"async def {proposal.name}(", f"async def {name}(", 1)
    return Suggestion(name, len(proposal.runs), toolfile.write(name, body, examples=list(examples.values())))


def _arguments(call: CallRecord, catalogue: Catalogue) -> dict[str, Any] | None:
    """The arguments of a call, all by name; None if they are not known."""
    if call.arguments is None or not call.positional:
        return call.arguments
    spec = catalogue.known(call.name)
    names = [] if spec is None else stubs.parameters(spec)
    if len(names) < len(call.positional):
        return None
    return {**dict(zip(names, call.positional, strict=False)), **call.arguments}

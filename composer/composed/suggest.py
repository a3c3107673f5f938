"""Tools that past code would make: runs equal up to literals and names, as a function with those as parameters."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any

from pydantic import BaseModel, Field, ValidationError

from go_ent.composer.catalogue import stubs
from go_ent.composer.catalogue.catalogue import Catalogue
from go_ent.composer.catalogue.scope import CallRecord
from go_ent.composer.codemode.past_runs import PastRun, PastRuns
from go_ent.composer.composed import toolfile
from go_ent.composer.composed.toolfile import NAME, Example, RecordedCall
from go_ent.composer.errors import ComposeRefused, StoreError
from go_ent.dataclass import dataclass
from go_ent.sandbox import Sandbox
from go_ent.sandbox.worker.languages import Language

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
    language: Language = "python"


class _Example(BaseModel):
    run: int
    inputs: dict[str, Any]


class _Proposal(BaseModel):
    """What the guest makes of the runs. It has read their code, so it is taken for what it is: text to be composed."""

    name: str
    source: str = Field(max_length=200_000)
    runs: list[int]
    examples: list[_Example]


class _Made(BaseModel):
    """What the guest makes of one run."""

    source: str = Field("", max_length=200_000)
    inputs: dict[str, Any] = {}
    problems: list[str] = []


async def suggest(
    past: PastRuns,
    box: Sandbox,
    catalogue: Catalogue,
    *,
    least: int = 2,
    saved: Mapping[str, str] | None = None,
) -> list[Suggestion]:
    """Suggestions from the runs of code that completed, the most frequent first; none of what one of the *saved* tools,
    whose sources are given by name, does already.
    """
    suggestions = []
    names = set(saved or {})
    for language, past_runs in (await asyncio.to_thread(_newest, past)).items():
        if len(past_runs) < least:
            continue
        for proposal in await _proposals(past_runs, box, least, _within(saved or {}, MOST_BYTES)):
            made = _one(proposal, past_runs, names, catalogue, language)
            if made is not None:
                names.add(made.name)
                suggestions.append(made)
    return sorted(suggestions, key=lambda suggestion: -suggestion.runs)


@dataclass(frozen=True, slots=True)
class Wanted:
    """A tool that a run is to become: its name, what it is for, and the constants that become parameters."""

    name: str
    about: str
    constants: Mapping[str, Any] = field(default_factory=dict)


async def tool_of(run: PastRun, wanted: Wanted, box: Sandbox, catalogue: Catalogue) -> str:
    """The source of a tool that does what a run did: its inputs and the constants are parameters, its calls and its
    result an example.

    Raises `StoreError` if none can be made of it, `ComposeRefused` if a constant is not found.
    """
    name = wanted.name
    if run.source is None:
        raise StoreError("no tool can be made of that run: it is code that completed that can")
    if not NAME.fullmatch(name):
        raise StoreError(f"{name[:80]!r} is no name for a tool: lower-case letters, digits and _, the first a letter")
    told = {"source": run.source, "inputs": run.inputs, "result": run.result}
    answer = await box.as_tool(
        told, wanted.constants, name, wanted.about, limits=box.limits.tightened(LIMITS), language=run.language
    )
    if answer.status != "completed":
        raise StoreError(f"no tool can be made of that run: {answer.error.message if answer.error else answer.status}")
    try:
        made = _Made.model_validate(answer.result)
    except ValidationError:
        raise StoreError("no tool can be made of that run: what the guest made of it can't be read") from None
    if made.problems or not made.source:
        raise ComposeRefused(name, [problem[:500] for problem in made.problems] or ["it has no code"])
    proposal = _Proposal(name=name, source=made.source, runs=[0], examples=[_Example(run=0, inputs=made.inputs)])
    tool = _one(proposal, [run], set(), catalogue, run.language)
    assert tool is not None
    return tool.source


def _within(saved: Mapping[str, str], room: int) -> dict[str, str]:
    """As many of the sources as there is room for."""
    chosen = {}
    for name, source in saved.items():
        room -= len(source)
        if room < 0:
            break
        chosen[name] = source
    return chosen


async def _proposals(past_runs: list[PastRun], box: Sandbox, least: int, saved: Mapping[str, str]) -> list[_Proposal]:
    """What a guest makes of runs of code in one language; what is not as it should be is passed over."""
    runs = [{"source": run.source, "inputs": run.inputs, "result": run.result} for run in past_runs]
    answer = await box.suggest(runs, least, saved, limits=box.limits.tightened(LIMITS), language=past_runs[0].language)
    if answer.status != "completed" or not isinstance(answer.result, list):
        raise StoreError(
            f"the past runs can't be compared: {answer.error.message if answer.error is not None else answer.status}"
        )
    proposals = []
    for item in answer.result[:50]:
        with contextlib.suppress(ValidationError, ValueError):
            proposal = _Proposal.model_validate(item)
            if all(0 <= example.run < len(past_runs) for example in proposal.examples):
                proposals.append(proposal)
    return proposals


def _newest(past: PastRuns) -> dict[Language, list[PastRun]]:
    """The newest runs of code by their language, the oldest of them first."""
    runs: dict[Language, list[PastRun]] = {}
    size = count = 0
    for run in past():
        if run.source is None:
            continue
        size += len(run.source) + len(str(run.inputs)) + len(str(run.result))
        count += 1
        if size > MOST_BYTES or count > MOST_RUNS:
            break
        runs.setdefault(run.language, []).append(run)
    return {language: newest[::-1] for language, newest in runs.items()}


def _one(
    proposal: _Proposal,
    past_runs: list[PastRun],
    taken: set[str],
    catalogue: Catalogue,
    language: Language = "python",
) -> Suggestion | None:
    name, number = proposal.name, 2
    while name in taken:
        name, number = f"{proposal.name[:56]}_{number}", number + 1
    if not NAME.fullmatch(name):
        return None
    examples: dict[str, Example] = {}
    for given in reversed(proposal.examples):
        run = past_runs[given.run]
        calls = recorded(run.calls, catalogue)
        if not run.kept or calls is None:
            continue
        examples.setdefault(repr(given.inputs), Example(inputs=given.inputs, result=run.result, calls=calls))
        if len(examples) == MOST_EXAMPLES:
            break
    word = "async def" if language == "python" else "async function"
    body = proposal.source.replace(f"{word} {proposal.name}(", f"{word} {name}(", 1)
    source = toolfile.write(name, body, examples=list(examples.values()), language=language)
    return Suggestion(name, len(proposal.runs), source, language)


def recorded(made: Iterable[CallRecord], catalogue: Catalogue) -> list[RecordedCall] | None:
    """Calls of a run as an example has them; None if not all of them are known."""
    calls = []
    for call in made:
        arguments = _arguments(call, catalogue)
        if arguments is None or not call.kept:
            return None
        calls.append(RecordedCall(tool=call.name, arguments=arguments, result=call.result, error=call.error))
    return calls


def _arguments(call: CallRecord, catalogue: Catalogue) -> dict[str, Any] | None:
    """The arguments of a call, all by name; None if they are not known."""
    if call.arguments is None or not call.positional:
        return call.arguments
    spec = catalogue.known(call.name)
    names = [] if spec is None else stubs.parameters(spec)
    if len(names) < len(call.positional):
        return None
    return {**dict(zip(names, call.positional, strict=False)), **call.arguments}

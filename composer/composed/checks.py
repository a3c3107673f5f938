"""What must hold before a composed tool is saved, and whether its examples come true."""

from __future__ import annotations

import json
from typing import Any

from go_ent.composer.catalogue.catalogue import Catalogue
from go_ent.composer.catalogue.grants import Grants
from go_ent.composer.catalogue.reserved import QUESTIONS
from go_ent.composer.catalogue.scope import MAX_DEPTH
from go_ent.composer.composed.differences import Difference, differences, same
from go_ent.composer.composed.recordings import Recordings, UnmatchedCall
from go_ent.composer.composed.source import ComposedTools
from go_ent.composer.composed.toolfile import Example
from go_ent.composer.errors import ComposerError, ToolNotFound
from go_ent.dataclass import dataclass
from go_ent.sandbox import Run

MAX_PRINTED = 2000  # characters
MOST_CALLS = 5
MOST_LINES = 20


@dataclass(frozen=True, slots=True)
class ExampleOutcome:
    """How an example went. `problem` is None when it came true; else the rest says more of it."""

    number: int
    problem: str | None
    ms: float
    differences: tuple[Difference, ...] = ()  # where the result differs from what was expected
    printed: str = ""  # the end of what it printed
    unmatched: tuple[UnmatchedCall, ...] = ()  # calls that no recorded answer is for
    unused: tuple[str, ...] = ()  # recorded calls that were not made

    @property
    def lines(self) -> list[str]:
        """What is known beside the problem, for people and models."""
        said = [line for one in self.differences for line in one.lines] if self._says_more else []
        for call in self.unmatched:
            said.append(f"  no recorded call matches {call.tool} with {_short(call.arguments)}")
            said += [f"  {line}" for one in call.differences for line in one.lines]
        said += [f"  recorded, but not called: {call}" for call in self.unused]
        if self.printed:
            said += ["  it printed:", *(f"    {line}" for line in self.printed.splitlines()[-MOST_LINES:])]
        return said

    @property
    def told(self) -> str | None:
        """The problem, and on lines of their own what is known beside it."""
        return None if self.problem is None else "\n".join([self.problem, *self.lines])

    @property
    def _says_more(self) -> bool:
        """Whether the differences say more than that one short value came for another."""
        return len(self.differences) > 1 or any(one.where != "result" for one in self.differences)


async def requires_problems(requires: tuple[str, ...], catalogue: Catalogue, grants: Grants, name: str) -> list[str]:
    """What is wrong with the tools that a tool requires: not granted, or not there."""
    problems = []
    for required in requires:
        if required == name:
            problems.append(f"it calls itself: {name} → {name}")
        elif required == "*":
            pass  # whatever is granted, and nothing else: for tools that are told what to call
        elif required.endswith("*"):
            if not grants.allows(f"{required[:-1]}x"):
                problems.append(f"it requires {required}, and not all of that is granted to this project")
        elif not grants.allows(required):
            problems.append(f"it requires {required}: {await catalogue.refusal(required, grants)}")
        else:
            try:
                await catalogue.find(required)
            except ToolNotFound:
                problems += await _missing_problems(required, catalogue, grants)
            except ComposerError:
                pass  # a source that can't be reached now doesn't keep a tool from being saved
    return problems


async def _missing_problems(required: str, catalogue: Catalogue, grants: Grants) -> list[str]:
    if required == "call":
        return ["it uses tools.call: write tools.namespace.name(…), so that it can be told which tools it calls"]
    if required in QUESTIONS:
        return []  # what `tools` itself answers
    if any(known.startswith(f"{required}.") for known in catalogue.known_names(grants)):
        return [f"it passes tools.{required} on, which is a namespace: list the tools it calls in `requires`"]
    return [f"it requires {required}: there is no tool {required}{await catalogue.meant(required, grants)}"]


def name_problems(name: str, catalogue: Catalogue) -> list[str]:
    """A composed tool stands at the top level, beside the namespaces and the program's own functions."""
    if (taken := catalogue.namespace_problem(name)) is not None:
        return [taken]
    known = catalogue.known(name)
    if known is None and name in QUESTIONS:
        return [f"tools.{name} is what code asks about its tools: choose another name"]
    if known is not None and not known.origin.startswith("composed tool"):
        return [f"{name} is taken by {known.origin}: choose another name"]
    return []


def cycle_problems(name: str, requires: tuple[str, ...], composed: ComposedTools) -> list[str]:
    """A cycle among composed tools, or a chain of them that is too deep, once *name* requires *requires*."""
    needs = {tool.name: tool.interface.requires for tool in composed.found.values()}
    needs[name] = requires

    known: dict[str, tuple[str, ...]] = {}

    def deepest(at: str, path: tuple[str, ...]) -> tuple[str, ...]:
        """The longest chain from *at* down. Each tool is looked at once."""
        if at in path:
            raise _Cycle((*path[path.index(at) :], at))
        if at not in known:
            below = [deepest(needed, (*path, at)) for needed in needs.get(at, ()) if needed in needs]
            known[at] = (at, *max(below, key=len, default=()))
        return known[at]

    try:
        longest = max((deepest(root, ()) for root in needs), key=len)
    except _Cycle as cycle:
        return [f"composed tools can't call themselves: {' → '.join(cycle.path)}"]
    except RecursionError:
        return ["composed tools call each other without end in sight"]
    if len(longest) > MAX_DEPTH and name in longest:
        return [f"composed tools call each other {MAX_DEPTH} deep at most: {' → '.join(longest)}"]
    return []


class _Cycle(Exception):
    def __init__(self, path: tuple[str, ...]) -> None:
        super().__init__(path)
        self.path = path


def judge(number: int, example: Example, run: Run, recordings: Recordings, ms: float) -> ExampleOutcome:
    """How an example went, from its run and the recordings that it was answered from."""
    problem, differs = _problem(example, run)
    if problem is None:
        return ExampleOutcome(number, None, ms)
    return ExampleOutcome(
        number,
        problem,
        ms,
        tuple(differs),
        run.stdout[-MAX_PRINTED:],
        tuple(recordings.unmatched[:MOST_CALLS]),
        tuple(f"{call.tool} with {_short(call.arguments)}" for call in recordings.unused[:MOST_CALLS]),
    )


def _problem(example: Example, run: Run) -> tuple[str | None, list[Difference]]:
    """Why an example did not come true, or None; and where its result differs from what was expected."""
    error = None
    if run.error is not None:
        line = f" (line {run.error.line})" if run.error.line else ""
        error = f"{run.error.kind}: {run.error.message}{line}"
    if example.error is not None and run.status == "completed":
        return f"an error with {example.error!r} was expected; it returned {_short(run.result)}", []
    if example.error is not None:
        wrong = f"an error with {example.error!r} was expected; it was: {error}"
        return (None if example.error in (error or "") else wrong), []
    if run.status != "completed":
        return f"{run.status}: {error}", []
    if same(run.result, example.result):
        return None, []
    wrong = f"{_short(example.result)} was expected; it returned {_short(run.result)}"
    return wrong, differences(example.result, run.result)


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 300 else f"{text[:300]}… ({len(text)} characters)"

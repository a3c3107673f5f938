"""What must hold before a composed tool is saved, and whether its examples come true."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from go_ent.composer.catalogue.catalogue import Catalogue
from go_ent.composer.catalogue.grants import Grants
from go_ent.composer.catalogue.scope import MAX_DEPTH
from go_ent.composer.composed.source import ComposedTools
from go_ent.composer.composed.toolfile import Example
from go_ent.composer.errors import ComposerError, ToolNotFound


@dataclass(frozen=True, slots=True)
class ExampleOutcome:
    """How an example went. `problem` is None when it came true."""

    number: int
    problem: str | None
    ms: float


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
                if any(known.startswith(f"{required}.") for known in catalogue.known_names(grants)):
                    problems.append(
                        f"it passes tools.{required} on, which is a namespace: list the tools it calls in `requires`"
                    )
                    continue
                problems.append(
                    f"it requires {required}: there is no tool {required}{await catalogue.meant(required, grants)}"
                )
            except ComposerError:
                pass  # a source that can't be reached now doesn't keep a tool from being saved
    return problems


def name_problems(name: str, catalogue: Catalogue) -> list[str]:
    """A composed tool stands at the top level, beside the namespaces and the program's own functions."""
    if (taken := catalogue.namespace_problem(name)) is not None:
        return [taken]
    known = catalogue.known(name)
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


def judge(example: Example, status: str, result: Any, error: str | None) -> str | None:
    """Why an example did not come true, or None."""
    if example.error is not None:
        if status == "completed":
            return f"an error with {example.error!r} was expected; it returned {_short(result)}"
        return (
            None if example.error in (error or "") else f"an error with {example.error!r} was expected; it was: {error}"
        )
    if status != "completed":
        return f"{status}: {error}"
    return (
        None
        if _same(result, example.result)
        else f"{_short(example.result)} was expected; it returned {_short(result)}"
    )


def _same(got: Any, expected: Any) -> bool:
    """Equal as JSON: a bool is no number, and a float is as close as its text."""
    if isinstance(got, bool) or isinstance(expected, bool):
        return got is expected
    if isinstance(got, float) and isinstance(expected, int | float):
        return abs(got - expected) <= 1e-9 * max(1.0, abs(got), abs(expected))
    if isinstance(got, dict) and isinstance(expected, dict):
        return got.keys() == expected.keys() and all(_same(got[key], expected[key]) for key in got)
    if isinstance(got, list) and isinstance(expected, list):
        return len(got) == len(expected) and all(_same(a, b) for a, b in zip(got, expected, strict=True))
    return bool(got == expected)


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 300 else f"{text[:300]}… ({len(text)} characters)"

"""Before an execution goes on: what has changed since it was begun, and whether that keeps it from going on."""

from __future__ import annotations

import asyncio
import json
import platform
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from go_ent.composer import Composer, ComposerError
from go_ent.composer.composed.source import Composed
from go_ent.dataclass import dataclass
from go_ent.engine.core.config import EngineConfig
from go_ent.engine.core.errors import ExecutionConflict
from go_ent.engine.core.models import RunResult, Task
from go_ent.engine.executions.owned import OwnedExecution
from go_ent.engine.executions.state import Environment, ExecutionState
from go_ent.engine.executions.tape import NOT_SAID, Policy, Tapes, Unfinished
from go_ent.sandbox import Sandbox
from go_ent.sandbox.host.broker import CHECKPOINT
from go_ent.sandbox.images import note_project
from go_ent.sandbox.messages.advice import Advice
from go_ent.sandbox.worker.paths import installed_version

if TYPE_CHECKING:
    from go_ent.engine.strategies.work import Work

UNKNOWN = "it was begun before the execution was interrupted, and nobody knows whether it was done"
MOST_SHOWN, MOST_TOLD = 200, 20
Weight = Literal["told", "refused", "impossible"]


@dataclass(frozen=True, slots=True)
class Changed:
    """One thing that is not as it was: only told, refused unless somebody insists, or impossible to go on with."""

    text: str
    weight: Weight = "told"
    unknown: bool = False  # nobody knows whether a call was done


@dataclass(frozen=True, slots=True)
class ResumeOptions:
    """How an execution goes on.

    *unfinished* is what to do about calls and steps of which nobody knows whether they were done; *anyway* goes on
    although something has changed since. *from_checkpoint*, a label or a number, undoes what came after it, also of an
    execution that has completed; what had effects there is done again only *anyway*. *may_start* is whether tasks may
    name programs by argv.
    """

    unfinished: Unfinished = NOT_SAID
    anyway: bool = False
    from_checkpoint: str | None = None
    may_start: bool = True
    timeout_s: float | None = None


def environment(project: Path, box: Sandbox | None = None, runners: dict[str, str] | None = None) -> Environment:
    """What runs an execution of a project now. May take long the first time: the image may have to be made."""
    image = ""
    if box is not None:
        image = box.image.digest
        note_project(box.image, project)  # so that the image stays while executions need it
    return Environment(go_ent=own_version(), python=platform.python_version(), image=image, runners=runners or {})


@cache
def own_version() -> str:
    """The version of go-ent that runs; to look it up takes longer than to run `1 + 1`."""
    return installed_version("go-ent")


def damages(state: ExecutionState) -> list[Changed]:
    """What was lost of its journal: what was done there may be done again."""
    return [Changed(f"its journal was damaged: {line}", "refused") for line in state.damage]


def changes(state: ExecutionState, now: Environment) -> list[Changed]:
    """What has changed for an execution of any kind."""
    found = damages(state)
    then = state.environment
    for what, before, after in (("go-ent", then.go_ent, now.go_ent), ("Python", then.python, now.python)):
        if before != after:
            found.append(Changed(f"{what} was {before}, and is {after}"))
    for name, before in then.runners.items():
        if name in now.runners and now.runners[name] != before:
            found.append(Changed(f"{name} was {before}, and is {now.runners[name] or 'not there'}"))
    return found


async def guest_changes(
    state: ExecutionState, composer: Composer, tapes: Tapes, *, tool: str | None
) -> tuple[list[Changed], Composed | None]:
    """What has changed for a run in a guest: its code, image, tools and grants, and what nobody knows of its calls.

    And the version of its composed tool that it goes on with, if it runs one.
    """
    found = changes(state, await asyncio.to_thread(environment, composer.project, composer.box))
    if state.unresumable is not None:
        found.append(Changed(state.unresumable, "impossible"))
    if state.final:
        found.append(
            Changed(f"it failed by its own doing, and would again: {state.error or ''}".rstrip(": "), "impossible")
        )
    image = state.environment.image
    if image and image != composer.box.image.digest and await asyncio.to_thread(composer.images.find, image) is None:
        found.append(Changed(f"the image that ran it ({image[:16]}) is not there any more", "impossible"))
    begun = None if tool is None else await composer.version(tool, digest=state.source)
    if tool is not None:
        found += await _tool_changes(composer, tool, begun, state.source or "")
    for path, call in tapes.left():
        if "/" not in path.partition("/")[2] and call.tool != CHECKPOINT and not composer.grants.allows(call.tool):
            found.append(Changed(f"{call.tool}, which call {path} needs, is not granted any more", "refused"))
    found += await version_changes(lambda: composer, tapes)
    return found + unfinished_calls(tapes), begun


async def _tool_changes(composer: Composer, tool: str, begun: Composed | None, digest: str) -> list[Changed]:
    now, there = await _version_now(composer, tool)
    if begun is None:
        return [
            Changed(f"{tool} was other code ({digest[:16]}), which is not in its history, and {there}", "impossible")
        ]
    from go_ent.composer.composed.checks import requires_problems

    problems = await requires_problems(begun.interface.requires, composer.catalogue, composer.grants, tool)
    found = [Changed(problem, "refused") for problem in problems]
    return found if now == digest else [_other_version(tool, begun, there), *found]


async def version_changes(composer: Callable[[], Composer], tapes: Tapes, work: Work | None = None) -> list[Changed]:
    """The composed tools under way, of calls and of steps of *work*, that have another version now than the one they
    go on with.
    """
    found: dict[Changed, None] = {}
    for path, run in tapes.tracks.runs.items():
        name = _tool_under_way(path, tapes, work)
        if name is None or run.start is None:
            continue
        begun = await composer().version(name, source=run.start.source)
        now, there = await _version_now(composer(), name)
        if begun is not None and begun.file.digest != now:
            found[_other_version(name, begun, there)] = None
    return list(found)


def _tool_under_way(path: str, tapes: Tapes, work: Work | None) -> str | None:
    """The composed tool of a guest run that is not over."""
    if "/" in path:
        call = tapes.tracks.calls.get(path)
        return call.tool if call is not None and call.answer is None else None
    step = path.partition("#")[0]
    task = None if work is None else _task_of(work, step)
    result = tapes.held.state.results.get(step)
    return None if task is None or (result is not None and result.ok) else task.tool


async def _version_now(composer: Composer, tool: str) -> tuple[str | None, str]:
    """The digest of a tool as it is now, and what is said of it."""
    try:
        now = await composer.composed.get(tool)
    except ComposerError:
        return None, "is no tool now"
    return now.file.digest, f"is version {now.version}"


def _other_version(tool: str, begun: Composed, there: str) -> Changed:
    return Changed(f"{tool} was version {begun.version}, and {there}: it continues with version {begun.version}")


def unfinished_calls(tapes: Tapes) -> list[Changed]:
    """The calls of which nobody knows whether they were done, unless it was said what to do about them."""
    return [
        Changed(f"{shown} was begun, and nobody knows whether it was done", "impossible", unknown=True)
        for shown in (shown_call(path, call.tool, call.arguments) for path, call in tapes.undecided())
    ]


def _task_of(work: Work, step: str) -> Task | None:
    from go_ent.engine.strategies.work import task_of  # with all that it takes to read a plan

    return task_of(work, step)


def unfinished_steps(state: ExecutionState, work: Work, config: EngineConfig) -> dict[str, Changed]:
    """The steps of which nobody knows whether they were done, and that are not done again without a question."""
    found = {}
    for step, runtime in state.begun.items():
        task = _task_of(work, step)
        if task is None or not _may_repeat(state, step, runtime, task, config):
            title = "which its work does not have" if task is None else short_of(task.title)
            where = f" on {runtime}" if runtime else ""
            said = f"step {step}, {title}, was begun{where}, and nobody knows whether it was done"
            found[step] = Changed(said, "impossible", unknown=True)
    return found


def _may_repeat(state: ExecutionState, step: str, runtime: str, task: Task, config: EngineConfig) -> bool:
    """Whether a step that was started is resumed, or run again, without a question."""
    if task.tool or task.code:  # what runs in a guest is on its tape: its calls are asked about, one by one
        return True
    if task.needs_model and (session := state.sessions.get(step)) is not None and session.runtime == runtime:
        return True  # the agent goes on in it, and knows what it did
    return _is_repeatable(task, runtime, config)


def _is_repeatable(task: Task, runtime: str, config: EngineConfig) -> bool:
    """Whether a command or an agent may do a task twice."""
    if task.repeatable or (task.needs_model and task.access != "edit"):
        return True
    name = task.command or (config.engine.command if runtime == "cli" else None)
    return isinstance(name, str) and name in config.commands and config.commands[name].repeatable


def go_back(held: OwnedExecution, name: str, work: Work | None, config: EngineConfig, *, anyway: bool) -> list[Changed]:
    """Go back to a checkpoint of an execution: what is done again. `ExecutionConflict` if that may have effects, and
    nobody insists.

    Reads the journal: call it in a thread.
    """
    back = held.undoing(name)
    after = f"after checkpoint {short_of(back.checkpoint.label)}"
    found = [
        Changed(
            f"{shown_call(path, record.get('tool'), record.get('arguments'))} was made {after}, and may be made again",
            "refused",
        )
        for path, record in back.effects.items()
    ]
    for step in sorted(back.steps):
        task = None if work is None else _task_of(work, step)
        if task is None or task.tool or task.code:
            continue  # what it called is told for itself
        runtime = held.state.begun.get(step) or (
            result.runtime or "" if (result := held.state.results.get(step)) is not None else ""
        )
        again = _is_repeatable(task, runtime, config)
        said = f"step {step}, {short_of(task.title)}, was run {after}, and is run again"
        found.append(Changed(said, "told" if again else "refused"))
    refuse(held.state, found, anyway=anyway)
    held.go_back(back)
    return found


def assumed(step: str, state: ExecutionState, policy: Policy) -> RunResult:
    """The result of a step that is taken as done, or as failed, without being run."""
    result = RunResult(execution_id=state.id, task_id=step, status="completed", runtime=state.begun.get(step) or None)
    if policy == "skip":
        return result.model_copy(update={"observations": ("it was taken as done: what it answered is not known",)})
    # A failure of this kind is not tried again by itself.
    return result.model_copy(update={"status": "failed", "failure": "interrupted", "error": UNKNOWN})


def shown_call(path: str, tool: Any, arguments: Any) -> str:
    text = ""
    if isinstance(arguments, list) and len(arguments) == 2:
        args, kwargs = arguments
        text = json.dumps(kwargs if not args else arguments, ensure_ascii=False, default=str)
    return f"call {path}, {tool} with {text[:MOST_SHOWN]},"


def short_of(text: str) -> str:
    return " ".join(text.split())[:MOST_SHOWN]


def refuse(state: ExecutionState, found: list[Changed], *, anyway: bool) -> None:
    """`ExecutionConflict`, if it can't go on as things are."""
    unknown = [one for one in found if one.unknown]
    against = [one for one in found if one.weight == "impossible" or (one.weight == "refused" and not anyway)]
    if not against:
        return
    advice = None
    if against == unknown:
        advice = Advice("resume", state.id, "unfinished")
    elif all(one.weight == "refused" for one in against):
        advice = Advice("resume", state.id, "anyway")
    said = "; ".join(one.text for one in against[:MOST_TOLD]) + (
        f"; and {more} more" if (more := len(against) - MOST_TOLD) > 0 else ""
    )
    how = "can't be resumed" if against != unknown else "can't be resumed without a decision"
    raise ExecutionConflict(f"execution {state.id} {how}: {said}", advice=advice)

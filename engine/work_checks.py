"""What is wrong with work before any of it runs: tools, commands, programs and inputs that its tasks name."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from go_ent.composer import ComposerError
from go_ent.engine.core.errors import EngineError
from go_ent.engine.core.models import Task
from go_ent.engine.strategies import Plan
from go_ent.engine.strategies.work import Work, as_plan
from go_ent.sandbox.children.programs import find_program
from go_ent.sandbox.messages.near_names import did_you_mean, near

if TYPE_CHECKING:
    from go_ent.engine.engine import Engine


async def work_problems(engine: Engine, work: Work) -> list[tuple[str, str]]:
    """Each task that could not run as it is, and why; nothing is started. A task is named by its id, if it has one."""
    plan = as_plan(work)
    found: list[tuple[str, str]] = []
    for number, task in enumerate(plan.task if isinstance(plan, Plan) else plan, 1):
        name = str(getattr(task, "id", number))
        try:
            engine.check(task)
        except EngineError as error:
            found.append((name, str(error)))
            continue
        if task.tool is not None:
            found += [(name, one) for one in await _tool_problems(engine, task, task.tool)]
        if isinstance(task.command, tuple) and "${" not in task.command[0]:
            folder = Path(engine.project)
            if await asyncio.to_thread(find_program, task.command[0], os.environ.get("PATH"), folder) is None:
                found.append((name, f"there is no program {task.command[0][:200]}"))
    return found


async def _tool_problems(engine: Engine, task: Task, tool: str) -> list[str]:
    composer = await asyncio.to_thread(engine.open_composer)
    try:
        schema = (await composer.composed.get(tool)).interface.input_schema
    except ComposerError as error:
        return [str(error)]
    return input_problems(tool, schema, task.inputs)


def input_problems(tool: str, schema: Mapping[str, Any], inputs: Mapping[str, Any]) -> list[str]:
    """Inputs that a tool does not have, and those that it lacks. What they are is known when it runs."""
    parameters = schema.get("properties") or {}
    found = [
        f"{tool} has no parameter {name[:100]}{did_you_mean(near(name, parameters))}"
        for name in inputs
        if name not in parameters
    ]
    return found + [f"{tool} needs {name}" for name in schema.get("required") or () if name not in inputs]

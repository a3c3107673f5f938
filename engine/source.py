"""The engine's own tools for guest code: `tools.engine.execute(...)`, where a project grants `engine.*`.

Guest code may ask an agent or a command that the configuration names; it can't name a program, and it runs composed tools
by calling them, not by way of the engine: so nothing here can call itself for ever.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from composer import CallContext, CallError, Hints, ToolSpec
from engine.errors import EngineError
from engine.explaining import explain
from engine.models import BudgetLimit, Task

if TYPE_CHECKING:
    from composer import Composer
    from engine.engine import Engine

TEXT = {"type": "string"}
EXECUTE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "task": {**TEXT, "description": "what the agent, or the command, is to do"},
        "command": {**TEXT, "description": "a command that the configuration names"},
        "role": TEXT,
        "type": TEXT,
        "model": TEXT,
        "runtime": TEXT,
        "strategy": {"enum": ["auto", "single", "multi"]},
        "access": {"enum": ["none", "read", "edit"]},
        "context": TEXT,
        "files": {"type": "array", "items": TEXT},
        "skills": {"type": "array", "items": TEXT},
        "budget_usd": {"type": "number", "exclusiveMinimum": 0},
        "timeout_s": {"type": "number", "exclusiveMinimum": 0},
    },
    "additionalProperties": False,
}
RESULT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "execution_id": TEXT,
        "status": {"enum": ["COMPLETE", "PARTIAL", "BLOCKED", "NEEDS_REPLAN"]},
        "output": TEXT,
        "error": {"type": ["string", "null"]},
        "cost_usd": {"type": ["number", "null"]},
        "tokens_used": {"type": "integer"},
    },
    "required": ["execution_id", "status", "output"],
}
BUDGET: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}


@contextlib.asynccontextmanager
async def engine_for(composer: Composer) -> AsyncIterator[None]:
    """The engine's tools for a composer, if its project grants them; else nothing, which costs nothing."""
    if not composer.grants.may_reach("engine"):
        yield
        return
    from engine.engine import Engine

    async with await asyncio.to_thread(Engine, composer.project, composer=composer, mode="cli"):
        yield


class EngineSource:
    """A source of two tools. Used from the engine's own loop."""

    namespace = "engine"
    origin = "the engine"
    local = True

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def tools(self) -> list[ToolSpec]:
        return [
            ToolSpec(
                "engine.execute", "Have an agent, or a configured command, do a task.", EXECUTE, RESULT, Hints(read_only=False), self.origin
            ),
            ToolSpec("engine.budget", "What was spent, and what the limits are.", BUDGET, None, Hints(read_only=True), self.origin),
        ]

    async def call(self, name: str, arguments: dict[str, Any], context: CallContext) -> Any:
        try:
            if name == "engine.budget":
                return (await self._engine.budget()).model_dump(mode="json")
            given = dict(arguments)
            usd = given.pop("budget_usd", None)
            task = Task(description=given.pop("task", ""), budget=None if usd is None else BudgetLimit(usd=usd), **given)
            if task.tool or task.code:
                raise CallError("call a composed tool as tools.NAME(...), not by way of the engine")
            result = await self._engine.execute(task, may_start=False)
        except ValidationError as error:
            raise CallError(explain(error)) from None
        except EngineError as error:
            raise CallError(str(error)) from None
        metrics = result.metrics
        return {
            "execution_id": result.execution_id,
            "status": result.status,
            "output": result.output,
            "error": result.error,
            "cost_usd": metrics.cost_usd if metrics is not None else None,
            "tokens_used": metrics.tokens_used if metrics is not None else 0,
        }

    async def close(self) -> None:
        pass

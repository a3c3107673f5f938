"""The engine's own tools for guest code: `tools.engine.execute(...)`, where a project grants `engine.*`, and
`tools.summarize(...)`.

Guest code may ask an agent or a command that the configuration names; it can't name a program, and it runs composed
tools by calling them, not by way of the engine: so nothing here can call itself for ever.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import TYPE_CHECKING, Any, Protocol

from pydantic import BaseModel, ValidationError

from go_ent.composer import CallContext, CallError, Hints, ToolSpec
from go_ent.engine.core.errors import EngineError
from go_ent.engine.core.explain import explain
from go_ent.engine.core.models import BudgetLimit, Task, TaskResult
from go_ent.engine.executions.lifecycle import UNDER_WAY
from go_ent.engine.executions.state import ExecutionState
from go_ent.engine.executions.store import ExecutionStore
from go_ent.engine.processes.trees import TAG

if TYPE_CHECKING:
    from go_ent.composer import Composer

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
SUMMARIZE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "text": TEXT,
        "max_tokens": {
            "type": "integer",
            "minimum": 100,
            "maximum": 100_000,
            "default": 1000,
            "description": "the summary has no more",
        },
    },
    "required": ["text"],
    "additionalProperties": False,
}


def _begun_by(store: ExecutionStore, execution_id: str, call: str) -> ExecutionState | None:
    """The execution that a call has begun before."""
    for row in store.rows(1000, parent=execution_id):
        with contextlib.suppress(EngineError, OSError):
            state = store.load(row.id)
            if state.parent_call == call:
                return state
    return None


class EngineHost(Protocol):
    """What these tools need of an engine."""

    trusted: bool
    store: ExecutionStore

    async def execute(
        self, work: Task, *, parent: str | None, parent_call: str | None, may_start: bool
    ) -> TaskResult: ...

    async def wait(self, execution_id: str) -> TaskResult: ...

    async def resume(self, execution_id: str, *, may_start: bool) -> TaskResult: ...

    async def status(self, execution_id: str) -> ExecutionState: ...

    async def budget(self) -> BaseModel: ...

    async def shorten(self, text: str, max_tokens: int, *, parent: str | None = None) -> str: ...


class EngineSource:
    """A source of two tools. Used from the engine's own loop."""

    namespace = "engine"
    origin = "the engine"
    local = True

    def __init__(self, engine: EngineHost) -> None:
        self._engine = engine
        self._specs = [
            ToolSpec(
                "engine.execute",
                "Have an agent, or a configured command, do a task.",
                EXECUTE,
                RESULT,
                Hints(read_only=False),
                self.origin,
                resumes=True,
            ),
            ToolSpec(
                "engine.budget",
                "What was spent, and what the limits are.",
                BUDGET,
                None,
                Hints(read_only=True),
                self.origin,
            ),
        ]

    async def tools(self) -> list[ToolSpec]:
        return self._specs

    async def call(self, name: str, arguments: dict[str, Any], context: CallContext) -> Any:
        try:
            execution = context.execution or UNDER_WAY.get()
            if name == "engine.budget":
                return await self._budget(execution)
            given = dict(arguments)
            usd = given.pop("budget_usd", None)
            task = Task(
                description=given.pop("task", ""), budget=None if usd is None else BudgetLimit(usd=usd), **given
            )
            if task.tool or task.code:
                raise CallError("call a composed tool as tools.NAME(...), not by way of the engine")
            result = await self._execute(task, execution, context.call)
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

    async def _budget(self, execution: str | None) -> Any:
        """The account; of a client's code, its own part of it."""
        report = (await self._engine.budget()).model_dump(mode="json")
        client = "" if execution is None else (await self._engine.status(execution)).client
        return report if not client else {"day": report["clients"].get(client, {})}

    async def _execute(self, task: Task, execution: str | None, call: str | None) -> TaskResult:
        """A task for a guest. If the same call started one before it was interrupted, that one is resumed."""
        engine, before = self._engine, None
        if execution is not None and call is not None:
            before = await asyncio.to_thread(_begun_by, engine.store, execution, call)
        if before is None:
            return await engine.execute(task, parent=execution, parent_call=call, may_start=False)
        if before.status == "completed":
            return await engine.wait(before.id)
        return await engine.resume(before.id, may_start=False)

    async def close(self) -> None:
        pass


class SummarySource:
    """A source of one tool, which stands at the top level. Used from the engine's own loop."""

    name = "summarize"
    namespace = ""
    origin = "the engine"
    local = True

    def __init__(self, engine: EngineHost) -> None:
        self._engine = engine
        said = (
            "A summary of a text: by a model where the configuration has one for that, and never longer than "
            "max_tokens."
        )
        self._tools = [ToolSpec(self.name, said, SUMMARIZE, TEXT, Hints(read_only=True), self.origin)]

    async def tools(self) -> list[ToolSpec]:
        return self._tools

    async def call(self, name: str, arguments: dict[str, Any], context: CallContext) -> Any:
        try:
            return await self._engine.shorten(
                arguments["text"], arguments.get("max_tokens", 1000), parent=context.execution
            )
        except EngineError as error:
            raise CallError(str(error)) from None

    async def close(self) -> None:
        pass


def offer_summaries(engine: EngineHost, composer: Composer) -> None:
    """Have `tools.summarize` in a composer, where its project names it under `[grants] allow`.

    What has no namespace is granted by default, and `*` grants everything: but a summary may cost money, so that
    neither will do. Nor is it there in a folder that nobody trusts, or for an agent that an engine has started.
    """
    offered = any(isinstance(source, SummarySource) for source in composer.catalogue.sources)
    if SummarySource.name in composer.config.allow and engine.trusted and TAG not in os.environ and not offered:
        composer.catalogue.add(SummarySource(engine))

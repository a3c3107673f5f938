"""The host: agent tasks on any runtime, alone, in chains or as graphs, within a budget, on record.

from engine import Engine, Task

async with Engine.open(".") as engine:
    result = await engine.execute(Task(description="Fix the failing test", role="developer"))
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engine.blocking import BlockingEngine
    from engine.budget import BudgetReport, Prices
    from engine.caller import ModelFailed, RunnerCaller
    from engine.checks import CommandCheck, ModelCheck, ToolCheck
    from engine.config import BudgetConfig, CommandConfig, EngineConfig, PriceConfig, RoleConfig, RunnerConfig
    from engine.engine import Engine
    from engine.errors import (
        BadTask,
        BudgetExceeded,
        EngineError,
        ExecutionConflict,
        ExecutionNotFound,
        NeedsApproval,
        NoRuntime,
        StorageFailed,
        Untrusted,
    )
    from engine.executions.state import ExecutionState
    from engine.executions.tape import Unfinished
    from engine.guests import GuestOrder
    from engine.history import ExecutionHistory, ExecutionRecord
    from engine.loops import Loop, LoopResult
    from engine.models import (
        Attempt,
        BudgetLimit,
        Event,
        Metrics,
        ModelCaller,
        ModelOptions,
        ModelReply,
        RunRequest,
        RunResult,
        Task,
        TaskResult,
        Tokens,
    )
    from engine.prompts.chunker import Chunk, pack
    from engine.runners.base import Availability, Progress, Runner
    from engine.strategies.plan import Plan, PlanTask, parse_plan, read_plan
    from engine.strategies.pool import Callbacks, run_with_concurrency
    from engine.workflows import Workflows, WorkflowState

_HOMES = {
    "blocking": ("BlockingEngine",),
    "budget": ("BudgetReport", "Prices"),
    "caller": ("ModelFailed", "RunnerCaller"),
    "checks": ("CommandCheck", "ModelCheck", "ToolCheck"),
    "config": ("BudgetConfig", "CommandConfig", "EngineConfig", "PriceConfig", "RoleConfig", "RunnerConfig"),
    "engine": ("Engine",),
    "errors": (
        "BadTask",
        "BudgetExceeded",
        "EngineError",
        "ExecutionConflict",
        "ExecutionNotFound",
        "NeedsApproval",
        "NoRuntime",
        "StorageFailed",
        "Untrusted",
    ),
    "executions.state": ("ExecutionState",),
    "executions.tape": ("Unfinished",),
    "guests": ("GuestOrder",),
    "history": ("ExecutionHistory", "ExecutionRecord"),
    "loops": ("Loop", "LoopResult"),
    "models": (
        "Attempt",
        "BudgetLimit",
        "Event",
        "Metrics",
        "ModelCaller",
        "ModelOptions",
        "ModelReply",
        "RunRequest",
        "RunResult",
        "Task",
        "TaskResult",
        "Tokens",
    ),
    "prompts.chunker": ("Chunk", "pack"),
    "runners.base": ("Availability", "Progress", "Runner"),
    "strategies.plan": ("Plan", "PlanTask", "parse_plan", "read_plan"),
    "strategies.pool": ("Callbacks", "run_with_concurrency"),
    "workflows": ("WorkflowState", "Workflows"),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}
__all__ = [
    "Attempt",
    "Availability",
    "BadTask",
    "BlockingEngine",
    "BudgetConfig",
    "BudgetExceeded",
    "BudgetLimit",
    "BudgetReport",
    "Callbacks",
    "Chunk",
    "CommandCheck",
    "CommandConfig",
    "Engine",
    "EngineConfig",
    "EngineError",
    "Event",
    "ExecutionConflict",
    "ExecutionHistory",
    "ExecutionNotFound",
    "ExecutionRecord",
    "ExecutionState",
    "GuestOrder",
    "Loop",
    "LoopResult",
    "Metrics",
    "ModelCaller",
    "ModelCheck",
    "ModelFailed",
    "ModelOptions",
    "ModelReply",
    "NeedsApproval",
    "NoRuntime",
    "Plan",
    "PlanTask",
    "PriceConfig",
    "Prices",
    "Progress",
    "RoleConfig",
    "RunRequest",
    "RunResult",
    "Runner",
    "RunnerCaller",
    "RunnerConfig",
    "StorageFailed",
    "Task",
    "TaskResult",
    "Tokens",
    "ToolCheck",
    "Unfinished",
    "Untrusted",
    "WorkflowState",
    "Workflows",
    "pack",
    "parse_plan",
    "read_plan",
    "run_with_concurrency",
]


def __getattr__(name: str) -> Any:
    # Lazily: what one program does not use, it does not import.
    if name not in _HOME_OF:
        raise AttributeError(f"module 'engine' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"engine.{_HOME_OF[name]}"), name)


def __dir__() -> list[str]:
    return __all__

"""Runs tasks with agents, commands and the sandbox: single, in chains or as graphs, within a budget, on record.

from go_ent.engine import Engine, Task

async with Engine.open(".") as engine:
    result = await engine.execute(Task(description="Fix the failing test", role="developer"))
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from go_ent.lazy import lazily

if TYPE_CHECKING:
    from go_ent.engine.blocking import BlockingEngine
    from go_ent.engine.budget import BudgetReport, Prices
    from go_ent.engine.core.config import (
        BudgetConfig,
        CommandConfig,
        EngineConfig,
        PriceConfig,
        RoleConfig,
        RunnerConfig,
    )
    from go_ent.engine.core.errors import (
        BadTask,
        BudgetExceeded,
        EngineError,
        ExecutionConflict,
        ExecutionNotFound,
        ModelFailed,
        NeedsApproval,
        NoRuntime,
        StorageFailed,
        Untrusted,
    )
    from go_ent.engine.core.models import (
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
    from go_ent.engine.dispatch.runner_caller import RunnerCaller
    from go_ent.engine.engine import Engine
    from go_ent.engine.executions.history import ExecutionHistory, ExecutionRecord
    from go_ent.engine.executions.state import ExecutionState
    from go_ent.engine.executions.tape import Unfinished
    from go_ent.engine.guest_runs.runs import GuestOrder
    from go_ent.engine.prompts.chunker import Chunk, pack
    from go_ent.engine.runners.base.runner import Availability, Progress, Runner
    from go_ent.engine.strategies.plan import Plan, PlanTask, parse_plan, read_plan
    from go_ent.engine.strategies.pool import Callbacks, run_with_concurrency
    from go_ent.engine.workflows.loop import Loop, LoopResult
    from go_ent.engine.workflows.loop_checks import CommandCheck, ModelCheck, ToolCheck
    from go_ent.engine.workflows.workflow import Workflows, WorkflowState

HOMES = {
    "blocking": ("BlockingEngine",),
    "budget": ("BudgetReport", "Prices"),
    "dispatch.runner_caller": ("RunnerCaller",),
    "workflows.loop_checks": ("CommandCheck", "ModelCheck", "ToolCheck"),
    "core.config": ("BudgetConfig", "CommandConfig", "EngineConfig", "PriceConfig", "RoleConfig", "RunnerConfig"),
    "engine": ("Engine",),
    "core.errors": (
        "BadTask",
        "BudgetExceeded",
        "EngineError",
        "ExecutionConflict",
        "ExecutionNotFound",
        "ModelFailed",
        "NeedsApproval",
        "NoRuntime",
        "StorageFailed",
        "Untrusted",
    ),
    "executions.state": ("ExecutionState",),
    "executions.tape": ("Unfinished",),
    "guest_runs.runs": ("GuestOrder",),
    "executions.history": ("ExecutionHistory", "ExecutionRecord"),
    "workflows.loop": ("Loop", "LoopResult"),
    "core.models": (
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
    "runners.base.runner": ("Availability", "Progress", "Runner"),
    "strategies.plan": ("Plan", "PlanTask", "parse_plan", "read_plan"),
    "strategies.pool": ("Callbacks", "run_with_concurrency"),
    "workflows.workflow": ("WorkflowState", "Workflows"),
}
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
if not TYPE_CHECKING:  # a name that is not there is an error for type checkers
    __getattr__, __dir__ = lazily(__name__, HOMES)

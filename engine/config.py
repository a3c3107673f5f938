"""The engine's part of `.go-ent/config.toml`."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError, model_validator

from composer.config import SECTIONS as TOOL_SECTIONS
from composer.config import read_table
from composer.errors import ConfigError, did_you_mean
from composer.folders import STATE
from engine.explaining import explain
from engine.models import BudgetLimit, Model, ModelName, Name, StrategyName

Mode = Literal["mcp", "cli", "library"]
SECTIONS = frozenset({"engine", "runners", "commands", "roles", "budget", "prices", "executions", "context"})


class RunnerConfig(Model):
    """How an agent program is started: `[runners.claude-code]`."""

    command: Annotated[tuple[str, ...], Field(min_length=1)] | None = None  # its argv so far; by default its name, found on PATH
    model: ModelName | None = None
    env: tuple[Name, ...] = ()  # variables of the host that it may see, beside the usual
    set: dict[str, str] = Field(default_factory=dict)  # variables it is given
    args: tuple[str, ...] = ()  # further flags
    serve_tools: bool = True  # whether an agent gets this project's MCP server

    @property
    def starts(self) -> bool:
        """Whether this changes what is started, or what that gets to see."""
        return bool(self.command or self.env or self.set or self.args)


class CommandConfig(Model):
    """A command that tasks may name: `[commands.NAME]`. `{prompt}`, `{system}` and `{model}` in its arguments are filled in."""

    argv: Annotated[tuple[str, ...], Field(min_length=1)]
    format: Literal["text", "json", "jsonl"] = "text"
    path: str = ""  # where the answer is in json, like choices.0.text
    tokens_in: str = ""  # the same, for usage
    tokens_out: str = ""
    cost_usd: str = ""
    stdin: bool = False  # the prompt on stdin instead of as an argument
    model: ModelName | None = None
    env: tuple[Name, ...] = ()
    set: dict[str, str] = Field(default_factory=dict)
    timeout_s: Annotated[float, Field(gt=0)] | None = None


class RoleConfig(Model):
    """A role: `[roles.NAME]`. What is not given comes from the built-in role of that name, if there is one."""

    prompt: str = ""
    runtime: Name | None = None
    model: ModelName | None = None
    skills: tuple[Name, ...] = ()
    budget: BudgetLimit | None = None
    threshold: Annotated[float, Field(ge=0.1, le=0.95)] | None = None  # of the window, as in [context]


class BudgetConfig(Model):
    """Limits that hold: `[budget]`."""

    task: BudgetLimit | None = None
    execution: BudgetLimit | None = None
    day: BudgetLimit | None = None
    month: BudgetLimit | None = None
    hard: bool = False  # over MCP too, what does not fit is refused
    timezone: str = "UTC"
    reserve_usd: Annotated[float, Field(gt=0)] = 1.0  # held for a call that says no more of itself, and its cap
    reserve_tokens: Annotated[int, Field(gt=0)] = 50_000


class PriceConfig(Model):
    """Dollars per million tokens: `[prices."my-model"]`."""

    input: Annotated[float, Field(ge=0)]
    output: Annotated[float, Field(ge=0)]
    cache_read: Annotated[float, Field(ge=0)] | None = None
    cache_write: Annotated[float, Field(ge=0)] | None = None


class RetentionConfig(Model):
    """Which executions are kept: `[executions]`. What can be resumed is kept anyway."""

    keep: Annotated[int, Field(ge=1)] = 1000  # the newest
    days: Annotated[float, Field(gt=0, le=36_500)] = 30
    max_mb: Annotated[int, Field(ge=1, le=1 << 30)] = 2048
    auto: bool = True  # whether the others are removed without being asked


class ContextConfig(Model):
    """How contexts are kept within their model's window: `[context]`."""

    enabled: bool = True
    threshold: Annotated[float, Field(ge=0.1, le=0.95)] = 0.8  # of the window: beyond it what came before is summarised
    reserve_tokens: Annotated[int, Field(ge=0)] = 8_000  # kept for the answer
    pass_tokens: Annotated[int, Field(ge=200)] = 8_000  # longer outputs are handed on as summaries
    default_window: Annotated[int, Field(ge=2_000)] = 128_000  # of a model that nobody knows
    windows: dict[str, Annotated[int, Field(ge=2_000)]] = Field(default_factory=dict)  # by model
    summarizers: tuple[Literal["runner", "pydantic-ai", "sampling", "deterministic"], ...] = ("runner", "deterministic")
    model: ModelName | None = None  # that summarises
    last: Annotated[int, Field(ge=0, le=100)] = 4  # messages that stay word for word
    timeout_s: Annotated[float, Field(gt=0)] = 120.0


class EngineSection(Model):
    runtime: Name | None = None  # preferred
    strategy: StrategyName = "auto"
    concurrency: Annotated[int, Field(ge=1, le=256)] = 4
    timeout_s: Annotated[float, Field(gt=0)] = 1800.0
    silence_s: Annotated[float, Field(gt=0)] = 300.0
    chain: tuple[Name, ...] = ()  # the roles of a handoff, instead of the rule's
    command: Name | None = None  # the command that answers tasks on the cli runtime
    prompt_tokens: Annotated[int, Field(ge=1000)] = 60_000  # what files and previous outputs may take of a prompt
    mode: Mode | None = None


class EngineConfig(Model):
    """All of it. Without a file: no limits, the usual programs, no commands."""

    engine: EngineSection = EngineSection()
    runners: dict[Name, RunnerConfig] = Field(default_factory=dict)
    commands: dict[Name, CommandConfig] = Field(default_factory=dict)
    roles: dict[Name, RoleConfig] = Field(default_factory=dict)
    budget: BudgetConfig = BudgetConfig()
    prices: dict[str, PriceConfig] = Field(default_factory=dict)
    executions: RetentionConfig = RetentionConfig()
    context: ContextConfig = ContextConfig()

    @model_validator(mode="after")
    def _command_is_there(self) -> EngineConfig:
        name = self.engine.command
        if name is not None and name not in self.commands:
            there = ", ".join(sorted(self.commands)) or "none"
            raise ValueError(f"engine.command: there is no command {name}; there are: {there}")
        return self


def read_engine_config(project: Path) -> EngineConfig:
    """The project's configuration for the engine, or `ConfigError` with the setting that is wrong."""
    found = read_table(project)
    unknown = sorted(set(found) - SECTIONS - TOOL_SECTIONS)
    if unknown:
        there = sorted(SECTIONS | TOOL_SECTIONS)
        hint = did_you_mean(difflib.get_close_matches(unknown[0], there, 1))
        raise ConfigError(f"{project / STATE / 'config.toml'}: there is no [{unknown[0]}]; there are: {', '.join(there)}{hint}")
    table = {name: value for name, value in found.items() if name in SECTIONS}
    try:
        return EngineConfig(**table)
    except (ValidationError, TypeError) as error:
        raise ConfigError(f"{project / STATE / 'config.toml'}: {explain(error)}") from None

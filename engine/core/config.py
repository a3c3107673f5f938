"""The engine's part of `.go-ent/config.toml`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError, field_validator, model_validator

from go_ent.composer.catalogue.grants import check_pattern
from go_ent.composer.config import SECTIONS as TOOL_SECTIONS
from go_ent.composer.config import read_settings
from go_ent.composer.errors import BadName, ConfigError
from go_ent.composer.project.layers import Layers
from go_ent.composer.project.problems import problem, problems, unknown
from go_ent.engine.core.models import BudgetLimit, CostMost, Model, ModelName, Name, StrategyName, Threshold
from go_ent.sandbox.worker.languages import Language

MOST_TOKENS = 1_000_000_000
USUAL_USD = 1.0  # held for a call that says nothing of its cost
USUAL_TOKENS = 50_000
Mode = Literal["mcp", "cli", "library"]
ClientName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")]
HostName = Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9.-]{0,252})$")]
Origin = Annotated[str, Field(pattern=r"^https?://[a-z0-9][a-z0-9.-]{0,252}(:[0-9]{1,5})?$")]
SECTIONS = frozenset(
    {"engine", "runners", "commands", "roles", "budget", "prices", "executions", "context", "serve", "fleet"}
)


class RunnerConfig(Model):
    """How to start an agent program: `[runners.claude-code]`."""

    command: Annotated[tuple[str, ...], Field(min_length=1)] | None = Field(
        default=None,
        description="the program and its first arguments; by default its usual name on PATH",
        examples=[["claude"]],
    )
    model: ModelName | None = Field(default=None, description="the model, if the task names none", examples=["opus"])
    env: tuple[Name, ...] = Field(
        default=(),
        description="names of your environment variables to pass on, beside the usual ones",
        examples=[["ANTHROPIC_API_KEY"]],
    )
    set: dict[str, str] = Field(default_factory=dict, description="environment variables to set for it")
    args: tuple[str, ...] = Field(default=(), description="additional arguments", examples=[["--verbose"]])
    serve_tools: bool = Field(default=True, description="whether agents get this project's MCP server")

    @property
    def starts(self) -> bool:
        """Whether this changes what is started, or what that gets to see."""
        return bool(self.command or self.env or self.set or self.args)


class CommandConfig(Model):
    """A command that tasks may name: `[commands.NAME]`. `{prompt}`, `{system}` and `{model}` in its arguments are
    filled in.
    """

    argv: Annotated[tuple[str, ...], Field(min_length=1)] = Field(
        description="the program and its arguments; no shell is involved",
        examples=[["llm", "--model", "{model}", "{prompt}"]],
    )
    format: Literal["text", "json", "jsonl"] = Field(
        default="text", description="its output format: text, one JSON document, or JSON lines"
    )
    path: str = Field(default="", description="where the answer is in the JSON, like choices.0.text")
    tokens_in: str = Field(default="", description="where the number of prompt tokens is in the JSON")
    tokens_out: str = Field(default="", description="where the number of answer tokens is in the JSON")
    cost_usd: str = Field(default="", description="where the cost in dollars is in the JSON")
    stdin: bool = Field(default=False, description="whether to send the prompt on stdin instead of as an argument")
    model: ModelName | None = Field(
        default=None, description="the model to use for {model}, if the task names none", examples=["gpt-5"]
    )
    env: tuple[Name, ...] = Field(
        default=(),
        description="names of your environment variables to pass on, beside the usual ones",
        examples=[["OPENAI_API_KEY"]],
    )
    set: dict[str, str] = Field(default_factory=dict, description="environment variables to set for it")
    timeout_s: Annotated[float, Field(gt=0)] | None = Field(
        default=None, description="seconds it may take, if less than the task's timeout", examples=[60.0]
    )
    max_cost_usd: CostMost | None = Field(
        default=None,
        description="the most that one run can cost, reserved before it starts; 0 if it is free",
        examples=[0.5],
    )
    repeatable: bool = Field(
        default=False, description="whether to run it again without asking if a crash interrupted it"
    )

    @property
    def takes_prompt(self) -> bool:
        return self.stdin or any("{prompt}" in template for template in self.argv[1:])

    @property
    def may_cost(self) -> bool:
        """Whether a run of it may be paid for: it is sent a prompt or a model, or tells its use. Any other is free."""
        told = self.tokens_in or self.tokens_out or self.cost_usd or self.model or self.max_cost_usd is not None
        return self.takes_prompt or bool(told)


class RoleConfig(Model):
    """A role: `[roles.NAME]`. Settings left out come from the built-in role of that name, if there is one."""

    prompt: str = Field(
        default="", description="the system prompt of this role", examples=["You are the release manager."]
    )
    runtime: Name | None = Field(
        default=None, description="the runtime for tasks of this role that name none", examples=["claude-code"]
    )
    model: ModelName | None = Field(default=None, description="the model for this role", examples=["opus"])
    skills: tuple[Name, ...] = Field(
        default=(), description="skills for every task of this role", examples=[["python-style"]]
    )
    budget: BudgetLimit | None = Field(
        default=None, description="what one task of this role may spend", examples=[{"usd": 2.0}]
    )
    threshold: Threshold | None = Field(default=None, description="`context.threshold` for this role", examples=[0.7])


class BudgetConfig(Model):
    """Limits on spending: `[budget]`."""

    task: BudgetLimit | None = Field(default=None, description="what one task may spend", examples=[{"usd": 1.0}])
    execution: BudgetLimit | None = Field(
        default=None, description="what one execution may spend", examples=[{"usd": 5.0, "tokens": 2_000_000}]
    )
    day: BudgetLimit | None = Field(default=None, description="what may be spent per day", examples=[{"usd": 5.0}])
    month: BudgetLimit | None = Field(default=None, description="what may be spent per month", examples=[{"usd": 60.0}])
    hard: bool = Field(
        default=False, description="whether an MCP call that exceeds the budget is refused; otherwise it only warns"
    )
    timezone: str = Field(default="UTC", description="the time zone in which days and months begin")
    reserve_usd: Annotated[float, Field(gt=0)] | None = Field(
        default=None,
        description="what to reserve for a call without a limit of its own; by default $1, or what the limits leave",
        examples=[0.5],
    )
    reserve_tokens: Annotated[int, Field(gt=0)] | None = Field(
        default=None, description="the same in tokens; by default 50,000, or what the limits leave", examples=[50_000]
    )
    uncapped: tuple[Name, ...] = Field(
        default=(),
        description="commands that may run under a dollar limit without a max_cost_usd",
        examples=[["llm"]],
    )

    @property
    def usual_usd(self) -> float:
        return USUAL_USD if self.reserve_usd is None else self.reserve_usd

    @property
    def usual_tokens(self) -> int:
        return USUAL_TOKENS if self.reserve_tokens is None else self.reserve_tokens


class PriceConfig(Model):
    """Dollars per million tokens: `[prices."my-model"]`."""

    input: Annotated[float, Field(ge=0)] = Field(description="prompt tokens", examples=[3.0])
    output: Annotated[float, Field(ge=0)] = Field(description="answer tokens", examples=[15.0])
    cache_read: Annotated[float, Field(ge=0)] | None = Field(
        default=None, description="tokens read from the provider's cache", examples=[0.3]
    )
    cache_write: Annotated[float, Field(ge=0)] | None = Field(
        default=None, description="tokens written to the provider's cache", examples=[3.75]
    )


class RetentionConfig(Model):
    """How long executions are kept: `[executions]`. Resumable executions are kept until you prune them."""

    keep: Annotated[int, Field(ge=1)] = Field(default=1000, description="keep at most this many, the newest")
    days: Annotated[float, Field(gt=0, le=36_500)] = Field(default=30, description="keep them for this many days")
    max_mb: Annotated[int, Field(ge=1, le=1 << 30)] = Field(
        default=2048, description="keep at most this many MB in all"
    )
    auto: bool = Field(default=True, description="whether to remove the others automatically")
    sync: Literal["effects", "always"] = Field(
        default="effects",
        description='when a run is on disk: before it has an effect; or "always", before it begins and answers',
    )


# `runner` is the runtime that a task would go to. Those with a model may name it: `open-code:openai/gpt-5-mini`.
SUMMARIZER = r"^(deterministic|sampling|(runner|claude-code|open-code|cli|pydantic-ai)(:\S{1,200})?)$"


class ContextConfig(Model):
    """How prompts are kept within the model's window: `[context]`."""

    enabled: bool = Field(
        default=True, description="whether to summarise what is too long; otherwise its middle is cut"
    )
    threshold: Threshold = Field(
        default=0.8, description="the share of the model's window above which earlier material is summarised"
    )
    reserve_tokens: Annotated[int, Field(ge=0, le=MOST_TOKENS)] = Field(
        default=8_000, description="tokens of the window kept free for the answer"
    )
    pass_tokens: Annotated[int, Field(ge=200, le=MOST_TOKENS)] = Field(
        default=8_000, description="outputs longer than this are passed to later steps as summaries"
    )
    default_window: Annotated[int, Field(ge=2_000, le=MOST_TOKENS)] = Field(
        default=128_000, description="the window of models that are not in the price list"
    )
    windows: dict[str, Annotated[int, Field(ge=2_000, le=MOST_TOKENS)]] = Field(
        default_factory=dict, description="window sizes by model"
    )
    summarizers: tuple[Annotated[str, Field(pattern=SUMMARIZER)], ...] = Field(
        default=("runner", "sampling", "deterministic"), description="summarisers to try, in this order"
    )
    model: ModelName | None = Field(default=None, description="the model that summarises", examples=["haiku"])
    last: Annotated[int, Field(ge=0, le=100)] = Field(
        default=4, description="how many of the last messages to keep word for word"
    )
    timeout_s: Annotated[float, Field(gt=0)] = Field(default=120.0, description="seconds that a summary may take")


class ClientConfig(Model):
    """Somebody who may call over HTTP, by a token: `[serve.clients.NAME]`. What is not said is not allowed.

    The token itself is in no file of the project: a variable of the environment or a file of its own has it.
    """

    token_env: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,199}$")] | None = Field(
        default=None, description="the environment variable that holds its token", examples=["CI_TOKEN"]
    )
    token_file: Annotated[str, Field(min_length=1, max_length=4096)] | None = Field(
        default=None, description="the file that holds its token, relative to the project"
    )
    allow: tuple[str, ...] = Field(
        default=(),
        description="tools it may call, of those the project grants; `*` is all of them but engine.*",
        examples=[["*"]],
    )
    budget: BudgetLimit | None = Field(
        default=None,
        description="what it may spend per day; always enforced, even if [budget] only warns",
        examples=[{"usd": 1.0}],
    )
    compose: bool = Field(default=False, description="whether it may save, change and delete composed tools")
    engine: bool = Field(default=False, description="whether it may start agents and commands, resume, and approve")
    console: bool = Field(default=False, description="whether it may use the console, at /console")

    @model_validator(mode="after")
    def _one_token(self) -> ClientConfig:
        if (self.token_env is None) == (self.token_file is None):
            raise ValueError(
                'give either token_env (a variable: token_env = "CI_TOKEN") or token_file (a file that holds '
                "nothing else)"
            )
        return self

    @field_validator("allow")
    @classmethod
    def _patterns(cls, allow: tuple[str, ...]) -> tuple[str, ...]:
        for pattern in allow:
            try:
                check_pattern(pattern)
            except BadName as error:
                raise ValueError(str(error)) from None
        return allow


Profile = Literal["code", "engine", "full"]


class ServeConfig(Model):
    """The MCP server: `[serve]`. All settings but the first four are for `go-ent serve --http`."""

    profile: Profile = Field(
        default="full", description="the tools that clients find listed: code, engine or full; others can be called"
    )
    inline_tokens: Annotated[int, Field(ge=0, le=100_000)] = Field(
        default=1500, description="list the tools that code may call with code_execute, if they take no more tokens"
    )
    listed: Annotated[int, Field(ge=0, le=1000)] = Field(
        default=30, description="how many composed tools to list by name; search finds the others"
    )
    language: Language = Field(
        default="python",
        description="what code_execute runs unless a call says other, and what tools are described in",
    )
    clients: dict[ClientName, ClientConfig] = Field(
        default_factory=dict, max_length=1000, description="HTTP clients and their tokens"
    )
    hosts: tuple[HostName, ...] = Field(
        default=(),
        description="host names of this server, beside its own address",
        examples=[["tools.example.com"]],
    )
    origins: tuple[Origin, ...] = Field(
        default=(), description="origins of web pages that may call it", examples=[["https://example.com"]]
    )
    max_request_bytes: Annotated[int, Field(ge=1024, le=256 << 20)] = Field(
        default=4 << 20, description="the largest request, in bytes"
    )
    read_timeout_s: Annotated[float, Field(gt=0, le=3600)] = Field(
        default=20.0, description="seconds a request may take to arrive"
    )
    max_connections: Annotated[int, Field(ge=1, le=100_000)] = Field(
        default=200, description="requests and streams at one time, shared among the clients"
    )
    max_waiting_bytes: Annotated[int, Field(ge=1024, le=1 << 40)] = Field(
        default=64 << 20, description="bytes of all requests in progress, shared among the clients"
    )
    max_sessions: Annotated[int, Field(ge=1, le=100_000)] = Field(
        default=1000, description="sessions of older protocols at one time, shared among the clients"
    )


class EngineSection(Model):
    """How tasks are run: `[engine]`."""

    runtime: Name | None = Field(default=None, description="the preferred runtime", examples=["claude-code"])
    strategy: StrategyName = Field(default="auto", description="the strategy for tasks that name none")
    concurrency: Annotated[int, Field(ge=1, le=256)] = Field(default=4, description="how many tasks may run at once")
    timeout_s: Annotated[float, Field(gt=0)] = Field(default=1800.0, description="seconds that one task may take")
    silence_s: Annotated[float, Field(gt=0)] = Field(
        default=300.0, description="seconds without output after which a program is ended"
    )
    chain: tuple[Name, ...] = Field(
        default=(),
        description="the roles of a handoff, instead of the built-in choice",
        examples=[["architect", "developer"]],
    )
    command: Name | None = Field(
        default=None, description="the command that runs prompts on the cli runtime", examples=["llm"]
    )
    prompt_tokens: Annotated[int, Field(ge=1000, le=MOST_TOKENS)] = Field(
        default=60_000, description="the most tokens that files and earlier outputs may add to a prompt"
    )
    mode: Mode | None = Field(
        default=None,
        description="whose budget rules apply: those of mcp, cli or library; by default the caller's",
        examples=["cli"],
    )


EnvName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,199}$")]


class FleetConfig(Model):
    """Several machines with one Postgres: `[fleet]`. Without `url_env` the project is on this machine alone."""

    url_env: EnvName | None = Field(
        default=None, description="the environment variable that holds the Postgres URL", examples=["GO_ENT_FLEET"]
    )
    session_url_env: EnvName | None = Field(
        default=None,
        description="the same for a URL that reaches Postgres itself, if the other is that of a transaction pooler",
        examples=["GO_ENT_FLEET_DIRECT"],
    )
    key_env: EnvName | None = Field(
        default=None,
        description="the environment variable that holds the key of seals and approvals; the newest first, by commas",
        examples=["GO_ENT_FLEET_KEY"],
    )
    # `schema` is a method of pydantic's models.
    namespace: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,39}$")] = Field(
        default="go_ent", description="the schema in that database; projects that share a database need one each"
    )

    @field_validator("url_env", "session_url_env", "key_env", mode="before")
    @classmethod
    def _names_a_variable(cls, value: object) -> object:
        if isinstance(value, str) and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,199}", value):
            raise ValueError("give the NAME of an environment variable: no file holds the secret itself")
        return value


class EngineConfig(Model):
    """All settings of the engine. Without a file: no limits, the usual programs, no commands."""

    engine: EngineSection = Field(default_factory=EngineSection)
    runners: dict[Name, RunnerConfig] = Field(default_factory=dict)
    commands: dict[Name, CommandConfig] = Field(default_factory=dict)
    roles: dict[Name, RoleConfig] = Field(default_factory=dict)
    budget: BudgetConfig = Field(default_factory=BudgetConfig)
    prices: dict[str, PriceConfig] = Field(default_factory=dict)
    executions: RetentionConfig = Field(default_factory=RetentionConfig)
    context: ContextConfig = Field(default_factory=ContextConfig)
    serve: ServeConfig = Field(default_factory=ServeConfig)
    fleet: FleetConfig = Field(default_factory=FleetConfig)

    @model_validator(mode="after")
    def _command_is_there(self) -> EngineConfig:
        name = self.engine.command
        if name is not None and name not in self.commands:
            there = ", ".join(sorted(self.commands)) or "none"
            raise ValueError(f"engine.command: there is no command {name}; there are: {there}")
        return self


def read_engine_config(project: Path, layers: Layers | None = None) -> EngineConfig:
    """The project's settings for the engine, of the file and the environment, or `ConfigError` with all that is
    wrong with them.
    """
    layers = layers or read_engine_settings(project)
    known = SECTIONS | TOOL_SECTIONS
    wrong = [problem((name,), unknown((name,), known), layers.where) for name in sorted(layers.table.keys() - known)]
    for section in sorted(layers.of_file.keys() & {"commands", "runners"}):
        from go_ent.composer.sources.secrets import spelled_out

        wrong += [problem(path, said, layers.where) for path, said in spelled_out(layers.of_file, section)]
    try:
        config = EngineConfig.model_validate({name: value for name, value in layers.table.items() if name in SECTIONS})
    except ValidationError as error:
        wrong += problems(error, EngineConfig, layers.where)
    if wrong:
        raise ConfigError(*wrong)
    return config


def read_engine_settings(project: Path) -> Layers:
    """The settings as they are written. `GO_ENT__RUNNERS__CLAUDE_CODE` is the runtime of that name, whether the file
    names it or not.
    """
    return read_settings(project, {"runners": ("claude-code", "open-code")})

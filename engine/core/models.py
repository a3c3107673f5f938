"""What the engine is asked and what it answers: models that cross processes, files and MCP, with a version."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Literal, Protocol, Self

from pydantic import BaseModel, ConfigDict, Field, SkipValidation, model_validator

from go_ent.sandbox.worker.languages import Language

VERSION = 1

TaskType = Literal["feature", "bugfix", "refactor", "architecture", "test", "docs", "review", "other"]
StrategyName = Literal["auto", "single", "multi", "parallel"]
ExecutionKind = Literal["task", "chain", "graph", "tool", "code"]
TaskStatus = Literal["COMPLETE", "PARTIAL", "BLOCKED", "NEEDS_REPLAN"]
RunStatus = Literal["completed", "failed", "interrupted", "timeout", "paused", "skipped"]
Access = Literal["none", "read", "edit"]
FailureKind = Literal[
    "not_found",  # the program is not there
    "auth",  # no key, or a wrong one
    "rate_limit",
    "unavailable",  # its model or server can't be reached
    "crash",  # ended by itself without an answer
    "silence",  # said nothing for too long
    "empty",  # ended well, without an answer
    "timeout",
    "interrupted",
    "permission",  # it was denied a tool it needed
    "budget",  # a limit on money, tokens or turns
    "mcp_server",  # a server that was attached to it is dead
    "output",  # said more than may be read, or what can't be read
    "task",  # it did its best, and says that it failed
]

Name = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f/\\]+$")]
ModelName = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f-][^\x00-\x1f]*$")]
Threshold = Annotated[float, Field(ge=0.1, le=0.95)]  # of a model's window
CostMost = Annotated[float, Field(ge=0, le=1_000_000)]  # dollars
TaskId = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$")]


class Model(BaseModel):
    """An unknown field is an error, never ignored."""

    # Built when first used: most commands use few of the models.
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, defer_build=True)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """As pydantic's, in a third of its time: an execution's state is copied for each of its records."""
        if deep or update is None or self.__pydantic_private__ is not None:
            return super().model_copy(update=update, deep=deep)
        made = type(self).__new__(type(self))
        object.__setattr__(made, "__dict__", {**self.__dict__, **update})
        object.__setattr__(made, "__pydantic_extra__", None)
        object.__setattr__(made, "__pydantic_fields_set__", self.__pydantic_fields_set__.union(update))
        object.__setattr__(made, "__pydantic_private__", None)
        return made


class BudgetLimit(Model):
    """What may be spent: dollars, tokens, or both. What is not given is not limited here."""

    usd: Annotated[float, Field(gt=0)] | None = Field(default=None, description="dollars")
    tokens: Annotated[int, Field(gt=0)] | None = Field(default=None, description="tokens: input, output and cached")

    def part(self, share: float) -> BudgetLimit:
        """A part of it."""
        usd, tokens = self.usd, self.tokens
        return BudgetLimit(
            usd=None if usd is None else usd * share, tokens=None if tokens is None else max(1, int(tokens * share))
        )


class Tokens(Model):
    """Tokens as a provider counts them. `input` does not include what was read from or written to its cache."""

    input: Annotated[int, Field(ge=0)] = 0
    output: Annotated[int, Field(ge=0)] = 0
    cache_read: Annotated[int, Field(ge=0)] = 0
    cache_write: Annotated[int, Field(ge=0)] = 0

    @property
    def total(self) -> int:
        return self.input + self.output + self.cache_read + self.cache_write

    def __add__(self, other: Tokens) -> Tokens:
        return Tokens(
            input=self.input + other.input,
            output=self.output + other.output,
            cache_read=self.cache_read + other.cache_read,
            cache_write=self.cache_write + other.cache_write,
        )


class Task(Model):
    """One thing to do. Only `description` is needed; with `command`, `tool` or `code`, not even that.

    `description` goes to an agent. `command` is an argv (a list) or the name of a command in the configuration (text);
    `tool` is a composed tool, `code` is Python or what `language` says, both run in the sandbox with `inputs`. A
    description `composed:NAME {"a": 1}` is the short form of `tool`.
    """

    version: Literal[1] = 1
    description: Annotated[str, Field(max_length=4_000_000)] = ""
    type: TaskType = "other"
    role: Name | None = None
    skills: tuple[Name, ...] = ()
    model: ModelName | None = None
    runtime: Name | None = None
    strategy: StrategyName = "auto"
    access: Access = "edit"
    files: tuple[str, ...] = ()
    context: str = ""
    budget: BudgetLimit | None = None
    max_cost_usd: CostMost | None = None  # the most that a command costs; an agent is stopped there
    timeout_s: Annotated[float, Field(gt=0, le=7 * 86400)] | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)
    command: tuple[str, ...] | str | None = None
    tool: str | None = None
    code: str | None = None
    language: Language = "python"
    inputs: dict[str, Any] = Field(default_factory=dict)
    pinned: tuple[str, ...] = ()  # what every prompt has word for word, however much else is summarised
    threshold: Threshold | None = None  # of the window, beyond which is summarised
    repeatable: bool = False  # whether it may be done again when nobody knows whether it was done

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, data: Any) -> Any:
        """`prompt` is the plan file's word for a description; `composed:NAME {...}` names a tool."""
        if not isinstance(data, dict):
            return data
        data = dict(data)
        if "prompt" in data:
            if data.get("description"):
                raise ValueError("prompt and description are the same thing: give one of them")
            data["description"] = data.pop("prompt")
        description = data.get("description")
        if isinstance(description, str) and description.startswith("composed:") and not data.get("tool"):
            name, inputs = _composed(description)
            data |= {"tool": name, "description": ""}
            if inputs:
                data["inputs"] = {**data.get("inputs", {}), **inputs}
        return data

    @model_validator(mode="after")
    def _one_kind(self) -> Task:
        given = [name for name in ("command", "tool", "code") if getattr(self, name)]
        if len(given) > 1:
            raise ValueError(f"a task is one of {', '.join(given)}, not {len(given)} of them")
        if given and given[0] != "command" and self.description.strip():
            raise ValueError(f"a task is one of prompt and {given[0]}, not both of them")
        if self.max_cost_usd is not None and (self.tool or self.code or not (self.max_cost_usd or self.command)):
            said = (
                "a composed tool or code costs nothing by itself"
                if self.tool or self.code
                else "0 is for a command that costs nothing"
            )
            raise ValueError(f"max_cost_usd is the most that a command or an agent costs: {said}")
        if not given and not self.description.strip():
            raise ValueError("a task needs a description (or a command, a tool or code)")
        if self.repeatable and (self.tool or self.code):
            raise ValueError(
                f"repeatable is for a command or a prompt: of a task's {given[0]}, each call is decided for itself"
            )
        return self

    @property
    def needs_model(self) -> bool:
        return not (self.command or self.tool or self.code)

    @property
    def has_prompt(self) -> bool:
        """Whether there is something to say: to an agent, or to a command that takes a prompt."""
        return not (self.tool or self.code) and bool(self.description.strip())

    @property
    def title(self) -> str:
        """One line for people."""
        if self.tool or self.code:
            return f"tool {self.tool}" if self.tool else "code"
        if self.command and not self.description:
            return self.command if isinstance(self.command, str) else " ".join(self.command)
        line = self.description.strip().partition("\n")[0]
        return line if len(line) <= 80 else line[:79] + "…"


def _composed(description: str) -> tuple[str, dict[str, Any]]:
    found = re.fullmatch(r"composed:\s*([A-Za-z_][A-Za-z0-9_]*)\s*(\{.*\})?\s*", description, re.DOTALL)
    if found is None:
        raise ValueError('a composed task is written composed:NAME or composed:NAME {"input": 1}')
    try:
        inputs = json.loads(found[2]) if found[2] else {}
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the inputs after composed:{found[1]} are not JSON: {error}") from None
    return found[1], inputs


class RunRequest(Model):
    """One request to a runner. It is complete: the runner needs to look nothing up."""

    version: Literal[1] = 1
    execution_id: str
    task_id: str = "task"
    attempt: int = 1
    prompt: str = ""
    system: str = ""
    model: str | None = None
    access: Access = "edit"
    cwd: str
    timeout_s: float | None = None
    silence_s: float | None = None
    max_usd: float | None = None
    max_tokens: int | None = (
        None  # what the model may write; a runtime that can't cap that ends the run when it is passed
    )
    json_schema: dict[str, Any] | None = None
    session_id: str | None = None
    session_cost_usd: float | None = (
        None  # what the session had cost before: a runner that reports sums reports the increment
    )
    needs_session: bool = False  # an edit, a price or a resume is wanted: a way that has none will not do
    serve_tools: bool = False  # attach this project's MCP server, so that the agent can use and author composed tools
    command: tuple[str, ...] | str | None = None
    tool: str | None = None
    code: str | None = None
    language: Language = "python"
    inputs: dict[str, Any] = Field(default_factory=dict)
    grants: tuple[str, ...] | None = None  # what a guest may call, at the most; None: all that the project grants
    recording: SkipValidation[Any] = Field(
        default=None, exclude=True, repr=False
    )  # a `composer.Recording`, if it runs in a guest
    keep: SkipValidation[Callable[[Mapping[str, bytes]], str | None] | None] = Field(
        default=None, exclude=True, repr=False
    )  # keeps the files that a guest left, and says what of them is not kept; blocks

    @property
    def run_id(self) -> str:
        """One key for one try: spends, processes and interrupts go by it."""
        return f"{self.execution_id}/{self.task_id}/{self.attempt}"


class Attempt(Model):
    """One try on one runtime: why it ended, and what it cost."""

    runtime: str
    status: RunStatus
    failure: FailureKind | None = None
    error: str | None = None
    cost_usd: float | None = None
    tokens: Tokens | None = None
    duration_ms: int = 0

    @classmethod
    def of(cls, result: RunResult, runtime: str) -> Attempt:
        return cls(
            runtime=runtime,
            status=result.status,
            failure=result.failure,
            error=result.error,
            cost_usd=result.cost_usd,
            tokens=result.tokens,
            duration_ms=result.duration_ms,
        )


def cost_of(attempts: Iterable[Attempt]) -> tuple[float | None, Tokens | None]:
    """What attempts cost together, as far as that is known. One that cost nothing says nothing of the others."""
    attempts = tuple(attempts)
    if len(attempts) == 1:
        return attempts[0].cost_usd, attempts[0].tokens
    costs = [attempt.cost_usd for attempt in attempts if attempt.cost_usd is not None]
    unknown = any(attempt.cost_usd is None and attempt.failure != "not_found" for attempt in attempts)
    tokens = [attempt.tokens for attempt in attempts if attempt.tokens is not None]
    return (sum(costs) if costs and (any(costs) or not unknown) else None), (sum(tokens, Tokens()) if tokens else None)


class RunResult(Model):
    """The result of one task on a runtime. An unknown cost is None, never 0."""

    version: Literal[1] = 1
    execution_id: str
    task_id: str = "task"
    status: RunStatus
    output: str = ""
    structured: Any = None
    error: str | None = None
    failure: FailureKind | None = None
    replan: bool = False  # trying again will not help: the task itself must change
    tokens: Tokens | None = None
    cost_usd: float | None = None
    duration_ms: int = 0
    runtime: str | None = None
    runtime_reason: str = ""
    role: str | None = None
    model: str | None = None
    session_id: str | None = None
    session_cost_usd: float | None = None  # the session's whole cost so far, where the runtime tells it
    files_modified: tuple[str, ...] = ()
    files: tuple[str, ...] = ()  # the first that a guest left, by name: they are kept beside the execution
    observations: tuple[str, ...] = ()
    adjustments: tuple[str, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    overrun_usd: float = 0.0  # what it cost beyond what a budget held for it

    @property
    def ok(self) -> bool:
        return self.status == "completed"

    @property
    def needed_no_model(self) -> bool:
        """Whether nothing was to be paid: a program or the sandbox did it. Its cost is not unknown, there is none."""
        return self.runtime == "cli" and self.model is None and self.tokens is None


class Metrics(Model):
    """What a result used. A cost that nobody reported is None, never 0."""

    tokens_used: int
    duration_ms: int
    cost_usd: float | None = None


class TaskResult(Model):
    """The result of an execution. Only `status` is required; `steps` are its single runs, in a deterministic order."""

    version: Literal[1] = 1
    execution_id: str = ""  # without one it is no execution's: somebody made it by hand
    status: TaskStatus
    strategy: str = ""
    strategy_reason: str = ""
    output: str = ""
    error: str | None = None
    metrics: Metrics | None = None
    files_modified: list[str] = Field(default_factory=list)
    observations: list[str] = Field(default_factory=list)
    adjustments: tuple[str, ...] = ()
    steps: tuple[RunResult, ...] = ()

    @property
    def ok(self) -> bool:
        return self.status == "COMPLETE"


class ModelOptions(Model):
    """Options of a question to a model. With `json_schema` the answer is structured."""

    model: str | None = None
    max_tokens: Annotated[int, Field(gt=0)] | None = None
    json_schema: dict[str, Any] | None = None


class ModelReply(Model):
    """A model's answer. A cost that nobody reported is None, never 0."""

    text: str
    structured: Any = None
    usage: Tokens | None = None
    cost_usd: float | None = None
    model: str | None = None  # that answered, if that is known


class ModelCaller(Protocol):
    """A model, however it is reached: text in, text out."""

    async def __call__(self, system: str, user: str, options: ModelOptions) -> ModelReply: ...


class Event(Model):
    """Something that happened in an execution, as it happens."""

    kind: Literal["status", "step", "text", "tool", "spend", "warning", "fallback", "result"]
    execution_id: str
    task_id: str | None = None
    at: float
    text: str = ""
    data: dict[str, Any] = Field(default_factory=dict)

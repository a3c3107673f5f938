"""The state of an execution, as it is on disk, and which state may follow which."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from types import MappingProxyType
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError
from pydantic_core import to_jsonable_python

from go_ent.engine.core.errors import BadState, ExecutionConflict, TooNew
from go_ent.engine.core.models import ExecutionKind, Model, RunResult, StrategyName, TaskResult

SCHEMA_VERSION = 3
MAX_CHECKPOINTS = 100
MAX_VALUE = 16 << 10  # bytes of JSON: a larger value of a checkpoint is in the journal alone
ExecutionStatus = Literal["pending", "running", "paused", "interrupted", "completed", "failed", "cancelled"]

TRANSITIONS: MappingProxyType[ExecutionStatus, frozenset[ExecutionStatus]] = MappingProxyType(
    {
        "pending": frozenset({"running", "cancelled", "interrupted"}),
        "running": frozenset({"paused", "interrupted", "completed", "failed", "cancelled"}),
        "paused": frozenset({"running", "cancelled", "interrupted"}),
        "interrupted": frozenset({"running", "cancelled"}),
        "failed": frozenset({"running", "cancelled"}),  # a resume tries what has failed again
        "completed": frozenset(),
        "cancelled": frozenset(),
    }
)
FINISHED: frozenset[ExecutionStatus] = frozenset({"completed", "cancelled"})


Count = Annotated[int, Field(ge=0, le=1 << 53)]


def check_transition(now: ExecutionStatus, then: ExecutionStatus, execution_id: str) -> None:
    """Refuse a status that may not follow."""
    if then not in TRANSITIONS[now]:
        said = f"it is {now}" if now not in FINISHED else f"it has finished: it is {now}"
        raise ExecutionConflict(f"execution {execution_id} can't become {then}: {said}")


class Environment(Model):
    """What ran it."""

    go_ent: str
    python: str
    runners: dict[str, str] = Field(default_factory=dict)
    image: str = ""  # the digest of the guest's


class AgentSession(Model):
    """A conversation that an agent program keeps: a later try of a step that is not finished can go on in it."""

    runtime: str
    id: str
    cost_usd: float | None = None  # so far, where it is known


class Request(Model):
    """A call that waits until somebody approves or rejects it."""

    tool: str
    arguments: dict[str, Any] | None = None  # None: too large to be kept
    digest: str = ""  # the SHA-256 of the arguments
    reason: str
    at: float


class Decision(Model):
    """What somebody has said of such a call, with that user's seal."""

    approved: bool
    seal: str = ""


class Checkpoint(Model):
    """A place that guest code (*path* says which run) or a person has marked."""

    label: str
    value: Any = None
    kept: bool = True  # whether the value is here; if not, the journal has it
    path: str | None = None
    at: float
    seq: Count


class Lines(Model):
    """How many lines of a pipeline are done, and how many have failed."""

    done: Count = 0
    failed: Count = 0


class Summarized(Model):
    """A link of the context's chain: the summary itself, and what it replaced, are beside the state in `context/`."""

    number: int
    scope: str = ""
    by: str
    model: str | None = None
    tokens_before: int
    tokens_after: int
    cost_usd: float | None = None
    at: float


class Fill(Model):
    """How full the context was when a step was last sent something."""

    step: str
    tokens: int
    window: int


class ExecutionState(Model):
    """One execution. `work` is what was asked (a task, a list or a plan); results are by step, each complete in
    itself.
    """

    version: Literal[3] = 3
    id: str
    parent: str | None = None
    parent_call: str | None = None  # the call of its parent that began it
    client: str = ""  # the client with a token who began it; "": the project's own user
    kind: ExecutionKind
    title: str
    status: ExecutionStatus = "pending"
    strategy: StrategyName = "single"
    strategy_reason: str = ""
    work: dict[str, Any]
    work_digest: str
    adjustments: tuple[str, ...] = ()
    seal: str = ""  # made by the user who began it, of all that says what it does
    results: dict[str, RunResult] = Field(default_factory=dict)
    tries: dict[str, int] = Field(default_factory=dict)  # by step: each try has a number of its own, also after a crash
    begun: dict[str, str] = Field(default_factory=dict)  # by step: the runtime of a try that has no end on record
    sessions: dict[str, AgentSession] = Field(default_factory=dict)  # by step, of those that are not finished
    result: TaskResult | None = None
    error: str | None = None
    spent_usd: float | None = None
    spent_tokens: int = 0
    environment: Environment
    created: float
    updated: float
    finished: float | None = None
    source: str | None = None  # the SHA-256 of its code
    calls: Count = 0  # tool calls that its guests have made
    requests: dict[str, Request] = Field(
        default_factory=dict
    )  # by the path of the call: those that wait for a decision
    decisions: dict[str, Decision] = Field(default_factory=dict)
    context: tuple[Summarized, ...] = ()  # the chain: the last of its summaries
    fill: Fill | None = None
    checkpoints: tuple[Checkpoint, ...] = ()  # the last ones
    undone: tuple[
        tuple[Count, Count], ...
    ] = ()  # what came after checkpoints that were gone back to: after a record, up to another
    lines: Lines | None = None
    final: bool = False  # it has failed by its own doing: run again, it would again
    unresumable: str | None = None  # why it can't be resumed
    damage: tuple[str, ...] = ()  # what was lost of its journal
    seq: Count = 0  # of the last journal record that is in here
    offset: Count = 0  # where that record ends in the journal; 0 if it is not known

    @property
    def running(self) -> list[str]:
        """The steps that were begun and have no result; of an execution that is running, those that run."""
        return [step for step in self.tries if step not in self.results] if self.status == "running" else []

    @property
    def resumable(self) -> bool:
        """Whether it could go on. Of a running one: once it has no process any more."""
        if self.status in FINISHED or self.unresumable is not None:
            return False
        return self.status != "failed" or not self.final

    def moved(self, status: ExecutionStatus, at: float, **changes: Any) -> ExecutionState:
        """This state, with another status that may follow."""
        check_transition(self.status, status, self.id)
        return self.model_copy(update={"status": status, "updated": at, "finished": finished(status, at), **changes})


def finished(status: ExecutionStatus, at: float) -> float | None:
    """When an execution has finished that comes to a status now."""
    return at if status in ("completed", "failed", "cancelled") else None


def sealed_text(state: ExecutionState) -> str:
    """What a seal is made of: whose it is, and all that says what is done."""
    return sealed_words(state.id, state.work_digest, state.strategy, state.adjustments, state.client)


def sealed_words(
    id: str, work_digest: str, strategy: str = "single", adjustments: Iterable[str] = (), client: str = "", **_: object
) -> str:
    """The same, from the fields of a state."""
    return json.dumps([id, work_digest, strategy, list(adjustments), *([client] if client else [])])


_in_order = json.JSONEncoder(sort_keys=True).encode  # as `dumps`, which would make an encoder for each


def digest_of(work: dict[str, Any]) -> str:
    """One digest for one piece of work, however its members are ordered."""
    return hashlib.sha256(_in_order(to_jsonable_python(work)).encode()).hexdigest()


def pack(state: ExecutionState) -> bytes:
    """A state as its file: with a checksum of its text."""
    text = state.model_dump_json()
    checksum = hashlib.sha256(text.encode()).hexdigest()
    return f'{{"checksum":"{checksum}","state":{text}}}\n'.encode()


def unpack(data: bytes, where: str) -> ExecutionState:
    """The state in a file, or `BadState` that says what is wrong with it."""
    head, between, rest = data.partition(b',"state":')
    text = rest.rstrip(b"\n")[:-1]
    if not between or head != b'{"checksum":"' + hashlib.sha256(text).hexdigest().encode() + b'"':
        raise BadState(f"{where} is damaged: its checksum does not fit")
    try:
        return (
            ExecutionState.model_validate_json(text) if text.startswith(_NOW) else state_from(json.loads(text), where)
        )
    except (ValidationError, ValueError, RecursionError) as error:
        raise BadState(f"{where} can't be read: {str(error).splitlines()[0]}") from None


def state_from(found: Any, where: str) -> ExecutionState:
    """A state from its JSON value, of this version or an older one. `TooNew` if it is of a newer go-ent."""
    version = found.get("version") if isinstance(found, dict) else None
    if type(version) is not int:
        raise ValueError("it has no version")
    if version > SCHEMA_VERSION:
        raise TooNew(
            f"{where} has version {version}, and this go-ent reads versions up to {SCHEMA_VERSION}: update go-ent"
        )
    while version != SCHEMA_VERSION:
        if version not in MIGRATIONS:
            raise ValueError(f"there never was a version {version}")
        found = MIGRATIONS[version](found)
        version = found["version"]
    return ExecutionState.model_validate(found)


def _from_1(found: dict[str, Any]) -> dict[str, Any]:
    """What version 2 added has a default that is right for what was before."""
    return {**found, "version": 2}


def _from_2(found: dict[str, Any]) -> dict[str, Any]:
    """A step that was begun had a try; on which runtime was in its journal alone."""
    tries, results = found.get("tries") or {}, found.get("results") or {}
    return {**found, "version": 3, "begun": {step: "" for step in tries if step not in results}}


_NOW = b'{"version":%d,' % SCHEMA_VERSION
# From each older version to the next; a state's file and a journal's first record go through it alike.
MIGRATIONS: MappingProxyType[int, Callable[[dict[str, Any]], dict[str, Any]]] = MappingProxyType(
    {1: _from_1, 2: _from_2}
)

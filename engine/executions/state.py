"""The state of an execution, as it is on disk, and which state may follow which."""

from __future__ import annotations

import hashlib
import json
from types import MappingProxyType
from typing import Any, Literal

from pydantic import Field, ValidationError
from pydantic_core import to_jsonable_python

from engine.errors import EngineError, ExecutionConflict
from engine.models import Model, RunResult, StrategyName, TaskResult

SCHEMA_VERSION = 1
ExecutionStatus = Literal["pending", "running", "paused", "interrupted", "completed", "failed", "cancelled"]
Kind = Literal["task", "chain", "graph", "tool", "code"]

TRANSITIONS: MappingProxyType[ExecutionStatus, frozenset[ExecutionStatus]] = MappingProxyType(
    {
        "pending": frozenset({"running", "cancelled", "interrupted"}),
        "running": frozenset({"paused", "interrupted", "completed", "failed", "cancelled"}),
        "paused": frozenset({"running", "cancelled", "interrupted"}),
        "interrupted": frozenset({"running", "cancelled"}),
        "failed": frozenset({"running"}),  # a resume tries what has failed again
        "completed": frozenset(),
        "cancelled": frozenset(),
    }
)
FINISHED: frozenset[ExecutionStatus] = frozenset({"completed", "cancelled"})


class BadState(EngineError):
    """Raised when a state can't be read: it is damaged, or of a newer go-ent."""


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


class AgentSession(Model):
    """A conversation that an agent program keeps: a later try of a step that is not finished can go on in it."""

    runtime: str
    id: str
    cost_usd: float | None = None  # so far, where it is known


class ExecutionState(Model):
    """One execution. `work` is what was asked (a task, a list or a plan); results are by step, each complete in itself."""

    version: Literal[1] = 1
    id: str
    parent: str | None = None
    kind: Kind
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
    sessions: dict[str, AgentSession] = Field(default_factory=dict)  # by step, of those that are not finished
    result: TaskResult | None = None
    error: str | None = None
    spent_usd: float | None = None
    spent_tokens: int = 0
    environment: Environment
    created: float
    updated: float
    finished: float | None = None
    seq: int = 0  # of the last journal record that is in here

    @property
    def running(self) -> list[str]:
        """The steps that were begun and have no result; of an execution that is running, those that run."""
        return [step for step in self.tries if step not in self.results] if self.status == "running" else []

    def moved(self, status: ExecutionStatus, at: float, **changes: Any) -> ExecutionState:
        """This state, with another status that may follow."""
        check_transition(self.status, status, self.id)
        ended = at if status in ("completed", "failed", "cancelled") else None
        return self.model_copy(update={"status": status, "updated": at, "finished": ended, **changes})


def sealed_text(state: ExecutionState) -> str:
    """What a seal is made of: whose it is, and all that says what is done."""
    return json.dumps([state.id, state.work_digest, state.strategy, list(state.adjustments)])


def digest_of(work: dict[str, Any]) -> str:
    """One digest for one piece of work, however its members are ordered."""
    return hashlib.sha256(json.dumps(to_jsonable_python(work), sort_keys=True).encode()).hexdigest()


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
        found = json.loads(text)
        version = found.get("version")
        if isinstance(version, int) and version > SCHEMA_VERSION:
            raise BadState(f"{where} has version {version}, and this go-ent reads versions up to {SCHEMA_VERSION}: update go-ent")
        return ExecutionState.model_validate_json(text)
    except (ValidationError, ValueError, AttributeError, RecursionError) as error:
        raise BadState(f"{where} can't be read: {str(error).splitlines()[0]}") from None

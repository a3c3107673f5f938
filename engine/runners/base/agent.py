"""What all agent programs have in common: whether one is there, its runs under way, and their end."""

from __future__ import annotations

import asyncio
import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from go_ent.composer.catalogue.schemas import BadSchema, Checker
from go_ent.dataclass import dataclass
from go_ent.engine.core.models import FailureKind, RunRequest, RunResult
from go_ent.engine.processes.child import ChildLimits, Command, NotStarted, run_child
from go_ent.engine.runners.base.runner import Availability, Emit, Progress
from go_ent.sandbox.children.programs import find_program
from go_ent.sandbox.children.python import NOWHERE

VERSION_S = 30.0
TAIL_CHARS = 300


class RunRefused(Exception):
    """Internal: raised when a request can't be run here, and nothing was started. It is the run's result."""

    def __init__(self, failure: FailureKind, message: str, *, replan: bool = False) -> None:
        super().__init__(message)
        self.failure, self.replan = failure, replan


def checker_for(request: RunRequest) -> Checker | None:
    """What an answer in a shape is checked with; `RunRefused` if the shape is none."""
    if request.json_schema is None:
        return None
    try:
        return Checker(request.json_schema)
    except BadSchema as error:
        raise RunRefused("task", f"the answer's schema: {error}", replan=True) from None


@dataclass
class Live:
    """A run that is under way."""

    stop: asyncio.Event = field(default_factory=asyncio.Event)
    done: asyncio.Event = field(default_factory=asyncio.Event)
    began: float = field(default_factory=time.monotonic)

    @property
    def duration_ms(self) -> int:
        return round((time.monotonic() - self.began) * 1000)


class AgentProgram(ABC):
    """A runner over a program on the PATH. What is its own: how it is asked, its environment, and what it keeps
    running.
    """

    name: str
    family = "mcp"

    def __init__(self, program: tuple[str, ...], project: Path, host: Mapping[str, str], install: str) -> None:
        self._program, self._project, self._host = program, project, dict(host)
        self._install = install
        self._live: dict[str, Live] = {}
        self._availability: Availability | None = None
        self._looking = asyncio.Lock()

    @abstractmethod
    async def _execute(self, request: RunRequest, emit: Emit, live: Live) -> dict[str, Any]:
        """Run a request; the fields of its result. `RunRefused` if nothing was started."""

    @abstractmethod
    def _own_environment(self) -> dict[str, str]:
        """The environment in which its version is asked for. `RunRefused` if the configuration's is none."""

    @abstractmethod
    def _judged(self, said: str) -> Availability:
        """Whether the version that it says will do."""

    @abstractmethod
    def _hide(self, text: str) -> str:
        """A text without secrets."""

    def _tell(self, emit: Emit, progress: Progress) -> None:
        """Report progress, without secrets."""
        data = {key: self._clean(value) for key, value in progress.data.items()}
        emit(replace(progress, text=self._hide(progress.text), data=data))

    def _clean(self, value: object) -> object:
        if isinstance(value, dict):
            return {key: self._clean(one) for key, one in value.items()}
        if isinstance(value, list):
            return [self._clean(one) for one in value]
        return self._hide(value) if isinstance(value, str) else value

    @abstractmethod
    async def _let_go(self) -> None:
        """End what is kept from run to run."""

    async def available(self) -> Availability:
        """Whether the program is there. Its version is asked for once."""
        async with self._looking:
            if self._availability is None:
                found = await self._look()
                if not found.ok:
                    return found
                self._availability = found
            return self._availability

    async def execute(self, request: RunRequest, emit: Emit) -> RunResult:
        live = self._live[request.run_id] = Live()
        try:
            fields = await self._execute(request, emit, live)
        except RunRefused as error:
            fields = {
                "status": "failed",
                "failure": error.failure,
                "error": self._hide(str(error)),
                "replan": error.replan,
            }
        finally:
            self._live.pop(request.run_id, None)
            live.done.set()
        return RunResult(
            execution_id=request.execution_id,
            task_id=request.task_id,
            runtime=self.name,
            duration_ms=live.duration_ms,
            **fields,
        )

    async def interrupt(self, run_id: str) -> bool:
        live = self._live.get(run_id)
        if live is None:
            return False
        live.stop.set()
        return True

    async def close(self) -> None:
        """Ends its runs, then what it keeps."""
        runs = tuple(self._live.values())
        for live in runs:
            live.stop.set()
        for live in runs:
            await live.done.wait()
        await self._let_go()

    async def _there(self) -> Availability:
        """Its availability, for a run: `RunRefused` without it."""
        found = await self.available()
        if not found.ok:
            raise RunRefused("not_found", found.whole)
        return found

    async def _look(self) -> Availability:
        program = self._program[0]
        where = find_program(program, self._host.get("PATH"), self._project)
        if where is None:
            fix = f"install it ({self._install}), or name it in [runners.{self.name}] command"
            return Availability(False, reason=f"there is no program {program}", fix=fix)
        said: list[bytes] = []
        limits = ChildLimits(timeout_s=VERSION_S, line_bytes=4096, total_bytes=64 << 10, grace_s=0.5)
        try:
            # Not in the project, whose files it might obey; but what a command says after its program may be one of
            # them.
            folder = NOWHERE if len(self._program) == 1 else self._project
            command = Command((where, *self._program[1:], "--version"), folder, self._own_environment())
            ended = await run_child(command, said.append, limits=limits, tag=f"version/{secrets.token_hex(8)}")
        except (NotStarted, RunRefused) as error:
            return Availability(False, reason=self._hide(str(error)))
        if ended.by != "exit" or ended.code:
            how = f"after {VERSION_S:g} s" if ended.by == "timeout" else f"exit code {ended.code}"
            tail = self._hide(ended.stderr)[-TAIL_CHARS:].strip()
            return Availability(False, reason=f"{program} --version did not answer ({how}){tail and ': ' + tail}")
        return self._judged(b"\n".join(said).decode("utf-8", "replace").strip())

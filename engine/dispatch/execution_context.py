"""One execution as its steps see it: what they say, warn of, and write."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from go_ent.engine.budget import Ask
from go_ent.engine.context.keeper import RecordedContext
from go_ent.engine.core.concurrency import to_the_end
from go_ent.engine.core.models import BudgetLimit, Event
from go_ent.engine.executions.lifecycle import Live
from go_ent.engine.executions.tape import Policy
from go_ent.engine.runners.base.runner import Progress

MAX_NOTED = 4000


@dataclass(slots=True)
class ExecutionContext(Live):
    """One execution as its steps see it."""

    emit: Callable[[Event], None] = lambda _: None
    limit: BudgetLimit | None = None
    may_start: bool = True  # whether whoever asked may start programs by argv
    ask: Ask | None = None  # decides what does not fit the budget, in the place of the budget's own
    adjustments: tuple[str, ...] = ()
    decided: dict[str, Policy] = field(
        default_factory=dict
    )  # by step, of those of which nobody knows whether they were done
    warnings: dict[str, list[str]] = field(default_factory=dict)  # by step: they are in its result
    spending: set[str] = field(default_factory=set)  # the tries for which money is held now
    context: RecordedContext | None = None
    broken: str | None = None  # why nothing more can be recorded
    settled: asyncio.Event = field(default_factory=asyncio.Event)
    reserving: asyncio.Lock = field(default_factory=asyncio.Lock)
    queue: list[tuple[Callable[[], Any], asyncio.Future[Any]]] = field(default_factory=list)  # what waits to be written
    writer: asyncio.Task[None] | None = None

    def say(self, kind: Any, step: str | None = None, text: str = "", **data: Any) -> None:
        self.emit(Event(kind=kind, execution_id=self.id, task_id=step, at=time.time(), text=text, data=data))

    def note(self, step: str, progress: Progress) -> None:
        """An agent's turn, or its use of a tool, on record."""
        text = progress.text or str(progress.data.get("name", ""))
        try:
            self.held.append("progress", {"step": step, "what": progress.kind, "text": text[:MAX_NOTED]})
        except OSError as error:
            self.broken = self.broken or f"{self.held.slot.where} can't be written: {error.strerror or error}"
            self.stop.set()

    def warn(self, step: str, text: str) -> None:
        self.warnings.setdefault(step, []).append(text)
        self.say("warning", step, text)

    async def write(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """Do something to the execution's files, in a thread: what several steps want at once is written, and synced,
        at once.

        Who is cancelled meanwhile waits for it.
        """
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.queue.append((partial(work, *arguments), done))
        if self.writer is None or self.writer.done():
            self.writer = asyncio.create_task(self._drain())
        try:
            return await asyncio.shield(done)
        except asyncio.CancelledError:
            await asyncio.wait([done])
            raise

    async def _drain(self) -> None:
        while self.queue:
            batch, self.queue = self.queue, []
            outcomes = await to_the_end(self.held.together, [work for work, _ in batch])
            for (_, done), outcome in zip(batch, outcomes, strict=True):
                if isinstance(outcome, Exception):
                    done.set_exception(outcome)
                else:
                    done.set_result(outcome)

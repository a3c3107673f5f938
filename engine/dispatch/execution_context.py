"""One execution as its steps see it: what they say, warn of, and write."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import field
from functools import partial
from typing import Any

from go_ent.dataclass import dataclass
from go_ent.engine.budget import Ask
from go_ent.engine.context.keeper import RecordedContext
from go_ent.engine.core.concurrency import to_the_end
from go_ent.engine.core.models import BudgetLimit, Event, RunResult
from go_ent.engine.executions.lifecycle import Live
from go_ent.engine.executions.tape import Policy
from go_ent.engine.runners.base.runner import Progress

log = logging.getLogger("go_ent.engine")
MAX_NOTED = 4000
LINGER_S = 0.002  # how long the end of a step waits for something that is synced with it
MOST_AT_ONCE = 1 << 16  # characters of a result that are written on the event loop


@dataclass(slots=True)
class ExecutionContext(Live):
    """One execution as its steps see it."""

    listeners: Sequence[Callable[[Event], None]] = ()  # the engine's own list, which may grow
    on_event: Callable[[Event], None] | None = None  # who listens to this execution alone
    limit: BudgetLimit | None = None
    may_start: bool = True  # whether the caller may start programs by argv
    ask: Ask | None = None  # decides what does not fit the budget, in the place of the budget's own
    adjustments: tuple[str, ...] = ()
    decided: dict[str, Policy] = field(
        default_factory=dict
    )  # by step, of those of which nobody knows whether they were done
    warnings: dict[str, list[str]] = field(default_factory=dict)  # by step: they are in its result
    ends_elsewhere: bool = False  # what a step came to is on record where it was sent from
    spending: set[str] = field(default_factory=set)  # the tries for which money is held now
    context: RecordedContext | None = None
    broken: str | None = None  # why nothing more can be recorded
    settled: asyncio.Event = field(default_factory=asyncio.Event)
    reserving: asyncio.Lock = field(default_factory=asyncio.Lock)
    queue: list[tuple[Callable[[], Any], asyncio.Future[Any]]] = field(default_factory=list)  # what waits to be written
    writer: asyncio.Task[None] | None = None
    lingering: asyncio.TimerHandle | None = None  # until the ends of steps are synced, with nothing else to do it
    ends: int = 0  # how often ends of steps were left to be synced together
    synced: int = 0  # how many of those times they have been
    unsaid: deque[tuple[int, Event]] = field(default_factory=deque)  # and after which of them it is said

    def say(self, kind: Any, step: str | None = None, text: str = "", **data: Any) -> None:
        """Tell who listens; in order, and nothing before the ends of steps that came before it are on disk."""
        if not self.listeners and self.on_event is None:
            return
        event = Event(kind=kind, execution_id=self.id, task_id=step, at=time.time(), text=text, data=data)
        if self.synced == self.ends:
            self._tell(event)
        else:
            self.unsaid.append((self.ends, event))

    def _tell(self, event: Event) -> None:
        for listener in (*self.listeners, *((self.on_event,) if self.on_event is not None else ())):
            try:
                listener(event)
            except Exception:
                log.exception("a listener failed, and the execution goes on")

    def note(self, step: str, progress: Progress) -> None:
        """An agent's turn, or its use of a tool, on record."""
        text = progress.text or str(progress.data.get("name", ""))
        try:
            self.held.append("progress", {"step": step, "what": progress.kind, "text": text[:MAX_NOTED]})
        except OSError as error:
            self.fail(error)

    def fail(self, error: OSError) -> None:
        """Nothing more can be recorded: what can't be must not be done again, nor anything after it be begun."""
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
        done = self._queued(partial(work, *arguments))
        self._start()
        try:
            return await asyncio.shield(done)
        except asyncio.CancelledError:
            await asyncio.wait([done])
            raise

    async def finish(self, step: str, result: RunResult, *, unknown: bool) -> None:
        """The end of a step, in the record when this returns. It is synced with the start of the next step, which waits
        for that, or soon, or by `flush`; what is said from now on is said after that.
        """
        if self.ends_elsewhere:
            return
        if len(result.output) > MOST_AT_ONCE:
            await self.write(partial(self.held.finish_step, step, result, unknown=unknown))
            return
        self.held.finish_step(step, result, unknown=unknown, sync=False)
        if self.lingering is None:
            self.ends += 1
            self._queued(self.held.settle).add_done_callback(partial(self._settled, self.ends))
            self.lingering = asyncio.get_running_loop().call_later(LINGER_S, self._start)

    def _settled(self, number: int, done: asyncio.Future[Any]) -> None:
        if isinstance(error := done.exception(), OSError):
            self.fail(error)
        elif error is not None:
            self.broken = self.broken or str(error)
            self.stop.set()
        self.synced = number
        while self.unsaid and self.unsaid[0][0] <= number:
            self._tell(self.unsaid.popleft()[1])

    async def flush(self) -> None:
        """All that steps have left to be written is on disk, and all is said, when this returns."""
        if self.queue:
            self._start()
        if self.writer is not None:
            await asyncio.shield(self.writer)

    def _queued(self, work: Callable[[], Any]) -> asyncio.Future[Any]:
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.queue.append((work, done))
        return done

    def _start(self) -> None:
        if self.writer is None or self.writer.done():
            self.writer = asyncio.create_task(self._drain())

    async def _drain(self) -> None:
        while self.queue:
            batch, self.queue = self.queue, []
            if self.lingering is not None:
                self.lingering.cancel()
                self.lingering = None
            outcomes = await to_the_end(self.held.together, [work for work, _ in batch])
            for (_, done), outcome in zip(batch, outcomes, strict=True):
                if isinstance(outcome, Exception):
                    done.set_exception(outcome)
                else:
                    done.set_result(outcome)

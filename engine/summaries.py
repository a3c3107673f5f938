"""Summaries that somebody asked for: of an execution, now, or of a text for a guest that is running."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from go_ent.engine.context.execution_summaries import told_later
from go_ent.engine.context.keeper import Keeper, RecordedContext
from go_ent.engine.context.models import Purse, SummaryLink
from go_ent.engine.core.concurrency import to_the_end
from go_ent.engine.core.errors import ExecutionConflict
from go_ent.engine.dispatch.execution_context import ExecutionContext
from go_ent.engine.executions.owned import OwnedExecution
from go_ent.engine.executions.running import Watch
from go_ent.engine.executions.state import ExecutionState
from go_ent.engine.executions.store import ExecutionStore


class Summaries:
    """Of one engine. *check_owner* refuses an execution that is somebody else's; it blocks."""

    def __init__(
        self,
        store: ExecutionStore,
        keeper: Keeper,
        watch: Watch,
        check_owner: Callable[[ExecutionState], None],
    ) -> None:
        self._store = store
        self._keeper = keeper
        self._watch = watch
        self._check_owner = check_owner
        self._contexts: dict[str, RecordedContext] = {}  # of guests that have had texts summarised

    async def summarize(
        self, execution_id: str, run: ExecutionContext | None, *, model: str | None
    ) -> list[SummaryLink]:
        """Summarise an execution; *run* is its context, where this engine runs its steps."""
        running = self._watch.get(execution_id)
        held = (
            running.held
            if running is not None
            else await to_the_end(self._store.hold, execution_id, undo=OwnedExecution.release)
        )
        try:
            if running is None:
                await asyncio.to_thread(self._check_owner, held.state)
            if run is not None and run.context is None:
                run.context = RecordedContext(held)
            context = (run.context if run is not None else None) or RecordedContext(held)
            purse = Purse(execution_id=execution_id, execution_limit=run.limit if run is not None else None)
            links = [
                await self._keeper.summarize(context, messages, purpose=held.state.title, purse=purse, model=model)
                for messages in told_later(held.state)
            ]
            if running is None:
                await asyncio.to_thread(held.write)
            return [link for link in links if link is not None]
        finally:
            if running is None:
                await asyncio.to_thread(held.release)

    async def shorten(self, text: str, max_tokens: int, parent: str | None) -> str:
        """A text in at most so many tokens, on record in the execution *parent*, which must be running here."""
        running = self._watch.get(parent) if parent is not None else None
        if running is None:
            raise ExecutionConflict("a text is summarised for an execution that is running here")
        self._contexts = {key: context for key, context in self._contexts.items() if self._watch.get(key) is not None}
        context = self._contexts.setdefault(running.held.id, RecordedContext(running.held))
        return await self._keeper.shorten(context, text, max_tokens, Purse(execution_id=running.held.id))

"""What the command line runs is on record, like everything else."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from functools import partial
from typing import TYPE_CHECKING

from go_ent.engine.core.config import read_engine_config
from go_ent.engine.executions.lifecycle import Lifecycle
from go_ent.engine.executions.past_runs import past_runs
from go_ent.engine.guest_runs.engine_tools import SummarySource, offer_summaries
from go_ent.engine.guest_runs.runs import Guests
from go_ent.engine.storage.file_storage import open_store

if TYPE_CHECKING:
    from go_ent.composer import Composer


@contextlib.asynccontextmanager
async def guests_for(composer: Composer) -> AsyncIterator[Guests]:
    """What a composer runs, on record; with the engine's own tools for it if its project grants them."""
    if composer.grants.may_reach("engine") or SummarySource.name in composer.config.allow:
        from go_ent.engine.engine import Engine

        async with await asyncio.to_thread(Engine, composer.project, composer=composer, mode="cli") as engine:
            offer_summaries(engine, composer)
            yield engine.guests
        return
    config = await asyncio.to_thread(
        read_engine_config, composer.project
    )  # now: what is wrong with it is told before anything runs
    store = open_store(composer.project)
    composer.past_runs = partial(past_runs, store)
    lifecycle = Lifecycle(store, config.executions)
    try:
        yield Guests(lifecycle, lambda: composer)
    finally:
        await lifecycle.close()

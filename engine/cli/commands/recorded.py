"""What the command line runs is on record, like everything else: a project's composer, and what it runs."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from go_ent.composer import Approver, Composer
from go_ent.composer.known_tools import unmatched_grants
from go_ent.composer.project.files import find_project
from go_ent.engine.cli.commands.exec import interrupted_by_signals
from go_ent.engine.cli.terminal.ask import Person, approve_all, at_terminal
from go_ent.engine.cli.terminal.output import say
from go_ent.engine.cli.terminal.progress import ProgressLine, image_ready
from go_ent.engine.core.config import read_engine_config
from go_ent.engine.executions.lifecycle import Lifecycle
from go_ent.engine.executions.store import ExecutionStore
from go_ent.engine.guest_runs.engine_tools import SummarySource, offer_summaries
from go_ent.engine.guest_runs.runs import Guests
from go_ent.engine.storages import Storages, open_storages

if TYPE_CHECKING:
    from go_ent.composer.codemode.past_runs import PastRun


@contextlib.asynccontextmanager
async def guests_for(composer: Composer, kept: Storages | None = None) -> AsyncIterator[Guests]:
    """What a composer runs, on record; with the engine's own tools for it if its project grants them. *kept* is what
    its project keeps, if that is open.
    """
    kept = open_storages(composer.project) if kept is None else kept
    if composer.grants.may_reach("engine") or SummarySource.name in composer.config.allow:
        from go_ent.engine.engine import Engine

        async with await asyncio.to_thread(
            Engine, composer.project, composer=composer, mode="cli", storages=kept
        ) as engine:
            offer_summaries(engine, composer)
            yield engine.guests
        return
    config = await asyncio.to_thread(
        read_engine_config, composer.project
    )  # now: what is wrong with it is told before anything runs
    store = ExecutionStore(kept.executions)
    composer.past_runs = partial(_past_runs, store)
    lifecycle = Lifecycle(store, config.executions)
    guests = Guests(lifecycle, lambda: composer)
    guests.elsewhere = kept.elsewhere
    try:
        yield guests
    finally:
        await lifecycle.close()
        if kept.elsewhere is not None:
            await kept.elsewhere.close()


def _past_runs(store: ExecutionStore) -> Iterator[PastRun]:
    """Past runs, read by what only `learn` and `suggest` need."""
    from go_ent.engine.executions.past_runs import past_runs

    return past_runs(store)


def with_composer(work: Callable[[Composer], Awaitable[int]], *, progress: str = "working", quiet: bool = False) -> int:
    """Do something with the composer of the project that this folder is in."""
    return with_guests(lambda composer, guests, approver: work(composer), progress=progress, quiet=quiet)


def with_guests(
    work: Callable[[Composer, Guests, Approver | None], Awaitable[int]],
    *,
    progress: str = "working",
    quiet: bool = False,
    yes: bool = False,
) -> int:
    """Do something with the composer of the project that this folder is in, and what it runs on record.

    *progress* is what is going on; *yes* stands for a person who approves.
    """

    async def main() -> int:
        composer = await asyncio.to_thread(lambda: Composer.open(".", **kept.for_composer))
        person = Person() if at_terminal() else None
        if person is not None:
            person.wait_for(composer.box.limits)
        async with composer, guests_for(composer, kept) as guests:
            with interrupted_by_signals(composer.box, guests, person):
                return await work(
                    composer, guests, approve_all if yes else person.approve if person is not None else None
                )

    kept = open_storages(find_project("."))
    image_ready(find_project("."), quiet=quiet, kinds=("plain",), images=kept.images)
    try:
        with ProgressLine(progress, quiet=quiet):
            return asyncio.run(main())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


async def say_unmatched(composer: Composer, grants: Iterable[str] | None = None) -> None:
    """Tell of grants that fit no tool: a person who runs something may wonder why it can't be called."""
    found = partial(unmatched_grants, composer.project, composer.config, grants or (), approvals=False)
    for one in await asyncio.to_thread(found):
        say(f"note: grants: {one}", err=True)

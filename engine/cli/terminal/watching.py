"""`go-ent tool test --watch`: tools are tested again as they are edited."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Collection
from typing import Protocol

from go_ent.composer import Composer, ComposerError
from go_ent.engine.cli.terminal.output import say

EVERY_S = 0.4


class Testing(Protocol):
    """Runs the examples of some tools, or of all if none is named, and prints how they went."""

    def __call__(self, composer: Composer, names: tuple[str, ...] = ..., /) -> Awaitable[int]: ...


def watched(test: Testing, names: Collection[str], *, watch: bool) -> Callable[[Composer], Awaitable[int]]:
    """*test*, and with *watch* again for each tool whose file has changed, until Ctrl-C."""

    async def work(composer: Composer) -> int:
        code = await test(composer)
        seen = _stamps(composer)
        if watch:
            say("watching; Ctrl-C ends this", err=True)
        while watch:
            sys.stdout.flush()
            await asyncio.sleep(EVERY_S)
            now = await asyncio.to_thread(_stamps, composer)
            changed = {name for _, name in now.keys() | seen.keys() if _differs(name, now, seen)}
            there = {name for _, name in now}
            seen = now
            if chosen := sorted(changed & there & set(names or there)):
                await asyncio.sleep(EVERY_S / 4)  # an editor may write in several steps
                say(f"\n{time.strftime('%H:%M:%S')} {', '.join(chosen)}", err=True)
                try:
                    code = await test(composer, tuple(chosen))
                except ComposerError as error:  # it is gone again, say
                    say(f"go-ent: {error}", err=True)
                seen = await asyncio.to_thread(_stamps, composer)  # what was tested may have become a version
        return code

    return work


Stamps = dict[tuple[str, str], object]


def _stamps(composer: Composer) -> Stamps:
    return {(store.scope, name): found.stamp for store in composer.stores for name, found in store.scan().items()}


def _differs(name: str, now: Stamps, before: Stamps) -> bool:
    return any(now.get((scope, name)) != before.get((scope, name)) for scope in ("project", "global"))

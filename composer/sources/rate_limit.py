"""How often a tool may be called: a bucket of calls that fills again with time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from go_ent.composer.sources.server_config import parse_rate


class Bucket:
    """So many calls in so many seconds; who comes too early waits, in the order of coming."""

    def __init__(
        self,
        count: int,
        per_s: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._count, self._rate, self._clock, self._sleep = float(count), count / per_s, clock, sleep
        self._left, self._at = self._count, clock()

    @classmethod
    def of(cls, rate: str | None) -> Bucket | None:
        return None if rate is None else cls(*parse_rate(rate))

    async def take(self) -> None:
        now = self._clock()
        self._left = min(self._count, self._left + (now - self._at) * self._rate)
        self._at = now
        self._left -= 1  # below nothing, it is a place in the queue
        if self._left >= 0:
            return
        try:
            await self._sleep(-self._left / self._rate)
        except asyncio.CancelledError:
            self._left += 1
            raise

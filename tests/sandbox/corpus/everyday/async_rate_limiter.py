# expect: {"log": ["open", "close"], "name": "session", "sum": 56, "peak": 3, "ticks": [1, 3]}
import asyncio
from contextlib import asynccontextmanager


class Limiter:
    def __init__(self, most):
        self._semaphore = asyncio.Semaphore(most)
        self.now = self.peak = 0

    async def __aenter__(self):
        await self._semaphore.acquire()
        self.now += 1
        self.peak = max(self.peak, self.now)

    async def __aexit__(self, *exc):
        self.now -= 1
        self._semaphore.release()


@asynccontextmanager
async def session(log):
    log.append("open")
    try:
        yield "session"
    finally:
        log.append("close")


async def ticker(count):
    for i in range(count):
        await asyncio.sleep(0)
        yield i


async def job(limiter, n):
    async with limiter:
        await asyncio.sleep(0.001)
        return n * 2


async def main():
    log, limiter = [], Limiter(3)
    async with session(log) as name:
        doubled = await asyncio.gather(*(job(limiter, n) for n in range(8)))
        ticks = [tick async for tick in ticker(4) if tick % 2]
    return {"log": log, "name": name, "sum": sum(doubled), "peak": limiter.peak, "ticks": ticks}


asyncio.run(main())

# expect: [[0, 1, 4], "value 3", 2]
# stdout: "tick 2\ntick 1\n"
import asyncio


class Countdown:
    def __init__(self, start):
        self.current = start

    def __aiter__(self):
        return self

    async def __anext__(self):
        if not self.current:
            raise StopAsyncIteration
        await asyncio.sleep(0)
        self.current -= 1
        return self.current + 1


class Later:
    def __init__(self, value):
        self.value = value

    def __await__(self):
        yield from asyncio.sleep(0).__await__()
        return f"value {self.value}"


async def square(n):
    await asyncio.sleep(0.001 * (3 - n))
    return n * n


async for tick in Countdown(2):
    print("tick", tick)
squares = await asyncio.gather(*map(square, range(3)))
lock = asyncio.Lock()
async with lock:
    held = lock.locked()
first = [x async for x in Countdown(3)]
[squares, await Later(3), first[1] if held else 0]

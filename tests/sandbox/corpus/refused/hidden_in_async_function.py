# expect: refused
# line: 9
# kind: PolicyRefusal
import asyncio


async def main():
    await asyncio.sleep(0)
    return [eval(x) async for x in source()]


async def source():
    yield "1"


asyncio.run(main())

# expect: error
# line: 11
# kind: Deadlock
import asyncio


async def main():
    await asyncio.get_running_loop().create_future()


asyncio.run(main())

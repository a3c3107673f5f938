# expect: timeout
# limits: {"timeout_s": 0.4}
import asyncio


async def main():
    await asyncio.gather(asyncio.sleep(3600), asyncio.shield(asyncio.sleep(7200)))


asyncio.run(main())

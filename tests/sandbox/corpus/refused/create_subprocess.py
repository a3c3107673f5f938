# expect: error
# line: 7
import asyncio


async def main():
    process = await asyncio.create_subprocess_exec("id")
    return await process.wait()


asyncio.run(main())

import asyncio


async def fetch(name, delay):
    await asyncio.sleep(delay)
    if name == "bad":
        raise ValueError("no such page")
    return name.upper()


async def main():
    pages = await asyncio.gather(fetch("a", 0.02), fetch("b", 0.01), fetch("bad", 0), return_exceptions=True)
    try:
        await asyncio.wait_for(fetch("slow", 5), timeout=0.01)
    except asyncio.TimeoutError:
        pages.append("timed out")
    return [str(page) for page in pages]


result = asyncio.run(main())

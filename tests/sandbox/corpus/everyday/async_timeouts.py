# expect: [["timed out", "waited enough", "quick", "CancelledError"], ["a", "b", "c"]]
import asyncio


async def slow(name, seconds):
    await asyncio.sleep(seconds)
    return name


async def main():
    log = []
    try:
        async with asyncio.timeout(0.01):
            await slow("never", 10)
    except TimeoutError:
        log.append("timed out")
    try:
        await asyncio.wait_for(slow("never", 10), timeout=0.01)
    except asyncio.TimeoutError:
        log.append("waited enough")
    done, pending = await asyncio.wait(
        [asyncio.create_task(slow("quick", 0)), asyncio.create_task(slow("late", 10))],
        return_when=asyncio.FIRST_COMPLETED,
    )
    log += [task.result() for task in done]
    for task in pending:
        task.cancel()
    outcome = await asyncio.gather(*pending, return_exceptions=True)
    log += [type(item).__name__ for item in outcome]
    results = await asyncio.gather(slow("a", 0.003), slow("b", 0.001), slow("c", 0.002))
    return log, results


asyncio.run(main())

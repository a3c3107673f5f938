# expect: ["<0>", "<1>", "<4>", "<9>", "<16>", "<25>"]
import asyncio


async def producer(queue, items):
    for item in items:
        await queue.put(item)
        await asyncio.sleep(0)
    await queue.put(None)


async def worker(source, target, transform):
    while (item := await source.get()) is not None:
        await target.put(transform(item))
        source.task_done()
    await target.put(None)


async def collect(queue):
    result = []
    while (item := await queue.get()) is not None:
        result.append(item)
    return result


async def main():
    raw, squared, texts = (asyncio.Queue(maxsize=2) for _ in range(3))
    async with asyncio.TaskGroup() as group:
        group.create_task(producer(raw, range(6)))
        group.create_task(worker(raw, squared, lambda n: n * n))
        group.create_task(worker(squared, texts, lambda n: f"<{n}>"))
        result = group.create_task(collect(texts))
    return result.result()


asyncio.run(main())

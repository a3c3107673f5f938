import asyncio


async def produce(queue, items):
    for item in items:
        await queue.put(item)
    await queue.put(None)


async def consume(queue):
    squares = []
    while (item := await queue.get()) is not None:
        await asyncio.sleep(0)
        squares.append(item * item)
    return squares


async def main():
    queue = asyncio.Queue(maxsize=2)
    async with asyncio.TaskGroup() as group:
        group.create_task(produce(queue, range(6)))
        consumer = group.create_task(consume(queue))
    return consumer.result()


result = asyncio.run(main())

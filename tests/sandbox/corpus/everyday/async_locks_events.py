# expect: 0
# stdout: "stocked 2\nbob took 2\nstocked 3\nann took 3\n"
import asyncio


class Store:
    def __init__(self):
        self.stock = 0
        self.changed = asyncio.Condition()

    async def produce(self, amount):
        async with self.changed:
            self.stock += amount
            print(f"stocked {self.stock}")
            self.changed.notify_all()

    async def consume(self, name, amount):
        async with self.changed:
            await self.changed.wait_for(lambda: self.stock >= amount)
            self.stock -= amount
            print(f"{name} took {amount}")


async def main():
    store, ready = Store(), asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.call_later(0.002, ready.set)
    buyers = [asyncio.create_task(store.consume(n, a)) for n, a in (("ann", 3), ("bob", 2))]
    await ready.wait()
    for amount in (2, 3):
        await store.produce(amount)
        await asyncio.sleep(0)
    await asyncio.gather(*buyers)
    future = loop.create_future()
    loop.call_soon(future.set_result, store.stock)
    return await future


if __name__ == "__main__":
    left = asyncio.run(main())

left

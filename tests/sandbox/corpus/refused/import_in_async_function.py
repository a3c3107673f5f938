# expect: refused
# line: 8
# kind: PolicyRefusal
import asyncio


async def main():
    import signal as s

    s.raise_signal(9)


asyncio.run(main())

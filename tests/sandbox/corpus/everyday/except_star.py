# expect: [["value:bad value", "other:no key"], 102]
import asyncio


async def fail(kind, text):
    await asyncio.sleep(0)
    raise kind(text)


async def main():
    seen = []
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(fail(ValueError, "bad value"))
            group.create_task(fail(KeyError, "no key"))
            group.create_task(asyncio.sleep(5))
    except* ValueError as many:
        seen += [f"value:{error}" for error in many.exceptions]
    except* (KeyError, TypeError) as many:
        seen += [f"other:{error.args[0]}" for error in many.exceptions]
    return seen


def nested():
    try:
        raise ExceptionGroup("outer", [OSError("disk"), ExceptionGroup("inner", [ValueError("v"), OSError("net")])])
    except* OSError as group:
        matched = len(group.exceptions)
    except* ValueError as group:
        matched += 100 * len(group.exceptions)
    return matched


[asyncio.run(main()), nested()]

"""Code mode: a model writes one program instead of making forty calls; only what it returns goes back to the model.

Run it: python -m examples.code_mode
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from go_ent.composer import Composer

WRITTEN_BY_A_MODEL = """\
import asyncio

tickets = await tools.tickets()
details = await asyncio.gather(*[tools.ticket(id=id) for id in tickets])
slow = [ticket for ticket in details if ticket["days"] > 30]
{"tickets": len(details), "slow": len(slow), "slowest": max(details, key=lambda ticket: ticket["days"])["title"]}
"""


def tickets() -> list[int]:
    """The ids of all open tickets."""
    return list(range(40))


async def ticket(id: int) -> dict[str, object]:
    """One ticket: its title, how many days it is open, and a long text."""
    return {"title": f"ticket {id}", "days": id * 7 % 41, "text": "lorem ipsum " * 200}


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with Composer(Path(folder), tools=[tickets, ticket]) as composer:
            run = await composer.code.execute(WRITTEN_BY_A_MODEL)
    read = sum(call.result_bytes for call in run.calls)
    print(f"{run.usage.tool_calls} calls, {read // 1000} KB of answers, and this is what the model gets:")
    print(run.result)


if __name__ == "__main__":
    asyncio.run(main())

"""A call that a person must approve: the run pauses, the process may end, and another one goes on from there.

Run it: python -m examples.approval
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from go_ent.composer import Composer, Config
from go_ent.engine import Engine, GuestOrder

SENT: list[str] = []
CODE = """\
name = (await tools.customers())[0]
await tools.send(to=name, text="your order is on its way")
"""


def customers() -> list[str]:
    """The names of all customers."""
    return ["ann", "bob"]


def send(to: str, text: str) -> str:
    """Send a message."""
    SENT.append(to)
    return f"sent to {to}"


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        project, config = Path(folder), Config(allow=("send",), approve=("send",))
        async with (
            Composer(project, config=config, tools=[customers, send]) as composer,
            Engine(project, composer=composer) as engine,
        ):
            run = await engine.guests.run(GuestOrder(code=CODE))
            print(f"{run.status}: {run.pending[0].tool} wants {run.pending[0].arguments['to']}; sent so far: {SENT}")
        # Another process, later: nothing but the project's folder is left.
        async with (
            Composer(project, config=config, tools=[customers, send]) as composer,
            Engine(project, composer=composer) as engine,
        ):
            await engine.decide(run.id, approved=True)
            again, _ = await engine.resume_run(run.id)
            print(f"{again.status}: {again.result}; sent: {SENT}")


if __name__ == "__main__":
    asyncio.run(main())

"""What a process does that a test kills: begin something in a project, or go on with it. Its tools leave a line for
all they do.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from go_ent.composer import Composer, FunctionSource, Grants, Hints
from go_ent.engine import Engine, GuestOrder, Task, parse_plan
from go_ent.engine.executions.state import ExecutionState
from go_ent.engine.executions.tape import Unfinished
from go_ent.sandbox import Limits, Sandbox

EFFECTS, COMMANDS, GATE = "effects", "commands", "gate"

CODE = """
import asyncio, uuid
token = str(uuid.uuid4())
checkpoint("begun", token)
nine = await tools.w.look(n=3)
for i in range(2):
    await tools.w.put(text=f"one {i} {token}")
beside = asyncio.create_task(tools.w.again(text="same"))
await tools.w.put(text=f"beside {token}")
same = await beside
inner = await tools.nested(token=token)
checkpoint("nearly", nine)
await tools.w.put(text=f"last {token}")
[nine, same, inner, token]
"""

NESTED = '''# /// tool
# name = "nested"
# ///
async def nested(token: str) -> int:
    """Put two things, one after the other."""
    for i in range(2):
        await tools.w.put(text=f"nested {i} {token}")
    return await tools.w.look(n=4)
'''

PUTS = """
import uuid
token = str(uuid.uuid4())
for i in range(2):
    await tools.w.put(text=f"{name} {i} {token}")
await tools.w.again(text=name)
[name, token]
"""


def step(name: str, *after: str) -> dict[str, Any]:
    return {
        "id": name,
        "code": PUTS,
        "inputs": {"name": name, "after": [f"${{{one}.output}}" for one in after]},
        "depends_on": list(after),
    }


def command(name: str, *after: str) -> dict[str, Any]:
    """Leaves its line before it answers: of one that was killed in between, the line tells that it was done."""
    return {
        "id": name,
        "command": ["sh", "-c", f"echo {name} >>{COMMANDS}; echo said {name}"],
        "depends_on": list(after),
    }


PLAN = {"task": [step("a"), command("b"), step("c", "a", "b"), command("d", "c"), step("e", "b")], "concurrency": 2}

Outcome = dict[str, Any]
Within = Callable[[Engine], Awaitable[Outcome]]


def leave(path: Path, line: str) -> None:
    """A line at the end of a file: an effect that can't be taken back, and is seen if it happens twice."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(handle, f"{line}\n".encode())
    finally:
        os.close(handle)


def tools(project: Path) -> FunctionSource:
    """Tools that do the same to the world whoever calls them; `put` gives what a call that is skipped gives."""
    effects = project / EFFECTS

    def put(text: str) -> None:
        """Do something that must not be done twice."""
        leave(effects, f"put {text}")

    def again(text: str) -> str:
        """May be done twice."""
        leave(effects, f"again {text}")
        return text

    def look(n: int) -> int:
        """Only look."""
        leave(effects, f"look {n}")
        return n * n

    async def wait(text: str) -> None:
        """Do something, and never come to an end."""
        leave(effects, f"wait {text}")
        await asyncio.Event().wait()

    async def gate() -> None:
        """Wait until somebody opens it."""
        leave(effects, "gate")
        while not (project / GATE).exists():  # noqa: ASYNC110
            await asyncio.sleep(0.01)

    hints = {"gate": Hints(read_only=True), "look": Hints(read_only=True), "again": Hints(idempotent=True)}
    return FunctionSource({"put": put, "again": again, "look": look, "wait": wait, "gate": gate}, "w", hints=hints)


@contextlib.contextmanager
def a_box(workers: int = 2) -> Iterator[Sandbox]:
    with Sandbox(limits=Limits(timeout_s=60, cpu_s=30), workers=workers) as box:
        yield box


def make_project(folder: Path, box: Sandbox) -> Path:
    """A project with the composed tool that the code calls."""
    (folder / ".go-ent").mkdir(parents=True)

    async def compose(composer: Composer) -> None:
        async with composer:
            await composer.compose(NESTED)

    asyncio.run(compose(_composer(folder, box)))
    return folder


def _composer(project: Path, box: Sandbox) -> Composer:
    composer = Composer(project, sources=[tools(project)], box=box, trusted=True)
    composer.grants = composer.code.grants = Grants(["w.*", "nested"], [], top_level=True)
    return composer


def live(project: Path, box: Sandbox, work: Within) -> Outcome:
    """Do *work* with an engine of its own: what a process does."""

    async def main() -> Outcome:
        async with _composer(project, box) as composer, Engine(project, composer=composer, trusted=True) as engine:
            return await work(engine)

    return asyncio.run(main())


def outcome(state: ExecutionState) -> Outcome:
    """What an execution has come to: the same for the same work, however often it was interrupted."""
    values = {name: result.output for name, result in sorted(state.results.items())}
    return {"id": state.id, "status": state.status, "values": values, "marks": [one.label for one in state.checkpoints]}


def guest(code: str = CODE) -> Within:
    async def work(engine: Engine) -> Outcome:
        run = await engine.guests.run(GuestOrder(code=code))
        return outcome(await engine.status(run.id))

    return work


def graph(plan: dict[str, Any] | None = None) -> Within:
    async def work(engine: Engine) -> Outcome:
        result = await engine.execute(parse_plan(plan or PLAN))
        return outcome(await engine.status(result.execution_id))

    return work


def resume(execution_id: str, unfinished: Sequence[str] = (), anyway: bool = False) -> Within:
    async def work(engine: Engine) -> Outcome:
        await engine.resume(execution_id, unfinished=Unfinished.parse(unfinished), anyway=anyway)
        return outcome(await engine.status(execution_id))

    return work


def many(name: str, number: int) -> Within:
    """So many executions at once, every fifth a run in a guest, the others commands of which some fail: how each
    ended, by its id.
    """

    async def one(engine: Engine, index: int) -> tuple[str, str]:
        if index % 5:
            done = await engine.execute(Task(command=("sh", "-c", f"exit {index % 3}")))
            return done.execution_id, "completed" if done.ok else "failed"
        run = await engine.guests.run(
            GuestOrder(code=f"await tools.w.put(text='{name} {index}')\nawait tools.w.look(n={index})")
        )
        return run.id, "completed" if run.result == index**2 else "failed"

    async def work(engine: Engine) -> Outcome:
        return dict(await asyncio.gather(*(one(engine, index) for index in range(number))))

    return work


def forks() -> Within:
    """Code that runs for ever, in a process with a child that has all its descriptors: as between fork and exec."""

    async def work(engine: Engine) -> Outcome:
        running = asyncio.create_task(engine.guests.run(GuestOrder(code="await tools.w.wait(text='for ever')")))
        while not (engine.project / EFFECTS).exists():  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        if not (child := os.fork()):
            signal.pause()
        leave(engine.project / COMMANDS, str(child))
        return outcome(await engine.status((await running).id))

    return work


WORKS: dict[str, Callable[..., Within]] = {
    "guest": guest,
    "graph": graph,
    "resume": resume,
    "many": many,
    "forks": forks,
}

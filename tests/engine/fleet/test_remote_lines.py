"""Lines and runs of guests that workers run: each line once, whoever dies."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("psycopg", reason="the fleet's tests need its packages: make test-fleet installs them")

from go_ent.composer import Composer, FunctionSource, Hints
from go_ent.engine import Engine
from go_ent.engine.guest_runs.batch import Batch
from go_ent.engine.guest_runs.runs import GuestOrder
from go_ent.engine.storages import open_storages
from go_ent.sandbox import Run
from tests.composer.conftest import tool
from tests.support import fleet_worker
from tests.support.fleet_machines import Fleet, until

MARK = tool(
    "mark",
    'async def mark(n: int) -> int:\n    """Has an effect."""\n    await tools.effect(key=f"l{n}", ms=30)\n'
    "    if n == 7:\n        raise ValueError('seven')\n    return 2 * n\n",
)


async def effect(key: str, ms: int) -> str:
    """Is never called here."""
    raise AssertionError(key)


@contextlib.asynccontextmanager
async def client(project: Path, effect: Callable[..., Any] = effect) -> AsyncIterator[Engine]:
    kept = await asyncio.to_thread(lambda: open_storages(project, trusted=True))
    source = FunctionSource({"effect": effect}, hints={"effect": Hints(idempotent=True)})
    async with (
        await asyncio.to_thread(
            lambda: Composer(project, sources=[source], trusted=True, workers=1, **kept.for_composer)
        ) as composer,
        Engine(project, composer=composer, trusted=True, storages=kept) as engine,
    ):
        yield engine


def line_of(number: int) -> bytes:
    return json.dumps({"n": number}).encode()


async def all_lines(batch: Batch, count: int) -> list[Run]:
    return await asyncio.gather(
        *(batch.line(number, line_of(number), {"n": number}, None) for number in range(1, count + 1))
    )


async def marking(engine: Engine) -> Batch:
    """A pipeline of the tool `mark`, for which the fleet's workers run the lines."""
    composer = engine.open_composer()
    await composer.compose(MARK)
    assert engine.elsewhere is not None
    return await Batch.begin(
        engine.guests, GuestOrder(tool="mark", each=True, cut=False), composer, engine.elsewhere.lines
    )


@pytest.mark.more
async def test_lines_come_out_once_though_their_worker_is_killed(machines: Fleet) -> None:
    first, second = machines.start(2, "gpu"), machines.start(2)
    first.ready()
    second.ready()
    async with client(machines.checkout("client")) as engine:
        batch = await marking(engine)
        running = asyncio.ensure_future(all_lines(batch, 60))
        await until(lambda: len(machines.effects()) >= 10)
        first.kill()
        runs = await running
        await batch.end("completed", "60 lines")
        assert [run.result for run in runs if run.status == "completed"] == [2 * n for n in range(1, 61) if n != 7]
        assert [(run.status, run.error and run.error.message) for run in runs if run.status != "completed"] == [
            ("error", "seven")
        ]
        effects = machines.effects()
        assert effects.keys() == {f"l{number}" for number in range(1, 61)}
        # A call that was begun and not answered is repeatable here: two lines at a time, in two slots.
        assert sum(effects.values()) <= 60 + 4
        state = await engine.status(batch.held.id)
        assert state.lines is not None
        assert (state.status, state.lines.done, state.lines.failed) == ("completed", 59, 1)
        assert machines.database.ask("select count(*) from $.slots where id like '%%/%%'") == [(0,)]

        # A run goes where its label is; without one it runs here.
        code = "await tools.effect(key='code', ms=0)\n41 + 1"
        third = machines.start(1, "gpu").ready()
        run = await engine.guests.run(GuestOrder(code=code), label="gpu")
        assert (run.status, run.result, machines.effects()["code"]) == ("completed", 42, 1)
        assert third.process.poll() is None
        assert (await engine.status(run.id)).status == "completed"
        assert (await engine.guests.run(GuestOrder(code="1 + 1"))).result == 2


@pytest.mark.long
async def test_lines_that_were_interrupted_go_on(machines: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks that run stop, and those that wait never begin; lines that were begun go on here, and others are sent."""
    monkeypatch.setenv("FLEET_EFFECTS", str(machines.world))
    machines.start(1).ready()
    async with client(machines.checkout("client"), fleet_worker.effect) as engine:
        batch = await marking(engine)
        running = asyncio.ensure_future(all_lines(batch, 60))
        await until(lambda: len(machines.effects()) >= 5)
        batch.stopping.set()
        stopped = await running
        await batch.end("interrupted", "stopped")
        assert "interrupted" in {run.status for run in stopped}
        again, _ = await engine.resume_batch(batch.held.id)
        later = [*range(17, 61), *range(1, 17)]  # the first one is the first of a chunk that never began
        runs = await asyncio.gather(*(again.line(n, line_of(n), {"n": n}, None) for n in later))
        await again.end("completed", "60 lines")
    assert [run.result for run in runs if run.status == "completed"] == [2 * n for n in later if n != 7]
    effects = machines.effects()
    assert effects.keys() == {f"l{number}" for number in range(1, 61)}
    assert sum(effects.values()) <= 60 + 2  # the calls that were begun and not answered are repeatable


@pytest.mark.long
async def test_lines_outlive_the_process_that_has_sent_them(machines: Fleet) -> None:
    """What workers have done of a pipeline is not done again when somebody resumes it on another machine."""
    machines.start(2).ready()
    there = machines.checkout("there")
    async with client(machines.checkout("here")) as engine:
        await engine.open_composer().compose(MARK)
        command = [str(Path(sys.executable).with_name("go-ent")), "tool", "run", "mark", "--each", "--quiet"]
        variables = {**os.environ, "GO_ENT_TRUST_PROJECT": "1"}
        sender = await asyncio.create_subprocess_exec(*command, cwd=there, env=variables, stdin=asyncio.subprocess.PIPE)
        assert sender.stdin is not None
        sender.stdin.write(b"".join(line_of(number) + b"\n" for number in range(1, 41)))
        await sender.stdin.drain()
        await until(lambda: len(machines.effects()) >= 5)
        sender.kill()
        await sender.wait()
        (row,) = await engine.executions(kind="tool", limit=1)
        again, _ = await engine.resume_batch(row.id)
        runs = await all_lines(again, 40)
        await again.end("completed", "40 lines")
        assert [run.result for run in runs if run.status == "completed"] == [2 * n for n in range(1, 41) if n != 7]
        effects = machines.effects()
        assert effects.keys() == {f"l{number}" for number in range(1, 41)}
        assert sum(effects.values()) == 40

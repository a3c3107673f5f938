"""The way between a process and its Postgres is cut, and mended later, while work with effects runs: everything comes
out once. The server itself goes on, and so do the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial

import pytest

pytest.importorskip("psycopg", reason="the fleet's tests need its packages: make test-fleet installs them")

from go_ent.engine.core.errors import StorageFailed
from go_ent.engine.fleet.worker.worker import LOST
from go_ent.engine.guest_runs.batch import Batch
from go_ent.engine.guest_runs.runs import GuestOrder
from tests.engine.fleet import test_remote_lines as lines
from tests.engine.fleet.test_failures import exactly_once
from tests.engine.fleet.test_killed_workers import check, client, graph, happened
from tests.support.cut import Way, way_to
from tests.support.fleet_machines import Fleet, until
from tests.support.postgres import Postgres

pytestmark = pytest.mark.long
CUT_S = 2.5  # longer than others wait for one whose session is gone


@pytest.fixture
def way(postgres: Postgres) -> Iterator[Way]:
    with way_to(postgres.folder) as made:
        yield made


async def cut_at(way: Way, fleet: Fleet, effects: int) -> None:
    """Cut it once so many effects have happened, for a while in which it is tried."""
    await until(partial(happened, fleet, effects))
    await until(lambda: way.passes > 0)
    refused = way.refused
    way.cut()
    await asyncio.sleep(CUT_S)
    assert way.refused > refused
    way.mend()


async def test_a_worker_is_cut_off_and_nobody_else_is_there(machines: Fleet, way: Way) -> None:
    worker = machines.start(FLEET=way.url).ready()
    plan, values, effects = graph(24, seed=21, ms=60)
    async with client(machines) as engine:
        execution = await engine.start(plan, concurrency=8)
        for share in (0.2, 0.6):
            await cut_at(way, machines, int(share * len(effects)))
        result = await engine.wait(execution)
    check(result, machines, values, effects, kills=0)
    exactly_once(machines, effects)
    assert worker.process.poll() is None


async def test_a_worker_is_cut_off_and_another_goes_on(machines: Fleet, way: Way) -> None:
    """Who is cut off does nothing that is not on record; it ends when it learns that others have its work."""
    cut_off, other = machines.start(FLEET=way.url).ready(), machines.start()
    plan, values, effects = graph(24, seed=22, ms=60)
    async with client(machines) as engine:
        execution = await engine.start(plan, concurrency=8)
        await until(partial(happened, machines, 6))
        other.ready()
        way.cut()
        await until(lambda: machines.owner(execution) == other.name)
        before = sum(process == cut_off.process.pid for _, process in machines.seen())
        result = await engine.wait(execution)
        assert before == sum(process == cut_off.process.pid for _, process in machines.seen())
        way.mend()
        await until(lambda: cut_off.process.poll() == LOST)
    check(result, machines, values, effects, kills=1)


async def test_a_client_is_cut_off_from_the_graph_that_it_waits_for(
    machines: Fleet, way: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    machines.start().ready()
    monkeypatch.setenv("FLEET", way.url)
    plan, values, effects = graph(32, seed=23, ms=200)
    async with client(machines) as engine:
        running = asyncio.ensure_future(engine.execute(plan, concurrency=8))
        await cut_at(way, machines, 5)
        assert not happened(machines, len(effects))
        result = await running
    check(result, machines, values, effects, kills=0)
    exactly_once(machines, effects)


async def test_a_client_is_cut_off_from_its_lines(machines: Fleet, way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    """The execution is the client's: others take it for dead meanwhile, and it can write nothing any more. Resumed, it
    finds what was done.
    """
    machines.start(2).ready()
    monkeypatch.setenv("FLEET", way.url)
    async with lines.client(machines.checkout("client")) as engine:
        composer = engine.open_composer()
        await composer.compose(lines.MARK)
        assert engine.elsewhere is not None
        order = GuestOrder(tool="mark", each=True, cut=False)
        batch = await Batch.begin(engine.guests, order, composer, engine.elsewhere.lines)
        running = asyncio.ensure_future(lines.all_lines(batch, 100))
        await cut_at(way, machines, 20)
        await running
        with pytest.raises(StorageFailed, match="it can be resumed"):
            await batch.end("interrupted", "cut off")
        again, _ = await engine.resume_batch(batch.held.id)
        runs = await lines.all_lines(again, 100)
        await again.end("completed", "100 lines")
    assert [run.result for run in runs if run.status == "completed"] == [2 * n for n in range(1, 101) if n != 7]
    exactly_once(machines, {f"l{number}" for number in range(1, 101)})

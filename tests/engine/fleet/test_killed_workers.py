"""Workers in processes of their own that share no folder, and are killed: everything comes out once.

Effects are counted in the world, not in the record. One that was begun and not answered when its worker was killed may
happen twice, for its tool says that it is repeatable; nothing else may, and none is missing.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
from functools import partial
from typing import Any

import pytest

pytest.importorskip("psycopg", reason="the fleet's tests need its packages: make test-fleet installs them")

from go_ent.engine import Engine, Plan
from go_ent.engine.core.models import TaskResult
from go_ent.engine.fleet.worker.worker import LOST
from tests.support.fleet_machines import Fleet, until


def graph(tasks: int, seed: int, ms: int = 40) -> tuple[Plan, dict[str, int], set[str]]:
    """A graph of tasks with one to three effects each: what each comes to, and all effects there must be."""
    chance = random.Random(seed)
    made, values, effects = [], {}, set()
    for number in range(tasks):
        name = f"t{number}"
        before = chance.sample(range(max(0, number - 20), number), min(number, chance.choice((0, 1, 2))))
        calls = chance.choice((1, 2, 3))
        code = f"s = n\nfor k in range({calls}):\n    await tools.effect(key=f'{name}-{{k}}', ms={ms})\ns * 3"
        made.append({"id": name, "code": code, "inputs": {"n": number}, "depends_on": [f"t{one}" for one in before]})
        values[name] = number * 3
        effects |= {f"{name}-{k}" for k in range(calls)}
    return Plan.model_validate({"task": made}), values, effects


def happened(fleet: Fleet, number: int) -> bool:
    return len(fleet.effects()) >= number


@contextlib.asynccontextmanager
async def client(fleet: Fleet) -> Any:
    async with Engine(fleet.checkout("client"), trusted=True) as engine:
        yield engine


def check(result: TaskResult, fleet: Fleet, values: dict[str, int], effects: set[str], kills: int) -> None:
    assert result.ok, (result.status, result.error, [s.error for s in result.steps if not s.ok][:3])
    assert {step.task_id: step.structured for step in result.steps} == values
    seen = fleet.effects()
    assert seen.keys() == effects, effects - seen.keys()  # none is missing
    assert sum(seen.values()) - len(effects) <= 2 * kills  # of each killed worker's slots, at most one call each
    left = fleet.database.ask("select count(*) from $.slots where id like '%%/%%'")
    assert left == [(0,)]


@pytest.mark.more
async def test_a_worker_is_killed_and_everything_comes_out_once(machines: Fleet) -> None:
    fleet = machines
    fleet.start().ready()  # it gives its image to the fleet
    fleet.start(cache=fleet.root / "cache").ready()  # the machines share nothing but the database
    assert len(list((fleet.root / "cache" / "images").glob("*/image.json"))) == 1
    plan, values, effects = graph(12, seed=1, ms=150)
    async with client(fleet) as engine:
        execution = await engine.start(plan, concurrency=8)
        await until(partial(happened, fleet, 5))
        had = fleet.owner(execution)
        victim = next(one for one in fleet.machines if one.name == had)  # the one that has the graph itself
        victim.kill()
        await until(lambda: fleet.owner(execution) not in ("", had))
        result = await engine.wait(execution)
    check(result, fleet, values, effects, kills=1)


@pytest.mark.long
async def test_300_tasks_on_4_workers_and_10_kills(machines: Fleet) -> None:
    fleet = machines
    for machine in [fleet.start() for _ in range(4)]:
        machine.ready()
    plan, values, effects = graph(300, seed=7)
    chance, kills = random.Random(3), 0
    async with client(fleet) as engine:
        execution = await engine.start(plan, concurrency=32)
        while kills < 10:
            enough = min(len(effects) - 5, len(fleet.effects()) + len(effects) // 14)
            await until(partial(happened, fleet, enough))
            had = fleet.owner(execution)
            living = [one for one in fleet.machines if one.process.poll() is None]
            victim = next((one for one in living if one.name == had), None) if kills % 3 == 0 else None
            (victim or chance.choice(living)).kill()
            kills += 1
            fleet.start().ready()
        result = await engine.wait(execution)
    check(result, fleet, values, effects, kills)


@pytest.mark.long
async def test_a_stopped_worker_that_wakes_up_is_fenced_out(machines: Fleet) -> None:
    fleet = machines
    one = fleet.start().ready()
    plan, values, effects = graph(6, seed=2, ms=300)
    async with client(fleet) as engine:
        execution = await engine.start(plan)
        await until(partial(happened, fleet, 2))
        os.kill(one.process.pid, signal.SIGSTOP)
        fleet.start().ready()
        await until(lambda: fleet.owner(execution) not in ("", one.name))
        os.kill(one.process.pid, signal.SIGCONT)
        result = await engine.wait(execution)
    check(result, fleet, values, effects, kills=1)
    assert one.process.wait(30) == LOST  # it has noticed, and ended


@pytest.mark.long
async def test_interrupted_from_here_and_resumed_by_another_worker(machines: Fleet) -> None:
    fleet = machines
    first = fleet.start().ready()
    plan, values, effects = graph(8, seed=4, ms=300)
    async with client(fleet) as engine:
        execution = await engine.start(plan)
        await until(partial(happened, fleet, 3))
        state = await engine.interrupt(execution)
        assert state.status == "interrupted"
        done = len(fleet.effects())
        assert done < len(effects)
        first.kill()
        fleet.start().ready()
        assert engine.elsewhere is not None
        result = await engine.resume(execution)
    check(result, fleet, values, effects, kills=1)  # a call that was begun and not answered is made again

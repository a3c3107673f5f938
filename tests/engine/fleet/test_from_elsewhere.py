"""What people and clients do from a machine that does not run the work: stop it, resume it, approve it, add to it."""

from __future__ import annotations

import asyncio
import os
from functools import partial

import pytest

pytest.importorskip("psycopg", reason="the fleet's tests need its packages: make test-fleet installs them")

from go_ent.engine import Plan
from go_ent.engine.guest_runs.runs import GuestOrder
from tests.engine.fleet.test_killed_workers import check, graph, happened
from tests.engine.fleet.test_killed_workers import client as other_client
from tests.engine.fleet.test_remote_lines import client
from tests.support.fleet_machines import Fleet, until

pytestmark = pytest.mark.long

SPIN = "await tools.effect(key='before', ms=0)\nn = 0\nwhile n < 400_000_000:\n    n += 1\nn"


async def test_interrupted_at_every_stage_and_resumed_by_whoever_is_there(machines: Fleet) -> None:
    """While it waits, while its first step begins, between steps, and near its end; each time by another process than
    the one that has sent it, and resumed with another worker.
    """
    fleet = machines
    plan, values, effects = graph(14, seed=21, ms=250)
    async with other_client(fleet) as engine, client(fleet.checkout("elsewhere")) as stranger:
        execution = await engine.start(plan, concurrency=4)
        assert (await stranger.interrupt(execution)).status == "interrupted"  # no worker was there
        assert fleet.effects() == {}
        stops = 0
        for share in (0.05, 0.4, 0.8):
            worker = fleet.start().ready()
            running = asyncio.ensure_future((engine if stops % 2 else stranger).resume(execution))
            await until(partial(happened, fleet, max(1, int(share * len(effects)))))
            state = await (stranger if stops % 2 else engine).interrupt(execution)
            assert state.status == "interrupted"
            await running
            worker.kill()
            stops += 1
        fleet.start().ready()
        result = await stranger.resume(execution)
    check(result, fleet, values, effects, kills=stops)  # a call that was begun and not answered is made again


async def test_a_guest_that_spins_is_stopped_from_elsewhere(machines: Fleet) -> None:
    machines.start(1).ready()
    async with other_client(machines) as engine:
        plan = Plan.model_validate({"task": [{"id": "spin", "code": SPIN}]})
        execution = await engine.start(plan)
        await until(lambda: "before" in machines.effects())
        assert (await engine.interrupt(execution)).status == "interrupted"
    assert machines.effects() == {"before": 1}


@pytest.mark.parametrize("approved", [True, False])
async def test_a_call_is_approved_on_another_machine(machines: Fleet, approved: bool) -> None:
    fleet = machines
    first = fleet.start().ready()
    code = "a = await tools.effect(key='before', ms=0)\ntry:\n    b = await tools.danger(key='danger')\n"
    code += "except Exception as error:\n    b = 'refused'\n[a, b]"
    async with other_client(fleet) as engine, client(fleet.checkout("elsewhere")) as person:
        execution = await engine.start(Plan.model_validate({"task": [{"id": "a", "code": code}]}))
        await engine.wait(execution)
        state = await person.status(execution)
        assert (state.status, [one.tool for one in state.requests.values()]) == ("paused", ["danger"])
        assert fleet.effects() == {"before": 1}
        first.kill()
        await person.decide(execution, approved=approved)
        fleet.start().ready()  # another worker believes what was decided, for it is sealed with the fleet's key
        result = await person.resume(execution)
    assert [step.structured for step in result.steps] == [["before", "danger" if approved else "refused"]]
    assert fleet.effects() == {"before": 1, **({"danger": 1} if approved else {})}


async def test_code_runs_elsewhere_while_there_is_no_free_slot_here(machines: Fleet) -> None:
    worker = machines.start(2).ready()
    async with client(machines.checkout("client")) as engine:
        composer = engine.open_composer()
        assert composer.box.workers == 1
        slow = asyncio.ensure_future(engine.guests.run(GuestOrder(code="import asyncio\nawait asyncio.sleep(30)")))
        while not composer.box.running:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        code = "await tools.effect(key='there', ms=0)\n6 * 7"
        runs = await asyncio.gather(*(engine.guests.run(GuestOrder(code=code)) for _ in range(3)))
        assert [(run.status, run.result) for run in runs] == [("completed", 42)] * 3
        assert machines.seen() == [("there", worker.process.pid)] * 3
        slow.cancel()
        await asyncio.wait([slow])
        here = await engine.guests.run(GuestOrder(code="1 + 1"))
        assert (here.status, here.result) == ("completed", 2)
    assert os.getpid() not in {process for _, process in machines.seen()}


async def test_who_is_there_and_what_waits_is_seen_from_elsewhere(machines: Fleet) -> None:
    """As the console's page of health asks for it."""
    machines.start(1, "gpu").ready()
    async with client(machines.checkout("elsewhere")) as engine:
        assert engine.elsewhere is not None
        await engine.start(Plan.model_validate({"task": [{"id": "a", "code": "1"}]}), label="none-has-it")
        found = await engine.elsewhere.overview()
    assert [(one["state"], one["labels"]) for one in found["workers"]] == [("alive", ["gpu"])]
    assert [(one["waiting"], one["why"]) for one in found["queues"]] == [(1, "no worker has the label none-has-it")]

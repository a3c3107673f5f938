"""What fails around workers: the server, a clock, a disk, a version, a machine. Effects are counted in the world: none
is missing, and none happens twice but a call that was begun and not answered when its worker was killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

pytest.importorskip("psycopg", reason="the fleet's tests need its packages: make test-fleet installs them")

from go_ent.composer.project import trust
from go_ent.engine import Engine, Plan
from go_ent.engine.core.errors import ExecutionConflict
from go_ent.engine.executions.resume_checks import own_version
from go_ent.engine.fleet.sending import why_waiting
from tests.engine.fleet.test_killed_workers import check, client, graph, happened
from tests.support.fleet_machines import KEY, OWN_FOLDER, SMALL_DISK, Fleet, Machine, until
from tests.support.fleet_machines import machines as opened
from tests.support.postgres import Postgres

pytestmark = pytest.mark.long


def namespaces() -> bool:
    """Whether the kernel lets us have machines apart."""
    own = ["unshare", "--net", "--mount", "--uts", "sh", "-c", "mount -t tmpfs none /mnt && hostname x"]
    try:
        return subprocess.run(own, stderr=subprocess.DEVNULL, check=False).returncode == 0
    except FileNotFoundError:
        return False


apart = pytest.mark.skipif(not namespaces(), reason="the kernel lets nobody here have namespaces")


def exactly_once(fleet: Fleet, effects: set[str]) -> None:
    assert fleet.effects() == dict.fromkeys(effects, 1)


@pytest.fixture
def own_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Postgres, Fleet]]:
    """A fleet whose Postgres is nobody else's, so that it can be killed."""
    folder = Path(tempfile.mkdtemp(prefix="go-ent-pg-"))
    folder.chmod(0o755)
    server = Postgres(folder / "pg")
    server.start()
    for name, value in (("FLEET", server.url), ("FLEET_KEY", KEY)):
        monkeypatch.setenv(name, value)
    with opened(server, tmp_path) as fleet:
        yield server, fleet
    trust.share_keys()
    server.stop("immediate")
    shutil.rmtree(folder, ignore_errors=True)


async def test_postgres_is_killed_and_restarted_while_a_graph_runs(own_server: tuple[Postgres, Fleet]) -> None:
    server, fleet = own_server
    workers = [fleet.start().ready(), fleet.start().ready()]
    plan, values, effects = graph(40, seed=11, ms=60)
    async with client(fleet) as engine:
        execution = await engine.start(plan, concurrency=8)
        for share in (0.2, 0.5):
            await until(partial(happened, fleet, int(share * len(effects))))
            server.kill()
            server.start()
        result = await engine.wait(execution)
    check(result, fleet, values, effects, kills=0)
    assert [one.process.poll() for one in workers] == [None, None]  # nobody was taken for dead


async def test_a_clock_that_is_wrong_by_90_seconds(machines: Fleet) -> None:
    fleet = machines
    early, late = fleet.start(FLEET_SKEW="-90"), fleet.start(FLEET_SKEW="90")
    early.ready()
    late.ready()
    plan, values, effects = graph(16, seed=12, ms=100)
    async with client(fleet) as engine:
        execution = await engine.start(plan, concurrency=8)
        await until(partial(happened, fleet, 8))
        assert fleet.owner(execution) in (early.name, late.name)
        victim, other = (early, late) if fleet.owner(execution) == early.name else (late, early)
        victim.kill()
        result = await engine.wait(execution)
        assert other.process.poll() is None
    check(result, fleet, values, effects, kills=1)


async def test_what_kills_each_worker_that_runs_it_is_set_aside(machines: Fleet) -> None:
    fleet = machines
    tasks = [
        {"id": "bad", "code": "await tools.poison(key='bad')\n1"},
        {"id": "good", "code": "await tools.effect(key='good', ms=1)\n2"},
    ]
    async with client(fleet) as engine:
        fleet.start(1).ready()
        execution = await engine.start(Plan.model_validate({"task": tasks}))
        waiting = asyncio.ensure_future(engine.wait(execution))
        while not waiting.done():
            if not any(one.process.poll() is None for one in fleet.machines):
                assert len(fleet.machines) < 12
                await asyncio.to_thread(fleet.start(1).ready)
            await asyncio.wait([waiting], timeout=0.2)
        with contextlib.suppress(ExecutionConflict):  # when the graph itself is set aside, for it was on the same ones
            assert not waiting.result().ok
        # Who waits is told by Postgres as soon as it is set aside; the worker that did it then writes that down.
        await until(lambda: engine.store.load(execution).status != "running")
        state = await engine.status(execution)
    assert state.status == "failed"
    assert state.resumable
    assert "its workers died again and again: it is set aside" in str([state.error, state.results])
    assert 5 <= fleet.effects()["bad"] <= 8
    assert fleet.machines[-1].process.poll() is None  # the last one lives


async def test_the_key_is_changed_while_work_is_under_way(machines: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """The new one first on all machines, and the old one dropped once what was begun with it has ended."""
    fleet, both = machines, f"{'n' * 40},{KEY}"
    first = fleet.start().ready()
    plan, values, effects = graph(8, seed=21, ms=200)
    async with client(fleet) as engine:
        execution = await engine.start(plan)
        await until(partial(happened, fleet, 3))
        assert (await engine.interrupt(execution)).status == "interrupted"
        first.kill()
        fleet.start(FLEET_KEY=both).ready()
        result = await engine.resume(execution)  # from who has the old one alone
    check(result, fleet, values, effects, kills=1)
    monkeypatch.setenv("FLEET_KEY", both)
    async with Engine(fleet.checkout("new"), trusted=True) as engine:
        assert (await engine.execute(Plan.model_validate({"task": [{"id": "a", "code": "1"}]}))).ok
    monkeypatch.setenv("FLEET_KEY", "x" * 40)
    async with Engine(fleet.checkout("stranger"), trusted=True) as engine:
        with pytest.raises(ExecutionConflict, match="not sealed with the fleet's key"):
            await engine.execute(Plan.model_validate({"task": [{"id": "a", "code": "1"}]}))


class TestVersions:
    async def test_a_worker_of_another_version_takes_nothing_and_loses_nothing(self, machines: Fleet) -> None:
        """An upgrade: the work of a version goes on with workers of that version, also when one of another saw its
        worker die.
        """
        fleet = machines
        old, new = fleet.start(), fleet.start(FLEET_VERSION="99.0")
        old.ready()
        new.ready()
        plan, values, effects = graph(10, seed=13, ms=150)
        async with client(fleet) as engine:
            execution = await engine.start(plan, concurrency=4)
            await until(partial(happened, fleet, 4))
            old.kill()
            gone = "select count(*) from $.members where name = %s"
            await until(lambda: fleet.database.ask(gone, (old.name,)) == [(0,)])  # the new one has buried it
            worker = {"state": "alive", "labels": [], "host": "x", "names": [], "version": "99.0"}
            said = f"no worker has go-ent {own_version()}"
            assert why_waiting(("execution", own_version()), [worker], {}) == said
            before = len(fleet.effects())
            fleet.start().ready()
            result = await engine.wait(execution)
            assert before < len(effects)
        check(result, fleet, values, effects, kills=1)
        assert new.process.pid not in {process for _, process in fleet.seen()}

    async def test_workers_are_drained_one_by_one(self, machines: Fleet) -> None:
        fleet = machines
        first, second = fleet.start(), fleet.start()
        first.ready()
        second.ready()
        plan, values, effects = graph(20, seed=14, ms=100)
        drain = "update $.members set draining = true where name = %s"
        async with client(fleet) as engine:
            execution = await engine.start(plan, concurrency=6)
            await until(partial(happened, fleet, 5))
            other = second if fleet.owner(execution) == first.name else first
            fleet.database.tell(drain, (other.name,))
            await until(lambda: other.process.poll() == 0)
            third = fleet.start().ready()
            result = await engine.wait(execution)
            assert third.process.poll() is None
        check(result, fleet, values, effects, kills=0)


def interfaces(machine: Machine) -> int:
    return Path(f"/proc/{machine.process.pid}/net/dev").read_text().count(":")


def sees(machine: Machine, folder: Path) -> bool:
    return Path(f"/proc/{machine.process.pid}/root{folder}").exists()


def fill(machine: Machine) -> None:
    """Leave no room on its disk."""
    there = f"/proc/{machine.process.pid}/root{machine.folder}"
    with contextlib.suppress(OSError), open(f"{there}/fill", "wb") as file:
        while True:
            file.write(b"x" * 4096)
            file.flush()
    assert os.statvfs(there).f_bavail == 0


@apart
class TestMachinesApart:
    """Each in its own network, with its own name, and with no folder of another."""

    async def test_what_they_share_is_the_database(self, machines: Fleet) -> None:
        fleet = machines
        one, two = fleet.start(apart=OWN_FOLDER), fleet.start(apart=OWN_FOLDER)
        names = one.ready().name, two.ready().name  # with a number, by who came first
        assert sorted(names) in (["m0-1", "m1-2"], ["m0-2", "m1-1"])
        assert interfaces(one) == 1  # its own loopback, which is down
        assert not sees(one, two.folder)
        plan, values, effects = graph(16, seed=15, ms=80)
        async with client(fleet) as engine:
            execution = await engine.start(plan, concurrency=8)
            await until(partial(happened, fleet, 8))
            next(machine for machine in (one, two) if machine.name == fleet.owner(execution)).kill()
            result = await engine.wait(execution)
        check(result, fleet, values, effects, kills=1)

    async def test_a_full_disk(self, machines: Fleet) -> None:
        """The record is not on a worker's disk: what it runs completes anyway."""
        fleet = machines
        machine = fleet.start(apart=SMALL_DISK)
        machine.ready()
        fill(machine)
        plan, values, effects = graph(8, seed=16, ms=50)
        async with client(fleet) as engine:
            result = await engine.execute(plan)
        check(result, fleet, values, effects, kills=0)
        exactly_once(fleet, effects)

    async def test_what_changes_a_working_tree_is_tied_to_its_machine(self, machines: Fleet) -> None:
        fleet = machines
        first = fleet.start(apart=OWN_FOLDER, name="east").ready()
        tasks = [
            {"id": "c0", "command": ["sh", "-c", f"echo first $$ >> {fleet.world}"]},
            {"id": "wait", "code": "await tools.effect(key='wait', ms=1500)\n1", "depends_on": ["c0"]},
            {"id": "c1", "command": ["sh", "-c", f"echo second $$ >> {fleet.world}"], "depends_on": ["wait"]},
        ]
        async with client(fleet) as engine:
            execution = await engine.start(Plan.model_validate({"task": tasks}))
            await until(lambda: "wait" in fleet.effects())
            first.kill()
            fleet.start(apart=OWN_FOLDER, name="west").ready()
            result = await engine.wait(execution)
            assert not result.ok
            assert (await engine.status(execution)).resumable
            (rests,) = [step.error or "" for step in result.steps if step.task_id == "c1"]
            assert "the working tree of east, and this is west: go-ent resume --label east" in rests
            fleet.start(apart=OWN_FOLDER, name="east").ready()  # the machine is back
            result = await engine.resume(execution, label="east")
        assert result.ok, result.error
        seen = fleet.effects()
        assert (seen["first"], seen["second"]) == (1, 1)

"""The wall clock jumps back by a day: while something runs, and between two processes. Nothing is lost, nothing runs
backwards.

Deadlines and limits go by the monotonic clock, and who owns what by when processes were started since boot: neither
hears of it. Budgets are in tests/engine/budget/test_budget.py.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from go_ent.composer.composed.usage import UsageStore
from go_ent.engine import Engine, GuestOrder
from go_ent.engine.core import ids
from go_ent.engine.core.config import RetentionConfig
from go_ent.engine.executions.retention import EVERY_S, Retention, prune
from go_ent.engine.storage.removal import STAMP
from go_ent.sandbox import Sandbox
from tests.support.crashers import work
from tests.support.crashers.world import World
from tests.support.executions import FileStore
from tests.support.shell import go_ent

DAY_S = 86_400


class Clock:
    """The host's wall clock, a day ahead until it jumps back to what is right."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        now, now_ns = time.time, time.time_ns
        self.ahead_s = DAY_S
        patch.setattr(time, "time", lambda: now() + self.ahead_s)
        patch.setattr(time, "time_ns", lambda: now_ns() + self.ahead_s * 10**9)

    def jump_back(self) -> None:
        self.ahead_s = 0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    monkeypatch.setattr(ids, "_last", 0)  # as in a new process
    return Clock(monkeypatch)


@pytest.fixture(scope="module")
def box() -> Iterator[Sandbox]:
    with work.a_box() as made:
        yield made


@pytest.fixture
def world(tmp_path: Path, box: Sandbox) -> World:
    return World(work.make_project(tmp_path / "project", box))


CODE = """
import time
before = time.time()
checkpoint('before', before)
await tools.w.gate()
after = time.time()
await tools.w.put(text='after')
after - before
"""


def interrupted(world: World) -> work.Within:
    """Begin code that waits at the gate, and interrupt it there."""

    async def main(engine: Engine) -> work.Outcome:
        running = asyncio.create_task(engine.guests.run(GuestOrder(code=CODE)))
        while not world.lines():  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.005)
        (row,) = await engine.executions()
        await engine.interrupt(row.id)
        return work.outcome(await engine.status((await running).id))

    return main


def test_an_execution_of_tomorrow_goes_on_today_and_its_own_clock_does_not_run_backwards(
    world: World, box: Sandbox, clock: Clock
) -> None:
    left = work.live(world.project, box, interrupted(world))
    assert left["status"] == "interrupted"
    clock.jump_back()
    (row,) = world.rows()
    assert (row.status, row.resumable) == ("interrupted", True)
    (world.project / work.GATE).touch()
    done = work.live(world.project, box, work.resume(left["id"]))
    assert done["status"] == "completed"
    assert float(done["values"]["run"]) >= 0
    assert world.lines().count("put after") == 1
    (row,) = world.rows()
    assert row.status == "completed"
    shown = go_ent("status", left["id"], cwd=world.project)
    assert (shown.returncode, b" -" in shown.stdout) == (0, False), shown.stdout


def test_what_runs_meanwhile_ends_on_time_and_is_on_record(world: World, box: Sandbox, clock: Clock) -> None:
    async def main(engine: Engine) -> work.Outcome:
        running = asyncio.create_task(
            engine.guests.run(GuestOrder(code="await tools.w.wait(text='for ever')", limits={"timeout_s": 1.0}))
        )
        while not world.lines():  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.005)
        clock.jump_back()
        run = await running
        assert run.status == "timeout"
        assert run.usage.wall_ms >= 0
        return work.outcome(await engine.status(run.id))

    assert work.live(world.project, box, main)["status"] == "failed"
    (row,) = world.rows()
    assert row.status == "failed"
    records = world.records(row.id)
    assert [record["seq"] for record in records] == list(range(1, len(records) + 1))
    totals = json.loads(go_ent("executions", "totals", "--by", "tool", "--json", cwd=world.project).stdout)
    assert "-" not in json.dumps(totals).replace("e-", "").replace("w.wait", "")


def test_ids_of_a_process_go_on_upwards(clock: Clock) -> None:
    made = [ids.new_id() for _ in range(3)]
    clock.jump_back()
    made += [ids.new_id() for _ in range(3)]
    assert made == sorted(set(made))


def test_what_a_later_process_begins_is_found_listed_and_kept(
    world: World, box: Sandbox, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its ids sort before those of tomorrow: that makes it no older, and retention spares what is new."""
    first = work.live(world.project, box, work.guest("1 + 1"))
    clock.jump_back()
    monkeypatch.setattr(ids, "_last", 0)
    second = work.live(world.project, box, work.guest("2 + 2"))
    assert second["id"] < first["id"]
    with world.store() as store:
        assert {row.id for row in store.rows()} == {first["id"], second["id"]}
        assert store.find(second["id"][:18]) == second["id"]
        retention = Retention(store, RetentionConfig(keep=1))
        retention.maybe()
        retention.wait(60)
        assert prune(store, older_than_s=3600.0).removed == []
        assert {row.id for row in store.rows()} == {first["id"], second["id"]}


def test_pruning_that_was_last_done_tomorrow_is_due_again(tmp_path: Path, clock: Clock) -> None:
    store = FileStore(tmp_path)
    store.folder.mkdir(parents=True)
    stamp = store.folder / STAMP
    stamp.write_bytes(b"1")
    os.utime(stamp, (time.time(), time.time()))
    clock.jump_back()
    retention = Retention(store, RetentionConfig())
    retention.maybe()
    retention.wait(60)
    assert abs(stamp.stat().st_mtime - time.time()) < EVERY_S / 2


def test_uses_are_counted_and_the_last_stays_the_last(tmp_path: Path, clock: Clock) -> None:
    usage = UsageStore(tmp_path / "usage.db")
    usage.note("a", True, 1.0)
    last = usage.all()["a"].last_used
    clock.jump_back()
    usage.note("a", True, 1.0)
    assert usage.all()["a"].calls == 2
    assert usage.all()["a"].last_used == last

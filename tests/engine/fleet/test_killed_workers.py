"""Workers in processes of their own that share no folder, and are killed: everything comes out once.

Effects are counted in the world, not in the record. One that was begun and not answered when its worker was killed may
happen twice, for its tool says that it is repeatable; nothing else may, and none is missing.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("psycopg", reason="the fleet's tests need its packages: make test-fleet installs them")

from go_ent.composer.project import trust
from go_ent.engine import Engine, Plan
from go_ent.engine.core.models import TaskResult
from go_ent.engine.fleet.database import Address, Database
from go_ent.engine.fleet.dbos_adapter import migrate
from go_ent.engine.fleet.schema import init
from go_ent.engine.fleet.worker.worker import LOST
from go_ent.sandbox.images.cache import cache_path
from tests.support import ROOT
from tests.support.fleet_worker import EFFECTS
from tests.support.postgres import Postgres

KEY = "k" * 40
CONFIG = '[fleet]\nurl_env = "FLEET"\nkey_env = "FLEET_KEY"\nnamespace = "{}"\n[grants]\nallow = ["*"]\n'


@dataclass
class Machine:
    """A worker process, with a home and a checkout of its own."""

    folder: Path
    process: subprocess.Popen[str]
    name: str = ""

    def ready(self) -> Machine:
        assert self.process.stdout is not None
        self.name = self.process.stdout.readline().strip()
        assert self.name, (self.folder / "log").read_text()
        return self

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


@dataclass
class Fleet:
    """A fleet under test: machines, and this process as one of its clients."""

    root: Path
    address: Address
    database: Database
    url: str
    machines: list[Machine] = field(default_factory=list)

    def checkout(self, name: str) -> Path:
        project = self.root / name
        (project / ".go-ent").mkdir(parents=True)
        (project / ".go-ent" / "config.toml").write_text(CONFIG.format(self.address.namespace))
        return project

    def start(self, slots: int = 2, *, cache: Path | None = None) -> Machine:
        """Another machine. Wait for it with `ready`. To compile the image takes ten seconds of a core, so its cache is
        this process's unless another is given.
        """
        project = self.checkout(f"m{len(self.machines)}")
        home = {"HOME": str(project / "home"), "XDG_DATA_HOME": str(project / "home"), "TMPDIR": "/tmp"}
        home["GO_ENT_CACHE"] = str(cache or cache_path())
        environment = {**os.environ, **home, "FLEET": self.url, "FLEET_KEY": KEY, "GO_ENT_TRUST_PROJECT": "1"}
        (project / "home").mkdir()
        with open(project / "log", "w", encoding="utf-8") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.fleet_worker", str(project), str(slots)],
                cwd=ROOT,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self.machines.append(Machine(project, process))
        return self.machines[-1]

    def effects(self) -> dict[str, int]:
        """How often each happened."""
        return dict(self.database.ask("select key, count(*)::int from $.effects group by 1"))

    def owner(self, execution_id: str) -> str:
        """The worker that has an execution."""
        rows = self.database.ask(
            "select m.name from $.slots s join $.members m on m.id = s.owner where s.id = %s", (execution_id,)
        )
        return rows[0][0] if rows else ""


@pytest.fixture
def fleet(postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fleet]:
    address = Address(postgres.url, postgres.url, f"w{uuid.uuid4().hex[:12]}")
    database = Database(address)
    init(database)
    migrate(address)
    database.tell(EFFECTS.format(schema=address.namespace))
    for name, value in (("FLEET", postgres.url), ("FLEET_KEY", KEY)):
        monkeypatch.setenv(name, value)
    made = Fleet(tmp_path, address, database, postgres.url)
    yield made
    for machine in made.machines:
        with contextlib.suppress(ProcessLookupError):
            machine.process.send_signal(signal.SIGCONT)
        machine.kill()
    trust.share_keys()
    database.tell(f"drop schema {address.namespace} cascade")
    database.tell(f"drop schema {address.namespace}_dbos cascade")
    database.close()


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


async def until(true: Callable[[], bool]) -> None:
    """Until something is so. The bound is for what hangs: how long it takes, `make bench-fleet` measures."""

    def look() -> None:
        end = time.monotonic() + 90
        while not true():
            assert time.monotonic() < end
            time.sleep(0.02)

    await asyncio.to_thread(look)


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
async def test_a_worker_is_killed_and_everything_comes_out_once(fleet: Fleet) -> None:
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
async def test_300_tasks_on_4_workers_and_10_kills(fleet: Fleet) -> None:
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
async def test_a_stopped_worker_that_wakes_up_is_fenced_out(fleet: Fleet) -> None:
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
async def test_interrupted_from_here_and_resumed_by_another_worker(fleet: Fleet) -> None:
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

"""Many executions at once, in one process and in several: none is lost, none waits for another, and nothing piles
up.
"""

from __future__ import annotations

import asyncio
import gc
import json
import resource
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from go_ent.engine import Engine, GuestOrder, Task
from go_ent.engine.executions.storage import Row
from go_ent.sandbox import Sandbox
from tests.support.crashers import work
from tests.support.crashers.forking import Forker
from tests.support.executions import FileStore
from tests.support.scripted import Scripted, engine_of, says


@pytest.fixture(scope="module")
def box() -> Iterator[Sandbox]:
    with work.a_box() as made:
        yield made


def effects(project: Path) -> Counter[str]:
    return Counter((project / work.EFFECTS).read_text().splitlines())


def unmeasured(row: Row) -> Row:
    """A row without the size of its folder, which is looked at now and then."""
    return row.model_copy(update={"size": 0})


def in_flight(project: Path, number: int, rounds: int) -> tuple[list[int], list[int]]:
    """So many executions that all wait for their runner, in rounds: by how many bytes memory grew in each, and
    descriptors.
    """

    async def main() -> tuple[list[int], list[int]]:
        process = psutil.Process()
        runner = Scripted("cli", says("done"), family="cli")
        grown, handles = [], []
        async with engine_of(project, runner) as engine:
            for _ in range(rounds):
                before, open_before = process.memory_info().rss, process.num_fds()
                runner.hold = asyncio.Event()
                runner.seen.clear()
                tasks = [Task(command=("any", str(index))) for index in range(number)]
                ids = await asyncio.gather(*map(engine.start, tasks))
                await runner.begun(number)
                rows = await engine.executions(limit=2 * number, status="running")
                assert {row.id for row in rows} == set(ids)
                runner.hold.set()
                results = await asyncio.gather(*map(engine.wait, ids))
                assert {result.status for result in results} == {"COMPLETE"}
                rows = await engine.executions(limit=2 * number * rounds, status="completed")
                assert {row.id for row in rows} >= set(ids)
                gc.collect()
                grown.append(process.memory_info().rss - before)
                handles.append(process.num_fds() - open_before)
        return grown, handles

    return asyncio.run(main())


class TestInOneProcess:
    @pytest.mark.parametrize("number", [50, pytest.param(1000, marks=[pytest.mark.long, pytest.mark.timeout(600)])])
    def test_all_are_under_way_and_complete_and_leave_nothing_behind(self, project: Path, number: int) -> None:
        grown, handles = in_flight(project, number, rounds=2)
        assert grown[1] < max(grown[0] / 4, 8 << 20), grown
        assert handles[1] <= 0

    @pytest.mark.parametrize("number", [40, pytest.param(200, marks=pytest.mark.long)])
    def test_runs_in_guests_call_their_tools_once(self, project: Path, box: Sandbox, number: int) -> None:
        async def run(engine: Engine) -> work.Outcome:
            code = "await tools.w.put(text=f'{n}')\nawait tools.w.look(n=n)"
            runs = await asyncio.gather(
                *(engine.guests.run(GuestOrder(code=code, inputs={"n": n})) for n in range(number))
            )
            rows = await engine.executions(limit=1000)
            return {
                "results": [run.result for run in runs],
                "rows": {row.id: row.status for row in rows},
                "ids": [run.id for run in runs],
            }

        done = work.live(project, box, run)
        assert done["results"] == [n * n for n in range(number)]
        assert done["rows"] == dict.fromkeys(done["ids"], "completed")
        assert effects(project) == Counter(line for n in range(number) for line in (f"put {n}", f"look {n}"))

    @pytest.mark.more
    def test_a_soft_limit_of_descriptors_does_not_keep_them_from_being_many(self, project: Path) -> None:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (128, hard))
        try:
            in_flight(project, 100, rounds=1)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize(
    ("processes", "each"), [(3, 10), pytest.param(8, 25, marks=[pytest.mark.long, pytest.mark.timeout(600)])]
)
def test_processes_on_one_project_lose_nothing_of_each_other(
    project: Path, forker: Forker, processes: int, each: int
) -> None:
    children = [forker.start(project, "many", f"p{index}", each) for index in range(processes)]
    ended = {execution_id: status for child in children for execution_id, status in child.outcome().items()}
    assert len(ended) == processes * each
    assert {*ended.values()} == {"completed", "failed"}
    store = FileStore(project)
    try:
        rows = store.rows(limit=1000)
        assert {row.id: row.status for row in rows} == ended
        assert [row.id for row in rows] == sorted(ended, reverse=True)
        assert store.index.rebuild() == len(ended)
        assert [row.model_copy(update={"size": 0}) for row in store.rows(limit=1000)] == [
            row.model_copy(update={"size": 0}) for row in rows
        ]
    finally:
        store.index.close()
    called = [
        (f"put p{process} {index}", f"look {index}") for process in range(processes) for index in range(0, each, 5)
    ]
    assert effects(project) == Counter(line for pair in called for line in pair)


def test_while_one_hangs_everything_else_goes_on(project: Path, box: Sandbox, forker: Forker) -> None:
    async def run(engine: Engine) -> work.Outcome:
        hanging = asyncio.create_task(engine.guests.run(GuestOrder(code="await tools.w.wait(text='for ever')")))
        while not (project / work.EFFECTS).exists():  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        (hung,) = [row.id for row in await engine.executions(status="running")]
        other = await engine.guests.run(GuestOrder(code="await tools.w.look(n=3)"))
        task = await engine.execute(Task(command=("true",)))
        commands = [("ps", "--json"), ("status", hung, "--json"), ("logs", hung), ("interrupt", hung)]
        said = []
        for command in commands:
            child = await asyncio.to_thread(forker.go_ent, project, *command)
            said.append((await asyncio.to_thread(child.wait), child.stdout))
        run = await asyncio.wait_for(hanging, 60)
        return {"hung": hung, "other": other.result, "task": task.status, "run": run.status, "said": said}

    done = work.live(project, box, run)
    assert (done["other"], done["task"], done["run"]) == (9, "COMPLETE", "interrupted")
    assert [code for code, _ in done["said"]] == [0, 0, 0, 0]
    ps, status = (json.loads(text) for _, text in done["said"][:2])
    assert {row["status"] for row in ps if row["id"] == done["hung"]} == {"running"}
    assert status["status"] == "running"

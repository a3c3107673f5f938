"""Code and composed tools as executions: recorded as they run, gone on with from any point of their record."""

from __future__ import annotations

import asyncio
import json
import shutil
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from go_ent.composer import Composer, FunctionSource, Grants, Hints, Unavailable
from go_ent.composer.composed import toolfile
from go_ent.composer.composed.store import Store
from go_ent.engine import Engine, ExecutionConflict, GuestOrder, Task, parse_plan
from go_ent.engine.core import crash_points
from go_ent.engine.core.models import Event
from go_ent.engine.executions.state import ExecutionState
from go_ent.engine.executions.tape import Policy, Unfinished, read_tapes
from go_ent.engine.executions.totals import calls_from
from go_ent.engine.storage.file_storage import owner
from go_ent.engine.storage.journal import Journal
from go_ent.engine.storage.slot import MARK_FILE
from go_ent.engine.tree import tree
from go_ent.sandbox import LimitError, Run, Sandbox
from go_ent.sandbox.worker.seam import SEED_BYTES
from tests.composer.conftest import tool
from tests.support.executions import FileStore, files_of
from tests.support.scripted import Scripted, says


class World:
    """What the tools do to it, in order."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.hold: asyncio.Event | None = None
        self.waiting = asyncio.Event()
        self.loop: asyncio.AbstractEventLoop | None = None

    async def put(self, text: str, delay: float = 0.0) -> str:
        """Do something that can't be undone."""
        self.done.append(text)
        if self.hold is not None:
            self.waiting.set()
            await self.hold.wait()
        await asyncio.sleep(delay)
        return text.upper()

    def look(self, n: int) -> int:
        """Only look."""
        self.done.append(f"look {n}")
        return n * n

    def again(self, text: str) -> str:
        """May be done twice."""
        self.done.append(f"again {text}")
        if self.loop is not None:
            self.loop.call_soon_threadsafe(self.waiting.set)
        return text

    def break_(self) -> None:
        """Fail."""
        raise ValueError("broken")

    async def danger(self, name: str) -> str:
        """Needs approval."""
        self.done.append(f"danger {name}")
        return f"boom {name}"


Within = Callable[[Engine, Composer], Awaitable[Any]]


def live(project: Path, box: Sandbox, world: World, work: Within, **options: Any) -> Any:
    """Do *work* with an engine of its own: what a process does."""

    async def main() -> Any:
        functions = FunctionSource(
            {
                "put": world.put,
                "look": world.look,
                "again": world.again,
                "break_": world.break_,
                "danger": world.danger,
            },
            "w",
            hints={"look": Hints(read_only=True), "again": Hints(idempotent=True)},
        )
        composer = Composer(project, sources=[functions], box=box, trusted=True)
        composer.grants = composer.code.grants = Grants(["w.*"], ["w.danger"], top_level=True)
        async with composer, Engine(project, composer=composer, trusted=True, **options) as engine:
            return await work(engine, composer)

    return asyncio.run(main())


def begin(project: Path, box: Sandbox, world: World, **order: Any) -> Run:
    async def work(engine: Engine, _: Composer) -> Run:
        return await engine.guests.run(GuestOrder(**order))

    run: Run = live(project, box, world, work)
    return run


def go_on(
    project: Path, box: Sandbox, world: World, execution_id: str, unfinished: Policy | None = None, **options: Any
) -> Run:
    async def work(engine: Engine, _: Composer) -> Run:
        return (await engine.resume_run(execution_id, unfinished=Unfinished(unfinished)))[0]

    run: Run = live(project, box, world, work, **options)
    return run


def journal(project: Path, execution_id: str) -> list[bytes]:
    """Its lines; a packed one gets its folder, as it would to go on."""
    path = project / ".go-ent" / "executions" / execution_id / "journal.jsonl"
    FileStore(project).hold(execution_id).release()
    return path.read_bytes().splitlines(keepends=True)


def kinds(lines: list[bytes]) -> list[str]:
    return [json.loads(line)["kind"] for line in lines]


def cut_to(project: Path, execution_id: str, lines: list[bytes]) -> None:
    """As if the process had been killed after those records."""
    folder = project / ".go-ent" / "executions" / execution_id
    (folder / "journal.jsonl").write_bytes(b"".join(lines))
    (folder / "state.json").unlink()
    for path in folder.parent.glob("index.db*"):  # it would know better
        path.unlink()


CODE = """
import asyncio, random, time, uuid
started = time.time()
first = await tools.w.look(n=3)
slow, quick = asyncio.create_task(tools.w.put(text="slow", delay=0.05)), asyncio.create_task(tools.w.put(text="quick"))
order = []
for done in asyncio.as_completed([slow, quick]):
    order.append(await done)
    await tools.w.again(text=order[-1])
await asyncio.sleep(0.01)
try:
    await tools.w.break_()
except ToolError as error:
    order.append(str(error))
checkpoint("nearly", order)
last = await tools.w.put(text=f"{random.random()} {uuid.uuid4()} {time.time() - started >= 0.06}")
[first, order, last]
"""


class TestReplay:
    def test_a_run_is_an_execution(self, project: Path, box: Sandbox) -> None:
        world = World()
        run = begin(project, box, world, code=CODE)
        assert run.status == "completed", run.error

        async def look(engine: Engine, _: Composer) -> Any:
            return await engine.status(run.id), await engine.executions()

        state, rows = live(project, box, world, look)
        assert (state.kind, state.status, state.calls) == ("code", "completed", 8)
        assert [(one.label, one.value) for one in state.checkpoints] == [("nearly", run.result[1])]  # type: ignore[index]
        assert [(row.id, row.status) for row in rows] == [(run.id, "completed")]

    def test_from_every_point_of_its_record_it_goes_on_to_the_same_end(self, project: Path, box: Sandbox) -> None:
        """As after kill -9: no answered call is made again, and what the code sees is what it saw."""
        undisturbed = World()
        whole = begin(project, box, undisturbed, code=CODE)
        lines = journal(project, whole.id)
        folder = project / ".go-ent" / "executions" / whole.id
        kept = folder.with_name("kept")
        shutil.copytree(folder, kept)
        ends = [
            number for number in range(2, len(lines)) if kinds(lines)[number - 1] not in ("step_finished", "status")
        ]
        for number in ends:
            shutil.rmtree(folder)
            shutil.copytree(kept, folder)
            cut_to(project, whole.id, lines[:number])
            answered = {json.loads(line)["path"] for line in lines[:number] if json.loads(line)["kind"] == "answer"}
            begun = {json.loads(line)["path"] for line in lines[:number] if json.loads(line)["kind"] == "begun"}
            unknown = [path for path in begun - answered if json.loads(_call(lines, path))["tool"] != "w.again"]
            world = World()
            run = go_on(project, box, world, whole.id, "retry" if unknown else None)
            assert run.status == "completed", (number, run.error)
            recorded = [json.loads(_call(lines, path)) for path in answered]
            made = [one for one in recorded if one["tool"] in ("w.put", "w.look", "w.again")]
            assert len(world.done) == 6 - len(made), (number, world.done)
            if len(answered) == 8:
                assert run.result == whole.result
            if any(one["tool"] == "w.put" and one["path"] == "run/8" for one in recorded):
                assert run.result == whole.result

    def test_what_nobody_knows_is_for_a_person_to_decide(self, project: Path, box: Sandbox) -> None:
        world = World()
        whole = begin(project, box, world, code="a = await tools.w.put(text='x')\n[a, await tools.w.again(text='y')]")
        lines = journal(project, whole.id)
        begun = kinds(lines).index("begun") + 1
        for unfinished, result, done in (("retry", ["X", "y"], ["x", "again y"]), ("skip", [None, "y"], ["again y"])):
            cut_to(project, whole.id, lines[:begun])
            with pytest.raises(
                ExecutionConflict, match=r"call run/1, w\.put .* nobody knows .* was done; .*Unfinished\('retry'\)"
            ):
                go_on(project, box, World(), whole.id)
            world = World()
            run = go_on(project, box, world, whole.id, unfinished)  # type: ignore[arg-type]
            assert (run.result, world.done) == (result, done)
            shutil.rmtree(project / ".go-ent" / "executions" / whole.id / "x", ignore_errors=True)
            (project / ".go-ent" / "executions" / whole.id / "state.json").write_text("")
        cut_to(project, whole.id, lines[:begun])
        run = go_on(project, box, World(), whole.id, "fail")
        assert run.error is not None
        assert "begun before the run was interrupted" in run.error.message

    def test_a_composed_tool_inside_another_goes_on_where_it_was(self, project: Path, box: Sandbox) -> None:
        inner = tool(
            "inner",
            'async def inner(n: int) -> list[str]:\n    """In."""\n    return [await '
            'tools.w.put(text=f"{n}.{i}") for i in range(3)]\n',
        )
        outer = tool(
            "outer",
            'async def outer() -> list[str]:\n    """Out."""\n    return await tools.inner(n=1) + await '
            "tools.inner(n=2)\n",
        )
        world = World()

        async def first(engine: Engine, composer: Composer) -> Run:
            await composer.compose(inner)
            await composer.compose(outer)
            return await engine.guests.run(GuestOrder(tool="outer"))

        whole: Run = live(project, box, world, first)
        assert whole.result == [f"{n}.{i}" for n in (1, 2) for i in range(3)]
        lines = journal(project, whole.id)
        answers = [number for number, kind in enumerate(kinds(lines), 1) if kind == "answer"]
        cut_to(
            project, whole.id, lines[: answers[4]]
        )  # two calls of the second inner run... and the first inner run itself
        world = World()
        run = go_on(project, box, world, whole.id)
        assert run.result == whole.result
        assert world.done == ["2.1", "2.2"]

    def test_a_failed_step_of_a_graph_is_run_anew_and_an_interrupted_one_replayed(
        self, project: Path, box: Sandbox
    ) -> None:
        world = World()
        plan = {
            "task": [
                {"id": "a", "code": "await tools.w.put(text='a')"},
                {"id": "b", "code": "await tools.w.put(text='b')\n1 / n", "inputs": {"n": 0}},
            ]
        }

        async def first(engine: Engine, _: Composer) -> str:
            return (await engine.execute(parse_plan(plan))).execution_id

        async def second(engine: Engine, _: Composer) -> Any:
            return await engine.resume(execution_id)

        execution_id = live(project, box, world, first)
        assert sorted(world.done) == ["a", "b"]
        result = live(project, box, world, second)
        assert result.status == "PARTIAL"
        assert sorted(world.done) == ["a", "b", "b"]  # b failed by its own doing: it is tried anew

    def test_in_a_graph_no_answered_call_is_made_again(self, project: Path, box: Sandbox) -> None:
        world = World()
        steps = [
            {"id": name, "code": f"[await tools.w.put(text='{name}' + str(i)) for i in range(3)]"} for name in "ab"
        ]

        async def first(engine: Engine, _: Composer) -> Any:
            return await engine.execute(parse_plan({"task": steps}), concurrency=1)

        async def second(engine: Engine, _: Composer) -> Any:
            return await engine.resume(whole.execution_id)

        whole = live(project, box, world, first)
        lines = journal(project, whole.execution_id)
        answers = [number for number, kind in enumerate(kinds(lines), 1) if kind == "answer"]
        again = World()
        cut_to(
            project,
            whole.execution_id,
            [line for line in lines[: answers[3]] if json.loads(line)["kind"] != "step_finished"],
        )
        with pytest.raises(ExecutionConflict, match="its journal was damaged"):  # a record is missing in the middle
            live(project, box, again, second)
        cut_to(project, whole.execution_id, lines[: answers[3]])
        result = live(project, box, again, second)
        assert result.output == whole.output
        assert again.done == ["b1", "b2"]


def _call(lines: list[bytes], path: str) -> bytes:
    return next(line for line in lines if json.loads(line)["kind"] == "call" and json.loads(line)["path"] == path)


class TestDivergence:
    def test_another_answer_of_the_journal_leads_to_another_call_which_is_refused(
        self, project: Path, box: Sandbox
    ) -> None:
        code = "a = await tools.w.look(n=2)\nawait tools.w.put(text=str(a))\nawait tools.w.look(n=5)"
        whole = begin(project, box, World(), code=code)
        lines = journal(project, whole.id)
        path = project / ".go-ent" / "executions" / whole.id / "journal.jsonl"
        records = [json.loads(line) for line in lines[:-2]]
        cut_to(project, whole.id, [])
        forged = Journal(path)
        forged.open()
        for record in records:
            if record["kind"] == "answer" and record["path"] == "run/1":
                record["answer"] = [1, 1, 7]
            forged.append(
                record["kind"],
                {name: value for name, value in record.items() if name not in ("seq", "at", "kind", "crc")},
            )
        forged.close()
        world = World()
        with pytest.raises(ExecutionConflict, match=r'it now makes w\.put.*"7".* and the journal has w\.put.*"4"'):
            go_on(project, box, world, whole.id)
        assert world.done == []

    @pytest.mark.parametrize("since", ["changed", "removed", "broken", "not in its history"])
    def test_a_tool_goes_on_in_the_version_that_it_was_begun_with(
        self, project: Path, box: Sandbox, since: str
    ) -> None:
        source = tool(
            "twice",
            'async def twice() -> str:\n    """Two."""\n    await tools.w.put(text="a")\n    return await '
            'tools.w.danger(name="b")\n',
        )
        world = World()

        async def first(engine: Engine, composer: Composer) -> Run:
            await composer.compose(source)
            run = await engine.guests.run(GuestOrder(tool="twice"))
            if since == "removed":
                await composer.remove("twice")
            elif since == "broken":
                (project / ".go-ent" / "composed-tools" / "twice.py").write_text("def")
            else:
                await composer.compose(source.replace('"a"', '"c"'))
            return run

        run: Run = live(project, box, world, first)
        assert run.status == "paused"
        approve(project, box, run.id)
        if since == "not in its history":
            (was,) = (project / ".go-ent" / "composed-tools" / ".history" / "twice").glob("000001-*")
            was.unlink()
            with pytest.raises(
                ExecutionConflict, match=r"twice was other code \(.*\), which is not in its history, and is version 2"
            ):
                go_on(project, box, world, run.id)
            assert world.done == ["a"]
            return

        async def again(engine: Engine, _: Composer) -> tuple[Run, list[str]]:
            run_again, changes = await engine.resume_run(run.id)
            return run_again, [change.text for change in changes]

        done, told = live(project, box, world, again)
        there = "is version 2" if since == "changed" else "is no tool now"
        assert (done.result, told) == ("boom b", [f"twice was version 1, and {there}: it continues with version 1"])
        assert world.done == ["a", "danger b"]

    def test_a_step_of_a_graph_does_too(self, project: Path, box: Sandbox) -> None:
        source = tool("twice", 'async def twice() -> str:\n    """Two."""\n    return await tools.w.danger(name="b")\n')
        world, events = World(), list[Event]()

        async def first(engine: Engine, composer: Composer) -> str:
            await composer.compose(source)
            result = await engine.execute(parse_plan({"task": [{"id": "a", "tool": "twice"}]}))
            await composer.compose(source.replace('"b"', '"c"'))
            return result.execution_id

        execution_id: str = live(project, box, world, first)
        approve(project, box, execution_id)

        async def again(engine: Engine, _: Composer) -> str:
            return (await engine.resume(execution_id, on_event=events.append)).output

        assert live(project, box, world, again) == "boom b"
        told = [event.text for event in events if event.kind == "warning"]
        assert told == ["twice was version 1, and is version 2: it continues with version 1"]

    def test_code_that_failed_by_its_own_doing_and_sessions_are_over(self, project: Path, box: Sandbox) -> None:
        failed = begin(project, box, World(), code="1 / 0")
        with pytest.raises(ExecutionConflict, match="it failed by its own doing, and would again: ZeroDivisionError"):
            go_on(project, box, World(), failed.id)
        paused = begin(project, box, World(), code="await tools.w.danger(name='x')", session="mine")
        with pytest.raises(ExecutionConflict, match="it ran in a session"):
            go_on(project, box, World(), paused.id)


class TestApproval:
    CODE = """
a = await tools.w.put(text='before')
try:
    b = await tools.w.danger(name='x')
except ToolError as error:
    b = str(error)
[a, b]
"""

    @staticmethod
    def decide(project: Path, box: Sandbox, execution_id: str, *, approved: bool, call: str | None = None) -> Any:
        async def work(engine: Engine, _: Composer) -> Any:
            return await engine.decide(execution_id, call, approved=approved)

        return live(project, box, World(), work)

    @pytest.mark.parametrize(("approved", "result"), [(True, "boom x"), (False, "w.danger: the call was not approved")])
    def test_is_decided_later_and_by_another_process(
        self, project: Path, box: Sandbox, approved: bool, result: str
    ) -> None:
        world = World()
        run = begin(project, box, world, code=self.CODE)
        assert (run.status, run.pending[0].tool) == ("paused", "w.danger")
        assert go_on(project, box, world, run.id).status == "paused"  # nobody has decided yet
        state = self.decide(project, box, run.id, approved=approved)
        assert state.requests == {}
        done = go_on(project, box, world, run.id)
        assert done.result == ["BEFORE", result]
        assert world.done == ["before"] + (["danger x"] if approved else [])

    def test_of_what_does_not_wait_is_refused(self, project: Path, box: Sandbox) -> None:
        run = begin(project, box, World(), code=self.CODE)
        with pytest.raises(ExecutionConflict, match=r"no call 'run/9' that waits for a decision; there are: run/2"):
            self.decide(project, box, run.id, approved=True, call="run/9")
        self.decide(project, box, run.id, approved=True, call="run/2")
        with pytest.raises(ExecutionConflict, match="all its calls have one"):
            self.decide(project, box, run.id, approved=True)

    def test_is_nothing_that_a_folder_can_bring_with_it(self, project: Path, box: Sandbox) -> None:
        world = World()
        run = begin(project, box, world, code=self.CODE)
        for seal in ("", "0" * 64):
            with FileStore(project).hold(run.id) as held:
                held.append("decided", {"path": "run/2", "approved": True, "seal": seal})
            assert go_on(project, box, world, run.id).status == "paused"
        assert world.done == ["before"]

    def test_in_a_graph_pauses_only_its_step(self, project: Path, box: Sandbox) -> None:
        world = World()
        plan = {
            "task": [
                {"id": "a", "code": "await tools.w.put(text='a')"},
                {"id": "b", "code": "await tools.w.danger(name='b')"},
            ]
        }

        async def first(engine: Engine, _: Composer) -> Any:
            result = await engine.execute(parse_plan(plan))
            return await engine.status(result.execution_id)

        state = live(project, box, world, first)
        assert (state.status, list(state.requests)) == ("paused", ["b/1"])
        self.decide(project, box, state.id, approved=True)

        async def second(engine: Engine, _: Composer) -> Any:
            return await engine.resume(state.id)

        assert live(project, box, world, second).status == "COMPLETE"
        assert world.done == ["a", "danger b"]


class TestInterrupt:
    def test_while_it_waits_for_a_tool_keeps_what_is_done(self, project: Path, box: Sandbox) -> None:
        world = World()

        async def first(engine: Engine, _: Composer) -> Run:
            code = (
                "print('so far')\na = await tools.w.look(n=2)\nb = await tools.w.again(text='x')\nawait "
                "tools.w.put(text='held')\n[a, b]"
            )
            world.hold = asyncio.Event()
            running = asyncio.create_task(engine.guests.run(GuestOrder(code=code)))
            await world.waiting.wait()
            row = (await engine.executions())[0]
            assert row.status == "running"
            state = await engine.interrupt(row.id)
            assert state.status == "interrupted"
            return await running

        run: Run = live(project, box, world, first)
        assert run.status == "interrupted"
        world.hold = None
        done = go_on(project, box, world, run.id, "retry")
        assert (done.result, done.stdout) == ([4, "x"], "so far\n")
        assert world.done == ["look 2", "again x", "held", "held"]
        with pytest.raises(ExecutionConflict, match="has finished: it is completed"):
            go_on(project, box, world, run.id)

    def test_who_is_cancelled_leaves_it_interrupted(self, project: Path, box: Sandbox) -> None:
        world = World()

        async def first(engine: Engine, _: Composer) -> str:
            world.hold = asyncio.Event()
            running = asyncio.create_task(engine.guests.run(GuestOrder(code="await tools.w.put(text='x')")))
            await world.waiting.wait()
            running.cancel()
            await asyncio.wait([running])
            return (await engine.executions())[0].id

        execution_id = live(project, box, world, first)

        async def look(engine: Engine, _: Composer) -> Any:
            return await engine.status(execution_id)

        assert live(project, box, world, look).status == "interrupted"

    def test_twenty_times_over_one_execution_changes_nothing(self, project: Path, box: Sandbox) -> None:
        code = "out = []\nfor i in range(250):\n    out.append(await tools.w.again(text=str(i)))\nout"
        world = World()

        async def work(engine: Engine, _: Composer) -> Run:
            world.loop = asyncio.get_running_loop()
            running: asyncio.Task[Any] = asyncio.create_task(engine.guests.run(GuestOrder(code=code)))
            for _time in range(20):
                world.waiting.clear()
                await world.waiting.wait()
                row = (await engine.executions())[0]
                await engine.interrupt(row.id)
                await running
                running = asyncio.create_task(engine.resume_run(row.id))
            run: Run = (await running)[0]
            return run

        run: Run = live(project, box, world, work)
        assert run.result == [str(i) for i in range(250)]
        assert list(dict.fromkeys(world.done)) == [f"again {i}" for i in range(250)]


class TestWhatCanNotBeRecorded:
    def test_is_not_done(self, project: Path, box: Sandbox) -> None:
        """The disk is full when the second call is to be recorded."""
        world = World()
        try:
            crash_points.arm("full:3")
            run = begin(project, box, world, code="await tools.w.put(text='a')\nawait tools.w.put(text='b')")
        finally:
            crash_points.arm(None)
        assert run.status == "crashed"
        assert run.error is not None
        assert run.error.kind == "NotRecorded"
        assert world.done == ["a"]
        assert go_on(project, box, world, run.id).status == "completed"
        assert world.done == ["a", "b"]


class TestTree:
    def test_shows_steps_calls_and_what_they_started(self, project: Path, box: Sandbox) -> None:
        world = World()
        inner = tool("inner", 'async def inner() -> str:\n    """In."""\n    return await tools.w.put(text="x")\n')

        async def work(engine: Engine, composer: Composer) -> Any:
            await composer.compose(inner)
            run = await engine.guests.run(GuestOrder(code="await tools.inner()\nawait tools.w.danger(name='y')"))
            state = await engine.status(run.id)
            return tree(state, engine.store.records(run.id))

        nodes = live(project, box, world, work)
        assert [(node.name, node.status) for node in nodes] == [("run", "paused")]
        calls = nodes[0].children
        assert [(call.path, call.name, call.status) for call in calls] == [
            ("run/1", "inner", "completed"),
            ("run/2", "w.danger", "waits for approval"),
        ]
        assert [(call.path, call.name, call.detail) for call in calls[0].children] == [("run/1/1", "w.put", "text='x'")]


def test_a_task_for_an_agent_that_a_call_began_is_gone_on_with(project: Path, box: Sandbox) -> None:
    """A guest's call of the engine has an execution of its own, found again by the call."""
    runner = Scripted("mine", says("the answer"), family="mine")
    world = World()

    def grant(composer: Composer) -> None:
        composer.grants = composer.code.grants = Grants(["w.*", "engine.*"], ["w.danger"], top_level=True)

    async def first(engine: Engine, composer: Composer) -> Run:
        grant(composer)
        code = "a = await tools.engine.execute(task='ask', runtime='mine')\nawait tools.w.danger(name='x')\na['output']"
        return await engine.guests.run(GuestOrder(code=code))

    run: Run = live(project, box, world, first, runners={"mine": runner})
    assert run.status == "paused", run.error
    lines = journal(project, run.id)
    begun = kinds(lines).index("begun") + 1
    cut_to(project, run.id, lines[:begun])  # the agent has answered, and nobody has written that down

    async def second(engine: Engine, composer: Composer) -> Any:
        grant(composer)
        done, _ = await engine.resume_run(run.id)
        return done, await engine.executions(parent=run.id)

    done, children = live(project, box, world, second, runners={"mine": runner})
    assert done.status == "paused"
    assert len(runner.seen) == 1
    assert [child.status for child in children] == ["completed"]


def test_a_task_that_is_code_can_be_interrupted_and_gone_on_with(project: Path, box: Sandbox) -> None:
    world = World()

    async def first(engine: Engine, _: Composer) -> str:
        world.hold = asyncio.Event()
        execution_id = await engine.start(
            Task(code="a = await tools.w.again(text='1')\nawait tools.w.put(text='2')\na")
        )
        await world.waiting.wait()
        await engine.interrupt(execution_id)
        return execution_id

    execution_id = live(project, box, world, first)
    world.hold = None

    async def second(engine: Engine, _: Composer) -> Any:
        return await engine.resume(execution_id, unfinished=Unfinished("skip"))

    assert live(project, box, world, second).output == "1"
    assert world.done == ["again 1", "2"]


def paused_at(project: Path, box: Sandbox, world: World, **order: Any) -> Run:
    run = begin(project, box, world, **order)
    assert run.status == "paused", run.error
    return run


def approve(project: Path, box: Sandbox, execution_id: str) -> None:
    TestApproval.decide(project, box, execution_id, approved=True)


def state_of(project: Path, execution_id: str) -> ExecutionState:
    store = FileStore(project)
    try:
        return store.load(execution_id)
    finally:
        store.index.close()


class TestBeginning:
    @pytest.mark.parametrize("limits", [{"timeout_s": 1e5}, {"cpu_s": None}])
    def test_with_wider_limits_than_the_projects_is_refused_and_nothing_is_recorded(
        self, project: Path, box: Sandbox, limits: dict[str, Any]
    ) -> None:
        with pytest.raises(LimitError, match="is wider than the sandbox's"):
            begin(project, box, World(), code="1", limits=limits)
        assert list((project / ".go-ent").glob("executions/*/journal.jsonl")) == []

    def test_that_is_cancelled_leaves_nothing_that_this_process_owns(self, project: Path, box: Sandbox) -> None:
        """The disk is slow, and whoever waits for it goes away; more than once."""
        (project / ".go-ent" / "config.toml").write_text('[executions]\nsync = "always"\n')
        entered, gate = threading.Event(), threading.Event()

        async def work(engine: Engine, _: Composer) -> str:
            create = engine.store.create

            def slowly(*given: Any, **options: Any) -> Any:
                entered.set()
                assert gate.wait(60)
                return create(*given, **options)

            engine.store.create = slowly  # type: ignore[method-assign]
            running = asyncio.create_task(engine.guests.run(GuestOrder(code="await tools.w.put(text='x')")))
            await asyncio.to_thread(entered.wait, 60)
            running.cancel()
            await asyncio.sleep(0)
            running.cancel()
            gate.set()
            await asyncio.wait([running])
            assert running.cancelled()
            (row,) = await engine.executions()
            assert owner(files_of(engine.store).folder / row.id) is None
            assert row.status == "interrupted"
            engine.store.create = create  # type: ignore[method-assign]
            return (await engine.resume_run(row.id))[0].status

        world = World()
        assert live(project, box, world, work) == "completed"
        assert world.done == ["x"]


class Counting(World):
    """Its `put` tells how often it was called."""

    async def put(self, text: str, delay: float = 0.0) -> str:
        """Do something that can't be undone."""
        self.done.append(text)
        return str(len(self.done))


class TestTries:
    CODE = "a = await tools.w.put(text='one')\nif a == '1':\n    1 / 0\nb = await tools.w.put(text='two')\n[a, b]"

    def test_that_were_killed_go_on_where_they_were_each_on_a_tape_of_its_own(
        self, project: Path, box: Sandbox
    ) -> None:
        world = Counting()
        plan = {"task": [{"id": "a", "code": self.CODE, "retries": 1}]}

        async def first(engine: Engine, _: Composer) -> Any:
            return await engine.execute(parse_plan(plan))

        async def second(engine: Engine, _: Composer) -> Any:
            return await engine.resume(whole.execution_id)

        whole = live(project, box, world, first)
        assert (whole.status, json.loads(whole.output)) == ("COMPLETE", ["2", "3"])
        lines = journal(project, whole.execution_id)
        records = [json.loads(line) for line in lines]
        assert [one["path"] for one in records if one["kind"] == "guest"] == ["a", "a#2"]
        answered = next(
            number for number, one in enumerate(records, 1) if one["kind"] == "answer" and one["path"] == "a#2/1"
        )
        cut_to(project, whole.execution_id, lines[:answered])
        again = Counting()
        result = live(project, box, again, second)
        assert (json.loads(result.output), again.done) == (["2", "1"], ["two"])


INNER = (
    'async def inner() -> str:\n    """In."""\n    await tools.w.put(text="in")\n    return await '
    'tools.w.danger(name="x")\n'
)
OUTER = 'async def outer() -> str:\n    """Out."""\n    await tools.w.put(text="out")\n    return await tools.inner()\n'


class TestChangedTools:
    def pause(self, project: Path, box: Sandbox, world: World, changed: str) -> Run:
        """A run that waits inside a nested tool, of which one is changed meanwhile."""

        async def work(engine: Engine, composer: Composer) -> Run:
            await composer.compose(tool("inner", INNER))
            await composer.compose(tool("outer", OUTER))
            run = await engine.guests.run(GuestOrder(tool="outer"))
            source = tool("inner", INNER) if changed == "inner" else tool("outer", OUTER)
            await composer.compose(source.replace('text="', 'text="other '))
            return run

        run: Run = live(project, box, world, work)
        assert [(one.tool, one.call) for one in run.pending] == [("w.danger", "run/2/2")]
        return run

    @pytest.mark.parametrize("name", ["inner", "outer"])
    def test_go_on_in_the_version_that_they_were_begun_with(self, project: Path, box: Sandbox, name: str) -> None:
        world = World()
        run = self.pause(project, box, world, name)
        approve(project, box, run.id)

        async def again(engine: Engine, _: Composer) -> tuple[Run, list[str]]:
            done, changes = await asyncio.wait_for(engine.resume_run(run.id), 20)
            return done, [change.text for change in changes]

        done, told = live(project, box, world, again)
        assert (done.result, told) == (
            "boom x",
            [f"{name} was version 1, and is version 2: it continues with version 1"],
        )
        assert world.done == ["out", "in", "danger x"]


class Late:
    """A source that can't be reached, until it can."""

    namespace, origin, local = "late", "the late one", True

    def __init__(self, world: World, *, there: bool) -> None:
        self._functions = FunctionSource({"put": world.put}, "late")
        self._there = there

    async def tools(self) -> Any:
        if not self._there:
            raise Unavailable("it is not there yet")
        return await self._functions.tools()

    async def call(self, name: str, arguments: dict[str, Any], context: Any) -> Any:
        return await self._functions.call(name, arguments, context)

    async def close(self) -> None:
        pass


class TestMendedSurroundings:
    CODE = "a = await tools.w.put(text='a')\nb = await tools.late.put(text='b')\n[a, b]"

    @pytest.mark.parametrize("how", ["not granted", "not available", "unknown"])
    def test_are_enough_to_go_on_and_no_answered_call_is_made_again(
        self, project: Path, box: Sandbox, how: str
    ) -> None:
        world = World()

        async def first(engine: Engine, composer: Composer) -> Run:
            composer.grants = composer.code.grants = Grants(["w.*"] if how == "not granted" else ["w.*", "late.*"])
            if how != "unknown":
                composer.catalogue.add(Late(world, there=how != "not available"))
            return await engine.guests.run(GuestOrder(code=self.CODE))

        async def second(engine: Engine, composer: Composer) -> Run:
            composer.grants = composer.code.grants = Grants(["w.*", "late.*"])
            composer.catalogue.add(Late(world, there=True))
            return (await engine.resume_run(run.id))[0]

        run: Run = live(project, box, world, first)
        assert run.status == "error"
        state = state_of(project, run.id)
        assert (state.status, state.resumable) == ("failed", True)
        assert live(project, box, world, second).result == ["A", "B"]
        assert world.done == ["a", "b"]

    FAR = (
        'async def far() -> str:\n    """Far."""\n    await tools.w.put(text="a")\n    return await '
        'tools.late.put(text="b")\n'
    )

    def test_are_enough_also_inside_a_composed_tool(self, project: Path, box: Sandbox) -> None:
        world, code = World(), "await tools.far()"

        def within(there: bool) -> Within:
            async def work(engine: Engine, composer: Composer) -> Run:
                composer.grants = composer.code.grants = Grants(["w.*", "late.*"], top_level=True)
                composer.catalogue.add(Late(world, there=there))
                if not there:
                    Store(project / ".go-ent" / "composed-tools", "project").save(toolfile.read(tool("far", self.FAR)))
                    return await engine.guests.run(GuestOrder(code=code))
                return (await engine.resume_run(run.id))[0]

            return work

        run: Run = live(project, box, world, within(there=False))
        assert run.status == "error"
        assert state_of(project, run.id).resumable
        assert live(project, box, world, within(there=True)).status == "completed"
        assert sorted(world.done) == ["a", "b"]


class TestSpentLimits:
    SLOW = """
import asyncio

async def slow() -> str:
    \"\"\"Slow.\"\"\"
    await tools.w.put(text="a")
    await asyncio.sleep(0.6)
    return "done"
"""

    @pytest.mark.parametrize("times", [1, pytest.param(4, marks=pytest.mark.more)])
    def test_end_a_composed_tool_and_with_more_it_goes_on(self, project: Path, box: Sandbox, times: int) -> None:
        world = World()
        Store(project / ".go-ent" / "composed-tools", "project").save(toolfile.read(tool("slow", self.SLOW)))
        for _ in range(times):  # the tool and what calls it run out of time at once: whichever is told of it first
            world.done.clear()
            run = begin(project, box, world, code="await tools.slow()", limits={"timeout_s": 0.4})
            assert run.status == "timeout"

            async def more(engine: Engine, _: Composer, of: str = run.id) -> Run:
                return (await engine.resume_run(of, timeout_s=30))[0]

            went_on: Run = live(project, box, world, more)
            assert (went_on.status, went_on.result) == ("completed", "done")
            assert world.done == ["a"]

    @pytest.mark.parametrize("told", [False, True])
    def test_are_no_answer_for_ever_unless_the_guest_was_told(self, told: bool) -> None:
        start = {
            "kind": "guest",
            "path": "run",
            "wall_ns": 1,
            "compiled": False,
            "image": "i",
            "source": "s",
            "seed": "00" * SEED_BYTES,
        }
        call = {"kind": "call", "path": "run/1", "tool": "slow", "digest": "d", "heard": ""}
        begun = {"kind": "begun", "path": "run/1", "retry": False}
        answer = {"kind": "answer", "path": "run/1", "answer": [1, 0, {"kind": "Spent", "message": "no time is left"}]}
        cancel = {"kind": "cancel", "path": "run", "calls": [], "heard": "[5,[1]]"}
        tracks = read_tapes([start, call, begun, answer, *([cancel] if told else [])])
        found = tracks.calls["run/1"]
        assert (found.answer is None, found.begun) == ((False, True) if told else (True, False))


class Lost(Late):
    """It is lost while it does something."""

    async def call(self, name: str, arguments: dict[str, Any], context: Any) -> Any:
        await super().call(name, arguments, context)
        raise Unavailable("the late one was lost during the call, which may have run")


def test_a_call_whose_tool_was_lost_over_it_is_not_made_again_unasked(project: Path, box: Sandbox) -> None:
    world = World()

    def within(source: Late) -> Within:
        async def work(engine: Engine, composer: Composer) -> Run:
            composer.grants = composer.code.grants = Grants(["w.*", "late.*"])
            composer.catalogue.add(source)
            if isinstance(source, Lost):
                return await engine.guests.run(GuestOrder(code="await tools.late.put(text='pay')"))
            return (await engine.resume_run(run.id))[0]

        return work

    run: Run = live(project, box, world, within(Lost(world, there=True)))
    assert (run.status, world.done) == ("error", ["pay"])
    with pytest.raises(ExecutionConflict):
        live(project, box, world, within(Late(world, there=True)))
    assert world.done == ["pay"]


class TestPausing:
    def test_lets_calls_under_way_come_to_their_end(self, project: Path, box: Sandbox) -> None:
        code = """
import asyncio
async def slow():
    await tools.w.put(text='slow', delay=0.2)
    return await tools.w.put(text='after')
await asyncio.gather(slow(), tools.w.danger(name='x'))
"""
        world = World()
        run = paused_at(project, box, world, code=code)
        assert world.done == ["slow"]
        answered = [one["path"] for one in map(json.loads, journal(project, run.id)) if one["kind"] == "answer"]
        assert answered == ["run/1"]
        approve(project, box, run.id)
        assert go_on(project, box, world, run.id).result == ["AFTER", "boom x"]
        assert sorted(world.done) == ["after", "danger x", "slow"]

    def test_is_what_code_that_does_not_wait_for_its_call_comes_to(self, project: Path, box: Sandbox) -> None:
        code = """
import asyncio
danger = asyncio.create_task(tools.w.danger(name='x'))
slow = asyncio.create_task(tools.w.put(text='slow', delay=60))
await asyncio.sleep(0.3)
"""
        run = paused_at(project, box, World(), code=code)
        assert list(state_of(project, run.id).requests) == ["run/1"]

    def test_in_a_session_fails_with_a_hint(self, project: Path, box: Sandbox) -> None:
        run = begin(project, box, World(), code="await tools.w.danger(name='x')", session="mine")
        assert run.error is not None
        assert run.error.hint == "a run in a session can't wait for approval: make such calls outside of one"
        assert state_of(project, run.id).status == "failed"

    def test_and_killed_before_it_said_so_it_can_be_approved(self, project: Path, box: Sandbox) -> None:
        world = World()
        run = paused_at(project, box, world, code="await tools.w.put(text='a')\nawait tools.w.danger(name='x')")
        assert [one.call for one in run.pending] == ["run/2"]
        lines = journal(project, run.id)
        cut_to(project, run.id, lines[: kinds(lines).index("asked") + 1])
        assert state_of(project, run.id).status == "interrupted"
        approve(project, box, run.id)
        assert go_on(project, box, world, run.id).result == "boom x"
        assert world.done == ["a", "danger x"]

    def test_of_a_tool_that_itself_needs_approval_tells_its_execution(self, project: Path, box: Sandbox) -> None:
        world = World()

        async def first(engine: Engine, composer: Composer) -> Run:
            await composer.compose(tool("inner", INNER))
            composer.grants = composer.code.grants = Grants(["w.*"], ["inner"], top_level=True)
            return await engine.guests.run(GuestOrder(tool="inner"))

        async def second(engine: Engine, composer: Composer) -> Run:
            composer.grants = composer.code.grants = Grants(["w.*"], ["inner"], top_level=True)
            return (await engine.resume_run(run.id))[0]

        run: Run = live(project, box, world, first)
        assert [(one.tool, one.call) for one in run.pending] == [("inner", "run/0")]
        assert list(state_of(project, run.id).requests) == ["run/0"]
        approve(project, box, run.id)
        assert live(project, box, world, second).result == "boom x"
        assert world.done == ["in", "danger x"]


class TestWhatIsLeftBehind:
    def test_by_a_finished_step_does_not_keep_a_graph_from_going_on(self, project: Path, box: Sandbox) -> None:
        world = World()
        beside = """
import operator
exchange = operator.attrgetter("__glo" + "bals__")(checkpoint)["wit_world"].exchange
exchange('0\\n[[[1,"w.put",[],{"text":"beside","delay":60}]],[]]')
exchange('-1\\n[[[2,"w.put",[],{"text":"a"}]],[]]')
"""
        plan = {
            "task": [
                {"id": "a", "code": beside},
                {"id": "b", "code": "await tools.w.danger(name='b')", "depends_on": ["a"]},
            ]
        }

        async def first(engine: Engine, _: Composer) -> str:
            return (await engine.execute(parse_plan(plan))).execution_id

        async def second(engine: Engine, _: Composer) -> Any:
            return await engine.resume(execution_id)

        execution_id = live(project, box, world, first)
        records = [json.loads(line) for line in journal(project, execution_id)]
        begun = {one["path"] for one in records if one["kind"] == "begun"}
        assert begun - {one["path"] for one in records if one["kind"] == "answer"} == {"a/1"}
        approve(project, box, execution_id)
        assert live(project, box, world, second).status == "COMPLETE"
        assert world.done == ["beside", "a", "danger b"]

    @pytest.mark.parametrize(
        "mark",
        ["{", '{"label": "a", "value": ' + "[" * 300 + "]" * 300 + "}", None],
        ids=["no JSON", "deep", "a folder"],
    )
    def test_as_a_mark_that_is_none_does_not_keep_interrupts_from_being_heard(
        self, project: Path, box: Sandbox, mark: str | None
    ) -> None:
        world = World()

        async def work(engine: Engine, _: Composer) -> Run:
            world.hold = asyncio.Event()
            running = asyncio.create_task(engine.guests.run(GuestOrder(code="await tools.w.put(text='x')")))
            await world.waiting.wait()
            (row,) = await engine.executions()
            path = files_of(engine.store).folder / row.id / MARK_FILE
            if mark is None:
                path.mkdir()
            else:
                path.write_text(mark)
                while path.exists():  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            other = FileStore(project)  # as another process would
            assert await asyncio.to_thread(other.ask_to_interrupt, row.id) is None
            other.index.close()
            return await asyncio.wait_for(running, 30)

        assert live(project, box, world, work).status == "interrupted"


class TestWhatIsShownOfCalls:
    def test_one_that_was_taken_as_done_is_skipped(self, project: Path, box: Sandbox) -> None:
        whole = begin(project, box, World(), code="await tools.w.put(text='x')\nawait tools.w.look(n=2)")
        lines = journal(project, whole.id)
        cut_to(project, whole.id, lines[: kinds(lines).index("begun") + 1])
        go_on(project, box, World(), whole.id, "skip")
        (node,) = tree(state_of(project, whole.id), FileStore(project).records(whole.id))
        assert [(one.name, one.status) for one in node.children] == [("w.put", "skipped"), ("w.look", "completed")]

    WAITED = (
        ("call", {"tool": "w.put"}, 0.0),
        ("asked", {"tool": "w.put", "reason": "r"}, 1.0),
        ("decided", {"approved": True}, 1000.0),
    )
    INTERRUPTED = (
        ("call", {"tool": "w.put"}, 0.0),
        ("begun", {"retry": True}, 1.0),
        ("status", {"changes": {"status": "interrupted"}}, 2.0),
        ("status", {"changes": {"status": "running"}}, 1000.0),
    )

    @pytest.mark.parametrize("before", [WAITED, INTERRUPTED], ids=["for approval", "interrupted"])
    @pytest.mark.parametrize("begun", [True, False])
    def test_what_one_waited_for_is_not_its_time(
        self, project: Path, box: Sandbox, before: tuple[tuple[str, dict[str, Any], float], ...], begun: bool
    ) -> None:
        last = (*((("begun", {"retry": True}, 1000.0),) if begun else ()), ("answer", {"answer": [1, 1, None]}, 1002.0))
        told = [("guest", {"path": "run"}, 0.0), *(one for one in before if begun or one[0] != "begun"), *last]
        records = [
            {"seq": number, "kind": kind, "at": at, **({} if kind == "status" else {"path": "run/1"}), **data}
            for number, (kind, data, at) in enumerate(told, 1)
        ]
        run = begin(project, box, World(), code="1")
        (node,) = tree(state_of(project, run.id), records)
        assert [call.ms for call in node.children] == [2000.0]
        assert calls_from(records)["w.put"].ms == 2000.0


class TestSessions:
    """A run in a session is on disk when that matters, like any other."""

    @pytest.mark.parametrize("code", ["x = 1", "await tools.w.look(n=3)"])
    def test_without_an_effect_it_has_no_folder(self, project: Path, box: Sandbox, code: str) -> None:
        run = begin(project, box, World(), code=code, session="mine")
        assert run.ok
        assert not (project / ".go-ent" / "executions" / run.id).exists()
        kept = FileStore(project).load(run.id)
        assert (kept.status, kept.resumable) == ("completed", False)

    def test_it_is_on_disk_before_a_call_has_an_effect(self, project: Path, box: Sandbox) -> None:
        world = World()
        seen: list[list[str]] = []
        code = "await tools.w.look(n=1)\nawait tools.w.put(text='a')"

        async def work(engine: Engine, _: Composer) -> Run:
            world.hold = asyncio.Event()
            running = asyncio.create_task(engine.guests.run(GuestOrder(code=code, session="mine")))
            await world.waiting.wait()
            folders = [path for path in (project / ".go-ent" / "executions").iterdir() if (path / "lock").exists()]
            seen.append([FileStore(project).load(path.name).status for path in folders])
            world.hold.set()
            return await running

        run = live(project, box, world, work)
        assert (run.ok, world.done, seen) == (True, ["look 1", "a"], [["running"]])
        assert list(calls_from(FileStore(project).records(run.id))) == ["w.look", "w.put"]

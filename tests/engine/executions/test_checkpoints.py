"""Going back to a checkpoint, and taking one away: what came after it stays on record, counts no more, and is done
again only if said.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from go_ent.composer import Composer
from go_ent.engine import Engine, ExecutionConflict, GuestOrder, parse_plan
from go_ent.engine.executions.tape import Unfinished
from go_ent.engine.guest_runs.batch import Batch
from go_ent.engine.tree import TreeNode, tree
from go_ent.sandbox import Run, Sandbox
from tests.composer.conftest import tool
from tests.engine.guest_runs.test_guests import World, begin, live
from tests.support.executions import FileStore
from tests.support.shell import go_ent

CODE = """
import random
first = await tools.w.put(text="first")
checkpoint("begun")
number = random.random()
second = await tools.w.put(text="second")
checkpoint("half", number)
third = await tools.w.put(text="third")
[first, second, third, number]
"""


def back(
    project: Path, box: Sandbox, world: World, execution_id: str, name: str, *, anyway: bool = False
) -> tuple[Run, list[str]]:
    async def work(engine: Engine, _: Composer) -> tuple[Run, list[str]]:
        run, changes = await engine.resume_run(execution_id, from_checkpoint=name, anyway=anyway)
        return run, [change.text for change in changes]

    made: tuple[Run, list[str]] = live(project, box, world, work)
    return made


def records(project: Path, execution_id: str) -> list[dict[str, Any]]:
    return list(FileStore(project).records(execution_id))


class TestCode:
    def test_that_had_effects_after_it_is_asked_about_and_left_as_it_was(self, project: Path, box: Sandbox) -> None:
        world = World()
        whole = begin(project, box, world, code=CODE)
        before = records(project, whole.id)
        said = (
            r'call run/5, w\.put with {"text": "third"}, was made after checkpoint half, and may be made '
            r"again; resume with anyway=True"
        )
        with pytest.raises(ExecutionConflict, match=said):
            back(project, box, world, whole.id, "half")
        assert world.done == ["first", "second", "third"]
        assert records(project, whole.id) == before
        assert FileStore(project).load(whole.id).status == "completed"

    @pytest.mark.parametrize(("name", "again"), [("half", ["third"]), ("begun", ["second", "third"])])
    def test_goes_on_from_there_and_what_came_before_is_not_done_again(
        self, project: Path, box: Sandbox, name: str, again: list[str]
    ) -> None:
        whole = begin(project, box, World(), code=CODE)
        before, world = records(project, whole.id), World()
        run, told = back(project, box, world, whole.id, name, anyway=True)
        assert run.status == "completed"
        assert isinstance(run.result, list)
        assert isinstance(whole.result, list)
        assert run.result[:3] == whole.result[:3]
        assert run.result[3] == whole.result[3] or name == "begun"
        assert (world.done, len(told)) == (again, len(again))
        assert records(project, whole.id)[: len(before)] == before, "what came after is kept"
        state = FileStore(project).load(whole.id)
        assert [one.label for one in state.checkpoints] == ["begun", "half"]
        (step,) = tree(state, records(project, whole.id))
        statuses = [child.status for child in step.children]
        assert statuses.count("undone") == len(again)
        assert statuses.count("completed") == 3

    def test_that_failed_by_its_own_doing_can_go_on_from_one(self, project: Path, box: Sandbox) -> None:
        code = "n = await tools.w.look(n=1)\ncheckpoint('looked')\nm = await tools.w.look(n=2)\nassert m == 9, m\nm"

        class Other(World):
            def look(self, n: int) -> int:
                """Only look."""
                self.done.append(f"look {n}")
                return 9

        failed = begin(project, box, World(), code=code)
        assert failed.status == "error"
        world = Other()
        run, told = back(project, box, world, failed.id, "looked")
        assert (run.result, world.done, told) == (9, ["look 2"], []), "only looking is done again without a question"

    def test_a_call_that_was_under_way_there_and_has_an_answer_is_not_made_again(
        self, project: Path, box: Sandbox
    ) -> None:
        code = """
import asyncio
beside = asyncio.create_task(tools.w.put(text="beside", delay=0.2))
await tools.w.look(n=1)
checkpoint("between")
said = await beside
await tools.w.look(n=2)
said
"""
        whole = begin(project, box, World(), code=code)
        kinds = [(record["kind"], record.get("path")) for record in records(project, whole.id)]
        assert kinds.index(("answer", "run/2")) > kinds.index(("checkpoint", "run"))
        world = World()
        run, told = back(project, box, world, whole.id, "between")
        assert (run.result, world.done, told) == ("BESIDE", ["look 2"], [])

    def test_goes_back_more_than_once_also_without_its_state_and_the_index(self, project: Path, box: Sandbox) -> None:
        whole = begin(project, box, World(), code=CODE)
        for name, again in (("half", ["third"]), ("begun", ["second", "third"]), ("half", ["third"])):
            world = World()
            run, _ = back(project, box, world, whole.id, name, anyway=True)
            assert (run.status, world.done) == ("completed", again)
            folder = project / ".go-ent" / "executions"
            was = FileStore(project).load(whole.id)
            for path in (*folder.glob("index.db*"), folder / whole.id / "state.json"):
                path.unlink()
            now = FileStore(project).load(whole.id)
            assert (now.status, now.undone, now.results) == (was.status, was.undone, was.results)
            assert [(one.label, one.seq) for one in now.checkpoints] == [
                (one.label, one.seq) for one in was.checkpoints
            ]

    @pytest.mark.parametrize("name", ["nowhere", "0", "99"])
    def test_to_one_that_there_is_not(self, project: Path, box: Sandbox, name: str) -> None:
        whole = begin(project, box, World(), code=CODE)
        with pytest.raises(
            ExecutionConflict, match=rf"has no checkpoint '{name}'; there are: \d+ \(begun\), \d+ \(half\)"
        ):
            back(project, box, World(), whole.id, name, anyway=True)

    def test_one_of_several_with_a_label_is_named_by_its_number(self, project: Path, box: Sandbox) -> None:
        code = "for n in range(3):\n    await tools.w.look(n=n)\n    checkpoint('again', n)\nn"
        whole = begin(project, box, World(), code=code)
        with pytest.raises(ExecutionConflict, match=r"several checkpoints .* give the number of one"):
            back(project, box, World(), whole.id, "again")
        second = FileStore(project).load(whole.id).checkpoints[1]
        world = World()
        run, _ = back(project, box, world, whole.id, str(second.seq))
        assert (run.result, world.done) == (2, ["look 2"])

    def test_what_was_given_up_stays_so(self, project: Path, box: Sandbox) -> None:
        async def work(engine: Engine, _: Composer) -> None:
            run = await engine.guests.run(GuestOrder(code="checkpoint('a')\nawait tools.w.danger(name='x')"))
            await engine.interrupt(run.id, cancel=True)
            with pytest.raises(ExecutionConflict, match="it is cancelled"):
                await engine.resume_run(run.id, from_checkpoint="a")

        live(project, box, World(), work)


def plan(**after: Any) -> Any:
    leave = "echo {0} >>effects; echo said {0}"
    return parse_plan(
        {
            "task": [
                {"id": "a", "command": ["sh", "-c", leave.format("a")]},
                {"id": "m", "code": "checkpoint('middle')\n1", "depends_on": ["a"]},
                {"id": "b", "command": ["sh", "-c", leave.format("b")], "depends_on": ["m"], **after},
            ]
        }
    )


class TestGraph:
    @pytest.mark.parametrize("repeatable", [True, False])
    def test_steps_that_came_after_are_run_again(self, project: Path, box: Sandbox, repeatable: bool) -> None:
        async def work(engine: Engine, _: Composer) -> None:
            first = await engine.execute(plan(repeatable=repeatable))
            assert first.ok
            events: list[str] = []
            if not repeatable:
                with pytest.raises(
                    ExecutionConflict, match=r"step b, sh -c .* was run after checkpoint middle, and is run again"
                ):
                    await engine.resume(first.execution_id, from_checkpoint="middle")
                assert (await engine.status(first.execution_id)).status == "completed"
            again = await engine.resume(
                first.execution_id,
                from_checkpoint="middle",
                anyway=not repeatable,
                on_event=lambda event: events.append(event.text) if event.kind == "warning" else None,
            )
            assert again.ok
            assert again.output == "said b"
            assert len(events) == 1

        live(project, box, World(), work)
        assert (project / "effects").read_text() == "a\nb\nb\n"

    def test_what_has_no_end_before_it_is_asked_about_all_the_same(self, project: Path, box: Sandbox) -> None:
        """A step that was begun before the checkpoint, and ended after it."""
        tasks = [
            {"id": "slow", "command": ["sh", "-c", "while [ ! -e mark ]; do sleep 0.01; done; echo slow >>effects"]},
            {"id": "m", "code": "await tools.w.again(text='x')\ncheckpoint('middle')\nawait tools.w.put(text='open')"},
        ]

        class Opening(World):
            async def put(self, text: str, delay: float = 0.0) -> str:
                """Let the other go on."""
                (project / "mark").touch()
                return text

        async def work(engine: Engine, _: Composer) -> None:
            first = await engine.execute(parse_plan({"task": tasks, "concurrency": 2}))
            assert first.ok
            with pytest.raises(ExecutionConflict, match=r"w\.put .* may be made again; step slow, .* is run again"):
                await engine.resume(first.execution_id, from_checkpoint="middle")
            assert (await engine.resume(first.execution_id, from_checkpoint="middle", anyway=True)).ok

        live(project, box, Opening(), work)
        assert (project / "effects").read_text() == "slow\nslow\n"


def test_lines_that_came_after_are_run_again(project: Path, box: Sandbox) -> None:
    lines = [b"1", b"2", b"3", b"4"]
    order = GuestOrder(tool="double", each=True)

    async def run_all(batch: Batch, some: list[bytes]) -> None:
        for number, line in enumerate(some, 1):
            await batch.line(number, line, {"n": int(line)}, None)

    async def work(engine: Engine, composer: Composer) -> None:
        await composer.compose(tool("double", 'def double(n: int) -> int:\n    """Twice."""\n    return 2 * n\n'))
        batch = await Batch.begin(engine.guests, order, composer)
        await run_all(batch, lines[:2])
        batch.held.checkpoint("two")
        await run_all_rest(batch)
        await batch.end("completed", "all")
        again, _ = await engine.resume_batch(batch.held.id, from_checkpoint="two")
        assert again.known == {1, 2}
        assert again.held.state.lines is not None
        assert again.held.state.lines.done == 2
        await run_all(again, lines)
        await again.end("completed", "all")
        state = await engine.status(batch.held.id)
        assert state.lines is not None
        assert state.lines.done == 4

    async def run_all_rest(batch: Batch) -> None:
        for number, line in enumerate(lines[2:], 3):
            await batch.line(number, line, {"n": int(line)}, None)

    live(project, box, World(), work)


class TestCommandLine:
    @pytest.fixture
    def execution(self, project: Path, monkeypatch: pytest.MonkeyPatch) -> str:
        monkeypatch.chdir(project)
        run = go_ent("exec", "-c", "checkpoint('one')\ncheckpoint('two')\n7", "--json")
        return str(json.loads(run.stdout)["id"])

    def test_goes_back(self, execution: str) -> None:
        done = go_ent("resume", execution, "--from", "one")
        assert (done.returncode, done.stdout) == (0, b"7\n"), done.stderr
        wrong = go_ent("resume", execution, "--from", "three")
        assert wrong.returncode == 12
        assert b"has no checkpoint 'three'; there are: " in wrong.stderr

    def test_removes_one(self, execution: str) -> None:
        assert b"checkpoint one is removed; 1 is kept" in go_ent("checkpoint", execution, "--remove", "one").stdout
        status = go_ent("status", execution).stdout.decode()
        assert "checkpoint two" in status
        assert "checkpoint one" not in status
        (left,) = json.loads(go_ent("status", execution, "--json").stdout)["checkpoints"]
        assert json.loads(go_ent("checkpoint", execution, "--remove", str(left["seq"]), "--json").stdout) == []
        assert go_ent("resume", execution, "--from", "one").returncode == 12
        assert go_ent("checkpoint", execution, "--remove", "one").returncode == 12


def test_one_is_removed_by_the_process_that_has_the_execution(project: Path, box: Sandbox) -> None:
    async def work(engine: Engine, _: Composer) -> None:
        world.hold = asyncio.Event()
        running = asyncio.create_task(
            engine.guests.run(GuestOrder(code="checkpoint('a')\ncheckpoint('b')\nawait tools.w.put(text='x')"))
        )
        await world.waiting.wait()
        (row,) = await engine.executions()
        elsewhere = FileStore(project)  # as another process has it
        state = await asyncio.to_thread(elsewhere.remove_checkpoint, row.id, "a")
        assert [one.label for one in state.checkpoints] == ["b"]
        world.hold.set()
        await running

    world = World()
    live(project, box, world, work)


def test_calls_that_were_undone_are_shown_as_that(project: Path, box: Sandbox) -> None:
    whole = begin(project, box, World(), code=CODE)
    back(project, box, World(), whole.id, "half", anyway=True)

    def all_of(nodes: list[TreeNode]) -> Iterator[TreeNode]:
        for node in nodes:
            yield node
            yield from all_of(node.children)

    state = FileStore(project).load(whole.id)
    shown = [
        (node.path, node.status) for node in all_of(tree(state, records(project, whole.id))) if node.status == "undone"
    ]
    assert shown == [("run/5", "undone")]


Forge = Callable[[dict[str, Any]], dict[str, Any]]


@pytest.mark.parametrize(
    "forge",
    [
        lambda record: record | {"after": 0},
        lambda record: record | {"until": 10**9},
        lambda record: record | {"after": "1"},
        lambda record: record | {"steps": None},
        lambda record: record | {"lines": {"done": -1}},
    ],
)
def test_a_record_of_it_that_can_not_be_is_damage(project: Path, box: Sandbox, forge: Forge) -> None:
    whole = begin(project, box, World(), code="checkpoint('a')\nawait tools.w.danger(name='x')")
    with FileStore(project).hold(whole.id) as held:
        good = held.undoing("a").record
        held.slot.append("undone", forge(good))
        held.slot.sync()
    assert "can't be used" in FileStore(project).load(whole.id).damage[0]


def test_what_is_unfinished_before_it_is_still_to_be_decided(project: Path, box: Sandbox) -> None:
    code = """
import asyncio
beside = asyncio.create_task(tools.w.put(text="beside", delay=60))
await tools.w.look(n=1)
checkpoint("between")
await tools.w.again(text="after")
await beside
"""
    world = World()

    async def work(engine: Engine, _: Composer) -> str:
        world.loop = asyncio.get_running_loop()
        running = asyncio.create_task(engine.guests.run(GuestOrder(code=code)))
        await world.waiting.wait()
        (row,) = await engine.executions()
        await engine.interrupt(row.id)
        await running
        return row.id

    execution_id: str = live(project, box, world, work)
    with pytest.raises(ExecutionConflict, match=r"call run/2, w\.put .* nobody knows whether it was done"):
        back(project, box, World(), execution_id, "between", anyway=True)

    async def decided(engine: Engine, _: Composer) -> Run:
        run, _told = await engine.resume_run(
            execution_id, from_checkpoint="between", anyway=True, unfinished=Unfinished("skip")
        )
        return run

    assert live(project, box, World(), decided).status == "completed"

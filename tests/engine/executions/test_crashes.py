"""kill -9, a full disk and interrupts at every place: what goes on afterwards ends as if nothing had happened, and
does nothing twice.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import psutil
import pytest

from go_ent.engine import ExecutionConflict, StorageFailed
from go_ent.engine.core import crash_points
from go_ent.engine.storage.file_storage import owner
from go_ent.engine.storage.records import encode
from go_ent.sandbox import Sandbox
from tests.support.crashers import work
from tests.support.crashers.forking import Child, Forker
from tests.support.crashers.world import Whole, World, effect_of

KILLED = -9


@pytest.fixture(scope="module")
def box() -> Iterator[Sandbox]:
    with work.a_box() as made:
        yield made


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory, box: Sandbox) -> Path:
    return work.make_project(tmp_path_factory.mktemp("template") / "project", box)


Fresh = Callable[[], World]


@pytest.fixture
def fresh(tmp_path: Path, template: Path) -> Fresh:
    """Makes projects in which nothing was done yet."""
    made: list[World] = []

    def make() -> World:
        made.append(World(tmp_path / f"project-{len(made)}"))
        shutil.copytree(template, made[-1].project)
        return made[-1]

    return make


BEGIN: dict[str, Callable[[], work.Within]] = {"guest": work.guest, "graph": work.graph}


@pytest.fixture(scope="module")
def whole(template: Path, box: Sandbox, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Whole]:
    found = {}
    for name, begin in BEGIN.items():
        world = World(tmp_path_factory.mktemp("undisturbed") / name)
        shutil.copytree(template, world.project)
        found[name] = Whole.of(world, work.live(world.project, box, begin()))
    return found


def go_on(world: World, box: Sandbox, name: str, *also: str, anyway: bool = False) -> work.Outcome:
    """Bring to its end what a process that is gone has left; from the beginning, if it has left nothing."""
    left = world.left(*also)
    if left is None:
        assert [line for line in world.lines() if not line.startswith("look")] == world.lines(work.COMMANDS) == []
        return work.live(world.project, box, BEGIN[name]())
    if left["status"] == "completed":
        with pytest.raises(ExecutionConflict, match="has finished: it is completed"):
            work.live(world.project, box, work.resume(left["id"]))
        return left
    return work.live(world.project, box, work.resume(left["id"], world.decide(left["id"]), anyway=anyway))


MIDDLE = {
    "create-before-folder": 1,
    "create-after-folder": 1,
    "journal-before-append": 22,
    "journal-mid-line": 15,
    "journal-after-append": 26,
    "journal-before-sync": 3,
    "journal-after-sync": 5,
    "mark-after-write": 4,
    "state-before-write": 2,
    "state-before-rename": 1,
    "state-after-rename": 2,
    "call-before-dispatch": 4,
    "call-after-dispatch": 6,
}
OF_STEPS = {"step-before-start": 2, "step-after-end": 2}  # come only where a runner is asked
MENDING = {"repair-before-swap"}  # comes only when a damaged journal is mended
PACKING = {"pack-before-append", "pack-after-append", "pack-before-sync", "pack-after-sync"}  # see test_packed.py
# One of each kind; the others are the same way once more.
EVERYDAY = {
    "create-after-folder",
    "journal-mid-line",
    "journal-after-sync",
    "state-before-rename",
    "call-after-dispatch",
}


def points(*names: str, everyday: Collection[str] = EVERYDAY) -> list[Any]:
    return [name if name in everyday else pytest.param(name, marks=pytest.mark.more) for name in names]


class TestKilled:
    """At a named place in the commit path."""

    def test_these_are_all_the_places(self) -> None:
        assert set(crash_points.NAMES) == MIDDLE.keys() | OF_STEPS.keys() | MENDING | PACKING

    @pytest.mark.parametrize("point", points(*MIDDLE))
    def test_code_ends_as_if_it_had_not_been(
        self, fresh: Fresh, forker: Forker, box: Sandbox, whole: dict[str, Whole], point: str
    ) -> None:
        world = fresh()
        assert forker.start(world.project, "guest", crash=f"{point}:{MIDDLE[point]}").wait() == KILLED
        whole["guest"].check(world, go_on(world, box, "guest"))

    @pytest.mark.parametrize(
        "point", points("journal-mid-line", "call-after-dispatch", *OF_STEPS, everyday={"step-after-end"})
    )
    def test_a_graph_does_too(
        self, fresh: Fresh, forker: Forker, box: Sandbox, whole: dict[str, Whole], point: str
    ) -> None:
        world = fresh()
        assert forker.start(world.project, "graph", crash=f"{point}:{(MIDDLE | OF_STEPS)[point]}").wait() == KILLED
        whole["graph"].check(world, go_on(world, box, "graph"))

    @pytest.mark.long
    @pytest.mark.timeout(600)
    @pytest.mark.parametrize(("name", "point"), [*product(BEGIN, MIDDLE), *product(["graph"], OF_STEPS)])
    def test_every_time_it_comes_there(
        self, fresh: Fresh, forker: Forker, box: Sandbox, whole: dict[str, Whole], name: str, point: str
    ) -> None:
        """And once more while it goes on."""
        for number in range(1, 1000):
            world = fresh()
            child = forker.start(world.project, name, crash=f"{point}:{number}")
            if child.wait() == 0:  # it never came there so often
                whole[name].check(world, child.outcome())
                assert number > 1
                return
            assert child.code == KILLED, child.stderr
            left = world.left()
            if left is not None and left["status"] != "completed":
                again = forker.start(
                    world.project, "resume", left["id"], world.decide(left["id"]), crash=f"{point}:{number % 7 + 1}"
                )
                assert again.wait() in (0, KILLED), again.stderr
            done = go_on(world, box, name)
            whole[name].check(world, done)
            shutil.rmtree(world.project)

    def test_a_checkpoint_is_there_once(self, fresh: Fresh, forker: Forker, box: Sandbox) -> None:
        world = fresh()
        assert forker.start(world.project, "guest", crash="journal-before-append:5").wait() == KILLED
        left = world.left()
        assert left is not None
        assert left["marks"] == ["begun"]
        assert go_on(world, box, "guest")["marks"] == ["begun", "nearly"]

    @pytest.mark.parametrize("point", ["create-after-folder", "journal-mid-line"])
    def test_before_its_first_record_there_is_nothing_of_it(self, fresh: Fresh, forker: Forker, point: str) -> None:
        world = fresh()
        assert forker.start(world.project, "guest", crash=point).wait() == KILLED
        assert world.rows() == []

    def test_while_a_damaged_journal_is_mended(
        self, fresh: Fresh, forker: Forker, box: Sandbox, whole: dict[str, Whole]
    ) -> None:
        world = fresh()
        assert forker.start(world.project, "guest", crash="call-before-dispatch:6").wait() == KILLED
        left = world.left()
        assert left is not None
        journal = world.project / ".go-ent" / "executions" / left["id"] / "journal.jsonl"
        damaged = journal.read_bytes().replace(b'"checkpoint"', b'"chekcpoint"')
        journal.write_bytes(damaged)
        again = forker.start(
            world.project, "resume", left["id"], world.decide(left["id"]), True, crash="repair-before-swap"
        )
        assert again.wait() == KILLED
        assert journal.read_bytes() == damaged
        done = go_on(world, box, "guest", anyway=True)
        assert done["marks"] == ["begun", "nearly"]  # the state's file has what the journal has lost
        whole["guest"].check(world, done)


class TestFullDisk:
    def fill(self, world: World, box: Sandbox, name: str, number: int) -> work.Outcome | None:
        """What it comes to if a write to the journal fails; None if that ends it."""
        try:
            crash_points.arm(f"{crash_points.FULL}:{number}")
            return work.live(world.project, box, BEGIN[name]())
        except (StorageFailed, OSError):
            return None
        finally:
            crash_points.arm(None)

    def check(self, world: World, box: Sandbox, name: str, whole: Whole, number: int) -> bool:
        """Whether there was such a write."""
        done = self.fill(world, box, name, number)
        if done is not None and done["status"] == "completed":
            whole.check(world, done)
            return False
        for row in world.rows():
            records = world.records(row.id)
            paths = {record["path"] for record in records if record["kind"] == "begun"}
            begun = {effect_of(record) for record in records if record["kind"] == "call" and record["path"] in paths}
            assert {line for line in world.lines() if line.startswith("put")} <= begun
        whole.check(world, go_on(world, box, name, "failed"))
        return True

    @pytest.mark.parametrize("number", [1, *(pytest.param(number, marks=pytest.mark.more) for number in (4, 5)), 30])
    def test_ends_code_before_it_does_what_can_not_be_recorded(
        self, fresh: Fresh, box: Sandbox, whole: dict[str, Whole], number: int
    ) -> None:
        assert self.check(fresh(), box, "guest", whole["guest"], number)

    @pytest.mark.parametrize("number", [pytest.param(3, marks=pytest.mark.more), 20])
    def test_ends_a_graph_likewise(self, fresh: Fresh, box: Sandbox, whole: dict[str, Whole], number: int) -> None:
        assert self.check(fresh(), box, "graph", whole["graph"], number)

    @pytest.mark.long
    @pytest.mark.timeout(600)
    @pytest.mark.parametrize("name", BEGIN)
    def test_at_every_write(self, fresh: Fresh, box: Sandbox, whole: dict[str, Whole], name: str) -> None:
        number = 1
        while self.check(fresh(), box, name, whole[name], number):
            number += 1
        assert number > 20


def until(true: Callable[[], bool], child: Child) -> None:
    """Wait for something that *child* is about to do."""
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline, child.stderr
        time.sleep(0.005)


class TestInterruptedFromAnotherProcess:
    CODE = """
import asyncio
out = []
for i in range(60):
    await tools.w.put(text=str(i))
    out.append(await tools.w.look(n=i))
    await asyncio.sleep(0.02)
await tools.w.gate()
out
"""

    @pytest.mark.long
    @pytest.mark.timeout(600)
    @pytest.mark.more
    def test_twenty_times_it_ends_as_if_it_had_not_been(self, fresh: Fresh, forker: Forker) -> None:
        world = fresh()
        child = forker.start(world.project, "guest", self.CODE)
        for _ in range(20):
            before = len(world.lines())
            until(lambda: len(world.lines()) > before, child)  # noqa: B023
            execution_id = world.rows()[0].id
            interrupt = forker.go_ent(world.project, "interrupt", execution_id)
            assert interrupt.wait() == 0, interrupt.stderr
            assert child.outcome()["status"] == "interrupted"
            child = forker.start(world.project, "resume", execution_id, world.decide(execution_id))
        (world.project / work.GATE).touch()
        done = child.outcome()
        assert (done["status"], json.loads(done["values"]["run"])) == ("completed", [i * i for i in range(60)])
        assert [line for line in world.lines() if line.startswith("put")] == [f"put {i}" for i in range(60)]

    def test_code_at_the_command_line_ends_like_any_that_was_interrupted(self, fresh: Fresh, forker: Forker) -> None:
        world = fresh()
        code = "import asyncio, random\nn = random.random()\ncheckpoint('n', n)\nawait asyncio.sleep(seconds)\nn"
        (world.project / "code.py").write_text(code.replace("seconds", "1.5"))
        child = forker.go_ent(world.project, "exec", "code.py")
        until(
            lambda: any(record["kind"] == "checkpoint" for row in world.rows() for record in world.records(row.id)),
            child,
        )
        execution_id = world.rows()[0].id
        assert forker.go_ent(world.project, "interrupt", execution_id).wait() == 0
        assert child.wait() == 130
        assert f"go-ent resume {execution_id[-8:]}" in child.stderr
        child = forker.go_ent(world.project, "resume", execution_id)
        assert child.wait() == 0, child.stderr
        (mark,) = [record["value"] for record in world.records(execution_id) if record["kind"] == "checkpoint"]
        assert float(child.stdout) == mark


def large_plan() -> dict[str, Any]:
    tasks = [
        *(work.step(f"g{i}") for i in range(3)),
        *(work.command(f"c{i}", f"g{i}") for i in range(3)),
        *(work.step(f"h{i}", f"c{i}") for i in range(3)),
        work.command("end", "h0", "h1", "h2"),
    ]
    return {"task": tasks, "concurrency": 3}


@pytest.mark.parametrize(
    "cycles",
    [pytest.param(8, marks=pytest.mark.more), pytest.param(200, marks=[pytest.mark.long, pytest.mark.timeout(1200)])],
)
def test_killed_at_any_moment_again_and_again_a_graph_ends_as_if_it_had_not_been(
    fresh: Fresh, forker: Forker, box: Sandbox, cycles: int
) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"the seed is {seed}")
    chance = random.Random(seed)
    undisturbed = fresh()
    whole = Whole.of(undisturbed, work.live(undisturbed.project, box, work.graph(large_plan())))
    world, killed = fresh(), 0
    while killed < cycles:
        left = world.left()
        if left is None:
            child = forker.start(world.project, "graph", large_plan())
        elif left["status"] == "completed":
            whole.check(world, left)
            world = fresh()
            continue
        else:
            child = forker.start(world.project, "resume", left["id"], world.decide(left["id"]))
        time.sleep(chance.uniform(0.0, 0.9))  # the moment is what is tried
        killed += child.kill() == KILLED
        assert child.code in (0, KILLED), child.stderr
    left = world.left()
    if left is None:
        done = work.live(world.project, box, work.graph(large_plan()))
    elif left["status"] == "completed":
        done = left
    else:
        done = work.live(world.project, box, work.resume(left["id"], world.decide(left["id"])))
    whole.check(world, done)


def commands_plan(number: int) -> dict[str, Any]:
    tasks = [work.command(f"t{i}", *([f"t{i - 4}"] if i >= 4 else [])) for i in range(number)]
    return {"task": tasks, "concurrency": 3}


@pytest.mark.parametrize(
    ("tasks", "kills"),
    [
        pytest.param(12, 5, marks=pytest.mark.more),
        pytest.param(30, 20, marks=[pytest.mark.long, pytest.mark.timeout(600)]),
    ],
)
def test_commands_of_a_graph_that_is_killed_again_and_again_are_run_once_or_asked_about(
    fresh: Fresh, forker: Forker, box: Sandbox, tasks: int, kills: int
) -> None:
    """It is resumed without a word first: what has no end on record is asked about, and nothing is run over it."""
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"the seed is {seed}")
    chance = random.Random(seed)
    world, plan = fresh(), commands_plan(tasks)
    child = forker.start(world.project, "graph", plan)
    for _ in range(kills):
        before = len(world.lines(work.COMMANDS))
        wanted = min(tasks, before + chance.randrange(1, 3))
        until(lambda: len(world.lines(work.COMMANDS)) >= wanted or child.over(), child)  # noqa: B023
        time.sleep(chance.uniform(0.0, 0.02))  # the moment is what is tried
        child.kill()
        left = world.left()
        assert left is not None
        if left["status"] == "completed":
            break
        decided = world.decide(left["id"])
        if decided:
            was = world.lines(work.COMMANDS)
            again = forker.go_ent(world.project, "resume", left["id"])
            assert again.wait() == 12, again.stderr
            assert all(f"step {one.partition('=')[0]}, sh -c " in again.stderr for one in decided)
            assert world.lines(work.COMMANDS) == was
        child = forker.start(world.project, "resume", left["id"], decided)
    child.wait()
    left = world.left()
    assert left is not None
    if left["status"] != "completed":
        left = work.live(world.project, box, work.resume(left["id"], world.decide(left["id"])))
    assert left["status"] == "completed"
    assert Counter(world.lines(work.COMMANDS)) == {f"t{i}": 1 for i in range(tasks)}


class TestCutJournal:
    """What was synced is known to the index, too."""

    @pytest.fixture
    def killed(self, fresh: Fresh, forker: Forker) -> World:
        world = fresh()
        assert (
            forker.start(
                world.project, "graph", commands_plan(6) | {"concurrency": 1}, crash="step-before-start:6"
            ).wait()
            == KILLED
        )
        assert world.lines(work.COMMANDS) == [f"t{i}" for i in range(5)]
        return world

    @staticmethod
    def journal(world: World) -> Path:
        (row,) = world.rows()
        return world.project / ".go-ent" / "executions" / row.id / "journal.jsonl"

    @pytest.mark.parametrize("state", ["as it was", pytest.param("gone", marks=pytest.mark.more)])
    @pytest.mark.parametrize(
        "cut",
        [
            pytest.param(lambda data: data[: len(data) // 2], id="half", marks=pytest.mark.more),
            pytest.param(lambda data: b"".join(data.splitlines(keepends=True)[:-1]), id="its last record"),
            pytest.param(lambda data: b"".join(data.splitlines(keepends=True)[:3]), id="an older copy"),
        ],
    )
    def test_is_told_and_nothing_is_run_again(
        self, killed: World, forker: Forker, box: Sandbox, cut: Callable[[bytes], bytes], state: str
    ) -> None:
        path = self.journal(killed)
        path.write_bytes(cut(path.read_bytes()))
        if state == "gone":
            path.with_name("state.json").unlink()
        execution_id = path.parent.name
        looked = forker.go_ent(killed.project, "status", execution_id)
        assert looked.wait() == 0, looked.stderr
        assert "lost: the journal was damaged" in looked.stdout
        doctor = forker.go_ent(killed.project, "doctor")
        doctor.wait()
        assert f"the journal of {execution_id} lacks records" in doctor.stdout
        for _ in range(2):
            again = forker.go_ent(killed.project, "resume", execution_id, "--unfinished", "retry")
            assert again.wait() == 12
            assert "lost: the journal was damaged\nresume with --anyway" in again.stderr
        assert killed.lines(work.COMMANDS) == [f"t{i}" for i in range(5)]
        assert (
            work.live(killed.project, box, work.resume(execution_id, ["retry"], anyway=True))["status"] == "completed"
        )

    def test_with_another_record_in_the_place_of_one_is_told(self, killed: World, box: Sandbox) -> None:
        path = self.journal(killed)
        lines = path.read_bytes().splitlines(keepends=True)
        forged = json.loads(lines[3])
        del forged["crc"]
        lines[3] = encode(forged.pop("seq"), forged.pop("at") + 1, forged.pop("kind"), forged)
        path.write_bytes(b"".join(lines))
        with pytest.raises(ExecutionConflict, match=r"the journal up to record .* is not what was written"):
            work.live(killed.project, box, work.resume(path.parent.name, ["retry"]))

    def test_can_not_be_known_without_the_index_and_the_state(self, killed: World, box: Sandbox) -> None:
        path = self.journal(killed)
        path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
        path.with_name("state.json").unlink()
        (path.parent.parent / "index.db").unlink()
        assert work.live(killed.project, box, work.resume(path.parent.name, ["retry"]))["status"] == "completed"

    def test_is_compared_with_what_was_synced_alone(self, killed: World, box: Sandbox) -> None:
        """What a process has appended since is more than the index knows: that is no damage."""
        path = self.journal(killed)
        with killed.store() as store:
            mark = store.index.kept(path.parent.name)
        assert mark is not None
        assert mark.size == path.stat().st_size
        with path.open("ab") as file:
            file.write(encode(mark.seq + 1, time.time(), "progress", {"step": "t5", "what": "text", "text": "later"}))
        assert work.live(killed.project, box, work.resume(path.parent.name, ["retry"]))["status"] == "completed"

    def test_of_which_nothing_is_left_is_not_taken_for_one_that_never_began(self, killed: World) -> None:
        path = self.journal(killed)
        path.write_bytes(b"")
        path.with_name("state.json").unlink()
        with killed.store() as store:
            store.storage.forget_unborn(store.index.rows()[0].id)
        assert path.exists()


class TestUnfinishedCommand:
    """A command that was begun and has no end on record."""

    @pytest.fixture
    def killed(self, fresh: Fresh, forker: Forker) -> World:
        return self.kill(fresh(), forker)

    @staticmethod
    def kill(world: World, forker: Forker, **fields: Any) -> World:
        plan = {"task": [work.command("a") | fields | {"retries": 3}, work.command("b", "a")]}
        assert forker.start(world.project, "graph", plan, crash="step-after-end").wait() == KILLED
        assert world.lines(work.COMMANDS) == ["a"]
        return world

    def resumed(self, world: World, box: Sandbox, *unfinished: str) -> work.Outcome:
        (row,) = world.rows()
        return work.live(world.project, box, work.resume(row.id, unfinished))

    def test_is_asked_about_each_time(self, killed: World, forker: Forker) -> None:
        (row,) = killed.rows()
        for _ in range(2):
            child = forker.go_ent(killed.project, "resume", row.id)
            assert child.wait() == 12
            assert "step a, sh -c echo a >>commands; echo said a, was begun on cli, and nobody knows" in child.stderr
            assert "--unfinished retry makes it again" in child.stderr
        assert killed.lines(work.COMMANDS) == ["a"]

    @pytest.mark.parametrize("word", ["retry", "a=retry"])
    def test_is_run_again_if_that_is_said(self, killed: World, box: Sandbox, word: str) -> None:
        assert self.resumed(killed, box, word)["values"] == {"a": "said a", "b": "said b"}
        assert killed.lines(work.COMMANDS) == ["a", "a", "b"]

    def test_is_taken_as_done(self, killed: World, box: Sandbox) -> None:
        done = self.resumed(killed, box, "a=skip")
        assert (done["status"], done["values"]) == ("completed", {"a": "", "b": "said b"})
        assert killed.lines(work.COMMANDS) == ["a", "b"]

    def test_fails_and_is_asked_about_the_next_time(self, killed: World, box: Sandbox) -> None:
        assert self.resumed(killed, box, "fail")["status"] == "failed"
        assert killed.lines(work.COMMANDS) == ["a"], "neither it nor what needs it was run"
        with pytest.raises(ExecutionConflict, match=r"step a, sh -c .* nobody knows"):
            self.resumed(killed, box)
        assert self.resumed(killed, box, "skip")["status"] == "completed"

    def test_of_a_task_that_is_repeatable_is_run_again(self, fresh: Fresh, forker: Forker, box: Sandbox) -> None:
        world = self.kill(fresh(), forker, repeatable=True)
        assert self.resumed(world, box)["status"] == "completed"
        assert world.lines(work.COMMANDS) == ["a", "a", "b"]

    @pytest.mark.parametrize("repeatable", [True, False])
    def test_of_the_configuration_says_itself_whether_it_is(
        self, fresh: Fresh, forker: Forker, box: Sandbox, repeatable: bool
    ) -> None:
        world = fresh()
        config = (
            '[commands.leave]\nargv = ["sh", "-c", "echo a >>commands; echo said a"]\nrepeatable = '
            f"{str(repeatable).lower()}\n"
        )
        (world.project / ".go-ent" / "config.toml").write_text(config)
        self.kill(world, forker, command="leave")
        if repeatable:
            assert self.resumed(world, box)["status"] == "completed"
        else:
            with pytest.raises(ExecutionConflict, match="step a, leave, was begun on cli"):
                self.resumed(world, box)

    def test_that_answers_a_prompt_is_asked_about_unless_it_can_not_edit(
        self, fresh: Fresh, forker: Forker, box: Sandbox
    ) -> None:
        for access, codes in (("edit", ExecutionConflict), ("read", None)):
            world = fresh()
            config = (
                '[engine]\ncommand = "llm"\n[commands.llm]\nargv = ["sh", "-c", "cat; echo a >>commands"]\nstdin = '
                "true\n"
            )
            (world.project / ".go-ent" / "config.toml").write_text(config)
            plan = {"task": [{"id": "a", "prompt": "say it", "runtime": "cli", "access": access}]}
            assert forker.start(world.project, "graph", plan, crash="step-after-end").wait() == KILLED
            if codes is not None:
                with pytest.raises(codes, match="step a, say it, was begun on cli"):
                    self.resumed(world, box)
            else:
                assert self.resumed(world, box)["status"] == "completed"


class TestWhoResumes:
    @pytest.mark.parametrize("number", [pytest.param(2, marks=pytest.mark.long), 8])
    def test_of_several_at_the_same_moment_one_wins_and_the_others_are_told_who(
        self, fresh: Fresh, forker: Forker, number: int
    ) -> None:
        world = fresh()
        (world.project / "code.py").write_text("import asyncio\ncheckpoint('begun')\nawait asyncio.sleep(25)")
        child = forker.go_ent(world.project, "exec", "code.py")
        until(
            lambda: any(record["kind"] == "checkpoint" for row in world.rows() for record in world.records(row.id)),
            child,
        )
        child.kill()
        (row,) = world.rows()
        assert row.status == "interrupted"
        children = [forker.go_ent(world.project, "resume", row.id) for _ in range(number)]
        until(lambda: sum(bool(one.stderr) for one in children) == number - 1, children[0])
        with world.store() as store:
            winner = owner(store.folder / row.id)
            assert store.load(row.id).status == "running"
        losers = [one for one in children if one.pid != winner]
        assert len(losers) == number - 1
        assert {one.wait() for one in losers} == {12}
        assert {one.stderr for one in losers} == {f"go-ent: execution {row.id} is being run by process {winner}\n"}
        assert next(one for one in children if one.pid == winner).kill() == KILLED


LINGERING = """
echo $$ >>pids
first=$(head -n 1 pids)
if [ $first = $$ ]; then exec sleep 600; fi
case "$(cut -d' ' -f3 /proc/$first/stat 2>/dev/null)" in ''|Z|X) ;; *) echo alive >>overlap ;; esac
echo done
"""


def test_what_outlived_a_killed_owner_is_ended_before_its_task_is_tried_again(
    fresh: Fresh, forker: Forker, box: Sandbox
) -> None:
    world = fresh()
    child = forker.start(world.project, "graph", {"task": [{"id": "a", "command": ["sh", "-c", LINGERING]}]})
    until(lambda: bool(world.lines("pids")), child)
    child.kill()
    lingering = int(world.lines("pids")[0])
    assert Path(f"/proc/{lingering}").exists()
    ps = forker.go_ent(world.project, "ps", "--json")
    assert ps.wait() == 0, ps.stderr
    (row,) = json.loads(ps.stdout)
    assert (row["status"], row["resumable"]) == ("interrupted", True)
    with pytest.raises(
        ExecutionConflict, match=r"step a, sh -c .* nobody knows whether it was done; check .*Unfinished\('retry'\)"
    ):
        work.live(world.project, box, work.resume(row["id"]))
    done = work.live(world.project, box, work.resume(row["id"], ["a=retry"]))
    assert done["values"] == {"a": "done"}
    assert len(world.lines("pids")) == 2
    assert world.lines("overlap") == []


def test_what_a_killed_owner_has_forked_does_not_count_as_its_owner(fresh: Fresh, forker: Forker) -> None:
    world = fresh()
    child = forker.start(world.project, "forks")
    until(lambda: bool(world.lines(work.COMMANDS)), child)
    try:
        child.kill()
        assert [row.status for row in world.rows()] == ["interrupted"]
    finally:
        os.kill(int(world.lines(work.COMMANDS)[0]), signal.SIGKILL)


def test_a_killed_owner_leaves_no_guest_running(fresh: Fresh, forker: Forker) -> None:
    world = fresh()
    child = forker.start(world.project, "guest", "await tools.w.wait(text='for ever')")
    until(lambda: bool(world.lines()), child)
    workers = psutil.Process(child.pid).children(recursive=True)
    assert workers
    child.kill()
    _, alive = psutil.wait_procs(workers, timeout=30)
    assert [one for one in alive if one.status() != psutil.STATUS_ZOMBIE] == []


SLOWLY = '''# /// tool
# name = "slowly"
# ///
import asyncio


async def slowly(n: int) -> int:
    """The square of n, a little later."""
    await asyncio.sleep(0.005)
    return n * n
'''


class TestLines:
    """A tool over the lines of stdin, killed on the way."""

    @pytest.fixture
    def killed(self, fresh: Fresh, forker: Forker) -> World:
        world = fresh()
        (world.project / "slowly.py").write_text(SLOWLY)
        added = forker.go_ent(world.project, "tool", "add", "slowly.py")
        assert added.wait() == 0, added.stderr
        (world.project / "lines").write_text("".join(f"{n}\n" for n in range(200)))
        child = forker.go_ent(world.project, "tool", "run", "slowly", "--each", stdin=world.project / "lines")
        until(lambda: len(child.stdout.splitlines()) > 50, child)
        assert child.kill() == KILLED
        return world

    @staticmethod
    def of_lines(records: list[dict[str, Any]], kind: str) -> Counter[int]:
        return Counter(
            int(record["n"] if kind == "line" else record["path"]) for record in records if record["kind"] == kind
        )

    def test_goes_on_over_the_same_lines_and_runs_none_again_that_is_done(self, killed: World, forker: Forker) -> None:
        (row,) = killed.rows()
        assert row.status == "interrupted"
        before = killed.records(row.id)
        done, begun = self.of_lines(before, "line"), self.of_lines(before, "guest")
        assert 50 < len(done) < 200
        child = forker.go_ent(killed.project, "resume", row.id, stdin=killed.project / "lines")
        assert child.wait() == 0, child.stderr
        assert child.stdout.splitlines() == [str(n * n) for n in range(200)]
        after = killed.records(row.id)
        assert self.of_lines(after, "line") == dict.fromkeys(range(1, 201), 1)
        again = self.of_lines(after, "guest") - begun
        assert not again.keys() & done.keys()
        (row,) = killed.rows()
        assert row.status == "completed"

    def test_is_refused_at_the_first_line_that_is_another(self, killed: World, forker: Forker) -> None:
        (row,) = killed.rows()
        (killed.project / "others").write_text("".join(f"{n if n != 29 else 1000}\n" for n in range(200)))
        child = forker.go_ent(killed.project, "resume", row.id, stdin=killed.project / "others")
        assert child.wait() == 12
        assert f"line 30 of stdin is not the one that execution {row.id} has run" in child.stderr
        assert child.stdout.splitlines() == [str(n * n) for n in range(29)]
        (row,) = killed.rows()
        assert row.status == "interrupted"
        again = forker.go_ent(killed.project, "resume", row.id, stdin=killed.project / "lines")
        assert again.wait() == 0, again.stderr
        assert again.stdout.splitlines() == [str(n * n) for n in range(200)]

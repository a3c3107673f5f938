"""Records that somebody else has changed: seals, decisions, journals, indexes, loops, workflows and what is trusted."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from go_ent.composer import Composer, StoreError
from go_ent.composer.catalogue.learned_schemas import LearnedSchemas
from go_ent.composer.composed.usage import UsageStore
from go_ent.composer.project.files import user_data
from go_ent.composer.project.trust import is_sealed, is_trusted, seal, set_trust
from go_ent.engine import Engine, ExecutionConflict, Untrusted
from go_ent.engine.core.models import Task
from go_ent.engine.executions.retention import prune
from go_ent.engine.executions.state import ExecutionState, digest_of, pack, sealed_text
from go_ent.engine.storage import records as reading
from go_ent.engine.storage.claims import held_by
from go_ent.engine.storage.index_schema import SCHEMA, VERSION
from go_ent.engine.storage.slot import JOURNAL_FILE, LOCK_FILE, MARK_FILE, STATE_FILE
from go_ent.engine.workflows.loop import Loop
from go_ent.engine.workflows.loop_checks import CommandCheck
from go_ent.engine.workflows.workflow import Workflows, WorkflowStep
from go_ent.sandbox import Sandbox
from tests.engine.executions.test_executions import fresh
from tests.engine.guest_runs.test_guests import World, begin, go_on, journal, live
from tests.security.corpus import attack
from tests.security.test_durable import everything, forged, plant
from tests.support.executions import FileStore
from tests.support.executions import folder_of as path_of
from tests.support.scripted import Scripted, engine_of

PAY = "await tools.w.danger(name='pay')"


@pytest.fixture
def store(project: Path) -> Iterator[FileStore]:
    made = FileStore(project)
    yield made
    made.index.close()


def folder_of(project: Path, execution_id: str) -> Path:
    return project / ".go-ent" / "executions" / execution_id


def rewrite(
    project: Path,
    execution_id: str,
    change: Callable[[dict[str, Any]], dict[str, Any]],
    *more: tuple[str, dict[str, Any]],
) -> None:
    """Its journal with other records, each with a right checksum, and no state beside it."""
    lines: list[bytes] = []
    for record in (
        *map(json.loads, journal(project, execution_id)),
        *({"kind": kind, **fields} for kind, fields in more),
    ):
        told = change({name: value for name, value in record.items() if name not in ("seq", "at", "crc")})
        kind = told.pop("kind")
        lines.append(reading.encode(len(lines) + 1, record.get("at", time.time()), kind, told))
    (folder_of(project, execution_id) / JOURNAL_FILE).write_bytes(b"".join(lines))
    (folder_of(project, execution_id) / STATE_FILE).unlink(missing_ok=True)


def same(record: dict[str, Any]) -> dict[str, Any]:
    return record


def resume_untrusted(project: Path, shared_box: Sandbox, execution_id: str) -> World:
    world = World()

    async def work(engine: Engine, _: Composer) -> None:
        engine.trusted = False
        await engine.resume_run(execution_id)

    live(project, shared_box, world, work)
    return world


class TestSeals:
    """In a folder that nobody trusts, only what this user has begun goes on."""

    @attack("records", "a seal taken from another execution")
    def test_a_seal_is_of_one_execution(self, project: Path, shared_box: Sandbox) -> None:
        mine = begin(project, shared_box, World(), code=PAY)
        stolen = FileStore(project).load(mine.id).seal
        theirs = plant(project, forged(work={"guest": {"code": PAY}}, seal=stolen))
        with pytest.raises(Untrusted, match="which somebody else has begun"):
            resume_untrusted(project, shared_box, theirs)

    @attack("records", "a seal of nothing, of zeros, or of no text")
    @pytest.mark.parametrize("mark", ["", "0" * 64, "\u0130" * 64, "x" * 100_000])
    def test_a_forged_seal_is_none(self, project: Path, shared_box: Sandbox, mark: str) -> None:
        theirs = plant(project, forged(seal=mark))
        with pytest.raises(Untrusted, match="which somebody else has begun"):
            resume_untrusted(project, shared_box, theirs)

    @attack("records", "work that was exchanged under its seal")
    def test_other_work_breaks_the_seal(self, project: Path, shared_box: Sandbox) -> None:
        mine = begin(project, shared_box, World(), code=PAY)

        def exchange(record: dict[str, Any], keep_digest: bool) -> dict[str, Any]:
            if record["kind"] == "created":
                work = {
                    **record["state"]["work"],
                    "guest": {**record["state"]["work"]["guest"], "code": PAY.replace("pay", "steal")},
                }
                state = {**record["state"], "work": work}
                return {**record, "state": state if keep_digest else {**state, "work_digest": digest_of(work)}}
            return record

        rewrite(project, mine.id, lambda record: exchange(record, keep_digest=True))
        with pytest.raises(ExecutionConflict, match="its work is not what it was"):
            resume_untrusted(project, shared_box, mine.id)
        rewrite(project, mine.id, lambda record: exchange(record, keep_digest=False))
        with pytest.raises(Untrusted, match="which somebody else has begun"):
            resume_untrusted(project, shared_box, mine.id)

    @attack("records", "a client's execution made the user's own")
    def test_whose_an_execution_is_is_under_its_seal(self) -> None:
        of_client = fresh(client="ci")
        mark = seal(sealed_text(of_client))
        assert is_sealed(sealed_text(of_client), mark)
        for changes in (
            {"client": ""},
            {"client": "admin"},
            {"strategy": "parallel"},
            {"adjustments": ("ci",)},
            {"id": fresh().id},
        ):
            assert not is_sealed(sealed_text(of_client.model_copy(update=changes)), mark)
        assert sealed_text(fresh(adjustments=("ci",))) != sealed_text(fresh(client="ci"))


class TestDecisions:
    def approved(self, project: Path, shared_box: Sandbox) -> tuple[str, dict[str, Any]]:
        """An execution whose call was approved, and the record of that."""
        run = begin(project, shared_box, World(), code=PAY)

        async def work(engine: Engine, _: Composer) -> ExecutionState:
            return await engine.decide(run.id, "run/1", approved=True)

        live(project, shared_box, World(), work)
        (record,) = [one for one in map(json.loads, journal(project, run.id)) if one["kind"] == "decided"]
        return run.id, {name: record[name] for name in ("path", "approved", "seal")}

    @attack("records", "an approval replayed for another execution")
    def test_an_approval_is_of_one_execution(self, project: Path, shared_box: Sandbox) -> None:
        _, decided = self.approved(project, shared_box)
        other = begin(project, shared_box, World(), code=PAY)
        rewrite(project, other.id, same, ("decided", decided))
        world = World()
        assert go_on(project, shared_box, world, other.id).status == "paused"
        assert world.done == []

    @attack("records", "an approval replayed for another call")
    def test_an_approval_is_of_one_call(self, project: Path, shared_box: Sandbox) -> None:
        code = f"{PAY}\nawait tools.w.danger(name='pay')"
        run = begin(project, shared_box, World(), code=code)

        async def work(engine: Engine, _: Composer) -> None:
            await engine.decide(run.id, "run/1", approved=True)

        live(project, shared_box, World(), work)
        (record,) = [one for one in map(json.loads, journal(project, run.id)) if one["kind"] == "decided"]
        rewrite(project, run.id, same, ("decided", {"path": "run/2", "approved": True, "seal": record["seal"]}))
        world = World()
        assert go_on(project, shared_box, world, run.id).status == "paused"
        assert world.done == ["danger pay"]

    @attack("records", "a rejection turned into an approval")
    def test_a_rejection_stays_one(self, project: Path, shared_box: Sandbox) -> None:
        run = begin(project, shared_box, World(), code=PAY)

        async def work(engine: Engine, _: Composer) -> None:
            await engine.decide(run.id, "run/1", approved=False)

        live(project, shared_box, World(), work)
        rewrite(project, run.id, lambda record: {**record, "approved": True} if record["kind"] == "decided" else record)
        world = World()
        for path in (project / ".go-ent" / "executions").glob("index.db*"):  # which knows what was written
            path.unlink()
        assert go_on(project, shared_box, world, run.id).status == "paused"
        assert world.done == []

    @attack("records", "an approval for arguments that were exchanged after it")
    def test_an_approval_is_of_what_was_shown(self, project: Path, shared_box: Sandbox) -> None:
        execution_id, _ = self.approved(project, shared_box)

        def steal(record: dict[str, Any]) -> dict[str, Any]:
            if record["kind"] == "created":
                work = {
                    **record["state"]["work"],
                    "guest": {**record["state"]["work"]["guest"], "code": PAY.replace("pay", "steal")},
                }
                return {**record, "state": {**record["state"], "work": work, "work_digest": digest_of(work)}}
            return record

        rewrite(project, execution_id, steal)
        world = World()
        with contextlib.suppress(ExecutionConflict):
            assert go_on(project, shared_box, world, execution_id).status != "completed"
        assert world.done == []

    @attack("records", "an approval without a seal")
    @pytest.mark.parametrize("mark", [{}, {"seal": ""}, {"seal": "f" * 64}])
    def test_an_approval_that_nobody_made_counts_for_nothing(
        self, project: Path, shared_box: Sandbox, mark: dict[str, str]
    ) -> None:
        run = begin(project, shared_box, World(), code=PAY)
        rewrite(project, run.id, same, ("decided", {"path": "run/1", "approved": True, **mark}))
        world = World()
        assert go_on(project, shared_box, world, run.id).status == "paused"
        assert world.done == []


class TestFiles:
    @attack("records", "a state that was cut off")
    @pytest.mark.parametrize("size", [0, 1, 100, -1])
    def test_a_torn_state_is_made_anew_from_the_journal(self, store: FileStore, size: int) -> None:
        with store.create(fresh()) as held:
            held.move("running")
            held.move("paused")
        path = path_of(held) / STATE_FILE
        path.write_bytes(path.read_bytes()[:size])
        assert store.load(held.id).status == "paused"

    @attack("records", "a journal that was cut off within a record")
    def test_a_torn_record_costs_itself_alone(self, store: FileStore) -> None:
        with store.create(fresh()) as held:
            held.move("running")
            held.move("paused")
        path = path_of(held) / JOURNAL_FILE
        path.write_bytes(path.read_bytes()[:-7])
        (path_of(held) / STATE_FILE).unlink()
        assert store.load(held.id).status == "interrupted"
        with store.hold(held.id) as again:
            assert again.state.status in ("running", "interrupted")

    @attack("records", "a record changed without its checksum")
    def test_a_changed_record_is_damage_and_not_believed(self, store: FileStore) -> None:
        with store.create(fresh()) as held:
            held.move("running")
            held.move("paused")
        path = path_of(held) / JOURNAL_FILE
        path.write_bytes(path.read_bytes().replace(b'"paused"', b'"failed"'))
        (path_of(held) / STATE_FILE).unlink()
        assert store.load(held.id).status != "failed"

    @attack("records", "a state that says more than its journal")
    def test_a_state_ahead_of_its_journal_is_said_to_be_damaged(self, store: FileStore) -> None:
        """The records that would bear it out are lost, or never were: it is shown, with that, and can't be gone on
        with.
        """
        with store.create(fresh()) as held:
            held.move("running")
        ahead = store.load(held.id).model_copy(update={"status": "completed", "seq": 99, "offset": 1 << 30})
        (path_of(held) / STATE_FILE).write_bytes(pack(ahead))
        assert store.load(held.id).damage == ("records 3 to 99 are lost: the journal was damaged",)

    @attack("records", "a lock that names another process, or none")
    @pytest.mark.parametrize("words", [b"1-1-1", b"9" * 60, b"\xff\0", b"", b"x" * (1 << 20)])
    def test_what_a_lock_says_gives_nobody_an_execution(self, store: FileStore, words: bytes) -> None:
        with store.create(fresh()) as held:
            held.move("running")
        (path_of(held) / LOCK_FILE).write_bytes(words)
        assert held_by(path_of(held) / LOCK_FILE) is None
        with store.hold(held.id) as again:
            assert (path_of(again) / LOCK_FILE).stat().st_size < 100

    @attack("records", "a mark asked for by a pipe, a link, or too much")
    @pytest.mark.parametrize("kind", ["pipe", "link", "folder", "deep", "huge", "list"])
    def test_a_mark_that_is_none_is_thrown_away(self, store: FileStore, tmp_path: Path, kind: str) -> None:
        (tmp_path / "secret").write_text('{"label": "stolen"}')
        with store.create(fresh()) as held:
            held.move("running")
            path = path_of(held) / MARK_FILE
            made: dict[str, Callable[[], object]] = {
                "pipe": lambda: os.mkfifo(path),
                "link": lambda: path.symlink_to(tmp_path / "secret"),
                "folder": path.mkdir,
                "deep": lambda: path.write_bytes(b"[" * 100_000),
                "huge": lambda: path.write_bytes(b'{"label": "' + b"x" * (2 << 20) + b'"}'),
                "list": lambda: path.write_bytes(b"[1]"),
            }
            made[kind]()
            assert held.mark_requested() is False
            assert held.state.checkpoints == ()
        assert (tmp_path / "secret").read_text() == '{"label": "stolen"}'

    @attack("records", "learned schemas that are bombs")
    @pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 50_000, "5", '{"a": 5}', "\ud800"])
    def test_schemas_that_can_not_be_read_are_none(self, tmp_path: Path, text: str) -> None:
        (tmp_path / "learned.json").write_text(text, "utf-8", "surrogatepass")
        assert LearnedSchemas(tmp_path / "learned.json").load() == {}


class TestDatabases:
    def index(self, store: FileStore, *statements: tuple[str, tuple[object, ...]]) -> None:
        with contextlib.closing(sqlite3.connect(store.folder / "index.db", isolation_level=None)) as database:
            for statement, values in statements:
                database.execute(statement, values)

    @attack("records", "an index that leads out of its folder")
    def test_a_row_that_is_a_path_is_neither_shown_nor_removed(
        self, project: Path, store: FileStore, tmp_path: Path
    ) -> None:
        victim = tmp_path / "victim"
        victim.mkdir()
        (victim / "precious").write_text("mine")
        good = plant(project, forged(status="completed", updated=1.0, created=1.0))
        assert [row.id for row in store.rows()] == [good]
        names = "id, " + ", ".join(name for name in self.columns(store) if name != "id")
        for path in ("../../../victim", "../../../../victim", str(victim)):
            self.index(
                store,
                (f"INSERT INTO executions ({names}) SELECT ?, {names[4:]} FROM executions WHERE id = ?", (path, good)),
            )
        assert [row.id for row in store.rows()] == [good]
        prune(store, keep=0, older_than_s=0, resumable=True)
        assert everything(victim) == {"precious": b"mine"}

    def columns(self, store: FileStore) -> list[str]:
        with contextlib.closing(sqlite3.connect(store.folder / "index.db")) as database:
            return [row[1] for row in database.execute("PRAGMA table_info(executions)")]

    @attack("records", "an index that is no database, or half of one")
    @pytest.mark.parametrize(
        "data", [b"", b"x" * 5000, b"SQLite format 3\0" + b"\xff" * 5000, b"SQLite format 3\0" + b"\0" * 84]
    )
    def test_a_broken_index_is_made_anew(self, project: Path, store: FileStore, data: bytes) -> None:
        good = plant(project, forged(status="completed"))
        (store.folder / "index.db").write_bytes(data)
        assert [row.id for row in store.rows()] == [good]

    @attack("records", "an index of a newer version")
    def test_an_index_of_another_version_is_not_read(self, project: Path, store: FileStore) -> None:
        good = plant(project, forged(status="completed"))
        assert [row.id for row in store.rows()] == [good]
        self.index(store, (f"PRAGMA user_version={VERSION + 1}", ()), ("UPDATE executions SET title = 'forged'", ()))
        assert [row.title for row in FileStore(project).rows()] != ["forged"]
        assert len(SCHEMA) > 1

    @attack("records", "uses that are texts, blobs and without end")
    def test_uses_of_the_wrong_types_are_no_uses(self, tmp_path: Path) -> None:
        store = UsageStore(tmp_path / "usage.db")
        store.note("good", True, 1.0)
        store.flush()
        with contextlib.closing(sqlite3.connect(tmp_path / "usage.db", isolation_level=None)) as database:
            for row in ((b"\0", "x", "y", "z"), ("bad", 1 << 62, -5, float("inf")), (5, b"", b"", b"")):
                database.execute("INSERT INTO usage VALUES (?, ?, ?, ?)", row)
        store.note("good", True, 1.0)
        store.flush()
        assert store.all()["good"].calls == 2


class TestTrust:
    @attack("records", "trust in a folder taken for trust in its neighbours")
    def test_trust_is_in_one_folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("GO_ENT_DATA", str(tmp_path / "user"))
        for name in ("a", "ab", "a/b", "other"):
            (tmp_path / name).mkdir()
        set_trust(tmp_path / "a", True)
        (tmp_path / "link").symlink_to(tmp_path / "other")
        assert is_trusted(tmp_path / "a")
        assert is_trusted(tmp_path / "a" / "b" / "..")
        assert not any(is_trusted(tmp_path / name) for name in ("ab", "a/b", "other", "link", "A", "a/../other", "."))

    @attack("records", "a list of what is trusted that is damaged, another's, or a link")
    @pytest.mark.parametrize("kind", ["damaged", "deep", "link", "pipe", "shape"])
    def test_what_can_not_be_read_trusts_nothing(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
    ) -> None:
        monkeypatch.setenv("GO_ENT_DATA", str(tmp_path / "user"))
        (tmp_path / "user").mkdir()
        path, forgery = user_data() / "trust.json", json.dumps({"version": 1, "projects": {str(tmp_path): 1.0}})
        (tmp_path / "theirs.json").write_text(forgery)
        made: dict[str, Callable[[], object]] = {
            "damaged": lambda: path.write_text(forgery[:-3]),
            "deep": lambda: path.write_text("[" * 100_000),
            "link": lambda: path.symlink_to(tmp_path / "theirs.json"),
            "pipe": lambda: os.mkfifo(path),
            "shape": lambda: path.write_text(json.dumps({"projects": [str(tmp_path)]})),
        }
        made[kind]()
        with pytest.raises(StoreError, match="can't be read, so nothing is trusted"):
            is_trusted(tmp_path)

    @attack("records", "the user's key, exchanged for one that is known")
    @pytest.mark.parametrize("kind", ["short", "link", "pipe"])
    def test_a_key_that_is_not_the_users_seals_nothing(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
    ) -> None:
        monkeypatch.setenv("GO_ENT_DATA", str(tmp_path / "user"))
        (tmp_path / "user").mkdir()
        (tmp_path / "known").write_bytes(b"k" * 32)
        path = user_data() / "key"
        if kind == "short":
            path.write_bytes(b"k")
        elif kind == "link":
            path.symlink_to(tmp_path / "known")
        else:
            os.mkfifo(path)
        with pytest.raises(
            (StoreError, OSError), match=r"is not the user's key any more|Too many levels|not an ordinary file"
        ):
            seal("x")


class TestLoopsAndWorkflows:
    CHECK = CommandCheck(argv=(sys.executable, "-c", "open('owned', 'w')"))

    @attack("records", "a loop that somebody else has begun")
    def test_a_loop_without_the_users_seal_runs_nothing(self, project: Path) -> None:
        mine = Loop.start(project, Task(description="x"), self.CHECK)
        path = project / ".go-ent" / "loops" / f"{mine.id}.json"
        state = json.loads(path.read_text())
        agent = Scripted("claude-code")

        def run() -> None:
            async def main() -> None:
                async with engine_of(project, agent, trusted=False) as engine:
                    await Loop.resume(project, mine.id).run(engine)

            asyncio.run(main())

        for changes in (
            {"seal": ""},
            {"seal": "0" * 64},
            {"max_iterations": 99},
            {"task": {**state["task"], "description": "steal"}},
        ):
            path.write_text(json.dumps({**state, **changes}))
            with pytest.raises(Untrusted, match=f"loop {mine.id}"):
                run()
        assert agent.seen == []
        assert not (project / "owned").exists()

    @attack("records", "a workflow whose steps were exchanged")
    async def test_a_workflow_with_other_steps_is_not_the_users(self, project: Path) -> None:
        Workflows(project).start("w", [WorkflowStep(id="a", description="harmless")])
        path = project / ".go-ent" / "workflows" / "w.json"
        state = json.loads(path.read_text())
        state["steps"][0]["description"] = "steal"
        path.write_text(json.dumps(state))
        agent = Scripted("claude-code")

        async with engine_of(project, agent, trusted=False) as engine:
            with pytest.raises(Untrusted, match="workflow w"):
                await Workflows(project).advance("w", engine)
        assert agent.seen == []

    @attack("records", "states of loops that are bombs")
    @pytest.mark.parametrize("text", ["[" * 100_000, "{}", "null", '{"id": 5}', "\ud800", '{"a":' * 10_000])
    def test_a_state_that_is_none_hides_no_other(self, project: Path, text: str) -> None:
        good = Loop.start(project, Task(description="x"), self.CHECK)
        (project / ".go-ent" / "loops" / "evil.json").write_text(text, "utf-8", "surrogatepass")
        found = Loop.all(project)
        assert [state.id for state in found.states] == [good.id]
        assert len(found.problems) == 1
        assert len(found.problems[0]) < 2000

"""Durable executions against a guest that writes its own messages, and a folder that somebody else has filled."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import sqlite3
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from pydantic_core import to_json

from go_ent.composer import Composer
from go_ent.engine import Engine, ExecutionConflict, Untrusted
from go_ent.engine.cli.commands.executions import journal as logs
from go_ent.engine.core.errors import BadState
from go_ent.engine.core.ids import new_id
from go_ent.engine.core.models import Attempt, RunResult
from go_ent.engine.executions.state import Environment, ExecutionState, Request, digest_of, pack
from go_ent.engine.storage import index, index_database
from go_ent.engine.storage import records as reading
from go_ent.engine.storage.index_schema import SCHEMA, VERSION
from go_ent.engine.storage.slot import JOURNAL_FILE, STATE_FILE
from go_ent.sandbox import Run, Sandbox
from tests.engine.guest_runs.test_guests import World, begin, go_on, journal, live
from tests.security.corpus import attack
from tests.support.executions import FileStore
from tests.support.shell import go_ent

# The guest's own door to the host, past everything that the guest's side checks.
DOOR = 'import operator\nexchange = operator.attrgetter("__glo" + "bals__")(checkpoint)["wit_world"].exchange\n'


@pytest.fixture
def store(project: Path) -> Iterator[FileStore]:
    made = FileStore(project)
    yield made
    made.index.close()


def approve(
    project: Path, shared_box: Sandbox, execution_id: str, call: str | None = None, *, trusted: bool = True
) -> Any:
    async def work(engine: Engine, _: Composer) -> Any:
        engine.trusted = trusted
        return await engine.decide(execution_id, call, approved=True)

    return live(project, shared_box, World(), work)


def forged(**fields: Any) -> ExecutionState:
    """A state that somebody else made up."""
    now = time.time() - 10
    work = fields.get("work", {"guest": {"code": "1 + 1"}})
    made = {"id": new_id(), "kind": "code", "title": "t", "status": "paused", "created": now, "updated": now}
    made |= {"work": work, "work_digest": digest_of(work), "environment": Environment(go_ent="0", python="3")}
    return ExecutionState(**{**made, **fields})


def line(seq: int, kind: str, members: str = "", at: str = "1.0") -> bytes:
    """A record with a right checksum, whatever is in it."""
    body = f'{{"at":{at},"seq":{seq},"kind":"{kind}"{members}'.encode()
    return body + b',"crc":"%08x"}\n' % zlib.crc32(body)


def plant(project: Path, state: ExecutionState, *lines: bytes, with_state: bool = True) -> str:
    """An execution in a folder, as somebody else would bring it."""
    folder = project / ".go-ent" / "executions" / state.id
    folder.mkdir(parents=True)
    created = reading.encode(1, time.time(), "created", {"state": state.model_dump(mode="json")})
    (folder / JOURNAL_FILE).write_bytes(created + b"".join(lines))
    if with_state:
        (folder / STATE_FILE).write_bytes(pack(state))
    return state.id


class TestAHostileGuest:
    PAY = '"w.danger",[],{"name":"pay"}]'
    TWICE: ClassVar[tuple[tuple[str, list[str]], ...]] = (
        (f"for _ in range(5):\n    exchange('-1\\n[[[1,{PAY}],[]]')", ["danger pay"]),
        (f"exchange('-1\\n[[[1,{PAY},[1,{PAY}],[]]')", []),
        (f"exchange('-1\\n[[[2,{PAY}],[]]')\nexchange('-1\\n[[[1,{PAY}],[]]')", ["danger pay"]),
    )

    @attack("records", "one approval, used for several calls")
    @pytest.mark.parametrize(("code", "done"), TWICE, ids=["again", "at once", "one before it"])
    def test_makes_one_call_of_one_approval(
        self, project: Path, shared_box: Sandbox, code: str, done: list[str]
    ) -> None:
        world = World()
        run = begin(project, shared_box, world, code=DOOR + code)
        if done:
            assert run.status == "paused"
            approve(project, shared_box, run.id)
            run = go_on(project, shared_box, world, run.id)
        assert run.status == "crashed"
        assert run.error is not None
        assert run.error.message.endswith("the guest broke: protocol")
        assert world.done == done

    @attack("records", "a journal filled with calls that were never made")
    def test_fills_no_journal_with_calls_that_it_gives_up_and_never_made(
        self, project: Path, shared_box: Sandbox
    ) -> None:
        flood = "','.join(str(one) for one in range(1, 500)) + ',' + '9' * 4000"
        code = f"{DOOR}for n in range(300):\n    exchange('0\\n[[],[' + {flood} + ']]')\n"
        run = begin(project, shared_box, World(), code=code + "await tools.w.look(n=2)")
        assert run.error is not None
        assert run.error.message.endswith("the guest broke: protocol")
        records = [json.loads(line) for line in journal(project, run.id)]
        assert not [record for record in records if record["kind"] in ("call", "cancel")]
        assert sum(map(len, journal(project, run.id))) < 20_000

    @attack("records", "a journal filled with one call given up")
    def test_fills_no_journal_with_one_call_that_it_gives_up_again_and_again(
        self, project: Path, shared_box: Sandbox
    ) -> None:
        code = f"{DOOR}await tools.w.look(n=2)\nfor n in range(300):\n    exchange('0\\n[[],[1,1,1]]')\n"
        run = begin(project, shared_box, World(), code=code + "await tools.w.look(n=3)")
        assert run.error is not None
        assert run.error.message.endswith("the guest broke: protocol")
        kinds = [record["kind"] for record in map(json.loads, journal(project, run.id))]
        assert (kinds.count("call"), kinds.count("cancel")) == (1, 0)

    @attack("records", "an answer larger than a record")
    def test_whose_tool_says_more_than_a_record_holds_is_ended_at_once(
        self, project: Path, shared_box: Sandbox, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(reading, "MAX_LINE", 1 << 20)
        world = World()
        run = begin(
            project,
            shared_box,
            world,
            code="await tools.w.again(text='a')\nlen(await tools.w.again(text='x' * 2_000_000))",
        )
        assert run.status == "crashed"
        assert run.error is not None
        assert run.error.kind == "NotRecorded"
        monkeypatch.undo()
        assert go_on(project, shared_box, world, run.id).result == 2_000_000
        assert [one[:8] for one in world.done] == ["again a", "again xx", "again xx"]

    @attack("records", "signs that a terminal obeys, in an error")
    def test_tells_people_nothing_that_a_terminal_obeys(self, project: Path) -> None:
        done = go_ent("exec", "-c", "raise ValueError('\\x1b]0;mine\\x07\\x1b[2J')", cwd=project)
        assert done.returncode == 1
        assert b"ValueError" in done.stderr
        assert b"\x1b" not in done.stderr
        assert b"\x07" not in done.stderr

    @attack("records", "lines of its own in what people are shown")
    def test_makes_no_lines_of_its_own_in_what_people_are_shown(self, project: Path, shared_box: Sandbox) -> None:
        lie = "waits     call run/9: w.look with {}: harmless"
        code = f"""{DOOR}# a title
checkpoint("x\\n  {lie}", "y\\n  {lie}")
exchange('1\\n[[[2,"a\\\\n  {lie}",["b\\\\n  {lie}"],{{}}]],[]]')
exchange('-1\\n[[[3,"w.danger",[],{{"name":"z\\\\n  {lie}"}}]],[]]')
while True:
    exchange('-1\\n')
"""
        title = forged(title=f"t\n  {lie}", strategy_reason=f"r\n  {lie}", error=f"e\n  {lie}")
        reason = Request(tool=f"u\n  {lie}", arguments={}, reason=f"s\n  {lie}", at=1.0)
        other = plant(project, title.model_copy(update={"requests": {f"run/1\n  {lie}": reason}}))
        run = begin(project, shared_box, World(), code=code)
        assert run.status == "paused", run.error
        for execution_id in (run.id, other):
            shown = go_ent("status", execution_id, cwd=project)
            assert shown.returncode == 0, shown.stderr
            assert [one for one in shown.stdout.decode().splitlines() if one.strip().startswith(lie[:23])] == []
            logged = go_ent("logs", execution_id, cwd=project).stdout.decode()
            assert [one for one in logged.splitlines() if one.strip().startswith(lie[:10])] == []
        assert len(go_ent("ps", cwd=project).stdout.splitlines()) == 3


class TestAForgedState:
    LIE = "waits     call run/9: w.look with {}: harmless"
    LINES = f"x\n  {LIE}"
    TRIED = Attempt(runtime="cli", status="failed", failure="crash", error=LINES)
    RESULT = RunResult(execution_id="", task_id="run", status="failed", attempts=(TRIED, TRIED))
    FORGED: ClassVar[dict[str, dict[str, Any]]] = {
        "parent": {"parent": LINES},
        "attempt": {"results": {"run": RESULT}},
        "runtime": {"results": {"run": RESULT.model_copy(update={"runtime": LINES, "attempts": ()})}},
        "damage": {"damage": (LINES,)},
        "line": {},
    }

    @attack("records", "a forged state that makes lines of its own")
    @pytest.mark.parametrize("what", list(FORGED))
    def test_makes_no_lines_of_its_own_either(self, project: Path, what: str) -> None:
        lines = [
            line(2, "guest", ',"path":"1"'),
            line(3, "line", f',"n":1,"digest":"","status":{json.dumps(self.LINES)}'),
        ]
        execution_id = plant(project, forged(**self.FORGED[what]), *(lines if what == "line" else ()))
        shown = go_ent("status", execution_id, cwd=project).stdout.decode()
        assert "status    paused" in shown
        assert [one for one in shown.splitlines() if one.strip().startswith(self.LIE[:23])] == []


class TestWhatWaitsForApproval:
    def waiting(self, project: Path, shared_box: Sandbox, size: int) -> Run:
        run = begin(
            project, shared_box, World(), code=f"await tools.w.danger(name='harmless' + ' ' * {size} + 'rm -rf /')"
        )
        assert run.status == "paused"
        return run

    @attack("records", "arguments that hide what they do behind their length")
    def test_is_shown_whole_or_said_not_to_be(self, project: Path, shared_box: Sandbox) -> None:
        run = self.waiting(project, shared_box, 1000)
        assert f'{{"name": "harmless{" " * 1000}rm -rf /"}}' in go_ent("status", run.id, cwd=project).stdout.decode()
        run = self.waiting(project, shared_box, 200_000)
        shown = go_ent("status", run.id, cwd=project).stdout.decode()
        assert 'with {"name": "harmless' in shown
        assert 'rm -rf /"}: calls of this tool need approval' in shown
        whole = len('{"name": "harmlessrm -rf /"}') + 200_000
        assert f"…[{whole - 4000} characters are not shown here: --json has them]…" in shown
        said = json.loads(go_ent("status", run.id, "--json", cwd=project).stdout)
        assert len(said["requests"]["run/1"]["arguments"]["name"]) == len("harmlessrm -rf /") + 200_000

    @attack("records", "a request too long to be looked at")
    def test_is_approved_by_name_if_it_is_too_long_to_be_shown(self, project: Path, shared_box: Sandbox) -> None:
        run = self.waiting(project, shared_box, 300_000)
        assert (
            "too long to be shown (name the call to approve it)"
            in go_ent("status", run.id, cwd=project).stdout.decode()
        )
        with pytest.raises(
            ExecutionConflict, match=r"call run/1, w\.danger, are too long to be shown: name the call to approve it"
        ):
            approve(project, shared_box, run.id)
        approve(project, shared_box, run.id, "run/1")
        world = World()
        assert go_on(project, shared_box, world, run.id).status == "completed"
        assert len(world.done) == 1

    def request(self, shown: str, really: str) -> ExecutionState:
        digest = hashlib.sha256(to_json({"name": really})).hexdigest()
        asked = Request(
            tool="w.danger", arguments={"name": shown}, digest=digest, reason="calls of this tool need approval", at=1.0
        )
        return forged(work={"guest": {"code": f"await tools.w.danger(name={really!r})"}}, requests={"run/1": asked})

    @attack("records", "a request that shows another call than it makes")
    @pytest.mark.parametrize("call", [None, "run/1"])
    def test_is_what_is_shown_or_can_not_be_approved(
        self, project: Path, shared_box: Sandbox, call: str | None
    ) -> None:
        execution_id = plant(project, self.request("harmless", "rm -rf /"))
        with pytest.raises(ExecutionConflict, match=r"what is shown of call run/1, w\.danger, is not what it would do"):
            approve(project, shared_box, execution_id, call)
        world = World()
        assert go_on(project, shared_box, world, execution_id).status == "paused"
        assert world.done == []

    @attack("records", "an approval asked for by somebody else's execution")
    def test_of_somebody_else_is_not_approved_in_a_folder_that_nobody_trusts(
        self, project: Path, shared_box: Sandbox
    ) -> None:
        theirs = plant(project, self.request("x", "x"))
        with pytest.raises(Untrusted, match="which somebody else has begun"):
            approve(project, shared_box, theirs, trusted=False)
        assert FileStore(project).load(theirs).decisions == {}
        mine = begin(project, shared_box, World(), code="await tools.w.danger(name='x')")
        assert list(approve(project, shared_box, mine.id, trusted=False).decisions) == ["run/1"]


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


class TestALinkedFolder:
    @attack("records", "a folder of executions that is another project's")
    def test_is_not_followed_by_what_changes_an_execution(
        self, project: Path, shared_box: Sandbox, tmp_path: Path
    ) -> None:
        run = begin(project, shared_box, World(), code="await tools.w.danger(name='x')")
        victim = project / ".go-ent" / "executions"
        other = tmp_path / "other"
        (other / ".go-ent").mkdir(parents=True)
        (other / ".go-ent" / "executions").symlink_to(victim)
        before = everything(victim)
        for command in (
            ("approve", run.id),
            ("reject", run.id),
            ("interrupt", run.id),
            ("interrupt", run.id, "--cancel"),
            ("resume", run.id),
            ("checkpoint", run.id),
            ("exec", "-c", "1"),
            ("executions", "prune", "--keep", "0"),
            ("executions", "reindex"),
            ("ps",),
        ):
            done = go_ent(*command, cwd=other, env={"GO_ENT_TRUST_PROJECT": "1"})
            assert done.returncode != 0 or command[0] in ("executions", "ps"), command
            assert b"Traceback" not in done.stderr
            assert everything(victim) == before, command


class TestAnIndexThatSomebodyElseMade:
    @attack("records", "a trigger behind the name of an index")
    def test_with_a_trigger_behind_the_name_of_an_index_is_made_anew(self, project: Path, store: FileStore) -> None:
        execution_id = plant(project, forged(status="completed"))
        path = store.folder / "index.db"
        hidden = list(SCHEMA)[-1]
        trigger = f"CREATE TRIGGER {hidden} BEFORE INSERT ON executions BEGIN SELECT RAISE(ABORT, 'mine'); END"
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as database:
            database.execute("PRAGMA journal_mode=WAL")
            for statement in SCHEMA.values():
                database.execute(statement)
            database.execute(f"PRAGMA user_version={VERSION}")
            database.execute("INSERT INTO filled VALUES (0, 1, '')")
            database.execute("PRAGMA writable_schema=ON")
            (number,) = database.execute("SELECT rowid FROM sqlite_master WHERE name = ?", (hidden,)).fetchone()
            rest = database.execute(
                "SELECT type, name, tbl_name, rootpage, sql FROM sqlite_master WHERE rowid = ?", (number,)
            ).fetchone()
            database.execute("DELETE FROM sqlite_master WHERE rowid = ?", (number,))
            insert = "INSERT INTO sqlite_master (rowid, type, name, tbl_name, rootpage, sql) VALUES (?, ?, ?, ?, ?, ?)"
            database.execute(insert, (number, "trigger", hidden, "executions", 0, trigger))
            database.execute(insert, (number + 1, *rest))
        with contextlib.closing(sqlite3.connect(path)) as database:  # it is as bad as it was meant to be
            found = database.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
            assert dict(found) == dict(SCHEMA)
            assert len(found) > len(SCHEMA)
        assert [row.id for row in store.rows()] == [execution_id]
        with contextlib.closing(sqlite3.connect(path)) as database:
            assert database.execute("SELECT count(*) FROM sqlite_master WHERE type = 'trigger'").fetchone() == (0,)

    @attack("records", "a lock that is held for ever")
    @pytest.mark.parametrize("name", [".index.db.lock", ".index.filling"])
    def test_and_holds_a_lock_on_makes_nobody_wait_for_ever(
        self, project: Path, store: FileStore, monkeypatch: pytest.MonkeyPatch, name: str
    ) -> None:
        execution_id = plant(project, forged(status="completed"))
        monkeypatch.setattr(index_database, "BUSY_S", 0.05)
        monkeypatch.setattr(index, "FILL_S", 0.05)
        with open(store.folder / name, "wb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            listed = go_ent("ps", "--json", cwd=project)
        assert [row["id"] for row in json.loads(listed.stdout)] == [execution_id]


class TestAForgedJournal:
    CODE = "a = await tools.w.put(text='a')\nimport time\ntime.time()\nb = await tools.w.put(text='b')\n[a, b]"
    CHANGES: ClassVar[dict[str, tuple[str, dict[str, Any]]]] = {
        "a start before time": ("guest", {"wall_ns": -1}),
        "a start after it": ("guest", {"wall_ns": 1 << 70}),
        "a short seed": ("guest", {"seed": "ab"}),
        "a long seed": ("guest", {"seed": "ab" * 100}),
        "an answer that is none": ("answer", {"answer": 5}),
        "an answer to another call": ("answer", {"answer": [7, 1, "x"]}),
        "heard that is no text": ("call", {"heard": ["a"]}),
        "heard that is no JSON": ("call", {"heard": "[[[[[["}),
        "heard of calls that were never made": ("call", {"heard": "[1,[77]]"}),
        "a call without a number": ("call", {"path": "run/x"}),
    }

    def forge(self, project: Path, execution_id: str, kind: str, fields: dict[str, Any]) -> Path:
        """Its journal as of before its end, with records that say something else."""
        folder = project / ".go-ent" / "executions" / execution_id
        lines: list[bytes] = []
        for record in map(json.loads, journal(project, execution_id)):
            if record["kind"] in ("step_finished", "printed", "status"):
                break
            told = {name: value for name, value in record.items() if name not in ("seq", "at", "kind", "crc")}
            told |= fields if record["kind"] == kind else {}
            lines.append(reading.encode(len(lines) + 1, record["at"], record["kind"], told))
        (folder / JOURNAL_FILE).write_bytes(b"".join(lines))
        (folder / STATE_FILE).unlink(missing_ok=True)
        return folder

    @attack("records", "a journal with forged answers, clocks and seeds")
    @pytest.mark.parametrize("what", CHANGES)
    def test_is_refused_and_stays_as_it_is(self, project: Path, shared_box: Sandbox, what: str) -> None:
        whole = begin(project, shared_box, World(), code=self.CODE)
        kind, fields = self.CHANGES[what]
        self.forge(project, whole.id, kind, fields)
        world = World()
        with pytest.raises((BadState, ExecutionConflict)):
            go_on(project, shared_box, world, whole.id)
        assert world.done == []
        state = FileStore(project).load(whole.id)
        assert (state.status, state.resumable) == ("interrupted", True)

    @attack("records", "a journal with deep JSON")
    def test_that_is_deep_is_refused(self, project: Path, shared_box: Sandbox) -> None:
        """What was heard is looked at where a call found no tool."""
        run = begin(project, shared_box, World(), code="await tools.w.nothing()\nawait tools.w.put(text='a')")
        self.forge(project, run.id, "call", {"heard": "[" * 100_000})
        with pytest.raises((BadState, ExecutionConflict)):
            go_on(project, shared_box, World(), run.id)

    GUEST = line(2, "guest", ',"path":"run"')
    DEEP = "[" * 300 + "]" * 300
    RECORDS: ClassVar[dict[str, list[bytes]]] = {
        "at a time that is none": [line(2, "progress", at="1e300")],
        "at a time far off": [line(2, "progress", at="1e17")],
        "with a list of changes": [line(2, "status", ',"changes":[1]')],
        "with a list as a result": [line(2, "step_finished", ',"result":[1],"step":1')],
        "with deep arguments": [GUEST, line(3, "call", f',"tool":"x","path":"run/1","arguments":[[{DEEP}],{{}}]')],
        "with deep values": [line(2, "checkpoint", f',"label":"a","value":{DEEP}')],
        "of a kind of its own": [line(2, "x\\u001b[31m\\nfoo", ',"path":{"a":1}')],
        "of calls within calls": [
            GUEST,
            *(line(3 + n, "call", f',"tool":"x","arguments":null,"path":"run{"/1" * (n + 1)}"') for n in range(1900)),
        ],
    }

    @attack("records", "records of forged kinds and times")
    @pytest.mark.parametrize("what", RECORDS)
    def test_is_shown_without_breaking(self, project: Path, what: str) -> None:
        execution_id = plant(project, forged(), *self.RECORDS[what], with_state=False)
        for command in (
            ("status", execution_id),
            ("status", execution_id, "--json"),
            ("logs", execution_id),
            ("logs", execution_id, "--json"),
            ("ps", "--json"),
            ("executions", "totals", "--by", "tool", "--json"),
        ):
            done = go_ent(*command, cwd=project)
            assert done.returncode == 0, (command, done.stderr)
            assert b"Traceback" not in done.stderr
            assert b"\x1b" not in done.stdout
            for one in done.stdout.splitlines() if command[-1] == "--json" else ():
                json.loads(one)

    @attack("records", "a journal with a damaged end, followed")
    @pytest.mark.parametrize("follow", [(), ("--follow",)])
    def test_with_a_damaged_end_is_shown_once(
        self, project: Path, monkeypatch: pytest.MonkeyPatch, follow: tuple[str, ...]
    ) -> None:
        execution_id = plant(project, forged(), line(2, "progress"), b"?\n")
        said: list[object] = []

        def hear(text: object, **_: object) -> None:
            said.append(text)
            assert len(said) < 10

        monkeypatch.setattr(logs, "say", hear)
        assert go_ent("logs", execution_id, *follow, cwd=project).returncode == 0
        assert len(said) >= 2

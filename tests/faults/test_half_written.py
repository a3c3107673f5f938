"""Files that a crash, a full disk or another program left half-written: each is healed, or said to be damaged and what
to do.

None of ours is: they are put in place whole. Other kinds of damage are proved beside each file's module.
"""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from go_ent.composer.catalogue.learned_schemas import LearnedSchemas
from go_ent.engine.budget.ledger import LedgerCall, Wanted
from go_ent.engine.budget.sqlite_ledger import FileLedger
from go_ent.engine.executions.past_runs import past_runs
from tests.support.executions import FileStore
from tests.support.packed import made as packed
from tests.support.shell import Done, go_ent

CONFIG = '[grants]\nallow = ["up.*"]\napprove = ["up.delete"]\n\n[limits]\ntimeout_s = 20.0\n'
CUTS: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "half": lambda data: data[: len(data) // 2],
    "all but its end": lambda data: data[:-1],
}


def tool(expression: str) -> str:
    return (
        '# /// tool\n# name = "twice"\n# ///\ndef twice(x: int) -> int:\n    """A number, doubled."""\n    return '
        f"{expression}\n"
    )


@dataclass(frozen=True)
class Place:
    """A project in which something was done, and its user's folder."""

    folder: Path

    @property
    def project(self) -> Path:
        return self.folder / "project"

    @property
    def state(self) -> Path:
        return self.project / ".go-ent"

    def go_ent(self, *arguments: str) -> Done:
        return go_ent(*arguments, cwd=self.project, env={"GO_ENT_DATA": str(self.folder / "user")})

    def rows(self) -> dict[str, str]:
        return {row["id"]: row["status"] for row in json.loads(self.go_ent("ps", "--json").stdout)}

    def execution(self) -> Path:
        """The folder of the oldest execution."""
        return self.state / "executions" / min(self.rows())


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Place:
    made = Place(tmp_path_factory.mktemp("template"))
    made.state.mkdir(parents=True)
    (made.state / "config.toml").write_text(CONFIG)
    for expression in ("2 * x", "x + x"):
        (made.project / "twice.py").write_text(tool(expression))
        assert made.go_ent("tool", "add", "twice.py").returncode == 0
    assert made.go_ent("exec", "-c", "checkpoint('here', 1)\nawait tools.twice(x=3)").stdout == b"6\n"
    assert made.go_ent("tool", "run", "twice", "--input", '{"x": 2}').stdout == b"4\n"
    store = FileStore(made.project)
    for _ in range(3):
        packed(store)
    store.close()
    assert made.go_ent("trust").returncode == 0
    FileLedger(made.project).reserve(
        LedgerCall("key", "execution", "task"), Wanted(0.5, 10), (), unknown_usd=0.0, at=time.time()
    )
    LearnedSchemas(made.state / "learned.json").save(
        "up.read", {"type": "object", "properties": {"a": {"type": "integer"}}}
    )
    return made


@pytest.fixture
def place(template: Place, tmp_path: Path) -> Place:
    shutil.copytree(template.folder, tmp_path / "place")
    return Place(tmp_path / "place")


@pytest.fixture(params=[name if name == "half" else pytest.param(name, marks=pytest.mark.long) for name in CUTS])
def cut(request: pytest.FixtureRequest) -> Callable[[Path], bytes]:
    """Leaves a part of a file; what is left."""

    def leave(path: Path) -> bytes:
        data = CUTS[request.param](path.read_bytes())
        path.write_bytes(data)
        return data

    return leave


Cut = Callable[[Path], bytes]


def works(place: Place) -> None:
    """Everything that does not need the file does what it always does, and says nothing of Python's."""
    for arguments, out in (
        (("exec", "-c", "1 + 1"), b"2\n"),
        (("tool", "run", "twice", "--input", '{"x": 2}'), b"4\n"),
    ):
        done = place.go_ent(*arguments)
        assert (done.returncode, done.stdout) == (0, out), done.stderr
        assert b"Traceback" not in done.stderr


def test_a_tool_is_said_to_be_broken_and_is_brought_back_from_its_history(place: Place, cut: Cut) -> None:
    path = place.state / "composed-tools" / "twice.py"
    if tool("x + x").encode().strip() == cut(path).replace(b"# version = 2\n", b"").strip():
        works(place)  # it lacks its last line break, and no more
        return
    done = place.go_ent("tool", "run", "twice", "--input", '{"x": 2}')
    assert (done.returncode, b"rollback" in done.stderr) == (2, True), done.stderr
    assert place.go_ent("exec", "-c", "1 + 1").stdout == b"2\n"
    assert place.go_ent("tool", "rollback", "twice", "2").returncode == 0
    works(place)


def test_an_earlier_version_is_not_brought_back_as_something_else(place: Place, cut: Cut) -> None:
    (path,) = (place.state / "composed-tools" / ".history" / "twice").glob("000001-*")
    left = cut(path)
    done = place.go_ent("tool", "rollback", "twice", "1")
    if not left.endswith(b"2 * x"):  # else it lacks its last line break, and no more
        assert done.returncode != 0, done
        assert b"Traceback" not in done.stderr
    works(place)


def test_nor_as_what_it_looks_like(place: Place) -> None:
    """Cut where it is still a tool: by its name the version knows what it was."""
    (path,) = (place.state / "composed-tools" / ".history" / "twice").glob("000001-*")
    path.write_bytes(path.read_bytes().replace(b"return 2 * x", b"return 2"))
    done = place.go_ent("tool", "rollback", "twice", "1")
    assert (done.returncode, b"is damaged" in done.stderr) == (12, True), done.stderr
    works(place)


def test_a_configuration_is_not_half_obeyed(place: Place) -> None:
    """What it does not grant any more might be what it wants to be asked about: nothing runs until it is right."""
    path = place.state / "config.toml"
    path.write_text(CONFIG[: CONFIG.index("delete")])
    for arguments in (("exec", "-c", "1 + 1"), ("tool", "run", "twice", "--input", '{"x": 2}'), ("serve",)):
        done = place.go_ent(*arguments)
        assert (done.returncode, b"config.toml" in done.stderr) == (12, True), done.stderr
        assert b"Traceback" not in done.stderr
    assert path.read_text() == CONFIG[: CONFIG.index("delete")]
    path.write_text(CONFIG)
    works(place)


def test_the_list_of_runs_of_an_older_version_loses_the_line_and_no_other(place: Place, cut: Cut) -> None:
    path = place.state / "journal" / "runs.jsonl"
    path.parent.mkdir()
    lines = [{"id": f"{n}", "at": 1.0, "kind": "code", "status": "completed", "source": f"{n}"} for n in range(7)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    left = cut(path)
    works(place)
    sources = {run.source for run in past_runs(FileStore(place.project))}
    assert {"1 + 1", *(f"{n}" for n in range(left.count(b"\n")))} <= sources
    assert place.go_ent("tool", "suggest").returncode == 0
    assert path.read_bytes() == left


def test_packed_executions_before_the_cut_are_there(place: Place, cut: Cut) -> None:
    path = place.state / "executions" / "packed" / "000001.jsonl"
    before = place.rows()
    cut(path)
    (place.state / "executions" / "index.db").unlink()
    after = place.rows()
    assert after.items() <= before.items()
    for name in after:
        assert place.go_ent("status", name).returncode == 0, name
    works(place)
    assert len(place.rows()) == len(after) + 2


def test_one_that_was_cut_off_is_told_where_it_was_known(place: Place) -> None:
    path = place.state / "executions" / "packed" / "000001.jsonl"
    last = max(place.rows())
    path.write_bytes(path.read_bytes()[:-40])
    done = place.go_ent("status", last)
    assert (done.returncode, b"Traceback" in done.stderr) in ((0, False), (12, False)), done.stderr
    assert b"damaged" in done.stdout + done.stderr or b"does not tell" in done.stderr
    works(place)


def test_a_state_is_made_again_from_its_journal(place: Place, cut: Cut) -> None:
    folder = place.execution()
    before = json.loads(place.go_ent("status", folder.name, "--json").stdout)
    cut(folder / "state.json")
    after = json.loads(place.go_ent("status", folder.name, "--json").stdout)
    assert (after["status"], after["result"]) == ("completed", before["result"])
    assert [one["label"] for one in after["checkpoints"]] == ["here"]
    assert place.rows()[folder.name] == "completed"
    works(place)


def test_a_journal_says_what_it_has_lost_and_the_state_keeps_what_was_acknowledged(place: Place, cut: Cut) -> None:
    folder = place.execution()
    cut(folder / "journal.jsonl")
    shown = place.go_ent("status", folder.name)
    assert shown.returncode == 0
    assert b"completed" in shown.stdout
    assert b"damaged" in shown.stdout
    assert place.go_ent("logs", folder.name).returncode == 0
    assert place.rows()[folder.name] == "completed"
    works(place)


def test_both_say_so_and_hide_no_other(place: Place) -> None:
    folder = place.execution()
    for name in ("state.json", "journal.jsonl"):
        (folder / name).write_bytes(b"")
    shown = place.go_ent("status", folder.name)
    assert shown.returncode != 0
    assert folder.name.encode() in shown.stderr
    assert b"Traceback" not in shown.stderr
    assert len(place.rows()) >= 1
    works(place)


@pytest.mark.parametrize("also", [(), ("index.db-wal", "index.db-shm")])
def test_the_index_is_made_again(place: Place, cut: Cut, also: tuple[str, ...]) -> None:
    before = place.rows()
    cut(place.state / "executions" / "index.db")
    for name in also:
        (place.state / "executions" / name).write_bytes(b"half of something")
    assert place.rows() == before
    works(place)
    assert before.items() <= place.rows().items()


def test_uses_cost_no_run_and_say_what_to_do(place: Place, cut: Cut) -> None:
    path = place.state / "usage.db"
    damaged = cut(path)
    works(place)
    done = place.go_ent("tool", "list")
    assert done.returncode == 0
    if b"usage.db" in done.stderr:  # where no page of it is lost, nothing is
        assert b"move it away" in done.stderr, done.stderr
        path.unlink()
        works(place)
        assert b"1 call" in place.go_ent("tool", "list").stdout
    else:
        assert len(damaged) > 4096


def test_an_account_that_can_not_be_read_lets_nothing_be_spent(place: Place, cut: Cut) -> None:
    path = place.state / "budget.db"
    left = cut(path)
    done = place.go_ent("budget", "--json")
    if done.returncode:
        assert (done.returncode, b"budget.db" in done.stderr) == (12, True), done.stderr
    else:  # no page of it is lost, and so nothing is
        assert len(left) > 4096
        assert json.loads(done.stdout)["day"]["reserved_usd"] == 0.5
    assert b"Traceback" not in done.stderr
    assert path.read_bytes() == left, "what was spent is in it alone: it is not made anew"
    works(place)


@pytest.mark.parametrize("name", ["trust.json", "key"])
def test_what_a_user_trusts_is_not_guessed(place: Place, cut: Cut, name: str) -> None:
    path = place.folder / "user" / name
    left = cut(path)
    done = place.go_ent("exec", "-c", "1 + 1")
    assert (done.returncode, name.encode() in done.stderr) == (12, True), done.stderr
    assert b"Traceback" not in done.stderr
    assert path.read_bytes() == left, "it is not written over"
    path.unlink()
    works(place)


def test_learned_schemas_are_learned_again(place: Place, cut: Cut) -> None:
    path = place.state / "learned.json"
    cut(path)
    works(place)
    LearnedSchemas(path).save("up.read", {"type": "object"})
    assert LearnedSchemas(path).load() == {"up.read": {"type": "object"}}


def test_a_lock_that_says_half_a_name_holds_nothing(place: Place) -> None:
    folder = place.execution()
    (folder / "lock").write_bytes(b"123")
    assert place.rows()[folder.name] == "completed"
    works(place)


def test_what_was_being_written_when_a_writer_died_is_in_nobodys_way(place: Place) -> None:
    for folder in (
        place.state / "composed-tools",
        place.state / "composed-tools" / ".history" / "twice",
        place.execution(),
    ):
        (folder / ".tmp-abc").write_bytes(b"half")
    works(place)
    (place.project / "twice.py").write_text(tool("(x + x)"))
    assert place.go_ent("tool", "add", "twice.py").returncode == 0
    assert not list((place.state / "composed-tools").rglob(".tmp-*"))


def test_every_file_of_a_project_is_among_these(template: Place) -> None:
    """A new kind of file gets its test."""
    known = {
        "config.toml",
        "twice.py",
        "state.json",
        "journal.jsonl",
        "000001.jsonl",
        "index.db",
        "usage.db",
        "budget.db",
        "learned.json",
        "lock",
    }
    harmless = {".gitignore", ".lock", ".pruned"}  # empty, or as good as that
    beside = re.compile(r"\d{6}-.*|\..*\.lock|.*-(wal|shm)")  # versions, locks, and what a database has beside it
    found = {path.name for path in template.state.rglob("*") if path.is_file() and not beside.fullmatch(path.name)}
    assert found - harmless - known == set()

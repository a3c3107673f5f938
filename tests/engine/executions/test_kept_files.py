"""Files that runs, steps of plans and lines of `--each` leave: kept with their execution, and fetched later."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fastmcp import Client

from go_ent.composer import Composer
from go_ent.composer.composed import toolfile
from go_ent.composer.composed.store import Store
from go_ent.engine import Engine
from go_ent.engine.executions import kept_files
from go_ent.engine.executions.kept_files import FileKeeper
from go_ent.engine.executions.store import ExecutionStore
from go_ent.engine.server import make_server
from go_ent.engine.storage.memory import MemoryStorage
from go_ent.sandbox import Sandbox
from tests.composer.conftest import tool
from tests.engine.executions.test_executions import fresh
from tests.support.shell import go_ent

PNG = b"\x89PNG\r\n\x1a\n"
DRAW = f"""async def draw(n: int) -> bytes:
    \"\"\"A picture, and a note; odd ones wait for approval.\"\"\"
    open("note.txt", "w").write(f"n={{n}}")
    if n % 2:
        await tools.drop(n=n)
    return {PNG!r} + bytes([n])
"""
DROP = 'def drop(n: int) -> int:\n    """Drop."""\n    return -n\n'
PLAN = """
[[task]]
id = "picture"
tool = "draw"
inputs = { n = 8 }
[[task]]
id = "chart"
code = "open('c.svg', 'w').write('<svg></svg>')"
"""


@pytest.fixture
def project(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    store = Store(project / ".go-ent" / "composed-tools", "project")
    for name, code in (("draw", DRAW), ("drop", DROP)):
        store.save(toolfile.read(tool(name, code)))
    (project / ".go-ent" / "config.toml").write_text('[grants]\napprove = ["drop"]\n')
    (project / "plan.toml").write_text(PLAN)
    monkeypatch.chdir(project)
    return project


def listed(*words: str) -> list[str]:
    return [row["name"] for row in json.loads(go_ent("output", "last", *words, "--files", "--json").stdout)]


def test_lines_keep_their_files(project: Path) -> None:
    done = go_ent("tool", "run", "draw", "--each", stdin=b"2\n4\n10\n1\n")
    assert done.returncode == 10  # one waits
    assert b"6 files are kept: go-ent output " in done.stderr
    names = [f"{line}/{name}" for line in (1, 2, 3) for name in ("note.txt", "result.png")]
    assert listed() == names
    assert listed("2") == ["2/note.txt", "2/result.png"]
    assert go_ent("output", "last", "--file", "3/note.txt").stdout == b"n=10"
    assert go_ent("output", "last", "2", "--file", "result.png").stdout == PNG + b"\x04"
    go_ent("approve", "last")
    assert go_ent("resume", "last", stdin=b"2\n4\n10\n1\n").returncode == 0
    assert listed() == [*names, "4/note.txt", "4/result.png"]
    table = go_ent("output", "last", "4", "--files").stdout.decode().splitlines()
    assert [line.split() for line in table][1:] == [
        ["4/note.txt", "text/plain", "3"],
        ["4/result.png", "image/png", "9"],
    ]


def test_steps_of_a_plan_keep_their_files(project: Path) -> None:
    done = go_ent("run", "--plan", "plan.toml")
    assert b"3 files are kept: go-ent output " in done.stderr
    assert sorted(listed()) == ["chart/c.svg", "picture/note.txt", "picture/result.png"]
    saved = go_ent("output", "last", "--out", "all")
    assert saved.stderr.count(b"saved: all/") == 3
    assert (project / "all" / "picture" / "result.png").read_bytes() == PNG + b"\x08"
    go_ent("output", "last", "--file", "chart/c.svg", "--out", "one")
    assert [path.name for path in (project / "one").rglob("*.*")] == ["c.svg"]
    again = go_ent("output", "last", "--out", "all")
    assert (again.returncode, b"is there already" in again.stderr) == (2, True)
    assert "files     3: go-ent output" in go_ent("status", "last").stdout.decode()


def test_what_is_not_there_is_told(project: Path) -> None:
    go_ent("exec", "-c", "open('chart.svg', 'w').write('<svg></svg>')")
    assert b"did you mean chart.svg?" in go_ent("output", "last", "--file", "chrt.svg").stderr
    assert b"prints one file" in go_ent("output", "last", "--file", "a", "--file", "b").stderr
    assert b"left no files" in go_ent("output", "last", "zzz", "--files").stderr
    go_ent("exec", "-c", "1")
    for words in (["--files"], ["--out", "x"]):
        done = go_ent("output", "last", *words)
        assert (done.returncode, b"left no files" in done.stderr) == (0, True)
    assert b"it left none" in go_ent("output", "last", "--file", "a").stderr


async def test_a_client_is_told_of_a_plans_files(project: Path, box: Sandbox) -> None:
    composer = Composer(project, box=box, trusted=True)
    task = {"id": "picture", "tool": "draw", "inputs": {"n": 2}}
    async with (
        composer,
        Engine(project, composer=composer, trusted=True) as engine,
        Client(make_server(composer, engine)) as client,
    ):
        done = await client.call_tool("engine_execute", {"plan": {"task": [task]}})
        links = [str(block.uri) for block in done.content if block.type == "resource_link"]
        assert done.structured_content is not None
        base = f"go-ent://executions/{done.structured_content['execution_id']}/files"
        assert links == [f"{base}/picture/note.txt", f"{base}/picture/result.png"]
        (rows,) = await client.read_resource(base)
        assert [row["uri"] for row in json.loads(getattr(rows, "text", ""))] == links
        (note,) = await client.read_resource(links[0])
        assert getattr(note, "text", "") == "n=2"
        status = await client.call_tool("engine_status", {"execution_id": base.split("/")[3]})
        assert [str(block.uri) for block in status.content if block.type == "resource_link"] == links


def test_an_execution_keeps_so_much_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, most in (("MOST_FILES", 3), ("MOST_IN_ALL", 5), ("MOST_BYTES", 100)):
        monkeypatch.setattr(kept_files, name, most)
    store = ExecutionStore(MemoryStorage())
    with store.create(fresh()) as held:
        keeper = FileKeeper(held)
        assert keeper.keep({"a": b"1", "b": b"2", "c": b"3", "d": b"4"}, "1") == kept_files.TOO_MUCH
        assert keeper.keep({"a": b"1", "b": b"2"}, "2") is None
        assert keeper.keep({"a": b"1"}, "3") == kept_files.TOO_MUCH  # there are five
        assert FileKeeper(held).keep({"a": b"1"}, "3") == kept_files.TOO_MUCH  # in another process, too
        assert keeper.keep({"a": b"x" * 98}, "1") is None  # a step that runs again makes room
        assert keeper.keep({"a": b"yy"}, "3") == kept_files.TOO_MUCH  # 100 bytes there are
        assert keeper.keep({}, "1") is None
        assert [file.path for file in kept_files.kept_files(store, held.id)] == ["2/a", "2/b"]


def test_what_is_undone_keeps_nothing() -> None:
    store = ExecutionStore(MemoryStorage())
    with store.create(fresh()) as held:
        held.checkpoint("early")
        FileKeeper(held).keep({"a": b"1"}, "one")
        assert [file.path for file in kept_files.kept_files(store, held.id)] == ["one/a"]
        held.move("interrupted")
        held.go_back(held.undoing("early"))
        held.move("running")
        assert kept_files.kept_files(store, held.id) == []

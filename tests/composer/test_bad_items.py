"""One bad item is one bad item: among good ones of its kind it is told by name, with why, and the good ones work."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from go_ent.composer import StoreError, ToolNotFound
from go_ent.composer.catalogue.catalogue import show
from go_ent.composer.catalogue.spec import ANYTHING, ToolSpec
from go_ent.composer.codemode.past_runs import RunEnded
from go_ent.composer.composed import toolfile
from go_ent.composer.composed.importing import read_import
from go_ent.composer.composed.store import Store
from go_ent.composer.project.items import apart
from go_ent.sandbox import Sandbox
from tests.composer.conftest import DOUBLE, Open, tool

LONG = f'def bad() -> int:\n    """{"x" * 20_001}"""\n    return 1\n'


def text(path: Path, content: str) -> None:
    path.write_bytes(tool("bad", content).encode("utf-8", "surrogatepass"))


Plant = Callable[[Path], object]
BROKEN: dict[str, tuple[Plant, str]] = {
    "a long docstring": (
        lambda path: text(path, LONG),
        "its docstring is 20001 characters long; at most 20000 are accepted",
    ),
    "no UTF-8": (lambda path: path.write_bytes(b"# \xff\n"), "its file is not UTF-8"),
    "a folder": (lambda path: path.mkdir(), "its file can't be read"),
    "a pipe": (lambda path: os.mkfifo(path), "its file can't be read"),
    "a link": (lambda path: path.symlink_to("/etc/passwd"), "its file can't be read"),
    "too large": (lambda path: path.write_bytes(b"#" * (600 << 10)), "at most 524288 are accepted"),
    "no metadata": (lambda path: path.write_text("def bad() -> int: return 1\n"), "it has no metadata"),
    "deep TOML": (
        lambda path: path.write_text(f'# /// tool\n# name = "bad"\n# x = {"[" * 5000}\n# ///\n'),
        "not valid TOML",
    ),
    "a huge number": (
        lambda path: path.write_text(f'# /// tool\n# name = "bad"\n# version = {"9" * 5000}\n# ///\n'),
        "not valid TOML",
    ),
    "no Python": (lambda path: text(path, "def bad(:\n"), "SyntaxError"),
    "another's name": (lambda path: path.write_text(DOUBLE), "its file says that its name is 'double'"),
    "an import that raises": (lambda path: text(path, "raise SystemExit\ndef bad() -> int: return 1\n"), ""),
    "a schema without end": (
        lambda path: text(
            path, "from typing import Literal\ndef bad(x: Literal[tuple(range(9**5))]) -> int: return 1\n"
        ),
        "",
    ),
}


@pytest.mark.parametrize("kind", BROKEN)
async def test_a_broken_tool_costs_no_other(project: Path, open_composer: Open, kind: str) -> None:
    plant, why = BROKEN[kind]
    folder = project / ".go-ent" / "composed-tools"
    folder.mkdir(parents=True)
    (folder / "double.py").write_text(DOUBLE)
    plant(folder / "bad.py")

    async with open_composer() as composer:
        assert await composer.call("double", n=21) == 42
        assert [spec.name for spec in await composer.catalogue.tools(composer.grants)] == ["double"]
        listed = {one.name: getattr(one, "reason", None) for one, _ in await composer.tools()}
        assert listed.keys() == {"bad", "double"}
        assert listed["double"] is None
        assert why in str(listed["bad"])
        with pytest.raises(ToolNotFound, match="bad is broken and can't be called"):
            await composer.call("bad")


@pytest.mark.parametrize(
    "name", ["engine", "results", "tools", "checkpoint", "composer", "sandbox", "summarize", "tool_x", "engine_x"]
)
async def test_a_reserved_name_is_refused_at_import_and_at_load(project: Path, open_composer: Open, name: str) -> None:
    source = DOUBLE.replace("double", name)
    folder = project / ".go-ent" / "composed-tools"
    folder.mkdir(parents=True)
    (folder / f"{name}.py").write_text(source)
    (folder / "double.py").write_text(DOUBLE)

    async with open_composer() as composer:
        assert await composer.call("double", n=1) == 2
        assert "reserved for go-ent itself" in composer.composed.broken[name].reason
        document = json.dumps({"format": "go-ent-tools/1", "tools": [{"name": name, "source": source}]}).encode()
        (imported,) = await read_import(document, "x.json", composer.box)
        with pytest.raises(ValueError, match="reserved for go-ent itself"):
            await composer.compose(imported.source)
        assert await composer.remove(name) == "project", "what can't be called can still be removed"


async def test_a_tool_with_the_name_of_a_server_is_broken_at_load(project: Path, open_composer: Open) -> None:
    (project / ".go-ent" / "config.toml").write_text('[servers.double]\ncommand = "no-such-program"\n')
    folder = project / ".go-ent" / "composed-tools"
    folder.mkdir(parents=True)
    (folder / "double.py").write_text(DOUBLE)
    (folder / "triple.py").write_text(DOUBLE.replace("double", "triple"))

    async with open_composer() as composer:
        assert await composer.call("triple", n=1) == 2
        assert composer.composed.broken["double"].reason.startswith("double is the namespace of ")


@pytest.mark.parametrize("name", ["engine", "results"])
def test_a_server_can_not_have_a_namespace_of_our_own(project: Path, open_composer: Open, name: str) -> None:
    (project / ".go-ent" / "config.toml").write_text(f'[servers.{name}]\ncommand = "x"\n')
    with pytest.raises(ValueError, match=f"servers.{name}: {name} is a namespace of go-ent itself"):
        open_composer()


async def test_a_store_that_is_a_link_hides_no_other_store(project: Path, tmp_path: Path, open_composer: Open) -> None:
    mine = tmp_path / "user" / "composed-tools"
    mine.mkdir(parents=True)
    (mine / "double.py").write_text(DOUBLE)
    (project / ".go-ent" / "composed-tools").symlink_to(tmp_path)

    async with open_composer() as composer:
        assert await composer.call("double", n=2) == 4
        assert list(composer.composed.problems) == [str(project / ".go-ent" / "composed-tools")]
        await composer.catalogue.load()
        assert "is a link" in composer.catalogue.problems["composed tools"]


class TestVersions:
    @pytest.fixture
    def store(self, tmp_path: Path) -> Store:
        store = Store(tmp_path / "composed-tools", "project")
        store.save(toolfile.read(DOUBLE))
        return store

    def version(self, number: int, source: str = DOUBLE) -> tuple[str, str]:
        """A file that is whole in itself: its content is what its name says."""
        file = toolfile.read(source.replace("# ///\n", f"# version = {number}\n# ///\n", 1))
        return f"{number:06d}-{file.digest[:16]}.py", file.source

    @pytest.mark.parametrize(
        ("name", "content", "why"),
        [
            ("999999999-0123456789abcdef.py", "x", "its number does not follow on version"),
            ("999999-0123456789abcdef.py", "x", "its number does not follow on version"),
            ("000002-0123456789abcdef.py", "x", "version 2 of double is damaged"),
            ("000002-0123456789abcdef.py", DOUBLE, "version 2 of double is damaged"),
            ("٠٠٠٠٠٢-0123456789abcdef.py", DOUBLE, "it is not named as the store names a version"),
            ("-00002-0123456789abcdef.py", DOUBLE, "it is not named as the store names a version"),
            ("0000002-0123456789abcdef.py", DOUBLE, "it is not named as the store names a version"),
            ("000000-0123456789abcdef.py", DOUBLE, "it is not named as the store names a version"),
            ("2.py", DOUBLE, "it is not named as the store names a version"),
            ("9" * 200 + ".py", DOUBLE, "it is not named as the store names a version"),
        ],
    )
    def test_a_planted_version_is_told_and_hides_no_later_one(
        self, store: Store, name: str, content: str, why: str
    ) -> None:
        (store.folder / ".history" / "double" / name).write_text(content)
        changed = toolfile.read(DOUBLE.replace("2 * n", "n * 2"))
        saved, created = store.save(changed)
        assert created
        history = store.history("double")
        assert history.versions[-1].number == saved.number
        assert store.version("double", saved.number).digest == changed.digest
        assert store.rollback("double", 1).number == saved.number + 1
        assert store.version("double", 1).digest == toolfile.read(DOUBLE).digest
        (told,) = store.ignored()
        assert name in told
        assert why in told

    def test_a_planted_version_that_is_whole_in_itself_hides_no_later_one_either(self, store: Store) -> None:
        name, content = self.version(999_999_999)
        (store.folder / ".history" / "double" / name).write_text(content)
        assert store.save(toolfile.read(DOUBLE.replace("2 * n", "n * 2")))[0].number == 2
        assert [version.number for version in store.versions("double")] == [1, 2]
        assert store.ignored() == [
            f"{store.folder}/.history/double/{name}: its number does not follow on version 2; it is ignored"
        ]

    def test_versions_that_somebody_removed_leave_the_others(self, store: Store) -> None:
        for number in (3, 4, 5):
            store.save(toolfile.read(DOUBLE.replace("2 * n", f"{number} * n")))
        for path in (store.folder / ".history" / "double").glob("00000[12]-*"):
            path.unlink()
        assert [version.number for version in store.versions("double")] == [3, 4]
        assert store.save(toolfile.read(DOUBLE))[0].number == 5
        assert store.ignored() == []

    def test_two_of_one_number_are_both_told(self, store: Store) -> None:
        name, content = self.version(1, DOUBLE.replace("2 * n", "666"))
        (store.folder / ".history" / "double" / name).write_text(content)
        with pytest.raises(StoreError, match=r"double has 2 versions 1, .*: remove all but one"):
            store.version("double", 1)
        assert store.save(toolfile.read(DOUBLE.replace("2 * n", "n * 2")))[0].number == 2

    def test_the_last_number_there_can_be(self, store: Store) -> None:
        history = store.folder / ".history" / "double"
        for number in range(1000, 3000, 999):
            (history / self.version(number)[0]).write_text(self.version(number)[1])
        assert store.save(toolfile.read(DOUBLE.replace("2 * n", "n * 2")))[0].number == 2999


@pytest.mark.parametrize(
    "char", ["\r", "\f", "\v", "\x00", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029", "\u202e", "\u2066", "\u200f"]
)
@pytest.mark.parametrize("place", ["# a comment{}import os\n", 'TEXT = "{}"\n'])
def test_what_could_hide_code_is_refused_with_its_line(char: str, place: str) -> None:
    source = tool("double", place.format(char) + "def double(n: int) -> int:\n    return 2 * n\n")
    with pytest.raises(ValueError, match=rf"line 4 has the character U\+{ord(char):04X}"):
        toolfile.read(source)
    with pytest.raises(ValueError, match="line 4 has the character"):
        toolfile.read(source.encode())


def test_half_a_character_is_refused() -> None:
    with pytest.raises(ValueError, match=r"line 4 has the character U\+D800 \(half a character\)"):
        toolfile.read(tool("double", 'TEXT = "\ud800"\n'))


def test_line_ends_of_windows_are_as_before() -> None:
    assert toolfile.read(DOUBLE.replace("\n", "\r\n")).source == toolfile.read(DOUBLE).source


async def test_uses_of_one_tool_that_are_none_cost_no_other(project: Path, open_composer: Open) -> None:
    async with open_composer() as composer:
        await composer.compose(DOUBLE)
        await composer.call("double", n=1)
        composer.usage["project"].flush()
        with contextlib.closing(sqlite3.connect(project / ".go-ent" / "usage.db")) as database, database:
            database.execute("INSERT INTO usage VALUES ('bad', 'many', 0, 0)")
            database.execute("INSERT INTO usage VALUES (x'ff', 1, 0, 0)")
            database.execute("INSERT INTO recent (name, ms) VALUES ('worse', 'long')")
            database.execute("INSERT INTO usage VALUES ('worse', 1, 0, 0)")
        (row,) = await composer.tools()
        assert row[1].calls == 1
        assert composer.usage["project"].all().keys() == {"double"}


def test_a_learned_schema_that_is_none_costs_no_other(project: Path, open_composer: Open) -> None:
    learned = {"a.good": {"type": "integer"}, "a.bad": {"type": 5}, "a.worse": []}
    (project / ".go-ent" / "learned.json").write_text(json.dumps(learned))
    assert open_composer().catalogue.learned.keys() == {"a.good"}


def test_a_tool_that_can_not_be_shown_costs_no_other() -> None:
    specs = [
        ToolSpec("a.good", "Good.", ANYTHING),
        ToolSpec("a.bad", "Bad.", {"type": "object", "properties": {"n": {"default": 10**5000}}}),
    ]
    for detail in ("brief", "stubs", "full"):
        assert "Good." in show(specs, detail)
    assert "Its schemas can't be shown" in show(specs, "full")


async def test_an_entry_of_an_import_that_is_none_costs_no_other(shared_box: Sandbox) -> None:
    entries: list[Any] = [
        {"name": "one", "code": "1"},
        5,
        None,
        {"name": "two"},
        {"name": "three", "code": "3", "usage_count": -1},
    ]
    document = json.dumps([*entries, {"name": "last", "code": "2", "last_used": 1e300}]).encode()
    found = await read_import(document, "x.json", shared_box)
    assert [one.name for one in found if one.problem is None] == ["one", "last"]
    assert len([one for one in found if one.problem]) == 4


async def test_a_server_of_another_programs_file_that_can_not_be_used_costs_no_other(
    project: Path, open_composer: Open
) -> None:
    servers = {
        "good": {"command": "x"},
        "old": {"type": "sse", "url": "http://x"},
        "odd": 5,
        "engine": {"command": "x"},
        "9": {"command": "x"},
    }
    (project / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    (project / ".go-ent" / "config.toml").write_text('mcp_json = ["mcp.json"]\n')

    async with open_composer(trusted=True) as composer:
        await composer.compose(DOUBLE)
        assert await composer.call("double", n=1) == 2
        assert list(composer.config.servers) == ["good"]
        await composer.catalogue.load(patience_s=1)
        problems = composer.catalogue.problems
        assert "'sse' is not one that can be used" in problems["old of project"]
        assert "it should be an object" in problems["odd of project"]
        assert "9" in problems, "it has no namespace that it could stand under"


async def test_a_listener_that_raises_costs_no_run(open_composer: Open) -> None:
    async with open_composer() as composer:
        await composer.compose(DOUBLE)
        heard: list[str] = []

        def fails(run: RunEnded) -> None:
            raise ZeroDivisionError

        composer.listeners += [fails, lambda run: heard.append(f"{run.kind} {run.status}")]
        assert await composer.call("double", n=1) == 2
        await composer.code.execute("1 / 0")
        assert heard == ["tool completed", "code error"]


def test_whatever_one_raises_the_others_go_on() -> None:
    problems: dict[str, str] = {}
    errors = [
        ValueError("no"),
        RecursionError(),
        MemoryError(),
        KeyError("k"),
        OSError(2, "No such file"),
        StoreError("ours"),
        AssertionError(),
    ]
    done: list[int] = []
    for number, error in enumerate(errors):
        with apart(str(number), problems):
            raise error
        with apart(f"good {number}", problems):
            done.append(number)
    assert done == list(range(len(errors)))
    assert problems["0"] == "ValueError: no"
    assert problems["1"] == "RecursionError"
    assert problems["4"] == "No such file"
    assert problems["5"] == "ours"
    with pytest.raises(asyncio.CancelledError), apart("x", problems):
        raise asyncio.CancelledError

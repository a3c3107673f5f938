"""The store of composed tools: versions, edits, crashes, several processes."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from go_ent.composer import Composer, ComposerError, StoreError, ToolNotFound
from go_ent.composer.composed import toolfile
from go_ent.composer.composed.interface import Interface
from go_ent.composer.composed.store import Store
from go_ent.composer.composed.usage import UsageStore
from go_ent.sandbox import Sandbox
from tests.composer.conftest import DOUBLE, Open, tool
from tests.support import ROOT
from tests.support.forked import Forked

TRIPLE = DOUBLE.replace("2 * n", "3 * n").replace('"result": 4', '"result": 6')


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "composed-tools", "project")


def numbered(name: str, number: int) -> toolfile.ToolFile:
    return toolfile.read(tool(name, f"x = {number}\n"))


def folder_of(composer: Composer) -> Path:
    return Path(composer.stores[0].where)


class TestVersions:
    def test_save_again_change_and_bring_back(self, store: Store) -> None:
        assert store.save(toolfile.read(DOUBLE))[1]
        version, created = store.save(toolfile.read(DOUBLE))
        assert (version.number, created) == (1, False)
        assert store.save(toolfile.read(TRIPLE))[0].number == 2
        assert store.rollback("double", 1).number == 3
        now = store.read("double")
        assert now is not None
        assert "2 * n" in now.source
        assert now.metadata.version == 3
        assert [version.number for version in store.versions("double")] == [1, 2, 3]
        assert "3 * n" in store.version("double", 2).source

    def test_a_removed_tool_can_be_brought_back(self, store: Store) -> None:
        store.save(toolfile.read(DOUBLE))
        store.remove("double")
        assert store.scan() == {}
        assert store.read("double") is None
        with pytest.raises(StoreError, match="there is no composed tool double"):
            store.remove("double")
        assert store.rollback("double", 1).number == 2
        assert list(store.scan()) == ["double"]

    def test_a_version_that_is_not_there(self, store: Store) -> None:
        store.save(toolfile.read(DOUBLE))
        with pytest.raises(StoreError, match="double has no version 7; it has 1"):
            store.rollback("double", 7)

    def test_looking_makes_nothing(self, store: Store) -> None:
        assert (store.scan(), store.versions("a"), store.read("a"), store.strangers()) == ({}, [], None, [])
        assert not store.folder.exists()

    @pytest.mark.parametrize("link", ["composed-tools", ""])
    def test_a_project_whose_folder_is_a_link_is_neither_written_nor_read(self, tmp_path: Path, link: str) -> None:
        elsewhere = Store(tmp_path / "elsewhere" / "composed-tools", "project")
        elsewhere.save(toolfile.read(DOUBLE))
        before = sorted(elsewhere.folder.rglob("*"))
        state = tmp_path / ".go-ent"
        if link:
            state.mkdir()
        (state / link).symlink_to(elsewhere.folder.parent / link)
        store = Store(state / "composed-tools", "project")
        for act in (
            store.scan,
            lambda: store.find("double"),
            lambda: store.read("double"),
            lambda: store.versions("double"),
            lambda: store.save(toolfile.read(TRIPLE)),
            lambda: store.remove("double"),
            lambda: store.rollback("double", 1),
        ):
            with pytest.raises(
                StoreError, match=r"composed-tools is a link, or in one: a project has its composed tools in a folder"
            ):
                act()
        assert store.strangers() == []
        assert sorted(elsewhere.folder.rglob("*")) == before

    def test_the_users_own_folder_may_be_a_link(self, tmp_path: Path) -> None:
        (tmp_path / "kept").mkdir()
        (tmp_path / "composed-tools").symlink_to(tmp_path / "kept")
        store = Store(tmp_path / "composed-tools", "global")
        store.save(toolfile.read(DOUBLE))
        assert list(store.scan()) == ["double"]

    def test_only_tools_files_are_tools(self, store: Store) -> None:
        store.save(toolfile.read(DOUBLE))
        for name in ("README.md", "Bad.py", "a-b.py", ".hidden.py", "x.pyc"):
            (store.folder / name).write_text("x")
        assert list(store.scan()) == ["double"]
        assert store.strangers() == ["Bad.py", "a-b.py"]

    def test_what_a_killed_writer_left_is_swept(self, store: Store) -> None:
        store.save(toolfile.read(DOUBLE))
        left = [store.folder / ".tmp-abc", store.folder / ".history" / "double" / ".tmp-def"]
        for path in left:
            path.write_text("half a to")
        store.save(toolfile.read(TRIPLE))
        assert not any(path.exists() for path in left)


class TestEdits:
    async def test_a_valid_edit_is_a_version(self, open_composer: Open) -> None:
        async with open_composer() as composer:
            await composer.compose(DOUBLE)
            path = folder_of(composer) / "double.py"
            path.write_text(TRIPLE)
            assert await composer.call("double", n=2) == 6
            assert [version.number for version in await composer.history("double")] == [1, 2]
            assert "# version = 2\n" in path.read_text()
            assert (await composer.composed.get("double")).version == 2

    async def test_what_another_saves_while_a_file_is_looked_at_is_seen(
        self, open_composer: Open, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async with open_composer() as composer:
            store, look = composer.stores[0], composer.inspector.interface
            store.save(toolfile.read(DOUBLE))

            async def meanwhile(file: toolfile.ToolFile) -> Interface:
                found = await look(file)
                store.save(toolfile.read(TRIPLE))
                return found

            monkeypatch.setattr(composer.inspector, "interface", meanwhile)
            await composer.composed.load()
            monkeypatch.undo()
            assert await composer.call("double", n=2) == 6

    async def test_a_file_put_there_by_hand_is_a_tool(self, open_composer: Open) -> None:
        async with open_composer() as composer:
            folder = folder_of(composer)
            folder.mkdir()
            (folder / "double.py").write_text(DOUBLE)
            assert await composer.call("double", n=4) == 8
            assert [version.number for version in await composer.history("double")] == [1]

    async def test_a_broken_edit_hides_nothing(self, open_composer: Open) -> None:
        async with open_composer() as composer:
            await composer.compose(DOUBLE)
            await composer.compose(DOUBLE.replace("double", "other"))
            path = folder_of(composer) / "double.py"
            path.write_text(DOUBLE.replace("2 * n", "2 *"))
            assert await composer.call("other", n=1) == 2
            with pytest.raises(
                ToolNotFound, match=r"double is broken and can't be called: line 9: SyntaxError.*version 1"
            ):
                await composer.call("double", n=1)
            assert {tool.name: hasattr(tool, "reason") for tool, _ in await composer.tools()} == {
                "double": True,
                "other": False,
            }
            await composer.rollback("double", 1)
            assert await composer.call("double", n=1) == 2

    @pytest.mark.parametrize(
        "content", [b"\xff\xfe", b"", b"\0" * 100, DOUBLE.replace('"double"', '"other"').encode(), b"x" * 600_000]
    )
    async def test_whatever_is_in_a_file(self, open_composer: Open, content: bytes) -> None:
        async with open_composer() as composer:
            await composer.compose(DOUBLE.replace("double", "fine"))
            (folder_of(composer) / "double.py").write_bytes(content)
            assert await composer.call("fine", n=1) == 2
            assert list(composer.composed.broken) == ["double"]

    async def test_links_and_folders_are_not_tools(self, open_composer: Open, tmp_path: Path) -> None:
        async with open_composer() as composer:
            folder = folder_of(composer)
            folder.mkdir()
            (tmp_path / "secret.py").write_text(DOUBLE.replace("double", "linked"))
            (folder / "linked.py").symlink_to(tmp_path / "secret.py")
            (folder / "folder.py").mkdir()
            os.mkfifo(folder / "pipe.py")
            await composer.composed.load()
            assert sorted(composer.composed.broken) == ["folder", "linked", "pipe"]
            assert composer.composed.found == {}

    async def test_a_project_tool_shadows_a_global_one(self, open_composer: Open) -> None:
        async with open_composer() as composer:
            await composer.compose(DOUBLE, scope="global")
            assert await composer.call("double", n=2) == 4
            await composer.compose(TRIPLE)
            assert await composer.call("double", n=2) == 6
            assert [(tool.name, tool.scope) for tool in composer.composed.shadowed] == [("double", "global")]
            assert await composer.remove("double") == "project"
            assert await composer.call("double", n=2) == 4


WRITER = """
import os, signal, sys
from pathlib import Path
from go_ent.composer.composed import toolfile
from go_ent.composer.composed.interface import Interface
from go_ent.composer.composed.store import Store
store = Store(Path(sys.argv[1]), "project")
name, first, count, fatal = sys.argv[2], *map(int, sys.argv[3:6])
steps = 0
def deadly(real):
    def step(*args, **kwargs):
        global steps
        steps += 1
        if steps == fatal:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*args, **kwargs)
    return step
for call in ("fsync", "replace", "chmod", "write"):
    setattr(os, call, deadly(getattr(os, call)))
for number in range(first, first + count):
    source = '# /// tool\\n# name = "%s"\\n# ///\\nx = %d\\n' % (name, number)
    version, _ = store.save(toolfile.read(source))
    print(version.number, number, flush=True)
"""


def writer(folder: Path, name: str, first: int, count: int, fatal: int = 0) -> Forked:
    """A process that saves versions; killed at the *fatal*-th step of its writes, if that is not 0."""
    arguments = [str(folder), name, str(first), str(count), str(fatal)]
    return Forked(*arguments, code=WRITER, stdout=subprocess.PIPE, text=True, cwd=ROOT)


def acknowledged(store: Store, name: str, lines: list[str]) -> None:
    """Every version that was acknowledged is there, with the content it was acknowledged for."""
    versions = {version.number for version in store.versions(name)}
    for line in lines:
        number, content = (int(part) for part in line.split())
        assert number in versions
        assert f"\nx = {content}\n" in store.version(name, number).source
    current = store.read(name)
    assert current is None or current.metadata.version in versions


class TestProcesses:
    def test_several_composing_at_once_lose_nothing(self, store: Store) -> None:
        writers = [
            writer(store.folder, name, first, 15) for name, first in (("a", 0), ("a", 100), ("a", 200), ("b", 300))
        ]
        lines = [process.communicate()[0].splitlines() for process in writers]
        acknowledged(store, "a", lines[0] + lines[1] + lines[2])
        acknowledged(store, "b", lines[3])
        assert [version.number for version in store.versions("a")] == list(range(1, 46))

    @pytest.mark.parametrize("fatal", [1, *(pytest.param(step, marks=pytest.mark.more) for step in range(4, 14, 3))])
    def test_killed_between_any_two_steps(self, store: Store, fatal: int) -> None:
        """One writer is killed in its second version or third, another goes on: what either acknowledged is there."""
        doomed, other = writer(store.folder, "a", 0, 10, 10 + fatal), writer(store.folder, "a", 100, 5)
        lines = [process.communicate()[0].splitlines() for process in (doomed, other)]
        assert (doomed.returncode, other.returncode) == (-signal.SIGKILL, 0)
        assert lines[0]
        assert len(lines[1]) == 5
        acknowledged(store, "a", lines[0] + lines[1])
        assert store.save(numbered("a", 9999))[1]


MIXED = """
import os, random, signal, sys
from pathlib import Path
from go_ent.composer import Composer, ComposerError
from go_ent.composer.composed import toolfile
from go_ent.composer.composed.interface import Interface
from go_ent.composer.composed.store import Store
store = Store(Path(sys.argv[1]), "project")
seed, fatal = map(int, sys.argv[2:4])
chance, steps = random.Random(seed), 0
def deadly(real):
    def step(*args, **kwargs):
        global steps
        steps += 1
        if steps == fatal:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*args, **kwargs)
    return step
for call in ("fsync", "replace", "chmod", "unlink"):
    setattr(os, call, deadly(getattr(os, call)))
def source(number):
    return '# /// tool\\n# name = "a"\\n# ///\\nx = %d\\n' % number
for turn in range(12):
    number = 1000 * seed + turn
    try:
        what = chance.choice(["save", "save", "edit", "rollback", "remove"])
        if what == "save":
            made = store.save(toolfile.read(source(number)))[0]
        elif what == "edit":
            store.folder.mkdir(parents=True, exist_ok=True)
            (store.folder / "a.py").write_text(source(number))
            made = store.adopt(toolfile.read(source(number)))
        elif what == "rollback":
            versions = store.versions("a")
            made = store.rollback("a", chance.choice(versions).number) if versions else None
            number = None
        else:
            store.remove("a")
            made = None
        if made is not None and made.number:
            print(made.number, number, flush=True)
    except ComposerError:
        pass
"""


@pytest.mark.parametrize("fatal", [1, *(pytest.param(step, marks=pytest.mark.more) for step in range(9, 40, 8))])
def test_any_mix_of_steps_by_several_processes_one_of_them_killed(store: Store, fatal: int) -> None:
    """Saved, edited, rolled back and removed by three at once, one killed at some step: what was acknowledged is
    there.
    """
    processes = [
        Forked(str(store.folder), str(seed), str(dies), code=MIXED, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        for seed, dies in ((fatal, fatal), (100 + fatal, 0), (200 + fatal, 0))
    ]
    lines = [line for process in processes for line in process.communicate()[0].splitlines()]
    assert [process.returncode for process in processes[1:]] == [0, 0]
    versions = {version.number: version for version in store.versions("a")}
    assert lines
    for line in lines:
        number, content = line.split()
        assert int(number) in versions
        if content != "None":
            assert f"\nx = {content}\n" in store.version("a", int(number)).source
    assert store.save(numbered("a", 99_999))[1]
    for version in store.versions("a"):
        assert store.version("a", version.number).metadata.version == version.number


_STEPS = st.lists(
    st.tuples(
        st.sampled_from(["save", "edit", "break", "rollback", "remove"]), st.sampled_from("ab"), st.integers(0, 3)
    ),
    max_size=12,
)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(_STEPS)
def test_any_order_of_steps(
    shared_box: Sandbox, tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, str, int]]
) -> None:
    """Whatever is done to the store, the history only grows, and what is current is what was done last."""
    from go_ent.composer import Composer

    project = tmp_path_factory.mktemp("project")
    (project / ".go-ent").mkdir()
    os.environ["GO_ENT_DATA"] = str(project / "user")

    async def main() -> None:
        async with Composer(project, box=shared_box) as composer:
            expected: dict[str, int | None] = {}
            known: dict[str, dict[int, int]] = {"a": {}, "b": {}}
            for what, name, number in steps:
                source = tool(name, f'def {name}() -> int:\n    """T."""\n    return {number}\n')
                path = folder_of(composer) / f"{name}.py"
                try:
                    if what == "save":
                        saved = await composer.compose(source)
                        known[name][saved.version] = expected[name] = number
                    elif what in ("edit", "break"):
                        path.parent.mkdir(parents=True, exist_ok=True)
                        path.write_text(source if what == "edit" else source.replace("return", "retur n"))
                        expected[name] = number if what == "edit" else None
                    elif what == "rollback":
                        made = await composer.rollback(name, number)
                        known[name][made.number] = expected[name] = known[name].get(number, expected.get(name) or 0)
                    else:
                        await composer.remove(name)
                        expected.pop(name, None)
                except ComposerError:
                    assert what in ("rollback", "remove")
                await composer.composed.load()
                for tool_ in composer.composed.found.values():
                    known[tool_.name][tool_.version] = await composer.call(tool_.name)
            for name in "ab":
                if expected.get(name) is not None:
                    assert await composer.call(name) == expected[name]
                elif name in expected:
                    assert name in composer.composed.broken
                versions = {version.number for version in composer.stores[0].versions(name)}
                assert versions == set(range(1, len(versions) + 1))
                assert set(known[name]) <= versions

    asyncio.run(main())


COUNTER = """
import sys
from pathlib import Path
from go_ent.composer.composed.usage import UsageStore
usage = UsageStore(Path(sys.argv[1]))
for number in range(100):
    usage.note("t", number % 10 != 0, float(number))
    if number % 7 == 0:
        usage.flush()
usage.flush()
"""


class TestUsage:
    def test_eight_processes_lose_no_update(self, tmp_path: Path) -> None:
        path = tmp_path / "usage.db"
        processes = [Forked(str(path), code=COUNTER, cwd=ROOT) for _ in range(8)]
        assert [process.wait() for process in processes] == [0] * 8
        used = UsageStore(path).all()["t"]
        assert (used.calls, used.failures) == (800, 80)
        assert used.p50_ms is not None
        assert used.last_used is not None

    async def test_running_a_tool_changes_no_reviewed_file(self, open_composer: Open) -> None:
        async with open_composer() as composer:
            await composer.compose(DOUBLE)
            folder = folder_of(composer)
            before = {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}
            await composer.call("double", n=1)
            await composer.run("double", {"n": "x"})
            assert {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()} == before
            ((_, used),) = await composer.tools()
            assert (used.calls, used.failures) == (2, 1)

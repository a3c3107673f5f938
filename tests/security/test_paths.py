"""Paths and names: a project folder that somebody else has filled, and names that mean another file than they seem
to.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from go_ent.composer import ComposeRefused, ComposerError, ConfigError
from go_ent.composer.composed import toolfile
from go_ent.composer.composed.store import Store
from go_ent.composer.composed.toolfile import MAX_BYTES
from go_ent.composer.composed.usage import UsageStore
from go_ent.composer.config import read_config
from go_ent.composer.project.files import find_project, read_bounded, write_whole
from go_ent.composer.project.trust import is_sealed, seal
from go_ent.engine.budget.ledger import LedgerCall, Wanted
from go_ent.engine.budget.sqlite_ledger import FileLedger
from go_ent.engine.context.chain import Chain
from go_ent.engine.core.errors import BadState, BadTask, EngineError, ExecutionNotFound, LedgerError, StorageFailed
from go_ent.engine.core.ids import new_id
from go_ent.engine.executions.past_runs import past_runs
from go_ent.engine.prompts.files import read_files
from go_ent.engine.prompts.skills import all_skills, find_skills
from go_ent.engine.prompts.templating import Templates
from go_ent.engine.storage.attachments import FileAttachments
from go_ent.engine.strategies.plan import read_plan
from go_ent.engine.workflows.loop import Loop
from go_ent.engine.workflows.workflow import Workflows, WorkflowStep
from go_ent.sandbox.images.packages import REQUIREMENT
from tests.security.corpus import attack
from tests.support.executions import FileStore
from tests.support.shell import go_ent

TOOL = '# /// tool\n# name = "{0}"\n# ///\ndef {0}() -> int:\n    """T."""\n    return 1\n'


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A folder outside, which nothing may be written to."""
    folder = tmp_path / "victim"
    folder.mkdir()
    (folder / "precious").write_text("mine")
    return folder


def there(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in sorted(folder.rglob("*")) if path.is_file()}


def tool(name: str = "a", body: str = "") -> toolfile.ToolFile:
    return toolfile.read(TOOL.format(name) + body)


class TestTheStore:
    @pytest.fixture
    def store(self, project: Path) -> Store:
        (project / ".go-ent" / "composed-tools").mkdir()
        return Store(project / ".go-ent" / "composed-tools", "project")

    @attack("paths", "a hard link in place of a tool's file")
    def test_a_hard_link_is_replaced_and_its_other_name_stays(self, store: Store, victim: Path) -> None:
        os.link(victim / "precious", store.folder / "a.py")
        store.save(tool())
        assert there(victim) == {"precious": "mine"}
        assert (store.folder / "a.py").stat().st_nlink == 1

    @attack("paths", "a pipe, a socket, a device or a folder in place of a tool's file")
    @pytest.mark.parametrize("kind", ["pipe", "socket", "folder", "dangling"])
    def test_what_is_no_file_is_no_tool_and_makes_nobody_wait(self, store: Store, kind: str) -> None:
        path = store.folder / "a.py"
        made: dict[str, Callable[[], object]] = {
            "pipe": lambda: os.mkfifo(path),
            "socket": lambda: os.mknod(path, stat.S_IFSOCK | 0o600),
            "folder": path.mkdir,
            "dangling": lambda: path.symlink_to("nowhere"),
        }
        made[kind]()
        with pytest.raises(ComposeRefused, match="a was not saved: its file can't be read"):
            store.read("a")
        assert list(store.scan()) == ["a"]

    @attack("paths", "a file in place of a tool's history")
    def test_a_history_that_is_a_file_breaks_its_tool_alone(self, project: Path, store: Store) -> None:
        (store.folder / ".history").mkdir()
        (store.folder / ".history" / "a").write_text("x")
        for name in ("a", "b"):
            (store.folder / f"{name}.py").write_text(TOOL.format(name))
        rows = {row["name"]: row["broken"] for row in json.loads(go_ent("tool", "list", "--json", cwd=project).stdout)}
        assert rows == {"a": "the store can't be written: File exists", "b": None}

    @attack("paths", "a tool's history that leads to another folder")
    def test_a_linked_history_breaks_its_tool_alone_and_is_not_read(
        self, project: Path, store: Store, victim: Path
    ) -> None:
        (victim / f"000001-{'0' * 16}.py").write_text(TOOL.format("a"))
        (store.folder / ".history").mkdir()
        (store.folder / ".history" / "a").symlink_to(victim)
        for name in ("a", "b"):
            (store.folder / f"{name}.py").write_text(TOOL.format(name))
        before = there(victim)
        rows = {row["name"]: row["broken"] for row in json.loads(go_ent("tool", "list", "--json", cwd=project).stdout)}
        assert rows == {
            "a": f"{store.folder}/.history/a is a link, and the history is kept only where it is",
            "b": None,
        }
        with pytest.raises(ComposerError, match="is a link"):
            store.version("a", 1)
        assert there(victim) == before

    @attack("paths", "names that Python, Windows or a shell keep for themselves")
    @pytest.mark.parametrize(
        "name",
        ["class", "async", "None", "con.", "nul ", "a.", "a ", "-rf", "--help", "~", "$HOME", "a;b", "%2e%2e", "a%00"],
    )
    def test_names_that_mean_something_elsewhere_are_no_names(self, store: Store, name: str) -> None:
        for act in (store.read, store.versions, store.remove, store.find):
            with pytest.raises(ComposerError, match="can't be the name of a composed tool"):
                act(name)
        assert set(os.listdir(store.folder)) <= {".lock"}

    @attack("paths", "two names that a file system or a reader takes for one")
    @pytest.mark.parametrize(
        "name", ["A", "ａ", "а", "ﬁle", "e\u0301", "é", "a\u200b", "\u202eyp.a", "a\u00ad", "İ", "ß"]
    )
    def test_names_are_plain_small_letters_so_that_none_folds_into_another(self, store: Store, name: str) -> None:
        store.save(tool("a"))
        with pytest.raises(ComposerError, match="can't be the name of a composed tool"):
            store.read(name)
        (store.folder / f"{name}.py").write_text(TOOL.format("a"))
        assert list(store.scan()) == ["a"]
        assert store.strangers() == [f"{name}.py"]

    @attack("paths", "a tool's file of terabytes that takes no room")
    def test_a_sparse_file_is_read_no_further_than_a_tool_may_be_long(self, store: Store) -> None:
        with open(store.folder / "a.py", "wb") as file:
            file.truncate(1 << 40)
        with pytest.raises(
            ComposeRefused, match=f"its file is {MAX_BYTES + 1} bytes long; at most {MAX_BYTES} are accepted"
        ):
            store.read("a")

    @attack("paths", "a tool's file swapped for a link after it was looked at")
    def test_a_file_that_becomes_a_link_between_look_and_read_is_not_followed(self, store: Store, victim: Path) -> None:
        (victim / "a.py").write_text(TOOL.format("a"))
        (store.folder / "a.py").write_text(TOOL.format("a"))
        assert "a" in store.scan()
        (store.folder / "a.py").unlink()
        (store.folder / "a.py").symlink_to(victim / "a.py")
        with pytest.raises(ComposeRefused, match="its file can't be read: Too many levels of symbolic links"):
            store.read("a")

    @attack("paths", "a state folder that is a link, under a store")
    def test_a_linked_state_folder_holds_no_tools(self, tmp_path: Path, victim: Path) -> None:
        (tmp_path / "other").mkdir()
        (tmp_path / "other" / ".go-ent").symlink_to(victim)
        done = go_ent("tool", "add", "-", stdin=TOOL.format("a").encode(), cwd=tmp_path / "other")
        assert done.returncode == 12
        assert b"is a link, or in one: a project has its composed tools in a folder of its own" in done.stderr
        assert there(victim) == {"precious": "mine"}


class TestImporting:
    @attack("paths", "a path as the name of an imported tool")
    @pytest.mark.parametrize(
        ("document", "told"),
        [
            (
                {"format": "go-ent-tools/1", "tools": [{"name": "x", "source": TOOL.format("../x")}]},
                b"can't be the name of a composed tool",
            ),
            ({"name": "...", "code": "1"}, b"its name can't be made into one"),
            ({"name": "\u202e", "code": "1"}, b"its name can't be made into one"),
        ],
    )
    def test_an_import_writes_nothing_outside_the_store(
        self, project: Path, document: dict[str, Any], told: bytes
    ) -> None:
        (project / "i.json").write_text(json.dumps(document))
        done = go_ent("tool", "import", "i.json", cwd=project)
        assert done.returncode == 1
        assert told in done.stderr
        assert not list(project.parent.rglob("*.py"))

    @attack("paths", "an imported name that climbs becomes one that does not")
    def test_what_can_be_made_into_a_name_is_saved_under_that(self, project: Path) -> None:
        (project / "i.json").write_text(json.dumps({"name": "../../etc/cron.d/x", "code": "1"}))
        assert go_ent("tool", "import", "i.json", cwd=project).stdout.startswith(b"etc_cron_d_x: version 1")
        assert [path.name for path in project.parent.rglob("*.py") if ".history" not in path.parts] == [
            "etc_cron_d_x.py"
        ]

    @attack("paths", "an export document whose tools are no list")
    @pytest.mark.parametrize("tools", [5, None, "abc", {"a": {"source": "x"}}, [[1]], True])
    def test_a_document_of_another_shape_is_said_to_be_one(self, project: Path, tools: object) -> None:
        (project / "i.json").write_text(json.dumps({"format": "go-ent-tools/1", "tools": tools}))
        done = go_ent("tool", "import", "i.json", cwd=project)
        assert (done.returncode, done.stdout, done.stderr) == (1, b"", b"i.json: a tool: it has no source\n")

    @attack("paths", "an import without an end")
    def test_a_file_without_an_end_is_not_read_whole(self, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("go_ent.composer.composed.importing.MAX_IMPORT", 1 << 16)
        done = go_ent("tool", "import", "/dev/zero", cwd=project)
        assert (done.returncode, done.stderr) == (1, b"/dev/zero: the file is larger than 65536 bytes\n")

    @attack("paths", "an import with times that no clock has")
    @pytest.mark.parametrize("when", ["0001-01-01", "9999-12-31T23:59:59-23:59", 1e308, -1e308, "x"])
    def test_times_from_outside_are_dropped_where_they_are_none(self, project: Path, when: object) -> None:
        (project / "i.json").write_text(json.dumps({"name": "t", "code": "1", "usage_count": 3, "last_used": when}))
        assert go_ent("tool", "import", "i.json", cwd=project).returncode == 0
        (row,) = json.loads(go_ent("tool", "list", "--json", cwd=project).stdout)
        assert (row["name"], row["calls"]) == ("t", 3)

    @attack("paths", "an import that says itself where it is saved")
    @pytest.mark.parametrize("scope", ["global", "user"])
    def test_a_file_does_not_choose_its_store(self, project: Path, scope: str) -> None:
        tool = {"name": "t", "source": TOOL.format("t"), "scope": scope}
        for name, document in (
            ("o", {"name": "o", "code": "1", "scope": scope}),
            ("t", {"format": "go-ent-tools/1", "tools": [tool]}),
        ):
            (project / "i.json").write_text(json.dumps(document))
            assert go_ent("tool", "import", "i.json", cwd=project).stdout.startswith(
                f"{name}: version 1 (project)".encode()
            )
        assert not list((project.parent / "user").rglob("*.py"))

    @attack("paths", "an import that replaces, or hides, a tool of the same name")
    @pytest.mark.parametrize("whose", [(), ("--global",)], ids=["project", "user"])
    def test_an_import_replaces_nothing_unasked(self, project: Path, whose: tuple[str, ...]) -> None:
        assert go_ent("tool", "add", "-", *whose, stdin=TOOL.format("t").encode(), cwd=project).returncode == 0
        (project / "i.json").write_text(json.dumps({"name": "t", "code": "'another'"}))
        before = there(project.parent)
        done = go_ent("tool", "import", "i.json", cwd=project)
        assert done.returncode == 1
        assert b"t was not saved" in done.stderr
        assert b"has another tool of that name; rename one of them, or replace it with --replace" in done.stderr
        assert there(project.parent) == before
        done = go_ent("tool", "import", "i.json", "--replace", cwd=project)
        assert (done.returncode, done.stdout[:17]) == (0, b"t: version 1 (pro" if whose else b"t: version 2 (pro")
        assert go_ent("tool", "import", "i.json", cwd=project).returncode == 0, (
            "the same content again is no replacement"
        )


class TestConfiguration:
    @attack("paths", "a pipe or a device in place of the configuration")
    @pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
    def test_what_is_no_file_is_no_configuration_and_makes_nobody_wait(self, project: Path, kind: str) -> None:
        path = project / ".go-ent" / "config.toml"
        if kind == "folder":
            path.mkdir()
        elif kind == "device":
            path.symlink_to("/dev/zero")
        else:
            os.mkfifo(path)
        with pytest.raises(
            ConfigError, match=r"config.toml: it can't be read: (it is not an ordinary file|Is a directory)"
        ):
            read_config(project)

    @attack("paths", "a configuration of terabytes that takes no room")
    def test_a_sparse_configuration_is_not_read_whole(self, project: Path) -> None:
        with open(project / ".go-ent" / "config.toml", "wb") as file:
            file.truncate(1 << 40)
        with pytest.raises(ConfigError, match=r"config.toml: it is larger than \d+ bytes"):
            read_config(project)

    @attack("paths", "a state folder found above that anybody may write to")
    def test_servers_of_a_folder_that_anybody_may_write_to_are_refused(self, project: Path) -> None:
        """A folder like /tmp above the one where somebody works."""
        (project / ".go-ent" / "config.toml").write_text('[servers.x]\ncommand = "touch"\nargs = ["owned"]\n')
        (project / "a" / "b").mkdir(parents=True)
        (project / ".go-ent").chmod(0o777)
        assert find_project(project / "a" / "b") == project
        done = go_ent("tool", "search", cwd=project / "a" / "b")
        assert done.returncode == 12
        assert b"belongs to another user, or anybody may write to it" in done.stderr
        assert not (project / "a" / "b" / "owned").exists()

    @attack("paths", "a requirement that makes its check take for ever")
    def test_a_requirement_is_checked_in_no_time(self, project: Path) -> None:
        assert REQUIREMENT.fullmatch("a" + ("==1" + " " * 500) * 50 + "@") is None
        (project / ".go-ent" / "config.toml").write_text(f'[image]\npackages = ["a{("==1" + " " * 500) * 50}@"]\n')
        with pytest.raises(ConfigError, match="is not a requirement"):
            read_config(project)

    @attack("paths", "an option or an address in place of a package's name")
    @pytest.mark.parametrize(
        "name",
        ["-r x", "--index-url=http://evil", "a @ file:///etc", "git+ssh://x", "./a", "../a", "a==1\n-r x", "a;b", ""],
    )
    def test_a_package_is_a_name_with_versions(self, project: Path, name: str) -> None:
        (project / ".go-ent" / "config.toml").write_text(f"[image]\npackages = [{json.dumps(name)}]\n")
        with pytest.raises(ConfigError, match=r"image.packages.0: .* is not a requirement"):
            read_config(project)

    @attack("paths", "a file in place of the state folder")
    def test_a_state_folder_that_is_a_file_is_no_project(self, tmp_path: Path) -> None:
        (tmp_path / ".go-ent").write_text("x")
        assert go_ent("exec", "-c", "6 * 7", cwd=tmp_path).stdout == b"42\n"
        assert go_ent("tool", "list", cwd=tmp_path).returncode == 12
        assert go_ent("init", cwd=tmp_path).stderr.endswith(b"is a file, and a folder is needed there: move it away\n")
        assert (tmp_path / ".go-ent").read_text() == "x"

    @attack("paths", "a user's folder that can't be written")
    def test_without_a_folder_of_the_user_code_runs_and_nothing_is_trusted(self, project: Path, tmp_path: Path) -> None:
        (tmp_path / "none").write_text("a file where the user's folder should be")
        env = {"GO_ENT_DATA": str(tmp_path / "none"), "HOME": str(tmp_path / "none")}
        done = go_ent("trust", "--yes", cwd=project, env=env)
        assert done.returncode != 0
        assert b"Traceback" not in done.stderr
        assert (tmp_path / "none").read_text() == "a file where the user's folder should be"


class TestIds:
    NAMES = (
        "../x",
        "/etc/passwd",
        "..",
        ".",
        "",
        "a/b",
        "a\0b",
        "-x",
        "\u202e",
        "é",
        "x" * 300,
        "0199aaaa/..",
        "0199aaaa\n",
        "%2e%2e",
        "index.db",
        ".lock",
    )

    @attack("paths", "an execution's id that is a path")
    @pytest.mark.parametrize("name", NAMES)
    def test_no_id_of_an_execution_leads_out_of_its_folder(self, project: Path, name: str) -> None:
        store = FileStore(project)
        for act in (
            store.find,
            store.load,
            store.hold,
            lambda one: list(store.records(one)),
            lambda one: store.read_from(one, 0),
        ):
            with pytest.raises(EngineError) as caught:
                act(name)
            assert isinstance(caught.value, ExecutionNotFound)
        assert not (project / ".go-ent" / "executions").exists()

    @attack("paths", "the name of a workflow or of a loop that is a path")
    @pytest.mark.parametrize("name", NAMES)
    def test_no_name_of_a_workflow_leads_out_of_its_folder(self, project: Path, name: str) -> None:
        for act in (
            Workflows(project).get,
            Workflows(project).cancel,
            lambda one: Loop.resume(project, one),
            lambda one: Loop(project, one).cancel(),
        ):
            with pytest.raises(EngineError) as caught:
                act(name)
            assert isinstance(caught.value, BadTask | ExecutionNotFound)
        assert os.listdir(project / ".go-ent") == []

    @attack("paths", "a folder of workflows that leads elsewhere")
    @pytest.mark.parametrize("linked", ["workflows", "."])
    def test_a_linked_folder_keeps_no_workflow(self, project: Path, victim: Path, linked: str) -> None:
        state = project / ".go-ent"
        if linked == ".":
            state.rmdir()
        (state if linked == "." else state / linked).symlink_to(victim)
        with pytest.raises(
            BadState, match=r"workflows can't be kept: .* is a link, or in one, and state is written only where it is"
        ):
            Workflows(project).start("w", [WorkflowStep(id="a", description="x")])
        assert there(victim) == {"precious": "mine"}

    @attack("paths", "a linked state folder under a budget")
    def test_a_linked_state_folder_gets_no_budget(self, tmp_path: Path, victim: Path) -> None:
        (tmp_path / "other").mkdir()
        (tmp_path / "other" / ".go-ent").symlink_to(victim)
        with pytest.raises(LedgerError, match="is a link, or in one, and state is written only where it is"):
            FileLedger(tmp_path / "other").reserve(
                LedgerCall("k", "e", "t"), Wanted(0.1, 1), [], unknown_usd=0.0, at=1.0
            )
        assert there(victim) == {"precious": "mine"}


class TestTheListOfRunsOfOlderVersions:
    LINE = b'{"id":"1","at":1.0,"kind":"code","status":"completed","source":"1","inputs":{}}\n'

    @staticmethod
    def sources(project: Path) -> list[str | None]:
        return [run.source for run in past_runs(FileStore(project))]

    @attack("paths", "a pipe or a folder in place of an older version's list of runs")
    @pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir], ids=["pipe", "folder"])
    def test_what_is_no_file_makes_nobody_wait(self, project: Path, make: Callable[[Path], None]) -> None:
        folder = project / ".go-ent" / "journal"
        folder.mkdir()
        (folder / "runs.1.jsonl").write_bytes(self.LINE)
        make(folder / "runs.jsonl")
        assert self.sources(project) == ["1"]
        assert go_ent("tool", "suggest", cwd=project).returncode == 0

    @attack("paths", "a list of runs that leads to another project's")
    @pytest.mark.parametrize("linked", ["runs.jsonl", "."])
    def test_a_link_is_not_read(self, project: Path, victim: Path, linked: str) -> None:
        (victim / "runs.jsonl").write_bytes(self.LINE)
        folder = project / ".go-ent" / "journal"
        if linked == ".":
            folder.symlink_to(victim)
        else:
            folder.mkdir()
            (folder / linked).symlink_to(victim / linked)
        assert self.sources(project) == []

    @attack("paths", "a database of uses that leads elsewhere")
    def test_uses_are_counted_in_no_file_elsewhere(self, project: Path, victim: Path) -> None:
        (project / ".go-ent" / "usage.db").symlink_to(victim / "precious")
        store = UsageStore(project / ".go-ent" / "usage.db")
        store.note("a", True, 1.0)
        store.flush()
        assert there(victim) == {"precious": "mine"}


class TestWhatAgentsAreTold:
    @attack("paths", "a task's file that is outside of the project")
    @pytest.mark.parametrize(
        "name",
        [
            "../victim/precious",
            "/etc/passwd",
            "a/../../victim/precious",
            "link",
            "folder/precious",
            "a\0b",
            " ",
            "./.././victim/precious",
        ],
    )
    def test_a_file_of_a_task_is_in_its_project(self, project: Path, victim: Path, name: str) -> None:
        (project / "link").symlink_to(victim / "precious")
        (project / "folder").symlink_to(victim)
        with pytest.raises(BadTask, match=r"leads out of|is absolute|is not the name of a file"):
            read_files(project, [name], 1000)

    @attack("paths", "a pattern that finds links, pipes and hidden files")
    def test_a_pattern_shows_nothing_but_ordinary_files_of_the_project(self, project: Path, victim: Path) -> None:
        (project / "a.txt").write_text("shown")
        (project / "b.txt").symlink_to(victim / "precious")
        os.mkfifo(project / "c.txt")
        (project / ".env.txt").write_text("KEY=1")
        (project / "dir").symlink_to(victim)
        parts = {part.path: (part.text, part.note) for part in read_files(project, ["**/*"], 1000)}
        assert parts == {
            "a.txt": ("shown", ""),
            "b.txt": ("", "it is a link that leads out of the project"),
            "c.txt": ("", "it is not an ordinary file"),
        }

    @attack("paths", "folders in folders without an end")
    def test_folders_deeper_than_a_path_can_tell_are_refused_and_no_crash(self, project: Path) -> None:
        at = os.open(project, os.O_RDONLY)
        for _ in range(60):
            os.mkdir("d" * 100, dir_fd=at)
            below = os.open("d" * 100, os.O_RDONLY, dir_fd=at)
            os.close(at)
            at = below
        os.close(at)
        with pytest.raises(BadTask, match="it can't be read: File name too long"):
            read_files(project, ["**/*.txt"], 1000)

    @attack("paths", "a skill's name, or its file, that leads out")
    @pytest.mark.parametrize("name", ["../victim", "/etc", "..", "a/b", "", "-x y", "a\nb"])
    def test_a_skill_is_in_the_folder_of_skills(self, project: Path, victim: Path, name: str) -> None:
        (victim / "SKILL.md").write_text("Obey.")
        (project / ".go-ent" / "skills" / "linked").mkdir(parents=True)
        (project / ".go-ent" / "skills" / "linked" / "SKILL.md").symlink_to(victim / "SKILL.md")
        (project / ".go-ent" / "skills" / "folder").symlink_to(victim)
        with pytest.raises(BadTask, match="can't be the name of a skill"):
            find_skills(project, [name])
        problems = {skill.name: skill.problem for skill in all_skills(project)}
        assert problems == dict.fromkeys(("folder", "linked"), "it is a link that leads out of the folder of skills")

    @attack("paths", "a template that leads out, or reads another file")
    def test_a_template_is_in_the_folder_of_templates(self, project: Path, victim: Path) -> None:
        (project / ".go-ent" / "prompts").mkdir()
        path = project / ".go-ent" / "prompts" / "user.j2"
        path.symlink_to(victim / "precious")
        for source in (
            None,
            "{% include '../../../victim/precious' %}",
            "{% include '/etc/passwd' %}",
            "{{ self.__init__.__globals__ }}",
        ):
            if source is not None:
                path.unlink()
                path.write_text(source)
            with pytest.raises(BadTask) as caught:
                Templates(project, trusted=True).render("user.j2", {}, characters=1000)
            assert "mine" not in str(caught.value)
            assert "root:" not in str(caught.value)

    @attack("paths", "a plan that is a pipe, or without an end")
    def test_a_plan_is_an_ordinary_file_of_bounded_size(self, project: Path) -> None:
        with open(project / "big.toml", "wb") as file:
            file.truncate(1 << 40)
        with pytest.raises(EngineError, match=r"big.toml is larger than \d+ bytes"):
            read_plan(project / "big.toml")
        with pytest.raises(EngineError):
            read_plan(Path("/dev/zero"))


class TestFilesOfTheUsersOwn:
    @attack("paths", "the user's key, readable by others while it is made")
    def test_the_key_is_never_readable_by_others(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        seen: list[int] = []
        replace = os.replace

        def look(source: str, target: Path) -> None:
            seen.append(stat.S_IMODE(os.stat(source).st_mode))
            replace(source, target)

        monkeypatch.setenv("GO_ENT_DATA", str(tmp_path / "fresh"))
        monkeypatch.setattr(os, "replace", look)
        assert is_sealed("x", seal("x"))
        assert seen == [0o600]
        assert stat.S_IMODE((tmp_path / "fresh" / "key").stat().st_mode) == 0o600

    @attack("paths", "a temporary file's name that is taken by a link")
    def test_a_file_is_written_aside_under_a_name_that_nobody_knows(self, tmp_path: Path, victim: Path) -> None:
        (tmp_path / "f").symlink_to(victim / "precious")
        write_whole(tmp_path / "f", b"new")
        assert (tmp_path / "f").read_bytes() == b"new"
        assert not (tmp_path / "f").is_symlink()
        assert there(victim) == {"precious": "mine"}
        (tmp_path / "g").symlink_to(victim / "precious")
        with pytest.raises(OSError, match="Too many levels"):
            read_bounded(tmp_path / "g", 10)

    @attack("paths", "a folder of summaries that leads elsewhere")
    def test_a_chain_is_not_kept_through_a_link(self, tmp_path: Path, victim: Path) -> None:
        (tmp_path / "execution").mkdir()
        (tmp_path / "execution" / "context").symlink_to(victim)
        chain = Chain(FileAttachments(tmp_path / "execution" / "context"))
        with pytest.raises(StorageFailed):
            chain.prepare()
        assert chain.links() == []
        assert there(victim) == {"precious": "mine"}

    @attack("paths", "the id of an execution in capitals")
    def test_an_id_has_one_spelling(self, project: Path) -> None:
        store = FileStore(project)
        with pytest.raises(ExecutionNotFound, match="is not the id of an execution"):
            store.find(new_id().upper())


@pytest.mark.parametrize(
    "plant",
    [
        pytest.param("link", marks=attack("paths", "a draft that is a link, for the editor to write through")),
        pytest.param("hard link", marks=attack("paths", "a draft that is a hard link to another file")),
        pytest.param("folder", marks=attack("paths", "a folder of drafts that is a link")),
        pytest.param("pipe", marks=attack("paths", "a draft that is a pipe")),
    ],
)
def test_an_editor_is_given_no_link(project: Path, victim: Path, plant: str) -> None:
    """The editor is one that would write to whatever it is given."""
    target = victim / "t.py"
    target.write_text(TOOL.format("t"))
    (project / ".go-ent").mkdir(exist_ok=True)
    drafts = project / ".go-ent" / "drafts"
    if plant == "folder":
        drafts.symlink_to(target.parent)
    else:
        drafts.mkdir()
    if plant == "link":
        (drafts / "t.py").symlink_to(target)
    elif plant == "hard link":
        (drafts / "t.py").hardlink_to(target)
    elif plant == "pipe":
        os.mkfifo(drafts / "t.py")
    for command in (["tool", "edit", "t"], ["tool", "new", "t"]):
        done = go_ent(*command, cwd=project, env={"EDITOR": "/bin/sed -i s/1/2/", "VISUAL": ""})
        assert done.returncode == 12
        assert b"link" in done.stderr
    assert target.read_text() == TOOL.format("t")
    assert sorted(path.name for path in victim.iterdir()) == ["precious", "t.py"]

"""`go-ent init`: a project to begin with, and nothing of anybody's is overwritten."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from go_ent.composer.errors import StoreError
from go_ent.composer.project.files import IGNORED
from go_ent.engine.settings.template import first_config
from go_ent.engine.setup.init_project import begin_files, schema_text
from tests.support.forked import Forked
from tests.support.shell import Done, go_ent

MADE = [".go-ent/.gitignore", ".go-ent/config.toml", ".go-ent/config.schema.json"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("GO_ENT_DATA", str(tmp_path / "user"))
    return folder


def good(done: Done) -> str:
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


def everything(folder: Path) -> dict[str, Any]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != ".lock"
    }


def test_a_project_to_begin_with(folder: Path) -> None:
    said = good(go_ent("init"))
    assert said.splitlines()[0] == str(folder)
    assert [line.split()[1] for line in said.splitlines() if line.startswith("  made ")] == [
        *MADE,
        ".go-ent/composed-tools/count_words.py",
    ]
    assert (folder / ".go-ent/config.toml").read_text() == first_config()
    assert (folder / ".go-ent/config.schema.json").read_text() == schema_text()
    commands = said.partition("next:\n")[2].splitlines()
    assert len(commands) == 3
    for command in commands[:2]:  # the third changes another program's settings
        done = go_ent(*(part.strip("'") for part in _words(command)))
        assert done.returncode == 0, (command, done.stderr)
    assert json.loads(good(go_ent("tool", "history", "count_words", "--json")))[0]["version"] == 1

    before = everything(folder)
    again = good(go_ent("init"))
    assert [line.split()[1] for line in again.splitlines() if line.startswith("  kept ")] == [
        *MADE,
        ".go-ent/composed-tools",
    ]
    assert "made" not in again
    assert everything(folder) == before


def _words(command: str) -> list[str]:
    import shlex

    return shlex.split(command)[1:]


def test_what_is_there_stays_and_what_is_missing_is_added(folder: Path) -> None:
    state = folder / ".go-ent"
    state.mkdir()
    (state / "config.toml").write_text("[engine]\nspeed = 3\n")  # which can't even be used
    (state / ".gitignore").write_text("mine\njournal/")
    (state / "config.schema.json").write_text("{}")
    done = go_ent("init", "--json")
    found = json.loads(done.stdout)
    assert done.returncode == 0, found
    assert found["made"] == [".go-ent/.gitignore", ".go-ent/composed-tools/count_words.py"]
    assert found["kept"] == [".go-ent/config.toml", ".go-ent/config.schema.json"]
    assert "go-ent config schema > .go-ent/config.schema.json" in found["notes"][0]
    assert (state / "config.toml").read_text() == "[engine]\nspeed = 3\n"
    lines = (state / ".gitignore").read_text().splitlines()
    assert lines[:2] == ["mine", "journal/"]
    assert sorted(lines) == sorted(["mine", *IGNORED])


def test_a_first_tool_that_can_not_be_made_is_told(folder: Path) -> None:
    (folder / ".go-ent").mkdir()
    (folder / ".go-ent" / "config.toml").write_text("[limits]\ncpu_s = -1\n")
    done = go_ent("init", "--json")
    found = json.loads(done.stdout)
    assert done.returncode == 12
    assert (
        "config.toml:2: limits.cpu_s: it should be greater than 0"
        in found["failed"][".go-ent/composed-tools/count_words.py"]
    )
    assert ".go-ent/config.schema.json" in found["made"]


def test_two_at_once(folder: Path) -> None:
    started = [Forked("init", "new folder", "--json", cwd=folder, stdout=subprocess.PIPE) for _ in range(2)]
    answers = [json.loads(process.communicate()[0]) for process in started]
    assert [process.returncode for process in started] == [0, 0]
    wanted = [*MADE, ".go-ent/composed-tools/count_words.py"]
    assert sorted(name for answer in answers for name in answer["made"]) == sorted(wanted)
    assert answers[0]["next"][0].startswith("cd 'new folder' && go-ent tool run count_words ")
    state = folder / "new folder" / ".go-ent"
    assert len(list((state / "composed-tools" / ".history" / "count_words").iterdir())) == 1
    assert not list(state.rglob(".tmp-*"))


class TestWhatIsInTheWay:
    def test_a_file_where_the_folder_should_be(self, folder: Path) -> None:
        (folder / ".go-ent").write_text("mine")
        done = go_ent("init")
        assert (done.returncode, done.stdout) == (12, b"")
        assert (
            done.stderr.decode() == f"go-ent: {folder}/.go-ent is a file, and a folder is needed there: move it away\n"
        )
        assert (folder / ".go-ent").read_text() == "mine"

    @pytest.mark.parametrize("there", [True, False])
    def test_a_link_leads_nowhere_else(self, folder: Path, tmp_path: Path, there: bool) -> None:
        elsewhere = tmp_path / "elsewhere"
        if there:
            elsewhere.mkdir()
        (folder / ".go-ent").symlink_to(elsewhere)
        with pytest.raises(StoreError, match="is a link: init writes into a folder only"):
            begin_files(folder)
        assert not there or not list(elsewhere.iterdir())

    def test_links_instead_of_files_are_left_alone(self, folder: Path, tmp_path: Path) -> None:
        state, target = folder / ".go-ent", tmp_path / "target"
        state.mkdir()
        for name in ("config.toml", "config.schema.json", ".gitignore"):
            (state / name).symlink_to(target)
        begun = begin_files(folder)
        assert not target.exists()
        assert begun.made == []
        assert begun.kept == [".go-ent/config.toml", ".go-ent/config.schema.json"]
        assert ".go-ent/.gitignore" in begun.failed

    def test_tools_are_not_saved_through_a_link(self, folder: Path, tmp_path: Path) -> None:
        (folder / ".go-ent").mkdir()
        (tmp_path / "elsewhere").mkdir()
        (folder / ".go-ent" / "composed-tools").symlink_to(tmp_path / "elsewhere")
        done = go_ent("init", "--json")
        assert (done.returncode, list((tmp_path / "elsewhere").iterdir())) == (12, [])
        assert "is a link" in json.loads(done.stdout)["failed"][".go-ent/composed-tools/count_words.py"]

    def test_a_lock_that_is_a_link(self, folder: Path, tmp_path: Path) -> None:
        (folder / ".go-ent").mkdir()
        (folder / ".go-ent" / ".lock").symlink_to(tmp_path / "target")
        with pytest.raises(StoreError, match="can't be written"):
            begin_files(folder)
        assert not (tmp_path / "target").exists()

    def test_a_folder_that_can_not_be_written(self, folder: Path, ordinary_user: None) -> None:
        with pytest.raises(
            StoreError, match=r"can't be written: Permission denied; choose another folder, or change its mode"
        ):
            begin_files(folder)

    def test_a_file_instead_of_a_folder(self, folder: Path) -> None:
        (folder / "file").write_text("x")
        with pytest.raises(StoreError, match="can't be written: File exists"):
            begin_files(folder / "file")

    def test_within_another_project_it_says_so(self, folder: Path) -> None:
        begin_files(folder)
        begun = begin_files(folder / "inner")
        assert begun.notes == [f"this is a project within another one, {folder}: from here on down, this one is used"]

    @pytest.fixture
    def ordinary_user(self, folder: Path) -> Iterator[None]:
        """Root may write anywhere."""
        folder.chmod(0o555)
        is_root = os.geteuid() == 0
        if is_root:
            os.seteuid(65534)
        try:
            yield
        finally:
            if is_root:
                os.seteuid(0)
            folder.chmod(0o755)

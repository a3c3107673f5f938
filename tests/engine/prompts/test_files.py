"""The files of a task: found and read within the project, and no more of them than a prompt could hold."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from go_ent.engine.core.errors import BadTask
from go_ent.engine.prompts import FilePart, read_files
from go_ent.engine.prompts.files import MAX_FILES

BUDGET = 10_000


@pytest.fixture
def project(tmp_path: Path) -> Path:
    project = tmp_path / "project"
    for name in (
        "README.md",
        ".env",
        "src/b.py",
        "src/a.py",
        "src/deep/c.py",
        "src/deep/d.txt",
        "src/.hidden/e.py",
        "src/node_modules/f.py",
        "src/__pycache__/g.py",
        ".git/config.py",
        ".go-ent/h.py",
        ".venv/i.py",
        ".github/ci.yml",
        "pages/[id].py",
    ):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(f"{name}\n")
    (project / "src" / "logo.png").write_bytes(b"\x89PNG\0\0")
    return project


def paths(project: Path, *names: str) -> list[str]:
    return [part.path for part in read_files(project, names, BUDGET)]


class TestNames:
    def test_a_file_by_its_path(self, project: Path) -> None:
        assert read_files(project, ["src/a.py", "./README.md"], BUDGET) == [
            FilePart("src/a.py", "src/a.py\n"),
            FilePart("README.md", "README.md\n"),
        ]

    @pytest.mark.parametrize(
        ("name", "found"),
        [
            ("src/*.py", ["src/a.py", "src/b.py"]),
            ("src/**/*.py", ["src/a.py", "src/b.py", "src/deep/c.py"]),
            ("**/*.py", ["pages/[id].py", "src/a.py", "src/b.py", "src/deep/c.py"]),
            ("**/**/**/c.py", ["src/deep/c.py"]),
            ("src/**", ["src/a.py", "src/b.py", "src/deep/c.py", "src/deep/d.txt", "src/logo.png"]),
            ("s?c/[a-b].*", ["src/a.py", "src/b.py"]),
            ("*", ["README.md"]),
            (".github/*.yml", [".github/ci.yml"]),
            ("src", ["src/a.py", "src/b.py", "src/deep/c.py", "src/deep/d.txt", "src/logo.png"]),
            (
                ".",
                [
                    "README.md",
                    "pages/[id].py",
                    "src/a.py",
                    "src/b.py",
                    "src/deep/c.py",
                    "src/deep/d.txt",
                    "src/logo.png",
                ],
            ),
            ("pages/[id].py", ["pages/[id].py"]),
            (".env", [".env"]),
        ],
    )
    def test_patterns_and_folders_are_sorted_without_what_is_hidden_or_kept_by_tools(
        self, project: Path, name: str, found: list[str]
    ) -> None:
        assert paths(project, name) == found

    def test_each_file_once(self, project: Path) -> None:
        assert paths(project, "src/b.py", "src/*.py", "src/a.py") == ["src/b.py", "src/a.py"]

    @pytest.mark.parametrize("name", ["nothing.py", "nothing/*.py", "src/*.rs", ".git", ".venv/**", "src/a.py/b"])
    def test_what_is_not_there_is_refused_by_name(self, project: Path, name: str) -> None:
        with pytest.raises(BadTask, match=re.escape(name)):
            read_files(project, [name], BUDGET)

    @pytest.mark.parametrize("name", ["", " ", "a\0b", "\ud800", "x" * 300, "/".join(["y" * 250] * 30)])
    def test_what_is_no_name(self, project: Path, name: str) -> None:
        with pytest.raises(BadTask):
            read_files(project, [name], BUDGET)

    def test_too_many_files(self, project: Path) -> None:
        (project / "many").mkdir()
        for number in range(MAX_FILES + 1):
            (project / "many" / f"{number}").touch()
        with pytest.raises(BadTask, match="many: with it there are more than 500 files; name fewer"):
            read_files(project, ["many"], BUDGET)

    @settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        name=st.lists(
            st.sampled_from(["..", ".", "/", "*", "**", "src", "out", "[", "a.py", "?", "\\", "~", "secret"]),
            max_size=6,
        ).map("".join)
    )
    def test_no_name_leads_out_of_the_project(self, project: Path, name: str) -> None:
        (project.parent / "secret").write_text("secret")
        if not (project / "out").is_symlink():
            (project / "out").symlink_to(project.parent)
        try:
            parts = read_files(project, [name], BUDGET)
        except BadTask:
            return
        assert all((project / part.path).resolve().is_relative_to(project) or not part.text for part in parts)
        assert "secret" not in {part.text for part in parts}


class TestStayingInside:
    @pytest.mark.parametrize(
        ("name", "why"),
        [
            ("/etc/passwd", "this one is absolute"),
            ("../secret", "leads out of it with .."),
            ("src/../../secret", "leads out of it with .."),
            ("../*", "leads out of it with .."),
            ("link", "it is a link that leads out of the project"),
            ("folder/secret", "it is a link that leads out of the project"),
            ("folder/*", "it is a link that leads out of the project"),
            ("folder", "it is a link that leads out of the project"),
        ],
    )
    def test_what_is_named_outside_is_refused(self, project: Path, tmp_path: Path, name: str, why: str) -> None:
        (tmp_path / "secret").write_text("secret")
        (project / "link").symlink_to(tmp_path / "secret")
        (project / "folder").symlink_to(tmp_path)
        with pytest.raises(BadTask, match=re.escape(f"{name}: ") + ".*" + re.escape(why)):
            read_files(project, [name], BUDGET)

    def test_what_is_only_found_is_noted(self, project: Path, tmp_path: Path) -> None:
        (tmp_path / "secret").write_text("secret")
        (project / "src" / "link.py").symlink_to(tmp_path / "secret")
        os.mkfifo(project / "src" / "pipe.py")
        (project / "src" / "gone.py").symlink_to("nowhere")
        (project / "src" / "loop.py").symlink_to("loop.py")
        found = {part.path: part for part in read_files(project, ["src/*.py"], BUDGET)}
        assert found["src/link.py"] == FilePart("src/link.py", note="it is a link that leads out of the project")
        for path in ("src/gone.py", "src/loop.py"):
            assert found[path] == FilePart(path, note="there is no such file in the project")
        assert found["src/pipe.py"] == FilePart("src/pipe.py", note="it is not an ordinary file")

    def test_links_within_the_project_are_followed_when_named(self, project: Path) -> None:
        (project / "link.py").symlink_to("src/a.py")
        (project / "folder").symlink_to("src/deep")
        assert read_files(project, ["link.py"], BUDGET) == [FilePart("link.py", "src/a.py\n")]
        assert paths(project, "folder") == ["folder/c.py", "folder/d.txt"]

    def test_what_can_t_be_read_is_refused_by_name(self, project: Path) -> None:
        (project / "loop").symlink_to("loop")
        os.mkfifo(project / "pipe")
        (project / "gone").symlink_to("src/gone")
        for name in ("loop", "pipe", "gone"):
            with pytest.raises(BadTask, match=f"^{name}: "):
                read_files(project, [name], BUDGET)


class TestReading:
    def test_what_is_not_text_is_noted(self, project: Path) -> None:
        (project / "late.bin").write_bytes(b"x" * 10_000 + b"\0")
        (project / "latin.txt").write_bytes("für später\n".encode("latin-1") * 3)
        (project / "noise").write_bytes(bytes(range(128, 256)) * 4)
        assert read_files(project, ["src/logo.png", "late.bin", "noise"], BUDGET) == [
            FilePart("src/logo.png", note="binary, 6 bytes"),
            FilePart("late.bin", note="binary, 10001 bytes"),
            FilePart("noise", note="not a text in UTF-8, 512 bytes"),
        ]

    def test_odd_texts(self, project: Path) -> None:
        (project / "bom.txt").write_bytes("\ufeffä\r\n".encode())
        (project / "empty.txt").touch()
        (project / "one-bad.txt").write_bytes(b"thirty good ones, a bad one: \xff")
        parts = read_files(project, ["bom.txt", "empty.txt", "one-bad.txt"], BUDGET)
        assert [part.text for part in parts] == ["ä\r\n", "", "thirty good ones, a bad one: \N{REPLACEMENT CHARACTER}"]

    def test_of_a_file_that_can_t_fit_only_its_ends_are_read(self, project: Path) -> None:
        text = "".join(f"{number:06}\n" for number in range(100_000))
        (project / "large.log").write_text(text)
        small, large = read_files(project, ["src/a.py", "large.log"], 100)
        assert small.text == "src/a.py\n"
        assert text.startswith(large.text)
        assert text.endswith(large.tail)
        assert large.missing == len(text) - len(large.text) - len(large.tail)
        assert 1500 < len(large.text) + len(large.tail) + len(small.text) <= 1600

    @pytest.mark.parametrize("budget", [1, 2, 3, 5, 7])
    def test_a_character_is_never_cut_in_two(self, project: Path, budget: int) -> None:
        (project / "han.txt").write_text("漢a😀é" * 1000)
        (part,) = read_files(project, ["han.txt"], budget)
        assert part.missing > 0
        assert "\N{REPLACEMENT CHARACTER}" not in part.text + part.tail

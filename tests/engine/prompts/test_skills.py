"""Skills: Markdown files with a front matter, of the project or of the user."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from go_ent.engine.core.errors import BadTask
from go_ent.engine.prompts import Skill, all_skills, find_skills

STYLE = """---
name: style
description: How Python is written here.
version: 2
since: 2024-05-01
tags: [python, review]
---

# Style

- Types everywhere.
"""


def write(project: Path, name: str, text: str | bytes, *, of_the_user: bool = False) -> Path:
    path = (project.parent / "user" if of_the_user else project / ".go-ent") / "skills" / name / "SKILL.md"
    path.parent.mkdir(parents=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def problem(project: Path, name: str = "style") -> str:
    """Why a skill can't be used: in the list it says so, and naming it is refused with the same words."""
    (skill,) = (one for one in all_skills(project) if one.name == name)
    with pytest.raises(BadTask, match=re.escape(f"the skill {name} can't be used: {skill.path}: {skill.problem}")):
        find_skills(project, [name])
    return skill.problem


class TestReading:
    def test_content_description_and_everything_else_as_metadata(self, project: Path) -> None:
        path = write(project, "style", STYLE)
        (skill,) = find_skills(project, ["style"])
        assert skill == Skill(
            "style",
            "How Python is written here.",
            "# Style\n\n- Types everywhere.",
            {"version": 2, "since": "2024-05-01", "tags": ["python", "review"]},
            path,
            "project",
        )
        assert all_skills(project) == [skill]
        json.dumps(skill.metadata)

    @pytest.mark.parametrize(
        ("text", "content"),
        [
            ("Only text.\n", "Only text."),
            ("---\n---\nText\n", "Text"),
            ("\ufeff---\r\nname: style\r\n---\r\nText\r\n\r\nMore\r\n", "Text\n\nMore"),
            ("---\nname: style\n...\nText", "Text"),
            ("A line\n---\nname: x\n---\nText", "A line\n---\nname: x\n---\nText"),
            ("---\ntext: |\n  a\n  ----\n--- \nText", "Text"),
        ],
    )
    def test_forms_of_a_file(self, project: Path, text: str, content: str) -> None:
        write(project, "style", text)
        assert find_skills(project, ["style"])[0].content == content

    def test_a_skill_is_called_as_its_folder(self, project: Path) -> None:
        write(project, "style", "---\nname: Our style\n---\nText")
        (skill,) = find_skills(project, ["style"])
        assert (skill.name, skill.metadata) == ("style", {"name": "Our style"})

    def test_each_once_in_the_order_they_are_named(self, project: Path) -> None:
        for name in ("a", "b"):
            write(project, name, "Text")
        assert [skill.name for skill in find_skills(project, ["b", "a", "b"])] == ["b", "a"]

    def test_the_project_s_come_before_the_user_s(self, project: Path) -> None:
        write(project, "style", "The user's.", of_the_user=True)
        write(project, "habits", "The user's.", of_the_user=True)
        write(project, "style", "The project's.")
        assert [(skill.name, skill.scope, skill.content) for skill in all_skills(project)] == [
            ("habits", "user", "The user's."),
            ("style", "project", "The project's."),
        ]
        assert find_skills(project, ["habits", "style"]) == all_skills(project)

    def test_an_unknown_one_is_refused_with_those_there_are(self, project: Path) -> None:
        with pytest.raises(BadTask, match=r"^there is no skill 'style'; the skills are none$"):
            find_skills(project, ["style"])
        write(project, "style", "Text")
        write(project, "habits", "Text", of_the_user=True)
        with pytest.raises(
            BadTask, match=r"^there is no skill 'stile'; the skills are habits, style; did you mean style\?$"
        ):
            find_skills(project, ["stile"])


class TestWhatIsRefused:
    @pytest.mark.parametrize(
        "name", ["../style", "/etc", "a/b", ".", "..", ".hidden", "a.b", "a\0b", "", "a\n", "x" * 101, "a\\b"]
    )
    def test_names_that_lead_elsewhere(self, project: Path, name: str) -> None:
        write(project, "style", "Text")
        with pytest.raises(BadTask, match="can't be the name of a skill"):
            find_skills(project, [name])

    @pytest.mark.parametrize(
        ("text", "why"),
        [
            (b"---\nname: x\nText", "its front matter has no end: a line --- is missing"),
            (b"---\nname: [x\n---\nText", "its front matter is not YAML: "),
            (b"---\n- a\n- b\n---\nText", "its front matter is not a table of names and values"),
            (b"---\ndescription: [a]\n---\nText", "its description is not a text"),
            (b"---\na: &a [x]\nb: *a\n---\nText", "its front matter uses aliases, which are not allowed"),
            (b"---\na: " + b"[" * 30_000 + b"\n---\nText", "its front matter is nested deeper than 20"),
            (b"---\na: !!python/object/apply:os.system [id]\n---\nText", "its front matter is not YAML: "),
            (b"---\na: " + b"9" * 5000 + b"\n---\nText", "its front matter is not YAML: "),
            (b"---\n? [a]\n: b\n---\nText", "its front matter is not YAML: "),
            (b"---\na: " + b"x" * (64 << 10) + b"\n---\nText", "its front matter is larger than 65536 bytes"),
            (b"x" * ((256 << 10) + 1), "its content is larger than 262144 bytes"),
            (b"x" * (320 << 10) + b"y", "it is larger than 327680 bytes"),
            (b"\xff", "it is not UTF-8: invalid start byte at byte 0"),
            (b"---\nname: style\n---\n \n", "it has no content"),
        ],
    )
    def test_files_that_can_t_be_used_say_why(self, project: Path, text: bytes, why: str) -> None:
        write(project, "style", text)
        write(project, "good", "Text")
        assert problem(project).startswith(why)
        assert [skill.name for skill in all_skills(project)] == ["good", "style"]

    def test_an_alias_bomb_is_not_set_off(self, project: Path) -> None:
        lines = ["a0: &a0 [x, x]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 30))]
        write(project, "style", "---\n" + "\n".join(lines) + "\n---\nText")
        assert problem(project) == "its front matter uses aliases, which are not allowed"

    def test_a_folder_without_a_file(self, project: Path) -> None:
        (project / ".go-ent/skills/style").mkdir(parents=True)
        assert problem(project) == "it is not there"

    def test_what_is_not_an_ordinary_file(self, project: Path) -> None:
        path = write(project, "style", "Text")
        path.unlink()
        os.mkfifo(path)
        assert problem(project) == "it can't be read: SKILL.md is not an ordinary file"

    def test_links_that_lead_out_of_the_folder(self, project: Path, tmp_path: Path) -> None:
        (tmp_path / "outside").mkdir()
        (tmp_path / "outside" / "SKILL.md").write_text("secret")
        skills = project / ".go-ent" / "skills"
        (skills / "file").mkdir(parents=True)
        (skills / "file" / "SKILL.md").symlink_to(tmp_path / "outside" / "SKILL.md")
        (skills / "folder").symlink_to(tmp_path / "outside")
        (skills / "loop").symlink_to(skills / "loop")
        (project / "notes").mkdir()
        (project / "notes" / "SKILL.md").write_text("not a skill")
        (skills / "inside").symlink_to(project / "notes")
        users = tmp_path / "user" / "skills"
        users.mkdir(parents=True)
        (users / "own").symlink_to(tmp_path / "outside")
        for name in ("file", "folder", "inside", "own"):
            assert problem(project, name) == "it is a link that leads out of the folder of skills"
        assert problem(project, "loop")

    def test_a_link_within_the_folder_is_fine(self, project: Path) -> None:
        path = write(project, "style", "Text")
        (path.parents[1] / "alias").symlink_to("style")
        assert find_skills(project, ["alias"])[0].content == "Text"

    def test_a_folder_of_skills_outside_of_the_project(self, project: Path, tmp_path: Path) -> None:
        (tmp_path / "outside" / "style").mkdir(parents=True)
        (tmp_path / "outside" / "style" / "SKILL.md").write_text("secret")
        (project / ".go-ent" / "skills").symlink_to(tmp_path / "outside")
        assert problem(project) == "it is a link that leads out of the folder of skills"

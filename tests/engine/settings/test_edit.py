"""Changes that commands make to a configuration: the rest of the file stays as it is written."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from go_ent.composer.errors import ConfigError, StoreError
from go_ent.engine.settings.edit import remove_entry, set_entry, set_list, spelled

WRITTEN = """\
# Ours.
[grants]
allow = [
  "a.*",  # everything of a
  "b.c",
]  # that is all

[servers.a]  # the first
command = "a"   # with spaces
args = ["x"]

[servers.a.tools.slow]
timeout_s = 5

# The last word.
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / ".go-ent").mkdir()
    (tmp_path / ".go-ent" / "config.toml").write_text(WRITTEN)
    return tmp_path


def text(project: Path) -> str:
    return (project / ".go-ent" / "config.toml").read_text()


def test_an_entry_is_added_and_nothing_else_changes(project: Path) -> None:
    lines = set_entry(project, "servers", "b", {"command": "b", "args": ["-x"], "env": {"K": "${env:K}"}})
    assert lines == ["+[servers.b]", '+command = "b"', '+args = ["-x"]', '+env = {K = "${env:K}"}']
    for line in WRITTEN.splitlines():
        assert line in text(project).splitlines()
    assert tomllib.loads(text(project))["servers"]["b"] == {"command": "b", "args": ["-x"], "env": {"K": "${env:K}"}}


def test_the_first_entry_of_a_section_and_of_a_file(tmp_path: Path) -> None:
    (tmp_path / ".go-ent").mkdir()
    assert set_entry(tmp_path, "openapi", "pets", {"document": "pets.json"}) == [
        "+[openapi.pets]",
        '+document = "pets.json"',
    ]
    assert text(tmp_path) == '[openapi.pets]\ndocument = "pets.json"\n'


def test_a_list_keeps_its_layout_and_its_comments(project: Path) -> None:
    set_list(project, "grants", "allow", ["a.*", "b.c", "d.e"])
    assert '  "a.*",  # everything of a\n' in text(project)
    assert "]  # that is all" in text(project)
    assert tomllib.loads(text(project))["grants"]["allow"] == ["a.*", "b.c", "d.e"]
    set_list(project, "grants", "allow", ["a.*", "d.e"])
    assert "# everything of a" in text(project)
    assert tomllib.loads(text(project))["grants"]["allow"] == ["a.*", "d.e"]
    set_list(project, "grants", "approve", ["a.x"])
    assert tomllib.loads(text(project))["grants"] == {"allow": ["a.*", "d.e"], "approve": ["a.x"]}


def test_an_entry_is_removed_with_what_is_below_it(project: Path) -> None:
    set_entry(project, "servers", "b", {"command": "b"})
    remove_entry(project, "servers", "a")
    assert tomllib.loads(text(project)) == {"grants": {"allow": ["a.*", "b.c"]}, "servers": {"b": {"command": "b"}}}
    assert "# Ours." in text(project)
    remove_entry(project, "servers", "b")
    assert "servers" not in tomllib.loads(text(project))


def test_a_file_in_other_forms_is_edited_or_refused_whole(project: Path) -> None:
    path = project / ".go-ent" / "config.toml"
    for written in (
        'servers = { a = { command = "a" } }\n',
        'servers.a.command = "a"\n',
        '[servers]\na.command = "a"\n',
        '[servers.a]\ncommand = "a"\n[grants]\nallow = []\n[servers.c]\ncommand = "c"\n',
    ):
        path.write_text(written)
        before = tomllib.loads(written)
        try:
            set_entry(project, "servers", "b", {"command": "b"})
        except StoreError:
            assert path.read_text() == written
            continue
        assert tomllib.loads(path.read_text()) == before | {"servers": before["servers"] | {"b": {"command": "b"}}}


@pytest.mark.parametrize("written", ["a = ", "[a]\n[a]\n", "x" * 2_000_000, ".".join("a" * 50) + " = 1"])
def test_a_file_that_can_not_be_read_is_not_changed(project: Path, written: str) -> None:
    path = project / ".go-ent" / "config.toml"
    path.write_text(written)
    with pytest.raises(ConfigError):
        set_list(project, "grants", "allow", ["a.*"])
    assert path.read_text() == written


def test_a_word_that_is_not_unicode_is_refused(project: Path) -> None:
    before = text(project)
    with pytest.raises(StoreError, match="that can't be set: it is not valid Unicode"):
        set_entry(project, "servers", "b", {"command": "b", "args": ["\udcff"]})
    assert text(project) == before


def test_what_is_no_project(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"is no project: it has no \.go-ent folder; go-ent init makes one"):
        set_list(tmp_path, "grants", "allow", ["a.*"])
    assert list(tmp_path.iterdir()) == []


def test_how_the_file_spells_a_name(project: Path) -> None:
    set_entry(project, "servers", "My-Server", {"command": "x"})
    assert spelled(project, "servers", "my_server") == "My-Server"
    assert spelled(project, "servers", "other") is None
    assert (project / ".go-ent" / "config.toml").stat().st_mode & 0o777 == 0o644

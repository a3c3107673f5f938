"""Files that a stranger's repository brings along among its composed tools: each is told by name, and costs nothing
but itself.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.composer.conftest import DOUBLE, tool
from tests.security.corpus import attack
from tests.support.shell import Done, go_ent


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with one honest tool, in two versions."""
    monkeypatch.setenv("GO_ENT_DATA", str(tmp_path / "user"))
    store = tmp_path / "project" / ".go-ent" / "composed-tools"
    store.mkdir(parents=True)
    for source in (DOUBLE, DOUBLE.replace("2 * n", "n * 2")):
        (store / "double.py").write_text(source)
        assert go_ent("tool", "list", cwd=tmp_path / "project").returncode == 0
    return tmp_path / "project"


def store(project: Path) -> Path:
    return project / ".go-ent" / "composed-tools"


def works(project: Path) -> Done:
    """The honest tool can be called, tested, listed and brought back; what `tool list` says."""
    assert go_ent("tool", "run", "double", "--input", '{"n": 4}', cwd=project).stdout == b"8\n"
    listed = go_ent("tool", "list", cwd=project)
    assert listed.returncode == 0
    assert b"double" in listed.stdout
    return listed


@attack("paths", "a tool's docstring too long to be shown")
def test_a_docstring_without_end_disables_its_tool_alone(project: Path) -> None:
    (store(project) / "evil.py").write_text(
        tool("evil", f'def evil() -> int:\n    """{"x" * 100_000}"""\n    return 1\n')
    )
    assert b"BROKEN: line 4: its docstring is 100000 characters long" in works(project).stdout


@attack("paths", "a version with a number after which there is none")
@pytest.mark.parametrize("name", ["999999999", "999998", "٠٠٠٠٠٩", "000003"])
def test_a_planted_version_hides_no_later_one(project: Path, name: str) -> None:
    planted = store(project) / ".history" / "double" / f"{name}-0123456789abcdef.py"
    planted.write_text(DOUBLE.replace("2 * n", "666"))
    assert planted.name.encode() in works(project).stderr
    (project / "new.py").write_text(DOUBLE.replace("2 * n", "n + n"))
    assert go_ent("tool", "add", "new.py", cwd=project).returncode == 0
    history = go_ent("tool", "history", "double", cwd=project).stdout.decode().splitlines()
    assert len(history) == 3
    assert history[-1].endswith("current")
    assert b"is version 1 again" in go_ent("tool", "rollback", "double", "1", cwd=project).stdout
    works(project)


@attack("paths", "code behind a comment, after a line end that not everybody sees")
@pytest.mark.parametrize("char", ["\r", "\f", "\v", "\x1c", "\x85", "\u2028", "\u2029", "\u202e", "\x00"])
def test_code_that_a_reader_would_not_see_is_no_tool(project: Path, char: str) -> None:
    hidden = tool("evil", f"# nothing here{char}raise SystemExit(1)\ndef evil() -> int:\n    return 1\n")
    (store(project) / "evil.py").write_bytes(hidden.encode())
    assert f"line 4 has the character U+{ord(char):04X}".encode() in works(project).stdout
    added = go_ent("tool", "add", "-", stdin=hidden.encode(), cwd=project)
    assert added.returncode == 1
    assert b"line 4 has the character" in added.stderr


@attack("paths", "a tool with the name of what code finds in the guest")
@pytest.mark.parametrize("name", ["engine", "tools", "results", "checkpoint", "composer", "sandbox", "summarize"])
def test_a_name_of_our_own_is_nobodys(project: Path, name: str) -> None:
    source = DOUBLE.replace("double", name)
    (store(project) / f"{name}.py").write_text(source)
    assert f"the name {name} is reserved for go-ent itself".encode() in works(project).stdout
    for command in (("add", "-"), ("import", "-")):
        refused = go_ent("tool", *command, stdin=source.encode(), cwd=project)
        assert refused.returncode == 1
        assert b"reserved for go-ent itself" in refused.stderr

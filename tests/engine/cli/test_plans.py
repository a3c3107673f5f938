"""Plans at the command line: checked before anything runs, drawn, run in part, resumed when they have changed."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.support.shell import go_ent

PLAN = """
name = "four"
[[task]]
id = "a"
command = ["sh", "-c", "echo x >> ran; echo hello"]
[[task]]
id = "b"
code = "text.upper()"
inputs = {text = "${a.output}"}
[[task]]
id = "c"
command = ["sh", "-c", "exit 3"]
depends_on = ["b"]
[[task]]
id = "d"
command = ["echo", "${c.output}", "${a.output}"]
"""


@pytest.fixture
def project(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (project / "plan.toml").write_text(PLAN)
    monkeypatch.chdir(project)
    return project


def fix(project: Path, old: str = "exit 3", new: str = "echo good") -> None:
    path = project / "plan.toml"
    path.write_text(path.read_text().replace(old, new))


def test_a_failing_plan_is_fixed_and_resumed(project: Path) -> None:
    assert go_ent("run", "--plan", "plan.toml").returncode == 13
    fix(project)
    refused = go_ent("resume")
    assert refused.returncode == 2
    assert "plan.toml has changed since: c changed\n" in refused.stderr.decode()
    diff = '  c.command - ["sh", "-c", "exit 3"]\n  c.command + ["sh", "-c", "echo good"]\n'
    assert diff in refused.stderr.decode()
    done = go_ent("resume", "last", "--plan", "plan.toml")
    assert (done.returncode, done.stdout) == (0, b"good hello\n")
    assert f"c changed\n{diff}finished before: a, b\n" in done.stderr.decode()
    assert (project / "ran").read_text() == "x\n"  # once
    new, old = json.loads(go_ent("ps", "--json").stdout)
    assert (new["status"], old["status"]) == ("completed", "cancelled")
    shown = json.loads(go_ent("status", "last", "--json").stdout)
    assert [node["status"] for node in shown["tree"]] == ["completed"] * 4


def test_the_plan_as_it_was_is_resumed_anyway(project: Path) -> None:
    go_ent("run", "--plan", "plan.toml")
    fix(project)
    assert b"[c] failed: sh failed with exit code 3" in go_ent("resume", "--anyway").stderr


def test_what_depends_on_a_changed_task_runs_again(project: Path) -> None:
    fix(project)
    assert go_ent("run", "--plan", "plan.toml").returncode == 0
    fix(project, "text.upper()", "text.title()")
    done = go_ent("resume", "last", "--plan", "plan.toml")
    assert b"b changed\n  b.code - text.upper()\n  b.code + text.title()\nfinished before: a\n" in done.stderr
    assert go_ent("output", "last", "b").stdout == b"Hello\n"


def test_part_of_a_plan(project: Path) -> None:
    early = go_ent("run", "--plan", "plan.toml", "--only", "b")
    assert (early.returncode, b"a must have run before" in early.stderr) == (2, True)
    fix(project)
    assert go_ent("run", "--plan", "plan.toml").returncode == 0
    only = go_ent("run", "--plan", "plan.toml", "--only", "b")
    assert (only.returncode, only.stdout) == (0, b"HELLO\n")
    assert b"[c]" not in only.stderr
    later = go_ent("run", "--plan", "plan.toml", "--from", "c")
    assert (later.returncode, later.stdout) == (0, b"good hello\n")
    assert b"[c] running" in later.stderr
    assert (project / "ran").read_text() == "x\n"
    for words in (["--from", "zz"], ["--from", "a", "--only", "b"]):
        assert go_ent("run", "--plan", "plan.toml", *words).returncode == 2
    assert go_ent("run", "a task", "--from", "a").returncode == 2


def test_a_typo_leaves_nothing_to_be_resumed(project: Path) -> None:
    fix(project, 'code = "text.upper()"', 'tool = "upper"')
    fix(project, '["echo", ', '["nosuchprogram", ')
    checked = go_ent("plan", "check", "plan.toml")
    assert checked.returncode == 12
    assert checked.stdout.decode().splitlines() == [
        "plan.toml: task b: there is no composed tool upper",
        "plan.toml: task d: there is no program nosuchprogram",
    ]
    refused = go_ent("run", "--plan", "plan.toml")
    assert (refused.returncode, refused.stdout) == (2, b"")
    assert b"task b: there is no composed tool upper; task d: there is no program" in refused.stderr
    assert json.loads(go_ent("ps", "--json").stdout) == []
    assert go_ent("run", "--tool", "nosuch").returncode == 2
    assert json.loads(go_ent("ps", "--json").stdout) == []


def test_a_plan_that_is_right_and_its_graph(project: Path) -> None:
    assert go_ent("plan", "check", "plan.toml").stdout == b"no problems: 4 tasks, 4 dependencies\n"
    drawn = go_ent("plan", "graph", "plan.toml").stdout.decode().splitlines()
    assert [line.split()[0] for line in drawn] == ["a", "b", "c", "d"]
    assert drawn[3].endswith("(also after a)")
    assert b"t2 --> t3" in go_ent("plan", "graph", "plan.toml", "--mermaid").stdout
    ET.fromstring(go_ent("plan", "graph", "plan.toml", "--svg").stdout)
    assert json.loads(go_ent("plan", "graph", "plan.toml", "--json").stdout)[3]["needs"] == ["a", "c"]


def test_names_of_a_stranger_stay_text_in_a_picture(project: Path) -> None:
    fix(project, '"exit 3"', '"</text><script>alert(1)</script>\\"]; click t0"')
    picture = go_ent("plan", "graph", "plan.toml", "--svg").stdout.decode()
    assert "<script" not in picture
    assert '"];' not in go_ent("plan", "graph", "plan.toml", "--mermaid").stdout.decode()

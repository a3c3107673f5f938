"""A disk that is full, and one that is read-only: what is refused says so, what was acknowledged stays, and with
room all goes on.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from go_ent.composer.project.files import TEMPORARY
from tests.faults.inside import fill, inside, make_room, read_only, small_disk
from tests.support.serving import Served, ask, serving
from tests.support.shell import Done, go_ent

pytestmark = pytest.mark.more

FULL, READ_ONLY = "No space left on device", "Read-only file system"
PAGE = 4096  # what such a disk gives at a time
LOOKING: tuple[tuple[str, ...], ...] = (
    ("ps", "--json"),
    ("tool", "list", "--json"),
    ("tool", "show", "twice"),
    ("tool", "history", "twice", "--json"),
    ("budget", "--json"),
    ("executions", "totals", "--json"),
    ("config", "show"),
)
PLAN = '[[task]]\nid = "a"\ncommand = ["sh", "-c", "echo did >>../did; echo it"]\n'
GROWING = """
for n in range(400):
    checkpoint('at', [n, 'x' * 2000])
n
"""


def tool(expression: str, name: str = "twice") -> str:
    return (
        f'# /// tool\n# name = "{name}"\n# ///\ndef {name}(x: int) -> int:\n    """A number, doubled."""\n    '
        f"return {expression}\n"
    )


def project_of(place: Path, size: str) -> Path:
    """A project on a disk of its own, with a tool, and something that was run."""
    os.environ["GO_ENT_DATA"] = str(place / "user")
    project = place / "project"
    small_disk(project, size)
    (project / ".go-ent").mkdir()
    (project / "plan.toml").write_text(PLAN)
    said = [
        save(project, "2 * x"),
        go_ent("exec", "-c", "1 + 1", cwd=project),
        go_ent("tool", "run", "twice", "--input", '{"x": 3}', cwd=project),
        go_ent("run", "--plan", "plan.toml", cwd=project),
    ]
    assert [one.returncode for one in said] == [0, 0, 0, 0], said
    return project


def save(project: Path, expression: str) -> Done:
    (project.parent / "twice.py").write_text(tool(expression))
    return go_ent("tool", "add", "../twice.py", cwd=project)


def rows(project: Path) -> dict[str, str]:
    return {
        row["id"]: row["status"] for row in json.loads(go_ent("ps", "--json", "--limit", "1000", cwd=project).stdout)
    }


def did(project: Path) -> int:
    """How often the plan's command was run: it leaves a line on another disk."""
    return len((project.parent / "did").read_text().splitlines())


def leftovers(project: Path) -> list[str]:
    """Half-written files that nobody will ever finish."""
    return [str(path) for path in (project / ".go-ent").rglob(f"{TEMPORARY}*")]


# Its record is longer than what may be left of the last page of a file on a disk that is full.
LONG_SUM = f"1 + 1  # {'x' * 5000}"


def changing(project: Path) -> dict[str, Done]:
    """All that changes something, tried once."""
    return {
        "exec": go_ent("exec", "-c", LONG_SUM, cwd=project),
        "tool run": go_ent("tool", "run", "twice", "--input", '{"x": 3}', cwd=project),
        "tool add": save(project, "x + x"),
        "run": go_ent("run", "--plan", "plan.toml", cwd=project),
    }


def told(done: dict[str, Done]) -> dict[str, tuple[int, str]]:
    return {name: (one.returncode, one.stderr.decode()) for name, one in done.items() if one.returncode}


# -- the command line


def full(place: Path) -> Any:
    project = project_of(place, "1m")
    before, was = rows(project), did(project)
    fill(project)
    done = changing(project)
    looked = [go_ent(*command, cwd=project).returncode for command in LOOKING]
    during, left = rows(project), leftovers(project)
    make_room(project)
    after = {name: one.returncode for name, one in changing(project).items()}
    version = json.loads(go_ent("tool", "history", "twice", "--json", cwd=project).stdout)
    return {
        "refused": told(done),
        "unrecorded": {name: one.stderr.decode() for name, one in done.items() if not one.returncode},
        "looked": looked,
        "lost": sorted(before.items() - during.items()),
        "new": sorted(during.keys() - before.keys()),
        "left": left,
        "after": after,
        "did": did(project) - was,
        "versions": len(version),
        "kept": sorted(before.items() - rows(project).items()),
    }


def test_full_everything_that_changes_something_is_refused_and_what_was_acknowledged_is_there(tmp_path: Path) -> None:
    found = inside(full, tmp_path)
    assert found["refused"].keys() == {"tool add", "run"}
    for code, said in found["refused"].values():
        assert (code, FULL in said) == (12, True), said
    assert found["unrecorded"].keys() == {"exec", "tool run"}, "they do nothing that would have to be on record"
    for said in found["unrecorded"].values():
        assert ("is not on record" in said, FULL in said) == (True, True), said
    assert set(found["looked"]) == {0}
    assert (found["lost"], found["new"], found["left"], found["kept"]) == ([], [], [], [])
    assert set(found["after"].values()) == {0}
    assert found["did"] == 1, "what could not be recorded was not done"
    assert found["versions"] == 2


def room(place: Path, pages: Iterable[int]) -> Any:
    """With ever more room: whatever said that it was done is done, and whatever did not has said why."""
    project = project_of(place, "2m")
    (place / "done").mkdir()
    wrong, known = [], dict(rows(project))
    codes: list[list[int]] = []
    for step in pages:
        fill(project, spare=step * PAGE)
        done = {"exec": go_ent("exec", "-c", f"{step} + 1", "--json", cwd=project), "add": save(project, f"{step} + x")}
        make_room(project)
        codes.append([one.returncode for one in done.values()])
        for name, one in done.items():
            said = one.stderr.decode()
            if one.returncode and (one.returncode != 12 or FULL not in said or "Traceback" in said):
                wrong.append([step, name, one.returncode, said[-500:]])
        now = rows(project)
        if lost := known.items() - now.items():
            wrong.append([step, "lost", sorted(lost)])
        if not done["exec"].returncode:
            run = json.loads(done["exec"].stdout)
            kept = None if "is not on record" in (run["warning"] or "") else "completed"
            if now.get(run["id"]) != kept or run["result"] != step + 1:
                wrong.append([step, "acknowledged, and not there", run["id"], now.get(run["id"])])
        known = now
        ran = go_ent("tool", "run", "twice", "--input", '{"x": 1}', cwd=project)
        if not done["add"].returncode:
            (place / "done" / "last").write_text(str(step + 1))
        expected = (place / "done" / "last").read_text() if (place / "done" / "last").exists() else "2"
        if ran.stdout.decode().strip() != expected:
            wrong.append(
                [step, "the tool is not what was saved last", ran.stdout.decode(), expected, ran.stderr.decode()[-300:]]
            )
        known = rows(project)
    return {"wrong": wrong, "codes": codes, "left": leftovers(project)}


def more_room(place: Path) -> Any:
    return room(place, range(60))


@pytest.mark.long
@pytest.mark.timeout(300)
def test_with_any_amount_of_room_what_says_that_it_is_done_is_done(tmp_path: Path) -> None:
    found = inside(more_room, tmp_path, patience_s=280)
    assert found["wrong"] == []
    assert found["left"] == []
    assert [0, 12] in found["codes"]
    assert found["codes"][-1] == [0, 0]


def mid_run(place: Path) -> Any:
    project = project_of(place, "3m")
    fill(project, spare=300_000)
    (project.parent / "growing.py").write_text(GROWING)
    done = go_ent("exec", "../growing.py", cwd=project)
    (execution_id,) = [name for name, status in rows(project).items() if status != "completed"]
    at = json.loads(go_ent("status", execution_id, "--json", cwd=project).stdout)
    fill(project)
    still = go_ent("resume", execution_id, cwd=project)
    make_room(project)
    again = go_ent("resume", execution_id, cwd=project)
    return {
        "still": [still.returncode, still.stderr.decode()],
        "code": done.returncode,
        "said": done.stderr.decode(),
        "marks": len(at["checkpoints"]),
        "again": [again.returncode, again.stdout.decode(), again.stderr.decode()],
        "status": rows(project)[execution_id],
    }


def test_full_in_the_middle_of_a_run_it_ends_and_goes_on_when_there_is_room(tmp_path: Path) -> None:
    found = inside(mid_run, tmp_path)
    assert found["code"] != 0
    assert FULL in found["said"]
    assert "Traceback" not in found["said"]
    assert found["marks"] > 0
    assert found["still"][0] == 12
    assert FULL in found["still"][1]
    assert found["again"][:2] == [0, "399\n"], found["again"]
    assert found["status"] == "completed"


def unwritable(place: Path) -> Any:
    project = project_of(place, "4m")
    before, was = rows(project), did(project)
    read_only(project)
    done = changing(project)
    looked = {" ".join(command): go_ent(*command, cwd=project) for command in LOOKING}
    during = rows(project)
    doctor = go_ent("doctor", cwd=project)
    read_only(project, on=False)
    after = {name: one.returncode for name, one in changing(project).items()}
    return {
        "refused": told(done),
        "unrecorded": {name: one.stderr.decode() for name, one in done.items() if not one.returncode},
        "looked": {name: one.returncode for name, one in looked.items()},
        "lost": sorted(before.items() ^ during.items()),
        "doctor": doctor.stdout.decode() + doctor.stderr.decode(),
        "after": after,
        "did": did(project) - was,
    }


def test_read_only_all_can_be_looked_at_and_what_changes_something_is_refused(tmp_path: Path) -> None:
    found = inside(unwritable, tmp_path)
    assert found["refused"].keys() == {"tool add", "run"}
    for code, said in found["refused"].values():
        assert (code, READ_ONLY in said) == (12, True), said
    assert found["unrecorded"].keys() == {"exec", "tool run"}, "they do nothing that would have to be on record"
    for said in found["unrecorded"].values():
        assert ("is not on record" in said, READ_ONLY in said) == (True, True), said
    assert set(found["looked"].values()) == {0}, found["looked"]
    assert found["lost"] == []
    assert "can't be written" in found["doctor"]
    assert set(found["after"].values()) == {0}
    assert found["did"] == 1


def test_a_file_in_the_place_of_the_state_folder_is_said_to_be_one(tmp_path: Path) -> None:
    """Without any mounts: for machines that forbid them."""
    (tmp_path / ".go-ent").write_text("not a folder")
    done = go_ent("init", cwd=tmp_path)
    assert done.returncode == 12
    assert ".go-ent" in done.stderr.decode()
    assert (tmp_path / ".go-ent").read_text() == "not a folder"


# -- a server


def calls(served: Served, expression: str) -> Iterator[tuple[str, bool, str]]:
    for name, arguments in (
        ("code_execute", {"code": LONG_SUM}),
        ("tool_run", {"name": "twice", "inputs": {"x": 2}}),
        ("tool_compose", {"source": tool(expression)}),
        ("engine_execute", {"plan": [{"id": "a", "code": "1"}]}),
    ):
        failed, said = ask(served, name, **arguments)
        yield name, failed, str(said)
    for name in ("tool_list", "engine_status", "engine_budget", "tool_search"):
        failed, said = ask(served, name)
        yield name, failed, str(said)


def served_full(place: Path) -> Any:
    project = project_of(place, "8m")
    with serving(project) as server:
        first = list(calls(server, "x * 2"))
        before = rows(project)
        fill(project)
        during = list(calls(server, "2 * (x)"))
        make_room(project)
        kept = sorted(before.items() - rows(project).items())
        return {
            "first": first,
            "during": during,
            "last": list(calls(server, "x + x")),
            "kept": kept,
            "said": server.said(),
        }


def served_unwritable(place: Path) -> Any:
    project = project_of(place, "4m")
    before = rows(project)
    read_only(project)
    with serving(project) as server:
        during, said = list(calls(server, "2 * (x)")), server.said()
    kept = sorted(before.items() ^ rows(project).items())
    read_only(project, on=False)
    with serving(project) as server:
        return {"first": [], "during": during, "last": list(calls(server, "x + x")), "kept": kept, "said": said}


@pytest.mark.parametrize(
    ("scene", "words"), [(served_full, FULL), pytest.param(served_unwritable, READ_ONLY, marks=pytest.mark.long)]
)
def test_a_server_says_it_to_its_clients_lives_and_goes_on_with_room(tmp_path: Path, scene: Any, words: str) -> None:
    found = inside(scene, tmp_path)
    assert [one for one in found["first"] if one[1]] == []
    assert [failed for _, failed, _ in found["during"]] == [False] * 2 + [True] * 2 + [False] * 4, found["during"]
    assert all(words in said for _, _, said in found["during"][:4]), found["during"]
    assert [failed for _, failed, _ in found["last"]] == [False] * 8, found["last"]
    assert found["kept"] == []
    assert "Traceback" not in found["said"]


# -- a command whose end can't be recorded

LOUD = '[[task]]\nid = "a"\ncommand = ["sh", "-c", "echo did >>../did; head -c 9000 /dev/zero | tr \'\\\\0\' x"]\n'


def unrecorded(place: Path) -> Any:
    """With ever more room, a command that says more than there is room for; then there is room again."""
    project = project_of(place, "2m")
    (place / "loud.toml").write_text(LOUD)
    found = []
    for pages in range(8, 30, 2):
        before, was = rows(project), did(project)
        fill(project, spare=pages * PAGE)
        first = go_ent("run", "--plan", "../loud.toml", cwd=project)
        make_room(project)
        ran, new = did(project) - was, sorted(rows(project).keys() - before.keys())
        again = go_ent("resume", new[0], cwd=project) if new and first.returncode else None
        said = "" if again is None else again.stderr.decode()
        found.append(
            [first.returncode, ran, None if again is None else again.returncode, did(project) - was, said[-400:]]
        )
    return found


def test_a_command_whose_end_could_not_be_recorded_is_not_run_again_without_a_question(tmp_path: Path) -> None:
    found = inside(unrecorded, tmp_path)
    asked = [
        ran == 1 and again == 12 and "nobody knows whether it was done" in said for _, ran, again, _, said in found
    ]
    assert any(asked), found
    for (code, ran, again, in_all, _), is_asked in zip(found, asked, strict=True):
        assert in_all == (1 if code == 0 or is_asked or again == 0 else 0), found
        assert ran <= 1, found

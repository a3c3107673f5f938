"""The pages of plans: the graph of a file and of a run, the critical path, hazards, and problems at their lines."""

from __future__ import annotations

import re
import tomllib

import pytest

from go_ent.engine import Plan
from go_ent.engine.console.app import Console
from go_ent.engine.console.pages.plans import hazards_of, picture_of
from go_ent.engine.server.calls.callers import Caller
from go_ent.engine.strategies.layout import critical_path, layers, places
from tests.support.console import Browser, run

PLAN = """
[[task]]
id = "a"
code = "2"

[[task]]
id = "b"
code = "n * 3"
inputs = { n = "${a.output}" }

[[task]]
id = "c"
code = "'<img src=x onerror=alert(1)>'"
depends_on = ["a"]
"""


def test_layers_and_rows() -> None:
    needs = [(), (0,), (0,), (1, 2), ()]
    assert layers(needs) == [0, 1, 1, 2, 0]
    where = places(needs)
    assert [column for column, _ in where] == [0, 1, 1, 2, 0]
    assert len(set(where)) == len(needs)  # no two in one place
    assert places([]) == []


def test_lines_cross_no_more_than_they_must() -> None:
    needs = [(), (), (1,), (0,)]  # in plan order, both lines would cross
    where = places(needs)
    assert (where[0][1] < where[1][1]) == (where[3][1] < where[2][1])


def test_the_critical_path_is_the_longest() -> None:
    needs = [(), (0,), (0,), (1, 2)]
    assert critical_path(needs, [1, 5, 1, 1]) == [0, 1, 3]
    assert critical_path(needs, [1, 1, 5, 1]) == [0, 2, 3]
    assert critical_path([], []) == []


def test_hazards_are_what_files_make_wait() -> None:
    tasks = [
        {"id": "one", "code": "1", "writes": ["out"]},
        {"id": "two", "code": "1", "reads": ["out"]},
        {"id": "far", "code": "1"},
        {"id": "m1", "code": "1", "mutex": ["x"]},
        {"id": "m2", "code": "1", "mutex": ["x"]},
    ]
    assert hazards_of(Plan.model_validate({"task": tasks})) == [("one", "two"), ("m1", "m2")]


def test_a_graph_of_2000_is_laid_out() -> None:
    tasks = [{"id": f"t{n}", "code": "1", "depends_on": [f"t{n // 2}"] if n else []} for n in range(2000)]
    picture = picture_of(Plan.model_validate({"task": tasks}), None, critical=True)
    assert len({(box.x, box.y) for box in picture.boxes}) == 2000
    assert len(picture.edges) == 1999


async def test_a_run_of_a_plan_is_drawn_with_states(console: Console, browser: Browser) -> None:
    result = await console.engine.execute(Plan.model_validate(tomllib.loads(PLAN)))
    page = (await browser.get(f"/plans/run/{result.execution_id}?task=b&critical=yes")).text
    assert page.count('class="box completed') == 3
    assert "critical" in page
    assert "<img src=x" not in page
    assert result.execution_id in (await browser.get("/plans")).text
    code = await run(console, "1")
    assert (await browser.get(f"/plans/run/{code.id}")).status_code == 404


async def test_a_file_is_drawn_or_its_problems_are_shown_at_their_lines(console: Console, browser: Browser) -> None:
    project = console.engine.project
    (project / "good.toml").write_text(PLAN)
    (project / "bad.toml").write_text(PLAN.replace('depends_on = ["a"]', 'depends_on = ["zz"]'))
    (project / "torn.toml").write_text(PLAN + "\n[[task")
    assert "not trusted" in (await browser.get("/plans")).text
    assert (await browser.get("/plans/file?name=good.toml")).status_code == 404
    console.engine.trusted = True
    listed = (await browser.get("/plans")).text
    assert "good.toml" in listed
    assert 'class="box pending' in (await browser.get("/plans/file?name=good.toml&critical=yes")).text
    bad = (await browser.get("/plans/file?name=bad.toml")).text
    assert "there is no task zz" in bad
    assert '<li id="line-12" class="marked">' in bad
    assert "not valid TOML" in (await browser.get("/plans/file?name=torn.toml")).text
    (project / "two.toml").write_text('[[task]]\nid = "one"\n"a; b" = 1\n\n[[task]]\nid = "two"\ncode = 5\n')
    two = (await browser.get("/plans/file?name=two.toml")).text
    assert "2 problems" in two  # a problem's own text may have what stands between two in a message
    assert re.findall(r'<li id="line-([0-9]+)" class="marked">', two) == ["2", "6"]


@pytest.mark.parametrize("name", ["../outside.toml", "/etc/passwd", "link.toml", "none.toml", ".go-ent/config.toml"])
async def test_only_plans_of_the_project_are_opened(console: Console, browser: Browser, name: str) -> None:
    project = console.engine.project
    (project.parent / "outside.toml").write_text(PLAN)
    (project / "link.toml").symlink_to(project.parent / "outside.toml")
    console.engine.trusted = True
    assert (await browser.get(f"/plans/file?name={name}")).status_code == 404
    other = await Browser(console).sign_in(Caller("someone"))
    assert (await other.get("/plans")).status_code == 403
    await other.close()

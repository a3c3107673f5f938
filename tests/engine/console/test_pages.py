"""The pages of runs, approvals and health: what they show of real runs, and what their forms do."""

from __future__ import annotations

import asyncio
import html
import json
import re
from pathlib import Path

import pytest

from go_ent.composer.composed import toolfile
from go_ent.composer.composed.store import Store
from go_ent.engine import Plan
from go_ent.engine.console.app import Console
from go_ent.engine.core.ids import short_id
from go_ent.engine.server.calls.callers import LOCAL
from go_ent.engine.strategies.plan import read_plan
from tests.composer.conftest import tool
from tests.support.console import Browser, run

DOUBLE = 'def double(n: int) -> int:\n    """Twice."""\n    return 2 * n\n'
DROP = 'def drop(table: str) -> str:\n    """Drop a table."""\n    return f"dropped {table}"\n'


@pytest.fixture
def project(project: Path) -> Path:
    (project / ".go-ent" / "config.toml").write_text('[grants]\napprove = ["drop"]\n')
    store = Store(project / ".go-ent" / "composed-tools", "project")
    for name, code in (("double", DOUBLE), ("drop", DROP)):
        store.save(toolfile.read(tool(name, code)))
    return project


def words(page: str) -> str:
    """What a page says, without its tags."""
    return " ".join(re.sub(r"<[^>]+>", " ", page).split())


async def until(console: Console, execution_id: str, status: str) -> None:
    """Wait until the console would tell a page that a run has that status."""
    async with asyncio.timeout(90):
        async for event in await console.feed.stream(console.viewer(LOCAL), [f"run:{execution_id}"]):
            if f'"stamp": "{status}:' in event:
                return


async def test_runs_are_listed_the_newest_first(console: Console, browser: Browser) -> None:
    assert "Nothing was run here yet" in (await browser.get("/runs")).text
    first, second = await run(console, "1 + 1"), await run(console, "await tools.double(n=2)")
    page = (await browser.get("/runs")).text
    assert page.index(second.id) < page.index(first.id)
    assert 'class="status completed"' in page


async def test_runs_are_filtered(console: Console, browser: Browser) -> None:
    good, bad = await run(console, "await tools.double(n=2)"), await run(console, "1 / 0")
    for query, found in (
        ("status=failed", [bad.id]),
        ("status=completed", [good.id]),
        ("text=DOUBLE", [good.id]),
        ("text=100%25", []),
        ("tool=double", [good.id]),
        ("tool=other", []),
        ("kind=code", [bad.id, good.id]),
        ("kind=graph", []),
        ("time=1h", [bad.id, good.id]),
        ("status=nonsense", [bad.id, good.id]),
        (f"below={bad.id}", [good.id]),
    ):
        page = (await browser.get(f"/runs?{query}")).text
        assert re.findall(r'<tr data-id="([^"]+)"', page) == found, query


async def test_a_run_shows_its_calls_result_and_code(console: Console, browser: Browser) -> None:
    made = await run(console, "rows = [{'n': await tools.double(n=k)} for k in (1, 2)]\nprint('said')\nrows")
    page = (await browser.get(f"/runs/{made.id}")).text
    text = words(page)
    for part in ("3 spans", "double", "n=2", "said", "Result", "completed"):
        assert part in text
    assert re.search(r"<td><bdi>4</bdi></td>", page)
    call = (await browser.get(f"/runs/{made.id}?call=run/2")).text
    assert 'id="call-title"><bdi>double</bdi>' in call
    assert "Arguments" in call
    rows = (await browser.get(f"/runs/{made.id}/spans")).json()
    assert [one["path"] for one in rows["spans"]] == ["run", "run/1", "run/2"]
    value = await browser.get(f"/runs/{made.id}/value")
    assert json.loads(value.content) == [{"n": 2}, {"n": 4}]
    assert value.headers["content-disposition"].startswith("attachment;")


async def test_a_failed_run_marks_its_line_and_says_why(console: Console, browser: Browser) -> None:
    made = await run(console, "x = ['<b onclick=y>']\nx[5]\n")
    page = (await browser.get(f"/runs/{made.id}")).text
    assert "Why it failed" in page
    marked = re.search(r'<li id="line-[0-9]+" class="marked">(.*?)</li>', page)
    assert marked is not None
    assert words(marked[1]).startswith("x[ 5 ]")
    assert "list index out of range" in marked[1]
    assert "Traceback" in page
    assert '<dt><bdi class="mono">x</bdi></dt><dd><bdi class="mono">[&#39;&lt;b onclick=y&gt;&#39;]</bdi></dd>' in page


async def test_files_are_downloads_and_pictures_are_shown(console: Console, browser: Browser) -> None:
    made = await run(
        console,
        "open('a.txt', 'w').write('hi')\nopen('p.png', 'wb').write(b'\\x89PNG\\r\\n\\x1a\\n' + b'x' * 20)\n"
        "open('fake.png', 'w').write('<svg xmlns=\"x\" onload=\"alert(1)\"/>')\n1",
    )
    page = (await browser.get(f"/runs/{made.id}")).text
    assert f"/console/runs/{made.id}/pictures/p.png" in page
    assert "pictures/fake.png" not in page
    answer = await browser.get(f"/runs/{made.id}/files/a.txt")
    assert (answer.content, answer.headers["content-type"]) == (b"hi", "application/octet-stream")
    shown = await browser.get(f"/runs/{made.id}/pictures/p.png")
    assert shown.headers["content-type"] == "image/png"
    assert "sandbox" in shown.headers["content-security-policy"]
    assert (await browser.get(f"/runs/{made.id}/pictures/fake.png")).status_code == 404
    assert (await browser.get(f"/runs/{made.id}/files/none.txt")).status_code == 404


async def test_a_file_of_a_plans_task_is_found_by_its_path(console: Console, browser: Browser) -> None:
    code = "open('p.png', 'wb').write(b'\\x89PNG\\r\\n\\x1a\\n' + b'x' * 20)\n1"
    done = await console.engine.execute(Plan.model_validate({"task": [{"id": "draw", "code": code}]}))
    page = (await browser.get(f"/runs/{done.execution_id}")).text
    for address in ("files/draw/p.png", "pictures/draw/p.png"):
        assert f"/console/runs/{done.execution_id}/{address}" in page
        assert (await browser.get(f"/runs/{done.execution_id}/{address}")).status_code == 200


async def test_a_page_has_the_stamp_of_what_it_shows(console: Console, browser: Browser) -> None:
    done = await console.engine.execute(Plan.model_validate({"task": [{"id": "one", "code": "1"}]}))
    for path in (f"/runs/{done.execution_id}", f"/runs/{done.execution_id}/record", f"/plans/run/{done.execution_id}"):
        found = re.search(r"data-topics='([^']+)'", (await browser.get(path)).text)
        assert found is not None
        for topic, stamp in json.loads(html.unescape(found[1])).items():
            assert stamp == await console.feed.stamp(console.viewer(LOCAL), topic)


async def test_the_record_is_there(console: Console, browser: Browser) -> None:
    made = await run(console, "await tools.double(n=3)")
    page = words((await browser.get(f"/runs/{made.id}/record")).text)
    for kind in ("created", "guest", "call", "answer", "used", "step_finished", "status"):
        assert kind in page
    assert "Go on" not in page


async def test_a_long_record_is_read_a_page_at_a_time(console: Console, browser: Browser) -> None:
    made = await run(console, "for n in range(150):\n    await tools.double(n=n)\n")
    address, seen = f"/runs/{made.id}/record", []
    while address:
        page = (await browser.get(address)).text
        rows = re.findall(r'<tr data-id="([0-9]+)"', page)
        assert 0 < len(rows) <= 200
        seen += [int(row) for row in rows]
        found = re.search(r'<a href="/console([^"]+)" rel="next">', page)
        address = html.unescape(found[1]) if found else ""
    last = (await console.engine.records.timeline(made.id)).seq
    assert seen == list(range(1, last + 1))
    assert last > 400


async def test_a_run_can_be_run_again_with_other_inputs(console: Console, browser: Browser) -> None:
    made = await run(console, "n + 1", inputs={"n": 1})
    form = (await browser.get(f"/runs/{made.id}/again")).text
    assert "&#34;n&#34;: 1" in form
    wrong = await browser.post(f"/runs/{made.id}/again", {"code": "n + 1", "inputs": "[1"})
    assert (wrong.status_code, "not JSON" in wrong.text) == (400, True)
    answer = await browser.post(f"/runs/{made.id}/again", {"code": "n + 1", "inputs": '{"n": 41}'})
    assert answer.status_code == 303
    assert answer.headers["location"] != f"/console/runs/{made.id}"
    page = await browser.http.get(answer.headers["location"])
    assert "42" in words(page.text)


async def test_a_run_can_be_saved_as_a_tool(console: Console, browser: Browser) -> None:
    made = await run(console, "n * 3", inputs={"n": 2})
    assert (await browser.get(f"/runs/{made.id}/save")).status_code == 200
    wrong = await browser.post(f"/runs/{made.id}/save", {"name": "not a name"})
    assert wrong.status_code == 400
    answer = await browser.post(f"/runs/{made.id}/save", {"name": "triple", "about": "Three times."})
    assert answer.status_code == 303
    assert await console.composer.call("triple", n=5) == 15


async def test_a_call_is_approved_with_what_was_shown(console: Console, browser: Browser) -> None:
    made = await run(console, "await tools.drop(table='logs')")
    assert made.status == "paused"
    page = (await browser.get("/approvals")).text
    assert "logs" in words(page)
    assert "1 call waiting" in words(page)
    ticket = re.search(r'name="call" value="([^"]+)"', page)
    assert ticket is not None
    answer = await browser.post(
        "/approvals/decide",
        {"call": ticket[1], "decision": "approve", "resume": "yes", "comment": "they are old"},
    )
    assert answer.status_code == 303
    await until(console, made.id, "completed")
    page = (await browser.get(f"/runs/{made.id}?call=run/1")).text
    assert "they are old" in page
    assert "dropped logs" in page
    assert "Nothing waits for you" in (await browser.get("/approvals")).text


async def test_a_call_is_rejected(console: Console, browser: Browser) -> None:
    made = await run(console, "await tools.drop(table='logs')")
    ticket = re.search(r'name="call" value="([^"]+)"', (await browser.get("/approvals")).text)
    assert ticket is not None
    await browser.post("/approvals/decide", {"call": ticket[1], "decision": "reject"})
    state = await console.engine.status(made.id)
    assert [one.approved for one in state.decisions.values()] == [False]


async def test_a_paused_run_is_interrupted_and_removed_after_a_question(console: Console, browser: Browser) -> None:
    made, over = await run(console, "await tools.drop(table='logs')"), await run(console, "1")
    question = await browser.post("/runs/interrupt", {"run": made.id})
    assert "Interrupt 1 run?" in question.text
    assert (await console.engine.status(made.id)).status == "paused"
    done = await browser.post("/runs/interrupt", {"run": made.id, "sure": "yes"})
    assert done.status_code == 303
    assert (await console.engine.status(made.id)).status == "interrupted"
    question = await browser.post("/runs/remove", {"run": [made.id, over.id]})
    assert "Remove the record of 2 runs" in question.text
    await browser.post("/runs/remove", {"run": [made.id, over.id], "sure": "yes"})
    page = (await browser.get("/runs")).text
    assert "1 run removed; 1 kept because they can be resumed" in page
    assert (over.id in page, made.id in page) == (False, True)


async def test_what_keeps_a_run_from_going_on_is_shown(console: Console, browser: Browser) -> None:
    made = await run(console, "1 / 0")
    answer = await browser.post(f"/runs/{made.id}/resume")
    assert answer.status_code == 409
    assert "failed by its own doing" in words(answer.text).replace("&#39;", "'")


async def test_a_plan_whose_file_has_changed_goes_on_as_it_was_when_somebody_says_so(
    console: Console, browser: Browser
) -> None:
    engine = console.engine
    file = engine.project / "plan.toml"
    file.write_text('[[task]]\nid = "one"\ncode = "await tools.drop(table=\'logs\')"\n')
    started = await engine.start(read_plan(file), plan_file=str(file))
    await engine.wait(started)
    assert (await engine.status(started)).status == "paused"
    file.write_text(file.read_text().replace("logs", "<b>all</b>"))
    assert (await browser.post(f"/runs/{started}/resume")).status_code == 303  # nobody has trusted the folder
    engine.trusted = True
    answer = await browser.post(f"/runs/{started}/resume", {"unfinished": "retry"})
    assert answer.status_code == 409
    assert "plan.toml has changed since: one changed" in answer.text
    assert "one.code + await tools.drop(table=&#39;&lt;b&gt;all&lt;/b&gt;&#39;)" in answer.text
    assert 'name="unfinished" value="retry"' in answer.text  # what was answered before is not asked again
    assert 'name="plan" value="kept"' in answer.text
    assert f"go-ent resume {short_id(started)} --plan" in answer.text
    assert (await browser.post(f"/runs/{started}/resume", {"plan": "kept"})).status_code == 303


async def test_health_has_the_findings_of_doctor(browser: Browser) -> None:
    page = words((await browser.get("/health")).text)
    for part in ("platform", "Workers", "Runtimes", "Limits of a run"):
        assert part in page


async def test_long_timelines_are_read_in_parts(console: Console, browser: Browser) -> None:
    made = await run(console, "for n in range(450):\n    await tools.double(n=n)\n")
    page = (await browser.get(f"/runs/{made.id}")).text
    assert page.count('class="row ') == 200
    assert 'data-count="451"' in page
    later = (await browser.get(f"/runs/{made.id}/spans?from=400&count=100")).json()
    assert (later["count"], len(later["spans"]), later["spans"][0]["path"]) == (451, 51, "run/400")
    assert (await browser.get(f"/runs/{made.id}/spans?from=99999999999999&count=9")).json()["spans"] == []

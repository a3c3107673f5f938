"""The console's frame: entering and leaving, pages that are not there, what is live, the files that pages load."""

from __future__ import annotations

import asyncio
import json
import queue
import re
import threading
from pathlib import Path

import pytest

from go_ent.engine.console.app import Console
from go_ent.engine.console.changes import Changes
from go_ent.engine.console.visit import local, url
from go_ent.engine.server.calls.callers import LOCAL
from tests.support.console import Browser, run
from tests.support.watching import Told, settle


async def test_an_invitation_becomes_a_session_and_leaves_the_address(console: Console) -> None:
    browser = Browser(console)
    answer = await browser.http.get(console.invite(LOCAL), headers={"sec-fetch-site": "none"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/console")
    assert (await browser.get("/runs")).status_code == 200
    await browser.close()


async def test_a_stranger_is_told_how_to_get_in(console: Console) -> None:
    browser = Browser(console)
    answer = await browser.get("/runs")
    assert answer.status_code == 401
    assert "go-ent console" in answer.text
    assert str(console.engine.project) not in answer.text
    assert (await browser.get("/nowhere")).status_code == 401
    assert (await browser.get("/events?t=runs")).status_code == 401
    await browser.close()


async def test_leaving_ends_the_session(browser: Browser) -> None:
    assert (await browser.post("/leave")).status_code == 401
    assert (await browser.get("/runs")).status_code == 401


async def test_a_page_that_is_not_there(browser: Browser) -> None:
    answer = await browser.get("/nowhere")
    assert answer.status_code == 404
    assert "there is no such page" in answer.text


async def test_everything_that_a_page_loads_is_there_and_lasts(browser: Browser) -> None:
    page = (await browser.get("/runs")).text
    loaded = re.findall(r'(?:src|href)="(/console/static/[^"]+)"', page)
    assert len(loaded) >= 3
    for address in loaded:
        answer = await browser.http.get(address)
        assert answer.status_code == 200, address
        assert "immutable" in answer.headers["cache-control"]
        for name in re.findall(r'from "\./([a-z_]+\.js)"', answer.text):
            assert (await browser.http.get(f"{address.rpartition('/')[0]}/{name}")).status_code == 200
    assert (await browser.get("/static/x/../app.py")).status_code == 404
    assert (await browser.get("/static/x/app.py")).status_code == 404


async def test_nothing_of_a_page_is_inline(browser: Browser) -> None:
    page = (await browser.get("/runs")).text
    assert not re.search(r"<script(?![^>]*\ssrc=)", page)
    assert not re.search(r"<style|\sstyle=|\son[a-z]+=", page)


async def test_a_stream_says_what_has_changed(console: Console) -> None:
    viewer = console.viewer(LOCAL)
    events = await console.feed.stream(viewer, ["runs"])
    assert (await anext(events)).startswith("retry:")
    first = json.loads((await anext(events)).removeprefix("data: "))
    assert first["topic"] == "runs"
    await run(console, "1 + 1")
    async with asyncio.timeout(60):
        then = json.loads((await anext(events)).removeprefix("data: "))
    assert then["stamp"] != first["stamp"]
    await events.aclose()  # type: ignore[attr-defined]


async def test_nobody_looks_while_nothing_changes(console: Console, project: Path) -> None:
    """The looks themselves change nothing that is watched: else each would bring the next."""
    done = await run(console, "1 + 1")
    told: Told = queue.Queue()
    changes = Changes(console.engine, console.composer, lambda: told.put(None))
    changes.follow([done.id])
    topics = ("runs", "approvals", "tools", "budget", f"run:{done.id}")
    for topic in topics:  # the first look may make what it needs
        await console.feed.stamp(console.viewer(LOCAL), topic)
    await asyncio.to_thread(settle, told, project / ".go-ent")
    for topic in topics * 3:
        await console.feed.stamp(console.viewer(LOCAL), topic)
    await asyncio.to_thread(settle, told, project / ".go-ent", most=1)
    await asyncio.to_thread(changes.close)


async def test_a_look_is_taken_when_something_changes_and_ends_with_the_last_stream(console: Console) -> None:
    events = await console.feed.stream(console.viewer(LOCAL), ["runs"])
    async with asyncio.timeout(60):
        assert [(await anext(events))[:5] for _ in range(2)] == ["retry", "data:"]
        await run(console, "2 + 2")
        assert (await anext(events)).startswith("data:")
        await events.aclose()  # type: ignore[attr-defined]
        for thread in threading.enumerate():
            if thread.name == "folder watch":
                await asyncio.to_thread(thread.join)


async def test_a_stream_ends_with_the_console(console: Console) -> None:
    events = await console.feed.stream(console.viewer(LOCAL), ["runs"])
    assert (await anext(events)).startswith("retry:")
    assert (await anext(events)).startswith("data:")
    await console.feed.close()
    assert [event async for event in events] == ["event: bye\ndata: {}\n\n"]


async def test_a_stream_of_nothing_that_is_there(browser: Browser) -> None:
    assert (await browser.get("/events?t=nothing")).status_code == 404
    assert (await browser.get("/events?" + "&".join(f"t=runs:{n}" for n in range(50)))).status_code == 429


@pytest.mark.parametrize(
    "address",
    [
        "https://elsewhere/",
        "//elsewhere/console",
        "/console//elsewhere",
        "/console\\@elsewhere",
        "/consoles",
        "javascript:alert(1)",
        "/console/\r\nx: y",
        "",
    ],
)
def test_the_way_back_stays_here(address: str) -> None:
    assert local(address) == "/console"
    assert local("/console/runs?status=failed") == "/console/runs?status=failed"


def test_addresses_are_quoted() -> None:
    assert url("/runs/a b", status="x&y", none=None) == "/console/runs/a%20b?status=x%26y"


def test_templates_have_no_inline_script_or_style() -> None:
    folder = Path(__file__).parents[3] / "engine" / "console" / "templates"
    for path in folder.glob("*.html"):
        text = path.read_text()
        assert not re.search(r"<script(?![^>]*\ssrc=)|<style|\sstyle=|\son[a-z]+=|\|\s*safe\b", text), path
    for path in (folder.parent / "static").glob("*.js"):
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(", path.read_text()), path

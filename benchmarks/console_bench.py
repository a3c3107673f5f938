"""The figures of the console: how long a warm server takes for each page, also of large runs and graphs, and what open pages cost a run.

Pages are asked for in the process that renders them: sign-in, guard and rendering count, the network and the browser do not.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import importlib.util
import shutil
import time
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2

from benchmarks.measure import Row, in_turns, median
from benchmarks.report import Report, command, scratch
from go_ent.composer import Composer
from go_ent.engine import Engine
from go_ent.engine.console.app import Console
from go_ent.engine.console.guard import Access
from go_ent.engine.console.pages import all_pages
from go_ent.engine.guest_runs.runs import GuestOrder
from go_ent.engine.server.calls.callers import LOCAL
from go_ent.engine.strategies.plan import read_plan
from tests.support.consoles import end_console, start_console

HOST = "127.0.0.1:8700"
MOST_MS, MOST_COST = 150.0, 1.05
CALLS, TASKS, PAGES = 10_000, 2_000, 50
CONFIG = f"[limits]\nmax_tool_calls = {2 * CALLS}\n"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
PAINT = """() => new Promise((done) => new PerformanceObserver((list) => {
  for (const one of list.getEntriesByName("first-contentful-paint")) done(one.startTime);
}).observe({ type: "paint", buffered: true }))"""
LISTED = ("runs", "approvals", "tools", "plans", "playground", "budget", "health")


async def add(n: int) -> int:
    """Add one."""
    return n + 1


@contextlib.asynccontextmanager
async def opened(project: Path) -> AsyncIterator[tuple[Console, httpx2.AsyncClient]]:
    """The console of a project, and a client that is signed in."""
    (project / ".go-ent").mkdir()
    (project / ".go-ent" / "config.toml").write_text(CONFIG)
    async with (
        Composer(project, tools=[add], trusted=True) as composer,
        Engine(project, composer=composer, trusted=True) as engine,
    ):
        console = Console(engine, composer, all_pages(), Access(frozenset({HOST})))
        transport = httpx2.ASGITransport(console)
        async with httpx2.AsyncClient(transport=transport, base_url=f"http://{HOST}", timeout=120) as client:
            await client.get(console.invite(LOCAL), headers={"sec-fetch-site": "none"})
            client.headers["sec-fetch-site"] = "same-origin"
            gc.freeze()  # as `go-ent console` does when it has started
            try:
                yield console, client
            finally:
                await console.close()


async def run(console: Console, code: str) -> str:
    done = await console.engine.guests.run(GuestOrder(code=code))
    assert done.status == "completed", done.error
    assert done.id is not None
    return done.id


async def loads(client: httpx2.AsyncClient, address: str, rounds: int) -> tuple[float, float]:
    """Milliseconds of the first load, and the median of the others."""
    found = []
    for _ in range(rounds + 1):
        began = time.perf_counter()
        answer = await client.get(address)
        found.append((time.perf_counter() - began) * 1000)
        assert answer.status_code == 200, (address, answer.status_code)
    return found[0], median(found[1:])


async def pages(
    console: Console, client: httpx2.AsyncClient, project: Path, rounds: int, size: int
) -> tuple[list[Row], str]:
    """The time of each page, and the id of the run with many calls."""
    small = await run(console, "[await tools.add(n=n) for n in range(20)]")
    large = await run(console, f"for n in range({CALLS // size}):\n    await tools.add(n=n)")
    tasks = TASKS // size
    (project / "large.toml").write_text(
        "\n".join(
            f'[[task]]\nid = "t{n}"\ncode = "1"\n' + f'depends_on = ["t{n // 3}"]\n' * (n > 0) for n in range(tasks)
        )
    )
    graph = await console.engine.execute(read_plan(project / "large.toml"))
    shown = {
        **{name: f"/console/{name}" for name in LISTED},
        "a run": f"/console/runs/{small}",
        f"a run with {CALLS // size:,} calls": f"/console/runs/{large}",
        f"a graph of {tasks:,} tasks": "/console/plans/file?name=large.toml",
        f"a run of a graph of {tasks:,} tasks": f"/console/plans/run/{graph.execution_id}",
    }
    rows = []
    for name, address in shown.items():
        first, then = await loads(client, address, rounds)
        note = f"the first load: {first:.0f} ms"
        rows.append(Row(f"load: {name}", "warm", then, "ms", must=MOST_MS, bound_on="value", note=note))
    return rows, large


@contextlib.asynccontextmanager
async def watched(console: Console, count: int) -> AsyncIterator[list[int]]:
    """While so many pages are open; the events that they got."""
    got = [0]

    async def follow() -> None:
        async for event in await console.feed.stream(console.viewer(LOCAL), ["runs", "approvals"]):
            got[0] += event.startswith("data:")

    tasks = [asyncio.create_task(follow()) for _ in range(count)]
    try:
        yield got
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def live(console: Console, rounds: int) -> list[Row]:
    code = "for n in range(400):\n    await tools.add(n=n)"
    events, seconds = 0, 0.0

    async def alone() -> float:
        began = time.perf_counter()
        await run(console, code)
        return time.perf_counter() - began

    async def looked_at() -> float:
        nonlocal events, seconds
        async with watched(console, PAGES) as got:
            await asyncio.sleep(0.5)  # their first looks are over
            before = got[0]
            took = await alone()
            await asyncio.sleep(0.5)
            events, seconds = events + got[0] - before, seconds + took + 0.5
        return took

    without, with_pages = await in_turns(rounds, alone, looked_at)
    cost = Row.of(
        f"a run of 400 calls while {PAGES} pages are open",
        "",
        [1000 * one for one in with_pages],
        "ms",
        [1000 * one for one in without],
        must=MOST_COST,
        baseline_name="no page",
        gated=False,
    )
    told = Row("events to pages", f"{PAGES} pages", events / seconds, "a second", better="higher")
    return [cost, told]


def paints(project: Path, large: str, rounds: int, size: int) -> list[Row]:
    """How long a real Chromium takes to the first content of a page, from a console in a process of its own."""
    program = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if program is None or importlib.util.find_spec("playwright") is None:
        return []
    from playwright.sync_api import sync_playwright

    console, address = start_console(project, GO_ENT_TRUST_PROJECT="1")
    try:
        with sync_playwright() as driver:
            browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
            page = browser.new_page(viewport={"width": 1440, "height": 900})
            page.goto(address)
            base = address.partition("/console")[0]
            shown = {
                "runs": "/console/runs",
                f"a run with {CALLS // size:,} calls": f"/console/runs/{large}",
                f"a graph of {TASKS // size:,} tasks": "/console/plans/file?name=large.toml",
            }
            rows = []
            for name, path in shown.items():
                times: list[float] = []
                for _ in range(rounds + 1):
                    page.goto(base + path)
                    times.append(float(page.evaluate(PAINT)))
                rows.append(
                    Row(f"first paint: {name}", "Chromium", median(times[1:]), "ms", note=f"first: {times[0]:.0f} ms")
                )
            browser.close()
            return rows
    finally:
        end_console(console)


async def _measure(quick: bool) -> list[Row]:
    with scratch() as folder:
        project, size = Path(folder), 10 if quick else 1
        async with opened(project) as (console, client):
            rows, large = await pages(console, client, project, 3 if quick else 15, size)
            rows += await live(console, 5 if quick else 25)
        return rows + await asyncio.to_thread(paints, project, large, 3 if quick else 15, size)


INTRO = """\
How long a warm server takes for each page of the console, and what open pages cost a run. Pages are asked for in the process that
renders them: sign-in, guard and rendering count, the network and the browser do not. The first paint is that of a real Chromium,
where there is one, from a console in a process of its own. Made by `make bench`."""


def measure(quick: bool) -> Report:
    return Report("console", "The console", INTRO, asyncio.run(_measure(quick)), quick)


if __name__ == "__main__":
    command(measure, __doc__)

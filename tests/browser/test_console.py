"""The console in a real browser: what people see and do, by mouse and by keyboard, on small and large screens."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import Site

pytestmark = pytest.mark.real
PATIENCE_MS = 120_000  # for what another process does; far more than it takes
PAGES = ("runs", "approvals", "tools", "plans", "playground", "budget", "health")
# The accessible name and the contrast of everything that is shown; what is hidden, or has no text, is passed over.
LOOK = Path(__file__).with_name("look.js").read_text()


@pytest.fixture(scope="module")
def addresses(site: Site) -> dict[str, str]:
    """Every page there is, and one of each kind of thing."""
    rows = site.rows()
    graph, failed, ended = (
        next(row["id"] for row in rows if (row["kind"], row["status"]) == wanted)
        for wanted in (("graph", "failed"), ("code", "failed"), ("code", "completed"))
    )
    return {
        **{name: f"/console/{name}" for name in PAGES},
        "run": f"/console/runs/{ended}",
        "run-failed": f"/console/runs/{failed}",
        "run-of-a-plan": f"/console/runs/{graph}",
        "record": f"/console/runs/{ended}/record",
        "plan": f"/console/plans/run/{graph}?critical=yes&task=sum",
        "plan-file": "/console/plans/file?name=plan.toml",
        "tool": "/console/tools/composed/count_words",
        "tools-found": "/console/tools?q=count+words",
    }


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1440])
def test_every_page_can_be_read(
    site: Site, chromium: Any, signed_in: Any, addresses: dict[str, str], scheme: str, width: int
) -> None:
    context = chromium.new_context(
        storage_state=signed_in, color_scheme=scheme, viewport={"width": width, "height": 900}, reduced_motion="reduce"
    )
    page = site.watch(context.new_page())
    wrong: dict[str, list[str]] = {}
    pictures = os.environ.get("SCREENSHOTS")
    for name, address in addresses.items():
        answer = page.goto(f"{site.origin}{address}")
        assert answer.status == 200, (name, answer.status)
        page.wait_for_selector(".live:not([data-state=wait])", state="attached")
        problems = page.evaluate(LOOK)
        if problems:
            wrong[f"{name} {scheme} {width}"] = problems[:5]
        if pictures:
            page.screenshot(path=Path(pictures) / f"{name}-{scheme}-{width}.png")
    pwned = page.evaluate("window.pwned")
    context.close()
    errors, site.errors = site.errors, []
    strangers, site.strangers = site.strangers, []
    assert (wrong, errors, strangers, pwned) == ({}, [], [], None)


def test_pages_can_be_read_without_scripts(
    site: Site, chromium: Any, signed_in: Any, addresses: dict[str, str]
) -> None:
    context = chromium.new_context(storage_state=signed_in, java_script_enabled=False)
    page = context.new_page()
    for name, address in addresses.items():
        assert page.goto(f"{site.origin}{address}").status == 200, name
        assert page.locator("main h1").inner_text().strip(), name
    context.close()


def test_a_run_appears_while_somebody_looks(site: Site, page: Any) -> None:
    page.goto(f"{site.origin}/console/runs")
    page.wait_for_selector(".live[data-state=live]")
    site.go_ent("exec", "-c", "'seen at once'")
    page.wait_for_selector("text=seen at once", timeout=PATIENCE_MS)


def test_a_graph_is_followed_to_its_end(site: Site, page: Any) -> None:
    (site.project / "slow.toml").write_text(
        "\n".join(
            f'[[task]]\nid = "s{n}"\ncode = "import asyncio\\nawait asyncio.sleep(0.7)"\n'
            + (f'depends_on = ["s{n - 1}"]\n' if n else "")
            for n in range(4)
        )
    )
    before = site.newest(kind="graph")
    with subprocess.Popen(
        [sys.executable, "-m", "go_ent", "run", "--plan", "slow.toml"],
        cwd=site.project,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as running:
        page.goto(f"{site.origin}/console/plans")
        page.locator(f"#plan-runs tr[data-id]:not([data-id='{before}']) a").first.wait_for(timeout=PATIENCE_MS)
        page.set_viewport_size({"width": 360, "height": 900})
        page.click("#plan-runs tr[data-id] a >> nth=0")
        page.locator(".graph-scroll").evaluate("graph => graph.scrollLeft = 250")
        page.locator(".box").nth(1).focus()
        page.locator(".box.completed").nth(3).wait_for(timeout=PATIENCE_MS)
        assert page.locator(".graph-scroll").evaluate("graph => graph.scrollLeft") == 250  # nobody is moved elsewhere
        assert "s1" in page.evaluate("document.activeElement.textContent")
        running.wait(60)


def test_code_is_written_completed_run_and_saved_as_a_tool(site: Site, page: Any) -> None:
    page.goto(f"{site.origin}/console/playground")
    area = page.locator("textarea[name=code]")
    area.fill("")
    area.type("rows = await tools.cou")
    page.wait_for_selector(".offers li >> text=count_words")
    area.press("Enter")
    area.type("(text='b a b')\nlen(rows)")
    assert "tools.count_words(text=" in area.input_value()
    area.press("Control+Enter")
    page.wait_for_selector("#came-to >> text=completed")
    assert "2" in page.locator("#came-to").inner_text()
    page.click("text=Save as a tool")
    page.fill("input[name=name]", "words_of_it")
    page.click("main button.main")
    page.wait_for_load_state()
    assert "words_of_it" in site.go_ent("tool", "list")


def test_a_tool_is_run_by_its_form(site: Site, page: Any) -> None:
    page.goto(f"{site.origin}/console/tools/composed/count_words")
    page.fill("[name='in.text']", "z z y")
    page.fill("[name='in.top']", "1")
    page.click("#run button.main")
    page.wait_for_url(re.compile(r"/console/runs/"))
    page.wait_for_selector("text=completed")
    assert "z" in page.locator("main").inner_text()


def test_everything_by_the_keyboard(site: Site, page: Any) -> None:
    page.goto(f"{site.origin}/console/runs")
    page.keyboard.press("?")
    page.wait_for_selector("dialog[open]")
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.keyboard.press("t")
    page.wait_for_url(re.compile(r"/console/tools$"))
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.type") == "search"
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.keyboard.press("r")
    page.wait_for_url(re.compile(r"/console/runs$"))
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    first = page.evaluate("document.querySelector('[data-id].at').dataset.id")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(re.escape(first)))
    page.keyboard.press("u")
    page.wait_for_url(re.compile(r"/console/runs$"))


def test_it_is_found_again_after_the_console_was_away(site: Site, page: Any) -> None:
    page.goto(f"{site.origin}/console/runs")
    page.wait_for_selector(".live[data-state=live]")
    page.context.set_offline(True)
    page.evaluate("window.dispatchEvent(new Event('pagehide'))")
    page.context.set_offline(False)
    page.evaluate("window.dispatchEvent(new Event('pageshow'))")
    page.wait_for_selector(".live[data-state=live]")

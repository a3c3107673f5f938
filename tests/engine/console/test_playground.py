"""The playground: code is run, its value shown, errors told; sessions are kept; nothing of it runs in the page."""

from __future__ import annotations

import html
import re

import pytest

from go_ent.engine.console.app import Console
from go_ent.engine.server.calls.callers import Caller
from tests.support.console import Browser, run

HOSTILE = "</textarea><script>alert(1)</script>"


async def execution(browser: Browser, **fields: str) -> tuple[str, str]:
    """The id of a run of the playground, and its page."""
    answer = await browser.post("/playground/run", fields)
    assert answer.status_code == 303, answer.text
    (found,) = re.findall(r"run=(\S+)", answer.headers["location"])
    return found, (await browser.get(f"/playground?run={found}")).text


async def test_code_is_run_and_shown_with_its_value(console: Console, browser: Browser) -> None:
    found, page = await execution(browser, code="[n * 2 for n in values]", inputs='{"values": [20, 21]}')
    assert (await console.engine.status(found)).status == "completed"
    assert "42" in re.sub(r"<[^>]*>", "", page)
    assert "[n * 2 for n in values]" in html.unescape(page)
    assert f"/console/runs/{found}/save" in page


async def test_an_error_is_told(console: Console, browser: Browser) -> None:
    _, page = await execution(browser, code="1 / 0")
    assert "ZeroDivisionError" in page


async def test_names_stay_in_a_session(console: Console, browser: Browser) -> None:
    await execution(browser, code="x = 40", session="trying")
    _, page = await execution(browser, code="x + 2", session="trying")
    assert "42" in re.sub(r"<[^>]*>", "", page)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"code": "  "}, "there is no code"),
        ({"code": "1", "inputs": "[1]"}, "inputs must be a JSON object"),
        ({"code": "1", "inputs": "{"}, "inputs must be a JSON object"),
        ({"code": "1", "session": "../x"}, "a session"),
    ],
)
async def test_what_can_not_be_run_is_refused(browser: Browser, fields: dict[str, str], said: str) -> None:
    answer = await browser.post("/playground/run", fields)
    assert answer.status_code == 400
    assert said in answer.text


async def test_hostile_code_stays_text(console: Console, browser: Browser) -> None:
    code = f"print('printed {HOSTILE}')\n'{HOSTILE}'"
    _, page = await execution(browser, code=code, inputs='{"a": "' + HOSTILE + '"}')
    assert HOSTILE not in page
    assert f"printed {html.escape(HOSTILE)}" in page


async def test_completion_offers_what_the_caller_may_call(console: Console, browser: Browser) -> None:
    await console.composer.compose(
        '# /// tool\n# name = "twice"\n# ///\ndef twice(n: int) -> int:\n    """Two times."""\n    return 2 * n\n'
    )
    offered = (await browser.get("/playground/tools")).json()
    assert {"name": "twice", "parameters": ["n"], "about": "Two times."} in offered
    other = await Browser(console).sign_in(Caller("someone", allow=()))
    assert (await other.get("/playground/tools")).json() == []
    theirs = await run(console, "1")
    assert (await other.get(f"/playground?run={theirs.id}")).status_code == 404
    found, _ = await execution(other, code="1 + 1")
    assert (await console.engine.status(found)).client == "someone"
    await other.close()

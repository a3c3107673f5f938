"""What people do with the console in a real browser: decide about calls, resume, save as a tool, fill in forms."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import Site

pytestmark = pytest.mark.real
PATIENCE_MS = 120_000  # for what another process does; far more than it takes
FORM = '''# /// tool
# name = "order"
# ///
from typing import Literal


def order(what: str, count: int, size: Literal["small", "large"] = "small", gift: bool = False,
          more: dict[str, int] | None = None) -> list[object]:
    """Order something."""
    return [what, count, size, gift, more]
'''


def waiting(page: Any, text: str) -> Any:
    return page.locator("article.request", has_text=text)


def ask(site: Site, *tables: str) -> str:
    """A run whose calls wait for a decision: its id."""
    calls = ", ".join(f"tools.drop(table={table!r})" for table in tables)
    site.go_ent("exec", "-c", f"import asyncio\nawait asyncio.gather({calls})", check=False)
    return site.newest(kind="code")


@pytest.mark.parametrize(("button", "came_to"), [("approve", "completed"), ("reject", "failed")])
def test_a_call_that_waits_is_decided_about_and_its_run_goes_on(
    site: Site, page: Any, button: str, came_to: str
) -> None:
    page.goto(f"{site.origin}/console/approvals")
    page.wait_for_selector(".live[data-state=live]")
    execution_id = ask(site, f"logs of {button}")
    waiting(page, f"logs of {button}").wait_for(timeout=PATIENCE_MS)  # it appears while somebody looks
    waiting(page, f"logs of {button}").locator("input[name=call]").check()
    page.fill("input[name=comment]", f"as agreed <b>{button}</b>")
    page.click(f"button[value={button}]")
    page.wait_for_selector("text=1 call")
    page.goto(f"{site.origin}/console/runs/{execution_id}")
    page.locator("#status", has_text=came_to).wait_for(timeout=PATIENCE_MS)
    assert ("dropped logs of approve" in page.locator("main").inner_text()) == (button == "approve")
    page.goto(f"{site.origin}/console/runs/{execution_id}/record")
    assert f"as agreed <b>{button}</b>" in page.locator("main").inner_text()  # the comment is kept, as it was written


def test_many_calls_are_decided_about_at_once_and_the_others_go_on_waiting(site: Site, page: Any) -> None:
    execution_id = ask(site, "first", "second", "third")
    page.goto(f"{site.origin}/console/approvals")
    for table in ("first", "second"):
        waiting(page, table).locator("input[name=call]").check()
    page.click("button[value=approve]")
    page.wait_for_selector("text=2 calls approved")
    assert page.locator("article.request").count() == 1
    page.goto(f"{site.origin}/console/runs/{execution_id}")
    assert "paused" in page.locator("#status").inner_text()
    page.click("text=Decide…")
    waiting(page, "third").locator("input[name=call]").check()
    page.click("button[value=approve]")
    page.goto(f"{site.origin}/console/runs/{execution_id}")
    page.locator("#status", has_text="completed").wait_for(timeout=PATIENCE_MS)


def test_only_what_was_shown_is_decided_about(site: Site, page: Any) -> None:
    execution_id = ask(site, "kept")
    page.goto(f"{site.origin}/console/approvals")
    box = waiting(page, "kept").locator("input[name=call]")
    box.check()
    box.evaluate("box => { box.value = box.value.slice(0, -64) + 'f'.repeat(64); }")  # another call was shown
    page.click("button[value=approve]")
    page.wait_for_selector(".notice.bad >> text=nothing was decided")
    assert site.rows()[0]["status"] == "paused"
    page.goto(f"{site.origin}/console/approvals")
    waiting(page, "kept").locator("input[name=call]").check()
    page.evaluate("window.dispatchEvent(new Event('pagehide'))")  # it is live no more, and shows what was
    site.go_ent("reject", execution_id, check=False)  # somebody decides elsewhere
    page.evaluate(
        "document.querySelector('#inbox form').requestSubmit(document.querySelector('button[value=approve]'))"
    )
    page.wait_for_selector(".notice >> text=nothing was decided")
    assert "dropped kept" not in site.go_ent("status", execution_id)


@pytest.fixture
def stopped(site: Site) -> Callable[[str], str]:
    """A run that was killed while a call of its was under way: nobody knows whether that was done."""

    def stop(text: str) -> str:
        hold, paid = site.project / "hold", site.project / "paid"
        hold.touch()
        code = f"[await tools.till.pay(text={text!r})]"
        with subprocess.Popen(
            [sys.executable, "-m", "go_ent", "exec", "-c", code],
            cwd=site.project,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        ) as running:
            wait_for(lambda: paid.exists() and text in paid.read_text())
            running.send_signal(signal.SIGKILL)
        hold.unlink()
        return site.newest(kind="code")

    return stop


def wait_for(there: Callable[[], bool]) -> None:
    """Wait for what another process does."""
    until = time.monotonic() + PATIENCE_MS / 1000
    while not there():
        assert time.monotonic() < until
        time.sleep(0.02)


@contextmanager
def at_the_till(site: Site, page: Any, code: str, said: str) -> Iterator[None]:
    """The live page of a run of code that waits in its payment of *said* until this ends."""
    hold, paid = site.project / "hold", site.project / "paid"
    hold.touch()
    with subprocess.Popen(
        [sys.executable, "-m", "go_ent", "exec", "-c", code],
        cwd=site.project,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as running:
        try:
            wait_for(lambda: paid.exists() and said in paid.read_text())
            page.goto(f"{site.origin}/console/runs/{site.newest(kind='code')}")
            page.wait_for_selector(".live[data-state=live]")
            yield
        finally:
            hold.unlink()
        running.wait(60)


def test_a_run_is_followed_to_its_result(site: Site, page: Any) -> None:
    code = "await tools.till.pay(text='while somebody looks')\nprint('printed at last')\n{'came': 'to its end'}"
    with at_the_till(site, page, code, "while somebody looks"):
        call = page.locator("#fall .row.call", has_text="till.pay")
        call.focus()
        assert "running" in call.get_attribute("class")
    page.locator("#whole", has_text="to its end").wait_for(timeout=PATIENCE_MS)
    page.locator("#whole", has_text="printed at last").wait_for()
    page.locator("#fall .row.call.completed").wait_for()
    assert "till.pay" in page.evaluate("document.activeElement.textContent")


def test_calls_of_several_runs_stand_below_their_own_while_they_come_in(site: Site, page: Any) -> None:
    first = ask(site, "asked first")
    page.goto(f"{site.origin}/console/approvals")
    page.wait_for_selector(".live[data-state=live]")
    waiting(page, "asked first").locator("input[name=call]").uncheck()
    waiting(page, "asked first").locator("input[name=call]").check()
    page.fill("input[name=comment]", "half a com")
    then = ask(site, "asked then")
    page.locator(f"section[id='{then}'] article", has_text="asked then").wait_for(timeout=PATIENCE_MS)
    for execution_id, table in ((first, "asked first"), (then, "asked then")):
        section = page.locator(f"section[id='{execution_id}']")
        assert section.locator("article").count() == 1
        assert table in section.locator("h2").inner_text()
        assert table in section.locator("article").inner_text()
    assert waiting(page, "asked first").locator("input[name=call]").is_checked()  # what was picked is still picked
    assert not waiting(page, "asked then").locator("input[name=call]").is_checked()
    assert page.locator("input[name=comment]").input_value() == "half a com"
    site.go_ent("reject", first, check=False)
    page.locator(f"section[id='{first}']").wait_for(state="detached", timeout=PATIENCE_MS)
    assert page.locator("article.request").count() == 1
    site.go_ent("reject", then, check=False)
    page.locator("text=Nothing waits for you").wait_for(timeout=PATIENCE_MS)


def test_a_long_timeline_grows_while_somebody_looks(site: Site, page: Any) -> None:
    code = (
        "for n in range(250):\n    await tools.count_words(text='a')\n"
        "await tools.till.pay(text='in the middle')\n"
        "for n in range(50):\n    await tools.count_words(text='b')\n'the end of it'"
    )
    with at_the_till(site, page, code, "in the middle"):
        page.locator("#fall .placed").first.wait_for()
        page.locator(".virtual").evaluate("box => box.scrollTop = 3000")
    page.locator("#whole", has_text="the end of it").wait_for(timeout=PATIENCE_MS)
    rows = page.locator(".virtual .space")
    wait_for(lambda: rows.evaluate("space => space.offsetHeight") == 302 * 26)
    assert page.locator(".virtual").evaluate("box => box.scrollTop") == 3000  # nobody is moved elsewhere
    page.locator(".virtual").evaluate("box => box.scrollTop = box.scrollHeight")
    page.locator("#fall .placed[data-id='run/301']").wait_for()  # the last of 301 calls
    assert page.locator("#fall .row:not(.placed)").count() == 0
    assert not page.locator("#fall-pages").is_visible()


@pytest.mark.parametrize(
    ("button", "came_to", "times"),
    [("Do them again", "completed", 2), ("Count them as done", "completed", 1), ("Let them fail", "failed", 1)],
)
def test_a_call_of_which_nobody_knows_is_a_question_with_buttons(
    site: Site, page: Any, stopped: Callable[[str], str], button: str, came_to: str, times: int
) -> None:
    execution_id = stopped(button)
    page.goto(f"{site.origin}/console/runs/{execution_id}")
    page.locator("#status", has_text="interrupted").wait_for()
    page.get_by_role("button", name="Resume").click()
    page.wait_for_selector("text=nobody knows")
    assert "till.pay" in page.locator("main").inner_text()
    with page.expect_navigation():
        page.get_by_role("button", name=button).click()
    page.locator("#status", has_text=came_to).wait_for(timeout=PATIENCE_MS)
    assert (site.project / "paid").read_text().splitlines().count(button) == times
    site.errors.clear()  # the browser notes that the question came with status 409


def test_a_plan_whose_tool_has_changed_is_resumed_after_the_question_about_its_call(site: Site, page: Any) -> None:
    step = '# /// tool\n# name = "step"\n# ///\ndef step(n: int) -> int:\n    """One step."""\n    return n + {}\n'
    (site.project / "step.py").write_text(step.format(1))
    site.go_ent("tool", "add", "step.py")
    hold, paid = site.project / "hold", site.project / "paid"
    (site.project / "two.toml").write_text(
        '[[task]]\nid = "one"\ntool = "step"\ninputs = { n = 1 }\n\n'
        '[[task]]\nid = "two"\ncode = "await tools.till.pay(text=\'the plan\')"\ndepends_on = ["one"]\n\n'
        '[[task]]\nid = "three"\ntool = "step"\ninputs = { n = 2 }\ndepends_on = ["two"]\n'
    )
    hold.touch()
    with subprocess.Popen(
        [sys.executable, "-m", "go_ent", "run", "--plan", "two.toml"],
        cwd=site.project,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as running:
        wait_for(lambda: paid.exists() and "the plan" in paid.read_text())
        running.send_signal(signal.SIGKILL)
    hold.unlink()
    (site.project / "step.py").write_text(step.format(10))
    site.go_ent("tool", "add", "step.py")
    page.goto(f"{site.origin}/console/runs/{site.newest(kind='graph')}")
    page.get_by_role("button", name="Resume").click()
    page.wait_for_selector("text=nobody knows")
    with page.expect_navigation():
        page.get_by_role("button", name="Do them again").click()
    page.locator("#status", has_text="completed").wait_for(timeout=PATIENCE_MS)
    page.click("text=Graph")
    page.locator(".box.completed").nth(2).wait_for()
    site.errors.clear()


def test_a_plan_whose_file_has_changed_says_so_and_goes_on_as_it_was(site: Site, page: Any) -> None:
    file = site.project / "changed.toml"
    file.write_text(
        '[[task]]\nid = "first"\ncode = "await tools.drop(table=\'of the plan\')"\n\n'
        '[[task]]\nid = "then"\ncode = "\'as it was\'"\ndepends_on = ["first"]\n'
    )
    site.go_ent("run", "--plan", file.name, check=False)  # it waits for the approval of its call
    execution_id = site.newest(kind="graph")
    file.write_text(file.read_text().replace("as it was", "as it is now"))
    site.go_ent("approve", execution_id)
    page.goto(f"{site.origin}/console/runs/{execution_id}")
    page.get_by_role("button", name="Resume").click()
    page.wait_for_selector("text=changed.toml has changed since: then changed")
    said = page.locator("main").inner_text()
    assert "then.code - 'as it was'" in said
    assert "then.code + 'as it is now'" in said
    assert "--plan" in page.locator(".copy").inner_text()  # how to take the changes
    page.get_by_role("link", name="Back").click()
    page.locator("#status", has_text="paused").wait_for()  # nothing has gone on
    page.get_by_role("button", name="Resume").click()
    with page.expect_navigation():
        page.get_by_role("button", name="Resume anyway").click()
    page.locator("#status", has_text="completed").wait_for(timeout=PATIENCE_MS)
    assert "as it was" in site.go_ent("output", execution_id)
    site.errors.clear()  # the browser notes that the notice came with status 409


def test_a_run_is_saved_as_a_tool_and_what_is_wrong_is_said_at_the_form(site: Site, page: Any) -> None:
    site.go_ent("exec", "-c", "limit = 3\nlist(range(limit))")
    page.goto(f"{site.origin}/console/runs/{site.newest(kind='code')}")
    page.click("text=Save as a tool")
    page.fill("input[name=name]", "upto")
    page.fill("input[name=param]", "nothing_of_it")
    page.click("main button.main")
    page.wait_for_selector(".notice.bad >> text=nothing_of_it")
    assert page.locator("input[name=name]").input_value() == "upto"  # what was typed is kept
    page.fill("input[name=param]", "limit")
    page.click("main button.main")
    page.wait_for_selector(".notice >> text=upto: version 1")
    page.goto(f"{site.origin}/console/tools/composed/upto")
    page.fill("[name='in.limit']", "2")
    page.click("#run button.main")
    page.wait_for_url(re.compile(r"/console/runs/"))
    page.locator("#status", has_text="completed").wait_for(timeout=PATIENCE_MS)
    site.errors.clear()


def test_a_form_has_a_field_for_each_kind_of_parameter(site: Site, page: Any, tmp_path: Path) -> None:
    (tmp_path / "order.py").write_text(FORM)
    site.go_ent("tool", "add", str(tmp_path / "order.py"))
    page.goto(f"{site.origin}/console/tools/composed/order")
    page.fill("[name='in.what']", "tea")
    page.fill("[name='in.count']", "many")
    page.select_option("[name='in.size']", "large")
    page.select_option("[name='in.gift']", "true")
    page.fill("[name='in.more']", '{"lemon": 2}')
    page.click("#run button.main")
    page.wait_for_selector(".notice.bad >> text=count must be an integer")
    assert page.locator("[name='in.what']").input_value() == "tea"  # what was typed is kept
    page.fill("[name='in.count']", "2")
    page.click("#run button.main")
    page.wait_for_url(re.compile(r"/console/runs/"))
    page.locator("#status", has_text="completed").wait_for(timeout=PATIENCE_MS)
    shown = page.locator("main").inner_text()
    assert all(part in shown for part in ("tea", "large", "lemon"))
    site.errors.clear()  # the browser notes the status 400


def test_a_call_is_decided_about_by_the_keyboard_alone(site: Site, page: Any) -> None:
    execution_id = ask(site, "typed", "typed too")
    page.goto(f"{site.origin}/console/runs")
    for key in ("g", "a"):
        page.keyboard.press(key)
    page.wait_for_url(re.compile(r"/console/approvals$"))
    for key in ("j", "x", "j", "x"):
        page.keyboard.press(key)
    assert page.locator("article.request input[name=call]:checked").count() == 2
    seen = []
    while not page.evaluate("document.activeElement.matches('input[name=comment]')"):
        page.keyboard.press("Tab")
        seen.append(page.evaluate("document.activeElement.tagName"))
        assert len(seen) < 60, seen
    page.keyboard.type("by hand")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.value") == "approve"
    page.keyboard.press("Enter")
    page.wait_for_selector("text=2 calls approved")
    page.goto(f"{site.origin}/console/runs/{execution_id}")
    page.locator("#status", has_text="completed").wait_for(timeout=PATIENCE_MS)


def test_health_shows_the_state_of_a_server_and_what_it_wrote(site: Site, page: Any) -> None:
    page.goto(f"{site.origin}/console/tools/of/till.pay")
    page.fill("[name='in.text']", "a bill")
    page.click("#run button.main")
    page.wait_for_url(re.compile(r"/console/runs/"))
    page.locator("#status", has_text="completed").wait_for(timeout=PATIENCE_MS)
    page.goto(f"{site.origin}/console/health")
    row = page.locator("tr[data-id^=server-]", has_text="till")
    assert "connected" in row.inner_text()
    row.locator("summary").click()
    row.locator("text=the till is low").wait_for()

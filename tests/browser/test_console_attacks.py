"""Other pages, and hostile text, against the console in a real browser that is signed in to it."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.browser.conftest import HOSTILE, Site

pytestmark = pytest.mark.real


@pytest.fixture
def elsewhere() -> Iterator[tuple[str, dict[str, str]]]:
    """Another site on this machine: its origin, and the pages that it has."""
    pages: dict[str, str] = {}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            text = pages.get(self.path, "").encode()
            self.send_response(200 if text else 404)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None: ...

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://localhost:{server.server_port}", pages
        server.shutdown()


@pytest.fixture
def signed(chromium: Any, signed_in: Any) -> Iterator[Any]:
    """Somebody who is signed in, and goes wherever they are led."""
    context = chromium.new_context(storage_state=signed_in)
    yield context
    context.close()


@pytest.mark.attack("console", "framing")
def test_another_page_can_not_show_it_in_a_frame(
    site: Site, signed: Any, elsewhere: tuple[str, dict[str, str]]
) -> None:
    origin, pages = elsewhere
    pages["/"] = f'<iframe id="f" src="{site.origin}/console/approvals"></iframe>'
    page = signed.new_page()
    page.goto(origin)
    page.locator("#f").content_frame.locator("body").wait_for(state="attached")  # the browser's own word for refused
    assert len(page.frames) == 2
    assert all("go-ent console" not in frame.content() for frame in page.frames)


@pytest.mark.attack("console", "a forged form")
def test_another_page_can_not_run_code(site: Site, signed: Any, elsewhere: tuple[str, dict[str, str]]) -> None:
    origin, pages = elsewhere
    pages["/"] = (
        f'<form id="f" method="post" action="{site.origin}/console/playground/run">'
        '<input name="code" value="1"><input name="csrf" value="x"></form>'
    )
    before = len(site.rows())
    page = signed.new_page()
    page.goto(origin)
    with page.expect_navigation():
        page.evaluate("document.getElementById('f').submit()")
    assert "another" in page.inner_text("body") or "not signed in" in page.inner_text("body")
    assert len(site.rows()) == before


@pytest.mark.attack("console", "reading from another origin")
def test_another_page_can_not_read_it(site: Site, signed: Any, elsewhere: tuple[str, dict[str, str]]) -> None:
    origin, pages = elsewhere
    pages["/"] = "<p>hello</p>"
    page = signed.new_page()
    page.goto(origin)
    for path in ("runs", "events?t=runs", "playground/tools"):
        said = page.evaluate(
            """address => fetch(address, {credentials: 'include'}).then(a => a.text(), () => 'refused')""",
            f"{site.origin}/console/{path}",
        )
        assert said == "refused", path
        shown = page.evaluate(
            """address => fetch(address, {credentials: 'include', mode: 'no-cors'}).then(a => a.text(), () => '')""",
            f"{site.origin}/console/{path}",
        )
        assert shown == "", path


@pytest.mark.attack("console", "DNS rebinding")
def test_another_name_for_this_machine_leads_nowhere(site: Site, signed: Any) -> None:
    port = urlsplit(site.origin).port
    page = signed.new_page()
    answer = page.goto(f"http://evil.test:{port}/console/runs")
    assert answer.status == 421
    assert "shop" not in page.content()


@pytest.mark.attack("console", "a link from elsewhere")
def test_a_link_of_another_page_opens_nothing(site: Site, signed: Any, elsewhere: tuple[str, dict[str, str]]) -> None:
    origin, pages = elsewhere
    pages["/"] = f'<a id="a" href="{site.origin}/console/runs">look</a>'
    page = signed.new_page()
    page.goto(origin)
    with page.expect_navigation():
        page.click("#a")
    assert "Runs" not in page.content()


@pytest.mark.attack("console", "stored XSS")
def test_text_of_guests_tools_and_plans_runs_nowhere(site: Site, page: Any) -> None:
    """Every text that somebody else can fill, on every page that shows it."""
    (site.project / "evil.toml").write_text(
        f"name = 'x'\n[[task]]\nid = \"t\"\ncode = '''{HOSTILE!r}'''\n[task.metadata]\nx = {json.dumps(HOSTILE)}\n"
    )
    (site.project / ".go-ent" / "composed-tools" / "evil.py").write_text(
        f'# /// tool\n# name = "evil"\n# ///\ndef evil(a: str = {HOSTILE!r}) -> str:\n    """{HOSTILE}\n\n'
        f'    [x](javascript:window.pwned=1) ![y](javascript:window.pwned=1)\n    """\n    return a\n'
    )
    site.go_ent("run", "--plan", "evil.toml", check=False)
    site.go_ent("exec", "-c", f"open({'<img src=x onerror=window.pwned=1>.svg'!r}, 'w').write({SVG!r})")
    rows = site.rows()
    addresses = ["runs", "tools", "tools?q=evil", "tools/composed/evil", "tools/of/evil", "playground", "plans"]
    addresses += ["plans/file?name=evil.toml", "budget", "approvals", "health"]
    for row in rows[:12]:
        addresses += [f"runs/{row['id']}", f"runs/{row['id']}/record"]
    for address in addresses:
        page.goto(f"{site.origin}/console/{address}")
        page.wait_for_load_state()
        for one in page.locator("details:not([open]) > summary").all()[:20]:
            if one.is_visible():
                one.click()
        assert page.evaluate("window.pwned") is None, address
        assert page.locator("main img[src=x], main script, a[href^='javascript:' i]").count() == 0, address
    (site.project / ".go-ent" / "composed-tools" / "evil.py").unlink()
    (site.project / "evil.toml").unlink()


SVG = '<svg xmlns="http://www.w3.org/2000/svg"><script>window.pwned=1</script><image href="https://elsewhere/x"/></svg>'


@pytest.mark.attack("console", "a hostile picture")
def test_a_picture_that_is_a_program_is_only_saved(site: Site, page: Any) -> None:
    site.go_ent("exec", "-c", f"open('a.svg', 'w').write({SVG!r})\nopen('b.png', 'w').write({SVG!r})")
    run = site.newest()
    page.goto(f"{site.origin}/console/runs/{run}")
    assert page.locator("main img[src*='.svg'], main img[src*='b.png'], main object, main embed").count() == 0
    for name in ("a.svg", "b.png"):
        answer = page.request.get(f"{site.origin}/console/runs/{run}/files/{name}", headers={"sec-fetch-site": "none"})
        assert answer.headers["content-disposition"].startswith("attachment")
        assert "sandbox" in answer.headers["content-security-policy"]
        shown = page.request.get(
            f"{site.origin}/console/runs/{run}/pictures/{name}", headers={"sec-fetch-site": "none"}
        )
        assert shown.status == 404


@pytest.mark.attack("console", "a stolen address")
def test_an_address_that_was_used_opens_nothing(site: Site, chromium: Any, signed_in: Any) -> None:
    context = chromium.new_context()
    page = context.new_page()
    assert page.goto(site.address).status == 401
    assert "good once" in page.content() or "used already" in page.content()
    context.close()


@pytest.mark.attack("console", "a script that was let in")
def test_even_a_script_in_a_page_would_not_run(site: Site, page: Any) -> None:
    """The policy holds by itself, if one day some text were not escaped."""
    page.goto(f"{site.origin}/console/runs")
    said = page.evaluate(
        """() => { const s = document.createElement('script');
        try { s.textContent = 'window.pwned = 1'; document.body.append(s); } catch (error) { return error.name; }
        return window.pwned ? 'ran' : 'refused'; }"""
    )
    assert said in ("TypeError", "refused")
    site.errors.clear()  # the browser complains of it, as it should

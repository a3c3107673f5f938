"""Attacks on the console: other names, other pages, other users, forged forms, stolen and used tokens."""

from __future__ import annotations

from pathlib import Path

import pytest

from go_ent.engine.console.app import Console
from go_ent.engine.console.guard import Access, Address
from go_ent.engine.console.pages import all_pages
from go_ent.engine.server.calls.callers import LOCAL
from go_ent.sandbox import Sandbox
from tests.security.corpus import attack
from tests.support.console import HOST, ORIGIN, Browser, opened


@attack("console", "a name that somebody has made to lead here (DNS rebinding)")
@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8700", "127.0.0.1:8701", "127.0.0.1", "", "127.0.0.1:8700.evil.example"]
)
async def test_another_name_gets_nothing(browser: Browser, host: str) -> None:
    answer = await browser.get("/runs", headers={"host": host})
    assert answer.status_code == 421
    assert "csrf" not in answer.text


@attack("console", "two names at once")
async def test_two_hosts_are_none(console: Console) -> None:
    sent: list[dict[str, object]] = []

    async def send(message: dict[str, object]) -> None:
        sent.append(message)

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": b""}

    headers = [(b"host", HOST.encode()), (b"host", b"evil.example")]
    scope = {"type": "http", "method": "GET", "path": "/console", "headers": headers, "query_string": b""}
    await console(scope, receive, send)  # type: ignore[arg-type]
    assert sent[0]["status"] == 421


@attack("console", "a page of another origin")
@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:9999", "http://localhost:8700"])
async def test_another_origin_gets_nothing(browser: Browser, origin: str) -> None:
    assert (await browser.get("/runs", headers={"origin": origin})).status_code == 403
    assert (await browser.post("/leave", headers={"origin": origin})).status_code == 403
    assert (await browser.get("/runs")).status_code == 200


@attack("console", "a link or a picture on another page, or on another port of this machine")
@pytest.mark.parametrize("site", ["cross-site", "same-site"])
async def test_what_another_page_begins_is_refused(browser: Browser, site: str) -> None:
    for path in ("/runs", "/events?t=runs", "/static/x/console.css"):
        assert (await browser.get(path, headers={"sec-fetch-site": site})).status_code == 403
    assert (await browser.post("/leave", headers={"sec-fetch-site": site})).status_code == 403


@attack("console", "a form without the session's token")
@pytest.mark.parametrize("token", ["", "x", "of-another"])
async def test_a_form_without_its_token_does_nothing(console: Console, browser: Browser, token: str) -> None:
    if token == "of-another":
        other = await Browser(console).sign_in()
        token = other.csrf
        await other.close()
    answer = await browser.post("/leave", {"csrf": token})
    assert answer.status_code == 403
    assert (await browser.get("/runs")).status_code == 200


@attack("console", "a form that does not say where it comes from")
async def test_a_form_without_an_origin_does_nothing(browser: Browser) -> None:
    data = {"csrf": browser.csrf}
    assert (await browser.http.post("/console/leave", data=data)).status_code == 403
    assert (await browser.get("/runs")).status_code == 200


@attack("console", "a form as text or JSON, which needs no permission to be sent")
@pytest.mark.parametrize("kind", ["text/plain", "application/json", "multipart/form-data; boundary=x"])
async def test_only_forms_are_read(browser: Browser, kind: str) -> None:
    headers = {"origin": ORIGIN, "content-type": kind}
    answer = await browser.http.post("/console/leave", content=f"csrf={browser.csrf}", headers=headers)
    assert answer.status_code == 415
    assert (await browser.get("/runs")).status_code == 200


@attack("console", "a form of many megabytes, or of many fields")
@pytest.mark.parametrize(("body", "status"), [(b"a=" + b"x" * (5 << 20), 413), (b"a=1&" * 20_000, 400)])
async def test_forms_are_bounded(browser: Browser, body: bytes, status: int) -> None:
    headers = {"origin": ORIGIN, "content-type": "application/x-www-form-urlencoded"}
    assert (await browser.http.post("/console/leave", content=body, headers=headers)).status_code == status


@attack("console", "something done by a GET")
async def test_nothing_is_done_by_a_get(console: Console, browser: Browser) -> None:
    for page in console.pages:
        for method, path, _ in page.routes:
            if method == "POST" and not any(one[:2] == ("GET", path) for one in page.routes):
                answer = await browser.get(path.replace("{id}", "x"))
                assert answer.status_code in (404, 405), path
    assert (await browser.get("/leave")).status_code == 405
    assert (await browser.http.put("/console/runs")).status_code == 405


@attack("console", "an invitation that was used already")
async def test_an_invitation_cannot_be_replayed(console: Console) -> None:
    address = console.invite(LOCAL)
    first, second = Browser(console), Browser(console)
    assert (await first.http.get(address)).status_code == 303
    answer = await second.http.get(address)
    assert answer.status_code == 401
    assert "set-cookie" not in answer.headers
    await first.close()
    await second.close()


@attack("console", "tokens and cookies that were guessed or bent")
@pytest.mark.parametrize("token", ["", "x", "x" * 20_000, "ü", "\x00", "' or 1=1"])
async def test_guessed_secrets_open_nothing(console: Console, token: str) -> None:
    browser = Browser(console)
    assert (await browser.http.get("/console/enter", params={"token": token})).status_code == 401
    for cookie in (f"go-ent-console={token}", "go-ent-console=", "go-ent-console=a; go-ent-console=b"):
        headers = {"cookie": cookie.encode("utf-8").replace(b"\x00", b"")}
        assert (await browser.get("/runs", headers=headers)).status_code == 401
    await browser.close()


@attack("console", "a second cookie of the same name, planted by a neighbour")
async def test_a_planted_cookie_beside_ours_counts_as_none(console: Console, browser: Browser) -> None:
    cookie = browser.http.cookies["go-ent-console"]
    answer = await browser.get("/runs", headers={"cookie": f"go-ent-console=planted; go-ent-console={cookie}"})
    assert answer.status_code == 401


@attack("console", "another user of this machine, with a stolen cookie")
async def test_other_users_get_nothing(project: Path, shared_box: Sandbox) -> None:
    asked: list[tuple[Address, Address]] = []

    def is_own(client: Address, server: Address) -> bool:
        asked.append((client, server))
        return False

    async with opened(project, shared_box) as first:
        console = Console(first.engine, first.composer, all_pages(), Access(frozenset({HOST}), is_own))
        browser = Browser(console)
        for path in (console.invite(LOCAL), "/console/runs", "/console/static/x/console.css", "/console/events?t=runs"):
            answer = await browser.http.get(path)
            assert answer.status_code == 403
            assert "set-cookie" not in answer.headers
        assert len(asked) == 4
        await browser.close()
        await console.close()


@attack("console", "a frame around a page, so that a click is stolen")
async def test_every_answer_forbids_frames_and_scripts_of_others(browser: Browser) -> None:
    stranger = Browser(browser.console)
    answers = [await browser.get(path) for path in ("/runs", "/nowhere", "/static/x/console.js", "")]
    answers += [await stranger.get("/runs"), await stranger.get("/runs", headers={"host": "evil.example"})]
    answers.append(await browser.post("/leave", {"csrf": "wrong"}))
    for answer in answers:
        policy = answer.headers["content-security-policy"]
        for part in ("default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "base-uri 'none'"):
            assert part in policy
        assert "unsafe" not in policy
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cross-origin-opener-policy"] == "same-origin"
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
        assert "access-control-allow-origin" not in answer.headers
        assert answer.headers["cache-control"] == "no-store" or "static" in str(answer.url)
    await stranger.close()


@attack("console", "a cookie that scripts and other sites could use")
async def test_the_cookie_is_for_this_site_alone(console: Console) -> None:
    browser = Browser(console)
    cookie = (await browser.http.get(console.invite(LOCAL))).headers["set-cookie"].lower()
    for part in ("httponly", "samesite=strict", "path=/console", "max-age="):
        assert part in cookie
    assert "domain=" not in cookie
    await browser.close()


@attack("console", "a redirect that leads elsewhere after a form")
async def test_the_way_back_leads_nowhere_else(browser: Browser) -> None:
    answer = await browser.post("/leave", {"back": "https://evil.example/"})
    assert "evil.example" not in answer.headers.get("location", "")
    assert "evil.example" not in answer.text

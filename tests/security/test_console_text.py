"""Hostile text in every field that somebody else can fill: guests, tools, servers, files; and other clients' runs."""

from __future__ import annotations

import html
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from go_ent.composer.catalogue.spec import ToolSpec
from go_ent.composer.composed import toolfile
from go_ent.composer.composed.store import Store
from go_ent.engine.console import markup
from go_ent.engine.console.app import Console
from go_ent.engine.console.downloads import download, picture
from go_ent.engine.server.calls.callers import Caller
from go_ent.sandbox import Sandbox
from go_ent.sandbox.media.kinds import Media
from tests.composer.conftest import tool
from tests.security.corpus import attack
from tests.support.console import Browser, opened, run

EVIL = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>{{7*7}}${7*7}\u202e\u2066\x00</textarea></pre></title>"
ECHO = 'def echo(text: str) -> str:\n    """Echo."""\n    return text\n'
ASKED = 'def asked(text: str) -> str:\n    """Needs approval."""\n    return text\n'
FAILS = 'def fails(text: str) -> str:\n    """Fails."""\n    raise ValueError(text)\n'


@pytest.fixture
async def console(project: Path, shared_box: Sandbox) -> AsyncIterator[Console]:
    (project / ".go-ent" / "config.toml").write_text('[grants]\napprove = ["asked"]\n')
    store = Store(project / ".go-ent" / "composed-tools", "project")
    for name, code in (("echo", ECHO), ("asked", ASKED), ("fails", FAILS)):
        store.save(toolfile.read(tool(name, code)))
    async with opened(project, shared_box) as made:
        yield made


def check(page: str, unseen: str = "\u202e\u2066\x00") -> None:
    """Nothing of the hostile text is markup, and what can't be seen is shown."""
    assert "<script>alert" not in page
    assert "<img src=x" not in page
    for one in unseen:
        assert one not in page


@attack("console", "markup in code, output, arguments, answers, errors and results")
@pytest.mark.parametrize(
    "code",
    [
        f"# {EVIL.replace(chr(0), '')}\n{EVIL!r}",
        f"print({EVIL!r})\n1",
        f"await tools.echo(text={EVIL!r})",
        f"[{{{EVIL!r}: {EVIL!r}}}]",
        f"{{'a': [{EVIL!r}]}}",
        f"raise ValueError({EVIL!r})",
        f"await tools.fails(text={EVIL!r})",
        f"checkpoint({EVIL.replace(chr(0), '').replace(chr(0x202E), '').replace(chr(0x2066), '')[:60]!r}, {EVIL!r})\n1",
        f"'# x\\n\\n- a\\n- ' + {EVIL!r} + '[x](javascript:alert(1))'",
    ],
)
async def test_hostile_text_is_text(console: Console, browser: Browser, code: str) -> None:
    made = await run(console, code, inputs={"given": EVIL})
    for path in ("", "?call=run/1", "?call=run", "/record", "/again", "/save"):
        answer = await browser.get(f"/runs/{made.id}{path}")
        assert answer.status_code == 200, path
        if path == "/again" and "\u202e" in code:  # what is run again is what it was
            assert "characters that can't be seen" in answer.text
            check(answer.text, "")
        else:
            check(answer.text)
    check((await browser.get("/runs")).text)
    spans = await browser.get(f"/runs/{made.id}/spans")
    assert spans.headers["content-type"].startswith("application/json")


@attack("console", "markup in what a person is asked to approve")
async def test_hostile_requests_are_text(console: Console, browser: Browser) -> None:
    made = await run(console, f"await tools.asked(text={EVIL!r})")
    assert made.status == "paused"
    check((await browser.get("/approvals")).text)
    check((await browser.get(f"/runs/{made.id}")).text)


@attack("console", "markup in an address")
async def test_hostile_addresses_are_text(browser: Browser) -> None:
    for path in (
        "/runs?text=%3Cscript%3Ealert(1)%3C/script%3E&tool=%22%3E%3Cimg%20src=x%20onerror=alert(1)%3E",
        "/runs/%3Cscript%3Ealert(1)%3C%2Fscript%3E",
        "/%3Cscript%3Ealert(1)%3C/script%3E",
        "/runs?below=%22%3E%3Cscript%3Ealert(1)%3C/script%3E&from=%3Cscript%3E",
    ):
        check((await browser.get(path)).text)


@attack("console", "an approval for what was not shown")
@pytest.mark.parametrize("change", ["digest", "none", "path"])
async def test_an_approval_is_bound_to_what_was_shown(console: Console, browser: Browser, change: str) -> None:
    made = await run(console, "await tools.asked(text='drop it')")
    digest = next(iter((await console.engine.status(made.id)).requests.values())).digest
    ticket = {
        "digest": f"{made.id} run/1 {'0' * 64}",
        "none": f"{made.id} run/1",
        "path": f"{made.id} run/2 {digest}",
    }[change]
    await browser.post("/approvals/decide", {"call": ticket, "decision": "approve", "resume": "yes"})
    assert "nothing was decided" in (await browser.get("/approvals")).text
    state = await console.engine.status(made.id)
    assert (state.status, dict(state.decisions)) == ("paused", {})


@attack("console", "an approval that is sent twice")
async def test_an_approval_cannot_be_replayed(console: Console, browser: Browser) -> None:
    made = await run(console, "await tools.asked(text='a')\nawait tools.asked(text='b')")
    page = (await browser.get("/approvals")).text
    ticket = re.search(r'name="call" value="([^"]+)"', page)
    assert ticket is not None
    form = {"call": ticket[1], "decision": "reject"}
    await browser.post("/approvals/decide", form)
    await browser.post("/approvals/decide", form | {"decision": "approve"})
    assert "nothing was decided" in (await browser.get("/approvals")).text
    state = await console.engine.status(made.id)
    assert [one.approved for one in state.decisions.values()] == [False]


@attack("console", "a picture that is a program")
@pytest.mark.parametrize(
    "data",
    [
        b'<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"/>',
        b'<?xml version="1.0"?><svg><script>alert(1)</script></svg>',
        b"<html><script>alert(1)</script>",
        b"GIF89",
        b"",
    ],
)
def test_only_real_pictures_are_shown(data: bytes) -> None:
    assert picture(Media("x.png", "image/png", data)) is None


@attack("console", "a file whose name leads elsewhere, or bends a header")
@pytest.mark.parametrize(
    "name", ["../../x.html", 'a"; filename="b.html', "a\r\nset-cookie: x=1", "x.html\x00.txt", "é\u202e.exe"]
)
def test_downloads_are_attachments_with_harmless_names(name: str) -> None:
    answer = download(name, b"<script>alert(1)</script>")
    header = answer.headers["content-disposition"]
    assert re.fullmatch(r"attachment; filename=\"[ \w().-]+\"; filename\*=UTF-8''[\w%.()~-]+", header, re.ASCII), header
    assert answer.headers["content-type"] == "application/octet-stream"
    assert "sandbox" in answer.headers["content-security-policy"]


@attack("console", "a title, a result and an output of a megabyte")
async def test_pages_of_large_values_are_bounded(console: Console, browser: Browser) -> None:
    made = await run(console, "#" + "x" * 1_000_000 + "\nprint('y' * 200_000)\n['z' * 5000] * 180")
    for path in ("", "/record", "?call=run"):
        answer = await browser.get(f"/runs/{made.id}{path}")
        assert answer.status_code == 200
        assert len(answer.content) < 3_000_000
    assert len((await browser.get("/runs")).content) < 100_000


@attack("console", "code that a lexer takes the square of its length for")
@pytest.mark.parametrize(
    ("language", "unit"), [("javascript", "a."), ("javascript", "\\'"), ("html", "<!--"), ("yaml", "*")]
)
@pytest.mark.more
def test_colours_end_before_a_hostile_text_does(monkeypatch: pytest.MonkeyPatch, language: str, unit: str) -> None:
    monkeypatch.setattr(markup, "COLOURED_S", 0.05)
    text = unit * (190_000 // len(unit))
    shown = markup.code(text, language)
    assert not shown.endswith("</span>")  # the rest is plain
    assert html.unescape(re.sub("<[^>]*>", "", shown)) == text


@attack("console", "another client's runs, by id, list, stream, file and form")
async def test_a_client_sees_and_does_nothing_of_others(console: Console) -> None:
    theirs = await run(console, "open('secret.txt', 'w').write('s')\n'their secret'", client="ann")
    waiting = await run(console, "await tools.asked(text='theirs')", client="ann")
    mine = await run(console, "'mine'", client="bob")
    digest = next(iter((await console.engine.status(waiting.id)).requests.values())).digest
    browser = await Browser(console).sign_in(Caller("bob", may_compose=False, ends_with_project=True))
    listed = (await browser.get("/runs")).text
    assert (mine.id in listed, theirs.id in listed, waiting.id in listed) == (True, False, False)
    assert "Nothing waits for you" in (await browser.get("/approvals")).text
    for path in ("", "/spans", "/record", "/value", "/files/secret.txt", "/pictures/secret.txt", "/again", "/save"):
        answer = await browser.get(f"/runs/{theirs.id}{path}")
        assert answer.status_code == 404, path
        assert "their secret" not in answer.text
    assert (await browser.get(f"/events?t=run:{theirs.id}")).status_code == 404
    for path in ("/interrupt", "/resume", "/again"):
        assert (await browser.post(f"/runs/{waiting.id}{path}", {"code": "1"})).status_code == 404
    form = {"call": f"{waiting.id} run/1 {digest}", "decision": "approve"}
    await browser.post("/approvals/decide", form)
    assert dict((await console.engine.status(waiting.id)).decisions) == {}
    assert (await browser.post("/runs/remove", {"run": mine.id, "sure": "yes"})).status_code == 403
    assert (await browser.post("/runs/prune", {"sure": "yes"})).status_code == 403
    assert (await browser.get("/health")).status_code == 403
    assert (await browser.post(f"/runs/{mine.id}/save", {"name": "x"})).status_code == 403
    await browser.close()


@attack("console", "a client who may run no agents decides, resumes or interrupts")
async def test_a_client_without_the_right_does_nothing(console: Console) -> None:
    waiting = await run(console, "await tools.asked(text='x')", client="bob")
    digest = next(iter((await console.engine.status(waiting.id)).requests.values())).digest
    browser = await Browser(console).sign_in(Caller("bob", may_run_agents=False, ends_with_project=True))
    form = {"call": f"{waiting.id} run/1 {digest}", "decision": "approve"}
    assert (await browser.post("/approvals/decide", form)).status_code == 403
    for path in ("/interrupt", "/resume"):
        assert (await browser.post(f"/runs/{waiting.id}{path}")).status_code == 403
    assert (await browser.post("/runs/interrupt", {"run": waiting.id, "sure": "yes"})).status_code == 403
    assert (await console.engine.status(waiting.id)).status == "paused"
    await browser.close()


class _Server:
    """A server that says hostile things of itself."""

    namespace, origin, local, connected = "evil", f"MCP server {EVIL}", False, True
    last_error = stderr = EVIL

    async def tools(self) -> list[ToolSpec]:
        return []

    async def call(self, *_: object) -> object:
        raise NotImplementedError

    async def close(self) -> None: ...


class _Machines:
    """A fleet whose machines have hostile names."""

    def __init__(self, broken: bool) -> None:
        self.broken = broken

    async def overview(self) -> dict[str, Any]:
        if self.broken:
            raise ConnectionError(EVIL)
        worker = dict.fromkeys(("name", "host", "state", "slots", "version"), EVIL)
        return {
            "workers": [{**worker, "labels": [EVIL], "running": 0}],
            "queues": [{"queue": EVIL, "waiting": 1, "why": EVIL}],
            "connections": {"used": 1, "most": 2},
        }

    async def close(self) -> None: ...


@attack("console", "markup in what servers write, and in the names of machines and queues")
@pytest.mark.parametrize("broken", [False, True])
async def test_what_servers_and_machines_say_is_text(console: Console, browser: Browser, broken: bool) -> None:
    console.composer.catalogue.add(_Server())
    console.engine.elsewhere = _Machines(broken)  # type: ignore[assignment]
    page = (await browser.get("/health")).text
    check(page)
    assert "What it wrote to stderr" in page
    assert ("it can&#39;t be looked at: ConnectionError" in page) == broken
    assert ("1 of 2 connections" in page) != broken

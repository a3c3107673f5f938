"""A console over a real engine, and a browser of sorts: it keeps cookies, sends what browsers send, fills in forms."""

from __future__ import annotations

import contextlib
import html
import re
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import httpx2

from go_ent.composer import Composer
from go_ent.engine import Engine
from go_ent.engine.console.app import Console, Login
from go_ent.engine.console.guard import Access
from go_ent.engine.console.pages import all_pages
from go_ent.engine.guest_runs.runs import GuestOrder
from go_ent.engine.server.calls.callers import LOCAL, Caller
from go_ent.sandbox import Run, Sandbox

HOST = "127.0.0.1:8700"
ORIGIN = f"http://{HOST}"
BROWSER = {"sec-fetch-site": "same-origin"}


class Browser:
    """One browser, signed in or not."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.http = httpx2.AsyncClient(transport=httpx2.ASGITransport(console), base_url=ORIGIN, headers=BROWSER)
        self.csrf = ""

    async def sign_in(self, caller: Caller = LOCAL) -> Browser:
        """Open a session by an invitation, as a person would."""
        answer = await self.http.get(self.console.invite(caller), headers={"sec-fetch-site": "none"})
        assert answer.status_code == 303, answer.text
        await self.get("/runs")
        return self

    async def get(self, path: str, **options: Any) -> httpx2.Response:
        """A page, and the token of its forms is kept."""
        answer = await self.http.get(f"/console{path}", **options)
        if found := re.search(r'name="csrf" value="([^"]+)"', answer.text):
            self.csrf = html.unescape(found[1])
        return answer

    async def post(self, path: str, fields: Mapping[str, Any] | None = None, **options: Any) -> httpx2.Response:
        """Send a form, with the token of this session unless *fields* have one."""
        headers = {"origin": ORIGIN, **options.pop("headers", {})}
        data = {"csrf": self.csrf, **(fields or {})}
        return await self.http.post(f"/console{path}", data=data, headers=headers, **options)

    async def close(self) -> None:
        await self.http.aclose()


@contextlib.asynccontextmanager
async def opened(
    project: Path, box: Sandbox | None, *, login: Login | None = None, trusted: bool | None = None
) -> AsyncIterator[Console]:
    """The console of a project; its guests run in *box*."""
    async with (
        Composer(project, box=box, trusted=trusted) as composer,
        Engine(project, composer=composer, trusted=trusted) as engine,
    ):
        console = Console(engine, composer, all_pages(), Access(frozenset({HOST})), login=login)
        try:
            yield console
        finally:
            await console.close()


async def run(console: Console, code: str, *, client: str = "", **order: Any) -> Run:
    """Run code, on record."""
    return await console.engine.guests.run(GuestOrder(code=code, **order), client=client)

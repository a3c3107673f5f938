"""The guard before every page: by which name it was asked for, by whose page, by whom; and the headers of every answer.

A browser can be led anywhere by any page, so a request counts only if it is for this console's own name, from this
console's own pages, and of a session; what does something also has the session's token.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from http.cookies import CookieError, SimpleCookie

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from go_ent.dataclass import dataclass
from go_ent.engine.console.visit import BASE, Refused

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
# What a file of a run is served with: whatever it is, it runs nothing and loads nothing.
SANDBOXED = "default-src 'none'; style-src 'unsafe-inline'; sandbox; frame-ancestors 'none'; base-uri 'none'"
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    # Forms say where they come from only within a site: with `no-referrer` their Origin would be `null`.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-embedder-policy": "require-corp",
    "permissions-policy": "camera=(), microphone=(), geolocation=(), usb=(), serial=(), payment=()",
    "cache-control": "no-store",
}
OWN = ("same-origin", "none")  # what browsers call a request of this site's pages, and one that a person typed
ENTER = f"{BASE}/enter"
METHODS = ("GET", "HEAD", "POST")
Address = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Access:
    """How a console is reached. *hosts* are the names that it goes by, with the port; None: what is in front of it has
    checked that. *is_own* says whether a connection comes from a program of this user's; it may block.
    """

    hosts: frozenset[str] | None
    is_own: Callable[[Address, Address], bool] | None = None
    cookie: str = "go-ent-console"


class Guard:
    """The application that is served: *inner* gets nothing but what may come in."""

    def __init__(self, inner: ASGIApp, access: Access, refuse: Callable[[Scope, Refused], ASGIApp]) -> None:
        self._inner, self._access, self._refuse = inner, access, refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            await self._check(scope)
        except Refused as refused:
            await self._refuse(scope, refused)(scope, receive, answer)
            return
        await self._inner(scope, receive, answer)

    async def _check(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        host = hosts[0].lower() if len(hosts) == 1 else ""
        if self._access.hosts is not None and host not in self._access.hosts:
            raise Refused(421, "this console goes by another name", "open the address that go-ent console printed")
        if scope["method"] not in METHODS:
            raise Refused(405, "the console takes GET and POST")
        origins = headers.getlist("origin")
        if any(origin not in (f"http://{host}", f"https://{host}") for origin in origins):
            raise Refused(403, "a page of another origin may not use the console")
        site = headers.getlist("sec-fetch-site")
        if any(one not in OWN for one in site) and not (scope["method"] == "GET" and scope["path"] == ENTER):
            raise Refused(403, "another page has led here", "open the console from its own address")
        if scope["method"] == "POST" and not origins:
            raise Refused(403, "a form must say which page it comes from")
        await self._check_peer(scope)

    async def _check_peer(self, scope: Scope) -> None:
        """Refuse other users of this machine, also one who has got hold of a cookie."""
        if self._access.is_own is None:
            return
        client, server = scope.get("client"), scope.get("server")
        if (
            client is None
            or server is None
            or not await asyncio.to_thread(self._access.is_own, tuple(client), tuple(server))
        ):
            raise Refused(403, "this console is for the user who has started it")


def cookie_of(headers: Headers, name: str) -> str:
    """The value of a cookie; of several of that name, none counts."""
    text = "; ".join(headers.getlist("cookie"))[:8192]
    if text.count(f"{name}=") != 1:
        return ""
    try:
        found = SimpleCookie(text).get(name)
    except CookieError:
        return ""
    return "" if found is None else found.value

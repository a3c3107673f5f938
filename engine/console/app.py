"""The console as an application: its pages behind the guard, sessions, what is live, and the files that pages load."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from importlib.metadata import version
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from go_ent.composer import ComposerError
from go_ent.dataclass import dataclass
from go_ent.engine.console.changes import Changes
from go_ent.engine.console.feed import Feed
from go_ent.engine.console.guard import ENTER, Access, Guard, cookie_of
from go_ent.engine.console.launches import Launches
from go_ent.engine.console.page import Answer, Page
from go_ent.engine.console.rendering import static_files, templates
from go_ent.engine.console.sessions import IDLE_S, Session, Sessions
from go_ent.engine.console.visit import BASE, Refused, Viewer, Visit, read_form
from go_ent.engine.core.errors import EngineError, ExecutionNotFound
from go_ent.engine.server.calls.callers import Caller, become
from go_ent.sandbox import SandboxError

if TYPE_CHECKING:
    from go_ent.composer import Composer
    from go_ent.engine.engine import Engine

log = logging.getLogger("go_ent.engine.console")
MOST_STREAMS = 32  # of one session
LASTING = "private, max-age=31536000, immutable"  # of what has its digest in its address
Login = Callable[[str], Caller | None]


@dataclass(frozen=True, slots=True)
class NavEntry:
    """One page in the navigation."""

    title: str
    address: str
    key: str
    current: bool
    badge: int


class Console:
    """The console of one project. *login* finds the client that a token belongs to, where clients have tokens;
    without it, sessions are opened by invitations alone.

    It belongs to one event loop; `close` ends what is open. Engine and composer are their owner's to close.
    """

    def __init__(
        self, engine: Engine, composer: Composer, pages: Iterable[Page], access: Access, *, login: Login | None = None
    ) -> None:
        self.engine, self.composer = engine, composer
        self.pages = sorted(pages, key=lambda page: (page.order or 1000, page.path))
        self.sessions = Sessions()
        self.templates = templates()
        stamps = {topic: stamp for page in self.pages for topic, stamp in page.stamps.items()}
        self.feed = Feed(stamps, lambda told: Changes(engine, composer, told))
        self.launches = Launches(engine)
        self.version = version("go-ent")
        self._access, self._login = access, login
        self.app: ASGIApp = Guard(self._make(), access, lambda scope, refused: self._refusal(refused))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.app(scope, receive, send)

    async def close(self) -> None:
        """End all streams, and interrupt the runs that pages have begun."""
        await self.feed.close()
        await self.launches.close()

    def invite(self, caller: Caller) -> str:
        """The path of an address that opens one session, once."""
        return f"{ENTER}?token={self.sessions.invite(caller)}"

    def caller_of(self, scope: Scope) -> Caller | None:
        """Whose session a request is of; None: nobody's."""
        session = self._session(Request(scope))
        return None if session is None else session.caller

    def viewer(self, caller: Caller) -> Viewer:
        return Viewer(self.engine, self.composer, caller)

    async def frame(self, visit: Visit) -> dict[str, object]:
        """What every page has around it."""
        here = visit.request.url.path
        entries = []
        for page in self.pages:
            if page.order:
                address = f"{BASE}{page.path}"
                badge = await page.badge(visit.viewer) if page.badge is not None else 0
                current = here == address or here.startswith(f"{address}/")
                entries.append(NavEntry(page.title, address, page.key, current, badge))
        return {
            "nav": entries,
            "project": self.engine.project.name or str(self.engine.project),
            "folder": str(self.engine.project),
            "client": visit.caller.name,
            "version": self.version,
            "topics": visit.topics,
            "here": here + (f"?{visit.request.url.query}" if visit.request.url.query else ""),
        }

    # -- how

    def _make(self) -> Starlette:
        routes = [
            Route("/", lambda request: RedirectResponse(BASE, 303)),
            Route(ENTER, self._enter, methods=["GET", "POST"]),
            Route(f"{BASE}/static/{{digest}}/{{name}}", self._static),
            Route(f"{BASE}/events", self._events),
            Route(f"{BASE}/leave", self._answer(self._leave), methods=["POST"]),
        ]
        for page in self.pages:
            for method, path, answer in page.routes:
                routes.append(Route(BASE + path, self._answer(answer), methods=[method]))
        first = next((page.path for page in self.pages if page.order), "")
        routes.append(Route(BASE, lambda request: RedirectResponse(BASE + first, 303)))
        return Starlette(routes=routes, exception_handlers={HTTPException: self._http_problem})

    def _answer(self, answer: Answer) -> Callable[[Request], Awaitable[Response]]:
        """*answer*, for a request whose session is known; what goes wrong is a page that says so."""

        async def respond(request: Request) -> Response:
            session = self._session(request)
            if session is None:
                return self._stranger()
            become(session.caller)
            visit = Visit(request, self, session)
            try:
                if request.method == "POST":
                    visit.form = await read_form(request)
                    if not session.allows(visit.field("csrf")):
                        raise Refused(403, "this form is of another session", "go back, reload the page, and try again")
                return await answer(visit)
            except Refused as refused:
                return await self._problem(visit, refused.status, str(refused), refused.hint)
            except ExecutionNotFound as error:
                return await self._problem(visit, 404, str(error))
            except (EngineError, ComposerError, SandboxError) as error:
                return await self._problem(visit, 409, str(error))
            except Exception:
                log.exception("a page of the console failed: %s", request.url.path[:200])
                return await self._problem(visit, 500, "this page has failed", "the log of go-ent says why")

        return respond

    def _session(self, request: Request) -> Session | None:
        cookie = cookie_of(request.headers, self._access.cookie)
        return self.sessions.find(cookie) if cookie else None

    async def _problem(self, visit: Visit, status: int, message: str, hint: str = "") -> Response:
        return await visit.html("problem.html", status=status, message=message, hint=hint, code=status)

    def _refusal(self, refused: Refused) -> ASGIApp:
        """What who is not let in is told: nothing of the project."""
        return PlainTextResponse(f"{refused}\n{refused.hint}".rstrip() + "\n", status_code=refused.status)

    def _stranger(self, wrong: bool = False) -> Response:
        text = self.templates.get_template("stranger.html").render(login=self._login is not None, wrong=wrong)
        return HTMLResponse(text, status_code=401)

    async def _http_problem(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        session = self._session(request)
        if session is None:
            return self._stranger()
        said = "there is no such page" if error.status_code == 404 else str(error.detail)
        return await self._problem(Visit(request, self, session), error.status_code, said)

    async def _enter(self, request: Request) -> Response:
        """Open a session: by an invitation in the address, or by a client's token in a form."""
        if request.method == "POST" and self._login is not None:
            try:
                given = (await read_form(request)).get("token", [""])[0]
            except Refused as refused:
                return PlainTextResponse(str(refused), status_code=refused.status)
            caller = self._login(given)
            cookie = None if caller is None else self.sessions.open(caller)
        elif request.method == "GET" and "token" in request.query_params:
            cookie = self.sessions.accept(request.query_params["token"])
        else:
            cookie = None
        if cookie is None:
            return self._stranger(wrong=True)
        response = RedirectResponse(BASE, 303)
        response.set_cookie(
            self._access.cookie,
            cookie,
            max_age=int(IDLE_S),
            path=BASE,
            httponly=True,
            samesite="strict",
            secure="https" in (request.url.scheme, request.headers.get("origin", "").partition(":")[0]),
        )
        return response

    async def _leave(self, visit: Visit) -> Response:
        self.sessions.close(cookie_of(visit.request.headers, self._access.cookie))
        response = self._stranger()
        response.delete_cookie(self._access.cookie, path=BASE)
        return response

    async def _static(self, request: Request) -> Response:
        """A file that pages load. There is nothing of the project in any."""
        found = static_files().get(request.path_params["name"])
        if found is None:
            return PlainTextResponse("there is no such file\n", status_code=404)
        data, kind, _ = found
        return Response(data, media_type=kind, headers={"cache-control": LASTING})

    async def _events(self, request: Request) -> Response:
        session = self._session(request)
        if session is None:
            return PlainTextResponse("the session has ended\n", status_code=401)
        if session.streams >= MOST_STREAMS:
            return PlainTextResponse("too many streams are open\n", status_code=429)
        become(session.caller)
        try:
            events = await self.feed.stream(self.viewer(session.caller), request.query_params.getlist("t"))
        except (Refused, EngineError) as error:
            return PlainTextResponse(f"{error}\n", status_code=getattr(error, "status", 404))
        return StreamingResponse(_counted(session, events), media_type="text/event-stream")


async def _counted(session: Session, events: AsyncIterator[str]) -> AsyncIterator[str]:
    """Events, while which a session has one stream more."""
    session.streams += 1
    try:
        async for event in events:
            yield event
    finally:
        session.streams -= 1
        await events.aclose()  # type: ignore[attr-defined]  # a generator of ours

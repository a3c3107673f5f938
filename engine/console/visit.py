"""One request to the console: who asks, what they brought, and the ways to answer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote, urlencode

from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from go_ent.composer.errors import NotGranted
from go_ent.composer.project.numbers import whole
from go_ent.dataclass import dataclass
from go_ent.engine.console.sessions import Session
from go_ent.engine.console.words import line
from go_ent.engine.server.calls.callers import Caller

if TYPE_CHECKING:
    from go_ent.composer import Composer
    from go_ent.engine.console.app import Console
    from go_ent.engine.engine import Engine
    from go_ent.engine.executions.state import ExecutionState

BASE = "/console"
MOST_BODY = 4 << 20
MOST_FIELDS = 10_000
MOST_VALUE = 10_000  # characters of a value in an address
READ_S = 20.0


class Refused(Exception):
    """Internal: raised when a request can't be answered as it is; becomes a page of that status that says why."""

    def __init__(self, status: int, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.status, self.hint = status, hint


@dataclass(frozen=True, slots=True)
class Viewer:
    """Somebody who looks: the project, and what of it is theirs."""

    engine: Engine
    composer: Composer
    caller: Caller

    async def execution(self, execution_id: str) -> ExecutionState:
        """An execution of the caller's; `ExecutionNotFound` for others', as for those that never were."""
        return await self.caller.find(self.engine, execution_id)

    @property
    def client(self) -> str | None:
        """Whose executions are listed; None: everybody's."""
        return self.caller.name or None


@dataclass(slots=True)
class Visit:
    """A request whose sender is known, and whose form, if it is one, has the session's token."""

    request: Request
    console: Console
    session: Session
    form: Mapping[str, list[str]] = field(default_factory=dict)
    topics: dict[str, str] = field(default_factory=dict)

    @property
    def caller(self) -> Caller:
        return self.session.caller

    @property
    def viewer(self) -> Viewer:
        return self.console.viewer(self.caller)

    @property
    def engine(self) -> Engine:
        return self.console.engine

    @property
    def composer(self) -> Composer:
        return self.console.composer

    # -- what was asked

    def path(self, name: str) -> str:
        """A part of the address."""
        return str(self.request.path_params[name])

    def query(self, name: str, default: str = "") -> str:
        """A value after the `?`."""
        return self.request.query_params.get(name, default)[:MOST_VALUE]

    def queries(self, name: str) -> list[str]:
        """All values of a name after the `?`."""
        return [value[:MOST_VALUE] for value in self.request.query_params.getlist(name)[:1000]]

    def count(self, name: str, default: int, most: int) -> int:
        """A number after the `?`, within bounds."""
        found = whole(self.query(name))
        return default if found is None else min(found, most)

    def field(self, name: str, default: str = "") -> str:
        """A field of the form."""
        return self.form.get(name, [default])[0]

    def fields(self, name: str) -> list[str]:
        """All fields of a name."""
        return list(self.form.get(name, []))

    # -- what may be done

    def allow(self, *, agents: bool = False, compose: bool = False, own: bool = False) -> None:
        """Refuse a client who may not do that: run, resume, decide (*agents*), change tools (*compose*), or what only
        the project's own user may (*own*).
        """
        name = self.caller.name
        wants = "engine" if agents and not self.caller.may_run_agents else ""
        wants = "compose" if compose and not self.caller.may_compose else wants
        if wants:
            raise Refused(403, f"client {name} may not do that: [serve.clients.{name}] has no {wants} = true")
        if own and name:
            raise Refused(403, "only the project's own user may do that")

    def allow_tool(self, name: str) -> None:
        """Refuse a client with a token what its token does not name; the project's own user has all composed tools."""
        if self.caller.allow is not None and not self.caller.grants(self.composer).allows(name):
            raise NotGranted(name)

    # -- ways to answer

    async def follow(self, topic: str, argument: str = "") -> None:
        """Have the page told when that changes. Call it before what is shown is read, so that nothing is missed."""
        key = f"{topic}:{argument}" if argument else topic
        self.topics[key] = await self.console.feed.stamp(self.viewer, key)

    def shows(self, topic: str, argument: str, stamp: str) -> None:
        """Have the page told when that changes, where the stamp of what it shows is known."""
        self.topics[f"{topic}:{argument}"] = stamp

    async def html(self, template: str, *, status: int = 200, **context: Any) -> Response:
        """A page. Parts of it with an id and `data-live` are brought up to date when a followed topic changes."""
        shown = {
            **context,
            "visit": self,
            "page": await self.console.frame(self),
            "csrf": self.session.csrf,
            "notices": self.session.take_notices(),
        }
        text = await asyncio.to_thread(self.console.templates.get_template(template).render, shown)
        return HTMLResponse(text, status_code=status)

    def json(self, value: Any) -> Response:
        """Data for a page's script."""
        return JSONResponse(value)

    def go(self, address: str, notice: str = "", *, bad: bool = False) -> Response:
        """Another page, after something was done; it shows *notice* once."""
        if notice:
            self.session.notice(line(notice, 2000), bad=bad)
        return RedirectResponse(address, status_code=303)

    async def confirm(
        self, question: str, *, button: str, detail: Iterable[str] = (), danger: bool = False
    ) -> Response:
        """Ask before something is done: the same form again, with the answer. `sure` is whether it was given."""
        kept = [(name, value) for name, values in self.form.items() if name not in ("csrf", "sure") for value in values]
        return await self.html(
            "confirm.html",
            question=question,
            detail=list(detail),
            button=button,
            danger=danger,
            action=self.request.url.path,
            fields=kept,
            back=self.back(),
        )

    @property
    def sure(self) -> bool:
        """Whether the question was answered."""
        return self.field("sure") == "yes"

    def back(self, default: str = BASE) -> str:
        """Where the form was sent from, if that is a page of this console."""
        return local(self.field("back") or default, default)

    def url(self, path: str, **query: object) -> str:
        """The address of a page of this console."""
        return url(path, **query)


def url(path: str, **query: object) -> str:
    """The address of a page of the console; *path* begins with `/`."""
    given = [(name, str(value)) for name, value in query.items() if value not in (None, "")]
    return f"{BASE}{quote(path, safe='/')}{'?' + urlencode(given) if given else ''}"


def local(address: str, default: str = BASE) -> str:
    """*address*, if it leads to a page of this console, and nowhere else."""
    plain = address.isprintable() and "\\" not in address and "//" not in address.partition("?")[0]
    return address if plain and (address == BASE or address.startswith((f"{BASE}/", f"{BASE}?"))) else default


async def read_form(request: Request) -> dict[str, list[str]]:
    """The fields of a form, all of it bounded. `Refused` if it is none, too long, or does not come."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise Refused(415, "a form is wanted here")
    body = bytearray()
    try:
        async with asyncio.timeout(READ_S):
            async for part in request.stream():
                body += part
                if len(body) > MOST_BODY:
                    raise Refused(413, f"a form may have at most {MOST_BODY >> 20} MB")
    except (TimeoutError, ClientDisconnect):
        raise Refused(408, "the form did not come in time") from None
    try:
        pairs = parse_qsl(body.decode("ascii"), keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="strict")
    except ValueError:
        raise Refused(400, "this form can't be read") from None
    form: dict[str, list[str]] = {}
    for name, value in pairs:
        form.setdefault(name, []).append(value.replace("\r\n", "\n"))
    return form

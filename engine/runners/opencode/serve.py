"""`opencode serve`: one server for many runs, asked over HTTP on loopback, so that a run can be stopped with its
children.

A run is a session that gets one message. What it does meanwhile comes as events; questions for permission come there
too, and are answered at once, since nobody sits there. A run is stopped by `abort`, which also ends the shell commands
it started; what those left behind is for `opencode_plugin`.
"""

from __future__ import annotations

import asyncio
import re
import ssl
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import field
from typing import Any, TypeAlias

import httpx2
from pydantic_core import from_json

from go_ent.dataclass import dataclass
from go_ent.engine.processes.child import ChildLimits, Command, Ended, EndedBy, NotStarted, run_child
from go_ent.engine.runners.opencode.events import MAX_SAID, OpencodeTranscript, OpencodeTrouble, trouble
from go_ent.waiting import first_of

USER = "opencode"
PASSWORD = "OPENCODE_SERVER_PASSWORD"  # noqa: S105 - the name of the variable
READY = re.compile(rb"listening on http://127\.0\.0\.1:(\d{1,5})\s*$")
START_S = 60.0
ASK_S = 30.0  # for an answer that needs no model
MCP_S = 90.0  # for servers that are started for the first time
IDLE_S = 300.0  # without a run, before the server is ended: it takes half a gigabyte
AGAIN_S = 0.5
SETTLE_S = 2.0  # for the last events after the answer
MAX_ANSWER = 32 << 20
MAX_EVENT = 16 << 20
MAX_EVENTS = 256 << 20
LIMITS = ChildLimits(line_bytes=64 << 10, total_bytes=4 << 20)
# A session whose agent asks a person, or waits for one to agree to a plan, would wait for ever.
NOBODY_THERE = [
    {"permission": name, "pattern": "*", "action": "deny"} for name in ("question", "plan_enter", "plan_exit")
]

Json: TypeAlias = dict[str, Any]


class NoServer(Exception):
    """Internal: raised when there is no server to ask: it did not start, has ended, or lets anybody in."""


class Dropped(NoServer):
    """Internal: raised when the server broke off what it should have continued: it is dying, or no good."""


class Failed(Exception):
    """Internal: raised when the server works, and says that this run can't."""

    def __init__(self, trouble: OpencodeTrouble) -> None:
        super().__init__(trouble.message)
        self.trouble = trouble


class TooMuch(Exception):
    """Internal: raised when the server says more than is read."""


@dataclass(frozen=True, slots=True)
class PermissionQuestion:
    """What a run asks. `permit` are the kinds of permission that are given when asked for; all others are refused."""

    directory: str
    title: str
    message: Json
    session_id: str | None = None
    permit: frozenset[str] = frozenset()
    needs: str | None = None  # an MCP server that must be attached


@dataclass
class _ServedRun:
    question: PermissionQuestion
    said: OpencodeTranscript
    heard_at: float = field(default_factory=lambda: asyncio.get_running_loop().time())
    listening: asyncio.Event = field(default_factory=asyncio.Event)
    idle: asyncio.Event = field(default_factory=asyncio.Event)
    replies: set[asyncio.Task[None]] = field(default_factory=set)


class Server:
    """A running `opencode serve`. Made by `start`."""

    def __init__(self) -> None:
        self._stop = asyncio.Event()
        self._port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._child: asyncio.Task[Ended] | None = None
        self._client: httpx2.AsyncClient | None = None
        self._runs = 0
        self._idle: asyncio.TimerHandle | None = None

    @classmethod
    async def start(cls, command: Command, tag: str, password: str) -> Server:
        """Starts it on a free port, or raises `NoServer`. It answers those who know the password."""
        server = cls()
        env = {**command.env, "OPENCODE_SERVER_USERNAME": USER, PASSWORD: password}
        command = Command((*command.argv, "serve", "--port", "0", "--hostname", "127.0.0.1"), command.cwd, env)
        server._child = asyncio.create_task(
            run_child(command, server._on_line, limits=LIMITS, stop=server._stop, tag=tag)
        )
        try:
            port = await server._wait_for_port()
            server._client = httpx2.AsyncClient(
                base_url=f"http://127.0.0.1:{port}",
                auth=httpx2.BasicAuth(USER, password),
                timeout=ASK_S,
                limits=httpx2.Limits(max_connections=None),  # a run holds two
                trust_env=False,  # no proxy of the host's: this is loopback, and the password is not for others
                verify=ssl.SSLContext(
                    ssl.PROTOCOL_TLS_CLIENT
                ),  # never used: to read the usual certificates takes longer than all else
            )
            await server._check()
        except BaseException:
            await server.close()
            raise
        return server

    @property
    def alive(self) -> bool:
        return self._child is not None and not self._child.done() and not self._stop.is_set()

    @property
    def busy(self) -> bool:
        return self._runs > 0

    async def close(self) -> None:
        """Ends it and all it started. Not before its runs are over."""
        await self._end()
        if self._client is not None:
            await self._client.aclose()

    async def _end(self) -> None:
        self._stop.set()
        if self._idle is not None:
            self._idle.cancel()
        if self._child is not None:
            await asyncio.wait([self._child])

    async def ask(
        self, question: PermissionQuestion, said: OpencodeTranscript, *, limits: ChildLimits, stop: asyncio.Event
    ) -> Ended:
        """One message to its end. What happens is in *said*; the answer says what ended it, as for a child of its
        own.
        """
        began = time.monotonic()
        run = _ServedRun(question, said)
        with self._in_use():
            talking = asyncio.create_task(self._talk(run))
            try:
                by = await self._watch(talking, run, limits, stop)
                if by != "exit":
                    await self._abort(run, talking, limits.grace_s)
            except asyncio.CancelledError:
                await self._abort(run, talking, limits.grace_s)
                raise
            finally:
                talking.cancel()
                await asyncio.wait([talking])
        if not talking.cancelled() and (error := talking.exception()) is not None:
            if isinstance(error, TooMuch):
                by = "output"
                await self._abort(run, talking, limits.grace_s)
            elif isinstance(error, Failed):
                said.troubles.append(error.trouble)
            elif isinstance(error, httpx2.HTTPError | NoServer):
                if isinstance(error, httpx2.NetworkError | httpx2.ProtocolError | Dropped):
                    await self._end()
                said.troubles.append(OpencodeTrouble("unavailable" if self.alive else "crash", await self._why(error)))
            else:
                await self._abort(run, talking, limits.grace_s)
                raise error
        return Ended(by, 0, "", round((time.monotonic() - began) * 1000))

    async def _watch(
        self, talking: asyncio.Task[None], run: _ServedRun, limits: ChildLimits, stop: asyncio.Event
    ) -> EndedBy:
        """Until the talk is over, or has to be."""
        loop = asyncio.get_running_loop()
        end = None if limits.timeout_s is None else loop.time() + limits.timeout_s
        while True:
            quiet = None if limits.silence_s is None else run.heard_at + limits.silence_s
            until = min((at for at in (end, quiet) if at is not None), default=None)
            await first_of(talking, stop, timeout_s=None if until is None else max(0.0, until - loop.time()))
            if talking.done():
                return "exit"
            if stop.is_set():
                return "interrupted"
            if end is not None and loop.time() >= end:
                return "timeout"
            if limits.silence_s is not None and loop.time() >= run.heard_at + limits.silence_s:
                return "silence"

    async def _talk(self, run: _ServedRun) -> None:
        question = run.question
        if question.needs is not None:
            await self._attached(question.needs, question.directory)
        session_id = question.session_id or await self._open(question)
        run.said.opened(session_id)
        listening = asyncio.create_task(self._listen(run))
        sending: asyncio.Task[tuple[int, Any]] | None = None
        try:
            await first_of(run.listening, listening, timeout_s=ASK_S)
            self._still(listening, there=run.listening.is_set())
            path = f"/session/{_id(session_id)}/message"
            sending = asyncio.create_task(self._ask("POST", path, question.directory, question.message, timeout_s=None))
            await first_of(sending, listening)
            self._still(listening, there=sending.done())
            status, body = sending.result()
            with suppress(TimeoutError):  # events may come after the answer that they lead to
                async with asyncio.timeout(SETTLE_S):
                    await run.idle.wait()
            run.said.answer(status, body)
            if (
                question.needs is not None
                and (await self._mcp(question.needs, question.directory)).get("status") != "connected"
            ):
                run.said.note(f"the MCP server {question.needs} ended during the run")
        finally:
            left = [task for task in (listening, sending, *run.replies) if task is not None]
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)

    async def _attached(self, name: str, directory: str) -> None:
        """Starts the MCP servers of the folder, if need be, and fails if that one is not there."""
        about = await self._mcp(name, directory)
        if about.get("status") == "failed":  # perhaps long ago
            await self._ask("POST", f"/mcp/{_id(name)}/connect", directory, timeout_s=MCP_S)
            about = await self._mcp(name, directory)
        if about.get("status") != "connected":
            why = str(about.get("error") or about.get("status") or "opencode does not know of it")[:MAX_SAID]
            raise Failed(OpencodeTrouble("mcp_server", f"the MCP server {name} was not attached: {why}"))

    async def _mcp(self, name: str, directory: str) -> Json:
        _, said = await self._ask("GET", "/mcp", directory, timeout_s=MCP_S)
        about = said.get(name) if isinstance(said, dict) else None
        return about if isinstance(about, dict) else {}

    @staticmethod
    def _still(listening: asyncio.Task[None], *, there: bool) -> None:
        """Raises why the events ended, unless what was waited for is there."""
        if not there:
            if listening.done():
                listening.result()
            raise Dropped("its events ended too early")

    async def _open(self, question: PermissionQuestion) -> str:
        status, said = await self._ask(
            "POST", "/session", question.directory, {"title": question.title, "permission": NOBODY_THERE}
        )
        session_id = said.get("id") if isinstance(said, dict) else None
        if status != 200 or not isinstance(session_id, str):
            raise Failed(trouble(said if isinstance(said, dict) else {"name": f"it opened no session (HTTP {status})"}))
        return session_id

    async def _listen(self, run: _ServedRun) -> None:
        """All events of the folder, as long as there are any."""
        async with self._request("GET", "/event", run.question.directory, timeout_s=None) as response:
            if response.status_code != 200:
                raise NoServer(f"it gives no events (HTTP {response.status_code})")
            async for line in _lines(response):
                if line.startswith(b"data:"):
                    self._on_event(run, line[5:])

    def _on_event(self, run: _ServedRun, raw: bytes) -> None:
        try:
            event = from_json(raw, allow_inf_nan=False)
        except ValueError:
            return
        about = event.get("properties") if isinstance(event, dict) else None
        if not isinstance(about, dict):
            return
        kind = event.get("type")
        if kind == "server.connected":
            run.listening.set()
        elif run.said.event(str(kind), about):
            if kind != "session.status":  # one that only says that it tries again is silent
                run.heard_at = asyncio.get_running_loop().time()
            if kind == "permission.asked":
                task = asyncio.create_task(self._reply(run, about))
                run.replies.add(task)
                task.add_done_callback(run.replies.discard)
            elif kind == "session.idle" and about.get("sessionID") == run.said.session_id:
                run.idle.set()

    async def _reply(self, run: _ServedRun, asked: Mapping[str, Any]) -> None:
        permission = asked.get("permission")
        given = isinstance(permission, str) and permission in run.question.permit
        with suppress(httpx2.HTTPError):  # the run itself will tell
            path = f"/permission/{_id(asked.get('id'))}/reply"
            await self._ask("POST", path, run.question.directory, {"reply": "once" if given else "reject"})

    async def _abort(self, run: _ServedRun, talking: asyncio.Task[None], grace_s: float) -> None:
        """Ends the run. If the server does not obey, it is ended: its other runs are lost then, but no child of this
        one is left.
        """
        obeyed = False
        try:
            with suppress(TimeoutError, httpx2.HTTPError, NoServer):
                async with asyncio.timeout(grace_s):
                    while not obeyed and run.said.session_id is not None:
                        path = f"/session/{_id(run.said.session_id)}/abort"
                        await self._ask("POST", path, run.question.directory)
                        # Again and again: the first may come before the message does.
                        await asyncio.wait([talking], timeout=AGAIN_S)
                        obeyed = talking.done()
                    obeyed = True
        finally:
            if not obeyed:
                await self._end()

    async def _ask(
        self, method: str, path: str, directory: str, body: Json | None = None, *, timeout_s: float | None = ASK_S
    ) -> tuple[int, Any]:
        async with self._request(method, path, directory, body, timeout_s=timeout_s) as response:
            raw = bytearray()
            async for chunk in response.aiter_bytes():
                raw += chunk
                if len(raw) > MAX_ANSWER:
                    raise TooMuch
            try:
                return response.status_code, from_json(bytes(raw), allow_inf_nan=False)
            except ValueError:
                return response.status_code, None

    @asynccontextmanager
    async def _request(
        self, method: str, path: str, directory: str, body: Json | None = None, *, timeout_s: float | None
    ) -> AsyncIterator[httpx2.Response]:
        if self._client is None:
            raise NoServer("it is closed")
        timeout = httpx2.Timeout(timeout_s, connect=ASK_S)
        async with self._client.stream(
            method, path, params={"directory": directory}, json=body, timeout=timeout
        ) as response:
            yield response

    @contextmanager
    def _in_use(self) -> Iterator[None]:
        self._runs += 1
        self.keep()
        try:
            yield
        finally:
            self._runs -= 1
            self.keep()

    def keep(self) -> None:
        """Puts off its end: it is wanted, or was until now."""
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        if not self._runs and self.alive:
            self._idle = asyncio.get_running_loop().call_later(IDLE_S, self._stop.set)

    async def _wait_for_port(self) -> int:
        assert self._child is not None
        await first_of(self._port, self._child, timeout_s=START_S)
        if self._port.done():
            return self._port.result()
        raise NoServer(await self._why(NoServer(f"it was not ready after {START_S:g} s")))

    async def _check(self) -> None:
        """A server that asks for no password would do anybody's bidding: older versions know none."""
        assert self._client is not None
        try:
            async with self._client.stream("GET", "/global/health", auth=None) as response:
                stranger = response.status_code
            status, _ = await self._ask("GET", "/global/health", "")
        except httpx2.HTTPError as error:
            raise NoServer(await self._why(error)) from None
        if stranger != 401:
            raise NoServer("it asks nobody for a password")
        if status != 200:
            raise NoServer(f"it does not answer as expected (HTTP {status})")

    async def _why(self, error: Exception) -> str:
        """What went wrong: the server's last words, if it has ended."""
        if self._child is not None and self._child.done():
            try:
                ended = self._child.result()
            except NotStarted as failed:
                return str(failed)
            return f"the server ended: {ended.stderr.strip()[-500:] or 'it said nothing'}"
        return str(error) or type(error).__name__

    def _on_line(self, line: bytes) -> None:
        found = READY.search(line)
        if found and not self._port.done():
            self._port.set_result(int(found[1]))


async def _lines(response: httpx2.Response) -> AsyncIterator[bytes]:
    rest, total = bytearray(), 0
    async for chunk in response.aiter_bytes():
        total += len(chunk)
        for number, part in enumerate(chunk.split(b"\n")):
            if number:
                yield bytes(rest)
                rest.clear()
            rest += part
            if len(rest) > MAX_EVENT or total > MAX_EVENTS:
                raise TooMuch


def _id(value: object) -> str:
    """An id that can stand in a path."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", str(value))

"""The `open-code` runtime: opencode, old and new, as a program for one run or as a server for many."""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from pydantic_core import to_json

from go_ent.composer.catalogue.schemas import Checker
from go_ent.composer.project.layers import without_secrets
from go_ent.composer.sources.server_config import Scrubber
from go_ent.engine.core.config import RunnerConfig
from go_ent.engine.core.models import RunRequest
from go_ent.engine.processes.child import ChildLimits, Command, Ended, NotStarted, run_child
from go_ent.engine.processes.environment import child_environment
from go_ent.engine.runners.base.agent import AgentProgram, Live, RunRefused, checker_for
from go_ent.engine.runners.base.runner import Availability, Emit
from go_ent.engine.runners.opencode import request as asked
from go_ent.engine.runners.opencode.events import MAX_OUTPUT, OpencodeTranscript, last_json, old_answer, verdict
from go_ent.engine.runners.opencode.plugin import Plugin
from go_ent.engine.runners.opencode.request import Way
from go_ent.engine.runners.opencode.serve import PASSWORD, NoServer, PermissionQuestion, Server
from go_ent.waiting import ended, first_of

QUIET = tuple(f"OPENCODE_DISABLE_{what}" for what in ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "DEFAULT_PLUGINS"))
AGAIN_S = 60.0  # before a server that could not be started is tried again
GRACE_S = 3.0  # for a run that is asked to stop
TAIL_CHARS = 2000
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def _limits(live: Live, request: RunRequest) -> ChildLimits:
    left = None if request.timeout_s is None else max(0.01, request.timeout_s + live.began - time.monotonic())
    return ChildLimits(timeout_s=left, silence_s=request.silence_s, grace_s=GRACE_S)


class OpenCodeRunner(AgentProgram):
    """Runs requests on opencode, in the way that `opencode_request.way_for` says.

    What an agent may use is set by an agent of our own, since the rules of an agent come last: for `read` it has the
    tools that look (but not at .env files) and those that are attached, for `none` no tool at all. For `edit` the rules
    are the user's own. What they leave to a question is permitted for edits and refused for all else; in `run`, which
    answers by itself, it is refused.

    opencode has no limit for money: the cost of each step is watched, and the run is stopped after the step that passed
    it.
    """

    name = "open-code"
    family = "mcp"

    def __init__(self, config: RunnerConfig, *, project: Path, host_env: Mapping[str, str] | None = None) -> None:
        host = os.environ if host_env is None else host_env
        super().__init__(config.command or ("opencode",), project, host, "npm install -g opencode-ai")
        self._config = config
        self._given = config.set.get(asked.CONTENT) or self._host.get(asked.CONTENT) or ""
        self._mark, self._password = secrets.token_hex(4), secrets.token_urlsafe(24)
        self._scrub = Scrubber({self._password} | asked.secrets_in(self._host, config, self._given))
        # It would ask the registry of npm for a package of its own at each start.
        said = {name.lower() for name in (*self._host, *config.set)}
        self._offline = {} if asked.OFFLINE in said else {asked.OFFLINE: "true"}
        self._hidden = (PASSWORD, *self._offline)
        self._plugin = Plugin(self._hidden)
        self._servers: dict[str, Server] = {}
        self._lost: list[Server] = []
        self._no_server: tuple[float, str] | None = None
        self._starting = asyncio.Lock()

    async def _let_go(self) -> None:
        servers = [*self._servers.values(), *self._lost]
        self._servers.clear()
        self._lost.clear()
        for server in servers:
            await server.close()
        await asyncio.to_thread(self._plugin.remove)

    async def _execute(self, request: RunRequest, emit: Emit, live: Live) -> dict[str, Any]:
        asked.check(request)
        checker = checker_for(request)
        there = await self._there()
        version = asked.version_of(there.version or "")
        tools = request.serve_tools and request.access != "none"
        way = asked.way_for(version, request.access, tools=tools, own_flags=bool(self._config.args))
        model, adjustments = asked.model_for(request.model, self._config.model, way)
        said = OpencodeTranscript(
            partial(self._tell, emit), max_usd=request.max_usd, max_tokens=request.max_tokens, over=live.stop.set
        )
        if version is None:
            said.note(f"the version of opencode can't be read ({there.version}): it is taken for a current one")
        try:
            ended = await self._run(way, request, model, tools, said, live)
        except NotStarted as problem:
            raise RunRefused("not_found" if problem.missing else "task", str(problem)) from None
        status, failure, error = verdict(said, ended, request, self._tail(ended.stderr))
        structured = None
        if status == "completed" and checker is not None:
            structured, error = await _structured(said.text[-MAX_OUTPUT:], checker)
            if error is not None:
                status, failure = "failed", "task"
        return {
            "status": status,
            "failure": failure,
            "error": error and self._scrub(error),
            "output": (await asyncio.to_thread(self._scrub, said.text))[-MAX_OUTPUT:],
            "structured": self._clean(structured),
            "tokens": said.tokens,
            "cost_usd": said.cost_usd,
            "model": said.model or model,
            "session_id": said.session_id or request.session_id,
            "files_modified": tuple(dict.fromkeys(_relative(path, request.cwd) for path in said.files)),
            "observations": tuple(self._scrub(note) for note in said.notes),
            "adjustments": adjustments,
        }

    async def _run(
        self, way: Way, request: RunRequest, model: str | None, tools: bool, said: OpencodeTranscript, live: Live
    ) -> Ended:
        if way == "old":
            return await self._run_old(request, tools, said, live)
        if way == "serve":
            try:
                server = await self._server_unless(live, request, tools)
            except NoServer as error:
                said.note(f"opencode serve could not be used, and opencode run was: {error}")
                if tools:
                    said.note("whether the attached tools were there can't be seen")
            else:
                if server is None:
                    return Ended("interrupted" if live.stop.is_set() else "timeout", None, "", live.duration_ms)
                permit = frozenset({"edit"}) if request.access == "edit" else frozenset[str]()
                message = asked.message(request, model, self._mark)
                needs = asked.TOOLS if tools else None
                question = PermissionQuestion(
                    request.cwd, asked.title(request), message, request.session_id, permit, needs
                )
                try:
                    return await server.ask(question, said, limits=_limits(live, request), stop=live.stop)
                finally:
                    await self._plugin.reap(said.sessions)
        argv = (*self._program, *asked.flags(request, model, self._mark, self._config.args))
        content = self._content(request, tools, agents=request.access in asked.PERMISSIONS)
        env = self._environment(request.cwd, content, offline=request.access != "edit")
        command = Command(argv, Path(request.cwd), env, asked.prompt(request).encode("utf-8", "replace"))
        return await run_child(command, said.line, limits=_limits(live, request), stop=live.stop, tag=request.run_id)

    async def _run_old(self, request: RunRequest, tools: bool, said: OpencodeTranscript, live: Live) -> Ended:
        if request.session_id:
            raise RunRefused("task", f"this opencode can't resume a session: {asked.UPDATE}")
        if tools:
            said.note("this opencode is too old to be given tools")
        if request.max_usd is not None or request.max_tokens is not None:
            said.note("this opencode is too old to tell what it spends: the limit was not watched")
        # One argument, so that a prompt can't be taken for a flag.
        argv = (*self._program, f"--prompt={asked.prompt(request)}", "-f", "json", "-q", *self._config.args)
        command = Command(argv, Path(request.cwd), self._environment(request.cwd))
        lines: list[bytes] = []
        ended = await run_child(
            command, lines.append, limits=_limits(live, request), stop=live.stop, tag=request.run_id
        )
        try:
            answer = {"type": "text", "part": {"type": "text", "text": old_answer(b"\n".join(lines))}}
        except ValueError:
            said.unreadable = len(lines)
        else:
            said.line(to_json(answer))
        return ended

    async def _server_unless(self, live: Live, request: RunRequest, tools: bool) -> Server | None:
        """The server, or None if the run was stopped or its time was up before it was there."""
        starting = asyncio.create_task(self._server(request, tools))
        try:
            await first_of(starting, live.stop, timeout_s=_limits(live, request).timeout_s)
            return starting.result() if starting.done() else None
        finally:
            await ended(starting)

    async def _server(self, request: RunRequest, tools: bool) -> Server:
        """The server for that configuration, started anew if it is not there any more."""
        async with self._starting:
            try:
                plugin = await asyncio.to_thread(self._plugin.address)
            except OSError as error:
                raise NoServer(f"the plugin for it can't be written: {error.strerror}") from None
            content = self._content(request, tools, agents=True, plugin=plugin) or ""
            server = self._servers.get(content)
            if server is not None and server.alive:
                server.keep()
                return server
            if server is not None:
                del self._servers[content]
                if server.busy:
                    self._lost.append(server)
                else:
                    await server.close()
            if self._no_server is not None and time.monotonic() < self._no_server[0] + AGAIN_S:
                raise NoServer(self._no_server[1])
            env = self._environment(str(self._project), content, offline=self._hooked)
            tag = f"open-code-serve/{os.getpid()}/{secrets.token_hex(8)}"
            try:
                server = await Server.start(Command(self._program, self._project, env), tag, self._password)
            except NoServer as error:
                self._no_server = (time.monotonic(), str(error))
                raise
            self._servers[content] = server
            server.keep()
            return server

    def _own_environment(self) -> dict[str, str]:
        return self._environment(str(self._project))

    def _judged(self, said: str) -> Availability:
        numbers = asked.version_of(said)
        version = ".".join(map(str, numbers)) if numbers else said[:50] or "unknown"
        try:
            asked.way_for(numbers, "edit")
        except RunRefused as error:
            return Availability(False, version, str(error))
        return Availability(True, version)

    def _hide(self, text: str) -> str:
        return self._scrub(text)

    @property
    def _hooked(self) -> bool:
        """Whether the plugin is asked what a shell finds in its environment."""
        numbers = asked.version_of((self._availability and self._availability.version) or "")
        return numbers is None or numbers >= asked.HOOKED

    def _environment(self, cwd: str, content: str | None = None, *, offline: bool = False) -> dict[str, str]:
        """`offline` is not for agents with a shell of this environment: what they start with npm would be so too."""
        quiet = {name: "1" for name in QUIET if name not in self._host} | (self._offline if offline else {})
        # opencode believes PWD more than the folder it is started in.
        own = {"PWD": cwd, **({asked.CONTENT: content} if content else {})}
        try:
            return child_environment(
                self._host, allow=(*asked.PASSES, *self._config.env), set={**quiet, **self._config.set, **own}
            )
        except ValueError as error:
            raise RunRefused("task", f"[runners.open-code]: {error}") from None

    def _content(self, request: RunRequest, tools: bool, *, agents: bool, plugin: str | None = None) -> str | None:
        mark, tools_in = self._mark if agents else None, self._project if tools else None
        # It would put values in for references of its own kind, which ours contain.
        settings = {
            name: value for name, value in without_secrets(self._host).items() if not re.search(r"\{(env|file):", value)
        }
        return asked.content(
            self._given,
            mark=mark,
            tools_in=tools_in,
            cwd=request.cwd,
            plugin=plugin,
            hidden=self._hidden,
            settings=settings,
        )

    def _tail(self, stderr: str) -> str:
        return COLOUR.sub("", self._scrub(stderr))[-TAIL_CHARS:].strip()


async def _structured(text: str, checker: Checker) -> tuple[Any, str | None]:
    try:
        value = await asyncio.to_thread(last_json, text)
    except ValueError as error:
        return None, f"JSON was asked for, and {error}"
    problems = await checker.check(value)
    return (
        (None, f"the JSON of the answer does not fit its schema: {'; '.join(problems)}") if problems else (value, None)
    )


def _relative(path: str, cwd: str) -> str:
    found = Path(cwd, path)
    return found.relative_to(cwd).as_posix() if found.is_relative_to(cwd) else str(found)

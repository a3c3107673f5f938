"""The `claude-code` runtime: Claude Code, by MCP or headless, as the task needs."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Literal

from go_ent.composer.project.layers import PREFIX, without_secrets
from go_ent.composer.sources.server_config import Scrubber
from go_ent.engine.core.config import RunnerConfig
from go_ent.engine.core.models import RunRequest
from go_ent.engine.processes.environment import LEAST_SECRET, child_environment, secrets_of
from go_ent.engine.processes.trees import TAG
from go_ent.engine.runners.base.agent import AgentProgram, Live, RunRefused
from go_ent.engine.runners.base.runner import Availability, Emit
from go_ent.engine.runners.claude.headless import Asked, Fields, check, run_headless
from go_ent.engine.runners.claude.mcp import AgentServer, NoAgent, run_agent

# Its own settings and keys. Others, like those of a cloud provider, are named in `[runners.claude-code] env`.
PASSES = ("ANTHROPIC_*", "CLAUDE_*", "MCP_TIMEOUT", "MCP_TOOL_TIMEOUT")
# What a Claude Code tells its own children of itself: a new one is not to take it for its own.
OUTER = frozenset(
    f"CLAUDE_{name}"
    for name in (
        "PID EFFORT CODE_CHILD_SESSION CODE_ENTRYPOINT CODE_EXECPATH CODE_MESSAGING_SOCKET CODE_MESSAGING_TOKEN "
        "CODE_SESSION_ATTENDED CODE_SESSION_ID CODE_SSE_PORT"
    ).split()
)
# Unless the host says otherwise. A run has one end: what it starts, it waits for. Its own retries leave time for
# another runtime.
DEFAULTS = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",
    "CLAUDE_CODE_MAX_RETRIES": "4",
    "DISABLE_AUTOUPDATER": "1",
}
# A prompt holds what others wrote: an @path in it would be read into it, whatever the access is.
ALWAYS = {"CLAUDE_CODE_DISABLE_FILE_MENTIONS": "1"}
WITHOUT_ACCESS = {"CLAUDE_CODE_DISABLE_ATTACHMENTS": "1"}  # the same, for versions that don't know the other
SECRET = re.compile(r"KEY|TOKEN|SECRET|PASS|CRED|AUTH|HEADER", re.IGNORECASE)
VERSION = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+")
MODELS = frozenset({"sonnet", "opus", "haiku", "fable"})  # that an Agent of `claude mcp serve` can be given

Way = Literal["mcp", "headless"]


def way(request: RunRequest, *, own_flags: bool = False) -> Way:
    """How a request is run.

    By `mcp` if it needs text or reading only, and nothing that this way does not have: a session (new, or to go on
    with), a price, a limit in dollars or tokens, an answer in a shape, our tools, a model that is not one of `MODELS`,
    flags of the user's own. Else `headless`, which has all of it.
    """
    needs = (
        request.access == "edit",
        request.needs_session,
        request.session_id is not None,
        request.max_usd is not None,
        request.max_tokens is not None,
        request.json_schema is not None,
        request.serve_tools,
        request.model is not None and request.model not in MODELS,
        own_flags,
    )
    return "headless" if any(needs) else "mcp"


class ClaudeRunner(AgentProgram):
    """Runs requests on Claude Code, in the way that `way` says.

    What an agent may use: for `edit` its tools for files, the shell and the web, within the user's own rules; for
    `read` those that look; for `none` none. A tool that it wanted and was denied makes the run a failure, whatever it
    says itself.
    """

    name = "claude-code"
    family = "mcp"

    def __init__(self, config: RunnerConfig, *, project: Path, host_env: Mapping[str, str] | None = None) -> None:
        host = os.environ if host_env is None else host_env
        named = {
            name: value
            for name, value in host.items()
            if name.startswith("GO_ENT_") and not name.startswith(PREFIX) and name != TAG
        }
        self._own = named | without_secrets(host)
        inner = {name: value for name, value in host.items() if name not in OUTER}
        super().__init__(config.command or ("claude",), project, inner, "npm install -g @anthropic-ai/claude-code")
        self._config = config
        self._scrub = Scrubber(_secrets(self._host, config))
        self._servers: dict[str, AgentServer] = {}
        self._empty: str | None = None  # a folder in which nothing can be read

    async def _let_go(self) -> None:
        servers, self._servers = tuple(self._servers.values()), {}
        for server in servers:
            await server.close()
        if self._empty is not None:
            await asyncio.to_thread(shutil.rmtree, self._empty, ignore_errors=True)
            self._empty = None

    async def _execute(self, request: RunRequest, emit: Emit, live: Live) -> Fields:
        emit = partial(self._tell, emit)
        request = request.model_copy(update={"model": request.model or self._config.model})
        check(request)
        await self._there()
        notes: tuple[str, ...] = ()
        if way(request, own_flags=bool(self._config.args)) == "mcp":
            try:
                return await run_agent(self._server(request), request, emit, live.stop, live.began, self._scrub)
            except NoAgent as error:
                notes = (f"claude mcp serve could not be used, and claude -p was: {self._scrub(str(error))[:300]}",)
        asked = Asked(
            request, self._program, self._config.args, self._environment(request), self._own, self._project, self._scrub
        )
        fields = await run_headless(asked, emit, live.stop, live.began)
        return {
            **fields,
            "structured": self._clean(fields["structured"]),
            "observations": (*notes, *fields["observations"]),
        }

    def _server(self, request: RunRequest) -> AgentServer:
        folder = request.cwd
        if request.access == "none":
            self._empty = folder = self._empty or tempfile.mkdtemp(prefix="go-ent-")
        if folder not in self._servers:
            self._servers[folder] = AgentServer(self._program, folder, self._environment(request))
        return self._servers[folder]

    def _environment(self, request: RunRequest | None = None) -> dict[str, str]:
        given = {name: value for name, value in DEFAULTS.items() if name not in self._host} | ALWAYS
        if request is not None and request.access == "none":
            given |= WITHOUT_ACCESS
        if request is not None and request.max_tokens is not None:
            given["CLAUDE_CODE_MAX_OUTPUT_TOKENS"] = str(request.max_tokens)
        try:
            return child_environment(self._host, allow=(*PASSES, *self._config.env), set={**given, **self._config.set})
        except ValueError as error:
            raise RunRefused("task", f"[runners.claude-code]: {error}") from None

    def _own_environment(self) -> dict[str, str]:
        return self._environment()

    def _judged(self, said: str) -> Availability:
        version = VERSION.search(said)
        return Availability(True, version[0] if version else said[:50] or "unknown")

    def _hide(self, text: str) -> str:
        return self._scrub(text)


def _secrets(host: Mapping[str, str], config: RunnerConfig) -> set[str]:
    """What must not be read in a result: what the configuration gives, and of Claude Code's own settings those that
    are secret.
    """
    own = {
        name: value
        for name, value in (*host.items(), *config.set.items())
        if name.startswith(("ANTHROPIC_", "CLAUDE_"))
    }
    hidden = {value for name, value in own.items() if SECRET.search(name) or "@" in value}
    given = {name: value for name, value in config.set.items() if name not in own}
    return {value for value in hidden | secrets_of(host, allow=config.env, set=given) if len(value) >= LEAST_SECRET}

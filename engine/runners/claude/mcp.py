"""Claude Code by MCP: the engine is a client of `claude mcp serve`, and calls its Agent tool. For text, and what only
reads.

Its agents may not write, whatever the user's settings say, and may read in the folder that the server was started in.
So an agent without any access gets a server in an empty folder.
"""

from __future__ import annotations

import asyncio
import importlib
import re
import secrets
import time
from collections.abc import Callable, Mapping
from typing import Any

from go_ent.composer import CallContext, CallError, ComposerError, McpSource, ServerConfig
from go_ent.composer.sources.server_config import INHERITED
from go_ent.engine.core.models import RunRequest, Tokens
from go_ent.engine.processes.trees import TAG, reap
from go_ent.engine.runners.base.runner import Emit, Progress
from go_ent.engine.runners.claude.stream import EDITS, MAX_OUTPUT, MAX_SAID, api_failure, tokens_of
from go_ent.waiting import ended, first_of

AGENT = "claude.Agent"
START_S = 30.0
DAY_S = 86_400.0
SHORT = 8  # characters: a shorter value is a switch, and no secret
NO_AGENTS = re.compile(r"Agent type '[^']*' not found")  # what older versions answer
ERROR_WORD = re.compile(r"error type (\w+)")
ERROR_STATUS = re.compile(r"HTTP ([0-9]{3})\b")

Fields = dict[str, Any]


class NoAgent(Exception):
    """Internal: raised when there is no such server, tool or model. Nothing was asked; another way is tried."""


class AgentServer:
    """One `claude mcp serve` in one folder: started when first asked, kept for the next, started again when it has
    died.
    """

    def __init__(self, program: tuple[str, ...], folder: str, env: Mapping[str, str]) -> None:
        self._tag = f"claude-mcp/{secrets.token_hex(8)}"
        given = {**env, TAG: self._tag}
        try:
            config = ServerConfig(
                command=program[0],
                args=[*program[1:], "mcp", "serve"],
                env={
                    name: _reference(name, value)
                    for name, value in given.items()
                    if name.isidentifier() and name not in INHERITED
                },
                cwd=folder,
                timeout_s=DAY_S,
                start_timeout_s=START_S,
            )
        except ValueError as error:
            raise NoAgent(f"its command can't be given to an MCP client: {type(error).__name__}") from None
        # Not all that it is given is secret (the name of a model): what it answers is scrubbed by who knows what is.
        self._source = McpSource("claude", config, given, origin="claude mcp serve", hides=False)

    async def ask(self, request: RunRequest) -> Any:
        """What the Agent tool answers. `NoAgent` if it is not there; `ComposerError` if it fails."""
        await asyncio.to_thread(importlib.import_module, "mcp")  # takes a second, which the loop should not wait
        try:
            agent = next((spec for spec in await self._source.tools() if spec.name == AGENT), None)
        except ComposerError as error:
            raise NoAgent(str(error)) from None
        if agent is None:
            raise NoAgent("claude mcp serve has no tool Agent")
        prompt = f"{request.system}\n\n{request.prompt}" if request.system else request.prompt
        arguments = {"description": f"go-ent {request.task_id}"[:60], "prompt": prompt}
        if request.model is not None:
            names = agent.input_schema.get("properties", {}).get("model", {}).get("enum", ())
            if request.model not in names:
                raise NoAgent(f"its Agent takes no model {request.model}")
            arguments["model"] = request.model
        return await self._source.call(AGENT, arguments, CallContext())

    async def close(self) -> None:
        await self._source.close()
        await reap(self._tag)


async def run_agent(
    server: AgentServer, request: RunRequest, emit: Emit, stop: asyncio.Event, began: float, scrub: Callable[[str], str]
) -> Fields:
    """The fields of a result. `NoAgent` if this way can't be gone.

    The Agent says nothing until it answers: so the silence limit is one on the whole, and the shorter of the two
    counts.
    """
    left = None if request.timeout_s is None else max(0.01, request.timeout_s + began - time.monotonic())
    limit, quiet = left, False
    if request.silence_s is not None and (limit is None or request.silence_s < limit):
        limit, quiet = request.silence_s, True
    asking = asyncio.ensure_future(server.ask(request))
    try:
        await first_of(asking, stop, timeout_s=limit)
        if asking.done():
            fields = _answered(asking.result(), request)
        elif stop.is_set():
            fields = {"status": "interrupted", "failure": "interrupted", "error": "claude was interrupted"}
        elif quiet:
            fields = {
                "status": "failed",
                "failure": "silence",
                "error": f"claude was ended after {request.silence_s:g} s without a word",
            }
        else:
            fields = {
                "status": "timeout",
                "failure": "timeout",
                "error": f"claude was ended after {request.timeout_s:g} s",
            }
    except CallError as error:
        if NO_AGENTS.search(str(error)):
            raise NoAgent("claude mcp serve has the tool Agent, and no agents for it") from None
        fields = _failed(str(error))
    except ComposerError as error:
        fields = {"status": "failed", "failure": "crash", "error": f"claude ended without an answer: {error}"}
    finally:
        await ended(asking)
    fields["output"] = scrub(fields.get("output", ""))
    fields["error"] = fields.get("error") and scrub(fields["error"])[:MAX_SAID]
    if fields["output"]:
        emit(Progress("text", fields["output"]))
    return fields


def _failed(said: str) -> Fields:
    word, status = ERROR_WORD.search(said), ERROR_STATUS.search(said)
    kind = api_failure(int(status[1]) if status else None, word[1] if word else "", said) if "API" in said else "task"
    return {"status": "failed", "failure": kind, "error": f"claude failed: {said}"}


def _answered(answer: Any, request: RunRequest) -> Fields:
    """What the Agent tool's one block of JSON comes to: `{status, content, resolvedModel, usage, toolsUsed, …}`."""
    if not isinstance(answer, dict) or not isinstance(answer.get("content"), list):
        return {"status": "failed", "failure": "output", "error": "claude's Agent answered in a form that is not known"}
    output = "\n\n".join(_texts(answer))[-MAX_OUTPUT:]
    tokens, notes = _tokens(answer)
    model = answer.get("resolvedModel")
    fields: Fields = {
        "output": output,
        "tokens": tokens,
        "model": model[:100] if isinstance(model, str) else request.model,
        "observations": notes,
    }
    used = answer.get("toolsUsed")
    wrote = [tool for tool in used if tool in EDITS] if isinstance(used, list) else []
    if answer.get("status") != "completed":
        return {
            **fields,
            "status": "failed",
            "failure": "task",
            "error": f"claude's Agent ended as {str(answer.get('status'))[:100]}",
        }
    if wrote:  # it is denied them, and goes on as if nothing had been
        return {
            **fields,
            "status": "failed",
            "failure": "permission",
            "error": f"claude was denied {', '.join(wrote)}: it may only read",
        }
    if not output.strip():
        return {**fields, "status": "failed", "failure": "empty", "error": "claude ended without an answer"}
    return {**fields, "status": "completed"}


def _texts(answer: Mapping[str, Any]) -> list[str]:
    """What the agent wrote, without the notes that Claude Code puts before and after it."""
    blocks = answer["content"]
    before, after = (_count(answer.get(name)) for name in ("harnessNoteCount", "harnessTailCount"))
    own = blocks[before : len(blocks) - after]
    return [block["text"] for block in own if isinstance(block, dict) and isinstance(block.get("text"), str)]


def _tokens(answer: Mapping[str, Any]) -> tuple[Tokens | None, tuple[str, ...]]:
    """Its figures are those of the last reply: with tools there were others, and the whole is not known."""
    if not isinstance(answer.get("usage"), dict):
        return None, ()
    if _count(answer.get("totalToolUseCount")):
        return None, ("claude's Agent used tools, and does not tell what all of its replies took",)
    return tokens_of(answer["usage"]), ()


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1_000_000 else 0


def _reference(name: str, value: str) -> str:
    """By reference: so no configuration holds a value, and messages are scrubbed of it. Switches are no secrets."""
    return value if len(value) < SHORT and "$" not in value else f"${{env:{name}}}"

"""Claude Code by `claude -p`: how it is asked, and a result of what it says. It has edits, a price, limits, sessions
and our tools.
"""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from go_ent.dataclass import dataclass
from go_ent.engine.core.models import RunRequest
from go_ent.engine.processes.child import ChildLimits, Command, NotStarted, run_child
from go_ent.engine.runners.base.agent import RunRefused, checker_for
from go_ent.engine.runners.base.runner import Emit
from go_ent.engine.runners.claude.stream import MAX_OUTPUT, ClaudeTranscript, relative
from go_ent.engine.runners.claude.verdict import ClaudeVerdict, verdict
from go_ent.sandbox.children.python import python_command

SERVER = "go-ent"  # the name of this project's MCP server
READING = frozenset({"Read", "Glob", "Grep"})
# beside what acceptEdits permits; rules of the user's that deny come first
EDITING = "Bash,Read,Glob,Grep,WebFetch,WebSearch"
SHAPE = "StructuredOutput"  # the tool that --json-schema adds
SERVE = "import os, sys; os.chdir(sys.argv.pop(1)); from go_ent.engine.cli import main; main()"
START_MS = "120000"  # for our server: its first start in a place may build the sandbox's image
# Older versions begin without a server that takes more than a few seconds, unless they are told to wait.
WAITS = {"MCP_TIMEOUT": START_MS, "MCP_CONNECT_TIMEOUT_MS": START_MS, "MCP_CONNECTION_NONBLOCKING": "0"}
ARGUMENT_BYTES = 100_000  # the kernel takes 128 KiB for one
LEAST_USD = 0.000001
TAIL_CHARS = 2000

Fields = dict[str, Any]


@dataclass(frozen=True)
class Asked:
    """A request with all that is needed to run it."""

    request: RunRequest
    program: tuple[str, ...]
    args: tuple[str, ...]  # flags of the user's own
    env: Mapping[str, str]
    server_env: Mapping[str, str]  # for our server, beside what Claude Code passes on
    project: Path
    scrub: Callable[[str], str]


def check(request: RunRequest) -> None:
    """Refuses what must not reach a command line, before anything is started."""
    if not request.prompt.strip():
        raise RunRefused("task", "there is no prompt", replan=True)
    if request.session_id is not None:
        try:
            whole = str(uuid.UUID(request.session_id)) == request.session_id.lower()
        except ValueError:
            whole = False
        if not whole:
            raise RunRefused("task", "that is no session of Claude Code: its ids are UUIDs", replan=True)
    if request.model is not None and (request.model.startswith("-") or not request.model.isprintable()):
        raise RunRefused("task", "the name of a model can't begin with - or hold what can't be printed", replan=True)
    if request.max_usd is not None and request.max_usd < LEAST_USD:
        raise RunRefused("budget", "there is no money left for it")


async def run_headless(asked: Asked, emit: Emit, stop: asyncio.Event, began: float) -> Fields:
    """The fields of a result, whatever happens. *stop* is set from outside to interrupt it, and from here to give
    up.
    """
    request = asked.request
    checker = checker_for(request)
    said = ClaudeTranscript(
        (lambda progress: None if progress.kind == "session" else emit(progress)) if _forgets(request) else emit,
        tools={"none": frozenset({SHAPE}), "read": READING | {SHAPE}, "edit": None}[request.access],
        server=SERVER if request.serve_tools else None,
        max_tokens=request.max_tokens,
        give_up=stop.set,
    )
    with tempfile.TemporaryDirectory(prefix="go-ent-") as folder:
        command = Command(
            (*asked.program, *flags(asked, Path(folder))),
            Path(request.cwd),
            {**WAITS, **asked.env} if request.serve_tools else asked.env,
            _prompt(request).encode("utf-8", "replace"),
        )
        left = None if request.timeout_s is None else max(0.01, request.timeout_s + began - time.monotonic())
        limits = ChildLimits(timeout_s=left, silence_s=request.silence_s)
        try:
            ended = await run_child(command, said.line, limits=limits, stop=stop, tag=request.run_id)
        except NotStarted as problem:
            raise RunRefused("not_found" if problem.missing else "task", str(problem)) from None
    found = verdict(said, ended, request, asked.scrub(ended.stderr)[-TAIL_CHARS:].strip())
    structured = None
    if found.status == "completed" and checker is not None and said.answer is not None:
        given = said.answer.structured
        structured = given if _is_object(request) or not isinstance(given, dict) else given.get("value")
        if problems := await checker.check(structured):
            structured, found = (
                None,
                ClaudeVerdict("failed", "task", f"the answer does not fit the schema: {'; '.join(problems)}"),
            )
    return {
        "status": found.status,
        "failure": found.failure,
        "error": found.error and asked.scrub(found.error),
        "replan": found.replan,
        "output": asked.scrub(said.output)[-MAX_OUTPUT:],
        "structured": structured,
        "tokens": said.tokens,
        "model": said.model or request.model,
        "session_id": _session(said, request),
        "files_modified": tuple(dict.fromkeys(relative(path, request.cwd) for path in said.files)),
        **_cost(said, request, cut=ended.by != "exit"),
        "observations": tuple(asked.scrub(note) for note in said.notes),
    }


def flags(asked: Asked, folder: Path) -> list[str]:
    """The arguments. What others wrote stands behind a `=`, so that nothing of it can be a flag; the prompt is on
    stdin.

    Files that they name are made in *folder*. Flags that limit what the agent may do come after the user's own.
    """
    request = asked.request
    made = ["-p", "--output-format", "stream-json", "--verbose", "--include-partial-messages"]
    if request.session_id:
        made.append(f"--resume={request.session_id}")
    else:
        made.append("--no-session-persistence" if _forgets(request) else f"--session-id={uuid.uuid4()}")
    if request.model:
        made.append(f"--model={request.model}")
    if request.system:
        long = len(request.system.encode("utf-8", "replace")) > ARGUMENT_BYTES
        file = _write(folder / "system.md", request.system) if long else None
        made.append(f"--append-system-prompt-file={file}" if long else f"--append-system-prompt={request.system}")
    if request.max_usd is not None:
        made.append(f"--max-budget-usd={request.max_usd:.6f}")
    if request.json_schema is not None:
        made.append(f"--json-schema={json.dumps(_shape(request))}")
    allowed = EDITING if request.access == "edit" else ""
    if request.serve_tools:
        # It starts where the agent works, and goes to the project.
        python, *argv = python_command(["-c", SERVE, str(asked.project), "serve"])
        server = {"type": "stdio", "command": python, "args": argv, "env": dict(asked.server_env)}
        file = _write(folder / "mcp.json", json.dumps({"mcpServers": {SERVER: server}}))
        made.append(f"--mcp-config={file}")
        allowed = f"{allowed},mcp__{SERVER}".strip(",")
    if allowed:
        made.append(f"--allowedTools={allowed}")
    if request.serve_tools or request.access != "edit":
        made.append("--strict-mcp-config")
    if request.access == "edit":
        return [*made, "--permission-mode=acceptEdits", *asked.args]
    tools = ",".join(sorted(READING)) if request.access == "read" else ""
    return [*made, *asked.args, f"--tools={tools}", "--permission-mode=dontAsk"]


def _prompt(request: RunRequest) -> str:
    """What begins with a slash would be a command of Claude Code's."""
    return f" {request.prompt}" if request.prompt.startswith("/") else request.prompt


def _forgets(request: RunRequest) -> bool:
    """Whether no session is kept: a plain question is not one that anybody goes on with."""
    return request.access == "none" and not request.needs_session and request.session_id is None


def _session(said: ClaudeTranscript, request: RunRequest) -> str | None:
    """The session to go on with: none, if it was not found."""
    if _forgets(request):
        return None
    return said.session_id or (request.session_id if said.answer is None else None)


def _is_object(request: RunRequest) -> bool:
    return request.json_schema is not None and request.json_schema.get("type") == "object"


def _shape(request: RunRequest) -> dict[str, Any]:
    """The schema that Claude Code is given: it takes one of an object only."""
    schema = dict(request.json_schema or {})
    if _is_object(request):
        return schema
    shared: dict[str, Any] = {key: schema.pop(key) for key in ("$defs", "definitions", "$schema") if key in schema}
    return {"type": "object", "properties": {"value": schema}, "required": ["value"], **shared}


def _cost(said: ClaudeTranscript, request: RunRequest, *, cut: bool) -> Fields:
    """What the run cost, and its session so far. Claude Code does not count a reply that was cut off, or never
    began.
    """
    total = said.answer.total_usd if said.answer is not None else None
    tokens, before = said.tokens, request.session_cost_usd if request.session_id is not None else 0.0
    if total is None or (total == 0 and tokens is not None and tokens.total):
        return {"cost_usd": None, "session_cost_usd": None}
    cost: float | None = total
    session: float | None = total
    if said.answer is not None and not said.answer.of_session:
        session = None if before is None else before + total
    elif before is None:
        cost = None
        said.note("what the session had cost before is not known: so what this run cost is not either")
    else:
        cost = max(0.0, total - before)
    if said.uncounted.total:
        cost = None
        said.note("claude does not count the reply that was cut off: what the run cost is not known")
    elif said.unpriced:
        cost = None
        said.note(f"claude does not know the price of {said.unpriced}: what the run cost is not known")
    if cost == 0 and cut:
        cost = None
        said.note("claude was ended while a reply was still to come: what the run cost is not known")
    return {"cost_usd": cost, "session_cost_usd": session}


def _write(path: Path, text: str) -> Path:
    with os.fdopen(
        os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8", errors="replace"
    ) as file:
        file.write(text)
    return path

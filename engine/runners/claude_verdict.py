"""How a run of `claude -p` came out: by what it said, hardly by how it ended."""

from __future__ import annotations

import re
import signal
from typing import NamedTuple

from engine.models import FailureKind, RunRequest, RunStatus
from engine.runners.claude_stream import BY_WORD, Answer, Transcript, api_failure, some
from engine.runners.process import Ended

LIMITS = frozenset({"error_max_turns", "error_max_budget_usd"})
OWN_ERROR = re.compile(r"error\b|no conversation found|.*cannot be used with root", re.IGNORECASE)


class Verdict(NamedTuple):
    status: RunStatus
    failure: FailureKind | None = None
    error: str | None = None
    replan: bool = False


def verdict(said: Transcript, ended: Ended, request: RunRequest, stderr: str) -> Verdict:
    """How a run came out. The exit code says little: 0 comes with a denied tool, with an interrupt, and with nothing said at all."""
    tail = f": {stderr}" if stderr else ""
    if said.gave_up is not None:
        return Verdict("failed", *said.gave_up)
    if said.answer is not None and not said.answer.failed:
        if ended.by != "exit":
            said.note("claude had answered, and was ended because it did not exit")
        return _answered(said, request)
    again = f" (it was trying again: {said.retrying.message})" if said.retrying else ""
    match ended.by:
        case "interrupted":
            return Verdict("interrupted", "interrupted", "claude was interrupted")
        case "timeout" | "silence":
            after = f"{request.timeout_s:g} s" if ended.by == "timeout" else f"{request.silence_s:g} s without a word"
            message = f"claude was ended after {after}{again}{tail}"
            if said.retrying is not None:
                return Verdict("failed", said.retrying.kind, message)
            return Verdict("timeout", "timeout", message) if ended.by == "timeout" else Verdict("failed", "silence", message)
        case "output":
            return Verdict("failed", "output", "claude was ended: it said more than is read")
    return _unanswered(said, ended, stderr, tail) if said.answer is None else _failed(said.answer)


def _answered(said: Transcript, request: RunRequest) -> Verdict:
    if said.dead_server:
        return Verdict("failed", "mcp_server", said.dead_server)
    if said.denied:
        hint = "; permit it in Claude's settings, or with --allowedTools in args of [runners.claude-code]"
        told = f"claude was denied {some(list(said.denied.values()))}"
        return Verdict("failed", "permission", told + hint * (request.access == "edit"))
    if request.json_schema is not None and (said.answer is None or said.answer.structured is None):
        return Verdict("failed", "task", "claude answered in text where a JSON value was asked for")
    if not said.output.strip():
        return Verdict("failed", "empty", "claude ended without an answer")
    return Verdict("completed")


def _failed(answer: Answer) -> Verdict:
    if answer.subtype in LIMITS:
        return Verdict("failed", "budget", f"claude was at its limit: {answer.text}")
    if answer.reason.startswith("aborted"):
        return Verdict("interrupted", "interrupted", "claude was interrupted by somebody else")
    api = answer.reason == "api_error" or answer.status is not None or answer.word in BY_WORD
    kind = api_failure(answer.status, answer.word, answer.text) if api else "task"
    return Verdict("failed", kind, f"claude failed: {answer.text or answer.subtype}")


def _unanswered(said: Transcript, ended: Ended, stderr: str, tail: str) -> Verdict:
    if said.heard == 0 and ended.code == 0:
        if said.unreadable:
            return Verdict("failed", "output", "what claude said is not what --output-format stream-json says")
        return Verdict("failed", "empty", f"claude ended without a word{tail}")
    if said.heard == 0 and ended.code == 1 and OWN_ERROR.match(stderr):  # a flag or a session that it does not know
        return Verdict("failed", "task", f"claude refused to start{tail}", replan=True)
    return Verdict("failed", "crash", f"claude ended by {exit_words(ended.code)} without an answer{tail}")


def exit_words(code: int | None) -> str:
    if code is None or code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"

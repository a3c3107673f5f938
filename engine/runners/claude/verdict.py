"""How a run of `claude -p` came out: by what it said, hardly by how it ended."""

from __future__ import annotations

import re
import signal
from typing import NamedTuple

from go_ent.engine.core.models import FailureKind, RunRequest, RunStatus
from go_ent.engine.processes.child import Ended
from go_ent.engine.runners.claude.stream import BY_WORD, Answer, ClaudeTranscript, api_failure, some

LIMITS = frozenset({"error_max_turns", "error_max_budget_usd"})
OWN_ERROR = re.compile(r"error\b|no conversation found|.*cannot be used with root", re.IGNORECASE)


class ClaudeVerdict(NamedTuple):
    status: RunStatus
    failure: FailureKind | None = None
    error: str | None = None
    replan: bool = False


def verdict(said: ClaudeTranscript, ended: Ended, request: RunRequest, stderr: str) -> ClaudeVerdict:
    """How a run came out. The exit code says little: 0 comes with a denied tool, with an interrupt, and with nothing
    said at all.
    """
    tail = f": {stderr}" if stderr else ""
    if said.gave_up is not None:
        return ClaudeVerdict("failed", *said.gave_up)
    if said.answer is not None and not said.answer.failed:
        if ended.by != "exit":
            said.note("claude had answered, and was ended because it did not exit")
        return _answered(said, request)
    again = f" (it was trying again: {said.retrying.message})" if said.retrying else ""
    match ended.by:
        case "interrupted":
            return ClaudeVerdict("interrupted", "interrupted", "claude was interrupted")
        case "timeout" | "silence":
            after = f"{request.timeout_s:g} s" if ended.by == "timeout" else f"{request.silence_s:g} s without a word"
            message = f"claude was ended after {after}{again}{tail}"
            if said.retrying is not None:
                return ClaudeVerdict("failed", said.retrying.kind, message)
            return (
                ClaudeVerdict("timeout", "timeout", message)
                if ended.by == "timeout"
                else ClaudeVerdict("failed", "silence", message)
            )
        case "output":
            return ClaudeVerdict("failed", "output", "claude was ended: it said more than is read")
    return _unanswered(said, ended, stderr, tail) if said.answer is None else _failed(said.answer)


def _answered(said: ClaudeTranscript, request: RunRequest) -> ClaudeVerdict:
    if said.dead_server:
        return ClaudeVerdict("failed", "mcp_server", said.dead_server)
    if said.denied:
        hint = "; permit it in Claude's settings, or with --allowedTools in args of [runners.claude-code]"
        told = f"claude was denied {some(list(said.denied.values()))}"
        return ClaudeVerdict("failed", "permission", told + hint * (request.access == "edit"))
    if request.json_schema is not None and (said.answer is None or said.answer.structured is None):
        return ClaudeVerdict("failed", "task", "claude answered in text where a JSON value was asked for")
    if not said.output.strip():
        return ClaudeVerdict("failed", "empty", "claude ended without an answer")
    return ClaudeVerdict("completed")


def _failed(answer: Answer) -> ClaudeVerdict:
    if answer.subtype in LIMITS:
        return ClaudeVerdict("failed", "budget", f"claude was at its limit: {answer.text}")
    if answer.reason.startswith("aborted"):
        return ClaudeVerdict("interrupted", "interrupted", "claude was interrupted by somebody else")
    api = answer.reason == "api_error" or answer.status is not None or answer.word in BY_WORD
    kind = api_failure(answer.status, answer.word, answer.text) if api else "task"
    return ClaudeVerdict("failed", kind, f"claude failed: {answer.text or answer.subtype}")


def _unanswered(said: ClaudeTranscript, ended: Ended, stderr: str, tail: str) -> ClaudeVerdict:
    if said.heard == 0 and ended.code == 0:
        if said.unreadable:
            return ClaudeVerdict("failed", "output", "what claude said is not what --output-format stream-json says")
        return ClaudeVerdict("failed", "empty", f"claude ended without a word{tail}")
    if said.heard == 0 and ended.code == 1 and OWN_ERROR.match(stderr):  # a flag or a session that it does not know
        return ClaudeVerdict("failed", "task", f"claude refused to start{tail}", replan=True)
    return ClaudeVerdict("failed", "crash", f"claude ended by {exit_words(ended.code)} without an answer{tail}")


def exit_words(code: int | None) -> str:
    if code is None or code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"

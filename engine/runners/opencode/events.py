"""What opencode says, and what it comes to. Nothing here starts or asks anything.

`opencode run --format json` writes `{type, sessionID, part | error}`, a line each, and no last line that sums up. The
server sends events about the same parts, many times over while a part grows; a part is known by its id and counted
once.
"""

from __future__ import annotations

import math
import re
import signal
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from pydantic_core import from_json

from go_ent.engine.core.models import FailureKind, RunRequest, RunStatus, Tokens
from go_ent.engine.processes.child import Ended
from go_ent.engine.runners.base.runner import Emit, Progress

MAX_OUTPUT = 4 << 20  # characters of an answer; its end is kept
MAX_FILES = 10_000
MAX_SAID = 2000  # characters of a message that somebody else wrote
MAX_TRIES = 50  # places where a JSON value could begin
ABSURD = 1e15  # no number of tokens or dollars
EDITS = frozenset({"write", "edit", "multiedit", "patch", "apply_patch"})
GOES_ON = frozenset({"tool-calls", "unknown"})  # reasons of a step after which there is another
REJECTED = "The user rejected permission"
CUT_SHORT = {
    "length": "the answer was cut short: the model's output limit was reached",
    "content-filter": "the provider filtered the answer",
}

AUTH = re.compile(r"api.?key|unauthori[sz]ed|authentication|not logged in", re.IGNORECASE)
RATE = re.compile(r"rate.?limit|too many requests|\b429\b|quota", re.IGNORECASE)
UNREACHABLE = re.compile(
    r"ECONN|ENOTFOUND|EAI_AGAIN|ETIMEDOUT|(?:cannot|unable to) connect|socket connection|fetch failed|overloaded",
    re.IGNORECASE,
)
VALUE = re.compile(r"^[\[{]", re.MULTILINE)

OpencodeVerdict = tuple[RunStatus, FailureKind | None, str | None]


class OpencodeTrouble(NamedTuple):
    """An error that opencode told of."""

    kind: FailureKind
    message: str


class OpencodeTranscript:
    """What a run has said so far, from whichever way it comes.

    `over` is called, once, when a step took the run past a limit of money or tokens and another step would follow.
    """

    def __init__(
        self,
        emit: Emit,
        *,
        max_usd: float | None = None,
        max_tokens: int | None = None,
        over: Callable[[], None] = lambda: None,
    ) -> None:
        self._emit, self._over = emit, over
        self._max_usd, self._max_tokens = max_usd, max_tokens
        self.session_id: str | None = None
        self.model: str | None = None
        self.tokens: Tokens | None = None
        self.troubles: list[OpencodeTrouble] = []
        self.rejected: str | None = None  # the permission that was refused, if nothing came after it
        self.retrying: str | None = None  # why the server tries again, if nothing came after it
        self.passed: str | None = None  # the limit that ended the run
        self.unreadable = 0
        self._sessions: set[str] = set()
        self._assistant: set[str] = set()  # messages of the agent, as the server names them
        self._texts: dict[str, str] = {}
        self._shown: dict[str, int] = {}
        self._counted: set[str] = set()
        self._tools: set[str] = set()
        self._files: dict[str, None] = {}
        self._cost = 0.0
        self._lines = 0
        self._notes: dict[str, None] = {}

    @property
    def text(self) -> str:
        """All the agent wrote, a paragraph for each part."""
        return "\n\n".join(text for text in self._texts.values() if text.strip())

    @property
    def sessions(self) -> tuple[str, ...]:
        """The session of the run, and those of its subagents where the server tells them."""
        return tuple(sorted(self._sessions))

    @property
    def cost_usd(self) -> float | None:
        """What the steps cost together. opencode says 0 for a model whose price it does not know: that is None."""
        return self._cost or None

    @property
    def files(self) -> tuple[str, ...]:
        """What the agent's own tools wrote, in order. What a shell command changed is not known."""
        return tuple(self._files)

    @property
    def notes(self) -> tuple[str, ...]:
        notes = list(self._notes)
        if self.unreadable:
            notes.append(f"{self.unreadable} lines of opencode's output could not be read")
        if self._max_usd is not None and self.tokens is not None and self.cost_usd is None:
            notes.append("opencode does not know the price of the model: the limit in dollars was not watched")
        return tuple(notes)

    def note(self, text: str) -> None:
        self._notes[text] = None

    def opened(self, session_id: str) -> None:
        """The session of the run is known."""
        if self.session_id is None:
            self.session_id = session_id
            self._sessions.add(session_id)
            self._emit(Progress("session", data={"session_id": session_id}))

    def line(self, raw: bytes) -> None:
        """One line of `opencode run --format json`. Events that are not known are passed over."""
        if not raw.strip():
            return
        said = _object(raw)
        if said is None:
            self.unreadable += 1
            return
        self._lines += 1
        session = said.get("sessionID")
        if isinstance(session, str) and session:
            self.opened(session)
        kind = _name(said.get("type"))
        if kind == "error":
            self.troubles.append(trouble(said.get("error")))
        elif kind in {"text", "tool_use", "step_start", "step_finish"}:
            part = _dict(said.get("part"))
            self._part(part, str(part.get("id") or f"line {self._lines}"))
            if part.get("tool") == "task":
                self.note("opencode does not tell what its subagents spent: cost and tokens are without them")

    def event(self, kind: str, about: Mapping[str, Any]) -> bool:
        """One event of the server. False if it is of no session of this run."""
        info = _dict(about.get("info"))
        session = _name(about.get("sessionID") or info.get("id"))
        if kind == "session.created" and _name(info.get("parentID")) in self._sessions:
            self._sessions.add(session)
        if session not in self._sessions:
            return False
        own = session == self.session_id
        if kind == "session.status":
            self._status(_dict(about.get("status")))
            return True
        if kind == "message.updated":
            self._message(info, own)
        elif kind == "message.part.updated":
            part = _dict(about.get("part"))
            if _name(part.get("messageID")) in self._assistant:
                self._part(part, str(part.get("id")), own)
        elif kind == "message.part.delta" and own:
            self._delta(str(about.get("partID")), about.get("field"), about.get("delta"))
        elif kind == "session.error" and own:
            self.troubles.append(trouble(about.get("error")))
        return True

    def answer(self, status: int, body: object) -> None:
        """The server's answer to the message: errors come with 200 too, and most were events before."""
        said = _dict(body)
        info = _dict(said.get("info"))
        self._message(info, True)
        for part in said.get("parts") or () if isinstance(said.get("parts"), list) else ():
            self._part(_dict(part), str(_dict(part).get("id")))
        if not self.troubles and (status >= 400 or info.get("error")):
            self.troubles.append(trouble(info.get("error") or {"name": f"HTTP {status}", **said}))

    def _message(self, info: Mapping[str, Any], own: bool) -> None:
        if info.get("role") == "assistant":
            self._assistant.add(str(info.get("id")))
            if own and info.get("providerID") and info.get("modelID"):
                self.model = f"{info['providerID']}/{info['modelID']}"

    def _status(self, status: Mapping[str, Any]) -> None:
        if status.get("type") == "retry":
            self.retrying = str(status.get("message"))[:MAX_SAID]
            self._emit(Progress("warning", f"opencode tries again: {self.retrying}"))

    def _part(self, part: Mapping[str, Any], key: str, own: bool = True) -> None:
        self.retrying = None
        match part.get("type"):
            case "step-start" if own:
                self.rejected = None
            case "text" if own and isinstance(part.get("text"), str):
                self._write(key, part["text"])
            case "tool":
                self._tool(part, key, own)
            case "step-finish" if key not in self._counted:
                self._counted.add(key)
                self._step(part, own)

    def _delta(self, key: str, field: object, delta: object) -> None:
        if field == "text" and key in self._texts and isinstance(delta, str):
            self._write(key, self._texts[key] + delta)

    def _write(self, key: str, text: str) -> None:
        self._texts[key] = text
        new = text[self._shown.get(key, 0) :]
        self._shown[key] = len(text)
        if new:
            self._emit(Progress("text", new))

    def _tool(self, part: Mapping[str, Any], key: str, own: bool) -> None:
        name, state = str(part.get("tool"))[:200], _dict(part.get("state"))
        status = state.get("status")
        if status == "pending":
            return
        if key not in self._tools:
            self._tools.add(key)
            self._emit(Progress("tool", name, {"tool": name, "title": str(state.get("title") or "")[:200]}))
        if status == "error" and own and str(state.get("error")).startswith(REJECTED):
            self.rejected = f"{name} ({target[:200]})" if (target := _target(state)) else name
        elif status == "completed" and name in EDITS:
            for path in _paths(state):
                if len(self._files) < MAX_FILES:
                    self._files[path] = None

    def _step(self, part: Mapping[str, Any], own: bool) -> None:
        counted, reason = _tokens(part.get("tokens")), _name(part.get("reason"))
        self.tokens = counted if self.tokens is None else self.tokens + counted
        self._cost += _number(part.get("cost"))
        if own and reason in CUT_SHORT:
            self.note(CUT_SHORT[reason])
        past = self._past()
        if past is None or self.passed is not None:
            return
        if own and reason not in GOES_ON:  # it is the last step: all is paid, and the answer is there
            self.note(f"{past}, with its last step")
        else:
            self.passed = past
            self._over()

    def _past(self) -> str | None:
        written = 0 if self.tokens is None else self.tokens.output
        if self._max_usd is not None and self._cost > self._max_usd:
            return f"the run cost ${self._cost:.4f}, more than its limit of ${self._max_usd:.4f}"
        if self._max_tokens is not None and written > self._max_tokens:
            return f"the run wrote {written} tokens, more than its limit of {self._max_tokens}"
        return None


def trouble(error: object) -> OpencodeTrouble:
    """Who has to act on an error of opencode."""
    said = _dict(error)
    name, data = str(said.get("name") or "error"), _dict(said.get("data"))
    message = str(data.get("message") or name)[:MAX_SAID].strip()
    if message.startswith("Unexpected server error"):
        message += " (opencode run says this of a model that it does not know, too)"
    status = data.get("statusCode") if isinstance(data.get("statusCode"), int) else None
    told = message if status is None else f"{message} (HTTP {status})"
    if name == "MessageAbortedError":
        return OpencodeTrouble("interrupted", "opencode was told to stop by somebody else")
    if name == "ProviderAuthError" or status in {401, 402, 403}:
        return OpencodeTrouble("auth", told)
    if name.startswith("Config"):
        return OpencodeTrouble("crash", f"its configuration can't be used: {told}")
    if status == 429:
        return OpencodeTrouble("rate_limit", told)
    if status is not None:
        return OpencodeTrouble("unavailable" if status >= 500 or status == 408 else "task", told)
    for kind, pattern in _BY_WORDS:
        if pattern.search(message):
            return OpencodeTrouble(kind, told)
    return OpencodeTrouble("task", told)


_BY_WORDS: tuple[tuple[FailureKind, re.Pattern[str]], ...] = (
    ("rate_limit", RATE),
    ("unavailable", UNREACHABLE),
    ("auth", AUTH),
)


def verdict(said: OpencodeTranscript, ended: Ended, request: RunRequest, stderr: str) -> OpencodeVerdict:
    """How a run came out. The exit code says little: a rejected permission and an empty answer end with 0."""
    tail = f": {stderr}" if stderr else ""
    if said.passed is not None:
        return "failed", "budget", f"opencode was ended: {said.passed}"
    match ended.by:
        case "interrupted":
            return "interrupted", "interrupted", "opencode was interrupted"
        case "timeout":
            return "timeout", "timeout", f"opencode was ended after {request.timeout_s:g} s{_retry(said)}{tail}"
        case "silence":
            kind: FailureKind = "rate_limit" if said.retrying and RATE.search(said.retrying) else "silence"
            return (
                "failed",
                kind,
                f"opencode was ended after {request.silence_s:g} s without a word{_retry(said)}{tail}",
            )
        case "output":
            return "failed", "output", "opencode was ended: it said more than is read"
    if said.troubles:
        kind, message = said.troubles[-1]
        return ("interrupted" if kind == "interrupted" else "failed"), kind, f"opencode failed: {message}"
    if ended.code:
        if "Session not found" in stderr:
            return "failed", "task", f"opencode has no session {request.session_id}"
        return "failed", "crash", f"opencode ended by {_exit(ended.code)}{tail or ', and said nothing on stderr'}"
    if said.rejected is not None:
        return "failed", "permission", f"opencode was not permitted to use {said.rejected}, and gave up"
    if not said.text.strip():
        if said.unreadable:
            return "failed", "output", "what opencode said is not what `run --format json` says"
        return "failed", "empty", f"opencode ended without an answer{tail}"
    return "completed", None, None


def old_answer(raw: bytes) -> str:
    """The answer of the first opencode (`-f json`), or `ValueError`."""
    said = _object(raw)
    if said is None or not isinstance(said.get("response"), str):
        raise ValueError("it is not a JSON object with a response")
    return str(said["response"])


def last_json(text: str) -> Any:
    """The JSON value that an answer ends with: a fenced block, all of it, or from the begin of a line on. Else
    `ValueError`.
    """
    starts = [place.start() for place in VALUE.finditer(text)]
    for one in (_fenced(text), text, *(text[start:] for start in starts[-MAX_TRIES:])):
        try:
            return from_json(one.strip(), allow_inf_nan=False)
        except ValueError:
            continue
    raise ValueError("the answer does not end with JSON")


def _fenced(text: str) -> str:
    """What the last fenced block holds."""
    last = ""
    block: list[str] | None = None
    for line in text.split("\n"):
        if line.lstrip().startswith("```"):
            last, block = (last, []) if block is None else ("\n".join(block), None)
        elif block is not None:
            block.append(line)
    return last


def _retry(said: OpencodeTranscript) -> str:
    return f" (it was trying again: {said.retrying})" if said.retrying else ""


def _exit(code: int) -> str:
    if code > 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def _object(raw: bytes) -> dict[str, Any] | None:
    try:
        said = from_json(raw, allow_inf_nan=False)
    except ValueError:
        return None
    return said if isinstance(said, dict) else None


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _name(value: object) -> str:
    """A word from outside, to be looked up; what is no text is none."""
    return value if isinstance(value, str) else ""


def _number(value: object) -> float:
    """A number of tokens or dollars from outside; what can't be one is 0."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    return float(value) if math.isfinite(value) and 0 <= value < ABSURD else 0.0


def _tokens(value: object) -> Tokens:
    said = _dict(value)
    cache = _dict(said.get("cache"))
    output = _number(said.get("output")) + _number(said.get("reasoning"))  # billed as output, and not in it
    counts = {"input": _number(said.get("input")), "output": output}
    return Tokens(
        **{
            name: int(count)
            for name, count in {
                **counts,
                "cache_read": _number(cache.get("read")),
                "cache_write": _number(cache.get("write")),
            }.items()
        }
    )


def _target(state: Mapping[str, Any]) -> str:
    given = _dict(state.get("input"))
    return next((str(given[name]) for name in ("filePath", "command", "url", "pattern") if given.get(name)), "")


def _paths(state: Mapping[str, Any]) -> list[str]:
    """The files a tool wrote: one as its argument, or a list of a patch."""
    meta = _dict(state.get("metadata"))
    files = meta.get("files")
    many = (
        [_dict(file).get("movePath") or _dict(file).get("filePath") for file in files]
        if isinstance(files, list)
        else []
    )
    found = many or [meta.get("filepath") or _dict(state.get("input")).get("filePath")]
    return [path for path in found if isinstance(path, str) and path]

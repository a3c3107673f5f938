"""What `claude -p` says. Nothing here starts or asks anything; `claude_verdict` says how a run came out.

With `--output-format stream-json` it writes an event a line: `system` (init, api_retry, …), `assistant`, `user` (what
tools gave), `stream_event` (a reply while it grows) and `result`. A run that was killed has no `result`; one whose
agents went on in the background has several, and the last one counts.
"""

from __future__ import annotations

import math
import os
import re
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from pydantic_core import from_json, to_json

from go_ent.dataclass import dataclass
from go_ent.engine.core.models import FailureKind, Tokens
from go_ent.engine.runners.base.runner import Emit, Progress

MAX_OUTPUT = 4 << 20  # characters of an answer; its end is kept
MAX_SAID = 2000  # characters of a message that somebody else wrote
MAX_VALUE = 200  # characters of one value in a tool's input, for people who watch
MAX_SHOWN = 3  # things of one kind that a message names
MAX_FILES = 10_000
ABSURD = 1e15  # no number of tokens or dollars

EDITS = {"Write": "file_path", "Edit": "file_path", "MultiEdit": "file_path", "NotebookEdit": "notebook_path"}
ALIVE = frozenset(
    {"connected", "pending"}
)  # of a server; older versions say "pending" at the start, and nothing after it
GOES_ON = frozenset({"tool_use", "pause_turn"})  # why a reply ended, when another follows
NO_SUCH_TOOL = "No such tool available"
HOPELESS = frozenset({401, 403})  # trying again will not help, but Claude Code does, for minutes

BY_WORD: dict[str, FailureKind] = {
    "authentication_failed": "auth",
    "billing_error": "auth",
    "rate_limit": "rate_limit",
    "overloaded": "unavailable",
    "server_error": "unavailable",
    "connection_failed": "unavailable",
}
_BY_TEXT: tuple[tuple[FailureKind, re.Pattern[str]], ...] = (
    ("auth", re.compile(r"not logged in|/login|invalid api key|credit balance", re.IGNORECASE)),
    ("rate_limit", re.compile(r"rate.?limit|usage limit", re.IGNORECASE)),
    ("unavailable", re.compile(r"ECONN|ENOTFOUND|EAI_AGAIN|ETIMEDOUT|connection|timed out|overloaded", re.IGNORECASE)),
)


class ClaudeTrouble(NamedTuple):
    kind: FailureKind
    message: str


@dataclass(frozen=True, slots=True)
class Answer:
    """A `result` line. Its subtype is "success" for API errors too: only `is_error` tells."""

    failed: bool
    subtype: str
    reason: str
    text: str
    structured: Any
    status: int | None  # HTTP's
    word: str
    total_usd: float | None
    of_session: bool  # whether that is what the whole session cost; older versions tell what the run did


class ClaudeTranscript:
    """What a run has said so far.

    `tools` are the only built-in ones that it may have, if that is limited. `server` is the MCP server that was
    attached.
    `max_tokens` is what it may write. `give_up` is called, once, when there is no use in going on: a key that is
    refused, a dead server, a tool that it should not have, a limit that was passed with more to come.
    """

    def __init__(
        self,
        emit: Emit,
        *,
        tools: frozenset[str] | None = None,
        server: str | None = None,
        max_tokens: int | None = None,
        give_up: Callable[[], None] = lambda: None,
    ) -> None:
        self._emit, self._give_up = emit, give_up
        self._tools, self._server, self._max_tokens = tools, server, max_tokens
        self.session_id: str | None = None
        self.model: str | None = None
        self.answer: Answer | None = None
        self.gave_up: ClaudeTrouble | None = None
        self.retrying: ClaudeTrouble | None = None  # why it tries again, if nothing came after it
        self.unpriced: str | None = None  # a model whose price Claude Code guessed
        self.denied: dict[str, str] = {}  # tools it was not permitted to use, by the use's id
        self.heard = 0
        self.unreadable = 0
        self._began = self._used_server = False
        self._server_status: str | None = None
        self._api_word = ""
        self._texts: deque[str] = deque()
        self._size = 0
        self._growing = ""  # the text of a reply that is not complete
        self._answers: list[str] = []
        self._told = Tokens()  # what the results told together
        self._replies: dict[str, Tokens] = {}
        self._written = 0  # what all of them wrote: summed up again for each, it would take for ever
        self._open: set[str] = set()  # replies that have not ended
        self._streaming: dict[
            str, str
        ] = {}  # by agent, the reply that its parts belong to: older versions do not name it
        self._uses: dict[str, tuple[str, str]] = {}  # tools under way: name, and the file it would write
        self._files: dict[str, None] = {}
        self._notes: dict[str, None] = {}

    # What it comes to

    @property
    def output(self) -> str:
        """The answer; without one, all that the agent wrote."""
        if (
            self.answer is not None
            and not self.answer.failed
            and (told := "\n\n".join(filter(str.strip, self._answers)))
        ):
            return told[-MAX_OUTPUT:]
        return "\n\n".join(text for text in (*self._texts, self._growing) if text.strip())[-MAX_OUTPUT:]

    @property
    def tokens(self) -> Tokens | None:
        """What the run took. A result does not count a reply that was cut off, and a run that was killed has no
        result.
        """
        if self.answer is None:
            return _sum(self._replies.values()) if self._replies else None
        return self._told + self.uncounted

    @property
    def uncounted(self) -> Tokens:
        """Replies that were cut off: neither tokens nor cost of a result hold them."""
        return _sum(self._replies[key] for key in self._open)

    @property
    def files(self) -> tuple[str, ...]:
        """What the agent's own tools wrote, in order. What a shell command changed is not known."""
        return tuple(self._files)

    @property
    def notes(self) -> tuple[str, ...]:
        notes = list(self._notes)
        if self._server_status == "pending" and not self._used_server:
            notes.append(
                f"the MCP server {self._server} was still starting when claude began, and none of its tools was used"
            )
        if self.unreadable > MAX_SHOWN:
            notes.append(f"{self.unreadable} lines of claude's output could not be read")
        return tuple(notes)

    @property
    def dead_server(self) -> str | None:
        """What is wrong with the attached server. One that was slow to start is not dead, and one that was used is
        well.
        """
        if self._server is None or not self._began or self._server_status in ALIVE or self._used_server:
            return None
        return f"the MCP server {self._server} was not attached: its status is {self._server_status or 'unknown'}"

    def note(self, text: str) -> None:
        self._notes[text] = None

    # What it says

    def line(self, raw: bytes) -> None:
        """One line of stdout. Events that are not known are passed over."""
        if not raw.strip():
            return
        said = _object(raw)
        if said is None:
            self.unreadable += 1
            if self.unreadable <= MAX_SHOWN:
                self.note(f"claude also printed: {raw.decode('utf-8', 'replace').strip()[:MAX_VALUE]}")
            return
        self.heard += 1
        own = said.get("parent_tool_use_id") is None  # else a subagent speaks
        match said.get("type"):
            case "system":
                self._system(said)
            case "assistant":
                self._assistant(said, own)
            case "user":
                for block in _blocks(said):
                    self._tool_result(block)
            case "stream_event":
                self._part(said, own)
            case "result":
                self._result(said)

    def _system(self, said: Mapping[str, Any]) -> None:
        match said.get("subtype"):
            case "init":
                self._init(said)
            case "api_retry":
                self._retry(said)
            case "permission_denied":
                self.denied[str(said.get("tool_use_id"))] = _cut(
                    f"{said.get('tool_name')}: {said.get('message')}", MAX_VALUE
                )

    def _init(self, said: Mapping[str, Any]) -> None:
        self._began = True
        self._opened(said.get("session_id"))
        if isinstance(said.get("model"), str):
            self.model = said["model"][:MAX_VALUE]
        for server in _list(said.get("mcp_servers")):
            if _dict(server).get("name") == self._server:
                self._server_status = str(_dict(server).get("status"))[:MAX_VALUE]
        if self._server_status == "failed":
            self._stop("mcp_server", f"the MCP server {self._server} could not be started")
        if self._tools is not None:
            ours = f"mcp__{self._server}__"
            beyond = [
                str(name)
                for name in _list(said.get("tools"))
                if name not in self._tools and not str(name).startswith(ours)
            ]
            if beyond:
                self._stop("permission", f"claude has tools that the task's access does not include: {some(beyond)}")

    def _opened(self, session_id: object) -> None:
        if self.session_id is None and isinstance(session_id, str):
            self.session_id = session_id[:MAX_VALUE]
            self._emit(Progress("session", data={"session_id": self.session_id}))

    def _retry(self, said: Mapping[str, Any]) -> None:
        status, word = _status(said.get("error_status")), str(said.get("error"))[:MAX_VALUE]
        why = f"{word} (HTTP {status})" if status else word
        self.retrying = ClaudeTrouble(api_failure(status, word, word), why)
        self._emit(Progress("warning", f"claude tries again: {why}"))
        if status in HOPELESS and _number(said.get("attempt")) >= 2:
            self._stop("auth", f"claude is not let in: {why}")

    def _assistant(self, said: Mapping[str, Any], own: bool) -> None:
        self.retrying = None
        message = _dict(said.get("message"))
        if isinstance(message.get("usage"), dict) and said.get("error") is None:
            key = str(message.get("id"))
            if said.get("aborted") is True:
                self._open.add(key)
            self._count(key, message["usage"])
        if own:
            if isinstance(said.get("error"), str):
                self._api_word = said["error"]
                return  # what follows is Claude Code's own message, and not the model's
            if isinstance(message.get("model"), str) and not message["model"].startswith("<"):
                self.model = message["model"][:MAX_VALUE]
        for block in _blocks(said):
            if block.get("type") == "tool_use":
                self._tool_use(block)
            elif own and block.get("type") == "text" and isinstance(block.get("text"), str):
                self._write(block["text"])

    def _write(self, text: str) -> None:
        """A whole block of text. What of it was shown while it grew is not shown again."""
        rest = text.removeprefix(self._growing)
        self._growing = ""
        self._texts.append(text[-MAX_OUTPUT:])
        self._size += len(self._texts[-1])
        while self._size > 2 * MAX_OUTPUT:
            self._size -= len(self._texts.popleft())
        if rest:
            self._emit(Progress("text", rest))

    def _tool_use(self, block: Mapping[str, Any]) -> None:
        name, given = str(block.get("name"))[:MAX_VALUE], _dict(block.get("input"))
        shown = {str(key)[:MAX_VALUE]: _shown(value) for key, value in list(given.items())[:20]}
        self._emit(Progress("tool", name, {"name": name, "input": shown}))
        path = given.get(EDITS.get(name, ""))
        self._uses[str(block.get("id"))] = (name, path if isinstance(path, str) else "")

    def _tool_result(self, block: Mapping[str, Any]) -> None:
        key = str(block.get("tool_use_id"))
        if block.get("type") != "tool_result" or key not in self._uses:
            return
        name, path = self._uses.pop(key)
        if block.get("is_error") is True:
            if self._tools is not None and NO_SUCH_TOOL in _shown(block.get("content")):
                self.denied[key] = f"{name}, which the task's access does not include"
        elif path and len(self._files) < MAX_FILES:
            self._files[path] = None
        elif self._server is not None and name.startswith(f"mcp__{self._server}__"):
            self._used_server = True

    def _part(self, said: Mapping[str, Any], own: bool) -> None:
        self.retrying = None
        event, agent = _dict(said.get("event")), str(said.get("parent_tool_use_id"))
        key = str(said.get("api_message_id") or self._streaming.get(agent))
        match event.get("type"):
            case "message_start":
                message = _dict(event.get("message"))
                key = self._streaming[agent] = str(message.get("id"))
                self._open.add(key)
                self._count(key, message.get("usage"))
                if own:
                    self._growing = ""
            case "content_block_delta" if own:
                text = _dict(event.get("delta")).get("text")
                if isinstance(text, str) and text and len(self._growing) < MAX_OUTPUT:
                    self._growing += text
                    self._emit(Progress("text", text))
            case "message_delta" if key in self._replies:
                self._count(key, event.get("usage"))
                if (why := _dict(event.get("delta")).get("stop_reason")) is not None:
                    self._open.discard(key)
                    self._ended(why, own)

    def _ended(self, why: object, own: bool) -> None:
        if own and why == "max_tokens":
            self.note("the answer was cut short: the model's output limit was reached")
        written = self._written
        if self._max_tokens is not None and written > self._max_tokens:
            past = f"it wrote {written} tokens, more than its limit of {self._max_tokens}"
            if own and why not in GOES_ON:  # it was the last reply: all is paid, and the answer is there
                self.note(f"{past}, with its last reply")
            else:
                self._stop("budget", f"claude was ended: {past}")

    def _count(self, key: str, usage: object) -> None:
        """Usage of one reply, told several times while it grows: the largest numbers hold."""
        new, old = tokens_of(usage), self._replies.get(key, Tokens())
        pairs = ((getattr(new, name), getattr(old, name)) for name in Tokens.model_fields)
        self._replies[key] = Tokens(**dict(zip(Tokens.model_fields, map(max, pairs), strict=True)))
        self._written += self._replies[key].output - old.output

    def _result(self, said: Mapping[str, Any]) -> None:
        if self._began:  # else it names the session that it did not find
            self._opened(said.get("session_id"))
        subtype = str(said.get("subtype"))[:MAX_VALUE]
        failed = said.get("is_error", subtype != "success") is not False
        told = said.get("result") if isinstance(said.get("result"), str) else None
        errors = "; ".join(str(error)[:MAX_SAID] for error in _list(said.get("errors"))[:MAX_SHOWN])
        since = said.get(
            "model_usage_since_last_result"
        )  # with what subagents took; `usage` is without, and 0 past a budget
        self.answer = Answer(
            failed=failed,
            subtype=subtype,
            reason=str(said.get("terminal_reason") or "")[:MAX_VALUE],
            text=(told or errors)[:MAX_SAID],
            structured=said.get("structured_output"),
            status=_status(said.get("api_error_status")),
            word=str(said.get("api_error") or self._api_word)[:MAX_VALUE],
            total_usd=_dollars(said.get("total_cost_usd")),
            of_session=isinstance(since, dict),
        )
        if told is not None and not failed:
            self._answers.append(told[-MAX_OUTPUT:])
        whole = said.get("modelUsage")  # of the session, but where older versions have no other, of the run so far
        if isinstance(since, dict):
            self._told += _sum(_by_model(one) for one in since.values())
        elif isinstance(whole, dict) and whole:
            self._told = _sum(_by_model(one) for one in whole.values())
        else:
            self._told += tokens_of(said.get("usage"))
        for name, usage in _dict(since if isinstance(since, dict) else said.get("modelUsage")).items():
            if _dict(usage).get("costBasis") == "unknown":
                self.unpriced = name[:MAX_VALUE]
        if not self.model and isinstance(said.get("modelUsage"), dict):
            self.model = next(iter(said["modelUsage"]), None)
        for denial in _list(said.get("permission_denials")):
            key = str(_dict(denial).get("tool_use_id"))
            self.denied.setdefault(
                key, _cut(f"{_dict(denial).get('tool_name')} {_shown(_dict(denial).get('tool_input'))}", MAX_VALUE)
            )

    def _stop(self, kind: FailureKind, message: str) -> None:
        if self.gave_up is None:
            self.gave_up = ClaudeTrouble(kind, message)
            self._give_up()


def api_failure(status: int | None, word: str, text: str) -> FailureKind:
    """Who has to act on an API error: by its HTTP status, else Claude Code's word for it, else its text."""
    if status is not None and (status in {401, 402, 403} or "credit balance" in text.lower()):
        return "auth"
    if status == 429:
        return "rate_limit"
    if status is not None:
        return "unavailable" if status >= 500 or status == 408 else "task"
    if word in BY_WORD:
        return BY_WORD[word]
    return next((kind for kind, pattern in _BY_TEXT if pattern.search(text)), "task")


def relative(path: str, cwd: str) -> str:
    """A path as seen from *cwd*, if it is in there."""
    for folder in (cwd, os.path.realpath(cwd)):
        if path.startswith(folder.rstrip("/") + "/"):
            return os.path.normpath(os.path.relpath(path, folder))
    return path


def tokens_of(usage: object) -> Tokens:
    """Tokens in the API's names."""
    said = _dict(usage)
    return Tokens(
        input=_count_of(said.get("input_tokens")),
        output=_count_of(said.get("output_tokens")),
        cache_read=_count_of(said.get("cache_read_input_tokens")),
        cache_write=_count_of(said.get("cache_creation_input_tokens")),
    )


def _by_model(usage: object) -> Tokens:
    said = _dict(usage)
    return Tokens(
        input=_count_of(said.get("inputTokens")),
        output=_count_of(said.get("outputTokens")),
        cache_read=_count_of(said.get("cacheReadInputTokens")),
        cache_write=_count_of(said.get("cacheCreationInputTokens")),
    )


def _sum(counts: Any) -> Tokens:
    return sum(counts, Tokens())


def some(things: list[str]) -> str:
    more = f" and {len(things) - MAX_SHOWN} more" if len(things) > MAX_SHOWN else ""
    return ", ".join(thing[:MAX_VALUE] for thing in things[:MAX_SHOWN]) + more


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _shown(value: object) -> str:
    return _cut(value if isinstance(value, str) else to_json(value).decode(), MAX_VALUE)


def _object(raw: bytes) -> dict[str, Any] | None:
    try:
        said = from_json(raw, allow_inf_nan=False)
    except ValueError:
        return None
    return said if isinstance(said, dict) else None


def _blocks(said: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [block for block in _list(_dict(said.get("message")).get("content")) if isinstance(block, dict)]


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _number(value: object) -> float:
    """A number from outside; what can't be one is 0."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    return float(value) if math.isfinite(value) and 0 <= value < ABSURD else 0.0


def _count_of(value: object) -> int:
    return int(_number(value))


def _dollars(value: object) -> float | None:
    usable = (
        isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and 0 <= value < ABSURD
    )
    return float(value) if usable and isinstance(value, int | float) else None


def _status(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 100 <= value < 600 else None

"""A model on loopback that says what a test tells it to: the Anthropic Messages API and OpenAI chat completions.

    with ModelServer([ToolUse("Write", {"file_path": "a.txt", "content": "x"}), Text("done")]) as model:
        ...  # a program with model.url as its base address
    assert model.asked[0].last_text == "write a.txt"

A script is a list of replies, used in order, or a function of what was asked. Programs ask for small things beside the
conversation (a title, a summary): those are in `aside`, get `ASIDE`, and use up nothing of the script. A request for
which the script has no reply, or fails, is answered 500, and leaving the `with` block raises.
"""

from __future__ import annotations

import contextlib
import json
import select
import socket
import socketserver
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Literal, TypeAlias

ASIDE = "A title"
SECRET = frozenset({"authorization", "x-api-key", "api-key", "cookie", "proxy-authorization"})
LARGEST = 50_000_000
TICK = 0.02

Api: TypeAlias = Literal["anthropic", "openai"]
Json: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Usage:
    """What a reply says that it took. `input` does not include the cache."""

    input: int = 1000
    output: int = 50
    cache_read: int = 200
    cache_write: int = 0


@dataclass(frozen=True)
class Text:
    text: str
    usage: Usage | None = None


@dataclass(frozen=True)
class ToolUse:
    name: str
    input: Json
    text: str = ""
    usage: Usage | None = None


@dataclass(frozen=True)
class Status:
    """An error, with its message in the form that the API gives it."""

    code: int
    message: str = "the test said so"
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Silence:
    """The request is taken, and nothing comes back until a side hangs up."""


@dataclass(frozen=True)
class SlowStream:
    """Text in parts, with a pause after each. If it does not end, it stays open after the last until a side hangs
    up.
    """

    parts: tuple[str, ...]
    pause_s: float = 0.0
    ends: bool = True
    usage: Usage | None = None


@dataclass(frozen=True)
class Drop:
    """The connection is closed; with *text*, in the middle of that answer."""

    text: str = ""


Reply: TypeAlias = Text | ToolUse | Status | Silence | SlowStream | Drop


@dataclass
class Asked:
    """One request, as it came. `left` is set when the client hung up before it had its answer."""

    api: Api
    path: str
    headers: dict[str, str]
    key_given: bool
    body: Json
    left: threading.Event = field(default_factory=threading.Event)

    @property
    def model(self) -> str:
        return str(self.body.get("model", ""))

    @property
    def streams(self) -> bool:
        return bool(self.body.get("stream"))

    @property
    def messages(self) -> list[Json]:
        found: list[Json] = self.body.get("messages", [])
        return found

    @property
    def system(self) -> str:
        told = [_plain(self.body.get("system"))]
        told += [
            _plain(message.get("content"))
            for message in self.messages
            if message.get("role") in ("system", "developer")
        ]
        return "\n".join(part for part in told if part)

    @property
    def tools(self) -> dict[str, Json]:
        """What was offered: the schemas of the arguments by the names of the tools."""
        if self.api == "anthropic":
            return {tool["name"]: tool.get("input_schema", {}) for tool in self.body.get("tools") or []}
        return {
            tool["function"]["name"]: tool["function"].get("parameters", {}) for tool in self.body.get("tools") or []
        }

    @property
    def definitions(self) -> dict[str, str]:
        """What was offered, whole and as JSON, by the names of the tools."""
        found = self.body.get("tools") or []
        return {tool.get("name") or tool["function"]["name"]: json.dumps(tool, ensure_ascii=False) for tool in found}

    @property
    def said(self) -> list[str]:
        """The conversation: the text of each message but the system's, results of tools included."""
        return [
            _plain(message.get("content"))
            for message in self.messages
            if message.get("role") not in ("system", "developer")
        ]

    @property
    def last_text(self) -> str:
        return self.said[-1] if self.said else ""

    @property
    def tokens(self) -> int:
        """A guess, good enough for a limit."""
        return len(json.dumps(self.body)) // 4

    @property
    def is_aside(self) -> bool:
        """Whether a program asks this for itself, beside the conversation: it offers no tools, and says so in its
        own words.
        """
        return not self.tools and any(word in self.system[:400].lower() for word in ("title", "summariz", "summary"))


def _plain(content: Any) -> str:
    """The text of a message, whichever of the forms it has."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(filter(None, (_plain(part) for part in content)))
    if isinstance(content, dict):
        return _plain(content.get("text") or content.get("content"))
    return ""


class ModelServer:
    """The server, for the length of a `with` block."""

    def __init__(
        self,
        script: Iterable[Reply] | Callable[[Asked], Reply] = (),
        *,
        usage: Usage = Usage(),  # noqa: B008 - frozen
        max_input_tokens: int | None = None,
    ) -> None:
        self.max_input_tokens = max_input_tokens
        self.closing = threading.Event()
        self._changed = threading.Condition()
        self.play(script, usage=usage)
        self._http = _Http(self)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(TICK,), name="model server")

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def __enter__(self) -> ModelServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.closing.set()
        self._http.shutdown()
        self._thread.join()
        self._http.hang_up()
        self._http.server_close()
        if error is None:
            self.check()
        elif self.problems:
            error.add_note(f"the model's script failed: {self.problems[0]!r}")

    def play(self, script: Iterable[Reply] | Callable[[Asked], Reply], *, usage: Usage = Usage()) -> None:  # noqa: B008 - frozen
        """Begin anew, with another script."""
        with self._changed:
            self.asked: list[Asked] = []
            self.aside: list[Asked] = []
            self.problems: list[Exception] = []
            self.usage = usage
            self._script = script if callable(script) else _in_order(script)

    def check(self) -> None:
        """Raises what the script raised."""
        if self.problems:
            raise self.problems[0]

    def wait_for(self, count: int, timeout_s: float = 60.0) -> Asked:
        """The request of that number, counted from 1, as soon as it was made."""
        with self._changed:
            if not self._changed.wait_for(lambda: len(self.asked) >= count, timeout_s):
                raise AssertionError(f"{len(self.asked)} requests were made in {timeout_s} s, not {count}")
            return self.asked[count - 1]

    def reply_to(self, asked: Asked) -> Reply:
        """What the script says. One request at a time, so that replies go out in the order in which requests came."""
        with self._changed:
            if asked.is_aside:
                self.aside.append(asked)
                return Text(ASIDE)
            self.asked.append(asked)
            self._changed.notify_all()
            if self.max_input_tokens is not None and asked.tokens > self.max_input_tokens:
                return Status(400, f"prompt is too long: {asked.tokens} tokens > {self.max_input_tokens} maximum")
            try:
                return self._script(asked)
            except Exception as problem:
                self.problems.append(problem)
                return Status(500, "the script failed")


def _in_order(replies: Iterable[Reply]) -> Callable[[Asked], Reply]:
    left = list(replies)

    def script(asked: Asked) -> Reply:
        assert left, f"there is no reply left for: {asked.last_text[-500:]}"
        return left.pop(0)

    return script


class _Http(ThreadingHTTPServer):
    daemon_threads = False
    block_on_close = True
    request_queue_size = 128

    def __init__(self, model: ModelServer) -> None:
        self.model = model
        self._open: set[socket.socket] = set()
        super().__init__(("127.0.0.1", 0), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def hang_up(self) -> None:
        """End every connection, those too on which nothing was asked yet."""
        for connection in tuple(self._open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Only a client that hangs up is expected; anything else is a fault of this server and should be seen."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)

    def server_bind(self) -> None:
        # Without the name lookup of HTTPServer, which can take seconds.
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = "127.0.0.1", self.server_address[1]


class _Handler(BaseHTTPRequestHandler):
    """One request per connection: nothing to keep alive, nothing left open."""

    protocol_version = "HTTP/1.1"
    timeout = 30
    server: _Http

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: what was asked is in `asked`."""

    def do_HEAD(self) -> None:
        self._whole(200, {})

    def do_GET(self) -> None:
        if self.path.partition("?")[0].endswith("/models"):
            self._whole(
                200,
                {"object": "list", "data": [{"id": "stand-in", "object": "model", "created": 0, "owned_by": "test"}]},
            )
        else:
            self._whole(404, {"error": {"type": "not_found_error", "message": f"GET {self.path}"}})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(min(int(self.headers.get("content-length") or 0), LARGEST)) or b"{}")
        path = self.path.partition("?")[0]
        api: Api = "openai" if path.endswith("/chat/completions") else "anthropic"
        headers = {name.lower(): value for name, value in self.headers.items()}
        shown = {name: value for name, value in headers.items() if name not in SECRET}
        asked = Asked(api, self.path, shown, len(shown) < len(headers), body)
        if path.endswith("/count_tokens"):
            return self._whole(200, {"input_tokens": asked.tokens})
        if not path.endswith(("/v1/messages", "/chat/completions")):
            return self._whole(404, {"error": {"type": "not_found_error", "message": f"POST {self.path}"}})
        reply = self.server.model.reply_to(asked)
        try:
            self._answer(asked, reply)
        except ConnectionError:
            asked.left.set()
        return None

    def _answer(self, asked: Asked, reply: Reply) -> None:
        match reply:
            case Silence():
                self._hold(asked)
            case Status():
                self._whole(reply.code, _error(asked.api, reply), reply.headers)
            case Drop(text=""):
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            case Drop():
                self._stream(asked, SlowStream((reply.text,), ends=False), hold=False)
            case Text() | ToolUse() | SlowStream():
                if asked.streams:
                    self._stream(asked, reply)
                elif not isinstance(reply, SlowStream):
                    self._whole(200, _message(asked, reply, self._usage(reply)))
                elif self._paused(asked, len(reply.parts) * reply.pause_s) and reply.ends:
                    self._whole(200, _message(asked, Text("".join(reply.parts)), self._usage(reply)))
                else:
                    self._hold(asked)
        self.close_connection = True

    def _usage(self, reply: Text | ToolUse | SlowStream) -> Usage:
        return reply.usage or self.server.model.usage

    def _whole(self, code: int, body: Json, headers: dict[str, str] | None = None) -> None:
        data = json.dumps(body).encode()
        self.send_response(code)
        for name, value in {
            "content-type": "application/json",
            "request-id": "req_stand_in",
            **(headers or {}),
        }.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(data)))
        self.send_header("connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)
        self.close_connection = True

    def _stream(self, asked: Asked, reply: Text | ToolUse | SlowStream, *, hold: bool = True) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.send_header("request-id", "req_stand_in")
        self.send_header("connection", "close")
        self.end_headers()
        events = _anthropic_events if asked.api == "anthropic" else _openai_events
        for event in events(asked, reply, self._usage(reply)):
            if event is not None:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(event), event))
            elif isinstance(reply, SlowStream) and not self._paused(asked, reply.pause_s):
                return
        if isinstance(reply, SlowStream) and not reply.ends:
            if hold:
                self._hold(asked)
            return
        self.wfile.write(b"0\r\n\r\n")

    def _hold(self, asked: Asked) -> None:
        self._paused(asked, float("inf"))

    def _paused(self, asked: Asked, seconds: float) -> bool:
        """Wait. False if the client or this server hung up meanwhile."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if self.server.model.closing.is_set():
                return False
            if select.select([self.connection], [], [], min(left, TICK))[0] and not self.connection.recv(
                1, socket.MSG_PEEK
            ):
                asked.left.set()
                return False
        return True


def _error(api: Api, reply: Status) -> Json:
    kinds = {400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "not_found_error"}
    kinds |= {429: "rate_limit_error", 529: "overloaded_error"}
    kind = kinds.get(reply.code, "api_error")
    if api == "anthropic":
        return {"type": "error", "error": {"type": kind, "message": reply.message}, "request_id": "req_stand_in"}
    return {"error": {"type": kind, "message": reply.message, "param": None, "code": kind}}


def _blocks(reply: Text | ToolUse) -> list[Json]:
    blocks: list[Json] = [{"type": "text", "text": reply.text}] if reply.text or isinstance(reply, Text) else []
    if isinstance(reply, ToolUse):
        blocks.append(
            {"type": "tool_use", "id": f"toolu_{time.monotonic_ns()}", "name": reply.name, "input": reply.input}
        )
    return blocks


def _anthropic_usage(usage: Usage, output: int) -> Json:
    cache = {"cache_creation_input_tokens": usage.cache_write, "cache_read_input_tokens": usage.cache_read}
    return {"input_tokens": usage.input, **cache, "output_tokens": output}


def _openai_usage(usage: Usage) -> Json:
    prompt = usage.input + usage.cache_read + usage.cache_write
    total = {"prompt_tokens": prompt, "completion_tokens": usage.output, "total_tokens": prompt + usage.output}
    return {**total, "prompt_tokens_details": {"cached_tokens": usage.cache_read}}


def _message(asked: Asked, reply: Text | ToolUse, usage: Usage) -> Json:
    """A whole answer, not streamed."""
    calls = isinstance(reply, ToolUse)
    if asked.api == "anthropic":
        head = {"id": f"msg_{time.monotonic_ns()}", "type": "message", "role": "assistant", "model": asked.model}
        end = {"stop_reason": "tool_use" if calls else "end_turn", "stop_sequence": None}
        return {**head, "content": _blocks(reply), **end, "usage": _anthropic_usage(usage, usage.output)}
    message: Json = {"role": "assistant", "content": reply.text or None}
    if isinstance(reply, ToolUse):
        message["tool_calls"] = [_openai_call(reply)]
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
    return {**_openai_head(asked, "chat.completion"), "choices": [choice], "usage": _openai_usage(usage)}


def _openai_head(asked: Asked, kind: str) -> Json:
    return {"id": f"chatcmpl-{time.monotonic_ns()}", "object": kind, "created": int(time.time()), "model": asked.model}


def _openai_call(reply: ToolUse) -> Json:
    function = {"name": reply.name, "arguments": json.dumps(reply.input)}
    return {"id": f"call_{time.monotonic_ns()}", "type": "function", "function": function}


def _anthropic_events(asked: Asked, reply: Text | ToolUse | SlowStream, usage: Usage) -> Iterator[bytes | None]:
    """Server-sent events; None is where a slow stream pauses."""

    def event(kind: str, **data: Any) -> bytes:
        return f"event: {kind}\ndata: {json.dumps({'type': kind, **data})}\n\n".encode()

    whole = _message(asked, Text(""), usage)
    yield event(
        "message_start", message={**whole, "content": [], "stop_reason": None, "usage": _anthropic_usage(usage, 1)}
    )
    for index, block in enumerate(_blocks(Text("") if isinstance(reply, SlowStream) else reply)):
        if block["type"] == "tool_use":
            yield event("content_block_start", index=index, content_block={**block, "input": {}})
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
            yield event("content_block_delta", index=index, delta=delta)
        else:
            yield event("content_block_start", index=index, content_block={"type": "text", "text": ""})
            for part in reply.parts if isinstance(reply, SlowStream) else (block["text"],):
                yield event("content_block_delta", index=index, delta={"type": "text_delta", "text": part})
                yield None
        if isinstance(reply, SlowStream) and not reply.ends:
            return
        yield event("content_block_stop", index=index)
    stop = {"stop_reason": "tool_use" if isinstance(reply, ToolUse) else "end_turn", "stop_sequence": None}
    yield event("message_delta", delta=stop, usage=_anthropic_usage(usage, usage.output))
    yield event("message_stop")


def _openai_events(asked: Asked, reply: Text | ToolUse | SlowStream, usage: Usage) -> Iterator[bytes | None]:
    """The same for chat completions."""
    head = _openai_head(asked, "chat.completion.chunk")

    def event(delta: Json, finish: str | None = None) -> bytes:
        return f"data: {json.dumps({**head, 'choices': [{'index': 0, 'delta': delta, 'finish_reason': finish}]})}\n\n".encode()  # noqa: E501

    yield event({"role": "assistant", "content": ""})
    for part in reply.parts if isinstance(reply, SlowStream) else (reply.text,):
        if part:
            yield event({"content": part})
        yield None
    if isinstance(reply, SlowStream) and not reply.ends:
        return
    if isinstance(reply, ToolUse):
        yield event({"tool_calls": [{"index": 0, **_openai_call(reply)}]})
    yield event({}, "tool_calls" if isinstance(reply, ToolUse) else "stop")
    yield f"data: {json.dumps({**head, 'choices': [], 'usage': _openai_usage(usage)})}\n\n".encode()
    yield b"data: [DONE]\n\n"

"""The one door to the host: tool calls and cancellations go out, completions and the time come in."""

import asyncio
import json
import types
from asyncio import get_running_loop
from sys import _getframe
from typing import Any

import wit_world
from guest import encode

BURST = 256  # calls, or calls given up, of one message
PLAIN_BYTES = 50  # that each value may take outside texts, on average: the host takes no more digits
CHECKPOINT = "<checkpoint>"  # sent like a call, under a name that no tool can have
FIND = "<search>"  # and so are the questions what tools there are
DESCRIBE = "<describe>"
MAX_LABEL = 200
MOST_LISTED = 200  # names of a namespace
MAX_DEPTH = encode.MAX_DEPTH - 2  # a message is a list of lists of calls


class ToolError(Exception):
    """A tool call failed on the host, or was not allowed. `name` is the tool, `message` what it said."""

    def __init__(self, message: str = "", name: str = "", kind: str = "ToolError") -> None:
        super().__init__(message)
        self.message = message
        self.name = name.strip("<>")  # questions about tools come under names in brackets
        self.kind = kind

    def __str__(self) -> str:
        return f"{self.name}: {self.message}" if self.name else self.message


ToolError.__module__ = "builtins"


_decoder: Any = json.JSONDecoder()
_scan = _decoder.scan_once  # json.loads without its regular expressions
_MARK = f'"{encode.MARK}"'


def _heard(completions: str) -> Any:
    """The completions in a message."""
    value = _scan(completions, 0)[0]
    return encode.revived(value) if _MARK in completions else value


class _Answer:
    """Of a question that is waited for: takes what a future takes."""

    is_there = False
    value: Any = None
    error: BaseException | None = None

    def done(self) -> bool:
        return self.is_there

    def set_result(self, value: Any) -> None:
        self.value, self.is_there = value, True

    def set_exception(self, error: BaseException) -> None:
        self.error, self.is_there = error, True


class Bridge:
    """Calls under way, and those not yet handed over."""

    def __init__(self) -> None:
        self.clear()
        self.reset(())

    def reset(self, names: Any, limit: int | None = None, values: int | None = None) -> None:
        self.finds = bool(names) and names[0] == FIND  # whether the host answers questions about tools
        self.names: Any = names[1:] if self.finds else names
        self.limit = limit
        self.values = values
        # A call of that many characters is within both: a character is at most four bytes, and no more than one value.
        self.short = min(1 << 60 if limit is None else limit // 4, 1 << 60 if values is None else values)
        if self.next_token or self.next_id:  # a run before this one has made calls
            self.clear()

    def clear(self) -> None:
        self.queued = 0
        self.queued_values = 0
        self.next_id = 0
        self.next_token = 0
        self.calls: list[Any] = []
        self.cancelled: list[int] = []
        self.pending: dict[int, tuple[Any, str]] = {}
        self.now = 0.0
        # Calls that were written but not awaited yet, and where: what is left at the end was forgotten.
        self.unawaited: dict[int, tuple[Any, types.CodeType, int]] = {}

    def encode(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], what: str = "") -> tuple[int, str]:
        """A call as it is sent, and its number. Done at once: what can't be sent fails at the line that wrote it."""
        text = encode.dumps([0, name, args, kwargs], what or ("arguments of tools.", name), MAX_DEPTH)
        # Numbered only now: encoding may run code of theirs, which may make calls, and numbers go out in their order.
        self.next_id = call_id = self.next_id + 1
        return call_id, f"[{call_id}{text[2:]}"

    def measure(self, name: str, text: str) -> tuple[int, int]:
        """How long a call is, and about how many values; a ToolError if that is too much."""
        size = len(text) if text.isascii() else len(text.encode())
        if self.limit is not None and size > self.limit:
            raise ToolError(
                f"its arguments are {size} bytes long; max_call_bytes={self.limit}", name, "ArgumentsTooLarge"
            )
        values = text.count(",") + text.count("[") + text.count("{")
        if self.values is not None and (values > self.values or size > self.values * PLAIN_BYTES):
            plain = "".join(text.replace("\\\\", "").replace('\\"', "").split('"')[::2])  # without what stands in texts
            values = plain.count(",") + plain.count("[") + plain.count("{")
            if values > self.values or len(plain) > self.values * PLAIN_BYTES:
                raise ToolError(
                    f"its arguments are about {values} values; at most {self.values} are accepted: send them "
                    "in parts, or as a text",
                    name,
                    "ArgumentsTooLarge",
                )
        return size, values

    def call_alone(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call, and wait for nothing else: what the loop would do when there is nothing else to do, without its
        detour.
        """
        call_id, text = self.encode(name, args, kwargs)
        if len(text) > self.short:
            self.measure(name, text)
        message, worked = f"-1\n[[{text}],[]]", f"[[{call_id},1,"
        while True:
            _, _, completions = wit_world.exchange(message).partition("\n")
            if completions.startswith(worked) and _MARK not in completions:
                value, end = _scan(completions, len(worked))
                if end == len(completions) - 2:  # it is the only one
                    return value
            if completions:
                for answered, ok, value in _heard(completions):
                    if answered == call_id:
                        if ok:
                            return value
                        raise ToolError(value["message"], name, value["kind"])
            message = "-1\n"

    def ask(self, name: str, kwargs: dict[str, Any]) -> Any:
        """Call, and wait here for the answer, whatever else is under way: for what is no coroutine."""
        call_id, text = self.encode(name, (), kwargs, "what is asked about tools")
        self.queue(name, text)
        answer = _Answer()
        self.pending[call_id] = answer, name
        while not answer.is_there:
            self.cross(None)
        if answer.error is not None:
            raise answer.error
        return answer.value

    def start(
        self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], loop: asyncio.AbstractEventLoop
    ) -> tuple[int, "asyncio.Future[Any]"]:
        future = loop.create_future()
        call_id, text = self.encode(name, args, kwargs)
        self.queue(name, text)
        self.pending[call_id] = future, name
        return call_id, future

    def queue(self, name: str, text: str) -> None:
        """Have a call handed over at the next crossing."""
        size, values = self.measure(name, text)
        if self.calls and (
            len(self.calls) >= BURST
            or (self.limit is not None and self.queued + size > self.limit)
            or (self.values is not None and self.queued_values + values > self.values)
        ):
            self.cross(0)  # a flood of calls meets its limit early, and no message grows without end
        self.calls.append(text)
        self.queued += size
        self.queued_values += values

    def cancel(self, call_id: int) -> None:
        if self.pending.pop(call_id, None) is not None:
            self.cancelled.append(call_id)

    def cross(self, wait: float | None) -> None:
        """One crossing: hand over what is queued, then wait up to *wait* seconds for a completion."""
        body = ""
        if self.calls or self.cancelled:
            body = f"[[{','.join(self.calls)}],{json.dumps(self.cancelled[:BURST])}]"
            self.calls.clear()
            del self.cancelled[:BURST]
            self.queued = self.queued_values = 0
            if self.cancelled:
                wait = 0  # the rest goes before anything is waited for
        now, _, completions = wit_world.exchange(f"{-1 if wait is None else wait}\n{body}").partition("\n")
        self.now = float(now)
        if completions:
            for call_id, ok, value in _heard(completions):
                future, name = self.pending.pop(call_id, (None, ""))
                if future is None or future.done():
                    continue
                if ok:
                    future.set_result(value)
                else:
                    future.set_exception(ToolError(value["message"], name, value["kind"]))

    def sleep(self, seconds: float) -> None:
        """Block for *seconds*, in the host's own wait so that a limit or an interrupt ends it."""
        if seconds < 0:
            raise ValueError("sleep length must be non-negative")
        self.cross(0)
        until = self.now + seconds
        while (left := until - self.now) > 0:
            self.cross(left)


bridge = Bridge()


def checkpoint(label: str, value: Any = None) -> None:
    """Record *value* under *label* with the run, where people can see it. It is handed over at once."""
    if not isinstance(label, str):
        raise TypeError(f"a checkpoint's label is text, not {type(label).__name__}")
    if not 1 <= len(label) <= MAX_LABEL:
        raise ValueError(f"a checkpoint's label has 1 to {MAX_LABEL} characters, not {len(label)}")
    _, text = bridge.encode(CHECKPOINT, (label, value), {}, "arguments of checkpoint")
    bridge.queue(CHECKPOINT, text)
    bridge.cross(0)


checkpoint.__module__ = "builtins"


async def _call(token: int, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    del bridge.unawaited[token]
    loop: Any = get_running_loop()
    if not (loop._ready or loop._scheduled or bridge.pending or bridge.cancelled):
        return bridge.call_alone(name, args, kwargs)
    call_id, future = bridge.start(name, args, kwargs, loop)
    try:
        return await future
    except asyncio.CancelledError:
        bridge.cancel(call_id)
        raise


class Tools:
    # `tools.<name>(…)` and `tools.<namespace>.<name>(…)`: whatever is asked for, the host decides.
    # No docstring: it would be taken for that of the tool.

    __slots__ = ("_name", "_parts", "_title")

    def __init__(self, name: str = "") -> None:
        self._name = name
        self._title = f"tools.{name}"
        self._parts: dict[str, Tools] = {}

    def __getattr__(self, name: str) -> "Tools":
        found = self._parts.get(name)
        if found is None:
            if name.startswith("__"):
                raise AttributeError(name)
            found = self._parts[name] = Tools(f"{self._name}.{name}" if self._name else name)
        return found

    def __getitem__(self, name: str) -> "Tools":
        if not isinstance(name, str) or not name or name.startswith("__"):
            raise ToolError("there is no such tool", str(name), "UnknownTool")
        return self.__getattr__(name)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        if not self._name:
            raise TypeError("tools is not a tool: call tools.<name>(…)")
        if self._name in OWN and bridge.finds and self._name not in bridge.names:
            own, names = OWN[self._name]
            if len(args) <= 1 and (names is None or kwargs.keys() <= names):
                return own(*args, **kwargs)
        return _begun(self._name, args, kwargs, _getframe(1), self._title)

    def __dir__(self) -> list[str]:
        if self._name and bridge.finds:
            found = bridge.ask(FIND, {"words": "", "namespace": self._name, "limit": MOST_LISTED})
            names = [tool["name"] for tool in found]
        else:
            names = bridge.names
        prefix = f"{self._name}." if self._name else ""
        return sorted({name[len(prefix) :].partition(".")[0] for name in names if name.startswith(prefix)})

    def __repr__(self) -> str:
        return f"<tools.{self._name}>" if self._name else f"<tools: {', '.join(bridge.names) or 'none granted'}>"


def _begun(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], caller: types.FrameType, title: str) -> Any:
    """The coroutine of a call, noted until it is awaited."""
    bridge.next_token = token = bridge.next_token + 1
    call: Any = _call(token, name, args, kwargs)
    bridge.unawaited[token] = call, caller.f_code, caller.f_lasti
    call.__qualname__ = title
    return call


def line_of(code: types.CodeType, at: int) -> int | None:
    """The line of an instruction: looked for only when it is asked for, since the search is as long as the code."""
    return next((line for start, end, line in code.co_lines() if start <= at < end), None)


class Described(str):
    """A text that may be awaited, as everything else that `tools` has."""

    __slots__ = ()

    def __await__(self) -> Any:
        return self
        yield


def describe(name: Any) -> Described:
    """What a tool takes, returns and does, or which tools a namespace has."""
    name = name._name if isinstance(name, Tools) else name
    if not isinstance(name, str):
        raise TypeError(f"tools.describe takes the name of a tool, not {type(name).__name__}")
    return Described(bridge.ask(DESCRIBE, {"name": name}))


def search(words: str = "", *, namespace: str | None = None, limit: int = 10) -> Any:
    """The granted tools that fit *words* best."""
    given = {"words": words, "namespace": namespace, "limit": limit}
    return _begun(FIND, (), given, _getframe(2), f"tools.{FIND}")


def call(name: str, /, **arguments: Any) -> Any:
    """Call the tool of that full name."""
    return _begun(name, (), arguments, _getframe(2), f"tools.{name}")


# What `tools` itself answers, where no tool that is granted has the name, and which arguments are meant for it: a call
# with others is one of a tool, which the host refuses.
OWN: dict[str, tuple[Any, frozenset[str] | None]] = {
    "search": (search, frozenset({"words", "namespace", "limit"})),
    "describe": (describe, frozenset({"name"})),
    "call": (call, None),
}

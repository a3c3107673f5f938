"""The host's side of a run's tool calls: checked, run concurrently, counted, audited."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from pydantic_core import to_json, to_jsonable_python

from sandbox.errors import ApprovalRequired
from sandbox.limits import Limits
from sandbox.outside import parse
from sandbox.run import Pending, ToolCall
from sandbox.threads import Threads
from sandbox.tools import CallFailed, Granted, HostTool, encode_result, failure

MAX_CALLS = 1024  # in one message
MESSAGE_SLACK = 1 << 16
MAX_UNDELIVERED = 64 << 20  # bytes of results that a guest has not read yet
MAX_PLAIN_CALLS = 64  # of one run at a time; more of them wait


class Broker:
    """Serves one run. `complete` gets each finished call as a piece of JSON; `stop` ends the run with a reason;
    `undelivered` tells how many bytes of completions the guest has not read yet.

    Plain functions run in threads, async ones as tasks on the caller's loop. Both callbacks may be called from any
    thread. After `close` nothing is delivered any more: what a late tool returns is dropped.
    """

    def __init__(
        self,
        tools: Granted,
        limits: Limits,
        loop: asyncio.AbstractEventLoop,
        threads: Threads,
        complete: Callable[[bytes], None],
        stop: Callable[[str], None],
        undelivered: Callable[[], int],
    ) -> None:
        self.tools = tools
        self.limits = limits
        self.loop = loop
        self.threads = threads
        self.complete = complete
        self.stop = stop
        self.undelivered = undelivered
        self._audited: list[tuple[str, float, bool, int, int, str | None]] = []
        self.pending: list[Pending] = []
        self.made = 0
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._under_way: dict[int, tuple[str, int, float]] = {}
        self._plain_calls: deque[tuple[HostTool, int, list[Any], dict[str, Any], int]] = deque()
        self._plain_threads = 0
        self._lock = threading.Lock()
        self._closed = False

    @property
    def calls(self) -> list[ToolCall]:
        """The audit so far."""
        return [
            ToolCall(name=name, ms=ms, ok=ok, argument_bytes=size, result_bytes=answered, error=error)
            for name, ms, ok, size, answered, error in self._audited
        ]

    @property
    def idle(self) -> bool:
        return not self._under_way

    def parse(self, body: bytes) -> tuple[list[Any], list[Any]] | None:
        """The calls and cancellations of a crossing, or None for what is not our guest's language."""
        limit = self.limits.max_call_bytes
        try:
            calls, cancelled = parse(body, None if limit is None else limit + MESSAGE_SLACK)
            if len(calls) > MAX_CALLS or not isinstance(cancelled, list):
                return None
            for call_id, name, args, kwargs in calls:
                typed = type(call_id) is int and type(name) is str and type(args) is list and type(kwargs) is dict
                if not typed or not 0 < call_id < 1 << 53 or call_id in self._under_way:
                    return None
        except (ValueError, TypeError):
            return None
        if len(calls) > 1 and len({call[0] for call in calls}) < len(calls):
            return None
        return calls, cancelled

    def receive(self, body: bytes) -> None:
        """Start what a crossing asks for."""
        parsed = self.parse(body)
        if parsed is None:
            self.stop("protocol")
            return
        calls, cancelled = parsed
        for call_id, name, args, kwargs in calls:
            if not self.start(call_id, name, args, kwargs, len(body) // len(calls)):
                return
        if cancelled:
            known = [call_id for call_id in cancelled[:MAX_CALLS] if type(call_id) is int and call_id in self._under_way]
            self.loop.call_soon_threadsafe(self._cancel, known)

    def _cancel(self, call_ids: list[int]) -> None:
        for call_id in call_ids:
            task = self._tasks.get(call_id)
            if task is not None:
                task.cancel()

    def admit(self, name: str) -> HostTool | CallFailed | None:
        """The tool of that name if it may be called now; None when the run has just been stopped."""
        self.made += 1
        most = self.limits.max_tool_calls
        if most is not None and self.made > most:
            self.made -= 1
            self.stop("call_limit")
            return None
        try:
            tool = self.tools.get(name)
        except CallFailed as refused:
            return refused
        return tool if tool is not None else CallFailed("UnknownTool", "there is no such tool")

    def is_plain(self, name: str) -> bool:
        """Whether it is a plain function's name, and may be called."""
        try:
            tool = self.tools.get(name)
        except CallFailed:
            return False
        return tool is not None and not tool.is_async

    def start(self, call_id: int, name: str, args: list[Any], kwargs: dict[str, Any], size: int) -> bool:
        """Start one call; False when the run has just been stopped."""
        tool = self.admit(name)
        if tool is None:
            return False
        if isinstance(tool, CallFailed):
            self._fail(call_id, name, tool, size)
            return True
        self.enter(call_id, name, size)
        if tool.is_async:
            self.loop.call_soon_threadsafe(self._start_task, tool, call_id, args, kwargs, size)
        else:
            with self._lock:
                self._plain_calls.append((tool, call_id, args, kwargs, size))
                start = self._plain_threads < MAX_PLAIN_CALLS
                self._plain_threads += start
            if start:
                self.threads.start(self._serve_plain_calls)
        return True

    def _serve_plain_calls(self) -> None:
        """In a thread: this run's plain calls, until there are none. A bounded number of such threads serve a run."""
        while True:
            with self._lock:
                if not self._plain_calls or self._closed:
                    self._plain_threads -= 1
                    return
                tool, call_id, args, kwargs, size = self._plain_calls.popleft()
            self._finish(call_id, self.call(tool, call_id, args, kwargs, size))

    def enter(self, call_id: int, name: str, size: int) -> None:
        """A call is under way, and in the audit whatever becomes of it."""
        with self._lock:
            self._under_way[call_id] = name, size, time.perf_counter()

    def leave(self, call_id: int) -> None:
        with self._lock:
            self._under_way.pop(call_id, None)

    def call(self, tool: HostTool, call_id: int, args: list[Any], kwargs: dict[str, Any], size: int) -> bytes | None:
        """Run a plain function here and now; its completion."""
        started = time.perf_counter()
        try:
            bound_args, bound_kwargs = tool.bind(args, kwargs)
            data = encode_result(tool.function(*bound_args, **bound_kwargs), self.limits.max_call_bytes)
        except ApprovalRequired as error:
            self._pause(tool, args, kwargs, error, size, started)
            return None
        except BaseException as error:  # SystemExit included: a tool never ends its host
            return self._failed(call_id, tool.name, failure(error), size, started)
        return self._succeeded(call_id, tool.name, data, size, started)

    def _start_task(self, tool: HostTool, call_id: int, args: list[Any], kwargs: dict[str, Any], size: int) -> None:
        if not self._closed:
            self._tasks[call_id] = self.loop.create_task(self._run_task(tool, call_id, args, kwargs, size))

    async def _run_task(self, tool: HostTool, call_id: int, args: list[Any], kwargs: dict[str, Any], size: int) -> None:
        started = time.perf_counter()
        completion: bytes | None
        try:
            bound_args, bound_kwargs = tool.bind(args, kwargs)
            data = encode_result(await tool.function(*bound_args, **bound_kwargs), self.limits.max_call_bytes)
            completion = self._succeeded(call_id, tool.name, data, size, started)
        except ApprovalRequired as error:
            self._pause(tool, args, kwargs, error, size, started)
            completion = None
        except asyncio.CancelledError as error:
            ours = (task := asyncio.current_task()) is not None and task.cancelling() > 0
            completion = self._failed(call_id, tool.name, CallFailed("Cancelled", "cancelled") if ours else failure(error), size, started)
            completion = None if ours else completion
        except BaseException as error:
            completion = self._failed(call_id, tool.name, failure(error), size, started)
        finally:
            self._tasks.pop(call_id, None)
        self._finish(call_id, completion)

    def _pause(self, tool: HostTool, args: list[Any], kwargs: dict[str, Any], error: ApprovalRequired, size: int, started: float) -> None:
        named = tool.named(args, kwargs)
        ms = (time.perf_counter() - started) * 1e3
        with self._lock:
            if self._closed:
                return
            own = Pending(tool=tool.name, arguments=to_jsonable_python(named), reason=str(error.reason))
            self.pending += error.pending or (own,)
            self._audited.append((tool.name, ms, False, size, 0, "waits for approval"))
        self.stop("paused")

    def _fail(self, call_id: int, name: str, error: CallFailed, size: int) -> None:
        self._finish(call_id, self._failed(call_id, name, error, size, time.perf_counter()))

    def _succeeded(self, call_id: int, name: str, data: bytes, size: int, started: float) -> bytes:
        ms = (time.perf_counter() - started) * 1e3
        if not self._closed:
            self._audited.append((name, ms, True, size, len(data), None))
        return b"[%d,1,%b]" % (call_id, data)

    def _failed(self, call_id: int, name: str, error: CallFailed, size: int, started: float) -> bytes:
        data = to_json({"kind": error.kind, "message": str(error)})
        ms = (time.perf_counter() - started) * 1e3
        if not self._closed:
            self._audited.append((name[:200], ms, False, size, 0, f"{error.kind}: {error}"[:500]))
        return b"[%d,0,%b]" % (call_id, data)

    def _finish(self, call_id: int, completion: bytes | None) -> None:
        # Under the lock: once the run is closed its worker serves another, which must not hear of this call.
        with self._lock:
            self._under_way.pop(call_id, None)
            if completion is not None and not self._closed:
                if self.undelivered() > MAX_UNDELIVERED:
                    message = "too many results wait to be read: await calls before making more"
                    completion = b"[%d,0,%b]" % (call_id, to_json({"kind": "Flood", "message": message}))
                self.complete(completion)

    def close(self) -> None:
        """Cancel what is still under way, and say so in the audit. Called on the loop."""
        with self._lock:
            self._closed = True
            left, self._under_way = self._under_way, {}
        for name, size, started in left.values():
            ms = (time.perf_counter() - started) * 1e3
            self._audited.append((name, ms, False, size, 0, "unfinished when the run ended"))
        for task in list(self._tasks.values()):
            task.cancel()

"""The host's side of a run's tool calls: checked, run concurrently, counted, audited."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from collections import deque
from collections.abc import Callable
from itertools import repeat
from typing import Any

from pydantic_core import to_json, to_jsonable_python

from go_ent.dataclass import dataclass
from go_ent.sandbox.errors import ApprovalRequired, Diverged
from go_ent.sandbox.host.background import runs_here
from go_ent.sandbox.host.limits import Limits
from go_ent.sandbox.host.run import Pending, ToolCall
from go_ent.sandbox.host.threads import Threads
from go_ent.sandbox.host.tools import CallFailed, Granted, HostTool, encode_result, failure
from go_ent.sandbox.worker.outside import holds_at_most, parse
from go_ent.sandbox.worker.tape import Tape
from go_ent.sandbox.worker.wire import message_room

MAX_CALLS = 1024  # in one message
CANCELLED_S = 0.05  # in which a run that is being cancelled itself ends
PAUSE_S = 30.0  # that calls under way have when the run is to be paused
MESSAGE_VALUES = 1024  # of a message, besides those of its calls
MAX_UNDELIVERED = 64 << 20  # bytes of results that a guest has not read yet
MAX_PLAIN_CALLS = 64  # of one run at a time; more of them wait
GOT_SO_FAR = [0]  # no call, but a taped guest's word that it has got so far
CHECKPOINT = "<checkpoint>"  # what a guest's checkpoints come under: no tool can have that name
MAX_CHECKPOINTS = 10_000  # of one run
MAX_LABEL = 200


@dataclass(slots=True)
class Call:
    """A call of a plain function that may be made."""

    tool: HostTool
    id: int
    args: list[Any]
    kwargs: dict[str, Any]
    size: int  # its part of the message


class Broker:
    """Serves one run. `complete` gets each finished call as a piece of JSON; `stop` ends the run with a reason;
    `undelivered` tells how many bytes of completions the guest has not read yet.

    Plain functions run in threads, async ones as tasks on the caller's loop. A plain call that is all the guest has
    under way is left to whoever reads its messages, unless the tool is known to be `slow`. Both callbacks may be called
    from any thread. After `close` nothing is delivered any more: what a late tool returns is dropped.

    With a tape, every message of the guest is put to it first, and it hears of every completion before anything is
    heard that the guest makes of it. `problem` says why the tape stopped the run.
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
        tape: Tape | None = None,
    ) -> None:
        self.tools = tools
        self.limits = limits
        self.loop = loop
        self.threads = threads
        self.complete = complete
        self.stop = stop
        self.undelivered = undelivered
        self.tape = tape
        self.problem: str | None = None
        self._checkpoints = 0
        self._audited: list[tuple[str, float, bool, int, int, str | None]] = []
        self.pending: list[Pending] = []
        self.made = 0
        self.pausing = (
            False  # a call waits for approval: nothing new is begun, and the run ends when nothing is under way
        )
        self._broken = False  # it does not speak our language any more
        self._last = 0  # the number of the newest call
        self._cancelled: set[int] = set()
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._under_way: dict[int, tuple[str, int, float]] = {}
        self._plain_calls: deque[Call] = deque()
        self._left: Call | None = None  # to whoever reads
        self.slow: set[str] = set()  # tools that have kept whoever called them waiting
        self._plain_threads = 0
        self._lock = threading.Lock()
        self._context = contextvars.copy_context()  # tools run in the context of whoever started the run
        self._closed = False

    @property
    def calls(self) -> list[ToolCall]:
        """The audit so far."""
        return [
            ToolCall(name=name, ms=ms, ok=ok, argument_bytes=size, result_bytes=answered, error=error)
            for name, ms, ok, size, answered, error in self._audited
        ]

    def parse(self, body: bytes | bytearray) -> tuple[list[Any], list[Any]] | None:
        """The calls and cancellations of a crossing, or None for what is not our guest's language."""
        most, last = self.limits.max_call_values, self._last
        if most is not None and not holds_at_most(body, most + MESSAGE_VALUES):
            return None
        try:
            calls, cancelled = parse(body, message_room(self.limits.max_call_bytes))
            if len(calls) > MAX_CALLS or type(cancelled) is not list or not (calls or cancelled):
                return None
            for call_id, name, args, kwargs in calls:
                typed = type(call_id) is int and type(name) is str and type(args) is list and type(kwargs) is dict
                # A number stands for one call, for ever: what was recorded, or approved, of it is of that call alone.
                if not typed or not last < call_id < 1 << 53:
                    return None
                last = call_id
        except (ValueError, TypeError):
            return None
        if not cancelled or (cancelled == GOT_SO_FAR and self.tape is not None):
            return calls, cancelled
        # Our guest gives a call up once, and only one that it has made.
        if any(
            type(call_id) is not int or not 0 < call_id <= last or call_id in self._cancelled for call_id in cancelled
        ):
            return None
        return (calls, cancelled) if len(set(cancelled)) == len(cancelled) else None

    def receive(self, body: bytes | bytearray, heard: bytes = b"") -> Call | None:
        """Start what a crossing asks for; a taped run's guest has *heard* something before it.

        The answer is a call that has yet to be made, with `make`, by a thread that has nothing else to do.
        """
        if self.problem is not None or self._broken:
            return None  # it is being stopped, and may not go on from where the tape, or we, said no
        parsed = self.parse(body)
        if parsed is None:
            self._broken = True
            self.stop("protocol")
            return None
        calls, cancelled = parsed
        if calls:
            self._last = calls[-1][0]
        self._cancelled.update(filter(None, cancelled))
        recorded = repeat(None) if self.tape is None else self._recorded(self.tape, calls, cancelled, heard)
        if recorded is None:
            return None
        alone = len(calls) == 1 and not cancelled and not self._under_way
        for (call_id, name, args, kwargs), answer in zip(calls, recorded, strict=False):
            size = len(body) // len(calls)
            if answer is not None:
                if not self._repeat(call_id, name, answer, size):
                    return None
            elif not self.start(call_id, name, args, kwargs, size, alone):
                return None
        if cancelled:
            self.loop.call_soon_threadsafe(
                self._cancel, [call_id for call_id in cancelled if call_id in self._under_way]
            )
        left, self._left = self._left, None
        return left

    def _recorded(self, tape: Tape, calls: list[Any], cancelled: list[int], heard: bytes) -> list[bytes | None] | None:
        """What the tape says to a message; None when the run has just been stopped."""
        try:
            with self._lock:  # an answer that another thread gives is recorded first: the guest may go on from it
                return tape.calls([tuple(call) for call in calls], cancelled, heard)
        except (Diverged, OSError) as error:
            self.stop_for(error)
            return None

    def _repeat(self, call_id: int, name: str, answer: bytes, size: int) -> bool:
        """Give the recorded answer of a call again; False when it is none, which ends the run."""
        head = b"[%d," % call_id
        worked = answer.startswith(head + b"1,")
        if answer and not (answer.endswith(b"]") and (worked or answer.startswith(head + b"0,"))):
            self.stop_for(
                Diverged(f"the record has no answer to call {call_id} of {name[:MAX_LABEL]} but something else")
            )
            return False
        if name != CHECKPOINT:
            self.made += 1
            error = None if worked else _error_of(answer)
            self._audited.append((name[:200], 0.0, worked, size, len(answer) - len(head) - 3 if worked else 0, error))
        with self._lock:
            if answer and not self._closed:
                self.complete(answer)
        return True

    def stop_for(self, error: Diverged | OSError) -> None:
        """The tape does not let the run go on."""
        if isinstance(error, Diverged):
            self.problem = self.problem or str(error)
            self.stop("diverged")
        else:
            self.problem = self.problem or error.strerror or type(error).__name__
            self.stop("journal")

    def _cancel(self, call_ids: list[int]) -> None:
        for call_id in call_ids:
            if (task := self._tasks.get(call_id)) is not None:
                task.cancel()

    def _ended(self, call_id: int) -> None:
        """A task was cancelled, maybe before its first step: nobody has said yet how its call ended."""
        if call_id in self._cancelled:
            self._finish_cancelled(call_id)
        else:  # not at once: if the run itself is being cancelled, nothing is known of the call
            self.loop.call_later(CANCELLED_S, self._finish_cancelled, call_id)

    def _finish_cancelled(self, call_id: int) -> None:
        """A call that was given up by the guest, which waits for no answer then; or by somebody here, and the guest
        is told.
        """
        with self._lock:
            left = self._under_way.get(call_id)
        if left is not None:
            name, size, started = left
            completion = self._failed(call_id, name, CallFailed("Cancelled", "cancelled"), size, started)
            given_up = call_id in self._cancelled
            self._finish(call_id, None if given_up else completion, cancelled=given_up)

    def admit(self, name: str, call_id: int) -> HostTool | CallFailed | None:
        """The tool of that name if it may be called now; None when the run has just been stopped."""
        self.made += 1
        most = self.limits.max_tool_calls
        if most is not None and self.made > most:
            self.made -= 1
            self.stop("call_limit")
            return None
        try:
            tool = self.tools.find(name, call_id)
        except Exception as error:
            return failure(error)
        return tool if tool is not None else CallFailed("UnknownTool", "there is no such tool")

    def start(
        self, call_id: int, name: str, args: list[Any], kwargs: dict[str, Any], size: int, alone: bool = False
    ) -> bool:
        """Start one call; False when the run has just been stopped."""
        if self.pausing:
            return True  # nobody answers it now
        if name == CHECKPOINT:
            return self._checkpoint(call_id, args, kwargs)
        tool = self.admit(name, call_id)
        if tool is None:
            return False
        if isinstance(tool, CallFailed):
            self._fail(call_id, name, tool, size)
            return True
        self.enter(call_id, name, size)
        call = Call(tool, call_id, args, kwargs, size)
        if tool.is_async:
            if runs_here(self.loop):
                self._start_task(call)
            else:
                self.loop.call_soon_threadsafe(self._start_task, call)
        elif alone and name not in self.slow:
            self._left = call
        else:
            with self._lock:
                self._plain_calls.append(call)
                start = self._plain_threads < MAX_PLAIN_CALLS
                self._plain_threads += start
            if start:
                self.threads.start(self._serve_plain_calls)
        return True

    def _checkpoint(self, call_id: int, args: list[Any], kwargs: dict[str, Any]) -> bool:
        """The guest's `checkpoint(label, value)`: kept, and answered at once."""
        self._checkpoints += 1
        if self._checkpoints > MAX_CHECKPOINTS:
            self.problem = f"the run made more than {MAX_CHECKPOINTS} checkpoints"
            self.stop("call_limit")
            return False
        match args:
            case [str(label), value] if 1 <= len(label) <= MAX_LABEL and not kwargs:
                completion = b"[%d,1,null]" % call_id
            case _:  # not by our guest's own function
                wrong = {
                    "kind": "InvalidArguments",
                    "message": f"a checkpoint has a label of 1 to {MAX_LABEL} characters and a value",
                }
                self._finish(call_id, b"[%d,0,%b]" % (call_id, to_json(wrong)))
                return True
        try:
            if self.tape is not None:
                self.tape.checkpoint(label, to_json(value, inf_nan_mode="constants"))
        except (OSError, Diverged) as error:
            self.stop_for(error)
            return False
        self._finish(call_id, completion)
        return True

    def _serve_plain_calls(self) -> None:
        """In a thread: this run's plain calls, until there are none. A bounded number of such threads serve a run."""
        while True:
            with self._lock:
                if not self._plain_calls or self._closed:
                    self._plain_threads -= 1
                    return
                call = self._plain_calls.popleft()
            self.make(call)

    def enter(self, call_id: int, name: str, size: int) -> None:
        """A call is under way, and in the audit whatever becomes of it."""
        with self._lock:
            self._last = max(self._last, call_id)
            self._under_way[call_id] = name, size, time.perf_counter()

    def make(self, call: Call) -> None:
        """Run a plain function here and now, and answer the call."""
        started = time.perf_counter()
        completion: bytes | None
        try:
            args, kwargs = call.tool.bind(call.args, call.kwargs)
            # No name for the result: it may be long, and is not needed beside its JSON.
            data = encode_result(
                self._context.copy().run(call.tool.function, *args, **kwargs), self.limits.max_call_bytes
            )
            completion = self._succeeded(call, data, started)
            del data
        except ApprovalRequired as error:
            completion = self._pause(call, error, started)
        except BaseException as error:  # SystemExit included: a tool never ends its host
            completion = self._failed(call.id, call.tool.name, failure(error), call.size, started)
        self._finish(call.id, completion)

    def _start_task(self, call: Call) -> None:
        if not self._closed:
            task = self.loop.create_task(self._run_task(call), context=self._context.copy())
            if not task.done():  # a loop may have tasks take their first step at once
                self._tasks[call.id] = task
                task.add_done_callback(self._never_begun)

    def _never_begun(self, task: asyncio.Task[None]) -> None:
        """A task is over that did not even take this callback back, its first step."""
        for call_id, one in list(self._tasks.items()):
            if one is task:
                del self._tasks[call_id]
                self._ended(call_id)

    async def _run_task(self, call: Call) -> None:
        started = time.perf_counter()
        if (task := self._tasks.get(call.id)) is not None:
            task.remove_done_callback(self._never_begun)  # which costs a turn of the loop
        completion: bytes | None
        try:
            args, kwargs = call.tool.bind(call.args, call.kwargs)
            data = encode_result(await call.tool.function(*args, **kwargs), self.limits.max_call_bytes)
            completion = self._succeeded(call, data, started)
            del data
        except ApprovalRequired as error:
            completion = self._pause(call, error, started)
        except asyncio.CancelledError:
            self._ended(call.id)  # by the guest, the tool itself, or whoever ends all that runs here
            raise
        except BaseException as error:
            completion = self._failed(call.id, call.tool.name, failure(error), call.size, started)
        finally:
            self._tasks.pop(call.id, None)
        self._finish(call.id, completion)

    def _pause(self, call: Call, error: ApprovalRequired, started: float) -> bytes | None:
        """Have the call wait for approval; its completion if it can't even be shown to whoever would approve it."""
        try:
            named = to_jsonable_python(call.tool.named(call.args, call.kwargs))
            own = Pending(tool=call.tool.name, arguments=named, reason=str(error.reason))
        except BaseException as problem:
            return self._failed(call.id, call.tool.name, failure(problem), call.size, started)
        ms = (time.perf_counter() - started) * 1e3
        with self._lock:
            if self._closed:
                return None
            self.pending += error.pending or (own,)
            self._audited.append((call.tool.name, ms, False, call.size, 0, "waits for approval"))
            self.pausing = self.tape is not None
        if self.pausing:
            # Calls that are under way may come to their end: of one that is cut off nobody would know whether it was
            # done.
            self.loop.call_soon_threadsafe(self.loop.call_later, PAUSE_S, self.stop, "paused")
        else:
            self.stop("paused")
        return None

    def _fail(self, call_id: int, name: str, error: CallFailed, size: int) -> None:
        self._finish(call_id, self._failed(call_id, name, error, size, time.perf_counter()))

    def _succeeded(self, call: Call, data: bytes, started: float) -> bytes:
        ms = (time.perf_counter() - started) * 1e3
        if not self._closed:
            self._audited.append((call.tool.name, ms, True, call.size, len(data), None))
        return b"[%d,1,%b]" % (call.id, data)

    def _failed(self, call_id: int, name: str, error: CallFailed, size: int, started: float) -> bytes:
        data = to_json({"kind": error.kind, "message": str(error)})
        ms = (time.perf_counter() - started) * 1e3
        if not self._closed:
            self._audited.append((name[:200], ms, False, size, 0, f"{error.kind}: {error}"[:500]))
        return b"[%d,0,%b]" % (call_id, data)

    def _finish(self, call_id: int, completion: bytes | None, *, cancelled: bool = False) -> None:
        """A call has ended: with a completion, or because the guest cancelled it, or it waits for approval."""
        unrecorded: OSError | Diverged | None = None
        # Under the lock: once the run is closed its worker serves another, which must not hear of this call.
        with self._lock:
            self._under_way.pop(call_id, None)
            if self._closed:
                return
            over = self.pausing and not self._under_way
            if completion is not None or cancelled:
                unrecorded = self._answer(call_id, completion)
        if unrecorded is not None:
            self.stop_for(unrecorded)
        if over:
            self.stop("paused")

    def _answer(self, call_id: int, completion: bytes | None) -> OSError | Diverged | None:
        """Under the lock: have an end told and recorded; what has kept it from being recorded."""
        if completion is not None and self.undelivered() > MAX_UNDELIVERED:
            message = "too many results wait to be read: await calls before making more"
            completion = b"[%d,0,%b]" % (call_id, to_json({"kind": "Flood", "message": message}))
        if completion is not None and not self.pausing:
            self.complete(completion)
        if self.tape is not None:
            try:
                self.tape.answered(call_id, completion)  # while the guest reads it: nothing it says is heard before
            except (OSError, Diverged) as error:  # also of a run inside this one
                return error
        return None

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
        # The run and its broker know each other: without this they would wait for the garbage collector.
        self.stop = self.complete = _nothing


def _nothing(_: object) -> None:
    """What is left of a broker's callbacks when its run is over."""


def _error_of(answer: bytes) -> str:
    """What the audit says of a recorded failure."""
    if not answer:
        return "Cancelled: cancelled"
    try:
        _, _, error = parse(answer, 1 << 16)
        return f"{error['kind']}: {error['message']}"[:500]
    except (ValueError, TypeError, LookupError):
        return "failed"

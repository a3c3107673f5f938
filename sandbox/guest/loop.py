"""Waiting where there is one thread: asyncio's loop without sockets, whose idle step is one crossing to the host, and
locks: what would block for ever is an error at once, what has a timeout waits for it.
"""

import asyncio
import asyncio.base_events
import asyncio.events
import concurrent.futures
import heapq
import queue
import sched
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from guest.bridge import bridge


class Deadlock(RuntimeError):
    """Raised when the code waits for something that nothing can bring about any more."""


class Lock:
    """`threading.Lock`."""

    def __init__(self) -> None:
        self._held = False

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        if not self._held:
            self._held = True
            return True
        if not blocking:
            return False
        if timeout < 0:
            raise Deadlock(
                "the code waits for a lock, event or queue that no other thread can release: there are no threads here"
            )
        bridge.sleep(timeout)
        return False

    def release(self) -> None:
        if not self._held:
            raise RuntimeError("release unlocked lock")
        self._held = False

    def locked(self) -> bool:
        return self._held

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *exc: object) -> None:
        self.release()


class GuestLoop(asyncio.base_events.BaseEventLoop):
    """A `BaseEventLoop` that waits for tools and timers in the host instead of a selector."""

    def time(self) -> float:
        return time.monotonic()

    def _write_to_self(self) -> None:
        pass

    def call_soon_threadsafe(self, callback: Any, *args: Any, context: Any = None) -> asyncio.Handle:  # type: ignore[override]
        return self.call_soon(callback, *args, context=context)

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Any:  # type: ignore[override]
        """There are no threads in the guest: the function runs here and now."""
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:  # noqa: ASYNC109
        pass

    def _run_once(self) -> None:
        scheduled = self._scheduled  # type: ignore[attr-defined]
        ready = self._ready  # type: ignore[attr-defined]
        while scheduled and scheduled[0]._cancelled:
            self._timer_cancelled_count -= 1  # type: ignore[attr-defined]
            heapq.heappop(scheduled)._scheduled = False
        now = None
        if ready or self._stopping:  # type: ignore[attr-defined]
            if bridge.calls or bridge.cancelled:
                bridge.cross(0)
                now = bridge.now
        elif scheduled:
            bridge.cross(max(0.0, scheduled[0]._when - self.time()))
            now = bridge.now
        elif bridge.pending:
            bridge.cross(None)
        else:
            raise Deadlock("the code waits for something that can never happen: no tool call, timer or task is left")
        if scheduled:
            end = (self.time() if now is None else now) + self._clock_resolution  # type: ignore[attr-defined]
            while scheduled and scheduled[0]._when <= end:
                handle = heapq.heappop(scheduled)
                handle._scheduled = False
                ready.append(handle)
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle._cancelled:
                handle._run()


class _Policy(asyncio.events._AbstractEventLoopPolicy):
    """Makes `asyncio.run`, `asyncio.Runner` and `new_event_loop` use the guest's loop."""

    def __init__(self) -> None:
        self.loop: Any = None

    def get_event_loop(self) -> Any:
        if self.loop is None:
            raise RuntimeError("There is no current event loop")
        return self.loop

    def set_event_loop(self, loop: Any) -> None:
        self.loop = loop

    def new_event_loop(self) -> GuestLoop:
        return GuestLoop()


class _InlineExecutor(concurrent.futures.Executor):
    """`ThreadPoolExecutor` where there are no threads: each job runs when it is submitted."""

    def __init__(self, max_workers: int | None = None, *args: Any, **kwargs: Any) -> None:
        if max_workers is not None and max_workers <= 0:
            raise ValueError("max_workers must be greater than 0")
        self._shut = False
        initializer = kwargs.get("initializer")
        if initializer is not None:
            initializer(*kwargs.get("initargs", ()))

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        if self._shut:
            raise RuntimeError("cannot schedule new futures after shutdown")
        future: concurrent.futures.Future[Any] = concurrent.futures.Future()
        future.set_running_or_notify_cancel()
        try:
            future.set_result(fn(*args, **kwargs))
        except BaseException as error:
            if not isinstance(error, Exception):
                raise
            future.set_exception(error)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._shut = True


def install() -> None:
    """Make asyncio, executors and `time.sleep` work here. Done once, before the snapshot."""
    import concurrent.futures.thread
    import threading

    library: Any = asyncio.events
    library._event_loop_policy = _Policy()
    for library in (concurrent.futures, concurrent.futures.thread):
        library.ThreadPoolExecutor = _InlineExecutor

    def start(thread: Any) -> None:
        if thread._started.is_set():
            raise RuntimeError("threads can only be started once")
        thread._started.set()
        try:
            thread.run()
        except SystemExit:
            pass
        except Exception:
            threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), thread)))
        finally:
            thread._finished = True

    thread_class: Any = threading.Thread
    thread_class.start = start
    thread_class.join = lambda self, timeout=None: None
    thread_class.is_alive = lambda self: False
    library = time
    library.sleep = bridge.sleep
    defaults: Any = sched.scheduler.__init__
    defaults.__defaults__ = (time.monotonic, bridge.sleep)


def install_locks() -> None:
    """Make threading's locks these. Done once, before the snapshot."""
    library: Any = threading
    library.Lock = library._allocate_lock = Lock
    library.RLock = library._CRLock = library._RLock
    library = queue
    library.SimpleQueue = library._PySimpleQueue

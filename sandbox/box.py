"""The sandbox: the one door of the package."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from types import TracebackType
from typing import Any, Literal

from pydantic_core import PydanticSerializationError, to_json

from sandbox import outcome
from sandbox.berths import Berths
from sandbox.broker import Broker
from sandbox.end import End
from sandbox.errors import LimitError, RunNotFound, SandboxClosed
from sandbox.flight import Berth, Flight, Job, Landing
from sandbox.images import Image, ensure_image
from sandbox.limits import Limits
from sandbox.names import FILE_NAME, MAX_FILES, MAX_NAME
from sandbox.run import Run, RunError
from sandbox.seam import SEED_BYTES, guest_seed
from sandbox.threads import Threads
from sandbox.tools import Tool, Toolset

MAX_SOURCE_BYTES = 1 << 20
MAX_INPUT_BYTES = 32 << 20
DEFAULT_WORKERS = 32
BASE64 = re.compile(rb"[A-Za-z0-9+/]+={0,2}")

ToolsArgument = Iterable[Callable[..., Any] | Tool] | Mapping[str, Any]


class _BadRequest(Exception):
    """A source, input or file that can't be run: the run ends before a guest is needed."""

    def __init__(self, kind: str, message: str, status: Literal["error", "refused"] = "error", hint: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.error = RunError(kind=kind, message=message, hint=hint)


class CodeCache:
    """Compiled code by source: made in guests, loaded only in guests; to the host it is base64 text."""

    def __init__(self, most_bytes: int = 32 << 20) -> None:
        self._codes: OrderedDict[bytes, bytes] = OrderedDict()
        self._size = 0
        self._most = most_bytes
        self._lock = threading.Lock()

    def get(self, key: bytes) -> bytes | None:
        with self._lock:
            code = self._codes.get(key)
            if code is not None:
                self._codes.move_to_end(key)
            return code

    def put(self, key: bytes, code: bytes) -> None:
        if len(code) > self._most // 8 or not BASE64.fullmatch(code):
            return
        with self._lock:
            if key not in self._codes:
                self._codes[key] = code
                self._size += len(code)
            while self._size > self._most:
                self._size -= len(self._codes.popitem(last=False)[1])


class Sandbox:
    """Runs untrusted Python in WebAssembly guests, each used for one run only.

    Guests run in worker processes. `in_process=True` runs them in threads of this process instead: the smallest
    latency, but a fault in the WebAssembly engine would be a fault of this process.

    Use it as a context manager, async or not, or call `close` when done. One sandbox may be used from several threads
    and event loops at once.
    """

    def __init__(
        self,
        tools: ToolsArgument = (),
        limits: Limits | None = None,
        *,
        workers: int = DEFAULT_WORKERS,
        in_process: bool = False,
        image: Image | None = None,
    ) -> None:
        if not isinstance(workers, int) or isinstance(workers, bool) or workers < 1:
            raise LimitError(f"workers={workers!r}: at least one is needed")
        self.tools = tools if isinstance(tools, Toolset) else Toolset(tools)
        self.limits = limits if limits is not None else Limits()
        self.workers = workers
        self.in_process = in_process
        self._image = image
        self._berths: dict[str, Berths] = {}
        self._closers: list[Callable[[], None]] = []
        self._threads = Threads("sandbox-tool")
        self._codes = CodeCache()
        self._flights: dict[str, Flight | _Queued] = {}
        self._lock = threading.Lock()
        self._background: _Loop | None = None
        self._closed = False

    # -- opening and closing

    @property
    def image(self) -> Image:
        """The image its guests are made from; built on the first use of a machine, which takes about half a minute."""
        if self._image is None:
            self._image = ensure_image()
        return self._image

    def open(self) -> Sandbox:
        """Get ready: the image, and the first workers."""
        self._berths_for(self.limits).prepare()
        return self

    def _berths_for(self, limits: Limits) -> Berths:
        kind = self._kind(limits)
        with self._lock:
            if self._closed:
                raise SandboxClosed("the sandbox is closed")
            berths = self._berths.get(kind)
            if berths is not None:
                return berths
            image = self.image
            warm = min(2, os.cpu_count() or 1)
            make: Callable[[], Berth]
            if kind == "thread":
                from sandbox.inprocess import WorkerThread

                artefact = str(image.artefact("epochs"))

                def make() -> Berth:
                    return WorkerThread(artefact)

            else:
                from sandbox.process import WorkerProcess, Zygote

                zygote = Zygote(str(image.artefact(kind)), fuel=kind == "fuel")
                self._closers.append(zygote.close)

                def make() -> Berth:
                    return WorkerProcess(zygote, self._threads)

            berths = self._berths[kind] = Berths(make, most=self.workers, warm=warm)
            return berths

    def close(self) -> None:
        """End every run and worker. Idempotent."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        self.interrupt_all()
        for berths in self._berths.values():
            berths.close()
        for close in self._closers:
            close()
        self._threads.close()
        if self._background is not None:
            self._background.close()

    def __enter__(self) -> Sandbox:
        return self.open()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()

    async def __aenter__(self) -> Sandbox:
        await asyncio.to_thread(self.open)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()

    # -- running

    async def run(
        self,
        code: str | bytes,
        inputs: Mapping[str, Any] | None = None,
        *,
        files: Mapping[str, bytes] | None = None,
        limits: Limits | Mapping[str, Any] | None = None,
        run_id: str | None = None,
        tools: Toolset | None = None,
    ) -> Run:
        """Run *code* in a guest of its own, and throw the guest away.

        `limits` may only narrow the sandbox's. `run_id` is what `interrupt` takes; one is made up if it is left out.
        """
        return await self._run(code, inputs, files, limits, run_id, tools or self.tools, None)

    def run_sync(self, code: str | bytes, inputs: Mapping[str, Any] | None = None, **options: Any) -> Run:
        """`run`, for scripts. Async tools run on a loop of the sandbox's own."""
        run: Run = self._loop().call(self.run(code, inputs, **options))
        return run

    def session(self, *, limits: Limits | Mapping[str, Any] | None = None) -> Session:
        """A guest that keeps its state between runs, under the same limits."""
        return Session(self, self.limits.narrowed(dict(limits) if isinstance(limits, Mapping) else limits))

    def interrupt(self, run_id: str) -> None:
        """End a run that is under way, wherever it is; its status becomes `interrupted`. Thread-safe."""
        with self._lock:
            flight = self._flights.get(run_id)
        if flight is None:
            raise RunNotFound(f"no run {run_id!r} is under way; it may have ended already")
        flight.stop("interrupted")

    def interrupt_all(self) -> None:
        """Interrupt every run that is under way."""
        with self._lock:
            flights = list(self._flights.values())
        for flight in flights:
            flight.stop("interrupted")

    @property
    def running(self) -> list[str]:
        """The ids of the runs under way or waiting for a worker."""
        with self._lock:
            return list(self._flights)

    def _loop(self) -> _Loop:
        with self._lock:
            if self._closed:
                raise SandboxClosed("the sandbox is closed")
            if self._background is None:
                self._background = _Loop()
            return self._background

    async def _run(
        self,
        code: str | bytes,
        inputs: Mapping[str, Any] | None,
        files: Mapping[str, bytes] | None,
        narrower: Limits | Mapping[str, Any] | None,
        run_id: str | None,
        tools: Toolset,
        session: Session | None,
    ) -> Run:
        started = time.perf_counter()
        base = session.limits if session is not None else self.limits
        limits = base if narrower is None else base.narrowed(dict(narrower) if isinstance(narrower, Mapping) else narrower)
        noise = os.urandom(SEED_BYTES + 16)
        run_id, seed = run_id or noise[SEED_BYTES:].hex(), noise[:SEED_BYTES]
        queued = _Queued()
        with self._lock:
            if run_id in self._flights:
                raise LimitError(f"a run {run_id!r} is under way already; run ids are unique")
            self._flights[run_id] = queued
        try:
            berths = self._berths.get(self._kind(limits))
            if berths is None:
                berths = await asyncio.to_thread(self._berths_for, limits)
            self._check_memory(limits)
            again = session is not None and session.started
            try:
                source = _source(code)
                key = hashlib.sha256(source).digest()
                # Fuel is counted from the source, always: a cached run would cost less.
                cached = None if limits.fuel is not None else self._codes.get(key)
                # Code is kept only from a guest that has run nothing else: another could hand in what it likes.
                keep = cached is None and limits.fuel is None and not again
                request = _request(source, cached, keep, inputs, files, limits, tools, seed, fresh=not again, session=session is not None)
            except _BadRequest as bad:
                return Run(id=run_id, status=bad.status, error=bad.error, image=self.image.digest)
            job = Job(request, seed, limits, keep=keep, session=session is not None, again=again)
            landing, broker = await self._fly(job, run_id, queued, tools, session, berths)
            if landing.kept is not None:
                self._codes.put(key, landing.kept)
            return outcome.build(run_id, landing, broker, job, files or {}, self.image, (time.perf_counter() - started) * 1e3)
        finally:
            with self._lock:
                self._flights.pop(run_id, None)

    def _kind(self, limits: Limits) -> str:
        # Fuel runs have an artefact of their own, and always a process: deterministic, and needed by few.
        return "fuel" if limits.fuel is not None else "thread" if self.in_process else "plain"

    def _check_memory(self, limits: Limits) -> None:
        own = self.image.memory_bytes
        if limits.memory_mb is not None and limits.memory_mb << 20 < own:
            raise LimitError(f"memory_mb={limits.memory_mb}: this image itself takes {own / (1 << 20):.0f} MB; give it more")

    async def _fly(
        self, job: Job, run_id: str, queued: _Queued, tools: Toolset, session: Session | None, berths: Berths
    ) -> tuple[Landing, Broker | None]:
        loop = asyncio.get_running_loop()
        berth = session.berth if session is not None else None
        if berth is None:
            berth = berths.take()
        if berth is None:
            berth = await queued.wait_for(berths)
        if berth is None:
            return Landing(End(reason="interrupted")), None

        def connect(flight: Flight, complete: Callable[[bytes], None], undelivered: Callable[[], int]) -> Broker:
            return Broker(tools, job.limits, loop, self._threads, complete, flight.stop, undelivered)

        flight: Flight | None = None
        landing: Landing | None = None
        try:
            flight = berth.launch(job, loop, connect)
            with self._lock:
                self._flights[run_id] = flight
                too_late = self._closed or queued.interrupted
            if too_late:
                flight.stop("interrupted")
            landing = await flight.landed
            return landing, flight.broker
        except asyncio.CancelledError:
            if flight is not None:
                flight.abandon()
            raise
        finally:
            if flight is not None and flight.broker is not None:
                flight.broker.close()
            ended = landing is None or landing.end.answer is None
            if session is not None and not (ended or berth.stuck or not berth.alive):
                session.berth, session.started = berth, True
            else:
                if session is not None:
                    session.lost(landing)
                if ended and flight is not None and landing is None:
                    berth.stuck = True
                berths.release(berth)


class _Queued:
    """A run that has no worker yet; it can be interrupted all the same."""

    def __init__(self) -> None:
        self.interrupted = False
        self._waiting: asyncio.Task[Berth] | None = None

    def stop(self, reason: str) -> None:
        self.interrupted = True
        if self._waiting is not None:
            self._waiting.get_loop().call_soon_threadsafe(self._waiting.cancel)

    async def wait_for(self, berths: Berths) -> Berth | None:
        """The next free berth, or None when the run was interrupted before there was one."""
        waiting = self._waiting = asyncio.get_running_loop().create_task(berths.wait())
        if self.interrupted:
            waiting.cancel()
        try:
            return await waiting
        except asyncio.CancelledError:
            if waiting.done() and not waiting.cancelled() and waiting.exception() is None:
                berths.release(waiting.result())  # it came in the very moment that nobody waited any more
            waiting.cancel()
            if self.interrupted:
                return None
            raise


class Session:
    """A guest that keeps its names and files between runs, in a worker of its own.

    Memory is limited over the whole session, the other limits for each run. A run that ends in a limit, an interrupt
    or a crash ends the session: its state is gone. An exception in the code does not.
    """

    def __init__(self, box: Sandbox, limits: Limits) -> None:
        self.box = box
        self.limits = limits
        self.berth: Berth | None = None
        self.started = False
        self._over: str | None = None
        self._turn = asyncio.Lock()

    async def __aenter__(self) -> Session:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()

    async def run(
        self,
        code: str | bytes,
        inputs: Mapping[str, Any] | None = None,
        *,
        files: Mapping[str, bytes] | None = None,
        limits: Limits | Mapping[str, Any] | None = None,
        run_id: str | None = None,
    ) -> Run:
        """Run *code* where the session's earlier runs left off. Runs of one session follow each other."""
        async with self._turn:
            if self._over is not None:
                raise SandboxClosed(self._over)
            return await self.box._run(code, inputs, files, limits, run_id, self.box.tools, self)

    def run_sync(self, code: str | bytes, inputs: Mapping[str, Any] | None = None, **options: Any) -> Run:
        """`run`, for scripts."""
        run: Run = self.box._loop().call(self.run(code, inputs, **options))
        return run

    def lost(self, landing: Landing | None) -> None:
        why = "its run was cancelled" if landing is None else f"its last run ended with {outcome.status_of(landing)}"
        self._over = f"the session is over: {why}; start a new one"
        self.berth = None

    def close(self) -> None:
        """Throw the guest away. Idempotent."""
        self._over = self._over or "the session is closed"
        berth, self.berth = self.berth, None
        if berth is not None:
            berth.stuck = True  # its guest holds this session's state: never to be used again
            self.box._berths_for(self.limits).release(berth) if not self.box._closed else berth.close()


def _source(code: str | bytes) -> bytes:
    if isinstance(code, str):
        try:
            data = code.encode("utf-8")
        except UnicodeEncodeError as error:
            raise _BadRequest("SyntaxError", f"the source is not valid Unicode: {error.reason} at position {error.start}") from None
    elif isinstance(code, bytes | bytearray):
        data = bytes(code)
        try:
            data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise _BadRequest("SyntaxError", f"the source is not UTF-8: {error.reason} at byte {error.start}") from None
    else:
        raise TypeError(f"code must be str or bytes, not {type(code).__name__}")
    if len(data) > MAX_SOURCE_BYTES:
        raise _BadRequest(
            "SourceTooLarge",
            f"the source is {len(data)} bytes long; at most {MAX_SOURCE_BYTES} are accepted",
            "refused",
            "pass data as inputs or files",
        )
    return data


def _inputs(inputs: Mapping[str, Any] | None) -> bytes:
    if not inputs:
        return b"{}"
    for name in inputs:
        if not isinstance(name, str) or not name.isidentifier() or name.startswith("__") or name in ("tools", "ToolError"):
            raise _BadRequest("InputError", f"{name!r} can't be the name of an input: it must be an ordinary variable name")
    try:
        data = to_json(dict(inputs), by_alias=True)
    except (PydanticSerializationError, ValueError, RecursionError) as error:
        raise _BadRequest(
            "InputError", f"the inputs can't be encoded as JSON: {error}", hint="pass JSON types, dataclasses or pydantic models"
        ) from None
    if len(data) > MAX_INPUT_BYTES:
        raise _BadRequest("InputError", f"the inputs are {len(data)} bytes long; at most {MAX_INPUT_BYTES} are accepted")
    return data


def _files(files: Mapping[str, bytes] | None, limits: Limits) -> bytes:
    if not files:
        return b"{}"
    total = 0
    encoded: dict[str, str] = {}
    for name, data in files.items():
        if not isinstance(name, str) or not FILE_NAME.fullmatch(name) or len(name) > MAX_NAME:
            raise _BadRequest("FileError", f"{name!r} can't be the name of a file: use a relative name without '..'")
        try:
            name.encode("utf-8")
            content = data.encode("utf-8") if isinstance(data, str) else data
        except UnicodeEncodeError:
            raise _BadRequest("FileError", f"file {name!r}: its name or text is not valid Unicode") from None
        if not isinstance(content, bytes | bytearray | memoryview):
            raise _BadRequest("FileError", f"file {name!r}: bytes are needed, not {type(data).__name__}")
        total += len(content)
        encoded[name] = base64.b64encode(content).decode()
    if limits.max_file_bytes is not None and total > limits.max_file_bytes:
        raise _BadRequest("FileError", f"the files are {total} bytes in all; max_file_bytes={limits.max_file_bytes}")
    if len(encoded) > MAX_FILES:
        raise _BadRequest("FileError", f"{len(encoded)} files were passed; at most {MAX_FILES} are accepted")
    return to_json(encoded)


def _request(
    source: bytes,
    code: bytes | None,
    keep: bool,
    inputs: Mapping[str, Any] | None,
    files: Mapping[str, bytes] | None,
    limits: Limits,
    tools: Toolset,
    seed: bytes,
    *,
    fresh: bool,
    session: bool,
) -> bytes:
    """The text that a guest gets. Put together from JSON pieces, so that nothing is encoded twice."""
    return b'{"source":%b,"code":%b,%b,"fresh":%b,"session":%b,"seed":%d,"inputs":%b,"files":%b,"tools":%b}' % (
        to_json(source.decode()),
        b"null" if code is None else b'"%b"' % code,
        _limits_json(limits, keep),
        b"true" if fresh else b"false",
        b"true" if session else b"false",
        guest_seed(seed),
        _inputs(inputs),
        _files(files, limits),
        tools.names_json,
    )


@lru_cache(64)
def _limits_json(limits: Limits, keep: bool) -> bytes:
    fields = {
        "keep": keep,
        "stdout": limits.max_stdout_bytes,
        "call_bytes": limits.max_call_bytes,
        "result_bytes": limits.max_result_bytes,
        "file_bytes": limits.max_file_bytes,
    }
    return to_json(fields)[1:-1]


class _Loop:
    """An event loop in a thread of its own, for callers that have none."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="sandbox-loop", daemon=True)
        self._thread.start()

    def call(self, coroutine: Any) -> Any:
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        if threading.current_thread() is not self._thread:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(2.0)
            if not self._thread.is_alive():
                self._loop.close()

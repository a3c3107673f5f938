"""`Sandbox`: the entry point of the package."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Any, Literal
from weakref import WeakSet

from go_ent.sandbox.errors import Diverged, LimitError, RunNotFound, SandboxClosed
from go_ent.sandbox.hardening.wall import WALLS, Wall
from go_ent.sandbox.host import outcome
from go_ent.sandbox.host.background import BackgroundLoop
from go_ent.sandbox.host.broker import Broker
from go_ent.sandbox.host.codes import CodeCache
from go_ent.sandbox.host.examination import Examiner
from go_ent.sandbox.host.flight import Flight, Job, Landing
from go_ent.sandbox.host.limits import Limits
from go_ent.sandbox.host.pool import Pool, Queued
from go_ent.sandbox.host.process import WorkerProcess
from go_ent.sandbox.host.request import (
    BadRequest,
    Way,
    check_language,
    encode_request,
    encode_source,
    is_large,
    made_for_runs,
    way_of,
)
from go_ent.sandbox.host.run import Run
from go_ent.sandbox.host.session import Session
from go_ent.sandbox.host.spans import span
from go_ent.sandbox.host.threads import Threads
from go_ent.sandbox.host.tools import Granted, Tool, Toolset
from go_ent.sandbox.host.zygote import Zygote, orders_for, zygotes
from go_ent.sandbox.images import Image, ensure_image
from go_ent.sandbox.images.proof import globals_of
from go_ent.sandbox.messages.items import apart
from go_ent.sandbox.worker.end import End
from go_ent.sandbox.worker.languages import Language
from go_ent.sandbox.worker.seam import SEED_BYTES
from go_ent.sandbox.worker.tape import Start, Tape, Taped, source_digest
from go_ent.sandbox.worker.wire import MAX_TAPE

DEFAULT_WORKERS = 32
RUN = Way()
EXAMINING = -1  # a depth of its own: whoever runs may have code looked at
COMPILING = -2  # and another: its workers never run what they compile, so that no run could have broken them

ToolsArgument = Iterable[Callable[..., Any] | Tool] | Mapping[str, Any]


class Sandbox(Examiner):
    """Runs untrusted Python, JavaScript and TypeScript in WebAssembly guests, each used for one run only.

    Guests run in worker processes that the kernel confines.

    Ownership: use it as a context manager, async or not, or call `close`. It owns its workers, threads and sessions;
    the caller owns the tools. A sandbox belongs to the process that made it: a forked child gets `SandboxClosed`.

    Threads: one sandbox may be used from several threads and event loops at once. Async tools run on the event loop
    that awaits the run, plain functions in threads, so plain functions must be thread-safe.

    Errors: whatever the code does ends as a `Run` with a status. Only misuse raises: `LimitError`,
    `ToolDefinitionError`, `SandboxClosed`, and `ImageError` if there is no image and none can be built.
    """

    _remade = ""  # tests say why guests are to be made anew
    _compare = False  # tests have memory and globals compared after each reset

    def __init__(
        self,
        tools: ToolsArgument = (),
        limits: Limits | Mapping[str, Any] | None = None,
        *,
        workers: int = DEFAULT_WORKERS,
        image: Image | Callable[[], Image] | None = None,
        callers: int = 1,
        others: Callable[[str], Image] | None = None,
    ) -> None:
        """At most *workers* runs are in progress at once; more wait for their turn.

        *image* may be a function that finds or builds the image; it is called once, when the image is first needed.
        *others* does so for other languages than Python.
        *callers* is how many clients a server shares the workers among; `sandbox.host.sharing.CALLER` says who calls.
        Raises `ToolDefinitionError` for a function that can't be a tool.
        """
        if not isinstance(workers, int) or isinstance(workers, bool) or workers < 1:
            raise LimitError(f"workers={workers!r}: at least one is needed")
        self.tools = tools if isinstance(tools, Toolset) else Toolset(tools)
        self.limits = Limits.of(limits)
        self.workers = workers
        self.callers = callers
        self._others: dict[str, Image] = {}  # images of other languages than Python
        self._find_other = others or (lambda language: ensure_image(language=language))
        if isinstance(image, Image) and image.language != "python":
            self._others[image.language], image = image, None
        self._image = image
        self._pools: dict[tuple[str, int], Pool] = {}  # by what its workers are for, and how deep in others a run is
        self._zygotes: dict[str, Zygote] = {}
        self._walls: Collection[str] = WALLS  # all of them; benchmarks measure what they cost
        self._threads = Threads("sandbox-tool")
        self._codes = CodeCache()
        self._flights: dict[str, Flight | Queued] = {}
        self._sessions: WeakSet[Session] = WeakSet()
        self._lock = threading.Lock()
        self._opening = threading.Lock()
        self._finding = threading.Lock()
        self._background: BackgroundLoop | None = None
        self._closed = False
        self._process = os.getpid()

    # -- opening and closing

    @property
    def image(self) -> Image:
        """The image its guests are made from. The first use on a machine builds it, which takes about half a minute."""
        with self._finding:
            if not isinstance(self._image, Image):
                self._image = (self._image or ensure_image)()
            return self._image

    def image_of(self, language: str) -> Image:
        """The image of a language, which is found or built when its first run comes."""
        if language == "python":
            return self.image
        with self._finding:
            if language not in self._others:
                self._others[language] = self._find_other(language)
            return self._others[language]

    @property
    def has_image(self) -> bool:
        """Whether it is known, so that nobody has to wait for it."""
        return isinstance(self._image, Image)

    def open(self) -> Sandbox:
        """Prepare the image and the first workers. Blocks; `async with` calls it in a thread."""
        self._check_process()
        self._pool_for(self.limits).prepare()
        return self

    def warm(self) -> Sandbox:
        """`open`, in the background: returns at once. If something is wrong, the first run says so."""
        self._check_process()
        self._threads.start(self._open_quietly)
        return self

    def _open_quietly(self) -> None:
        with contextlib.suppress(Exception):
            self.open()

    @property
    def is_ours(self) -> bool:
        """Whether this is the process that made it."""
        return os.getpid() == self._process

    def _check_process(self) -> None:
        """A forked child has the sandbox's memory, but not its threads, and its workers are the parent's."""
        if not self.is_ours:
            raise SandboxClosed(
                f"this sandbox was made by process {self._process}, and this is a fork of it: make a sandbox "
                "of its own in the child"
            )

    def _pool_for(self, limits: Limits, depth: int = 0, language: str = "python") -> Pool:
        """The pool of the kind that *limits* need. May take long, so nothing else waits for the lock it holds.

        Each depth has a pool of its own: a run that waits for a deeper one can't keep it from starting.
        """
        kind = self._kind(limits)
        made_for = made_for_runs(language, kind)
        with self._opening:
            if (made_for, depth) in self._pools:
                return self._pools[made_for, depth]
            image = self.image_of(language)
            orders = orders_for(image, kind, self._walls, self._remade)
            if self._compare:
                orders = dataclasses.replace(orders, compare=globals_of(image.component.read_bytes()))
            with self._lock:
                if self._closed:
                    raise SandboxClosed("the sandbox is closed")
                if made_for not in self._zygotes:
                    self._zygotes[made_for] = zygotes.share(orders)
                make = partial(WorkerProcess, self._zygotes[made_for], self._threads)
                warm = min(2, os.cpu_count() or 1) if depth == 0 else 0
                most = 1 if depth == COMPILING else self.workers
                self._pools[made_for, depth] = Pool(
                    make, self._threads.start, most=most, warm=warm, callers=lambda: self.callers
                )
            self._zygotes[made_for].start()
            return self._pools[made_for, depth]

    def close(self) -> None:
        """End every worker; runs in progress end as `interrupted`. Idempotent; does nothing in a forked child."""
        if not self.is_ours:
            return
        with self._lock:
            if self._closed:
                return
            self._closed = True
            sessions = list(self._sessions)
        self.interrupt_all()
        for one in [*sessions, *self._pools.values(), *self._zygotes.values(), self._threads, self._background]:
            if one is not None:
                with apart("a part of the sandbox can't be closed"):
                    one.close()

    def __enter__(self) -> Sandbox:
        return self.open()

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Sandbox:
        await asyncio.to_thread(self.open)
        return self

    async def __aexit__(self, *_: object) -> None:
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
        tools: Granted | None = None,
        entry: str | None = None,
        cut_result: bool = False,
        depth: int = 0,
        tape: Tape | None = None,
        language: Language = "python",
    ) -> Run:
        """Run *code* in a guest of its own, and discard the guest.

        *inputs* become variables of the code. *files* are the files it can open, by relative name; `Run.files` holds
        those it leaves. *limits* may only narrow the sandbox's, else `LimitError`. *run_id* is what `interrupt` takes;
        one is generated if it is left out. *entry* names a function of the code to call with the inputs; its return
        value is the result. In JavaScript and TypeScript that is the one function that the code exports. *cut_result*
        cuts a result that is too long instead of failing the run.

        Cancelling the task that awaits this ends the run. *depth* is for a run that a tool of another run starts: it
        never waits for a worker that a shallower run holds. The first run of another *language* than Python on a
        machine builds its image, which takes seconds. A *tape* records the run, or replays a recorded one and continues
        it.
        """
        way = way_of(entry, cut_result, language)
        with span("run", depth=depth, entry=entry or "") as told:
            run = await self._run(
                code, inputs, files, limits, run_id, self.tools if tools is None else tools, None, way, depth, tape
            )
            told.set(run_id=run.id, status=run.status, tool_calls=run.usage.tool_calls)
            if run.status not in ("completed", "paused"):
                told.fail(run.status)
            return run

    async def _examine(
        self, code: str | bytes, inputs: Mapping[str, Any] | None, limits: Limits | Mapping[str, Any] | None, way: Way
    ) -> Run:
        return await self._run(code, inputs, None, limits, None, Toolset(), None, way, EXAMINING)

    def cpu_used(self, run_id: str) -> float:
        """CPU seconds that a run in progress has used so far; 0.0 for any other."""
        with self._lock:
            flight = self._flights.get(run_id)
        return flight.cpu_used() if isinstance(flight, Flight) else 0.0

    def run_sync(self, code: str | bytes, inputs: Mapping[str, Any] | None = None, **options: Any) -> Run:
        """`run`, for code that does not await. Blocks; async tools run on the sandbox's own event loop, in a thread."""
        return self._loop().call(self.run(code, inputs, **options))

    def session(self, *, limits: Limits | Mapping[str, Any] | None = None, language: Language = "python") -> Session:
        """A guest that keeps its state between runs. *limits* may only narrow the sandbox's. The caller closes it."""
        self._check_process()
        session = Session(self, self.limits.narrowed(limits), check_language(language))
        with self._lock:
            self._sessions.add(session)
        return session

    def interrupt(self, run_id: str) -> None:
        """End a run in progress; its status becomes `interrupted`. Raises `RunNotFound`. Thread-safe."""
        with self._lock:
            flight = self._flights.get(run_id)
        if flight is None:
            raise RunNotFound(f"no run {run_id!r} is under way; it may have ended already")
        flight.stop("interrupted")

    def end(self, run_id: str, reason: Literal["interrupted", "cpu_limit", "timeout"]) -> None:
        """End a run in progress with the status *reason*: for a host with limits over several runs."""
        with self._lock:
            flight = self._flights.get(run_id)
        if flight is not None:
            flight.stop(reason)

    def interrupt_all(self) -> None:
        """Interrupt every run in progress. Thread-safe."""
        with self._lock:
            flights = list(self._flights.values())
        for flight in flights:
            with apart("a run can't be interrupted"):
                flight.stop("interrupted")

    @property
    def running(self) -> list[str]:
        """The ids of the runs under way or waiting for a worker."""
        with self._lock:
            return list(self._flights)

    @property
    def started(self) -> int:
        """How many workers there are now, also idle ones."""
        return sum(len(pool) for pool in list(self._pools.values()))

    @property
    def walls(self) -> tuple[Wall, ...]:
        """What the kernel holds its workers to, and what it lacks; known once one has run something."""
        return next((zygote.walls for zygote in list(self._zygotes.values()) if zygote.walls is not None), ())

    @property
    def remade(self) -> str:
        """Why guests are made anew for each run instead of reset; "" if they are reset. Known once one has run
        something.
        """
        return next((zygote.remade for zygote in list(self._zygotes.values())), "")

    def _loop(self) -> BackgroundLoop:
        self._check_process()
        with self._lock:
            if self._closed:
                raise SandboxClosed("the sandbox is closed")
            if self._background is None:
                self._background = BackgroundLoop()
            return self._background

    async def _run(
        self,
        code: str | bytes,
        inputs: Mapping[str, Any] | None,
        files: Mapping[str, bytes] | None,
        narrower: Limits | Mapping[str, Any] | None,
        run_id: str | None,
        tools: Granted,
        session: Session | None,
        way: Way = RUN,
        depth: int = 0,
        tape: Tape | None = None,
    ) -> Run:
        self._check_process()
        started = time.perf_counter()
        limits = (session or self).limits.narrowed(narrower)
        noise = os.urandom(SEED_BYTES + 16)
        before = tape.start if tape is not None else None
        seed = noise[:SEED_BYTES] if before is None else before.seed
        run_id = run_id or noise[SEED_BYTES:].hex()
        queued = Queued()
        with self._lock:
            if run_id in self._flights:
                raise LimitError(f"a run {run_id!r} is under way already; run ids are unique")
            self._flights[run_id] = queued
        try:
            kind = self._kind(limits)
            if session is not None and session.kind not in (None, kind):
                raise LimitError("a session's runs are all with fuel or all without; start another session")
            pool = self._pools.get((made_for_runs(way.image, kind), depth))
            if pool is None or self._closed:
                pool = await asyncio.to_thread(self._pool_for, limits, depth, way.image)
            image = self._fitting_image(way.image, limits)
            again = session is not None and session.started
            if session is not None:
                session.kind = kind
            try:
                source = encode_source(code)
                key = source_digest(source, way.language)
                kept_as = way.kept_as(key)
                compiled = await self._compiled(source, kept_as, limits, way, before)
                encode = partial(
                    encode_request,
                    source,
                    compiled,
                    inputs,
                    files,
                    limits,
                    tools,
                    seed,
                    fresh=not again,
                    session=session is not None,
                    way=way,
                )
                request = await asyncio.to_thread(encode) if is_large(inputs, files) else encode()
            except BadRequest as bad:
                return Run(id=run_id, status=bad.status, error=bad.error, image=image.digest)
            job = Job(request, seed, limits, keep=way.examine == "code", session=session is not None, again=again)
            start = None
            if tape is not None:
                wall_ns = 0 if before is None else before.wall_ns
                start = Start(seed, wall_ns, compiled is not None, image.digest, key.hex())
            landing, broker = await self._fly(job, run_id, queued, tools, session, pool, tape, start)
            if landing.kept is not None:
                self._codes.put(kept_as, landing.kept, way.language)
            wall_ms = (time.perf_counter() - started) * 1e3
            answer = run_id, landing, broker, job, files or {}, image, wall_ms
            run = (
                await asyncio.to_thread(outcome.build, *answer) if outcome.is_large(landing) else outcome.build(*answer)
            )
            if session is not None:
                session.note(run.status)
            return run
        finally:
            with self._lock:
                self._flights.pop(run_id, None)

    async def _compiled(
        self, source: bytes, key: bytes, limits: Limits, way: Way, before: Start | None
    ) -> bytes | None:
        """The compiled code of a source that has come before, made now if it is not there; for a replay, if the
        recorded run had it.
        """
        # Fuel is counted from the source, always: a run of compiled code would cost less.
        if limits.fuel is not None or way.examine is not None or (before is not None and not before.compiled):
            return None
        if way.language == "javascript" and way.entry is None:
            return None
        code = self._codes.get(key)
        if code is None and (before is not None or self._codes.wanted(key)):
            compile_ = way.compiling
            await self._run(source, None, None, limits, None, Toolset(), None, compile_, COMPILING)
            code = self._codes.get(key)
        return code

    def _kind(self, limits: Limits) -> str:
        # Fuel runs have an artefact of their own: deterministic, and needed by few.
        return "fuel" if limits.fuel is not None else "plain"

    def _fitting_image(self, language: str, limits: Limits) -> Image:
        """The image of a language, which *limits* have room for."""
        image = self.image_of(language)
        if limits.memory_mb is not None and limits.memory_mb << 20 < image.memory_bytes:
            own = image.memory_bytes / (1 << 20)
            raise LimitError(f"memory_mb={limits.memory_mb}: this image itself takes {own:.0f} MB; give it more")
        return image

    async def _fly(
        self,
        job: Job,
        run_id: str,
        queued: Queued,
        tools: Granted,
        session: Session | None,
        pool: Pool,
        tape: Tape | None,
        start: Start | None,
    ) -> tuple[Landing, Broker | None]:
        loop = asyncio.get_running_loop()
        worker = session.take() if session is not None else None
        if worker is None and job.again:  # the session was closed meanwhile
            return Landing(End(reason="interrupted")), None
        if worker is None:
            found = pool.take()
            worker = await queued.wait_for(found, pool) if isinstance(found, asyncio.Future) else found
        if worker is None:
            return Landing(End(reason="interrupted")), None

        flight: Flight | None = None
        landing: Landing | None = None
        try:
            if tape is not None and start is not None:
                if tape.start is None:
                    start = Start(
                        seed=start.seed,
                        wall_ns=time.time_ns(),
                        compiled=start.compiled,
                        image=start.image,
                        source=start.source,
                    )
                    job.taped = Taped(start.wall_ns, None)
                elif (landing := _replay(tape, tape.start, start, job)) is not None:
                    return landing, None
            flight = Flight(worker, job, loop, tools, tape)
            if tape is not None and start is not None and tape.start is None:
                _begin(tape, start, flight)
            flight.free = pool.release if session is None else None
            with self._lock:
                self._flights[run_id] = flight
                too_late = self._closed or queued.interrupted
            if session is not None:
                too_late = session.flies(flight) or too_late
            if too_late:
                flight.stop("interrupted")
            landing = await flight.landed
            landing.problem = flight.broker.problem
            if flight.broker.pausing and landing.end.answer is not None:
                landing.end = End(reason="paused")  # it did not wait for the call that has to be approved
            if tape is not None:
                _end(tape, landing)
            return landing, flight.broker
        except BaseException:
            if flight is not None:
                flight.abandon()
            raise
        finally:
            if flight is not None:
                flight.broker.close()
            if flight is None or not flight.freed:
                if landing is None:
                    worker.stuck = True  # cancelled: what it does now is nobody's
                if session is not None:
                    session.give(worker, pool, landing)
                else:
                    pool.release(worker)


def _replay(tape: Tape, before: Start, start: Start, job: Job) -> Landing | None:
    """Have the job begin as the recorded run did; a landing if it can't."""
    try:
        tape.begin(start)
        if before.compiled != start.compiled:
            raise Diverged(
                "the recorded run was given its code compiled, or compiled it itself, and this one can't "
                "be begun like that"
            )
        if len(start.seed) != SEED_BYTES or not 0 < start.wall_ns < 1 << 62 or len(tape.heard) > MAX_TAPE:
            raise Diverged("the record does not say how the run began, or is too large")
    except Diverged as error:
        return Landing(End(reason="diverged"), problem=str(error))
    except OSError as error:
        return Landing(End(reason="journal"), problem=error.strerror or type(error).__name__)
    job.taped = Taped(start.wall_ns, tape.heard)
    return None


def _begin(tape: Tape, start: Start, flight: Flight) -> None:
    """Have the tape know how a run begins for the first time, which is under way: what it says is heard later."""
    try:
        tape.begin(start)
    except (Diverged, OSError) as error:
        flight.broker.stop_for(error)


def _end(tape: Tape, landing: Landing) -> None:
    """A run that has ended, or stands where the recorded one went on: did the recorded one make more calls?"""
    if landing.end.answer is not None or (landing.end.reason == "diverged" and landing.problem is None):
        try:
            tape.ended()
        except Diverged as error:
            landing.end, landing.problem = End(reason="diverged"), str(error)
        except OSError as error:
            landing.end, landing.problem = End(reason="journal"), error.strerror or type(error).__name__

"""A guest that keeps its state between runs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from go_ent.sandbox.errors import SandboxClosed
from go_ent.sandbox.host.flight import Flight, Landing
from go_ent.sandbox.host.limits import Limits
from go_ent.sandbox.host.pool import Pool
from go_ent.sandbox.host.process import WorkerProcess
from go_ent.sandbox.host.request import Way
from go_ent.sandbox.host.run import Run, Status
from go_ent.sandbox.host.tools import Granted
from go_ent.sandbox.worker.languages import Language

if TYPE_CHECKING:
    from go_ent.sandbox.host.box import Sandbox

GOES_ON: frozenset[Status] = frozenset(("completed", "error", "refused"))


class Session:
    """A guest that keeps its names and files between runs, in a worker of its own. Made by `Sandbox.session`.

    The memory limit is for the whole session, the others for each run. A run that hits a limit, is interrupted or
    crashes ends the session, and its state is lost; an exception in the code does not. A run after that raises
    `SandboxClosed`.

    Ownership: use it as a context manager, or call `close`, which frees the worker. Threads: runs of one session run
    one after another; use it from one event loop, or with `run_sync` from any thread.
    """

    def __init__(self, box: Sandbox, limits: Limits, language: Language = "python") -> None:
        self.box = box
        self.limits = limits
        self.language = language
        self.started = False
        self.kind: str | None = None
        self._worker: WorkerProcess | None = None
        self._pool: Pool | None = None
        self._flight: Flight | None = None
        self._over: str | None = None
        self._turn = asyncio.Lock()
        self._lock = threading.Lock()

    async def __aenter__(self) -> Session:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def run(
        self,
        code: str | bytes,
        inputs: Mapping[str, Any] | None = None,
        *,
        files: Mapping[str, bytes] | None = None,
        limits: Limits | Mapping[str, Any] | None = None,
        run_id: str | None = None,
        tools: Granted | None = None,
        cut_result: bool = False,
    ) -> Run:
        """Run *code* with the names and files that earlier runs left. `SandboxClosed` once the session is over."""
        async with self._turn:
            if self._over is not None:
                raise SandboxClosed(self._over)
            granted = self.box.tools if tools is None else tools
            way = Way(cut=cut_result, language=self.language)
            return await self.box._run(code, inputs, files, limits, run_id, granted, self, way)

    def run_sync(self, code: str | bytes, inputs: Mapping[str, Any] | None = None, **options: Any) -> Run:
        """`run`, for code that does not await. Blocks."""
        return self.box._loop().call(self.run(code, inputs, **options))

    def close(self) -> None:
        """Discard the guest; a run in progress is interrupted. Idempotent; does nothing in a forked child."""
        if not self.box.is_ours:
            return
        with self._lock:
            self._over = self._over or "the session is closed"
            flight = self._flight
        if flight is not None:
            flight.stop("interrupted")
        self._let_go()

    # -- for the sandbox: while a run is under way, the worker is the run's

    def take(self) -> WorkerProcess | None:
        with self._lock:
            worker, self._worker = self._worker, None
            return worker

    def flies(self, flight: Flight) -> bool:
        """A run has begun; True when the session was closed meanwhile."""
        with self._lock:
            self._flight = flight
            return self._over is not None

    def give(self, worker: WorkerProcess, pool: Pool, landing: Landing | None) -> None:
        """The run has ended: keep its guest, or let it go if the guest did not answer."""
        answered = landing is not None and landing.end.answer is not None
        with self._lock:
            self._flight, self._pool, self._worker = None, pool, worker
            self.started = True
            if not answered and self._over is None:
                self._over = "the session is over: its run was cancelled; start a new one"
            over = self._over is not None
        if over:
            self._let_go()

    def note(self, status: Status) -> None:
        """A run's status: all but a few end the session."""
        if status not in GOES_ON:
            self._over = f"the session is over: its last run ended with {status}; start a new one"
            self._let_go()

    def _let_go(self) -> None:
        worker = self.take()
        if worker is not None and self._pool is not None:
            worker.stuck = True  # its guest holds this session's state: never to be used again
            self._pool.release(worker)

"""Sending work to a fleet's workers, and waiting for what comes of it."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

import psycopg
from pydantic_core import from_json, to_json

from go_ent.composer.project.trust import has_shared_key, is_sealed, seal
from go_ent.engine.core.errors import BadTask, ExecutionConflict
from go_ent.engine.executions.resume_checks import own_version
from go_ent.engine.fleet.database import Database, Listener
from go_ent.engine.fleet.dbos_adapter import (
    ENDED,
    LINES,
    STEP,
    Order,
    Outcome,
    Queues,
    ended_channel,
    has_work,
    have_ended,
    left_by_others,
    old,
    work_channel,
)
from go_ent.waiting import ended, first_of

log = logging.getLogger("go_ent.engine.fleet")
# Kinds of work. Plans have a queue apart from what they wait for: steps, chunks of lines, and runs of guests.
EXECUTION, GUEST = "execution", "guest"
QUEUES_S = 30.0  # between two looks at which there are, where nothing rings
MOST_QUEUES, MOST_NAMES = 500, 50
LISTEN_AGAIN_S = 0.5
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")
QUICK_S, SLOW_S = 0.02, 0.25  # between two looks at what is waited for: at steps, and at what is told


def queue_name(kind: str, label: str | None) -> str:
    """The queue of a kind of work, for workers with a label or for any."""
    kind = STEP if kind in (LINES, GUEST) else kind
    return kind if label is None else f"{kind}:{label}"


def sealed(order: Mapping[str, Any]) -> Order:
    """An order that a worker believes: its text, and the seal of that."""
    text = to_json(order).decode()
    return {"text": text, "seal": seal(text)}


def unsealed(order: Mapping[str, Any]) -> str:
    """The text of an order; refuses one that nobody with the fleet's key has given."""
    text = order.get("text")
    if not isinstance(text, str) or not is_sealed(text, str(order.get("seal", ""))):
        raise ExecutionConflict("this order is not sealed with the fleet's key: somebody else has written it")
    return text


class NeedingQueues:
    """Queues of work that needs environment variables: a worker takes from those whose names it all has.

    Of one process. Thread-safe; the methods block.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: set[str] = set()
        self._lock = threading.Lock()
        self._looked, self._found = float("-inf"), list[tuple[str, str, str | None, tuple[str, ...]]]()

    def queue_for(self, kind: str, label: str | None, names: Sequence[str]) -> str:
        """The queue of a kind of work with that label that needs those names; workers know it from now on."""
        needed = sorted({name for name in names if VARIABLE.fullmatch(name)})[:MOST_NAMES]
        queue = f"{kind}:{label or ''}:{'+'.join(needed)}"[:900]
        if queue not in self._known:
            add = "insert into $.needs values (%s, %s, %s, %s) on conflict do nothing"
            self._database.tell(add, (queue, kind, label, list(needed)))
            self._known.add(queue)
        return queue

    def listed(self) -> list[tuple[str, str, str | None, tuple[str, ...]]]:
        """Queue, kind, label and names of those there are."""
        rows = self._database.ask(
            "select queue, kind, label, names from $.needs order by queue limit %s", (MOST_QUEUES,)
        )
        return [(queue, kind, label, tuple(names)) for queue, kind, label, names in rows]

    def look_again(self) -> None:
        """There may be new ones."""
        self._looked = float("-inf")

    @property
    def known(self) -> list[str]:
        """Those that were there at the last look."""
        return [queue for queue, *_ in self._found]

    def for_worker(self, kind: str, labels: Sequence[str | None]) -> list[str]:
        """Those of a kind that a worker with such labels, and this process's environment, can take from."""
        with self._lock:
            if time.monotonic() - self._looked > QUEUES_S:
                self._found, self._looked = self.listed(), time.monotonic()
        return [
            queue
            for queue, of, label, names in self._found
            if of == kind and label in labels and all(os.environ.get(name) for name in names)
        ]


class WorkQueue:
    """Of one process. *put* blocks; `outcome` belongs to one event loop."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.needing = NeedingQueues(database)
        self._queues: Queues | None = None
        self._opening = threading.Lock()
        self._waits: dict[str, tuple[str, asyncio.Future[Outcome]]] = {}  # by workflow: its kind
        self._looking: asyncio.Task[None] | None = None
        self._listening: asyncio.Task[None] | None = None
        self._rung = asyncio.Event()

    @property
    def queues(self) -> Queues:
        with self._opening:
            if self._queues is None:
                self._queues = Queues(self._database.address)
            return self._queues

    def put(
        self, kind: str, workflow: str, order: Mapping[str, Any], label: str | None = None, needs: Sequence[str] = ()
    ) -> None:
        """Have a worker do it: one with that label, if there is one, and with those environment variables."""
        if not has_shared_key():
            raise BadTask("a fleet's workers believe only who has its key: set key_env in [fleet]")
        queue = queue_name(kind, label)
        if needs:
            queue = self.needing.queue_for(queue_name(kind, None), label, needs)
        self.queues.put(queue, kind, workflow, sealed(order), own_version())

    def with_work(self, queues: Sequence[str]) -> set[str]:
        """Those of some queues that have work, and others that do and are new to this process: one look. Blocks."""
        listed, new = (has_work(self._database.address, queue) for queue in ("q", "n.queue"))
        query = (
            f"select q from unnest(%(queues)s::text[]) q where {listed} "  # noqa: S608
            f"union all select n.queue from $.needs n where n.queue <> all(%(known)s) and {new}"
        )
        given = {"queues": list(queues), "known": self.needing.known, "version": own_version()}
        return {queue for (queue,) in self._database.ask(query, given)}

    def left(self) -> list[str]:
        """Who has work, and is no member of the fleet: one that was buried, and did not know it yet. Blocks."""
        query = left_by_others(self._database.address, "select name from $.members")
        return [name for (name,) in self._database.ask(query)]

    def forget(self, older_than_s: float) -> int:
        """Remove the workflows that have ended and were begun so long ago, a thousand at most: how many. What they did
        is on record; while a part of an execution has a record of its own, it is not in the execution's yet. Blocks.
        """
        query = old(self._database.address, "select id from $.slots where id like '%%/%%'")
        found = [one for (one,) in self._database.ask(query, (list(ENDED), older_than_s))]
        self.queues.remove(found)
        return len(found)

    def _ended(self, kinds: dict[str, str]) -> dict[str, Outcome]:
        """Those of some workflows that have ended, and how."""
        rows = self._database.ask(have_ended(self._database.address), (list(kinds), list(ENDED)))
        short = {
            one: Outcome(status, _read(output), None)
            for one, status, output in rows
            if status == "SUCCESS" and kinds[one] == LINES
        }
        rest = [one for one, *_ in rows if one not in short]
        return {**short, **(self.queues.ended(rest) if rest else {})}

    async def outcome(self, kind: str, workflow: str) -> Outcome:
        """How a workflow of that kind ends. One look serves all that are waited for."""
        loop = asyncio.get_running_loop()
        _, wait = self._waits.setdefault(workflow, (kind, loop.create_future()))
        if kind != STEP and self._listening is None:
            self._listening = loop.create_task(self._listen())
        if self._looking is None or self._looking.done():
            self._looking = loop.create_task(self._look())
        self._rung.set()  # it may have ended before
        return await asyncio.shield(wait)

    async def _look(self) -> None:
        pause = QUICK_S
        while self._waits:
            self._rung.clear()
            waits, found = [(one, kind) for one, (kind, _) in self._waits.items()], dict[str, Outcome]()
            try:
                for start in range(0, len(waits), 500):
                    found |= await asyncio.to_thread(self._ended, dict(waits[start : start + 500]))
            except Exception as error:  # the server is away: it is waited for
                log.warning("what runs elsewhere can't be looked at: %s", str(error).splitlines()[0][:200])
                pause = SLOW_S
            for workflow, outcome in found.items():
                self._waits.pop(workflow)[1].set_result(outcome)
            pause = QUICK_S if found else min(SLOW_S, 1.3 * pause)
            steps = any(kind == STEP for kind, _ in self._waits.values())
            await first_of(self._rung, timeout_s=pause if steps else SLOW_S)

    async def _listen(self) -> None:
        """Look at once when something has ended that is waited for, and that is told."""
        url, name = self._database.address.session_url, ended_channel(self._database.address)
        while True:
            try:
                session = await psycopg.AsyncConnection.connect(url, autocommit=True, prepare_threshold=None)
                async with session:
                    await session.execute(f"listen {name}".encode())
                    self._rung.set()
                    async for told in session.notifies():
                        if told.payload in self._waits:
                            self._rung.set()
            except psycopg.Error:
                await asyncio.sleep(LISTEN_AGAIN_S)

    async def close(self) -> None:
        for task in (self._looking, self._listening):
            if task is not None:
                await ended(task)
        if self._queues is not None:
            await asyncio.to_thread(self._queues.close)


def _read(output: object) -> Order | None:
    """What a workflow has told, if it is an object of JSON."""
    try:
        read = from_json(output) if isinstance(output, str) else None
    except ValueError:
        return None
    return read if isinstance(read, dict) else None


class Bell:
    """Rings when there may be work. Behind a pooler that can't let anybody listen, it is looked every second."""

    def __init__(self, database: Database) -> None:
        self._rung = threading.Event()
        self._listener = Listener(database, work_channel(database.address), self._rung.set)

    def ring(self) -> None:
        self._rung.set()

    def wait(self, seconds: float) -> bool:
        """Until it rings, or so long; whether it has."""
        rung = self._rung.wait(seconds)
        self._rung.clear()
        return rung

    def close(self) -> None:
        self._rung.set()
        self._listener.close()

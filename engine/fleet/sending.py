"""Executions that a fleet's workers run for this process: sent, followed, waited for; and who is there to run them."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from go_ent.engine.core.concurrency import to_the_end
from go_ent.engine.core.errors import ExecutionConflict
from go_ent.engine.core.models import Event
from go_ent.engine.executions.lifecycle import Lifecycle
from go_ent.engine.executions.owned import OwnedExecution
from go_ent.engine.executions.state import ExecutionState
from go_ent.engine.executions.storage import Record
from go_ent.engine.fleet.dbos_adapter import LINES, Queues, tells
from go_ent.engine.fleet.execution_storage import PostgresStorage
from go_ent.engine.fleet.images import FleetImages
from go_ent.engine.fleet.queue import EXECUTION, GUEST, NeedingQueues, WorkQueue
from go_ent.engine.fleet.remote_lines import RemoteLines, Where, copy_chunk
from go_ent.waiting import ended

FOLLOW_S = 0.25
OnEvent = Callable[[Event], None] | None
WORKERS = """
select m.id, m.name, m.host, m.info, extract(epoch from now() - m.since)::float8 from $.members m
where m.kind = 'worker' order by m.id
"""
CONNECTIONS = """
select count(*), (select setting::int from pg_settings where name = 'max_connections') from pg_stat_activity
where datname = current_database() and application_name = 'go-ent'
"""


class Sender:
    """Of one engine. Belongs to one event loop."""

    def __init__(self, storage: PostgresStorage) -> None:
        self._storage, self.queue = storage, WorkQueue(storage.database)
        self._sent: dict[str, tuple[str, OnEvent]] = {}  # by execution: its workflow, and who is told

    async def slots(self, label: str | None = None) -> int:
        return await asyncio.to_thread(self._storage.members.slots, label)

    async def send(
        self,
        lifecycle: Lifecycle,
        state: ExecutionState,
        label: str | None,
        on_event: OnEvent,
        *,
        needs: Sequence[str] | None = None,
    ) -> str:
        """Have a worker run a new execution, which is on record when this returns: its id."""
        held = await lifecycle.begin(state, synced=True)
        await asyncio.to_thread(held.release)
        workflow = await self._put(state.id, label, {}, EXECUTION if needs is None else GUEST, needs or ())
        self._sent[state.id] = workflow, on_event
        if on_event is not None:
            on_event(Event(kind="status", execution_id=state.id, at=time.time(), text="sent to the fleet"))
        return state.id

    async def send_again(
        self,
        execution_id: str,
        label: str | None,
        options: dict[str, Any],
        on_event: OnEvent = None,
        *,
        guest: bool = False,
    ) -> None:
        """Have a worker resume an execution that rests."""
        workflow = await self._put(execution_id, label, options, GUEST if guest else EXECUTION)
        self._sent[execution_id] = workflow, on_event

    async def _put(
        self, execution_id: str, label: str | None, options: dict[str, Any], kind: str, needs: Sequence[str] = ()
    ) -> str:
        """Have it wait for a worker: the workflow's id, which is another one each time."""
        order = {"kind": kind, "id": execution_id, "label": label, "options": options}
        number = await asyncio.to_thread(self._storage.queue, execution_id)
        if number is None:
            raise ExecutionConflict(f"execution {execution_id} is being run, or waits for a worker")
        workflow = f"{execution_id}@{number}"
        try:
            await asyncio.to_thread(self.queue.put, kind, workflow, order, label, needs)
        except BaseException:
            await asyncio.to_thread(self._storage.unqueue, execution_id)
            raise
        return workflow

    async def overview(self) -> dict[str, Any]:
        """Who is in the fleet, and what waits for whom."""
        return await asyncio.to_thread(lambda: overview(self._storage, self.queue.queues))

    def has_sent(self, execution_id: str) -> bool:
        """Whether this process waits for it."""
        return execution_id in self._sent

    async def over(self, execution_id: str) -> Mapping[str, Any]:
        """Until an execution that was sent from here has ended, or rests: what its worker tells of it; who began it is
        told of its steps.

        `ExecutionConflict` if it could not be run.
        """
        workflow, on_event = self._sent[execution_id]
        following = asyncio.ensure_future(self._follow(execution_id, on_event)) if on_event is not None else None
        try:
            outcome = await self.queue.outcome(EXECUTION, workflow)
        finally:
            if following is not None:
                await ended(following)
        self._sent.pop(execution_id, None)
        problem = (outcome.output or {}).get("error") or outcome.error
        if outcome.status == "MAX_RECOVERY_ATTEMPTS_EXCEEDED":
            problem = "its workers died again and again: it is set aside"
        if problem:
            raise ExecutionConflict(f"execution {execution_id} can't go on: {str(problem)[:1000]}")
        return outcome.output or {}

    async def lines(
        self, held: OwnedExecution, needs: Sequence[str] = (), *, label: str | None = None
    ) -> RemoteLines | None:
        slots = await self.slots(label)
        if not slots and label is None:
            return None
        await to_the_end(held.place)
        return RemoteLines(self._storage, self.queue, held, Where(label, tuple(needs), max(1, slots)))

    async def gather(self, held: OwnedExecution) -> None:
        """Chunks of lines may have been sent by a process that is gone: they are waited for."""
        for slot in await asyncio.to_thread(self._storage.chunks, held.id):
            outcome = await self.queue.outcome(LINES, slot)
            await asyncio.to_thread(copy_chunk, self._storage, held, slot, outcome)

    async def _follow(self, execution_id: str, on_event: OnEvent) -> None:
        offset = 0
        while on_event is not None:
            records, offset = await asyncio.to_thread(self._storage.read_from, execution_id, offset)
            for record in records:
                if (event := _event(execution_id, record)) is not None:
                    on_event(event)
            await asyncio.sleep(FOLLOW_S)

    async def close(self) -> None:
        await self.queue.close()


def _event(execution_id: str, record: Record) -> Event | None:
    """What a record tells people who watch."""
    try:
        step, at = str(record.get("step", "")), float(record["at"])
        told: dict[str, Any] = {"execution_id": execution_id, "task_id": step, "at": at}
        if record["kind"] == "sent":
            return Event(kind="step", data={"status": "running"}, **told)
        if record["kind"] == "step_finished":
            result = record["result"]
            return Event(kind="step", text=str(result.get("error") or ""), data={"status": result["status"]}, **told)
    except (KeyError, TypeError, ValueError, AttributeError):
        return None
    return None


def overview(storage: PostgresStorage, queues: Queues) -> dict[str, Any]:
    """A fleet's workers with their labels and slots, what waits in its queues and why, its images and connections."""
    seen = {one.id: one for one in storage.members.look()}
    waiting = queues.waiting()
    running = Counter(executor for _, status, _, executor in waiting if status == "PENDING")
    workers = []
    for number, name, host, info, since in storage.database.ask(WORKERS):
        one = seen.get(number)
        state = "dead" if one is None or not one.alive else "draining" if one.draining else "alive"
        about = info if isinstance(info, dict) else {}
        workers.append(
            {
                "name": str(name),
                "host": str(host),
                "state": state,
                "labels": [str(label) for label in about.get("labels", ())],
                "slots": about.get("slots"),
                "running": running[name],
                "version": str(about.get("version", "")),
                "names": [str(name) for name in about.get("names", ())],
                "since_s": round(since),
            }
        )
    needs = {queue: (label, names) for queue, _, label, names in NeedingQueues(storage.database).listed()}
    rows = Counter((queue, version) for queue, status, version, _ in waiting if status == "ENQUEUED")
    ((used, most),) = storage.database.ask(CONNECTIONS)
    ((up_to_date,),) = storage.database.ask(tells(storage.database.address))
    return {
        "workers": workers,
        "queues": [
            {
                "queue": queue,
                "waiting": count,
                "version": version,
                "why": why_waiting((queue, version), workers, needs),
            }
            for (queue, version), count in sorted(rows.items())
        ],
        "images": [
            {"digest": digest, "language": language, "bytes": size}
            for digest, language, size in FleetImages(storage.database).listed()
        ],
        "connections": {"used": used, "most": most},
        "up_to_date": up_to_date,
    }


def why_waiting(
    what: tuple[str, str], workers: list[dict[str, Any]], needs: dict[str, tuple[str | None, tuple[str, ...]]]
) -> str:
    """Why something waits in a queue, for a version, as far as that can be seen."""
    queue, version = what
    label, names = needs.get(queue) or (queue.partition(":")[2], ())
    alive = [one for one in workers if one["state"] == "alive"]
    fit = [one for one in alive if not label or label in (*one["labels"], one["host"])]
    if not fit:
        return f"no worker has the label {label}" if label else "no worker is there"
    fit = [one for one in fit if set(names) <= set(one["names"])]
    if not fit:
        return f"no worker has the environment variables {', '.join(names)}"
    if not any(one["version"] == version for one in fit):
        return f"no worker has go-ent {version}"
    return "all workers are busy"

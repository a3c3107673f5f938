"""What we use of DBOS: its queues, its record of which workflow runs where, and recovery. Some of that it does not
promise to keep: the version is pinned, and `tests/engine/fleet/test_dbos_adapter.py` notices when it is gone.

Nothing is unpickled: DBOS would do so for any row that says it is a pickle, whatever serialiser it was given.
"""

from __future__ import annotations

import copy
import logging
import os
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import sqlalchemy
from psycopg.conninfo import conninfo_to_dict

from go_ent.dataclass import dataclass
from go_ent.engine.fleet.database import Address

APPLICATION = "go-ent"
STEP, LINES = "step", "lines"  # the kinds of workflow that there are most of
TRIES = 5  # of a workflow whose workers die
ENDED = ("SUCCESS", "ERROR", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED")
POOL = 4
MOST_TOLD = 1 << 20  # bytes of what a chunk of lines tells: more is not read, and more is never told
log = logging.getLogger("go_ent.engine.fleet")
Order = dict[str, Any]
Body = Callable[[str, Order], Order]  # a workflow: its id and what it is to do; blocks


@contextmanager
def _without_variables() -> Iterator[None]:
    """What DBOS would take from the environment (a cloud to call, other names) is not for it."""
    kept = {name: os.environ.pop(name) for name in list(os.environ) if name.startswith("DBOS")}
    try:
        yield
    finally:
        os.environ.update(kept)


with _without_variables():
    import dbos._serialization as serialization
    import dbos._sys_db as system_database
    from dbos import DBOS, DBOSClient, DBOSConfig, DBOSPortableJSONSerializer, WorkflowSerializationFormat
    from dbos._core import execute_dequeued_workflow
    from dbos._error import MaxRecoveryAttemptsExceededError
    from dbos._utils import INTERNAL_QUEUE_NAME, GlobalParams


def _refuse(*_: object) -> object:
    raise ValueError("a pickle is not read: somebody else has written to the fleet's database")


serialization.DefaultSerializer.serialize = _refuse  # type: ignore[method-assign,assignment]
serialization.DefaultSerializer.deserialize = _refuse  # type: ignore[method-assign,assignment]
_waits_for: Callable[[Exception], bool] = vars(system_database)["retriable_postgres_exception"]


def _is_away(error: Exception) -> bool:
    """Whether DBOS is to wait for the server: also when psycopg can't tell why it has no connection, which it says in
    several ways. What a server refuses has a state.
    """
    said = error.orig if isinstance(error, sqlalchemy.exc.DBAPIError) else None
    return _waits_for(error) or (isinstance(said, psycopg.OperationalError) and said.sqlstate is None)


vars(system_database)["retriable_postgres_exception"] = _is_away
for _name in ("dbos", "dbos.dbos"):
    logging.getLogger(_name).setLevel(logging.ERROR)


def schema_of(address: Address) -> str:
    """Where DBOS keeps its tables."""
    return f"{address.namespace}_dbos"


def url_of(address: Address) -> str:
    """The address as SQLAlchemy writes one."""
    from sqlalchemy import URL

    parts = {name: str(value) for name, value in conninfo_to_dict(address.session_url).items() if value is not None}
    user, password, database = (parts.pop(name, None) for name in ("user", "password", "dbname"))
    url = URL.create("postgresql", username=user, password=password, database=database, query=parts)
    return url.render_as_string(hide_password=False)


# Workers are told of work by the very transaction that puts it into a queue, and who waits for work by the one that
# ends it. Steps are too many for that: commits that notify wait for each other.
TRIGGERS = """
create or replace function {schema}.go_ent_work() returns trigger language plpgsql as
  $$ begin perform pg_notify('{work}', ''); return null; end $$;
create or replace trigger go_ent_work after insert or update of status on {schema}.workflow_status
  for each row when (new.status = 'ENQUEUED') execute function {schema}.go_ent_work();
create or replace function {schema}.go_ent_ended() returns trigger language plpgsql as
  $$ begin perform pg_notify('{ended}', new.workflow_uuid); return null; end $$;
create or replace trigger go_ent_ended after update of status on {schema}.workflow_status
  for each row when (new.name <> '{step}' and new.status = any('{{{statuses}}}'))
  execute function {schema}.go_ent_ended();
"""


def work_channel(address: Address) -> str:
    """What is notified when there is work."""
    return f"{address.namespace}_work"


def ended_channel(address: Address) -> str:
    """What is notified when a workflow has ended that is no step: its id."""
    return f"{address.namespace}_ended"


def migrate(address: Address) -> None:
    """Make DBOS's tables, or bring them up to date."""
    DBOS.migrate(url_of(address), schema=schema_of(address))
    with psycopg.connect(address.session_url, autocommit=True) as connection:
        names = {"schema": schema_of(address), "work": work_channel(address), "ended": ended_channel(address)}
        connection.execute(TRIGGERS.format(step=STEP, statuses=",".join(ENDED), **names).encode())


# What would take DBOS many queries, or dear ones: which queues have work of a version, which
# workflows have ended, and who has some and is none of us.
HAS_WORK = """exists (select from {schema}.workflow_status w where w.queue_name = {queue} and w.status = 'ENQUEUED'
  and (w.application_version = %(version)s or w.application_version is null))"""
HAVE_ENDED = (
    "select w.workflow_uuid, w.status, o.output from {schema}.workflow_status w left join {schema}.workflow_output o "
    "on o.workflow_uuid = w.workflow_uuid and w.name = '{lines}' and octet_length(o.output) <= {most} "
    "where w.workflow_uuid = any(%s) and w.status = any(%s)"
)
LEFT = """select distinct executor_id from {schema}.workflow_status
  where status = 'PENDING' and executor_id not in ({them})"""

OLD = """select w.workflow_uuid from {schema}.workflow_status w where w.status = any(%s)
  and w.created_at < 1000 * (extract(epoch from now()) - %s) and w.workflow_uuid not in ({kept}) limit 1000"""


def old(address: Address, kept: str) -> str:
    """The query for which workflows have one of some statuses, were begun so many seconds ago, and are not among those
    that the query *kept* names; a thousand at most.
    """
    return OLD.format(schema=schema_of(address), kept=kept)


TELLS = """select count(*) = 2 from pg_trigger
  where tgrelid = to_regclass('{schema}.workflow_status') and tgname in ('go_ent_work', 'go_ent_ended')"""


def tells(address: Address) -> str:
    """The query for whether the queues tell of work and of ends: those of an older go-ent don't."""
    return TELLS.format(schema=schema_of(address))


def left_by_others(address: Address, them: str) -> str:
    """The query for who has work and is not one of *them*, which that query names."""
    return LEFT.format(schema=schema_of(address), them=them)


def has_work(address: Address, queue: str) -> str:
    """The condition that a queue, which that expression names, has work of `%(version)s`."""
    return HAS_WORK.format(schema=schema_of(address), queue=queue)


def have_ended(address: Address) -> str:
    """The query for which of some workflows have one of some statuses, which, and what chunks of lines told as JSON."""
    return HAVE_ENDED.format(schema=schema_of(address), lines=LINES, most=MOST_TOLD)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a workflow ended."""

    status: str
    output: Order | None
    error: str | None


class Queues:
    """Puts work into queues, and says what became of it. Thread-safe; the methods block."""

    def __init__(self, address: Address) -> None:
        self._client = DBOSClient(
            system_database_url=url_of(address),
            dbos_system_schema=schema_of(address),
            serializer=DBOSPortableJSONSerializer(),
            application_name=APPLICATION,
            system_database_pool_size=2,
            lazy=True,
        )

    def put(self, queue: str, kind: str, workflow: str, order: Order, version: str) -> None:
        """Have a workflow run by a worker of that version. One that was put before, by that id, stays as it is."""
        self._client.enqueue(
            {
                "queue_name": queue,
                "workflow_name": kind,
                "workflow_id": workflow,
                "app_version": version,
                "serialization_type": WorkflowSerializationFormat.PORTABLE,
            },
            order,
        )

    def ended(self, workflows: list[str]) -> dict[str, Outcome]:
        """Those of them that have ended, and how: of at most 500."""
        found = self._client.list_workflows(workflow_ids=workflows[:500], status=list(ENDED), load_input=False)
        return {
            one.workflow_id: Outcome(
                one.status, one.output if isinstance(one.output, dict) else None, str(one.error) if one.error else None
            )
            for one in found
        }

    def cancel(self, workflow: str) -> bool:
        """What has not begun does not begin any more; False if it has begun."""
        found = self._client.list_workflows(workflow_ids=[workflow], status=["PENDING"], load_input=False)
        if not found:
            self._client.cancel_workflow(workflow)
        return not found

    def remove(self, workflows: list[str]) -> None:
        """Forget that they ever were."""
        if workflows:
            self._client.delete_workflows(workflows)

    def waiting(self) -> list[tuple[str, str, str, str]]:
        """What waits or runs: queue, status, version and the executor, of at most 10,000."""
        found = self._client.list_workflows(
            status=["ENQUEUED", "PENDING"], load_input=False, load_output=False, limit=10_000
        )
        return [(one.queue_name or "", one.status, one.app_version or "", one.executor_id or "") for one in found]

    def close(self) -> None:
        self._client.destroy()


class Workflows:
    """DBOS in a worker process: takes work from queues and runs it in threads. One of a process."""

    def __init__(self, address: Address, *, executor: str, version: str, kinds: dict[str, Body]) -> None:
        for kind, body in kinds.items():
            DBOS.workflow(
                name=kind, max_recovery_attempts=TRIES, serialization_type=WorkflowSerializationFormat.PORTABLE
            )(_named(kind, body))
        with _without_variables():
            config: DBOSConfig = {
                "name": APPLICATION,
                "system_database_url": url_of(address),
                "dbos_system_schema": schema_of(address),
                "executor_id": executor,
                "application_version": version,
                "sys_db_pool_size": POOL,
                "db_engine_kwargs": {"pool_pre_ping": False},  # it would double what an idle worker asks
                "serializer": DBOSPortableJSONSerializer(),
                "run_migrations": False,
                "log_level": "ERROR",
            }
            self._dbos = DBOS(config=config)
            table = f"{schema_of(address)}.workflow_status"
            self._taken = (
                f"select workflow_uuid, owner_xid from {table} where status = 'PENDING' and owner_xid = any(:owners)"  # noqa: S608
            )
            self._unsure: list[str] = []  # what we may have taken by, and were not told of
            DBOS.listen_queues([])  # `take` does: at once when there is something, and seldom when there is not
            DBOS.launch()
            for unused in self._dbos.background_thread_stop_events:  # its own queues and schedules: 4 queries a second
                unused.set()

    def take(self, name: str, most: int, set_aside: Callable[[str], None]) -> int:
        """Begin what waits in a queue, so much at the most; how much that was. What was tried too often is set aside,
        and told.
        """
        system = self._dbos._sys_db
        if self._unsure:
            with system.engine.begin() as connection:
                found = connection.execute(sqlalchemy.text(self._taken), {"owners": self._unsure}).fetchall()
            for workflow, owner in found:
                self._begin([workflow], owner, set_aside)
            self._unsure.clear()
        queue = copy.copy(self._dbos._registry.get_internal_queue())
        queue.name, queue._worker_concurrency = name, most
        owner = str(uuid.uuid4())
        self._unsure.append(owner)  # the server may go away once it has given us something, and before it said so
        taken, _ = system.start_queued_workflows(
            queue, GlobalParams.executor_id, GlobalParams.app_version, None, 0, owner_xid=owner
        )
        self._unsure.remove(owner)
        self._begin(taken, owner, set_aside)
        return len(taken)

    def _begin(self, taken: list[str], owner: str, set_aside: Callable[[str], None]) -> None:
        system = self._dbos._sys_db
        statuses = {one["workflow_uuid"]: one for one in system.get_workflow_statuses(taken)} if taken else {}
        for workflow in taken:
            try:
                execute_dequeued_workflow(self._dbos, statuses[workflow], owner)
            except MaxRecoveryAttemptsExceededError:
                set_aside(workflow)
            except Exception as error:  # of one: an order that can't be read is an error of its own
                log.warning("%s can't be begun: %s: %s", workflow, type(error).__name__, str(error)[:200])

    def recover(self, executors: Iterable[str]) -> int:
        """Put back into their queues what executors had that have died, whatever their version: only workers of that
        version take it again.
        """
        names, system = list(executors), self._dbos._sys_db
        found = system.list_workflows(status=["PENDING"], executor_id=names, load_input=False, load_output=False)
        return sum(system.reenqueue_for_recovery(one.workflow_id, names, INTERNAL_QUEUE_NAME) for one in found)

    def close(self) -> None:
        DBOS.destroy(destroy_registry=True)


def _named(kind: str, body: Body) -> Callable[[Order], Order]:
    def workflow(order: Order) -> Order:
        return body(str(DBOS.workflow_id), order)

    workflow.__qualname__ = workflow.__name__ = kind
    return workflow

"""What we use of DBOS is there, and reads no pickles."""

from __future__ import annotations

import base64
import inspect
import os
import pickle
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("dbos", reason="the fleet's tests need its packages: make test-fleet installs them")

import psycopg
from dbos import _serialization as serialization
from dbos import _sys_db as system_database
from dbos._core import execute_dequeued_workflow
from dbos._sys_db import SystemDatabase
from sqlalchemy import make_url
from sqlalchemy.exc import OperationalError

from go_ent.engine.fleet.database import Address, Database
from go_ent.engine.fleet.dbos_adapter import (
    ENDED,
    MOST_TOLD,
    Order,
    Queues,
    Workflows,
    ended_channel,
    has_work,
    have_ended,
    left_by_others,
    migrate,
    old,
    schema_of,
    url_of,
)
from tests.support.postgres import Postgres


@pytest.fixture(scope="module")
def address(postgres: Postgres) -> Iterator[Address]:
    made = Address(postgres.url, postgres.url, "adapter")
    migrate(made)
    yield made
    database = Database(made)
    database.tell(f"drop schema {schema_of(made)} cascade")
    database.close()


def test_who_waits_is_told_of_an_end_unless_it_is_a_steps(address: Address) -> None:
    table = f"{schema_of(address)}.workflow_status"
    with psycopg.connect(address.url, autocommit=True) as session:
        session.execute(f"listen {ended_channel(address)}".encode())
        for kind in ("lines", "step", "execution"):
            add = f"insert into {table} (workflow_uuid, name, status) values (%s, %s, 'ENQUEUED')"
            session.execute(add.encode(), (f"told-{kind}", kind))
            for status in ("PENDING", "SUCCESS"):
                change = f"update {table} set status = %s where workflow_uuid = %s"
                session.execute(change.encode(), (status, f"told-{kind}"))
        assert [told.payload for told in session.notifies(timeout=0)] == ["told-lines", "told-execution"]
        session.execute(f"delete from {table} where workflow_uuid like 'told-%'".encode())


class Evil:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (MARK,)


MARK = f"/tmp/go-ent-unpickled-{os.getpid()}"
PICKLE = base64.b64encode(pickle.dumps(Evil())).decode()


def test_the_private_parts_are_there() -> None:
    """A canary: with another version of DBOS, look at the adapter first."""
    assert list(inspect.signature(SystemDatabase.start_queued_workflows).parameters)[:7] == [
        "self",
        "queue",
        "executor_id",
        "app_version",
        "queue_partition_key",
        "local_running_count",
        "partition_local_running_count",
    ]
    assert list(inspect.signature(execute_dequeued_workflow).parameters) == ["dbos", "status", "owner_xid"]
    assert list(inspect.signature(SystemDatabase.reenqueue_for_recovery).parameters)[1:3] == [
        "workflow_id",
        "executor_ids",
    ]
    assert callable(SystemDatabase.get_workflow_statuses)


def test_a_pickle_is_never_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pickle, "loads", lambda _: pytest.fail("a pickle was read"))
    for kind in ("py_pickle",):
        for read in (serialization.deserialize_value, serialization.deserialize_args):
            with pytest.raises(ValueError, match="a pickle is not read"):
                read(PICKLE, kind, serialization.DBOSPortableJSON)
        with pytest.raises(ValueError, match="a pickle is not read"):
            serialization.deserialize_exception(PICKLE, kind, serialization.DBOSPortableJSON)


def test_a_server_that_is_away_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """However psycopg says so; what the server refuses is not tried again."""
    monkeypatch.setattr("time.sleep", lambda _: None)
    away = ["connection is bad: is the server running?", "connection failed: refused", "the connection is closed"]
    tries: list[str] = []

    @system_database.db_retry()
    def ask(server: object) -> str:
        tries.append("")
        if away:
            raise OperationalError("select 1", None, psycopg.OperationalError(away.pop()))
        return "here"

    assert ask(SimpleNamespace(_is_sqlite=False)) == "here"
    assert len(tries) == 4

    @system_database.db_retry()
    def refused(server: object) -> None:
        raise OperationalError("select 1", None, psycopg.errors.QueryCanceled("no"))

    with pytest.raises(OperationalError):
        refused(SimpleNamespace(_is_sqlite=False))


def test_the_environment_says_nothing_to_it(monkeypatch: pytest.MonkeyPatch, address: Address) -> None:
    monkeypatch.setenv("DBOS__CLOUD", "true")
    monkeypatch.setenv("DBOS__VMID", "other")
    queues = Queues(address)
    assert queues.waiting() == []
    queues.close()
    assert os.environ["DBOS__VMID"] == "other"


def test_work_is_taken_once_recovered_and_set_aside(address: Address) -> None:
    done: list[tuple[str, Order]] = []
    queues, aside = Queues(address), list[str]()

    def body(workflow: str, order: Order) -> Order:
        done.append((workflow, order))
        if order.get("fail"):
            raise ValueError("no")
        return {"n": order["n"] + 1}

    workflows = Workflows(address, executor="me", version="1", kinds={"add": body})
    database = Database(address)
    try:
        for name, order, version in (("a", {"n": 1}, "1"), ("b", {"n": 2, "fail": 1}, "1"), ("c", {"n": 3}, "2")):
            queues.put("q", "add", name, order, version)
        queues.put("q", "add", "a", {"n": 100}, "1")  # it is there
        assert workflows.take("q", 10, aside.append) == 2  # another version's is left alone
        outcomes = dict[str, object]()
        while len(outcomes) < 2:
            outcomes |= queues.ended(["a", "b", "c"])
        assert queues.ended(["a"])["a"].output == {"n": 2}
        assert queues.ended(["b"])["b"].error == "no"
        assert sorted(name for name, _ in done) == ["a", "b"]

        # What a dead executor had goes on; a second look recovers nothing twice.
        table = f"{schema_of(address)}.workflow_status"
        queues.put("q", "add", "d", {"n": 4}, "1")
        database.tell(f"update {table} set status = 'PENDING', executor_id = 'dead' where workflow_uuid = 'd'")
        assert (workflows.recover(["dead"]), workflows.recover(["dead"])) == (1, 0)
        assert workflows.take("q", 10, aside.append) == 1
        while "d" not in queues.ended(["d"]):
            pass

        # Also what was of another version, which its own workers take.
        database.tell(f"update {table} set status = 'PENDING', executor_id = 'dead' where workflow_uuid = 'c'")
        assert (workflows.recover(["dead"]), workflows.take("q", 10, aside.append)) == (1, 0)

        # One that has killed its workers again and again is set aside.
        queues.put("q", "add", "e", {"n": 5}, "1")
        database.tell(f"update {table} set recovery_attempts = 6 where workflow_uuid = 'e'")
        workflows.take("q", 10, aside.append)
        assert aside == ["e"]
        assert queues.ended(["e"])["e"].status == "MAX_RECOVERY_ATTEMPTS_EXCEEDED"

        # Planted pickles: each is one bad item, and the next one runs.
        for name in ("f", "g"):
            queues.put("q", "add", name, {"n": 6}, "1")
        database.tell(
            f"update {table} set inputs = %s, serialization = 'py_pickle' where workflow_uuid = 'f'", (PICKLE,)
        )
        database.tell(
            f"update {table} set output = %s, serialization = 'py_pickle' where workflow_uuid = 'a'", (PICKLE,)
        )
        workflows.take("q", 10, aside.append)
        while "g" not in queues.ended(["g"]):
            pass
        assert queues.ended(["a"])["a"].output is None
        assert queues.ended(["f", "g"])["g"].output == {"n": 7}
        assert not Path(MARK).exists()
        assert len(queues.waiting()) == 2  # another version's, and the one that could not be read
    finally:
        workflows.close()
        queues.close()
        database.close()


def test_what_has_ended_is_old_after_a_while_unless_it_is_kept(address: Address) -> None:
    queues, database = Queues(address), Database(address)

    def found(after_s: float, kept: str) -> set[str]:
        return {one for (one,) in database.ask(old(address, f"values ('{kept}')"), (list(ENDED), after_s))}

    try:
        for name in ("old-1", "old-2", "old-3"):
            queues.put("never", "add", name, {}, "1")
        for name in ("old-1", "old-2"):
            queues.cancel(name)
        assert not found(3600, "") & {"old-1", "old-2", "old-3"}
        assert found(-60, "") >= {"old-1", "old-2"}
        assert "old-3" not in found(-60, "")  # it waits
        assert "old-2" not in found(-60, "old-2")
        queues.remove(["old-1"])
        assert list(queues.ended(["old-1", "old-2"])) == ["old-2"]
        queues.remove(["old-2", "old-3"])
    finally:
        queues.close()
        database.close()


def test_what_lines_have_told_is_read_unless_it_is_too_long(address: Address) -> None:
    queues, database = Queues(address), Database(address)
    schema = schema_of(address)
    try:
        for name, kind in (("l1", "lines"), ("l2", "lines"), ("s1", "step")):
            queues.put("never", kind, name, {}, "1")
            database.tell(f"update {schema}.workflow_status set status = 'SUCCESS' where workflow_uuid = %s", (name,))
            told = '{"rest":""}' if name != "l2" else "x" * (MOST_TOLD + 1)
            database.tell(f"insert into {schema}.workflow_output (workflow_uuid, output) values (%s, %s)", (name, told))
        found = database.ask(have_ended(address), (["l1", "l2", "s1"], list(ENDED)))
        assert sorted(found) == [
            ("l1", "SUCCESS", '{"rest":""}'),
            ("l2", "SUCCESS", None),
            ("s1", "SUCCESS", None),  # DBOS reads it
        ]
    finally:
        queues.remove(["l1", "l2", "s1"])
        queues.close()
        database.close()


def test_who_has_work_and_which_queues_do(address: Address) -> None:
    queues, database = Queues(address), Database(address)
    try:
        queues.put("some", "add", "w", {"n": 1}, "1")
        given = {"version": "1", "queues": ["some", "none"]}
        query = f"select q from unnest(%(queues)s::text[]) q where {has_work(address, 'q')}"
        assert database.ask(query, given) == [("some",)]
        assert database.ask(query, {**given, "version": "3"}) == []
        # One that was buried, and took something before it knew.
        table = f"{schema_of(address)}.workflow_status"
        database.tell(f"update {table} set status = 'PENDING', executor_id = 'buried' where workflow_uuid = 'w'")
        assert database.ask(left_by_others(address, "select 'me'")) == [("buried",)]
        assert database.ask(left_by_others(address, "values ('me'), ('buried')")) == []
    finally:
        database.tell(f"delete from {schema_of(address)}.workflow_status where workflow_uuid = 'w'")
        queues.close()
        database.close()


def test_what_was_taken_while_the_server_went_away_is_begun(address: Address, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server has given us something, and the answer was lost."""
    done: list[str] = []

    def body(workflow: str, order: Order) -> Order:
        done.append(workflow)
        return order

    queues = Queues(address)
    workflows = Workflows(address, executor="me", version="1", kinds={"add": body})
    try:
        queues.put("lost", "add", "h", {"n": 8}, "1")
        system: Any = workflows._dbos._sys_db
        given = system.start_queued_workflows

        def cut(*arguments: Any, **named: Any) -> None:
            given(*arguments, **named)
            raise ConnectionError

        monkeypatch.setattr(system, "start_queued_workflows", cut)
        with pytest.raises(ConnectionError):
            workflows.take("lost", 10, done.append)
        monkeypatch.setattr(system, "start_queued_workflows", given)
        assert workflows.take("lost", 10, done.append) == 0
        while "h" not in queues.ended(["h"]):
            pass
        assert done == ["h"]
    finally:
        workflows.close()
        queues.close()


def test_an_address_is_understood() -> None:
    given = "user=ann password='a b%' host=db.example.com port=5433 dbname=fleet connect_timeout=10"
    url = make_url(url_of(Address(given, given, "x")))
    assert (url.username, url.password, url.database) == ("ann", "a b%", "fleet")
    assert (url.query["host"], url.query["port"]) == ("db.example.com", "5433")

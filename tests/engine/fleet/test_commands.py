"""`go-ent fleet init`, `doctor`, `status`, `drain`: what is there, what is missing, and what to do about it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

pytest.importorskip("psycopg", reason="the fleet's tests need its packages: make test-fleet installs them")

import psycopg

from go_ent.composer.errors import ConfigError
from go_ent.composer.project import trust
from go_ent.engine import Engine, Plan
from go_ent.engine.fleet import database as databases
from go_ent.engine.fleet import schema
from go_ent.engine.fleet.database import Address, Away, Database
from go_ent.engine.fleet.dbos_adapter import migrate, schema_of
from tests.support.fleet_machines import CONFIG, KEY, Fleet
from tests.support.postgres import Postgres
from tests.support.shell import Done, go_ent

SECRET = "hunter2hunter2"


@pytest.fixture
def names(postgres: Postgres) -> Iterator[str]:
    """A namespace that nobody has made yet."""
    name = f"c{uuid4().hex[:12]}"
    yield name
    database = Database(Address(postgres.url, postgres.url, name))
    for one in (name, f"{name}_dbos"):
        database.tell(f"drop schema if exists {one} cascade")
    database.close()


@pytest.fixture
def project(project: Path, postgres: Postgres, names: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (project / ".go-ent" / "config.toml").write_text(CONFIG.format(names))
    for name, value in (("FLEET", postgres.url), ("FLEET_KEY", KEY), ("GO_ENT_TRUST_PROJECT", "1")):
        monkeypatch.setenv(name, value)
    yield project
    trust.share_keys()


def fleet(project: Path, *words: str) -> Done:
    return go_ent("fleet", *words, cwd=project)


def checks(project: Path) -> dict[str, tuple[bool, str]]:
    said: dict[str, Any] = json.loads(fleet(project, "doctor", "--json").stdout)
    return {one["name"]: (one["ok"], one["said"]) for one in said["checks"]}


def said(done: Done) -> str:
    return (done.stdout + done.stderr).decode()


def test_what_is_not_there_yet_is_made_once(project: Path) -> None:
    assert "run go-ent fleet init" in checks(project)["tables"][1]
    assert "run go-ent fleet init" in said(fleet(project, "status"))
    first, second = fleet(project, "init"), fleet(project, "init")
    assert (first.returncode, second.returncode) == (0, 0)
    assert "made the schema" in said(first)
    assert "is there, in version" in said(second)
    found = checks(project)
    assert all(found[one][0] for one in ("key", "server", "tables", "queues"))
    assert found["workers"] == (False, "none: start go-ent worker")
    status = fleet(project, "status")
    assert "no workers: start go-ent worker on each machine" in said(status)
    assert " connections" in said(status)


def test_queues_of_an_older_go_ent_are_told(project: Path, postgres: Postgres, names: str) -> None:
    fleet(project, "init")
    address = Address(postgres.url, postgres.url, names)
    database = Database(address)
    database.tell(f"drop trigger go_ent_ended on {schema_of(address)}.workflow_status")
    database.close()
    assert checks(project)["queues"] == (False, "of an older go-ent, and are polled: run go-ent fleet init")
    assert "run go-ent fleet init" in said(fleet(project, "status"))
    fleet(project, "init")
    assert checks(project)["queues"][0]
    assert "run go-ent fleet init" not in said(fleet(project, "status"))


@pytest.mark.more
async def test_a_fleet_of_an_older_go_ent_works(machines: Fleet) -> None:
    """Its queues tell nobody of an end, nor of work: they are looked at now and then."""
    for trigger in ("go_ent_ended", "go_ent_work"):
        machines.database.tell(f"drop trigger {trigger} on {schema_of(machines.address)}.workflow_status")
    machines.start().ready()
    code = "await tools.effect(key=key, ms=1)\n1"
    tasks = [{"id": key, "code": code, "inputs": {"key": key}} for key in ("a", "b")]
    async with Engine(machines.checkout("client"), trusted=True) as engine:
        assert (await engine.execute(Plan.model_validate({"task": tasks}))).ok
        migrate(machines.address)  # as `fleet init` does, while workers run
        assert (await engine.execute(Plan.model_validate({"task": tasks}))).ok
    assert machines.effects() == {"a": 2, "b": 2}


def test_a_worker_that_is_not_there_is_told(project: Path) -> None:
    fleet(project, "init")
    done = fleet(project, "drain", "nobody")
    assert "there is no worker nobody; there are: none" in said(done)
    assert done.returncode != 0


@pytest.mark.parametrize("words", [("fleet", "doctor"), ("fleet", "status"), ("fleet", "init"), ("ps",), ("worker",)])
def test_a_server_that_is_not_there_is_told_soon(
    project: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.setenv("FLEET", f"postgresql://ann:{SECRET}@127.0.0.1:1/fleet")
    monkeypatch.setattr(databases, "FIRST_S", 0.1)
    done = go_ent(*words, cwd=project)
    assert done.returncode != 0
    assert "the fleet's Postgres can't be used: connection failed" in said(done)
    assert "is its address right, and is it up?" in said(done)
    assert SECRET not in said(done)
    assert "Traceback" not in said(done)
    assert "Errno" not in said(done)


def test_a_server_that_was_there_is_waited_for(fleet: Address, monkeypatch: pytest.MonkeyPatch) -> None:
    database = Database(fleet)
    database.ask("select 1")
    monkeypatch.setattr(databases, "FIRST_S", 0.0)
    tried = []

    def away(connection: object) -> int:
        tried.append(connection)
        if len(tried) < 3:
            raise psycopg.OperationalError("the server closed the connection")
        return 7

    assert database.run(away) == 7
    database.close()


def test_an_older_server_is_refused(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "OLDEST_SERVER", 990_000)
    assert "is too old: a fleet needs 99 or newer" in said(fleet(project, "init"))
    ok, what = checks(project)["server"]
    assert not ok
    assert "is too old: a fleet needs 99 or newer" in what


class TestUsers:
    """Of the server: one with no rights, and one with another password."""

    @pytest.fixture
    def user(self, postgres: Postgres, names: str) -> Iterator[str]:
        database = Database(Address(postgres.url, postgres.url, names))
        database.tell(f"create role {names} login password '{SECRET}'")
        yield names
        database.tell(f"drop owned by {names}")
        database.tell(f"drop role {names}")
        database.close()

    def test_one_who_may_not_make_schemas_is_told(self, postgres: Postgres, user: str) -> None:
        database = Database(Address(postgres.url.replace("tester@", f"{user}@"), postgres.url, user))
        with pytest.raises(ConfigError, match=f"this user may not make the schema {user}: grant create"):
            schema.init(database)
        database.close()

    def test_one_who_may_not_use_them_is_told(self, project: Path, postgres: Postgres, user: str) -> None:
        fleet(project, "init")
        database = Database(Address(postgres.url.replace("tester@", f"{user}@"), postgres.url, user))
        with pytest.raises(Away, match=r"permission denied .*: use the user that has run go-ent fleet init"):
            database.ask("select 1 from $.members")
        database.close()

    @pytest.mark.long
    def test_a_wrong_password_is_told_and_not_repeated(
        self, project: Path, postgres: Postgres, user: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        rules = postgres.data / "pg_hba.conf"
        before = rules.read_text()
        rules.write_text(f"local all {user} scram-sha-256\n{before}")
        database = Database(Address(postgres.url, postgres.url, user))
        database.ask("select pg_reload_conf()")
        try:
            monkeypatch.setenv("FLEET", postgres.url.replace("tester@", f"{user}:{SECRET}@"))
            assert checks(project)["server"][0]
            monkeypatch.setenv("FLEET", postgres.url.replace("tester@", f"{user}:not-{SECRET}@"))
            monkeypatch.setattr(databases, "FIRST_S", 0.1)
            for words in (("fleet", "doctor"), ("fleet", "status"), ("ps",), ("worker",)):
                done = go_ent(*words, cwd=project)
                assert "password authentication failed" in said(done)
                assert SECRET not in said(done)
        finally:
            rules.write_text(before)
            database.ask("select pg_reload_conf()")
            database.close()

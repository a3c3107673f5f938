"""Behind a transaction pooler: nothing but locks and notifications needs a session of its own."""

from __future__ import annotations

import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

pytest.importorskip("psycopg", reason="the fleet's tests need its packages: make test-fleet installs them")

from go_ent.engine.budget.ledger import Cost, HeldAmount, LedgerCall, Limit, Wanted
from go_ent.engine.fleet.database import Address
from go_ent.engine.fleet.postgres_ledger import PostgresLedger
from tests.engine.executions.test_executions import fresh
from tests.support.fleet import storages
from tests.support.pooler import pooled
from tests.support.postgres import Postgres

DAY = Limit("day", usd=0.1, start=0.0, end=1e10)


def test_many_connections_over_two_sessions(fleet: Address, postgres: Postgres) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,  # a socket's path is short
        pooled(postgres.folder, Path(folder), sessions=2) as pooler,
        storages(Address(pooler.url, fleet.session_url, fleet.namespace)) as another,
    ):
        one, two = another(), another()
        told = threading.Event()
        watch = two.watch(told.set)
        state = fresh()
        slot = one.create(state.id)
        slot.append("created", {}, {"state": state.model_dump_json().encode()})
        slot.place(state)
        ledgers = [PostgresLedger(storage.database) for storage in (one, two)]

        def work(number: int) -> int:
            slot.append("note", {"text": str(number)})
            slot.sync()
            call = LedgerCall(f"k{number}", "e", "t")
            ledger = ledgers[number % 2]
            held = ledger.reserve(call, Wanted(0.01, 1), (DAY,), unknown_usd=0.1, at=time.time())
            if number % 4 == 0 and isinstance(held, HeldAmount):
                ledger.settle(call, Cost(0.01, 1, "x"), at=time.time(), month_start=0.0, limits=(DAY,))
            return isinstance(held, HeldAmount)

        with ThreadPoolExecutor(8) as pool:
            assert sum(pool.map(work, range(24))) == 10  # of so many that want a tenth of it
        slot.release()
        assert pooler.clients > 2
        assert told.wait(30)
        watch.close()
        held, found = two.hold(state.id)
        assert (found.id, len(list(held.records()))) == (state.id, 25)
        held.release()

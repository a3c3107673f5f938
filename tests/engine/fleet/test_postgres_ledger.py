"""A fleet's budget: what threads want at once goes together, and no number of processes spends more than there is."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("psycopg", reason="the fleet's tests need its packages: make test-fleet installs them")

from go_ent.engine.budget.ledger import Cost, Counted, HeldAmount, LedgerCall, Limit, Refusal, Wanted
from go_ent.engine.core.errors import LedgerError
from go_ent.engine.fleet.database import Address, Database
from go_ent.engine.fleet.postgres_ledger import PostgresLedger, Reserve, Settle, Turns

DAY = Limit("day", usd=1.0, start=0.0, end=1e10)
PROCESSES, EACH = 8, 25


@pytest.fixture
def ledger(fleet: Address) -> Iterator[PostgresLedger]:
    database = Database(fleet)
    yield PostgresLedger(database)
    database.close()


def wanted(key: str, usd: float) -> Reserve:
    return Reserve(LedgerCall(key, "e", "t"), Wanted(usd, 10), (DAY,), 0.1, time.time(), force=False)


def spent(key: str, usd: float) -> Settle:
    return Settle(LedgerCall(key, "e", "t"), Cost(usd, 10, "x"), time.time(), (DAY,), 0.1)


class TestTogether:
    def test_what_fits_and_what_does_not(self, ledger: PostgresLedger) -> None:
        items = [wanted("a", 0.4), wanted("b", 0.5), wanted("c", 0.3), wanted("d", 0.1), wanted("a", 0.0)]
        ledger.do_all([*items])
        held, refused, used = HeldAmount, Refusal, Exception
        assert [type(one.answer) for one in items[:4]] == [held, held, refused, held]
        assert isinstance(items[4].answer, used)

    def test_settlements_and_reservations(self, ledger: PostgresLedger) -> None:
        ledger.do_all([wanted("a", 0.9)])
        settled, held = spent("a", 0.2), wanted("b", 0.7)
        ledger.do_all([settled, held])  # what is settled makes room for who comes after it, at the latest
        assert isinstance(settled.answer, Counted)
        assert held.answer == HeldAmount(0.7, 10)
        ledger.do_all([twice := spent("b", 0.6), again := spent("b", 0.5)])
        assert isinstance(twice.answer, Counted)
        assert isinstance(again.answer, Counted)
        with ledger.reading() as view:
            assert view.spent(DAY.start, DAY.end, unknown_usd=0.0, client=None).usd == pytest.approx(0.7)

    def test_one_that_is_wrong_fails_alone(self, ledger: PostgresLedger) -> None:
        bad, good = spent("a", -1.0), wanted("b", 0.5)
        Turns(ledger.do_all).work([bad, good])
        assert isinstance(bad.answer, LedgerError)
        assert good.answer == HeldAmount(0.5, 10)


def reserve(address: Address, number: int, barrier: Any, found: Any) -> None:
    database = Database(address)
    ledger = PostgresLedger(database)
    barrier.wait()
    answers = [
        ledger.reserve(LedgerCall(f"{number}/{n}", "e", "t"), Wanted(0.01, 1), (DAY,), unknown_usd=0.1, at=time.time())
        for n in range(EACH)
    ]
    found.put(sum(isinstance(one, HeldAmount) for one in answers))
    database.close()


@pytest.mark.long
def test_eight_processes_on_one_budget(fleet: Address) -> None:
    spawn = multiprocessing.get_context("spawn")
    barrier, found = spawn.Barrier(PROCESSES), spawn.Queue()
    processes = [spawn.Process(target=reserve, args=(fleet, n, barrier, found)) for n in range(PROCESSES)]
    for one in processes:
        one.start()
    assert sum(found.get() for _ in processes) == 100  # of 200 that want a cent of one dollar
    for one in processes:
        one.join()

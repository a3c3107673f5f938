"""What every ledger must do: in a file, in memory, and in Postgres."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from go_ent.engine.budget import Budget, Prices
from go_ent.engine.budget.ledger import Cost, HeldAmount, Ledger, LedgerCall, Limit, Refusal, Wanted
from go_ent.engine.budget.sqlite_ledger import FileLedger, MemoryLedger
from go_ent.engine.core.config import BudgetConfig
from go_ent.engine.core.errors import BadTask, BudgetExceeded
from go_ent.engine.core.models import BudgetLimit, Tokens

LEDGERS: dict[str, Callable[[Path], Ledger]] = {"file": FileLedger, "memory": lambda _: MemoryLedger()}


@pytest.fixture(params=[*LEDGERS, "fleet"])
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ledger]:
    if request.param != "fleet":
        yield LEDGERS[request.param](tmp_path)
        return
    from go_ent.engine.fleet.database import Database
    from go_ent.engine.fleet.postgres_ledger import PostgresLedger

    database = Database(request.getfixturevalue("fleet"))
    yield PostgresLedger(database)
    database.close()


def hold(ledger: Ledger, key: str, usd: float = 0.4, *limits: Limit, force: bool = False) -> HeldAmount | Refusal:
    call = LedgerCall(key, "e", "t", "ann")
    return ledger.reserve(call, Wanted(usd, 10), limits, unknown_usd=0.1, at=100.0, force=force)


DAY = Limit("day", usd=1.0, start=0.0, end=200.0)


def test_what_does_not_fit_is_refused_until_something_is_let_go(ledger: Ledger) -> None:
    assert hold(ledger, "a", 0.4, DAY) == HeldAmount(0.4, 10)
    assert hold(ledger, "b", 0.4, DAY) == HeldAmount(0.4, 10)
    assert hold(ledger, "c", 0.4, DAY) == Refusal("day", "usd", 0.8, 0.4, 1.0)
    ledger.release("a")
    assert isinstance(hold(ledger, "c", 0.4, DAY), HeldAmount)
    assert isinstance(hold(ledger, "d", 0.4, DAY, force=True), HeldAmount)


def test_a_key_is_used_once(ledger: Ledger) -> None:
    hold(ledger, "a")
    with pytest.raises(BadTask, match="has been reserved before"):
        hold(ledger, "a")
    ledger.settle(LedgerCall("a", "e", "t"), Cost(0.1, 5, "x"), at=100.0, month_start=0.0)
    with pytest.raises(BadTask, match="has been reserved before"):
        hold(ledger, "a")


def test_what_a_call_came_to_counts_instead_of_what_was_held(ledger: Ledger) -> None:
    hold(ledger, "a")
    counted = ledger.settle(
        LedgerCall("a", "e", "t"), Cost(1.5, None, "x", "m"), at=150.0, month_start=0.0, limits=(DAY,)
    )
    assert (counted.usd, counted.tokens, counted.tokens_estimated) == (1.5, 10, True)
    assert counted.over_usd == pytest.approx(1.1)
    assert [one.scope for one in counted.passed] == ["day"]
    again = ledger.settle(LedgerCall("a", "e", "t"), Cost(0.5, 20, "x", "m"), at=150.0, month_start=0.0)
    assert (again.usd, again.tokens, again.tokens_estimated) == (0.5, 20, False)


def test_a_view_adds_up(ledger: Ledger) -> None:
    with ledger.reading() as view:
        assert (view.owners(), view.clients(0.0, 200.0, 9), view.spent_by("e").runs) == ({}, [], 0)
    for key in ("a", "b"):
        hold(ledger, key)
    ledger.settle(LedgerCall("a", "e", "t"), Cost(None, 7, "x", "m"), at=100.0, month_start=0.0)
    with ledger.reading() as view:
        spent = view.spent(0.0, 200.0, unknown_usd=0.1, client=None)
        assert (spent.runs, spent.usd, spent.tokens, spent.unknown) == (1, 0.4, 7, 1)
        assert view.spent(0.0, 100.0, unknown_usd=0.1, client=None).runs == 0
        assert view.spent(0.0, 200.0, unknown_usd=0.1, client="bob").runs == 0
        (held,) = view.held(0.0, 200.0, unknown_usd=0.1, client="ann")
        assert (held.calls, held.usd, held.tokens) == (1, 0.4, 10)
        assert view.owners() == {held.owner: 1}
        assert list(view.held_for("e")) == [held]
        assert (view.spent_by("e").usd, view.spent_by("other").usd) == (0.4, 0.0)
        assert view.clients(0.0, 200.0, 9) == ["ann"]
        assert [tuple(one) for one in view.groups("model", 0.0, 200.0, 9)] == [("m", 1, 0.4, 7, 1)]
        assert [(one.key, one.owner) for one in view.oldest(9)] == [("b", held.owner)]


def test_what_fails_has_changed_nothing(ledger: Ledger) -> None:
    with pytest.raises(Exception, match="usd >= 0"):
        hold(ledger, "a", -1.0)
    assert hold(ledger, "a", 1.0, DAY) == HeldAmount(1.0, 10)


def test_threads_are_promised_no_money_twice(ledger: Ledger) -> None:
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda n: hold(ledger, f"k{n}", 0.1, DAY), range(20)))
    assert sum(isinstance(one, HeldAmount) for one in found) == 10


async def test_a_budget_takes_any(ledger: Ledger, tmp_path: Path) -> None:
    config = BudgetConfig(day=BudgetLimit(usd=1.0))
    budget = Budget(tmp_path, config, Prices(), mode="library", clock=time.time, ledger=ledger)
    estimate = budget.estimate(model=None, prompt_tokens=10, limit=BudgetLimit(usd=0.8))
    held = await budget.reserve("a", estimate, execution_id="e", task_id="t")
    with pytest.raises(BudgetExceeded):
        await budget.reserve("b", estimate, execution_id="e", task_id="t")
    settled = await budget.settle(held, runtime="x", model="m", role=None, tokens=Tokens(input=5), usd=0.3)
    assert (settled.usd, (await budget.report()).day.spent_usd, (await budget.spent(["e"])).usd) == (0.3, 0.3, 0.3)

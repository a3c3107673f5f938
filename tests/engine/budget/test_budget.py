"""The budget holds: across tasks, processes, crashes and midnights."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from go_ent.composer.errors import ConfigError
from go_ent.composer.project.files import STATE
from go_ent.engine.budget import (
    Ask,
    Budget,
    Estimate,
    Prices,
    Reservation,
    Settled,
    bounds,
    dollars,
    sqlite_ledger,
    tighter,
    zone,
)
from go_ent.engine.core.config import BudgetConfig, EngineConfig, Mode, PriceConfig
from go_ent.engine.core.errors import BadTask, BudgetExceeded, LedgerError
from go_ent.engine.core.models import BudgetLimit, Tokens
from go_ent.sandbox.children.proc import own_identity
from tests.support import ROOT
from tests.support.forked import run_python

MEMORY = Path("/dev/shm")  # where it is there, many small transactions don't wait for a disk


@dataclass
class Clock:
    now: float = 1_750_000_000.0

    def __call__(self) -> float:
        return self.now

    def set(self, text: str, name: str = "UTC") -> None:
        self.now = datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(name)).timestamp()


@dataclass
class Purse:
    """A budget, with what the tests say of it in one line."""

    budget: Budget
    number: int = 0

    def reserve(
        self, usd: float | None, tokens: int = 0, *, execution: str = "e", task: str | None = None, **limits: Any
    ) -> Reservation:
        self.number += 1
        task = task or f"t{self.number}"
        key = f"{execution}/{task}/{self.number}"
        return asyncio.run(
            self.budget.reserve(key, Estimate(usd, tokens), execution_id=execution, task_id=task, **limits)
        )

    def settle(
        self, held: Reservation, usd: float | None = None, tokens: Tokens | None = None, model: str | None = None
    ) -> Settled:
        return asyncio.run(
            self.budget.settle(held, runtime="claude-code", model=model, role="developer", tokens=tokens, usd=usd)
        )

    def release(self, held: Reservation) -> None:
        asyncio.run(self.budget.release(held))

    @property
    def report(self) -> Any:
        return asyncio.run(self.budget.report())


Open = Callable[..., Purse]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def project() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        yield Path(folder)


@pytest.fixture
def purse(project: Path, clock: Clock) -> Open:
    def open_one(mode: Mode = "library", ask: Ask | None = None, prices: Prices | None = None, **config: Any) -> Purse:
        return Purse(
            Budget(
                project,
                BudgetConfig(**{"reserve_usd": 0.25, **config}),
                prices or Prices(),
                mode=mode,
                ask=ask,
                clock=clock,
            )
        )

    return open_one


class TestReserveAndSettle:
    def test_what_fits_is_held_and_what_does_not_is_refused_with_the_figures(self, purse: Open) -> None:
        mine = purse(day={"usd": 1.0})
        mine.reserve(0.6)
        with pytest.raises(BudgetExceeded) as refused:
            mine.reserve(0.5)
        figures = {name: getattr(refused.value, name) for name in ("scope", "spent", "estimate", "limit")}
        assert figures == {"scope": "day", "spent": "$0.60", "estimate": "$0.50", "limit": "$1.00"}
        mine.reserve(0.4)
        assert mine.report.day.reserved_usd == pytest.approx(1.0)

    def test_what_fits_to_the_cent_fits_whatever_binary_fractions_say(self, purse: Open) -> None:
        mine = purse(day={"usd": 0.3})
        for _ in range(3):
            mine.reserve(0.1)
        with pytest.raises(BudgetExceeded):
            mine.reserve(0.000001)

    def test_settling_frees_what_was_not_used(self, purse: Open) -> None:
        mine = purse(day={"usd": 1.0})
        settled = mine.settle(mine.reserve(1.0), usd=0.25, tokens=Tokens(input=10, output=5))
        assert settled == Settled(0.25, False, 0.0, 15, None, 15)
        assert (mine.report.day.spent_usd, mine.report.day.reserved_usd, mine.report.day.spent_tokens) == (
            0.25,
            0.0,
            15,
        )
        mine.reserve(0.75)

    def test_releasing_frees_it_all(self, purse: Open) -> None:
        mine = purse(day={"usd": 1.0, "tokens": 10})
        mine.release(mine.reserve(1.0, 10))
        assert (mine.report.day.runs, mine.report.open_reservations) == (0, 0)
        mine.reserve(1.0, 10)

    def test_one_key_settled_twice_counts_once_and_the_new_figures_replace(self, purse: Open) -> None:
        mine = purse(day={"usd": 1.0})
        held = mine.reserve(0.5)
        mine.settle(held, usd=0.2)
        mine.settle(held, usd=0.3, tokens=Tokens(input=7))
        assert (mine.report.day.runs, mine.report.day.spent_usd, mine.report.day.spent_tokens) == (1, 0.3, 7)
        assert mine.settle(held).cost_usd == 0.3, "an unknown replaces nothing"
        assert mine.report.day.spent_usd == 0.3

    @pytest.mark.parametrize("settled", [True, False])
    def test_a_key_is_used_once(self, purse: Open, settled: bool) -> None:
        mine = purse()
        held = mine.reserve(0.5)
        if settled:
            mine.settle(held, usd=0.5)
        mine.number -= 1
        with pytest.raises(BadTask, match="e/t1/1 has been reserved before: each try needs a key of its own"):
            mine.reserve(0.1)
        assert mine.report.day.spent_usd + mine.report.day.reserved_usd == 0.5

    def test_a_run_that_failed_costs_what_it_cost(self, purse: Open) -> None:
        mine = purse(task={"usd": 1.0})
        first = mine.reserve(1.0, task="t")
        mine.settle(first, usd=0.9)
        second = mine.reserve(1.0, task="t")
        assert second.usd == pytest.approx(0.1), "the next try holds what the first has left"
        mine.settle(second, usd=0.1)
        with pytest.raises(BudgetExceeded, match=r"budget of the task does not hold this: \$1.00 spent or reserved"):
            mine.reserve(1.0, task="t")

    def test_the_overshoot_is_returned_logged_and_reported(self, purse: Open, caplog: pytest.LogCaptureFixture) -> None:
        mine = purse(day={"usd": 1.0, "tokens": 100})
        settled = mine.settle(mine.reserve(0.5, 50), usd=0.75, tokens=Tokens(output=60))
        assert (settled.overshoot_usd, settled.overshoot_tokens) == (0.25, 10)
        assert (
            settled.warning
            == "it cost $0.25 more than the $0.50 held for it; it used 10 tokens more than the 50 tokens held for it"
        )
        assert settled.warning in caplog.text
        assert mine.report.day.overshoot_usd == 0.25
        with pytest.raises(BudgetExceeded):
            mine.reserve(0.3)

    def test_without_limits_everything_is_recorded_and_nothing_warned_about(
        self, purse: Open, caplog: pytest.LogCaptureFixture
    ) -> None:
        mine = purse()
        settled = mine.settle(mine.reserve(None, 10), usd=3.0, tokens=Tokens(output=60))
        assert (settled.usd, settled.warning, settled.overshoot_tokens) == (3.0, None, 50)
        assert mine.report.month.spent_usd == 3.0
        assert not caplog.records


class TestScopes:
    @pytest.mark.parametrize("unit", ["usd", "tokens"])
    def test_each_scope_limits_in_its_own_sum(self, purse: Open, clock: Clock, unit: str) -> None:
        limits = {"task": {unit: 10}, "execution": {unit: 20}, "day": {unit: 30}, "month": {unit: 40}}
        mine = purse(**limits)

        def hold(amount: int, execution: str, task: str) -> str:
            usd, tokens = (float(amount), 0) if unit == "usd" else (0.0, amount)
            try:
                mine.reserve(usd, tokens, execution=execution, task=task)
            except BudgetExceeded as refused:
                return refused.scope
            return "held"

        assert hold(11, "a", "1") == "task"
        assert hold(10, "a", "1") == "held"
        assert hold(1, "a", "1") == "task", "all tries of a task are the task"
        assert hold(10, "a", "2") == "held"
        assert hold(1, "a", "3") == "execution"
        assert hold(10, "b", "1") == "held", "another execution's task of the same name is another task"
        assert hold(1, "c", "1") == "day"
        clock.now += 86400
        assert hold(10, "c", "1") == "held"
        assert hold(1, "d", "1") == "month"

    def test_of_two_limits_the_tighter_holds(self, purse: Open) -> None:
        mine = purse(task={"usd": 1.0}, execution={"usd": 5.0})
        with pytest.raises(BudgetExceeded, match="budget of the task"):
            mine.reserve(0.3, task_limit=BudgetLimit(usd=0.2))
        with pytest.raises(BudgetExceeded, match="budget of the execution"):
            mine.reserve(0.3, execution_limit=BudgetLimit(usd=0.2))
        with pytest.raises(BudgetExceeded):
            mine.reserve(1.5, task_limit=BudgetLimit(usd=9.0))
        assert tighter(BudgetLimit(usd=1, tokens=9), BudgetLimit(usd=2)) == BudgetLimit(usd=1, tokens=9)
        assert tighter(None, BudgetLimit(usd=2)) == BudgetLimit(usd=2)
        assert tighter(None, None) is None


def held_at(estimate: Estimate) -> tuple[float | None, int]:
    return estimate.usd, estimate.tokens


class TestEstimates:
    @pytest.mark.parametrize(
        ("day", "reserve_usd", "amounts"),
        [
            (1.8, None, [1.0, 0.8, None]),
            (1.05, None, [1.0, None, None]),
            (1.8, 1.0, [1.0, None, None]),
            (0.3, 0.2, [0.2, None, None]),
        ],
    )
    def test_all_of_what_was_configured_is_held_and_else_what_is_left(
        self, purse: Open, day: float, reserve_usd: float | None, amounts: list[float | None]
    ) -> None:
        """What is left will do down to a tenth of what is usual, or the likely price: for an agent, which is stopped
        there.
        """
        budget = purse(day={"usd": day}, reserve_usd=reserve_usd).budget

        async def main() -> list[float | None]:
            held: list[float | None] = []
            for number in range(3):
                estimate = budget.estimate(model=None, prompt_tokens=1, limit=None)
                try:
                    reservation = await budget.reserve(
                        f"e/t{number}/1", estimate, execution_id="e", task_id=f"t{number}"
                    )
                    held.append(reservation.usd)
                except BudgetExceeded:
                    held.append(None)
            return held

        assert asyncio.run(main()) == pytest.approx(amounts)

    def test_a_tasks_own_limit_is_what_is_held(self, purse: Open) -> None:
        budget = purse(task={"usd": 2.0, "tokens": 90_000}).budget
        own = BudgetLimit(usd=0.5, tokens=1000)
        assert held_at(budget.estimate(model="opus", prompt_tokens=100, limit=own)) == (0.5, 1000)
        assert held_at(budget.estimate(model="opus", prompt_tokens=100, limit=BudgetLimit(usd=9))) == (2.0, 50_000)

    def test_else_the_likely_price_but_not_less_than_is_configured(self, purse: Open) -> None:
        budget = purse(reserve_usd=0.01, reserve_tokens=10).budget
        dear = budget.estimate(model="opus", prompt_tokens=100_000, limit=None)
        assert dear.usd == pytest.approx((100_000 * 15 + 8192 * 75) / 1e6)
        assert dear.tokens == 108_192
        assert held_at(budget.estimate(model="haiku", prompt_tokens=1, limit=None, max_output=1)) == (0.01, 10)

    def test_the_limit_of_every_task_bounds_it(self, purse: Open) -> None:
        mine = purse(task={"usd": 0.1, "tokens": 1000})
        estimate = mine.budget.estimate(model="opus", prompt_tokens=100, limit=None)
        assert held_at(estimate) == (0.1, 1000)
        assert mine.reserve(estimate.usd, estimate.tokens).usd == 0.1

    def test_a_prompt_that_alone_is_too_dear_is_refused(self, purse: Open) -> None:
        mine = purse()
        own = BudgetLimit(usd=1.0)
        estimate = mine.budget.estimate(model="opus", prompt_tokens=100_000, limit=own)
        assert estimate.usd == 1.5
        with pytest.raises(BudgetExceeded):
            mine.reserve(estimate.usd, task_limit=own)

    def test_a_model_without_a_price_is_held_at_the_default_where_dollars_are_limited(self, purse: Open) -> None:
        assert held_at(purse().budget.estimate(model=None, prompt_tokens=1, limit=None)) == (None, 50_000)
        assert held_at(purse(month={"usd": 9}).budget.estimate(model=None, prompt_tokens=1, limit=None)) == (
            0.25,
            50_000,
        )
        assert purse(month={"usd": 9}).reserve(None).usd == 0.25
        assert purse().reserve(None, execution="x", task_limit=BudgetLimit(usd=2)).usd == 0.25

    @pytest.mark.parametrize("usd", [-1.0, float("nan"), float("inf"), 1e9])
    def test_an_amount_that_is_none_is_refused(self, purse: Open, usd: float) -> None:
        with pytest.raises(BadTask, match="can't be reserved"):
            purse().reserve(usd)


class TestUnknownCosts:
    def test_a_cost_is_worked_out_from_the_tokens(self, purse: Open) -> None:
        mine = purse(prices=Prices({"mine": PriceConfig(input=1, output=2)}))
        settled = mine.settle(mine.reserve(1.0), tokens=Tokens(input=1_000_000, output=500_000), model="mine")
        assert (settled.usd, settled.cost_usd, settled.estimated) == (2.0, 2.0, False)

    def test_an_unknown_cost_counts_in_tokens_and_as_what_was_held(
        self, purse: Open, caplog: pytest.LogCaptureFixture
    ) -> None:
        mine = purse(day={"usd": 1.0})
        for _ in range(2):
            settled = mine.settle(mine.reserve(0.4, 100), tokens=Tokens(output=30), model="nobody-knows-it")
        assert (settled.usd, settled.cost_usd, settled.estimated, settled.tokens) == (0.4, None, True, 30)
        assert settled.warning == "what it cost is not known and counts as $0.40"
        assert caplog.text.count("'nobody-knows-it' is not known") == 1
        day = mine.report.day
        assert (day.spent_usd, day.estimated_usd, day.unknown_costs, day.spent_tokens) == (0.8, 0.8, 2, 60)
        with pytest.raises(BudgetExceeded):
            mine.reserve(0.4)

    def test_unknown_tokens_count_as_what_was_held(self, purse: Open) -> None:
        mine = purse(day={"tokens": 100})
        settled = mine.settle(mine.reserve(None, 70), usd=0.1)
        assert (settled.tokens, settled.tokens_estimated, settled.cost_usd) == (70, True, 0.1)
        with pytest.raises(
            BudgetExceeded, match="70 tokens spent or reserved, 31 tokens wanted, the limit is 100 tokens"
        ):
            mine.reserve(None, 31)

    def test_a_limit_that_is_set_later_does_not_find_unknown_costs_free(self, purse: Open) -> None:
        mine = purse()
        assert mine.settle(mine.reserve(None, 1), tokens=Tokens(output=1)).usd is None
        assert (mine.report.day.spent_usd, mine.report.day.unknown_costs) == (0.0, 1)
        limited = purse(day={"usd": 0.3})
        assert limited.report.day.spent_usd == 0.25
        with pytest.raises(BudgetExceeded):
            limited.reserve(0.1, execution="x")

    @pytest.mark.parametrize("usd", [float("nan"), float("inf"), -1.0, 1e300])
    def test_a_figure_that_can_not_be_is_unknown(self, purse: Open, usd: float) -> None:
        mine = purse(day={"usd": 1.0})
        settled = mine.settle(mine.reserve(0.5), usd=usd, tokens=Tokens(output=10**400))
        assert (settled.usd, settled.estimated, settled.tokens_estimated) == (0.5, True, True)
        assert mine.report.day.spent_usd == 0.5


class TestModes:
    def test_a_library_is_told_or_decides(self, purse: Open) -> None:
        asked: list[BudgetExceeded] = []

        async def decide(over: BudgetExceeded) -> bool:
            asked.append(over)
            return over.estimate == "$2.00"

        mine = purse("library", decide, day={"usd": 1.0})
        with pytest.raises(BudgetExceeded):
            mine.reserve(3.0)
        held = mine.reserve(2.0)
        assert [over.estimate for over in asked] == ["$3.00", "$2.00"]
        assert held.warning is not None
        assert held.warning.endswith("it goes on because that was allowed")
        assert (mine.report.day.forced, mine.report.day.reserved_usd) == (1, 2.0)

    def test_over_mcp_it_goes_on_with_a_warning(self, purse: Open, caplog: pytest.LogCaptureFixture) -> None:
        mine = purse("mcp", day={"usd": 1.0})
        assert mine.reserve(0.5).warning is None
        held = mine.reserve(2.0)
        assert held.warning == (
            "the budget of the day does not hold this: $0.50 spent or reserved, $2.00 wanted, the limit is $1.00; "
            "it continues with this warning, because budget.hard is not set"
        )
        assert held.warning in caplog.text
        mine.settle(held, usd=2.0)
        assert (mine.report.day.spent_usd, mine.report.day.forced) == (2.0, 1)

    def test_over_mcp_a_hard_budget_refuses(self, purse: Open) -> None:
        async def never(over: BudgetExceeded) -> bool:
            raise AssertionError("nobody is asked over MCP")

        mine = purse("mcp", never, day={"usd": 1.0}, hard=True)
        with pytest.raises(BudgetExceeded):
            mine.reserve(2.0)
        assert mine.report.day.forced == 0

    def test_at_the_command_line_without_a_person_it_is_refused(self, purse: Open) -> None:
        with pytest.raises(BudgetExceeded):
            purse("cli", day={"usd": 1.0}).reserve(2.0)

    def test_a_person_is_asked_one_thing_at_a_time_and_about_what_is_so_then(self, purse: Open) -> None:
        open_questions, seen = 0, []

        async def person(over: BudgetExceeded) -> bool:
            nonlocal open_questions
            open_questions += 1
            assert open_questions == 1
            await asyncio.sleep(0.01)
            open_questions -= 1
            seen.append(over.spent)
            return True

        budget = purse("cli", person, day={"usd": 1.0}).budget

        async def main() -> None:
            await asyncio.gather(
                *(budget.reserve(f"k{n}", Estimate(2.0, 0), execution_id="e", task_id=f"t{n}") for n in range(4))
            )

        asyncio.run(main())
        assert seen == ["$0.00", "$2.00", "$4.00", "$6.00"]


class TestWindows:
    @pytest.mark.parametrize(
        ("name", "before", "after", "rolled"),
        [
            ("UTC", "2025-06-10T23:59:59", "2025-06-11T00:00:00", {"day"}),
            ("UTC", "2025-06-30T23:59:59", "2025-07-01T00:00:00", {"day", "month"}),
            ("UTC", "2024-02-29T23:59:59", "2024-03-01T00:00:00", {"day", "month"}),
            ("UTC", "2025-12-31T23:59:59", "2026-01-01T00:00:00", {"day", "month"}),
            ("Asia/Tokyo", "2025-06-30T23:59:59", "2025-07-01T00:00:00", {"day", "month"}),
            ("America/New_York", "2025-11-02T00:30:00", "2025-11-02T23:59:59", set()),  # a day of 25 hours
            ("America/New_York", "2025-03-09T00:00:00", "2025-03-09T23:59:59", set()),  # of 23
            ("America/New_York", "2025-03-09T23:59:59", "2025-03-10T00:00:00", {"day"}),
            ("Africa/Cairo", "2024-04-25T23:59:59", "2024-04-26T01:00:00", {"day"}),  # there is no midnight
        ],
    )
    def test_windows_roll_over_in_the_time_zone(
        self, purse: Open, clock: Clock, name: str, before: str, after: str, rolled: set[str]
    ) -> None:
        mine = purse(timezone=name, day={"usd": 1.0}, month={"usd": 1.0})
        clock.set(before, name)
        mine.settle(mine.reserve(1.0), usd=1.0)
        clock.set(after, name)
        report = mine.report
        assert {scope for scope in ("day", "month") if getattr(report, scope).spent_usd == 0} == rolled
        assert report.day.resets_at.isoformat() > datetime.fromtimestamp(clock.now, ZoneInfo(name)).isoformat()

    def test_a_call_counts_in_the_day_it_was_started(self, purse: Open, clock: Clock) -> None:
        mine = purse(day={"usd": 1.0})
        clock.set("2025-06-10T23:59:00")
        held = mine.reserve(1.0)
        clock.set("2025-06-11T00:01:00")
        other = mine.reserve(1.0)
        mine.settle(held, usd=1.0)
        assert (mine.report.day.spent_usd, mine.report.day.reserved_usd) == (0.0, other.usd)
        clock.set("2025-06-10T12:00:00")
        assert mine.report.day.spent_usd == 1.0

    def test_a_clock_that_jumps_back_makes_nothing_negative_and_loses_nothing(self, purse: Open, clock: Clock) -> None:
        mine = purse(day={"usd": 1.0})
        clock.set("2025-06-11T12:00:00")
        held = mine.reserve(0.5)
        clock.set("2025-06-10T12:00:00")
        mine.settle(held, usd=0.7)
        assert mine.report.day.spent_usd == 0.0
        clock.set("2025-06-11T13:00:00")
        assert mine.report.day.spent_usd == 0.7
        with pytest.raises(BudgetExceeded):
            mine.reserve(0.5)

    @pytest.mark.parametrize("name", ["Mars/Olympus", "America", "../../etc/passwd", "/etc", "", "a\0b", "x" * 5000])
    def test_a_bad_time_zone_is_named(self, purse: Open, name: str) -> None:
        with pytest.raises(ConfigError, match=r"^budget\.timezone: there is no time zone"):
            purse(timezone=name)

    @settings(deadline=None, max_examples=150)
    @given(
        now=st.floats(-1e9, 4e9),
        name=st.sampled_from(
            [
                "UTC",
                "America/St_Johns",
                "Africa/Cairo",
                "America/Havana",
                "Pacific/Apia",
                "Asia/Kathmandu",
                "Europe/Berlin",
            ]
        ),
    )
    def test_windows_hold_their_moment_and_follow_each_other(self, now: float, name: str) -> None:
        there = zone(name)
        found = bounds(now, there)
        for window, before, after in (
            (found.day, bounds(found.day.start - 1, there).day, bounds(found.day.end, there).day),
            (found.month, bounds(found.month.start - 1, there).month, bounds(found.month.end, there).month),
        ):
            assert window.start <= now < window.end
            assert before.end == window.start
            assert after.start == window.end

    def test_where_the_evening_comes_twice_the_day_does_not_begin_twice(self) -> None:
        there = zone("America/St_Johns")  # in 2006, 00:01 became 23:01 of the day before
        first = bounds(datetime(2006, 10, 29, 0, 0, 30, tzinfo=there).timestamp(), there).day
        again = bounds(datetime(2006, 10, 28, 23, 30, fold=1, tzinfo=there).timestamp(), there).day
        assert first == again


class TestProcesses:
    MANY = """
import asyncio, os, sys
from pathlib import Path
from go_ent.engine.budget import Budget, Estimate, Prices
from go_ent.engine.core.config import BudgetConfig
from go_ent.engine.core.errors import BudgetExceeded
from go_ent.engine.core.models import Tokens

def work(number):
    budget = Budget(Path.cwd(), BudgetConfig(day={"usd": 1.0, "tokens": 10_000}), Prices(), mode="library")
    async def one(task):
        try:
            held = await budget.reserve(f"e{number}/{task}/1", Estimate(0.01, 100), execution_id=f"e{number}", task_id=str(task))
        except BudgetExceeded:
            return 0
        if task % 2:
            await budget.settle(held, runtime="cli", model=None, role=None, tokens=Tokens(output=100), usd=0.01)
        return 1
    async def main():
        return sum(await asyncio.gather(*(one(task) for task in range(50))))
    return asyncio.run(main())

go = os.pipe()
for number in range(8):
    if os.fork() == 0:
        os.close(go[1])
        os.read(go[0], 1)  # all at once, when the parent lets go
        os.write(1, f"{work(number)}\\n".encode())
        os._exit(0)
os.close(go[0])
os.close(go[1])
sys.exit(max(os.wait()[1] for _ in range(8)))
"""  # noqa: E501
    HOLD = """
import asyncio, time
from pathlib import Path
from go_ent.engine.budget import Budget, Estimate, Prices
from go_ent.engine.core.config import BudgetConfig
budget = Budget(Path.cwd(), BudgetConfig(), Prices(), mode="library")
asyncio.run(budget.reserve("e/t/1", Estimate(0.7, 70), execution_id="e", task_id="t"))
print("held", flush=True)
time.sleep(60)
"""

    def test_50_tasks_in_each_of_8_processes_never_hold_more_than_the_limit(self, project: Path) -> None:
        done = run_python(self.MANY, cwd=project, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert (done.returncode, done.stderr) == (0, "")
        admitted = [int(line) for line in done.stdout.split()]
        assert len(admitted) == 8
        assert sum(admitted) == 100, "as many as fit, neither more nor fewer"
        with contextlib.closing(sqlite3.connect(project / ".go-ent" / "budget.db")) as database, database:
            rows = database.execute(
                "SELECT key, usd FROM spends UNION ALL SELECT key, usd FROM reservations"
            ).fetchall()
        database.close()
        assert len({key for key, _ in rows}) == 100
        assert sum(usd for _, usd in rows) == pytest.approx(1.0)

    def test_what_a_process_of_another_container_holds_is_not_lost(self, project: Path) -> None:
        """Its number means nothing here: it may live, though no process here has that number."""
        mine = Purse(Budget(project, BudgetConfig(), Prices(), mode="library"))
        mine.reserve(0.4)
        with contextlib.closing(sqlite3.connect(project / STATE / sqlite_ledger.FILE)) as database, database:
            namespace = own_identity().rpartition("-")[2]
            database.execute("UPDATE reservations SET owner = ?", (f"{2**22 + 1}-1-{int(namespace) + 1}",))
        assert (mine.report.open_reservations, mine.report.lost_reservations) == (1, 0)
        with contextlib.closing(sqlite3.connect(project / STATE / sqlite_ledger.FILE)) as database, database:
            database.execute("UPDATE reservations SET owner = ?", (f"{2**22 + 1}-1-{namespace}",))
        assert (mine.report.open_reservations, mine.report.lost_reservations) == (0, 1)

    def test_what_a_killed_process_held_still_counts_until_it_is_settled(self, project: Path) -> None:
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        with subprocess.Popen(
            [sys.executable, "-c", self.HOLD], cwd=project, env=environment, stdout=subprocess.PIPE, text=True
        ) as holder:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "held\n"
            mine = Purse(Budget(project, BudgetConfig(day=BudgetLimit(usd=1.0)), Prices(), mode="library"))
            assert (mine.report.open_reservations, mine.report.day.reserved_usd, mine.report.day.spent_usd) == (
                1,
                0.7,
                0.0,
            )
            holder.send_signal(signal.SIGKILL)
            os.waitid(os.P_PID, holder.pid, os.WEXITED | os.WNOWAIT)
            assert mine.report.lost_reservations == 1, "dead is dead, reaped or not"
        report = mine.report
        assert (report.open_reservations, report.lost_reservations, report.reservations[0].lost) == (0, 1, True)
        assert (report.day.reserved_usd, report.day.spent_usd, report.day.estimated_usd, report.day.unknown_costs) == (
            0.0,
            0.7,
            0.7,
            1,
        )
        spent = asyncio.run(mine.budget.spent(["e"]))
        assert (spent.usd, spent.estimated_usd, spent.tokens, spent.unknown) == (0.7, 0.7, 70, 1)
        with pytest.raises(BudgetExceeded):
            mine.reserve(0.4, execution="other")
        mine.settle(Reservation("e/t/1", None, 0), usd=0.1, tokens=Tokens(output=5))
        assert (mine.report.day.spent_usd, mine.report.day.unknown_costs, mine.report.lost_reservations) == (0.1, 0, 0)
        assert asyncio.run(mine.budget.spent(["e"])).tokens == 5
        mine.reserve(0.4, execution="other")

    def test_a_cancelled_reserve_holds_nothing_and_a_cancelled_settle_is_written(self, purse: Open) -> None:
        mine = purse(day={"usd": 1.0})

        async def cancelled(work: Any) -> None:
            task = asyncio.ensure_future(work)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        async def main() -> None:
            await cancelled(mine.budget.reserve("k1", Estimate(1.0, 0), execution_id="e", task_id="t"))
            held = await mine.budget.reserve("k2", Estimate(1.0, 0), execution_id="e", task_id="t")
            await cancelled(mine.budget.settle(held, runtime="cli", model=None, role=None, tokens=None, usd=0.5))

        asyncio.run(main())
        assert (mine.report.open_reservations, mine.report.day.spent_usd) == (0, 0.5)


STEP = st.tuples(
    st.sampled_from(["reserve", "reserve", "reserve", "settle", "release", "wait"]),
    st.integers(1, 60),  # cents that are wanted or spent
    st.integers(0, 2),  # whose
)


@settings(deadline=None, max_examples=25)
@given(steps=st.lists(STEP, min_size=5, max_size=25))
def test_what_is_spent_and_held_never_passes_a_limit_but_by_the_overshoot(steps: list[tuple[str, int, int]]) -> None:
    """Against a model in whole cents: admitted if, and only if, it fits every scope."""
    limits, clock = {"execution": 120, "day": 150, "month": 400}, Clock()
    config = BudgetConfig.model_validate(
        {"hard": True, **{scope: {"usd": cents / 100} for scope, cents in limits.items()}}
    )
    rows: dict[str, tuple[int, str, float]] = {}  # cents, execution, when
    held: dict[str, tuple[Reservation, int]] = {}
    over = 0

    def counted(scope: str, execution: str) -> int:
        within = bounds(clock.now, ZoneInfo("UTC"))
        window = within.day if scope == "day" else within.month
        return sum(
            cents
            for cents, whose, at in rows.values()
            if (whose == execution if scope == "execution" else window.start <= at < window.end)
        )

    async def main(project: Path) -> None:
        nonlocal over
        budget = Budget(project, config, Prices(), mode="mcp", clock=clock)
        for number, (what, cents, whose) in enumerate(steps):
            execution = f"e{whose}"
            if what == "wait":
                clock.now += cents * 3600
            elif what == "reserve":
                fits = all(counted(scope, execution) + cents <= limit for scope, limit in limits.items())
                try:
                    reservation = await budget.reserve(
                        f"k{number}", Estimate(cents / 100, 0), execution_id=execution, task_id="t"
                    )
                except BudgetExceeded:
                    assert not fits
                    continue
                assert fits
                held[reservation.key] = (reservation, cents)
                rows[reservation.key] = (cents, execution, clock.now)
            elif held:
                reservation, wanted = held.pop(sorted(held)[whose % len(held)])
                if what == "release":
                    await budget.release(reservation)
                    del rows[reservation.key]
                    continue
                settled = await budget.settle(
                    reservation, runtime="r", model=None, role=None, tokens=None, usd=cents / 100
                )
                assert settled.overshoot_usd == pytest.approx(max(0, cents - wanted) / 100)
                over += max(0, cents - wanted)
                rows[reservation.key] = (cents, *rows[reservation.key][1:])
        report = await budget.report()
        for scope, window in (("day", report.day), ("month", report.month)):
            assert window.spent_usd + window.reserved_usd == pytest.approx(counted(scope, "") / 100)
            assert window.spent_usd + window.reserved_usd <= (limits[scope] + over) / 100 + 1e-9

    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        asyncio.run(main(Path(folder)))


class TestReport:
    def test_an_empty_project_has_an_empty_report_and_stays_empty(self, purse: Open, project: Path) -> None:
        report = purse(day={"usd": 1.0}).report
        assert (report.day.spent_usd, report.day.limit_usd, report.month.limit_usd, report.models) == (
            0.0,
            1.0,
            None,
            (),
        )
        assert list(project.iterdir()) == []

    def test_it_has_the_months_totals_by_runtime_and_model(self, purse: Open, clock: Clock) -> None:
        mine = purse()
        clock.set("2025-06-10T12:00:00")
        for model, usd in (("opus", 2.0), ("haiku", 0.5), ("haiku", 0.25)):
            mine.settle(mine.reserve(1.0), usd=usd, tokens=Tokens(output=10), model=model)
        mine.settle(mine.reserve(None), tokens=Tokens(output=1))
        clock.set("2025-07-10T12:00:00")
        mine.settle(mine.reserve(1.0), usd=9.0, model="sonnet")
        clock.set("2025-06-20T12:00:00")
        report = mine.report
        assert [(total.name, total.runs, total.usd) for total in report.models] == [
            ("opus", 1, 2.0),
            ("haiku", 2, 0.75),
            (None, 1, 0.0),
        ]
        assert [(total.name, total.runs, total.unknown_costs) for total in report.runtimes] == [("claude-code", 4, 1)]
        assert (report.day.runs, report.month.runs, report.month.spent_tokens) == (0, 4, 31)
        assert type(report).model_validate_json(report.model_dump_json()) == report

    def test_an_execution_knows_what_it_spent(self, purse: Open) -> None:
        mine = purse(day={"usd": 9.0})
        mine.settle(mine.reserve(1.0, 5), usd=0.5, tokens=Tokens(output=3))
        mine.settle(mine.reserve(1.0, 5))
        mine.reserve(1.0, 5)
        mine.settle(mine.reserve(1.0, 5, execution="another"), usd=1.0)
        spent = asyncio.run(mine.budget.spent(["e"]))
        assert (spent.usd, spent.estimated_usd, spent.tokens, spent.unknown) == (1.5, 1.0, 8, 1)

    @pytest.mark.parametrize(
        ("amount", "text"),
        [
            (0, "$0.00"),
            (0.5, "$0.50"),
            (1234.5, "$1,234.50"),
            (0.00025, "$0.00025"),
            (1e-9, "$0.00"),
            (0.125, "$0.125"),
        ],
    )
    def test_dollars_are_for_people(self, amount: float, text: str) -> None:
        assert dollars(amount) == text


class TestDamage:
    @pytest.mark.parametrize(
        "content", [b"not a database, but long enough to look at " * 50, b"SQLite format 3\0" + b"\xff" * 5000]
    )
    def test_a_damaged_database_stops_spending_and_says_what_to_do(
        self, purse: Open, project: Path, content: bytes
    ) -> None:
        mine = purse(day={"usd": 1.0})
        mine.reserve(0.5)
        path = project / ".go-ent" / "budget.db"
        path.write_bytes(content)
        for use in (lambda: mine.reserve(0.1), lambda: mine.report):
            with pytest.raises(
                LedgerError, match=r"budget\.db can't be used, so nothing may be spent: .* move it away"
            ) as refused:
                use()
            assert str(path) in str(refused.value)
        assert path.read_bytes() == content, "it is kept for whoever wants to look"

    def test_one_that_another_process_does_not_let_go_of_is_said_to_be_held(
        self, purse: Open, project: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        mine = purse()
        mine.reserve(0.5)
        monkeypatch.setattr(sqlite_ledger, "BUSY_S", 0.01)
        other = sqlite3.connect(project / ".go-ent" / "budget.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(LedgerError, match="is held by another process, so nothing may be spent: try again"):
            mine.reserve(0.5)
        assert mine.report.day.reserved_usd == 0.5, "it can be read meanwhile"
        other.close()
        mine.reserve(0.5)

    def test_a_folder_may_be_called_anything(self, project: Path) -> None:
        folder = project / "a?b #c%20 'd\"é"
        mine = Purse(Budget(folder, BudgetConfig(), Prices(), mode="library"))
        mine.reserve(0.5)
        assert mine.report.day.reserved_usd == 0.5
        assert (folder / ".go-ent" / "budget.db").is_file()

    def test_one_of_a_newer_version_is_left_alone(self, purse: Open, project: Path) -> None:
        mine = purse()
        mine.reserve(0.5)
        database = sqlite3.connect(project / ".go-ent" / "budget.db")
        database.execute("PRAGMA user_version = 3")
        database.close()
        with pytest.raises(LedgerError, match="made by a newer go-ent"):
            mine.reserve(0.5)

    def test_a_folder_that_can_not_be_written_stops_spending(self, purse: Open, project: Path) -> None:
        (project / ".go-ent").write_text("a file")
        with pytest.raises(LedgerError, match="nothing may be spent"):
            purse().reserve(0.1)

    def test_the_log_of_a_database_that_was_taken_away_is_not_played_into_the_next(
        self, purse: Open, project: Path
    ) -> None:
        mine, path = purse(), project / ".go-ent" / "budget.db"
        mine.reserve(0.5)
        reader = sqlite3.connect(path)  # while someone has it open, its log stays
        reader.execute("SELECT count(*) FROM spends").fetchone()
        mine.reserve(0.25)
        path.unlink()
        assert path.with_name("budget.db-wal").stat().st_size > 0
        mine.reserve(0.125)
        reader.close()
        assert mine.report.day.reserved_usd == 0.125

    def test_old_spends_go_but_never_those_of_this_month(self, purse: Open, project: Path, clock: Clock) -> None:
        mine = purse()
        clock.set("2025-05-10T12:00:00")
        mine.settle(mine.reserve(1.0), usd=1.0)
        clock.set("2025-06-10T12:00:00")
        mine.settle(mine.reserve(1.0), usd=1.0)
        database = sqlite3.connect(project / ".go-ent" / "budget.db")
        with database:
            database.execute("UPDATE spends SET rowid = rowid + 300000 WHERE at > 1748736000")  # as after many more
            database.execute("UPDATE spends SET rowid = rowid + 1 WHERE rowid = 300002")
        mine.settle(mine.reserve(1.0), usd=1.0)
        assert database.execute("SELECT count(*) FROM spends").fetchone() == (2,)
        with database:
            database.execute("UPDATE spends SET rowid = rowid - 300000 WHERE rowid = 300003")
        mine.settle(mine.reserve(1.0), usd=1.0)
        assert database.execute("SELECT count(*) FROM spends").fetchone() == (3,)
        database.close()


def test_the_guides_settings_are_settings() -> None:
    blocks = re.findall(r"^```toml\n(.*?)^```", (ROOT / "docs" / "guides" / "budgets.md").read_text(), re.M | re.S)
    assert blocks
    for block in blocks:
        EngineConfig.model_validate(tomllib.loads(block))


def test_the_budget_says_nothing_on_stdout(purse: Open, capsys: pytest.CaptureFixture[str]) -> None:
    mine = purse("mcp", day={"usd": 0.1})
    logging.getLogger("go_ent.engine.budget").warning("to the log")
    mine.settle(mine.reserve(1.0), usd=2.0)
    assert capsys.readouterr().out == ""

"""A budget's database may come with a project that someone else wrote, and its figures from a program that lies."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from go_ent.composer.composed.usage import UsageStore
from go_ent.engine import Engine, EngineConfig, Task
from go_ent.engine.budget import Budget, BudgetReport, Estimate, Prices, Reservation
from go_ent.engine.budget.sqlite_ledger import FileLedger
from go_ent.engine.core.config import BudgetConfig
from go_ent.engine.core.errors import BadTask, BudgetExceeded, LedgerError
from go_ent.engine.core.models import BudgetLimit, Tokens
from tests.security.corpus import attack


@pytest.fixture
def budget(tmp_path: Path) -> Budget:
    return Budget(tmp_path, BudgetConfig(day=BudgetLimit(usd=1.0)), Prices(), mode="mcp")


def reserve(budget: Budget, key: str = "e/t/1", usd: float = 0.5) -> Reservation:
    return asyncio.run(budget.reserve(key, Estimate(usd, 0), execution_id="e", task_id="t"))


def report(budget: Budget) -> BudgetReport:
    return asyncio.run(budget.report())


def change(project: Path, *statements: str) -> None:
    with contextlib.closing(sqlite3.connect(project / ".go-ent" / "budget.db")) as database, database:
        for statement in statements:
            database.execute(statement)


@attack("records", "a budget's files that are links")
@pytest.mark.parametrize(
    "name", ["budget.db", "budget.db-wal", "budget.db-shm", "budget.db-journal", ".budget.db.lock"]
)
def test_nothing_is_written_through_a_link(budget: Budget, tmp_path: Path, name: str) -> None:
    secret = tmp_path / "outside"
    secret.write_text("precious")
    (tmp_path / ".go-ent").mkdir()
    (tmp_path / ".go-ent" / name).symlink_to(secret)
    with pytest.raises(LedgerError):
        reserve(budget)
    assert secret.read_text() == "precious"


@attack("records", "a budget that is a pipe or a folder")
@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo], ids=["folder", "pipe"])
def test_what_is_no_file_is_refused_without_waiting(
    budget: Budget, tmp_path: Path, make: Callable[[Path], None]
) -> None:
    (tmp_path / ".go-ent").mkdir()
    make(tmp_path / ".go-ent" / "budget.db")
    with pytest.raises(LedgerError, match="not an ordinary file"):
        reserve(budget)


@attack("records", "triggers and views in a budget")
@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TRIGGER forget AFTER INSERT ON reservations BEGIN DELETE FROM reservations; END",
        "CREATE VIEW more AS SELECT 1",
        "CREATE TABLE more (a)",
        "ALTER TABLE spends ADD COLUMN more TEXT",
        "DROP INDEX spends_at",
    ],
)
def test_a_database_with_another_schema_is_refused(budget: Budget, tmp_path: Path, statement: str) -> None:
    reserve(budget)
    change(tmp_path, statement)
    with pytest.raises(LedgerError, match="it is not a database of spends"):
        reserve(budget, "e/t/2")
    with pytest.raises(LedgerError, match="it is not a database of spends"):
        report(budget)


@attack("records", "rows of a budget that nobody wrote")
@pytest.mark.parametrize("value", ["1e300", "-1e300"])
def test_rows_that_nobody_wrote_are_left_out(budget: Budget, tmp_path: Path, value: str) -> None:
    reserve(budget)
    change(tmp_path, f"UPDATE reservations SET at = {value}, owner = 'x:99999999999999999999:1'")
    assert report(budget).reservations == ()


@attack("records", "a negative spend")
def test_a_spend_can_not_be_negative(budget: Budget, tmp_path: Path) -> None:
    asyncio.run(budget.settle(reserve(budget), runtime="r", model=None, role=None, tokens=None, usd=0.1))
    with pytest.raises(sqlite3.IntegrityError):
        change(tmp_path, "UPDATE spends SET usd = -5")
    assert report(budget).day.spent_usd == 0.1


@attack("records", "a spend's key that is no plain text")
@pytest.mark.parametrize("key", ["", "x" * 501, "a\0b", "\ud800"])
def test_a_key_is_bounded_text(budget: Budget, key: str) -> None:
    with pytest.raises(BadTask, match="can't be the key of a spend"):
        reserve(budget, key)


@attack("records", "SQL in a program's own name")
def test_what_programs_say_of_themselves_is_only_text(budget: Budget) -> None:
    held = reserve(budget, "e'); DROP TABLE spends; --")
    name = "m'); DROP TABLE spends; --\ud800\0" + "x" * 10_000
    asyncio.run(budget.settle(held, runtime=name, model=name, role=name, tokens=Tokens(output=1), usd=0.1))
    (total,) = report(budget).models
    assert total.name is not None
    assert total.name.startswith("m'); DROP TABLE spends; --?x")
    assert len(total.name) <= 200


@attack("records", "figures that overflow a budget")
def test_a_hard_budget_is_not_talked_over_by_huge_figures(tmp_path: Path) -> None:
    hard = Budget(tmp_path, BudgetConfig(day=BudgetLimit(usd=1.0, tokens=100), hard=True), Prices(), mode="mcp")
    held = asyncio.run(hard.reserve("k", Estimate(1.0, 100), execution_id="e", task_id="t"))
    asyncio.run(hard.settle(held, runtime="r", model=None, role=None, tokens=Tokens(output=2**64), usd=float("-inf")))
    with pytest.raises(BudgetExceeded):
        asyncio.run(hard.reserve("k2", Estimate(0.01, 1), execution_id="e", task_id="t2"))


@attack("grants", "a caller who declares that a command costs next to nothing")
@pytest.mark.parametrize("declared", [{"max_cost_usd": 0}, {"max_cost_usd": 1e-9}, {"budget": {"usd": 1e-9}}])
@pytest.mark.parametrize("configured", [{"max_cost_usd": 0.2}, {}])
async def test_a_caller_does_not_say_what_the_programs_of_others_cost(
    tmp_path: Path, declared: dict[str, Any], configured: dict[str, Any]
) -> None:
    """An unknown cost counts as what was held: whoever could set that would never run out of it."""
    ran = tmp_path / "ran"
    argv = ["sh", "-c", f"cat >/dev/null; echo x >> {ran}; echo done"]
    config = EngineConfig.model_validate(
        {
            "commands": {"ask": {"argv": argv, "stdin": True, **configured}},
            "budget": {"day": {"usd": 0.5}, "hard": True},
        }
    )

    async with Engine(tmp_path, config=config, trusted=True, mode="mcp") as engine:
        for _ in range(5):
            await engine.execute(
                Task.model_validate({"command": "ask", "description": "x", **declared}), may_start=False
            )
        spent = (await engine.budget()).day.spent_usd
    runs = len(ran.read_text().split()) if ran.exists() else 0
    assert runs <= (2 if configured else 0)
    assert spent == pytest.approx(0.2 * runs), "each run that nobody knows the cost of counts as the project's own word"


class TestHotJournal:
    """Before SQLite opens a database it rolls back what a journal beside it says, and deletes the file that the
    journal names.
    """

    def forge(self, database: Path, victim: Path) -> None:
        with contextlib.closing(sqlite3.connect(database, isolation_level=None)) as made:
            made.execute("CREATE TABLE t (x)")
        magic, page, name = bytes.fromhex("d9d505f920a163d7"), 4096, str(victim).encode()
        header = magic + struct.pack(">IIIII", 0, 1234, database.stat().st_size // page, 512, page)
        super_journal = (
            struct.pack(">I", 0x40000000 // page + 1) + name + struct.pack(">II", len(name), sum(name)) + magic
        )
        Path(f"{database}-journal").write_bytes(header.ljust(512, b"\0") + super_journal)

    def test_sqlite_itself_would(self, tmp_path: Path) -> None:
        """So that the test below can fail."""
        victim = tmp_path / "victim.txt"
        victim.write_text("precious")
        self.forge(tmp_path / "some.db", victim)
        with contextlib.closing(sqlite3.connect(tmp_path / "some.db")) as database:
            database.execute("SELECT * FROM t").fetchall()
        assert not victim.exists()

    @attack("records", "a hot journal that names a file to delete")
    @pytest.mark.parametrize("name", ["budget.db", "usage.db"])
    def test_it_deletes_nothing(self, tmp_path: Path, name: str) -> None:
        state = tmp_path / ".go-ent"
        state.mkdir()
        victim = tmp_path / "victim.txt"
        victim.write_text("precious")
        self.forge(state / name, victim)
        if name == "budget.db":
            with pytest.raises(LedgerError, match=r"budget.db-journal is none of ours"):
                FileLedger(tmp_path).release("x")
        else:
            assert UsageStore(state / name).all() == {}
        assert victim.read_text() == "precious"

    @attack("records", "a database of another kind")
    def test_a_database_of_another_kind_is_not_opened(self, tmp_path: Path) -> None:
        (tmp_path / ".go-ent").mkdir()
        with contextlib.closing(sqlite3.connect(tmp_path / ".go-ent" / "budget.db", isolation_level=None)) as made:
            made.execute("CREATE TABLE t (x)")
        with pytest.raises(LedgerError, match="is not a database of ours"):
            FileLedger(tmp_path).release("x")

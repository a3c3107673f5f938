"""A fleet's ledger: one for all its machines. Check and hold are one transaction, and one at a time holds money; what
the threads of a process want at once goes together.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Generic, TypeVar

from psycopg import Connection

from go_ent.dataclass import dataclass
from go_ent.engine.budget.ledger import (
    LONGEST_LABEL,
    Cost,
    Counted,
    HeldAmount,
    LedgerCall,
    Limit,
    Refusal,
    Wanted,
    storable,
)
from go_ent.engine.budget.sqlite_ledger import CENT_DUST, KEPT, fit
from go_ent.engine.core.errors import BadTask, EngineError, LedgerError
from go_ent.engine.fleet.database import Database
from go_ent.engine.fleet.ledger_sums import Account, Added, Sums, account_of, quarter
from go_ent.engine.fleet.ledger_view import PostgresView
from go_ent.sandbox.children.proc import own_identity

SHARDS = 64
MOST_AT_ONCE = 100
FORGET_EVERY = 1000  # settlements of a process
ALONE = "select pg_advisory_xact_lock(hashtextextended(%s, 1))"
USED = """
select key, '', null::float8, 0::bigint from $.spends where key = any(%(keys)s)
union all select key, owner, usd, tokens from $.holds where key = any(%(keys)s)
"""
HOLD = "insert into $.holds values (%s, %s, %s, %s, %s, %s, %s, %s, %s)"
SPEND = """
insert into $.spends values (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
on conflict (key) do update set runtime = excluded.runtime, model = excluded.model, role = excluded.role,
  usd = excluded.usd, tokens = excluded.tokens, estimated = excluded.estimated,
  tokens_estimated = excluded.tokens_estimated
"""
BEFORE = """
select key, usd, tokens, forced, at, execution_id, task_id, client, null, null, null, null from $.holds
where key = any(%(keys)s)
union all select key, reserved_usd, reserved_tokens, forced, at, execution_id, task_id, client, usd, tokens, estimated,
  tokens_estimated from $.spends where key = any(%(keys)s)
"""
T = TypeVar("T")


@dataclass(slots=True)
class Reserve:
    """One reservation that is wanted."""

    call: LedgerCall
    wanted: Wanted
    limits: Sequence[Limit]
    unknown_usd: float
    at: float
    force: bool
    done: bool = False
    answer: HeldAmount | Refusal | EngineError | None = None


@dataclass(slots=True)
class Settle:
    """One settlement that is wanted."""

    call: LedgerCall
    cost: Cost
    at: float
    limits: Sequence[Limit]
    unknown_usd: float
    done: bool = False
    answer: Counted | EngineError | None = None


Item = TypeVar("Item", Reserve, Settle)


class Turns(Generic[Item]):
    """Whoever comes first works for all who wait."""

    def __init__(self, work: Callable[[list[Item]], None]) -> None:
        self._work: Callable[[list[Item]], None] = work
        self._waiting: list[Item] = []
        self._turn, self._lock = threading.Lock(), threading.Lock()

    def do(self, item: Item) -> Item:
        with self._lock:
            self._waiting.append(item)
        with self._turn:
            while not item.done:
                with self._lock:
                    batch, self._waiting = self._waiting[:MOST_AT_ONCE], self._waiting[MOST_AT_ONCE:]
                try:
                    self._work(batch)
                except (OSError, EngineError, ValueError, TypeError, ArithmeticError) as error:
                    failed = LedgerError(f"the fleet's ledger can't be used, so nothing may be spent: {error}")
                    for one in batch:
                        one.answer = failed
                for one in batch:
                    one.done = True
        return item


class PostgresLedger:
    """`Ledger` of a fleet."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._reserving = Turns[Reserve](self._reserve)
        self._settling = Turns[Settle](self._settle)
        self._owner = f"{own_identity()}@{socket.gethostname()}"
        self._shard = int.from_bytes(os.urandom(2)) % SHARDS
        self._settled = 0

    def reserve(
        self,
        call: LedgerCall,
        wanted: Wanted,
        limits: Sequence[Limit],
        *,
        unknown_usd: float,
        at: float,
        force: bool = False,
    ) -> HeldAmount | Refusal:
        if (wanted.usd is not None and not wanted.usd >= 0) or wanted.tokens < 0:
            raise LedgerError("what is held must be usd >= 0 and tokens >= 0")
        item = self._reserving.do(Reserve(call, wanted, limits, unknown_usd, at, force))
        if isinstance(item.answer, EngineError):
            raise item.answer
        assert item.answer is not None
        return item.answer

    def _reserve(self, batch: list[Reserve]) -> None:
        tried = False

        def hold(connection: Connection) -> None:
            nonlocal tried
            keys = [one.call.key for one in batch]
            # Two round trips: up to what is read, and the rest with the commit. Others wait for the lock meanwhile.
            with connection.pipeline(), connection.transaction():
                connection.execute(ALONE.encode(), (f"{self._database.address.namespace} ledger",))
                sums = Sums(self._database, connection)
                found = connection.execute(self._database.query(USED).encode(), {"keys": keys})
                sums.read({account_of(one.call, limit): one.unknown_usd for one in batch for limit in one.limits})
                taken = {key: row for key, *row in found.fetchall()}
                held = []
                for one in batch:
                    if one.call.key in taken:
                        owner, usd, tokens = taken[one.call.key]
                        one.answer = HeldAmount(usd, tokens) if tried and owner == self._owner else _used(one.call)
                        continue
                    one.answer, forced = _answer(one, sums)
                    if isinstance(one.answer, HeldAmount):
                        taken[one.call.key] = ["", None, 0]
                        held.append((one, one.answer, forced))
                tried = True  # the connection may be lost after it was done
                self._write_holds(connection, held)

        self._database.run(hold)

    def _write_holds(self, connection: Connection, held: list[tuple[Reserve, HeldAmount, bool]]) -> None:
        rows, added = [], Added()
        for one, amount, forced in held:
            call = one.call
            figures = (amount.usd, amount.tokens, forced, self._owner, one.at, call.client)
            rows.append((call.key, call.execution_id, call.task_id, *figures))
            added.add(one.at, call.client, amount.usd, amount.tokens)
        if rows:
            connection.cursor().executemany(self._database.query(HOLD).encode(), rows)
            added.write(self._database, connection, self._shard)

    def settle(
        self,
        call: LedgerCall,
        cost: Cost,
        *,
        at: float,
        month_start: float,
        limits: Sequence[Limit] = (),
        unknown_usd: float = 0.0,
    ) -> Counted:
        item = self._settling.do(Settle(call, cost, at, limits, unknown_usd))
        if isinstance(item.answer, EngineError):
            raise item.answer
        assert item.answer is not None
        self._settled += 1
        if self._settled % FORGET_EVERY == 0:
            self._forget(month_start)
        return item.answer

    def _settle(self, batch: list[Settle]) -> None:
        batch = sorted(batch, key=lambda one: one.call.key)  # the same order for all who lock rows

        def count(connection: Connection) -> None:
            with connection.pipeline(), connection.transaction():
                keys = [one.call.key for one in batch]
                lock = "select 1 from $.holds where key = any(%s) order by key for update"
                connection.execute(self._database.query(lock).encode(), (keys,))
                cursor = connection.execute(self._database.query(BEFORE).encode(), {"keys": keys})
                before: dict[str, Account] = {}
                for key, *row in cursor.fetchall():
                    before[key] = tuple(row)
                added = Added()
                rows = [self._counted(one, before, added) for one in batch]
                connection.cursor().executemany(self._database.query(SPEND).encode(), rows)
                gone = "delete from $.holds where key = any(%s)"
                connection.execute(self._database.query(gone).encode(), (keys,))
                added.write(self._database, connection, self._shard)
                sums = Sums(self._database, connection)
                sums.read({account_of(one.call, limit): one.unknown_usd for one in batch for limit in one.limits})
                for one in batch:
                    passed = tuple(_passed(one, sums))
                    if isinstance(one.answer, Counted) and passed:
                        one.answer = replace(one.answer, passed=passed)

        self._database.run(count)

    def _counted(self, one: Settle, before: dict[str, Account], added: Added) -> Account:
        """The row of a settlement, and its answer. What was counted before is taken back."""
        call, cost = one.call, one.cost
        fresh = (None, 0, False, one.at, call.execution_id, call.task_id, call.client)
        known = before.get(call.key, (*fresh, None, None, None, None))
        held_usd, held_tokens, forced, at, execution, task, client = known[:7]
        was_usd, was_tokens, was_estimated, was_guessed = known[7:]
        settled = was_tokens is not None
        usd, estimated, tokens, guessed = cost.usd, cost.usd is None, cost.tokens, cost.tokens is None
        if usd is None:
            usd, estimated = (was_usd, was_estimated) if settled else (held_usd, True)
        if tokens is None:
            tokens, guessed = (was_tokens, was_guessed) if settled else (held_tokens, True)
        if call.key in before:
            added.add(at, client, *((was_usd, was_tokens) if settled else (held_usd, held_tokens)), sign=-1)
        added.add(at, client, usd, tokens)
        said = (cost.runtime, cost.model, cost.role)
        labels = [None if text is None else storable(text, LONGEST_LABEL) for text in said]
        over = 0.0 if usd is None or held_usd is None else max(0.0, usd - held_usd)
        one.call = LedgerCall(call.key, execution, task, client)
        one.answer = Counted(usd, tokens, estimated, guessed, over, max(0, tokens - held_tokens))
        before[call.key] = (held_usd, held_tokens, forced, at, execution, task, client, usd, tokens, estimated, guessed)
        reserved = (held_usd, held_tokens, forced, at, client)
        return (call.key, execution, task, *labels, usd, tokens, estimated, guessed, *reserved)

    def _forget(self, month_start: float) -> None:
        """Keep the tables bounded: what is of another month goes, beyond so many."""
        old = "delete from $.spends where at < %s and at < (select at from $.spends order by at desc offset %s limit 1)"
        self._database.tell(old, (month_start, KEPT))
        self._database.tell("delete from $.quarters where quarter < %s", (quarter(month_start) - 40 * 96,))

    def release(self, key: str) -> None:
        def let_go(connection: Connection) -> None:
            with connection.transaction():
                gone = "delete from $.holds where key = %s returning usd, tokens, at, client"
                row = connection.execute(self._database.query(gone).encode(), (key,)).fetchone()
                if row is not None:
                    added = Added()
                    usd, tokens, at, client = row
                    added.add(at, client, usd, tokens, sign=-1)
                    added.write(self._database, connection, self._shard)

        self._explained(lambda: self._database.run(let_go))

    @contextmanager
    def reading(self) -> Iterator[PostgresView]:
        yield PostgresView(lambda query, given: self._explained(lambda: self._database.ask(query, given)))

    @staticmethod
    def _explained(work: Callable[[], T]) -> T:
        try:
            return work()
        except OSError as error:
            raise LedgerError(f"the fleet's ledger can't be used, so nothing may be spent: {error}") from error


def _answer(one: Reserve, sums: Sums) -> tuple[HeldAmount | Refusal, bool]:
    """What is held for a call, or the limit that has no room for it; whether it was forced."""
    wanted, forced = one.wanted, False
    usd, tokens = wanted.usd, wanted.tokens
    for limit in one.limits:
        spent_usd, spent_tokens = sums.known[account_of(one.call, limit)]
        of_task = limit.scope == "task"
        fit_usd = fit(limit.usd, spent_usd, usd, wanted.least_usd, CENT_DUST, rest=of_task and not wanted.whole)
        fit_tokens = fit(limit.tokens, spent_tokens, tokens, wanted.least_tokens, 0, rest=of_task)
        if fit_usd is None or fit_tokens is None:
            if not one.force or limit.scope == "client":  # what somebody else was given is no matter of a warning
                if fit_usd is None:
                    return Refusal(limit.scope, "usd", spent_usd, usd or 0.0, limit.usd or 0.0), False
                return Refusal(limit.scope, "tokens", spent_tokens, tokens, limit.tokens or 0), False
            forced = True
            continue
        usd, tokens = None if usd is None else fit_usd, int(fit_tokens)
    sums.add(one.call, one.at, one.unknown_usd if usd is None else usd, tokens)
    return HeldAmount(usd, tokens), forced


def _passed(one: Settle, sums: Sums) -> Iterator[Refusal]:
    for limit in one.limits:
        account = account_of(one.call, limit)
        if account not in sums.known:
            sums.read({account: one.unknown_usd})
        usd, tokens = sums.known[account]
        if limit.usd is not None and usd > limit.usd + CENT_DUST:
            yield Refusal(limit.scope, "usd", usd, 0.0, limit.usd)
        if limit.tokens is not None and tokens > limit.tokens:
            yield Refusal(limit.scope, "tokens", tokens, 0.0, limit.tokens)


def _used(call: LedgerCall) -> BadTask:
    return BadTask(f"{call.key} has been reserved before: each try needs a key of its own")

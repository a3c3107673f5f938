"""A fleet's ledger: one for all its machines. Check and hold are one transaction, and one at a time holds money; what
the threads of a process want at once goes together.
"""

from __future__ import annotations

import math
import os
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar

from psycopg import Connection, Cursor

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
from go_ent.engine.fleet.database import Away, Database
from go_ent.engine.fleet.ledger_sums import Account, Added, Sums, account_of, as_json, quarter, window
from go_ent.engine.fleet.ledger_view import PostgresView
from go_ent.sandbox.children.proc import own_identity

SHARDS = 64
MOST_AT_ONCE = 100
LINGER_S = 0.002  # that a batch waits for those who came together the last time
FORGET_EVERY = 1000  # settlements of a process
ALONE = "select pg_advisory_xact_lock(hashtextextended(%s, 1))"
USED = """
select key, '', null::float8, 0::bigint from $.spends where key = any(%(keys)s)
union all select key, owner, usd, tokens from $.holds where key = any(%(keys)s)
"""
HOLD_ALL = "select $.hold_all(%s, %s, %s, %s, %s)"
COUNT_ALL = "select $.count_all(%s, %s, %s)"
BEFORE = """
select key, usd, tokens, forced, at, execution_id, task_id, client, null, null, null, null from $.holds
where key = any(%(keys)s)
union all select key, reserved_usd, reserved_tokens, forced, at, execution_id, task_id, client, usd, tokens, estimated,
  tokens_estimated from $.spends where key = any(%(keys)s)
"""
SPENDS = (
    *("key", "execution_id", "task_id", "runtime", "model", "role", "usd", "tokens", "estimated", "tokens_estimated"),
    *("reserved_usd", "reserved_tokens", "forced", "at", "client"),
)
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
Batch = list[Reserve | Settle]


class Turns:
    """Whoever comes first works for all who wait."""

    def __init__(self, work: Callable[[Batch], None]) -> None:
        self._work = work
        self._waiting: Batch = []
        self._changed = threading.Condition()
        self._busy, self._last = False, 0

    def do(self, item: Item) -> Item:
        with self._changed:
            self._waiting.append(item)
            self._changed.notify_all()
            while True:
                self._changed.wait_for(lambda: item.done or not self._busy)
                if item.done:
                    return item
                self._busy = True
                if self._last > 1:  # those who were answered together come again together
                    self._changed.wait_for(lambda: len(self._waiting) >= self._last, LINGER_S)
                batch, self._waiting = self._waiting[:MOST_AT_ONCE], self._waiting[MOST_AT_ONCE:]
                self._changed.release()
                try:
                    self.work(batch)
                finally:
                    self._changed.acquire()
                    for one in batch:
                        one.done = True
                    self._busy, self._last = False, len(batch)
                    self._changed.notify_all()

    def work(self, batch: Batch) -> None:
        try:
            self._work(batch)
        except (OSError, EngineError, ValueError, TypeError, ArithmeticError) as error:
            away = isinstance(error, Away) and error.__cause__ is None
            if len(batch) > 1 and not away:  # one of them is wrong, and fails alone
                for one in batch:
                    self.work([one])
                return
            for one in batch:
                one.answer = LedgerError(f"the fleet's ledger can't be used, so nothing may be spent: {error}")


class PostgresLedger:
    """`Ledger` of a fleet."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._turns = Turns(self.do_all)
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
        if (wanted.usd is not None and not 0 <= wanted.usd < math.inf) or wanted.tokens < 0:
            raise LedgerError("what is held must be usd >= 0 and tokens >= 0")
        item = self._turns.do(Reserve(call, wanted, limits, unknown_usd, at, force))
        if isinstance(item.answer, EngineError):
            raise item.answer
        assert item.answer is not None
        return item.answer

    def do_all(self, batch: Batch) -> None:
        """All that threads of this process want now, in one transaction. What does not fit whole, which is seldom, is
        looked at one by one in another.
        """
        wanted = [one for one in batch if isinstance(one, Reserve)]
        spent = [one for one in batch if isinstance(one, Settle)]
        held = [(one, HeldAmount(one.wanted.usd, one.wanted.tokens), False) for one in wanted]
        tries = 0

        def work(connection: Connection) -> bool:
            nonlocal tries
            tries += 1
            if not spent:
                return all_held(self._write_holds(connection, held, totals(wanted)))
            with connection.pipeline(), connection.transaction():
                rows, added = self._counted_all(connection, spent)
                # The ledger's lock comes before those of rows that others add to.
                holding = self._write_holds(connection, held, totals(wanted)) if wanted else None
                given = (as_json(rows), added.json(), self._shard)
                connection.execute(self._database.query(COUNT_ALL).encode(), given)
                self._look_for_passed(connection, spent)
                return holding is None or all_held(holding)

        if self._database.run(work):
            for one, amount, _ in held:
                one.answer = amount
        else:
            self._reserve(wanted, tried=tries > 1)

    def _reserve(self, batch: list[Reserve], *, tried: bool) -> None:
        def hold(connection: Connection) -> None:
            nonlocal tried
            keys = [one.call.key for one in batch]
            # Two round trips: up to what is read, and the rest with the commit. Others wait for the lock meanwhile.
            with connection.pipeline(), connection.transaction():
                connection.execute(ALONE.encode(), (self._space,))
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
                if held:
                    self._write_holds(connection, held)

        self._database.run(hold)

    @property
    def _space(self) -> str:
        return f"{self._database.address.namespace} ledger"

    def _write_holds(
        self, connection: Connection, held: list[tuple[Reserve, HeldAmount, bool]], accounts: str = "[]"
    ) -> Cursor:
        rows, added = [], Added()
        for one, amount, forced in held:
            call = one.call
            figures = {"usd": amount.usd, "tokens": amount.tokens, "forced": forced, "owner": self._owner}
            who = {"execution_id": call.execution_id, "task_id": call.task_id, "client": call.client}
            rows.append({"key": call.key, **who, **figures, "at": one.at})
            added.add(one.at, call.client, amount.usd, amount.tokens)
        given = (self._space, accounts, as_json(rows), added.json(), self._shard)
        return connection.execute(self._database.query(HOLD_ALL).encode(), given)

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
        item = self._turns.do(Settle(call, cost, at, limits, unknown_usd))
        if isinstance(item.answer, EngineError):
            raise item.answer
        assert item.answer is not None
        self._settled += 1
        if self._settled % FORGET_EVERY == 0:
            self._forget(month_start)
        return item.answer

    def _counted_all(self, connection: Connection, batch: list[Settle]) -> tuple[Iterable[dict[str, Any]], Added]:
        """The rows of settlements, and what they add. Nobody else settles them until the transaction ends."""
        keys = sorted(one.call.key for one in batch)  # the same order for all who lock rows
        lock = "select 1 from $.holds where key = any(%s) order by key for update"
        connection.execute(self._database.query(lock).encode(), (keys,))
        cursor = connection.execute(self._database.query(BEFORE).encode(), {"keys": keys})
        before: dict[str, Account] = {}
        for key, *row in cursor.fetchall():
            before[key] = tuple(row)
        added = Added()
        rows = {one.call.key: self._counted(one, before, added) for one in batch}  # of one key the last counts
        return [rows[key] for key in sorted(rows)], added

    def _look_for_passed(self, connection: Connection, batch: list[Settle]) -> None:
        sums = Sums(self._database, connection)
        sums.read({account_of(one.call, limit): one.unknown_usd for one in batch for limit in one.limits})
        for one in batch:
            passed = tuple(_passed(one, sums))
            if isinstance(one.answer, Counted) and passed:
                one.answer = replace(one.answer, passed=passed)

    def _counted(self, one: Settle, before: dict[str, Account], added: Added) -> dict[str, Any]:
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
        values = (call.key, execution, task, *labels, usd, tokens, estimated, guessed)
        return dict(zip(SPENDS, (*values, held_usd, held_tokens, forced, at, client), strict=True))

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
                    add = self._database.query("select $.add_up(%s, %s)")
                    connection.execute(add.encode(), (added.json(), self._shard))

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


def all_held(cursor: Cursor) -> bool:
    ((done,),) = cursor.fetchall()
    return bool(done)


def totals(batch: list[Reserve]) -> str:
    """What a batch wants of each account in all, and the least that a limit allows: what fits so fits in any order."""
    rows: dict[Account, dict[str, Any]] = {}
    for one in batch:
        for limit in one.limits:
            account = account_of(one.call, limit)
            row = rows.setdefault(account, {**window(account), "usd": 0.0, "tokens": 0, "guess": 0.0})
            row["guess"] = max(row["guess"], one.unknown_usd)
            row["usd"] += one.unknown_usd if one.wanted.usd is None else one.wanted.usd
            row["tokens"] += one.wanted.tokens
            for name, most in (("most_usd", limit.usd), ("most_tokens", limit.tokens)):
                if most is not None and most < math.inf:
                    row[name] = min(most, row.get(name, most))
    return as_json(rows.values())


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

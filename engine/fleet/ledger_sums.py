"""What counts against the limits of a fleet's budget: looked up within a transaction, and added to.

What counts against a day or a month is added up in quarters of an hour, in which the days of all time zones begin. Each
process adds in rows of its own, so that none waits for another's.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any

from psycopg import Connection

from go_ent.dataclass import dataclass
from go_ent.engine.budget.ledger import LedgerCall, Limit
from go_ent.engine.fleet.database import Database

QUARTER_S = 900
Account = tuple[Any, ...]  # what a limit is counted over: a window of time, or an execution, or a task of one
WINDOW_SUM = """
select %(n)s, coalesce(sum(usd + unknown * %(unknown)s), 0)::float8, coalesce(sum(tokens), 0)::bigint from $.quarters
where quarter >= %(first)s and quarter < %(last)s and (%(client)s::text is null or client = %(client)s)
"""
EXECUTION_SUM = """
select %(n)s, coalesce(sum(coalesce(usd, %(unknown)s)), 0)::float8, coalesce(sum(tokens), 0)::bigint from (
  select usd, tokens, task_id from $.spends where execution_id = %(execution)s
  union all select usd, tokens, task_id from $.holds where execution_id = %(execution)s) x
where %(task)s::text is null or task_id = %(task)s
"""


@dataclass(slots=True)
class Sums:
    """What counts against limits, within one transaction."""

    database: Database
    connection: Connection
    known: dict[Account, tuple[float, int]] = field(default_factory=dict)

    def read(self, wanted: Mapping[Account, float]) -> None:
        """Look up accounts, within a pipeline; a cost that is not known counts as so many dollars."""
        accounts = [one for one in wanted if one not in self.known]
        cursors = [self._ask(number, one, wanted[one]) for number, one in enumerate(accounts)]
        for cursor in cursors:
            ((number, usd, tokens),) = cursor.fetchall()
            self.known[accounts[number]] = float(usd), int(tokens)

    def _ask(self, number: int, account: Account, unknown: float) -> Any:
        given: dict[str, Any] = {"n": number, "unknown": unknown}
        query = WINDOW_SUM if account[0] == "window" else EXECUTION_SUM
        return self.connection.execute(self.database.query(query).encode(), given | window(account))

    def add(self, call: LedgerCall, at: float, usd: float, tokens: int) -> None:
        """Count what was just held for a call."""
        for account, (spent, counted) in self.known.items():
            if account[0] == "window":
                fits = account[1] <= at < account[2] and account[3] in (None, call.client)
            else:
                fits = account[1] == call.execution_id and account[2] in (None, call.task_id)
            if fits:
                self.known[account] = spent + usd, counted + tokens


def quarter(at: float) -> int:
    return math.floor(min(max(at, 0.0), 1e11) / QUARTER_S)


def window(account: Account) -> dict[str, Any]:
    """An account as queries are given it."""
    if account[0] == "window":
        _, start, end, client = account
        return {"first": quarter(start), "last": math.ceil(min(end, 1e11) / QUARTER_S), "client": client}
    return {"execution": account[1], "task": account[2]}


def account_of(call: LedgerCall, limit: Limit) -> Account:
    """What a limit is counted over."""
    if limit.scope in ("day", "month", "client"):
        return "window", limit.start, limit.end, call.client if limit.scope == "client" else None
    return "execution", call.execution_id, call.task_id if limit.scope == "task" else None


class Added:
    """What is added to the quarters of an hour."""

    def __init__(self) -> None:
        self._figures: dict[tuple[int, str], list[float]] = {}

    def add(self, at: float, client: str, usd: float | None, tokens: int, *, sign: int = 1) -> None:
        figures = self._figures.setdefault((quarter(at), client), [0.0, 0, 0])
        figures[0] += sign * (usd or 0.0)
        figures[1] += sign * (usd is None)
        figures[2] += sign * tokens

    def json(self) -> str:
        """As `$.add_up` takes it."""
        return as_json(
            {"quarter": number, "client": client, "usd": usd, "unknown": int(unknown), "tokens": int(tokens)}
            for (number, client), (usd, unknown, tokens) in self._figures.items()
        )


def as_json(rows: Iterable[Mapping[str, Any]]) -> str:
    """Rows for a function of the server's. What is no number of theirs is refused."""
    return json.dumps(list(rows), allow_nan=False)

"""What a fleet's ledger says, for people and reports."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from typing import Any, Literal

from go_ent.engine.budget.ledger import GroupSum, HeldSum, OpenHold, SpentSum

SPENT = """count(*), coalesce(sum(coalesce(usd, %(unknown)s)), 0)::float8, coalesce(sum(tokens), 0)::bigint,
  coalesce(sum(coalesce(usd, %(unknown)s)) filter (where estimated), 0)::float8,
  coalesce(sum(tokens) filter (where tokens_estimated), 0)::bigint, count(*) filter (where estimated),
  coalesce(sum(greatest(0, usd - reserved_usd)), 0)::float8, count(*) filter (where forced)"""
HELD = """owner, count(*), coalesce(sum(coalesce(usd, %(unknown)s)), 0)::float8, coalesce(sum(tokens), 0)::bigint,
  count(*) filter (where forced)"""
WITHIN = "at >= %(start)s and at < %(end)s and (%(client)s::text is null or client = %(client)s)"


class PostgresView:
    """`LedgerView` of a fleet. Each question is answered as of when it is asked."""

    def __init__(self, ask: Callable[[str, Any], list[tuple[Any, ...]]]) -> None:
        self._ask = ask

    def spent(self, start: float, end: float, *, unknown_usd: float, client: str | None) -> SpentSum:
        given = {"unknown": unknown_usd, "start": start, "end": end, "client": client}
        return SpentSum(*self._ask(f"select {SPENT} from $.spends where {WITHIN}", given)[0])  # noqa: S608

    def held(self, start: float, end: float, *, unknown_usd: float, client: str | None) -> Iterator[HeldSum]:
        given = {"unknown": unknown_usd, "start": start, "end": end, "client": client}
        rows = self._ask(f"select {HELD} from $.holds where {WITHIN} group by owner", given)  # noqa: S608
        return (HeldSum(here(owner), *figures) for owner, *figures in rows)

    def spent_by(self, execution_id: str) -> SpentSum:
        query = f"select {SPENT} from $.spends where execution_id = %(execution)s"  # noqa: S608
        return SpentSum(*self._ask(query, {"unknown": 0.0, "execution": execution_id})[0])

    def held_for(self, execution_id: str) -> Iterator[HeldSum]:
        query = f"select {HELD} from $.holds where execution_id = %(execution)s group by owner"  # noqa: S608
        rows = self._ask(query, {"unknown": 0.0, "execution": execution_id})
        return (HeldSum(here(owner), *figures) for owner, *figures in rows)

    def clients(self, start: float, end: float, most: int) -> list[str]:
        query = (
            "select client from $.spends where at >= %(start)s and at < %(end)s and client <> '' "
            "union select client from $.holds where at >= %(start)s and at < %(end)s and client <> '' "
            "order by 1 limit %(most)s"
        )
        return [name for (name,) in self._ask(query, {"start": start, "end": end, "most": most})]

    def groups(self, by: Literal["runtime", "model"], start: float, end: float, most: int) -> list[GroupSum]:
        query = (
            f"select {by}, count(*), coalesce(sum(usd), 0)::float8 as dollars, coalesce(sum(tokens), 0)::bigint, "  # noqa: S608
            "count(*) filter (where estimated) from $.spends where at >= %s and at < %s group by 1 "
            "order by dollars desc, 1 limit %s"
        )
        return [GroupSum(*row) for row in self._ask(query, (start, end, most))]

    def owners(self) -> dict[str, int]:
        return {here(owner): count for owner, count in self._ask("select owner, count(*) from $.holds group by 1", ())}

    def oldest(self, most: int) -> list[OpenHold]:
        rows = self._ask("select key, usd, tokens, at, owner from $.holds order by at, key limit %s", (most,))
        return [OpenHold(key, usd, tokens, at, here(owner)) for key, usd, tokens, at, owner in rows]


def here(owner: str) -> str:
    """The identity of a process of this machine, by which others tell whether it lives."""
    return owner.removesuffix(f"@{socket.gethostname()}")

"""The index of a fleet's executions: a table beside their records, written with them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Unpack

from go_ent.composer.project.items import apart
from go_ent.engine.core.ids import ID, PREFIX, is_meant
from go_ent.engine.executions.history import UNKNOWN, CallTotals, ExecutionRecord, Grouping, Totals
from go_ent.engine.executions.state import ExecutionState
from go_ent.engine.executions.storage import Filters, IndexCheck, Row
from go_ent.engine.executions.totals import records_from
from go_ent.engine.fleet.database import Database
from go_ent.engine.fleet.writer import Entry, Statement, Writer
from go_ent.engine.storage.index_schema import MOST_ROWS, STORED, find_query, first_id, like
from go_ent.engine.storage.index_totals import SUMS, storable

KEPT = tuple(name for name in STORED.split(", ") if name != "size")
FOUND = f"{', '.join(f'e.{name}' for name in KEPT)}, case when s.packed then s.size else 0 end, s.packed"
END = "right(id, 8)"  # the short form of an id
NAMES = (*KEPT, "size", "packed")
# Who comes late with an older state changes nothing; what was removed stays so.
PUT = f"""
insert into $.executions as e ({", ".join(KEPT)}, seq)
select {", ".join(["%s"] * (len(KEPT) + 1))} where exists (select from $.slots where id = %s)
on conflict (id) do update set {", ".join(f"{name} = excluded.{name}" for name in (*KEPT[1:], "seq"))}
where excluded.seq >= e.seq
"""  # noqa: S608
TRY = "insert into $.tries select %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s where exists (select from $.slots where id = %s)"  # noqa: E501
CALLS = "insert into $.tool_calls select %s, %s, %s, %s, %s, %s where exists (select from $.slots where id = %s)"
TERMS = {
    "status": "e.status = %s",
    "kind": "e.kind = %s",
    "parent": "e.parent = %s",
    "client": "e.client <> '' and e.client = %s",
    "since": "e.id >= %s",
    "before": "e.id < %s",
    "below": "e.id < %s",
    "text": "e.title ilike %s escape '!'",
    "tool": "%s in (select t.tool from $.tries t where t.execution = e.id union "
    "select c.tool from $.tool_calls c where c.execution = e.id)",
    "runtime": "%s in (select t.runtime from $.tries t where t.execution = e.id)",
}


def putting(state: ExecutionState) -> Statement:
    """What puts a state into the index."""
    fields = state.model_dump(include=set(KEPT) - {"image", "resumable"})
    fields |= {"image": state.environment.image, "resumable": state.resumable}
    values = [storable(value) if isinstance(value, str) else value for value in (fields[name] for name in KEPT)]
    return PUT, (*values, state.seq, state.id)


def noting(execution_id: str, records: Iterable[ExecutionRecord], calls: Mapping[str, CallTotals]) -> list[Statement]:
    """What keeps what an execution came to, instead of what was kept of it."""
    statements: list[Statement] = [
        ("delete from $.tries where execution = %s", (execution_id,)),
        ("delete from $.tool_calls where execution = %s", (execution_id,)),
    ]
    for number, one in enumerate(records):
        labels = [storable(text) for text in (one.runtime, one.model, one.role, one.strategy, one.tool, one.day)]
        figures = (int(one.success), one.tokens, one.cost_usd, one.duration_ms, one.at)
        statements.append((TRY, (execution_id, number, *labels, *figures, execution_id)))
    for tool, made in {storable(tool): made for tool, made in calls.items()}.items():
        statements.append((CALLS, (execution_id, tool, made.calls, made.failures, made.ms, made.at, execution_id)))
    return statements


class PostgresIndex:
    """`ExecutionIndex` of a fleet. What this process has told it, it knows when it is asked."""

    def __init__(self, database: Database, writer: Writer, load: Callable[[str], ExecutionState]) -> None:
        self._database, self._writer, self._load = database, writer, load

    def _ask(self, query: str, given: Any = ()) -> list[tuple[Any, ...]]:
        self._writer.flush()
        return self._database.ask(query, given)

    def together(self) -> AbstractContextManager[None]:
        return nullcontext()

    def put(self, state: ExecutionState) -> None:
        self._writer.add(Entry(lambda: [putting(state)]))

    def note(self, execution_id: str, records: Iterable[ExecutionRecord], calls: Mapping[str, CallTotals]) -> None:
        statements = noting(execution_id, records, calls)
        self._writer.add(Entry(lambda: statements))

    def remove(self, *ids: str) -> None:
        self._writer.add(Entry(lambda: [("delete from $.executions where id = any(%s)", (list(ids),))]))

    def find(self, text: str) -> list[str]:
        if not PREFIX.fullmatch(text):
            return []
        query, given = find_query(text)
        query = query.replace("FROM executions", "FROM $.executions").replace("substr(id, -8)", END).replace("?", "%s")
        return [one for (one,) in self._ask(query, given) if ID.fullmatch(one) and is_meant(text, one)][:4]

    def shared(self) -> set[str]:
        query = f"select {END} from $.executions group by 1 having count(*) > 1 limit %s"  # noqa: S608
        return {name for (name,) in self._ask(query, (MOST_ROWS,))}

    def rows(self, limit: int = 50, **filters: Unpack[Filters]) -> list[Row]:
        given: dict[str, Any] = {name: value for name, value in filters.items() if value is not None}
        if given.get("client") == "":
            del given["client"]
        values = [self._value(name, value) for name, value in given.items()]
        terms = " and ".join(TERMS[name] for name in given)
        query = (
            f"select {FOUND} from $.executions e join $.slots s using (id) "  # noqa: S608
            f"{'where ' + terms if terms else ''} order by e.id desc limit %s"
        )
        return self.read(self._ask(query, (*values, min(max(0, limit), MOST_ROWS))))

    @staticmethod
    def _value(name: str, value: Any) -> Any:
        if name in ("since", "before"):
            return first_id(value)
        return like(value) if name == "text" else value.replace("\0", "") if isinstance(value, str) else value

    def calls(self, ids: Sequence[str]) -> dict[str, int]:
        query = "select execution, sum(calls)::bigint from $.tool_calls where execution = any(%s) group by 1"
        return {str(one): int(count) for one, count in self._ask(query, (list(ids),))}

    @staticmethod
    def read(found: Iterable[tuple[Any, ...]]) -> list[Row]:
        """Rows, checked like a file's: one that nobody of us wrote is left out."""
        rows, wrong = [], dict[str, str]()
        for one in found:
            with apart(f"the row of {str(one[0])[:80]}", wrong):
                rows.append(Row(**dict(zip(NAMES, one, strict=True))))
        return rows

    def counts(self) -> dict[str, int]:
        return {
            str(name): int(count) for name, count in self._ask("select status, count(*) from $.executions group by 1")
        }

    def totals(self, by: Grouping, *, since: float | None = None) -> dict[str, Totals]:
        given = () if since is None else (since,)
        recent = "" if since is None else " where at >= %s"
        found: dict[str, Totals] = {}
        wrong: dict[str, str] = {}
        sums = SUMS.replace("sum(tokens)", "sum(tokens)::bigint").replace(
            "sum(duration_ms)", "sum(duration_ms)::bigint"
        )
        query = f"select coalesce({by}, '{UNKNOWN}'), {sums} from $.tries{recent} group by 1"  # noqa: S608
        for name, count, successes, tokens, cost, known, took in self._ask(query, given):
            with apart(f"the totals of {str(name)[:80]}", wrong):
                figures = {"tokens": tokens, "cost_usd": cost, "costs_known": known, "costs_unknown": count - known}
                found[name] = Totals(count=count, successes=successes, duration_ms=took, **figures)
        query = f"select tool, sum(calls)::bigint, sum(failures)::bigint, sum(ms) from $.tool_calls{recent} group by 1"  # noqa: S608
        for name, made, failures, ms in self._ask(query, given) if by == "tool" else ():
            with apart(f"the calls of {str(name)[:80]}", wrong):
                found[name] = found.get(name, Totals()).with_calls(CallTotals(made, failures, ms))
        return dict(sorted(found.items()))

    def _unknown(self) -> list[str]:
        """Executions that have a record and are not in the index, the newest first."""
        query = (
            "select s.id from $.slots s left join $.executions e using (id) "
            "where e.id is null and s.id not like '%%/%%' order by s.id desc limit %s"
        )
        return [one for (one,) in self._ask(query, (MOST_ROWS,)) if ID.fullmatch(one)]

    def missing(self) -> dict[str, str]:
        wrong: dict[str, str] = {}
        for one in self._unknown()[:1000]:
            with apart(one, wrong):
                self._load(one)
        return wrong

    def rebuild(self) -> int:
        wrong: dict[str, str] = {}
        for one in self._unknown():
            with apart(one, wrong):
                state = self._load(one)
                self.put(state)
                self.note(one, records_from(state), {})
        return int(self._ask("select count(*) from $.executions")[0][0])

    def check(self) -> IndexCheck | None:
        ((known, there),) = self._ask(
            "select (select count(*) from $.executions), (select count(*) from $.slots where id not like '%%/%%')"
        )
        return IndexCheck(known, there, behind=known < there) if there else None

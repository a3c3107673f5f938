"""Records of a fleet's journals: rows of lines, read like files are. What can't be believed is said to be lost."""

from __future__ import annotations

from collections.abc import Iterator

from go_ent.engine.executions.storage import Record
from go_ent.engine.fleet.database import Database
from go_ent.engine.storage.records import MAX_LINE, decode, lost

MOST_ROWS = 200  # at once
OF_THE_EXECUTION = frozenset({"created", "status", "step_finished", "sent", "note"})  # what no part of one says
MOST_REST = 256 << 10  # bytes of records that are told with the end of what they are of
MOST_BYTES = 8 << 20  # at once of one who follows, if one row is not more
READ = """
select start, octet_length(data), case when octet_length(data) <= %(most)s then data end from $.lines
where slot = %(slot)s and start >= %(start)s order by start limit %(rows)s
"""


class Lines:
    """Goes through a journal, a record at a time. Where records are lost, a `note` stands in their place."""

    def __init__(self, database: Database, slot: str) -> None:
        self._database, self._slot = database, slot

    def __iter__(self) -> Iterator[Record]:
        offset, seq, at = 0, 0, 0.0
        while True:
            rows = _rows(self._database, self._slot, offset)
            for start, size, data in rows:
                offset = start + max(1, size)
                for record in _decoded(data):
                    if record["seq"] <= seq:  # written twice, or by nobody of us
                        continue
                    if record["seq"] != seq + 1:
                        yield {"at": at, "seq": record["seq"] - 1, "kind": "note", **lost(seq + 1, record["seq"] - 1)}
                    seq, at = record["seq"], record["at"]
                    yield record
            if len(rows) < MOST_ROWS:
                return


def read_rows(database: Database, slot: str, offset: int, most: int) -> tuple[list[Record], int]:
    """The records from *offset* on, about *most* of them at once, and where to read on."""
    records: list[Record] = []
    taken = 0
    for start, size, data in _rows(database, slot, offset):
        if len(records) >= most or (taken and taken + size > MOST_BYTES):
            break
        taken += size
        offset = start + max(1, size)
        records += _decoded(data)
    return records, offset


def rest_of(output: object, after: int) -> Iterator[Record]:
    """The records that were told with an end, after those that are on record."""
    rest = output.get("rest") if isinstance(output, dict) else None
    if isinstance(rest, str) and len(rest) <= MOST_REST:
        yield from (record for record in _decoded(rest.encode(errors="replace")) if record["seq"] > after)


def _rows(database: Database, slot: str, offset: int) -> list[tuple[int, int, bytes | None]]:
    most = {"most": 2 * MAX_LINE, "slot": slot, "start": min(max(0, offset), 1 << 62), "rows": MOST_ROWS}
    return [(start, size, data) for start, size, data in database.ask(READ, most)]


def _decoded(data: bytes | None) -> Iterator[Record]:
    for line in (data or b"").splitlines(keepends=True):
        found = decode(line)
        if found is not None:
            yield found[0]


def bare(record: Record) -> Record:
    """What a record says, without what another journal says of its own."""
    return {name: value for name, value in record.items() if name not in ("seq", "at", "kind")}

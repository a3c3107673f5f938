"""Tables of records as text."""

from __future__ import annotations

import csv
import json
from typing import Any

from go_ent.engine.server.calls.record_tables import as_table, as_text

ROWS = [
    {"id": 1, "name": "a,b", "ok": True},
    {"id": None, "name": "1", "ok": False},
    {"id": 2.5, "name": "", "ok": True},
]


def test_records_are_csv_without_loss_of_kind() -> None:
    table = as_table(ROWS)
    assert table == 'id,name,ok\n1,"a,b",true\n,"1",false\n2.5,"",true'
    assert [row["name"] for row in csv.DictReader(table.splitlines())] == ["a,b", "1", ""]


def test_a_text_can_t_begin_another_record() -> None:
    table = as_table([{"a": "x\nfake,row", "b": 'say "hi"'}] * 3)
    assert table is not None
    assert list(csv.reader(table.splitlines(keepends=True)))[1] == ["x\nfake,row", 'say "hi"']


def test_what_is_no_table_is_json() -> None:
    values: list[Any] = [
        [],
        ROWS[:2],
        [*ROWS, {"id": 1}],
        [{"a": [1]}] * 3,
        [{}] * 3,
        [1, 2, 3],
        {"a": 1},
        None,
        "text",
    ]
    for value in values:
        assert as_table(value) is None
        assert as_text(value) == (value if isinstance(value, str) else json.dumps(value, separators=(",", ":")))

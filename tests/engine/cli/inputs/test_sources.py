"""What `--each` runs over: values of a stream, one a line or printed over several, and files."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from go_ent.engine.cli import UsageError
from go_ent.engine.cli.inputs.sources import Files, Item, Lines, Source


def all_of(source: Source) -> list[Item]:
    found: list[Item] = []
    while some := source.read():
        found += some
    return found


def values(text: str) -> list[tuple[int, str]]:
    stream: Any = io.BufferedReader(io.BytesIO(text.encode()))
    return [(item.number, item.data.decode()) for item in all_of(Lines(stream))]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("1\n\n2", [(1, "1"), (3, "2")]),
        ('{"a": 1}\n{"a": 2}\n', [(1, '{"a": 1}'), (2, '{"a": 2}')]),
        ('{\n  "a": 1\n}\n[\n 1,\n 2\n]\n3', [(1, '{\n  "a": 1\n}'), (4, "[\n 1,\n 2\n]"), (8, "3")]),
        ('{\n "a": "} {",\n "b": "\\"{"\n}\n1', [(1, '{\n "a": "} {",\n "b": "\\"{"\n}'), (5, "1")]),
        ('{"a": [\n1]}\n2', [(1, '{"a": [\n1]}'), (3, "2")]),
        ('{"a": "bro\n{"a": 2}\n', [(1, '{"a": "bro'), (2, '{"a": 2}')]),
        ('{"a": 1,\n{"a": 2}\n', [(1, '{"a": 1,'), (2, '{"a": 2}')]),
        ("[\n1,\n", [(1, "[\n1,\n")]),
        ("hello\n", [(1, "hello")]),
        ('{\n "a": 1\n}{\n "b": 2\n}', [(1, '{\n "a": 1\n}'), (3, '{\n "b": 2\n}')]),
        ('[\n1\n] {"b": 2}\n3', [(1, "[\n1\n]"), (3, ' {"b": 2}'), (4, "3")]),
    ],
    ids=str,
)
def test_values_of_a_stream(text: str, found: list[tuple[int, str]]) -> None:
    assert values(text) == found


def test_files_are_one_value_each_or_one_a_line(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{\n"a": 1}')
    (tmp_path / "b.jsonl").write_text("1\n\n2\n")
    (tmp_path / "c.json").write_text("[1]")
    a, b, c = (str(tmp_path / name) for name in ("a.json", "b.jsonl", "c.json"))
    items = all_of(Files([a, b]))
    assert [(item.number, item.data, item.name) for item in items] == [
        (1, b'{\n"a": 1}', a),
        (2, b"1", b),
        (3, b"2", b),
    ]
    assert (Files([a, c]).total, Files([a, b]).total) == (2, None)
    for wrong, said in ((str(tmp_path), "it is a folder"), (str(tmp_path / "no"), "there is no such file")):
        with pytest.raises(UsageError, match=said):
            Files([a, wrong])

# /// tool
# name = "csv_to_records"
# ///
# /// examples
# {
#  "inputs": {"text": "name,age,member\nAnn,30,true\n\"Smith, Bob\",,false\n"},
#  "result": [{"name": "Ann", "age": 30, "member": true}, {"name": "Smith, Bob", "age": null, "member": false}]
# }
# {
#  "inputs": {"text": "code;price;\n007;1.5;1e5\n\n12345678901234567890\n"},
#  "result": [
#   {"code": "007", "price": 1.5, "column_3": "1e5"},
#   {"code": "12345678901234567890", "price": null, "column_3": null}
#  ]
# }
# {"inputs": {"text": ""}, "result": []}
# {"inputs": {"text": "a,b\n1,2,3\n"}, "error": "line 2 has 3 cells, and there are 2 columns"}
# {"inputs": {"text": "a,b\n\"1,2\n"}, "error": "line 2: unexpected end of data"}
# ///
import csv
import re
from collections.abc import Iterator
from io import StringIO
from typing import Literal

Value = str | int | float | bool | None
DELIMITERS = (",", ";", "\t", "|")
WORDS: dict[str, Value] = {"": None, "true": True, "false": False}
WHOLE = re.compile(r"-?(0|[1-9][0-9]{0,17})")
DECIMAL = re.compile(r"-?(0|[1-9][0-9]{0,14})\.[0-9]{1,17}([eE][+-]?[0-9]{1,2})?")


def csv_to_records(
    text: str,
    delimiter: Literal[",", ";", "\t", "|"] | None = None,
    convert: bool = True,
) -> list[dict[str, Value]]:
    """Read CSV text into records. The first line names the columns.

    Empty cells are null, and so are cells that a short line lacks. Empty lines are left out. Numbers and true and false
    are converted; what a number would lose, such as the zeros of 007, stays text.

    Args:
        text: The CSV text.
        delimiter: What stands between the cells; if not given, what splits the first line into the most columns.
        convert: Whether to convert cells. Without it every cell that is not empty is text.
    """
    text = text.removeprefix("\ufeff")
    csv.field_size_limit(max(1, len(text)))  # a cell may be as long as the text
    rows = list(numbered_rows(text, delimiter or best_delimiter(text)))
    columns = column_names(rows[0][1]) if rows else []
    records = []
    for line, row in rows[1:]:
        if len(row) > len(columns):
            raise ValueError(f"line {line} has {len(row)} cells, and there are {len(columns)} columns")
        cells = [converted(cell) if convert else cell or None for cell in row]
        cells += [None] * (len(columns) - len(cells))
        records.append(dict(zip(columns, cells, strict=True)))
    return records


def numbered_rows(text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """The rows that are not empty, each with the line that it ends in."""
    reader = csv.reader(StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        for row in reader:
            if any(cell.strip() for cell in row):
                yield reader.line_num, row
    except csv.Error as error:
        raise ValueError(f"line {reader.line_num}: {error}") from None


def best_delimiter(text: str) -> str:
    """What splits the first line that is not empty into the most columns."""

    def columns(delimiter: str) -> int:
        reader = csv.reader(StringIO(text.lstrip("\r\n"), newline=""), delimiter=delimiter)
        return len(next(reader, []))

    return max(DELIMITERS, key=columns)


def column_names(header: list[str]) -> list[str]:
    """A name of its own for every column, also where the header has none or has one twice."""
    names: list[str] = []
    for number, cell in enumerate(header, 1):
        name = cell.strip() or f"column_{number}"
        names.append(f"{name}_{number}" if name in names else name)
    return names


def converted(cell: str) -> Value:
    word = cell.strip()
    if word.lower() in WORDS:
        return WORDS[word.lower()]
    if WHOLE.fullmatch(word):
        return int(word)
    return float(word) if DECIMAL.fullmatch(word) else cell

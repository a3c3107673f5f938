"""A result in one of the formats that `--output` names: JSON, a table, YAML, CSV, or as it is."""

from __future__ import annotations

import csv
import io
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from go_ent.engine.cli.terminal.output import aside, plain, short, show, show_json, tty

Format = Literal["json", "table", "yaml", "csv", "raw"]
FIGURES = re.compile(r"-?[0-9][0-9,]*(\.[0-9]+)?(e[+-]?[0-9]+)?")
OutputFlag = Annotated[
    Format | None,
    Parameter(
        name=["--output", "-o"],
        help="How to print the result. By default: pretty on a terminal; in a pipe text as it is, else JSON on a line.",
    ),
]


def show_as(value: Any, form: Format) -> None:
    """Print a value in a format. What does not fit into rows is one row, or one column."""
    if form == "json":
        from pydantic_core import to_json

        text = isinstance(value, str)  # which `show_json` takes for JSON
        show_json(to_json(value).decode() if text else value, indent=2 if tty(sys.stdout) else None)
    elif form == "yaml":
        show(_yaml(value).rstrip("\n"))
    elif form == "csv":
        show(_csv(*rows_of(value)).rstrip("\n"))
    elif form == "raw":
        _raw(value)
    else:
        from go_ent.engine.cli.terminal.tables import table

        names, rows = rows_of(value)
        head = list(dict.fromkeys(map(short, names)))  # a stranger's too: they are drawn as they are
        if len(head) < len(names):
            head = [f"{at} {short(name)}" for at, name in enumerate(names, 1)]
        table(rows, head, right=[name for at, name in enumerate(head) if is_figures(row[at] for row in rows)])


def rows_of(value: Any) -> tuple[list[str], list[list[str]]]:
    """A value as a table: its heads, and its rows."""
    if isinstance(value, Mapping):
        if value and all(isinstance(one, Sequence) and not isinstance(one, str) for one in value.values()):
            lengths = {len(one) for one in value.values()}
            if len(lengths) == 1:  # columns
                rows = [[cell(one) for one in row] for row in zip(*value.values(), strict=True)]
                return [str(name) for name in value], rows
        value = [value]
    if not isinstance(value, Sequence) or isinstance(value, str):
        return ["value"], [[cell(value)]]
    if value and all(isinstance(one, Mapping) for one in value):
        head = list(dict.fromkeys(str(name) for one in value for name in one))
        return head, [[cell(one[name]) if name in one else "" for name in head] for one in value]
    if value and all(isinstance(one, Sequence) and not isinstance(one, str) for one in value):
        width = max(map(len, value))
        return [str(number) for number in range(1, width + 1)], [
            [*map(cell, one), *[""] * (width - len(one))] for one in value
        ]
    return ["value"], [[cell(one)] for one in value]


def cell(value: Any) -> str:
    """A value in a cell: text as it is, nothing for null, else JSON."""
    from pydantic_core import to_json

    if value is None:
        return ""
    return value if isinstance(value, str) else to_json(value, inf_nan_mode="null").decode()


def is_figures(cells: Any) -> bool:
    """Whether a column holds numbers alone, which are at the right."""
    found = [text for text in cells if text]
    return bool(found) and all(map(FIGURES.fullmatch, found))


def _csv(head: list[str], rows: list[list[str]]) -> str:
    made = io.StringIO()
    writer = csv.writer(made, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(rows)
    return made.getvalue()


def _yaml(value: Any) -> str:
    import json

    import yaml  # type: ignore[import-untyped]
    from pydantic_core import to_json

    class Dumper(yaml.SafeDumper):  # type: ignore[misc]
        def ignore_aliases(self, data: Any) -> bool:
            return True  # the same list twice is written twice, as JSON has it

    simple = json.loads(to_json(value, inf_nan_mode="null"))
    return str(yaml.dump(simple, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=100))


def _raw(value: Any) -> None:
    text = cell(value)
    with aside():
        sys.stdout.write(plain(text) if tty(sys.stdout) else text)
        sys.stdout.flush()

"""The table of docs/benchmarks/README.md, made from the figures that are there: `python -m benchmarks.index`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.measure import amount
from benchmarks.report import DOCS

BEGIN, END = "<!-- made by make bench -->", "<!-- made by make bench: end -->"
MOST_NAMED = 6


def found(folder: Path) -> list[dict[str, Any]]:
    """The benchmarks that left figures in the one form."""
    every = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]
    return [data for data in every if isinstance(data, dict) and "rows" in data and "bench" in data]


def table(benches: list[dict[str, Any]]) -> str:
    lines = ["| | figures | bounds kept | bounds missed | measured on |", "|---|---|---|---|---|"]
    for data in benches:
        bounded = [row for row in data["rows"] if row["met"] is not None]
        missed = [missing(row) for row in bounded if not row["met"]]
        named = "; ".join(missed[:MOST_NAMED]) + (
            f"; and {len(missed) - MOST_NAMED} more" if len(missed) > MOST_NAMED else ""
        )
        kept = f"{len(bounded) - len(missed)} of {len(bounded)}" if bounded else "none are set"
        weather = (
            f"{data['machine']}, {data['load']:g} processes wanting a core{', a quick look' if data['quick'] else ''}"
        )
        lines.append(
            f"| [{data['title']}]({data['bench']}.md) | {len(data['rows'])} | {kept} | {named or '–'} | {weather} |"
        )
    return "\n".join(lines)


def missing(row: dict[str, Any]) -> str:
    value = row["ratio"] if row["bound_on"] == "ratio" else row["value"]
    unit = "" if row["bound_on"] == "ratio" else f" {row['unit']}"
    return f"{row['name']}: {amount(value)}{unit}, where {amount(row['bound'])} is the bound"


def write(folder: Path = DOCS) -> None:
    page = folder / "README.md"
    text = page.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    page.write_text(f"{before}{BEGIN}\n{table(found(folder))}\n{END}{rest.split(END)[1]}", encoding="utf-8")


if __name__ == "__main__":
    write()

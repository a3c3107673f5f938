# /// tool
# name = "markdown_report"
# ///
# /// examples
# {
#  "inputs": {
#   "title": "Week 12",
#   "sections": [
#    {"heading": "Summary", "text": "All went well."},
#    {"heading": "Sales", "table": [{"city": "Oslo", "sold": 3}, {"city": "a|b", "note": null}]},
#    {"heading": "Next", "items": ["Call Ann", "Ship"]}
#   ]
#  },
#  "result": "# Week 12\n\n## Summary\n\nAll went well.\n\n## Sales\n\n| city | sold | note |\n| --- | ---: | --- |\n| Oslo | 3 |  |\n| a\\|b |  |  |\n\n## Next\n\n- Call Ann\n- Ship\n"
# }
# {
#  "inputs": {
#   "title": "Long",
#   "sections": [{"heading": "Numbers", "table": [{"n": 1}, {"n": 2}, {"n": 3}]}],
#   "max_rows": 1
#  },
#  "result": "# Long\n\n## Numbers\n\n| n |\n| ---: |\n| 1 |\n\n… and 2 more rows\n"
# }
# {
#  "inputs": {"title": "Empty", "sections": [{"heading": "Nothing"}]},
#  "result": "# Empty\n\n## Nothing\n\n*Nothing to report.*\n"
# }
# {"inputs": {"title": "T", "sections": [{"text": "no heading"}]}, "error": "heading"}
# ///
import json
from dataclasses import dataclass, field
from typing import Annotated, Any

Record = dict[str, Any]


@dataclass
class Section:
    """A part of the report. What it has is shown in the order text, table, items."""

    heading: Annotated[str, "The section's heading."]
    text: Annotated[str, "Paragraphs, already in Markdown."] = ""
    table: Annotated[list[Record], "Records to show as a table; the columns are their fields."] = field(
        default_factory=list
    )
    items: Annotated[list[str], "The items of a list."] = field(default_factory=list)


def markdown_report(title: str, sections: list[Section], max_rows: int = 200) -> str:
    """Write a Markdown report: a title, then sections of text, tables and lists.

    Args:
        title: The report's title.
        sections: The parts of the report, in their order.
        max_rows: How many rows of each table to show. How many more there are is said below it.
    """
    if max_rows < 0:
        raise ValueError("max_rows must be 0 or more")
    blocks = [f"# {one_line(title)}"]
    for section in sections:
        blocks += [f"## {one_line(section.heading)}", *blocks_of(section, max_rows)]
    return "\n\n".join(blocks) + "\n"


def blocks_of(section: Section, max_rows: int) -> list[str]:
    blocks = []
    if section.text.strip():
        blocks.append(section.text.strip())
    rows = [record for record in section.table if record]
    if rows:
        blocks.append(table(rows, max_rows))
    if len(rows) > max_rows:
        blocks.append(f"… and {len(rows) - max_rows} more rows")
    if section.items:
        blocks.append("\n".join(f"- {one_line(item)}" for item in section.items))
    return blocks or ["*Nothing to report.*"]


def table(records: list[Record], max_rows: int) -> str:
    columns = list(dict.fromkeys(name for record in records for name in record))
    rules = ["---:" if is_numeric(records, name) else "---" for name in columns]
    rows = [[cell(record.get(name)) for name in columns] for record in records[:max_rows]]
    return "\n".join(f"| {' | '.join(row)} |" for row in ([cell(name) for name in columns], rules, *rows))


def is_numeric(records: list[Record], name: str) -> bool:
    """Whether a column holds numbers: these stand on the right."""
    values = [record[name] for record in records if record.get(name) is not None]
    return bool(values) and all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def cell(value: Any) -> str:
    """A value as it can stand in a table: on one line, and with no bar that would end the cell."""
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return one_line(text).replace("|", "\\|")


def one_line(text: str) -> str:
    return " ".join(text.split())

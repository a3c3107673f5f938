# /// tool
# name = "merge_sources"
# requires = ["*"]
# limits = { max_tool_calls = 200 }
# ///
# /// examples
# {
#  "inputs": {"sources": ["crm", "billing"], "arguments": {"city": "Oslo"}, "key": "id"},
#  "result": {
#   "records": [{"id": 1, "name": "Ann"}, {"id": 2, "name": "Bob", "plan": "pro"}, {"id": 3, "plan": "free"}],
#   "failed": [],
#   "sources": [
#    {"source": "crm", "ok": true, "records": 2, "attempts": 1, "error": null},
#    {"source": "billing", "ok": true, "records": 2, "attempts": 1, "error": null}
#   ]
#  },
#  "calls": [
#   {
#    "tool": "crm",
#    "arguments": {"city": "Oslo"},
#    "result": [{"id": 1, "name": "Ann"}, {"id": 2, "name": "Bob"}]
#   },
#   {"tool": "billing", "result": [{"id": 2, "name": "Robert", "plan": "pro"}, {"id": 3, "plan": "free"}]}
#  ]
# }
# {
#  "inputs": {"sources": ["shaky", "down"], "key": "id", "attempts": 2, "wait_s": 0.01},
#  "result": {
#   "records": [{"id": 1}],
#   "failed": ["down"],
#   "sources": [
#    {"source": "shaky", "ok": true, "records": 1, "attempts": 2, "error": null},
#    {"source": "down", "ok": false, "records": 0, "attempts": 2, "error": "no connection"}
#   ]
#  },
#  "calls": [
#   {"tool": "shaky", "error": "busy"},
#   {"tool": "shaky", "result": [{"id": 1}]},
#   {"tool": "down", "error": "no connection"}
#  ]
# }
# {"inputs": {"sources": [], "key": "id"}, "result": {"records": [], "failed": [], "sources": []}}
# {
#  "inputs": {"sources": ["down"], "key": "id", "attempts": 1},
#  "error": "every source failed: down: no connection",
#  "calls": [{"tool": "down", "error": "no connection"}]
# }
# ///
import asyncio
import json
from dataclasses import dataclass
from typing import Any, TypedDict

Record = dict[str, Any]
LASTING = ("NotGranted", "UnknownTool", "InvalidArguments")  # errors that another attempt does not change


class SourceReport(TypedDict):
    """How a source answered."""

    source: str
    ok: bool
    records: int
    attempts: int
    error: str | None


class Merged(TypedDict):
    """The merged records, the sources that failed, and how each source answered."""

    records: list[Record]
    failed: list[str]
    sources: list[SourceReport]


@dataclass
class Answer:
    """What came of calling a source."""

    source: str
    records: list[Record]
    attempts: int
    error: str | None = None

    def report(self) -> SourceReport:
        return {
            "source": self.source,
            "ok": self.error is None,
            "records": len(self.records),
            "attempts": self.attempts,
            "error": self.error,
        }


async def merge_sources(
    sources: list[str],
    key: str,
    arguments: dict[str, Any] | None = None,
    items: str = "",
    attempts: int = 3,
    wait_s: float = 0.5,
) -> Merged:
    """Call several tools at the same time with the same arguments, and merge their records by a key.

    A source that fails is tried again, after a wait that doubles each time. Of records with the same key one is made: for
    each field the first source that has a value is taken. It is an error only when every source fails.

    Args:
        sources: The tools' full names, such as "github.search_issues"; the first one's values are preferred.
        key: The field that says which records are the same thing. Records without it are kept as they are.
        arguments: What to call each tool with.
        items: Where in a result the list of records is, such as "data.items"; empty if the result is the list.
        attempts: How often to try each source.
        wait_s: How many seconds to wait before the second attempt.
    """
    if attempts < 1 or wait_s < 0:
        raise ValueError("attempts must be 1 or more, and wait_s 0 or more")
    answers = await asyncio.gather(*(ask(source, arguments or {}, items, attempts, wait_s) for source in sources))
    failed = [answer for answer in answers if answer.error is not None]
    if sources and len(failed) == len(sources):
        raise RuntimeError("every source failed: " + "; ".join(f"{answer.source}: {answer.error}" for answer in failed))
    return {
        "records": merged(answers, key),
        "failed": [answer.source for answer in failed],
        "sources": [answer.report() for answer in answers],
    }


async def ask(source: str, arguments: dict[str, Any], items: str, attempts: int, wait_s: float) -> Answer:
    """Call one source until it answers, or its attempts are used up."""
    attempt = 1
    while True:
        try:
            return Answer(source, records_in(await tools[source](**arguments), items), attempt)
        except ValueError as error:
            return Answer(source, [], attempt, str(error))
        except ToolError as error:
            if attempt == attempts or error.kind in LASTING:
                return Answer(source, [], attempt, error.message)
        await asyncio.sleep(wait_s * 2 ** (attempt - 1))
        attempt += 1


def records_in(result: Any, items: str) -> list[Record]:
    for part in filter(None, items.split(".")):
        result = result.get(part) if isinstance(result, dict) else None
    if not isinstance(result, list) or not all(isinstance(record, dict) for record in result):
        raise ValueError("it did not return a list of records; where it is in the result is said with items")
    return result


def merged(answers: list[Answer], key: str) -> list[Record]:
    found: list[Record] = []
    known: dict[str, Record] = {}
    for record in (record for answer in answers for record in answer.records):
        value = record.get(key)
        same = None if value is None else known.get(as_json(value))
        if same is None:
            same = dict(record)
            found.append(same)
            if value is not None:
                known[as_json(value)] = same
        else:
            same.update({name: part for name, part in record.items() if same.get(name) is None})
    return found


def as_json(value: Any) -> str:
    """A text that is the same for equal values, lists and objects included."""
    return json.dumps(value, sort_keys=True)

# /// tool
# name = "rank_groups"
# ///
# /// examples
# {
#  "inputs": {
#   "records": [{"team": "red", "points": 3}, {"team": "blue", "points": 5}, {"team": "red", "points": 4}],
#   "key": "team",
#   "aggregate": "sum",
#   "field": "points"
#  },
#  "result": [
#   {"rank": 1, "group": "red", "value": 7, "records": 2},
#   {"rank": 2, "group": "blue", "value": 5, "records": 1}
#  ]
# }
# {
#  "inputs": {
#   "records": [{"user": {"login": "ann"}}, {"user": {"login": "bob"}}, {"user": null}, {"user": {"login": "ann"}}],
#   "key": "user.login",
#   "top": 2
#  },
#  "result": [
#   {"rank": 1, "group": "ann", "value": 2, "records": 2},
#   {"rank": 2, "group": "bob", "value": 1, "records": 1}
#  ]
# }
# {"inputs": {"records": [], "key": "team"}, "result": []}
# {"inputs": {"records": [], "key": "team", "aggregate": "mean"}, "error": "mean needs a field"}
# ///
import json
from typing import Any, Literal, TypedDict

Record = dict[str, Any]
Number = int | float


class RankedGroup(TypedDict):
    """A group in the ranking. Its value is null when none of its records has a number in the field."""

    rank: int
    group: Any
    value: Number | None
    records: int


def rank_groups(
    records: list[Record],
    key: str,
    aggregate: Literal["count", "sum", "mean", "min", "max"] = "count",
    field: str | None = None,
    order: Literal["highest", "lowest"] = "highest",
    top: int = 10,
) -> list[RankedGroup]:
    """Group records by a field, aggregate each group, and rank the groups.

    Equal values share a rank. Records without the key are a group of their own, named null. Values that are not numbers
    are left out, and groups without a value come last.

    Args:
        records: The records to group.
        key: The field to group by; "user.login" looks into nested objects.
        aggregate: What to compute for each group.
        field: The field to aggregate; needed for anything but count.
        order: Which value is ranked first.
        top: How many groups to return.
    """
    if aggregate != "count" and field is None:
        raise ValueError(f"{aggregate} needs a field to aggregate")
    if top < 0:
        raise ValueError("top must be 0 or more")
    ranked: list[RankedGroup] = []
    for group, members in grouped(records, key):
        value = len(members) if field is None or aggregate == "count" else aggregated(members, aggregate, field)
        ranked.append({"rank": 0, "group": group, "value": value, "records": len(members)})
    sign = -1 if order == "highest" else 1
    ranked.sort(key=lambda entry: (entry["value"] is None, sign * (entry["value"] or 0)))
    set_ranks(ranked)
    return ranked[:top]


def grouped(records: list[Record], key: str) -> list[tuple[Any, list[Record]]]:
    """Each value of the key with its records, in the order in which the values occur."""
    groups: dict[str, tuple[Any, list[Record]]] = {}
    for record in records:
        value = value_at(record, key)
        _, members = groups.setdefault(json.dumps(value, sort_keys=True), (value, []))
        members.append(record)
    return list(groups.values())


def aggregated(members: list[Record], aggregate: str, field: str) -> Number | None:
    numbers = [number for member in members if is_number(number := value_at(member, field))]
    if not numbers:
        return None
    if aggregate == "sum":
        return sum(numbers)
    if aggregate == "mean":
        return sum(numbers) / len(numbers)
    return min(numbers) if aggregate == "min" else max(numbers)


def set_ranks(ranked: list[RankedGroup]) -> None:
    """Number the sorted groups; one with the value of the group before it has its rank too."""
    before: RankedGroup | None = None
    for position, entry in enumerate(ranked, 1):
        entry["rank"] = before["rank"] if before is not None and before["value"] == entry["value"] else position
        before = entry


def value_at(record: Record, path: str) -> Any:
    """The value of a field, or of one inside nested objects; None if there is none."""
    if path in record:
        return record[path]
    value: Any = record
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)

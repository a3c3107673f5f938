# /// tool
# name = "validate_records"
# ///
# /// examples
# {
#  "inputs": {
#   "records": [{"id": 1, "email": "ann@example.org"}, {"id": 1, "email": "bob"}, {"email": null}],
#   "rules": {"id": {"required": true, "type": "integer", "unique": true}, "email": {"pattern": ".+@.+"}}
#  },
#  "result": {
#   "valid": 1,
#   "invalid": 2,
#   "problems": [
#    {"record": 1, "field": "id", "problem": "occurs before, in record 0"},
#    {"record": 1, "field": "email", "problem": "does not match .+@.+"},
#    {"record": 2, "field": "id", "problem": "is missing"}
#   ],
#   "more_problems": 0
#  }
# }
# {
#  "inputs": {
#   "records": [{"age": -1, "size": "XXL"}, {"age": "old"}],
#   "rules": {"age": {"type": "number", "minimum": 0}, "size": {"one_of": ["S", "M"]}},
#   "max_problems": 2
#  },
#  "result": {
#   "valid": 0,
#   "invalid": 2,
#   "problems": [
#    {"record": 0, "field": "age", "problem": "is less than 0"},
#    {"record": 0, "field": "size", "problem": "is not one of S, M"}
#   ],
#   "more_problems": 1
#  }
# }
# {
#  "inputs": {"records": [], "rules": {}},
#  "result": {"valid": 0, "invalid": 0, "problems": [], "more_problems": 0}
# }
# {
#  "inputs": {"records": [], "rules": {"id": {"pattern": "("}}},
#  "error": "the pattern for id is no regular expression"
# }
# ///
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypedDict

Record = dict[str, Any]
Kind = Literal["text", "integer", "number", "boolean", "list", "object"]
TYPES: dict[Kind, tuple[type, ...]] = {
    "text": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "list": (list,),
    "object": (dict,),
}


@dataclass
class Rule:
    """What must hold for a field. All but `required` is checked only where there is a value."""

    required: Annotated[bool, "It must be there, and not be null."] = False
    type: Annotated[Kind | None, "The type of its value."] = None
    minimum: Annotated[float | None, "The least number, or the least length of a text or list."] = None
    maximum: Annotated[float | None, "The greatest number, or the greatest length of a text or list."] = None
    pattern: Annotated[str | None, "A regular expression that the whole text must match."] = None
    one_of: Annotated[list[Any] | None, "The values that are allowed."] = None
    unique: Annotated[bool, "No two records may have the same value."] = False


class Problem(TypedDict):
    """What is wrong with a field of a record; records are counted from 0."""

    record: int
    field: str
    problem: str


class Validation(TypedDict):
    """How many records fit the rules, and what is wrong with the others. `more_problems` are not listed."""

    valid: int
    invalid: int
    problems: list[Problem]
    more_problems: int


def validate_records(records: list[Record], rules: dict[str, Rule], max_problems: int = 100) -> Validation:
    """Check records against simple rules for their fields: required, type, range, pattern, allowed values, unique.

    Args:
        records: The records to check. Fields without a rule may hold anything.
        rules: The rule for each field.
        max_problems: How many problems to list.
    """
    if max_problems < 0:
        raise ValueError("max_problems must be 0 or more")
    check_patterns(rules)
    problems: list[Problem] = []
    first_seen: dict[tuple[str, str], int] = {}
    for number, record in enumerate(records):
        for field, rule in rules.items():
            value = record.get(field)
            found = list(problems_of(value, rule))
            if rule.unique and value is not None:
                first = first_seen.setdefault((field, json.dumps(value, sort_keys=True)), number)
                if first != number:
                    found.append(f"occurs before, in record {first}")
            problems += [{"record": number, "field": field, "problem": problem} for problem in found]
    invalid = len({problem["record"] for problem in problems})
    return {
        "valid": len(records) - invalid,
        "invalid": invalid,
        "problems": problems[:max_problems],
        "more_problems": max(0, len(problems) - max_problems),
    }


def check_patterns(rules: dict[str, Rule]) -> None:
    for field, rule in rules.items():
        try:
            re.compile(rule.pattern or "")
        except re.error as error:
            raise ValueError(f"the pattern for {field} is no regular expression: {error}") from None


def problems_of(value: Any, rule: Rule) -> Iterator[str]:
    """What is wrong with one value, whatever the other records hold."""
    if value is None:
        if rule.required:
            yield "is missing"
        return
    if rule.type is not None and not is_a(value, rule.type):
        yield f"is not of type {rule.type}"
        return
    size = size_of(value)
    what = "is" if is_a(value, "number") else "has a length"
    if size is not None and rule.minimum is not None and size < rule.minimum:
        yield f"{what} less than {rule.minimum:g}"
    if size is not None and rule.maximum is not None and size > rule.maximum:
        yield f"{what} greater than {rule.maximum:g}"
    if rule.pattern is not None and not (isinstance(value, str) and re.fullmatch(rule.pattern, value)):
        yield f"does not match {rule.pattern}"
    if rule.one_of is not None and value not in rule.one_of:
        yield f"is not one of {', '.join(map(str, rule.one_of))}"


def is_a(value: Any, kind: Kind) -> bool:
    """Whether a value is of that type; true and false are no numbers."""
    return isinstance(value, TYPES[kind]) and (kind == "boolean" or not isinstance(value, bool))


def size_of(value: Any) -> float | None:
    """What the minimum and the maximum are compared with, or None if there is no such thing."""
    if is_a(value, "number"):
        return value
    return len(value) if isinstance(value, str | list) else None

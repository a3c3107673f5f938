# /// tool
# name = "extract_fields"
# ///
# /// examples
# {
#  "inputs": {
#   "text": ["Order 17 from ann@example.org", "no order here"],
#   "patterns": {"order": "Order (\\d+)", "email": "\\S+@\\S+"}
#  },
#  "result": [{"order": "17", "email": "ann@example.org"}, {"order": null, "email": null}]
# }
# {
#  "inputs": {"text": "GET /a 200\n\nPOST /b 500\n", "patterns": {"method": "^[A-Z]+", "status": "\\d+$"}, "each": "line"},
#  "result": [{"method": "GET", "status": "200"}, {"method": "POST", "status": "500"}]
# }
# {
#  "inputs": {"text": "see #12 and #7", "patterns": {"issue": "#(\\d+)"}, "matches": "all"},
#  "result": [{"issue": ["12", "7"]}]
# }
# {"inputs": {"text": [], "patterns": {"issue": "#(\\d+)"}}, "result": []}
# {
#  "inputs": {"text": "x", "patterns": {"issue": "#(\\d+"}},
#  "error": "the pattern for issue is no regular expression"
# }
# ///
import re
from typing import Literal

Found = str | None | list[str]


def extract_fields(
    text: str | list[str],
    patterns: dict[str, str],
    each: Literal["text", "line"] = "text",
    matches: Literal["first", "all"] = "first",
    ignore_case: bool = False,
) -> list[dict[str, Found]]:
    """Extract fields from texts with regular expressions: a record of every text, or of every line.

    A field is the pattern's first group, or the whole match if it has no group; null when nothing matches. Of texts every
    one has its record, also without a match; of lines only those in which something matches.

    Args:
        text: One text or several.
        patterns: A regular expression, in Python's syntax, for each field. ^ and $ stand for the ends of a line.
        each: What to make one record of.
        matches: Take the first match of each pattern, or a list of all of them.
        ignore_case: Whether capital and small letters are the same.
    """
    expressions = {name: compiled(name, pattern, ignore_case) for name, pattern in patterns.items()}
    texts = [text] if isinstance(text, str) else text
    if each == "text":
        return [extracted(part, expressions, matches) for part in texts]
    records = [extracted(line, expressions, matches) for part in texts for line in part.splitlines()]
    return [record for record in records if any(record.values())]


def compiled(name: str, pattern: str, ignore_case: bool) -> re.Pattern[str]:
    try:
        return re.compile(pattern, re.MULTILINE | (re.IGNORECASE if ignore_case else 0))
    except re.error as error:
        raise ValueError(f"the pattern for {name} is no regular expression: {error}") from None


def extracted(text: str, expressions: dict[str, re.Pattern[str]], matches: str) -> dict[str, Found]:
    if matches == "first":
        return {name: value_of(expression.search(text)) for name, expression in expressions.items()}
    return {
        name: [value_of(match) or "" for match in expression.finditer(text)] for name, expression in expressions.items()
    }


def value_of(match: re.Match[str] | None) -> str | None:
    if match is None:
        return None
    return match[1] if match.re.groups else match[0]

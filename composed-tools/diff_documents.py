# /// tool
# name = "diff_documents"
# ///
# /// examples
# {
#  "inputs": {"before": "one\ntwo\nthree\n", "after": "one\n2\nthree\nfour\n"},
#  "result": {
#   "identical": false,
#   "added": 2,
#   "removed": 1,
#   "similarity": 0.5714,
#   "diff": "--- before\n+++ after\n@@ -1,3 +1,4 @@\n one\n-two\n+2\n three\n+four",
#   "cut": false
#  }
# }
# {
#  "inputs": {"before": "a\nb\nc", "after": "a\nb", "context": 0, "max_lines": 3},
#  "result": {
#   "identical": false,
#   "added": 0,
#   "removed": 1,
#   "similarity": 0.8,
#   "diff": "--- before\n+++ after\n@@ -3 +2,0 @@",
#   "cut": true
#  }
# }
# {
#  "inputs": {"before": "", "after": ""},
#  "result": {"identical": true, "added": 0, "removed": 0, "similarity": 1.0, "diff": "", "cut": false}
# }
# {"inputs": {"before": "", "after": "", "context": -1}, "error": "context must be 0 or more"}
# ///
from difflib import unified_diff
from typing import TypedDict


class Difference(TypedDict):
    """How two texts differ, counted in lines. `cut` says that `diff` is not the whole diff."""

    identical: bool
    added: int
    removed: int
    similarity: float
    diff: str
    cut: bool


def diff_documents(before: str, after: str, context: int = 3, max_lines: int = 1000) -> Difference:
    """Compare two texts line by line: a unified diff, how many lines were added and removed, how similar they are.

    Similarity is the share of lines that both have: 1 for the same lines, 0 for none in common. How lines end is no
    difference.

    Args:
        before: The earlier text.
        after: The later text.
        context: How many unchanged lines to show around each change.
        max_lines: Where to cut the diff. The counts are of all lines nevertheless.
    """
    if context < 0 or max_lines < 0:
        raise ValueError("context must be 0 or more, and so must max_lines")
    old, new = before.splitlines(), after.splitlines()
    diff = list(unified_diff(old, new, "before", "after", n=context, lineterm=""))
    changes = diff[2:]  # without the two lines that name the texts
    added = sum(line.startswith("+") for line in changes)
    removed = sum(line.startswith("-") for line in changes)
    return {
        "identical": not changes,
        "added": added,
        "removed": removed,
        "similarity": similarity(len(old), len(new), unchanged=len(old) - removed),
        "diff": "\n".join(diff[:max_lines]),
        "cut": len(diff) > max_lines,
    }


def similarity(old: int, new: int, unchanged: int) -> float:
    return round(2 * unchanged / (old + new), 4) if old + new else 1.0

"""Where two values differ, and what an example that did not come true tells."""

from __future__ import annotations

from typing import Any

import pytest

from go_ent.composer.composed.checks import judge
from go_ent.composer.composed.differences import MOST, differences, same
from go_ent.composer.composed.recordings import Recordings
from go_ent.composer.composed.toolfile import Example, RecordedCall
from go_ent.composer.errors import CallError
from go_ent.sandbox import Run


@pytest.mark.parametrize(
    ("expected", "actual", "told"),
    [
        (1, 2, [("result", "1", "2")]),
        (1, True, [("result", "1", "true")]),
        ({"a": [1, 2]}, {"a": [1, 3]}, [("result.a[1]", "2", "3")]),
        ({"a": 1}, {"b": 1}, [("result.a", "1", None), ("result.b", None, "1")]),
        ([1], [1, {"x": 2}], [("result[1]", None, '{"x": 2}')]),
        ("a\nb\nc", "a\nB\nc", [("result, by lines", "b", "B")]),
        ("a", "b", [("result", '"a"', '"b"')]),
        ({"a": None}, {}, [("result.a", "null", None)]),
    ],
)
def test_differences(expected: Any, actual: Any, told: list[tuple[str, str | None, str | None]]) -> None:
    assert [(one.where, one.expected, one.actual) for one in differences(expected, actual)] == told
    assert not same(actual, expected)


def test_equal_values() -> None:
    for expected, actual in ((0.1 + 0.2, 0.3), ({"a": [1.0]}, {"a": [1]}), (None, None), ("é", "é")):
        assert same(actual, expected)


def test_they_are_bounded() -> None:
    found = differences(list(range(1000)), [-n - 1 for n in range(1000)])
    assert len(found) == MOST
    (one,) = differences("x" * 10_000, "y" * 10_000)
    assert one.expected is not None
    assert len(one.expected) < 300
    (one,) = differences("\n".join("x" * 1000), "\n".join("y" * 1000))
    assert sum(map(len, one.lines)) < 2000


def test_what_an_example_tells() -> None:
    calls = [RecordedCall(tool="a.b", arguments={"q": "x", "top": 2}, result=1), RecordedCall(tool="c.d", result=2)]
    recordings = Recordings(calls)
    with pytest.raises(CallError, match="no recorded answer"):
        recordings.answer("a.b", {"q": "x", "top": 3})
    run = Run(id="r", status="completed", result={"n": 1, "rest": [1]}, stdout="looking\nfound 1\n")
    outcome = judge(1, Example(result={"n": 2, "rest": [1]}, calls=calls), run, recordings, 1.0)
    assert outcome.told == (
        '{"n": 2, "rest": [1]} was expected; it returned {"n": 1, "rest": [1]}\n'
        "  result.n\n  - 2\n  + 1\n"
        '  no recorded call matches a.b with {"q": "x", "top": 3}\n    a.b.top\n    - 2\n    + 3\n'
        '  recorded, but not called: a.b with {"q": "x", "top": 2}\n  recorded, but not called: c.d with null\n'
        "  it printed:\n    looking\n    found 1"
    )
    fine = judge(1, Example(result=1), Run(id="r", status="completed", result=1, stdout="x"), Recordings([]), 1.0)
    assert (fine.told, fine.printed) == (None, "")

"""What differs between a value that was expected and the one that came, place by place."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator
from itertools import islice
from typing import Any

from go_ent.dataclass import dataclass

MOST = 10
MAX_SHOWN = 200  # characters of a value
MOST_LINES = 12  # of a text
MAX_TEXT = 20_000  # characters that are compared line by line


class _Nothing:
    """There is no value there."""


NOTHING = _Nothing()


@dataclass(frozen=True, slots=True)
class Difference:
    """A place where two values differ. What is expected, or came, is JSON text; None where there is nothing."""

    where: str
    expected: str | None
    actual: str | None

    @property
    def lines(self) -> list[str]:
        """As a diff: what was expected after a minus, what came after a plus."""
        return [
            f"  {self.where}",
            *(f"  - {line}" for line in (self.expected or "").splitlines()),
            *(f"  + {line}" for line in (self.actual or "").splitlines()),
        ]


def same(got: Any, expected: Any) -> bool:
    """Equal as JSON: a bool is no number, and a float is as close as its text."""
    return next(_differences(expected, got, "result"), None) is None


def differences(expected: Any, actual: Any, where: str = "result") -> list[Difference]:
    """The first places where two values differ."""
    return list(islice(_differences(expected, actual, where), MOST))


def _differences(expected: Any, actual: Any, where: str) -> Iterator[Difference]:
    if isinstance(expected, dict) and isinstance(actual, dict):
        for key in dict.fromkeys([*expected, *actual]):
            yield from _differences(expected.get(key, NOTHING), actual.get(key, NOTHING), f"{where}.{key}"[:MAX_SHOWN])
    elif isinstance(expected, list) and isinstance(actual, list):
        for index in range(max(len(expected), len(actual))):
            yield from _differences(_item(expected, index), _item(actual, index), f"{where}[{index}]")
    elif isinstance(expected, str) and isinstance(actual, str) and expected != actual and "\n" in expected + actual:
        yield _text_difference(expected, actual, where)
    elif not _equal(expected, actual):
        yield Difference(where, _shown(expected), _shown(actual))


def _item(values: list[Any], index: int) -> Any:
    return values[index] if index < len(values) else NOTHING


def _equal(expected: Any, actual: Any) -> bool:
    if isinstance(actual, bool) or isinstance(expected, bool):
        return actual is expected
    if isinstance(actual, float) and isinstance(expected, int | float):
        return abs(actual - expected) <= 1e-9 * max(1.0, abs(actual), abs(expected))
    return bool(actual == expected)


def _text_difference(expected: str, actual: str, where: str) -> Difference:
    """Of long texts, the lines that differ."""
    before, after = expected[:MAX_TEXT].splitlines(), actual[:MAX_TEXT].splitlines()
    marked = [line for line in difflib.ndiff(before, after) if line[:1] in "+-"] if len(before) < 500 else []
    lost = [line[2:][:MAX_SHOWN] for line in marked if line.startswith("-")]
    new = [line[2:][:MAX_SHOWN] for line in marked if line.startswith("+")]
    if not lost and not new:
        return Difference(where, _shown(expected), _shown(actual))
    return Difference(f"{where}, by lines", _some(lost), _some(new))


def _some(lines: list[str]) -> str | None:
    more = [f"… {len(lines) - MOST_LINES} more lines"] if len(lines) > MOST_LINES else []
    return "\n".join([*lines[:MOST_LINES], *more]) or None


def _shown(value: Any) -> str | None:
    if value is NOTHING:
        return None
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}… ({len(text)} characters)"


def source_diff(before: str, after: str, names: tuple[str, str]) -> list[str]:
    """How one source became another, as a unified diff."""
    return list(difflib.unified_diff(before.splitlines(), after.splitlines(), *names, lineterm=""))

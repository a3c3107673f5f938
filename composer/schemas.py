"""Checking values against JSON Schemas that may come from anywhere.

The schemas of upstream servers are not ours: nothing they refer to is fetched, their patterns can't run for long, and one
that makes no sense is said to make none.
"""

from __future__ import annotations

from typing import Any

from composer.spec import Schema

MAX_PROBLEMS = 5
MAX_TEXT = 200
BACKTRACKS = 100_000


class BadSchema(ValueError):
    """Raised when a schema is not one."""


class Checker:
    """Checks values against one schema. Made once, used often."""

    def __init__(self, schema: Schema) -> None:
        import jsonschema_rs as rs

        try:
            self._validator = rs.validator_for(
                dict(schema),
                offline=True,
                pattern_options=rs.FancyRegexOptions(backtrack_limit=BACKTRACKS, size_limit=1 << 20, dfa_size_limit=1 << 20),
            )
        except (rs.ValidationError, rs.ReferencingError, ValueError, RecursionError) as error:
            reason = getattr(error, "message", None) or str(error)
            raise BadSchema(f"not a JSON Schema: {reason.splitlines()[0][:MAX_TEXT]}") from None

    def problems(self, value: Any) -> list[str]:
        """What is wrong with *value*, one phrase each, with the place; none if it fits."""
        try:
            if self._validator.is_valid(value):
                return []
            found = []
            for error in self._validator.iter_errors(value):
                where = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.instance_path).lstrip(".")
                text = (
                    error.message
                    if len(error.message) <= MAX_TEXT
                    else f"{error.message[: MAX_TEXT // 2]} … {error.message[-MAX_TEXT // 2 :]}"
                )
                found.append(f"{where[:MAX_TEXT]}: {text}" if where else text)
                if len(found) == MAX_PROBLEMS:
                    break
            return found
        except (ValueError, RecursionError, OverflowError, TypeError) as error:
            return [f"it can't be checked: {str(error).splitlines()[0][:MAX_TEXT] if str(error) else type(error).__name__}"]

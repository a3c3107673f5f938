"""Answering tool calls from recordings: a tool's examples run offline, and run the same every time."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from go_ent.composer.composed.differences import Difference, differences
from go_ent.composer.composed.toolfile import RecordedCall
from go_ent.composer.errors import CallError
from go_ent.dataclass import dataclass

MOST_NOTED = 20
MOST_COMPARED = 50


@dataclass(frozen=True, slots=True)
class UnmatchedCall:
    """A call that no recorded answer is for, and how it differs from the recorded call that is most like it."""

    tool: str
    arguments: dict[str, Any]
    differences: tuple[Difference, ...] = ()


class Recordings:
    """The answers of an example. Those for the same call are given in their order, the last one as often as needed."""

    def __init__(self, calls: Sequence[RecordedCall]) -> None:
        self._calls = list(calls)
        self._used: set[int] = set()
        self.unmatched: list[UnmatchedCall] = []

    @property
    def unused(self) -> list[RecordedCall]:
        """The calls that were recorded and not made."""
        return [call for index, call in enumerate(self._calls) if index not in self._used]

    def has(self, name: str) -> bool:
        return any(call.tool == name for call in self._calls)

    def answer(self, name: str, arguments: dict[str, Any]) -> Any:
        """The recorded answer to a call; CallError for a recorded error, or if there is none."""
        fitting = [
            index
            for index, call in enumerate(self._calls)
            if call.tool == name and (call.arguments is None or call.arguments == arguments)
        ]
        if not fitting:
            if len(self.unmatched) < MOST_NOTED:
                self.unmatched.append(UnmatchedCall(name, arguments, self._nearest(name, arguments)))
            text = json.dumps(arguments, ensure_ascii=False)
            raise CallError(f"the example has no recorded answer for {name} with {text[:300]}")
        index = next((index for index in fitting if index not in self._used), fitting[-1])
        self._used.add(index)
        call = self._calls[index]
        if call.error is not None:
            raise CallError(call.error)
        return call.result

    def _nearest(self, name: str, arguments: dict[str, Any]) -> tuple[Difference, ...]:
        """How a call differs from the recorded one of its tool that is most like it."""
        recorded = [call.arguments for call in self._calls[:MOST_COMPARED] if call.tool == name and call.arguments]
        found = [differences(expected, arguments, name) for expected in recorded]
        return tuple(sorted(found, key=len)[0]) if found else ()

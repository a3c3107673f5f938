"""Answering tool calls from recordings: a tool's examples run offline, and run the same every time."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from go_ent.composer.composed.toolfile import RecordedCall
from go_ent.composer.errors import CallError


class Recordings:
    """The answers of an example. Those for the same call are given in their order, the last one as often as needed."""

    def __init__(self, calls: Sequence[RecordedCall]) -> None:
        self._calls = list(calls)
        self._used: set[int] = set()

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
            text = json.dumps(arguments, ensure_ascii=False)
            raise CallError(f"the example has no recorded answer for {name} with {text[:300]}")
        index = next((index for index in fitting if index not in self._used), fitting[-1])
        self._used.add(index)
        call = self._calls[index]
        if call.error is not None:
            raise CallError(call.error)
        return call.result

"""What a conversation with tools costs: every turn sends all that was said before again.

Tokens are counted by the tokenizer that the engine counts with. A message is its text and `ENVELOPE` tokens for its role and
ends; a call is its name and its arguments as JSON; a result is the text that the server answered with.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from go_ent.engine.tokens import count

ENVELOPE = 4
CACHED = 0.1  # of the price, for what was sent in the turn before
TURN_S = 2.0  # only to show what turns may mean in time


@dataclass(frozen=True)
class Call:
    """One tool call that the model makes."""

    name: str
    arguments: dict[str, Any]

    @property
    def text(self) -> str:
        return f"{self.name} {json.dumps(self.arguments, ensure_ascii=False)}"


@dataclass(frozen=True)
class Turn:
    """What one request to the model took in, how much of that was in the request before, and what came out."""

    input: int
    seen: int
    output: int


@dataclass
class Talk:
    """A conversation so far. `prefix` is what stands before it in every request: instructions and definitions."""

    prefix: int
    said: int = 0  # tokens of all messages so far
    turns: list[Turn] = field(default_factory=list)

    def add(self, text: str) -> None:
        """A message that the model will read: the task, or a result."""
        self.said += count(text) + ENVELOPE

    def turn(self, text: str) -> None:
        """One request, and what the model answers."""
        sent, said = self.prefix + self.said, count(text) + ENVELOPE
        self.turns.append(Turn(sent, self.turns[-1].input if self.turns else 0, said))
        self.said += said

    def call(self, calls: Sequence[Call]) -> None:
        self.turn("\n".join(call.text for call in calls))

    @property
    def input(self) -> int:
        return sum(turn.input for turn in self.turns)

    @property
    def output(self) -> int:
        return sum(turn.output for turn in self.turns)

    @property
    def tokens(self) -> int:
        return self.input + self.output

    def cached(self, *, warm: bool = False) -> float:
        """The same with the prefix that was sent before at a tenth; *warm*: the definitions, too, were sent before."""
        total = 0.0
        for number, turn in enumerate(self.turns):
            seen = self.prefix if warm and number == 0 else turn.seen
            total += CACHED * seen + (turn.input - seen) + turn.output
        return total


def definitions(tools: Sequence[Any]) -> str:
    """What a model is told of tools: name, description, parameters. A tool is as `Client.list_tools` gives it."""
    told = [
        {"name": tool.name, "description": tool.description or "", "input_schema": tool.input_schema} for tool in tools
    ]
    return "\n".join(json.dumps(each, ensure_ascii=False) for each in told)

"""What a command may cost. Nothing stops it at a price: it is held at its declared most, or allowed by name."""

from __future__ import annotations

import json
import re

from go_ent.dataclass import dataclass
from go_ent.engine.core.config import CommandConfig, EngineConfig

BARE = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class Spender:
    """A command that may cost something. `allowed` is one that may run under a limit though nobody declared its
    most.
    """

    name: str
    most_usd: float | None
    allowed: bool
    configured: bool

    @property
    def problem(self) -> str:
        """Why it does not fit a limit in dollars, and the lines that would change that."""
        if self.configured:
            key = self.name if BARE.fullmatch(self.name) else json.dumps(self.name)
            where = f"under [commands.{key}]"
        else:
            where = "to the task"
        most = f"max_cost_usd = 0.50, the most that one run of it costs, {where}"
        allow = f"uncapped = [{json.dumps(self.name)}] under [budget]"
        return f"nothing stops the command {self.name} at a price; add {most}, or {allow}"


def spender(
    config: EngineConfig,
    command: tuple[str, ...] | str | None,
    declared: float | None = None,
    budget: float | None = None,
) -> Spender | None:
    """The command as one that may cost something, or None if it does not; without *command*, the one for prompts.

    What its configuration declares holds; else what its task has *declared*; else the task's *budget*.
    """
    command = command or config.engine.command
    if command is None:
        return None
    configured = isinstance(command, str)
    name = command if isinstance(command, str) else command[0]
    found = config.commands.get(command) if isinstance(command, str) else CommandConfig(argv=command)
    if found is None or not (found.may_cost or declared):
        return None
    most = next((usd for usd in (found.max_cost_usd, declared, budget) if usd is not None), None)
    return Spender(name, most, name in config.budget.uncapped, configured)

"""Which runners there are: those of go-ent, and those that other packages bring by an entry point."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path

from composer import Composer
from engine.config import EngineConfig, RunnerConfig
from engine.errors import BadTask
from engine.runners.base import Availability, Runner

log = logging.getLogger("engine")
GROUP = "go_ent.runners"
BUILT_IN = ("claude-code", "open-code", "cli")


@dataclass(frozen=True)
class Surroundings:
    """What a factory is given to make its runner of."""

    project: Path
    config: EngineConfig
    composer: Callable[[], Composer]
    trusted: bool = True
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))

    def of(self, name: str) -> RunnerConfig:
        """What the project says of a runner; of one that nobody trusts, nothing that would change what is started."""
        config = self.config.runners.get(name, RunnerConfig())
        return config if self.trusted else RunnerConfig(model=config.model, serve_tools=config.serve_tools)


Factory = Callable[[Surroundings], Runner]


def _claude(surroundings: Surroundings) -> Runner:
    from engine.runners.claude import ClaudeRunner

    return ClaudeRunner(surroundings.of("claude-code"), project=surroundings.project, host_env=surroundings.environment)


def _opencode(surroundings: Surroundings) -> Runner:
    from engine.runners.opencode import OpenCodeRunner

    return OpenCodeRunner(surroundings.of("open-code"), project=surroundings.project, host_env=surroundings.environment)


def _cli(surroundings: Surroundings) -> Runner:
    from engine.runners.cli import CliRunner

    return CliRunner(surroundings)


class Registry:
    """Runners by name, each made when it is first needed."""

    def __init__(self, surroundings: Surroundings, runners: Mapping[str, Runner] | None = None) -> None:
        """*runners* are ready-made ones: a program's own, beside the others or in their stead."""
        self._surroundings = surroundings
        self._made: dict[str, Runner] = dict(runners or {})
        for name, runner in self._made.items():
            _check(name, runner)
        self._factories: dict[str, Factory] = {"claude-code": _claude, "open-code": _opencode, "cli": _cli}
        for entry in entry_points(group=GROUP):
            if entry.name in self._factories:
                log.warning("the runner %s of %s is passed over: the name is taken", entry.name, entry.value)
            else:
                self._factories[entry.name] = partial(lambda entry, given: entry.load()(given), entry)

    @property
    def names(self) -> list[str]:
        """All names: the built-in ones in the order of preference, then others by name."""
        known = {*self._factories, *self._made}
        return [*(name for name in BUILT_IN if name in known), *sorted(known - set(BUILT_IN))]

    def get(self, name: str) -> Runner:
        """A runner, or `BadTask` that lists those there are."""
        if name not in self._made:
            if name not in self._factories:
                raise BadTask(f"there is no runtime {name}; there are: {', '.join(self.names)}")
            runner = self._factories[name](self._surroundings)
            _check(name, runner)
            self._made[name] = runner
        return self._made[name]

    async def available(self, name: str) -> Availability:
        """Whether a runtime can be used here. One whose package is broken can't."""
        try:
            return await self.get(name).available()
        except Exception as error:  # a package of somebody else's
            return Availability(False, reason=f"its runner is broken: {type(error).__name__}: {error}")

    def family(self, name: str) -> list[str]:
        """Whoever could stand in for a runner: the others of its family, in the order of preference."""
        family = self.get(name).family
        return [other for other in self.names if other != name and self._family_of(other) == family]

    def _family_of(self, name: str) -> str | None:
        try:
            return self.get(name).family
        except Exception as error:  # a package of somebody else's
            log.warning("the runner %s can't be used: %s", name, error)
            return None

    async def close(self) -> None:
        for name, runner in self._made.items():
            try:
                await runner.close()
            except Exception as error:
                log.warning("the runner %s could not be closed: %s", name, error)


def _check(name: str, runner: object) -> None:
    if not isinstance(runner, Runner):
        wanted = [part for part in ("name", "family", "available", "execute", "interrupt", "close") if not hasattr(runner, part)]
        raise BadTask(f"the runtime {name} is no runner: it has no {', '.join(wanted)}")

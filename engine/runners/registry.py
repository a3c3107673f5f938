"""Which runners there are: those of go-ent, and those that other packages bring by an entry point."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from importlib.metadata import EntryPoint, entry_points

from go_ent.engine.core.errors import BadTask
from go_ent.engine.runners.base.runner import Availability, Runner
from go_ent.engine.runners.base.surroundings import Surroundings

log = logging.getLogger("go_ent.engine")
GROUP = "go_ent.runners"
BUILT_IN = ("claude-code", "open-code", "cli")


Factory = Callable[[Surroundings], Runner]


def _claude(surroundings: Surroundings) -> Runner:
    from go_ent.engine.runners.claude.runner import ClaudeRunner

    return ClaudeRunner(surroundings.of("claude-code"), project=surroundings.project, host_env=surroundings.environment)


def _opencode(surroundings: Surroundings) -> Runner:
    from go_ent.engine.runners.opencode.runner import OpenCodeRunner

    return OpenCodeRunner(surroundings.of("open-code"), project=surroundings.project, host_env=surroundings.environment)


def _cli(surroundings: Surroundings) -> Runner:
    from go_ent.engine.runners.cli.runner import CliRunner

    return CliRunner(surroundings)


@lru_cache(maxsize=8)
def _brought(_path: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    """What the packages on this path bring. To find it, a file of every package that is installed is read."""
    return tuple(entry_points(group=GROUP))


class Registry:
    """Runners by name, each made when it is first needed."""

    def __init__(self, surroundings: Surroundings, runners: Mapping[str, Runner] | None = None) -> None:
        """*runners* are ready-made ones: a program's own, beside the others or in their stead."""
        self._surroundings = surroundings
        self._made: dict[str, Runner] = dict(runners or {})
        for name, runner in self._made.items():
            _check(name, runner)
        self._factories: dict[str, Factory] = {"claude-code": _claude, "open-code": _opencode, "cli": _cli}
        for entry in _brought(tuple(sys.path)):
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
        """The runners that could stand in for one: the others of its family, in the order of preference."""
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
        wanted = [
            part
            for part in ("name", "family", "available", "execute", "interrupt", "close")
            if not hasattr(runner, part)
        ]
        raise BadTask(f"the runtime {name} is no runner: it has no {', '.join(wanted)}")

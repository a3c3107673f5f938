"""What pages show changes by what is written: executions where they are kept, tools and spending in files."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from go_ent.watching import FolderWatch

if TYPE_CHECKING:
    from go_ent.composer import Composer
    from go_ent.engine.engine import Engine


class Changes:
    """`StorageWatch` of all that pages show. In a fleet, spending is told of by the executions that spend."""

    def __init__(self, engine: Engine, composer: Composer, told: Callable[[], None]) -> None:
        self._executions = engine.records.watch(told)
        self._files = FolderWatch(told)
        self._files.follow(composer.folders)
        self.follow = self._executions.follow

    def close(self) -> None:
        self._executions.close()
        self._files.close()

"""What a runner is made of: the project, its settings and its environment."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path

from go_ent.composer import Composer
from go_ent.dataclass import dataclass
from go_ent.engine.core.config import EngineConfig, RunnerConfig


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

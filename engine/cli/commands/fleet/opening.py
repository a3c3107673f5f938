"""The fleet of this folder's project, for its commands."""

from __future__ import annotations

from pathlib import Path

from go_ent.composer.errors import ConfigError
from go_ent.composer.project.files import find_project
from go_ent.composer.project.trust import is_trusted
from go_ent.engine.core.config import EngineConfig, read_engine_config
from go_ent.engine.core.errors import Untrusted


def configured() -> tuple[Path, EngineConfig]:
    """The project, and its settings; `ConfigError` if it has no fleet, or its packages are not installed."""
    project = find_project(".")
    config = read_engine_config(project)
    if config.fleet.url_env is None:
        raise ConfigError(
            "this project has no fleet: set url_env in [fleet] of .go-ent/config.toml to the name of the variable that "
            "holds a Postgres URL"
        )
    if not is_trusted(project):
        raise Untrusted(f"the fleet of ${config.fleet.url_env}", str(project))
    try:
        import dbos  # noqa: F401
        import psycopg  # noqa: F401
    except ImportError as error:
        raise ConfigError(f'{error.name} is not installed: pip install "go-ent[fleet]"') from None
    return project, config

"""A project's storages in its fleet, as its configuration names it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from go_ent.composer.composed.store import Store, composed_stores
from go_ent.composer.errors import ConfigError
from go_ent.composer.project.trust import share_keys
from go_ent.engine.core.config import FleetConfig
from go_ent.engine.fleet.database import Address
from go_ent.engine.fleet.execution_storage import PostgresStorage
from go_ent.engine.fleet.postgres_ledger import PostgresLedger
from go_ent.engine.fleet.tool_store import FleetToolStore

SHORTEST_KEY = 32


def open_fleet(
    project: Path, config: FleetConfig, environment: Mapping[str, str] | None = None
) -> tuple[PostgresStorage, PostgresLedger, tuple[FleetToolStore, Store]]:
    """Executions, ledger and stores of tools. Nothing is connected before it is used. `ConfigError` if a variable does
    not hold what it should.
    """
    environment = os.environ if environment is None else environment
    share_keys(*_keys(config, environment))
    storage = PostgresStorage(Address.of(config, environment))
    own, users = composed_stores(project)
    return storage, PostgresLedger(storage.database), (FleetToolStore(storage.database, own, storage.name), users)


def _keys(config: FleetConfig, environment: Mapping[str, str]) -> list[bytes]:
    """The keys of seals and approvals, the one that is used now first."""
    if config.key_env is None:
        return []
    keys = [key.strip() for key in environment.get(config.key_env, "").split(",") if key.strip()]
    if not keys or any(len(key) < SHORTEST_KEY for key in keys):
        raise ConfigError(
            f"[fleet] takes its key from ${config.key_env}, which does not hold one of at least {SHORTEST_KEY} "
            'characters: python3 -c "import secrets; print(secrets.token_hex(32))" makes one'
        )
    return [key.encode() for key in keys]

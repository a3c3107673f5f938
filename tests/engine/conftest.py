"""Engines run their guests in one sandbox that all tests share; processes that tests kill are forked by one process."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from go_ent.sandbox import Sandbox
from tests.support.crashers.forking import Forker
from tests.support.postgres import Postgres, shared

if TYPE_CHECKING:
    from go_ent.engine.fleet.database import Address


@pytest.fixture(scope="session")
def box(shared_box: Sandbox) -> Sandbox:
    return shared_box


@pytest.fixture(scope="session")
def forker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forker]:
    with Forker(tmp_path_factory.mktemp("children")) as made:
        yield made


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    """One server for all processes of this run."""
    base = tmp_path_factory.getbasetemp()
    root = base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base
    with shared(root / "postgres") as server:
        yield server


@pytest.fixture(scope="session")
def fleet_address(postgres: Postgres) -> Address:
    """A fleet of this process's own, with its tables."""
    from go_ent.engine.fleet.database import Address, Database
    from go_ent.engine.fleet.schema import init

    address = Address(postgres.url, postgres.url, f"t{uuid.uuid4().hex[:12]}")
    database = Database(address)
    init(database)
    database.close()
    return address


@pytest.fixture
def fleet(fleet_address: Address) -> Address:
    """An empty fleet."""
    from go_ent.engine.fleet.database import Database
    from go_ent.engine.fleet.schema import TABLES

    database = Database(fleet_address)
    for name in [one.split()[2] for one in reversed(TABLES) if one.startswith("create table") and "$.about" not in one]:
        database.tell(f"delete from {name}")  # quicker than truncate, for so few rows
    database.close()
    return fleet_address

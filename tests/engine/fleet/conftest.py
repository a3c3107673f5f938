"""A fleet whose workers are processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from go_ent.composer.project import trust
from tests.support.postgres import Postgres

if TYPE_CHECKING:
    from tests.support.fleet_machines import Fleet


@pytest.fixture
def machines(postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fleet]:
    """This process is one of its clients."""
    from tests.support.fleet_machines import KEY
    from tests.support.fleet_machines import machines as opened

    for name, value in (("FLEET", postgres.url), ("FLEET_KEY", KEY)):
        monkeypatch.setenv(name, value)
    with opened(postgres, tmp_path) as fleet:
        yield fleet
    trust.share_keys()

"""Engines run their guests in one sandbox that all tests share; processes that tests kill are forked by one process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from go_ent.sandbox import Sandbox
from tests.support.crashers.forking import Forker


@pytest.fixture(scope="session")
def box(shared_box: Sandbox) -> Sandbox:
    return shared_box


@pytest.fixture(scope="session")
def forker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forker]:
    with Forker(tmp_path_factory.mktemp("children")) as made:
        yield made

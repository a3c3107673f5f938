"""Engines run their guests in one sandbox that all tests share."""

from __future__ import annotations

import pytest

from go_ent.sandbox import Sandbox


@pytest.fixture(scope="session")
def box(shared_box: Sandbox) -> Sandbox:
    return shared_box

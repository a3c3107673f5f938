"""Both ways to run a guest; what a test says of one holds for the other."""

from __future__ import annotations

import pytest

from go_ent.sandbox import Sandbox


@pytest.fixture(scope="session", params=["process", "thread"])
def box(request: pytest.FixtureRequest) -> Sandbox:
    sandbox: Sandbox = request.getfixturevalue(f"{request.param}_box")
    return sandbox

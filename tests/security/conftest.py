"""An attack is made on a guest in a process every day, and on one in a thread by `make test-more`."""

from __future__ import annotations

import pytest

from go_ent.sandbox import Sandbox


@pytest.fixture(scope="session", params=["process", pytest.param("thread", marks=pytest.mark.more)])
def box(request: pytest.FixtureRequest) -> Sandbox:
    sandbox: Sandbox = request.getfixturevalue(f"{request.param}_box")
    return sandbox

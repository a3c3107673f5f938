"""What all tests of the real programs share: the programs."""

from __future__ import annotations

import pytest

from tests.e2e.programs import Programs, install


@pytest.fixture(scope="session")
def programs() -> Programs:
    return install()

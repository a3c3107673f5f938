"""A console over an empty project, and a browser that is signed in."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from go_ent.engine.console.app import Console
from go_ent.sandbox import Sandbox
from tests.support.console import Browser, opened


@pytest.fixture
async def console(project: Path, shared_box: Sandbox) -> AsyncIterator[Console]:
    async with opened(project, shared_box) as made:
        yield made


@pytest.fixture
async def browser(console: Console) -> AsyncIterator[Browser]:
    made = await Browser(console).sign_in()
    yield made
    await made.close()

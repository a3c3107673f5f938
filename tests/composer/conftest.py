"""Composers over one shared sandbox: a project and a user folder of each test's own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from go_ent.composer import Composer
from go_ent.sandbox import Sandbox

Open = Callable[..., Composer]


@pytest.fixture
def open_composer(project: Path, shared_box: Sandbox) -> Open:
    def open_(**options: Any) -> Composer:
        return Composer.open(project, **{"box": shared_box, **options})

    return open_


def tool(name: str, code: str, *, examples: str = "", head: str = "") -> str:
    """A tool's file: the function's code, with its metadata."""
    block = f"# /// examples\n# {examples}\n# ///\n" if examples else ""
    return f'# /// tool\n# name = "{name}"\n{head}# ///\n{block}{code}'


DOUBLE = tool(
    "double",
    'def double(n: int) -> int:\n    """Twice n."""\n    return 2 * n\n',
    examples='{"inputs": {"n": 2}, "result": 4}',
)

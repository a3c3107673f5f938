"""Composers over one shared sandbox: a project and a user folder of each test's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from go_ent.composer import Composer
from go_ent.sandbox import Limits, Sandbox


@pytest.fixture(scope="session")
def shared_box() -> Iterator[Sandbox]:
    with Sandbox(limits=Limits(timeout_s=30, cpu_s=20)) as box:
        yield box


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty project, and a user's folder that is nobody's."""
    monkeypatch.setenv("GO_ENT_DATA", str(tmp_path / "user"))
    folder = tmp_path / "project"
    (folder / ".go-ent").mkdir(parents=True)
    return folder


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

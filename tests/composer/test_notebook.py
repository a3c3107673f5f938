"""`%%go_ent`: a notebook's cell in the sandbox."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import go_ent


class Shell:
    """What IPython's shell does with a magic."""

    def __init__(self) -> None:
        self.user_ns: dict[str, Any] = {"rows": [{"n": 1}, {"n": 5}], "least": 3}
        self.magics: dict[tuple[str, str], Callable[..., Any]] = {}

    def register_magic_function(self, func: Callable[..., Any], magic_kind: str, magic_name: str) -> None:
        self.magics[magic_kind, magic_name] = func


def test_a_cell_gets_and_gives_variables(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project)
    shell = Shell()
    go_ent.load_ipython_extension(shell)
    magic: Any = shell.magics["cell", "go_ent"]
    try:
        run = magic("--in rows,least --out found", "big = [row for row in rows if row['n'] >= least]\nbig")
        assert run.ok
        assert shell.user_ns["found"] == [{"n": 5}]
        assert "<td" in run._repr_html_()
        assert magic("", "len(big)").result == 1
        assert magic("--out found", "1/0").status == "error"
        assert shell.user_ns["found"] == [{"n": 5}]
        assert magic("--reset", "big").status == "error"
        assert magic("", "'x' * 50_000").result == "x" * 50_000
        with pytest.raises(ValueError, match="the notebook has no variable nothing"):
            magic("--in nothing", "1")
        with pytest.raises(ValueError, match=r"unrecognized arguments: --other; usage: %%go_ent \[--in"):
            magic("--other", "1")
    finally:
        magic.close()

"""What is started before the command line is imported: only for commands that run code, and never in their way."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CODE = """
import sys
from go_ent.engine.cli.ahead import start_workers
from go_ent.sandbox.host.zygote import zygotes
start_workers(sys.argv[1:])
print([orders.fuel for orders in zygotes._ahead])
"""


def started(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", CODE, *arguments], cwd=folder, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stderr == ""
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["exec", "-c", "1"], "[False]"),
        (["tool", "run", "x"], "[False]"),
        (["exec", "--help"], "[]"),
        (["tool", "list"], "[]"),
        (["serve"], "[]"),
        ([], "[]"),
    ],
)
def test_workers_are_started_for_commands_that_run_code(tmp_path: Path, arguments: list[str], expected: str) -> None:
    assert started(tmp_path, *arguments) == expected


def test_a_project_that_can_not_be_read_is_left_to_the_command(tmp_path: Path) -> None:
    (tmp_path / ".go-ent").mkdir()
    (tmp_path / ".go-ent" / "config.toml").write_text("[image]\npackages = 1\n")
    assert started(tmp_path, "exec", "-c", "1") == "[]"

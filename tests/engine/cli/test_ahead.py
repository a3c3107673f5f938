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

IMPORTS = """
import sys
from go_ent.engine.cli.ahead import start_workers
sys.argv = ["/usr/bin/go-ent", "ps"]
start_workers(["ps"])
from pydantic import BaseModel
class Row(BaseModel):
    a: int
assert Row.model_validate({"a": "1"}).a == 1
assert "importlib.metadata" not in sys.modules, "pydantic has looked for plugins"
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
        (["serve"], "[False]"),
        (["serve", "--project", "elsewhere"], "[]"),
        ([], "[]"),
    ],
)
def test_workers_are_started_for_commands_that_run_code(tmp_path: Path, arguments: list[str], expected: str) -> None:
    assert started(tmp_path, *arguments) == expected


def test_a_project_that_can_not_be_read_is_left_to_the_command(tmp_path: Path) -> None:
    (tmp_path / ".go-ent").mkdir()
    (tmp_path / ".go-ent" / "config.toml").write_text("[image]\npackages = 1\n")
    assert started(tmp_path, "exec", "-c", "1") == "[]"


def test_libraries_cost_little_and_work(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", IMPORTS], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_a_server_ends_what_was_started_for_another_image(tmp_path: Path) -> None:
    code = CODE + "zygotes.drop_ahead(); print(len(zygotes._ahead), [one.pid for one in zygotes._zygotes.values()])"
    done = subprocess.run(
        [sys.executable, "-c", code, "serve"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout == "[False]\n0 [None]\n"

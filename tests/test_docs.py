"""Every snippet of the documentation is executed: a python block and the text block after it, and console sessions.

A block with a file's name (```python clean.py) is that file; the commands of a page run in one folder, in their order.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from engine.outcomes import EXIT_CODES

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PYTHON = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```)?", re.M | re.S)
CONSOLE = re.compile(r"^```console\n(.*?)^```", re.M | re.S)
FILE = re.compile(r"^```[a-z]+ ([\w./-]+)\n(.*?)^```", re.M | re.S)


def python_snippets() -> list[tuple[str, str, str]]:
    found = []
    for page in PAGES:
        for number, (code, output) in enumerate(PYTHON.findall(page.read_text(encoding="utf-8")), 1):
            found.append((f"{page.relative_to(ROOT)}:{number}", code, output))
    return found


def console_commands() -> list[tuple[str, str, str]]:
    found = []
    for page in PAGES:
        for block in CONSOLE.findall(page.read_text(encoding="utf-8")):
            for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
                command, _, output = part.partition("\n")
                found.append((f"{page.relative_to(ROOT)}: {command}", command, output))
    return found


SNIPPETS, COMMANDS = python_snippets(), console_commands()


@pytest.mark.parametrize(("where", "code", "output"), SNIPPETS, ids=[where for where, _, _ in SNIPPETS])
def test_python_snippet(where: str, code: str, output: str, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == output


@pytest.mark.parametrize(("where", "command", "output"), COMMANDS, ids=[where for where, _, _ in COMMANDS])
def test_console_command(where: str, command: str, output: str, folders: dict[str, Path]) -> None:
    folder = folders[where.partition(":")[0]]
    go_ent = folder.parent / "go-ent"
    go_ent.write_text(f'#!/bin/sh\nexec {sys.executable} -c "from engine.cli import main; main()" "$@"\n')
    go_ent.chmod(0o700)
    path = f"{folder.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PATH": path, "GO_ENT_DATA": str(folder.parent / "user")}
    shell = ["bash", "-c", f"{{ {command}\n}} 2>&1"]
    done = subprocess.run(shell, capture_output=True, text=True, cwd=folder, env=environment, check=False)
    assert done.stdout == output


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A folder for each page, with the files that the page shows."""
    made = {}
    for page in PAGES:
        name = str(page.relative_to(ROOT))
        made[name] = tmp_path_factory.mktemp("page") / "project"
        made[name].mkdir()
        for file, content in FILE.findall(page.read_text(encoding="utf-8")):
            path = made[name] / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")
    return made


def test_how_many_were_executed(capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        print(f"\n{len(SNIPPETS)} python snippets and {len(COMMANDS)} commands of the documentation were executed")
    assert len(SNIPPETS) >= 3
    assert len(COMMANDS) >= 3


def test_the_reference_is_what_the_code_says(tmp_path: Path) -> None:
    """`make docs` makes it anew."""
    code = "import json, runpy, sys; print(json.dumps(runpy.run_path(sys.argv[1])['pages']()))"
    command = [sys.executable, "-c", code, str(ROOT / "docs" / "reference" / "generate.py")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1"}
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    for name, text in json.loads(done.stdout).items():
        assert (ROOT / "docs" / "reference" / name).read_text(encoding="utf-8") == text, f"{name} is out of date: make docs"


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\((?!https?://)([^)#]+)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page}: {target}"


def test_exit_codes_are_documented() -> None:
    text = (ROOT / "docs" / "reference" / "exit-codes.md").read_text()
    for status, code in EXIT_CODES.items():
        assert re.search(rf"^\| `{status}`.*\| {code} \|$", text, re.M), status

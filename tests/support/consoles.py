"""The console's own command, started in a project."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path


def start_console(project: Path, **environment: str) -> tuple[subprocess.Popen[str], str]:
    """The process, and the address that it says, which lets one browser in."""
    process = subprocess.Popen(
        [sys.executable, "-m", "go_ent", "console", "--no-open"],
        cwd=project,
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=os.environ | environment,
    )
    assert process.stderr is not None
    for line in process.stderr:
        if found := re.search(r"http://\S+", line):
            return process, found[0]
    raise AssertionError("the console has not said where it is")


def end_console(process: subprocess.Popen[str]) -> None:
    process.terminate()
    process.wait(30)
    if process.stderr is not None:
        process.stderr.close()

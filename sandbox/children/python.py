"""The one way to start Python: isolated, with an environment that is made for it, and away from the current folder.

A folder that somebody else made may hold a `pip.py`, a `sitecustomize.py` or a `.env`. None of it is looked at by a
Python that is started here: `-I` keeps the current folder, the user's packages and `PYTHON*` out, and the current
folder is another anyway.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

NOWHERE = Path("/")  # where only the administrator can put anything


def python_command(arguments: Sequence[str], python: Path | None = None) -> list[str]:
    """The command line of a Python: this one, or that of another environment."""
    return [str(python or sys.executable), "-I", *arguments]


def run_python(
    arguments: Sequence[str],
    *,
    env: Mapping[str, str],
    timeout_s: float,
    cwd: Path = NOWHERE,
    python: Path | None = None,
    text: str | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run Python to its end. *env* is its whole environment, *text* its input."""
    given = {"stdin": subprocess.DEVNULL} if text is None else {"input": text}
    return subprocess.run(
        python_command(arguments, python),
        env=dict(env),
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
        **given,
    )


def start_python(arguments: Sequence[str], *, pass_fds: Collection[int]) -> subprocess.Popen[bytes]:
    """Start Python in a session of its own, without an environment and with no descriptor but these."""
    return subprocess.Popen(
        python_command(arguments),
        pass_fds=pass_fds,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={},
        cwd=NOWHERE,
        start_new_session=True,
    )

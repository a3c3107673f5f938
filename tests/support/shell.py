"""The command line without starting Python anew for each command: the same `main`, streams and exit code."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from go_ent.engine.cli import main

COMMAND = [sys.executable, "-c", "from go_ent.engine.cli import main; main()"]


@dataclass(frozen=True)
class Done:
    returncode: int
    stdout: bytes
    stderr: bytes


def go_ent(
    *arguments: str,
    stdin: bytes = b"",
    cwd: Path | None = None,
    env: dict[str, str] | None = None,
    merged: bool = False,
) -> Done:
    """What a command prints and its exit code; *merged*, both streams are stdout, as with `2>&1`."""
    out = io.BytesIO()
    err = out if merged else io.BytesIO()
    streams: dict[str, Any] = {
        "argv": ["go-ent", *arguments],
        "stdin": io.TextIOWrapper(io.BufferedReader(io.BytesIO(stdin))),
        "stdout": io.TextIOWrapper(out, "utf-8", write_through=True),
        "stderr": io.TextIOWrapper(err, "utf-8", write_through=True),
    }
    code: object = 0
    with contextlib.ExitStack() as stack:
        stack.enter_context(_log_kept())
        stack.enter_context(contextlib.chdir(cwd or Path.cwd()))
        stack.enter_context(patch.dict(os.environ, env or {}))
        stack.enter_context(patch.multiple(sys, **streams))
        try:
            main()
        except SystemExit as error:
            code = error.code
    assert isinstance(code, int)
    return Done(code, out.getvalue(), b"" if merged else err.getvalue())


@contextlib.contextmanager
def _log_kept() -> Iterator[None]:
    """A command logs to its own stderr, which is gone with it."""
    handlers, level = [*logging.root.handlers], logging.root.level
    try:
        yield
    finally:
        logging.root.handlers[:] = handlers
        logging.root.setLevel(level)

"""A pager for what is longer than the screen: `GO_ENT_PAGER`, `PAGER`, or less."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

from go_ent.engine.cli.terminal.output import aside, is_terminal, screen, tty

USUAL = "less"


def paged(text: str) -> bool:
    """Show a text in a pager, if there is a person, it is longer than their screen, and there is a pager.

    The program is looked up on the absolute part of `PATH` alone. less is told to keep colours, and to start nothing.
    """
    if not (is_terminal(sys.stdout) and tty(sys.stdin) and screen.live is None):
        return False
    try:
        lines = os.get_terminal_size(sys.stdout.fileno()).lines
    except (OSError, ValueError):
        return False
    if text.count("\n") < lines:
        return False
    from go_ent.sandbox.children.programs import find_program, with_safe_path

    words = shlex.split(os.environ.get("GO_ENT_PAGER", os.environ.get("PAGER", USUAL)))
    program = find_program(words[0], os.environ.get("PATH"), Path("/")) if words and words[0] != "cat" else None
    if program is None:
        return False
    import subprocess

    environment = {"LESS": "-FRX", **with_safe_path(os.environ), "LESSSECURE": "1"}
    with aside():
        sys.stdout.flush()
        try:
            done = subprocess.run(
                [program, *words[1:]], input=text.encode(errors="replace") + b"\n", env=environment, check=False
            )
        except OSError:
            return False
    return done.returncode in (0, 130)

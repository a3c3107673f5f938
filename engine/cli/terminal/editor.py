"""The person's own editor, on a file."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

from go_ent.sandbox.children.programs import find_program, with_safe_path

USUAL = ("editor", "nano", "vim", "vi")


class NoEditor(Exception):
    """Internal: raised when there is no editor, or it can't be started; the message says what to set."""


def edit(path: Path) -> int:
    """Open a file in the editor that `VISUAL` or `EDITOR` names, and wait for its end: its exit code.

    The variable is a command with arguments, as a shell would split it; no shell is started. It starts in the root
    folder: editors take settings from the one they are in, and a project's folder may be anybody's.
    """
    argv = [*_editor(), str(path.absolute())]
    before = signal.signal(signal.SIGINT, lambda *_: None)  # Ctrl-C is the editor's, which gets it too
    try:
        return subprocess.call(argv, cwd="/", env=with_safe_path(os.environ))
    except OSError as error:
        raise NoEditor(f"{shlex.join(argv[:-1])} can't be started: {error.strerror or error}; set EDITOR") from None
    finally:
        signal.signal(signal.SIGINT, before)


def _editor() -> list[str]:
    path, here = os.environ.get("PATH"), Path.cwd()
    for variable in ("VISUAL", "EDITOR"):
        text = os.environ.get(variable, "").strip()
        if not text:
            continue
        try:
            program, *arguments = shlex.split(text)
        except ValueError as error:
            raise NoEditor(f"{variable}={text[:80]!r} can't be read as a command: {error}") from None
        for words in ((program, arguments), (text, [])):  # a path with spaces may stand there without quotes
            if (found := find_program(words[0], path, here)) is not None:
                return [found, *words[1]]
        raise NoEditor(f"{variable}={text[:80]!r}: there is no program {program}")
    if not (sys.stdin.isatty() and sys.stdout.isatty()):  # it would wait for keys that nobody can press
        raise NoEditor("there is no terminal to edit in: use one, or set EDITOR to a program that needs none")
    for name in USUAL:
        if (found := find_program(name, path, here)) is not None:
            return [found]
    raise NoEditor("no editor is set: EDITOR=nano go-ent …, or put it into your shell's settings")

"""Where a program is: by its name on `PATH`, and never because of the folder that somebody happens to be in.

`./node_modules/.bin`, `.` or an empty element are common in a `PATH`. They name another program in each folder, so they
are left out where programs are looked up, and out of what children get.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Mapping
from pathlib import Path


def without_relative(path: str) -> str:
    """A `PATH` with its absolute elements alone; the system's own if there are none, for an empty one is the current
    folder.
    """
    return os.pathsep.join(filter(os.path.isabs, path.split(os.pathsep))) or os.defpath


def with_safe_path(environment: Mapping[str, str]) -> dict[str, str]:
    """An environment whose `PATH` has no relative elements."""
    return {name: without_relative(value) if name == "PATH" else value for name, value in environment.items()}


def find_program(program: str, path: str | None, folder: Path) -> str | None:
    """The full path of a program, or None. One with a slash is taken from *folder*; a name is looked up on *path*.

    Without a *path* the system's own is searched.
    """
    if "/" in program:
        return shutil.which(_inside(folder, program))
    return shutil.which(program, path=without_relative(os.defpath if path is None else path))


def program_to_start(program: str, path: str | None, folder: Path) -> str:
    """The full path of a program, for the kernel: `FileNotFoundError` for a name that is nowhere on *path*."""
    found = find_program(program, path, folder)
    if found is None and "/" not in program:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), program)
    return found or _inside(folder, program)  # which is not there, or no program: the kernel says what is wrong with it


def _inside(folder: Path, program: str) -> str:
    return os.path.join(os.path.abspath(folder), program)

"""Disks of a test's own: a process in a mount namespace, where a small file system lies over a folder, and can be full
or read-only.

The permission bits of a folder do not bind root, and a whole disk is not a test's to fill.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support import ROOT, forked

CLONE_NEWNS, CLONE_NEWUSER = 0x00020000, 0x10000000
MS_RDONLY, MS_REMOUNT, MS_REC, MS_PRIVATE = 1, 32, 16384, 1 << 18
FORBIDDEN = 77  # the exit code that says so
PATIENCE_S = 110
FILLER = "filler"

libc = ctypes.CDLL(None, use_errno=True)


class Forbidden(Exception):
    """Raised where the kernel lets nobody have mounts of their own."""


def inside(scene: Callable[[Path], Any], place: Path, patience_s: float = PATIENCE_S) -> Any:
    """What *scene* comes to in a process of its own that may mount what it likes. Where that is forbidden, the test
    is skipped.
    """
    order = json.dumps([scene.__module__, scene.__qualname__, str(place)])
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.inside", order],
        cwd=ROOT,
        # Commands are forked from a process of its own: another one would not see what is mounted there.
        env={name: value for name, value in os.environ.items() if name != forked.VARIABLE},
        capture_output=True,
        text=True,
        timeout=patience_s,
        check=False,
    )
    if done.returncode == FORBIDDEN:
        pytest.skip(f"no mounts of one's own: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def own_mounts() -> None:
    """From now on, what this process mounts is seen by nobody else."""
    user, group = os.getuid(), os.getgid()
    if libc.unshare(CLONE_NEWNS | (CLONE_NEWUSER if user else 0)):
        raise Forbidden(f"unshare: {os.strerror(ctypes.get_errno())}")
    if user:
        for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            Path(f"/proc/self/{name}").write_text(text)
    _mount("none", "/", None, MS_REC | MS_PRIVATE)


def small_disk(folder: Path, size: str) -> None:
    """A disk of that size over a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    _mount("tmpfs", str(folder), "tmpfs", 0, f"size={size}")


def read_only(folder: Path, on: bool = True) -> None:
    _mount("none", str(folder), None, MS_REMOUNT | (MS_RDONLY if on else 0))


def fill(folder: Path, spare: int = 0) -> None:
    """Take all the room there is, but for *spare* bytes."""
    handle = os.open(folder / FILLER, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        for size in (1 << 16, 1 << 12, 1):
            try:
                while True:
                    os.write(handle, b"x" * size)
            except OSError:
                continue
        os.ftruncate(handle, max(0, os.fstat(handle).st_size - spare))
    finally:
        os.close(handle)


def make_room(folder: Path) -> None:
    (folder / FILLER).unlink()


def _mount(source: str, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    given = [None if text is None else text.encode() for text in (source, target, kind, data)]
    if libc.mount(given[0], given[1], given[2], flags, given[3]):
        raise Forbidden(f"mount {target}: {os.strerror(ctypes.get_errno())}")


def main() -> int:
    """In the process of its own."""
    import importlib

    module, name, place = json.loads(sys.argv[1])
    try:
        own_mounts()
        found = getattr(importlib.import_module(module), name)(Path(place))
    except Forbidden as error:
        print(error, file=sys.stderr)
        return FORBIDDEN
    except BaseException:
        traceback.print_exc()
        return 1
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.stdout.flush()
    code = main()
    sys.stdout.flush()
    os._exit(code)

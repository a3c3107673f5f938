"""A journal with a damaged middle: the file is kept aside as it is, and the journal goes on with all records that
are whole.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from go_ent.composer.project.files import TEMPORARY, sync_folder
from go_ent.engine.core import crash_points
from go_ent.engine.storage.records import Scan

MOST_KEPT = 1000


def quarantine(path: Path) -> str:
    """Set a journal aside and put what is whole of it in its place, for its owner: the name of the file that was kept.

    A note stands in it where records are lost. A crash in between leaves the journal as it was.
    """
    kept = _keep(path)
    mended = path.with_name(f"{TEMPORARY}{path.name}")
    with contextlib.suppress(FileNotFoundError):
        os.unlink(mended)
    with os.fdopen(
        os.open(mended, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600), "wb"
    ) as file:
        for _, line in Scan(path).lines():
            file.write(line)
        file.flush()
        os.fsync(file.fileno())
    crash_points.point("repair-before-swap")
    os.replace(mended, path)
    sync_folder(path.parent)
    return kept


def _keep(path: Path) -> str:
    for number in range(1, MOST_KEPT):
        kept = path.with_name(f"{path.stem}.damaged-{number}{path.suffix}")
        with contextlib.suppress(FileExistsError):
            os.link(path, kept, follow_symlinks=False)
            return kept.name
        if os.path.samestat(kept.lstat(), path.lstat()):  # a crash came between keeping and mending
            return kept.name
    raise OSError(f"{path.parent} has {MOST_KEPT} damaged journals: look into them, and move them away")

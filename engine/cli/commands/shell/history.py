"""What was typed in the shell of a project, kept for the next time: in the user's own folder, readable by nobody else.

It is not in the project: a project comes from elsewhere, and what its shell offers again would come from there too.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from go_ent.composer.project.files import open_ordinary, user_data, write_whole

MOST_BYTES = 1 << 20


def history_file(project: Path) -> Path | None:
    """The file of a project's history, there and private; None where none can be kept."""
    folder = user_data() / "shell-history"
    path = folder / hashlib.sha256(os.fsencode(project)).hexdigest()[:24]
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        with open_ordinary(path) as file:
            os.fchmod(file.fileno(), 0o600)
            size = os.fstat(file.fileno()).st_size
            if size > MOST_BYTES:  # the newer half stays
                file.seek(size - MOST_BYTES // 2)
                kept = file.read(MOST_BYTES)
                write_whole(path, kept[kept.find(b"\n# ") + 1 :], mode=0o600)
    except OSError:
        return None
    return path

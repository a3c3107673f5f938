"""The newest ids in the index, without opening it for writing: for shells that complete a command line."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

from go_ent.composer.project.files import STATE
from go_ent.engine.core.ids import TAIL

QUERY = "SELECT substr(id, -8) FROM executions ORDER BY id DESC LIMIT ?"
PATIENCE_S = 0.1


def newest_ids(project: Path, most: int) -> list[str]:
    """The short ids of a project's newest executions. The index is only read, and never made: without one, none."""
    path = project / STATE / "executions" / "index.db"
    try:
        with contextlib.closing(
            sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=PATIENCE_S)
        ) as database:
            return [name for (name,) in database.execute(QUERY, (most,)) if TAIL.fullmatch(str(name))]
    except (sqlite3.Error, OSError, ValueError):
        return []

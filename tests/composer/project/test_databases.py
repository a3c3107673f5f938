"""A database that is open keeps its locks, whatever else this process does with its file."""

from __future__ import annotations

import contextlib
import sqlite3
import subprocess
import sys
from pathlib import Path

from go_ent.composer.project.databases import check_database, connect

ADD = "import sqlite3, sys; d = sqlite3.connect(sys.argv[1]); d.execute('INSERT INTO t VALUES (2)'); d.commit()"


def test_another_process_does_not_take_the_log_of_an_open_database_for_a_leftover(tmp_path: Path) -> None:
    """Closing any descriptor of a file drops the locks that SQLite has on it: then what is read stays old for ever."""
    path = tmp_path / "a.db"
    with contextlib.closing(sqlite3.connect(path)) as made:
        made.execute("PRAGMA journal_mode=WAL")
        made.execute("CREATE TABLE t (n)")
    check_database(path)
    with contextlib.closing(connect(path, 5.0)) as database:
        database.execute("INSERT INTO t VALUES (1)")
        check_database(path)  # as a second store of the same process does
        subprocess.run([sys.executable, "-c", ADD, str(path)], check=True, timeout=60)
        assert database.execute("SELECT n FROM t ORDER BY n").fetchall() == [(1,), (2,)]
        assert Path(f"{path}-wal").exists()
    assert not Path(f"{path}-wal").exists()  # the last one that leaves takes it along

"""sqlite3 inside a run: in memory, and in the run's own files."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from go_ent.sandbox import Run, Sandbox


def run(box: Sandbox, code: str, **options: Any) -> Run:
    found = box.run_sync(f"import sqlite3\n{code}", **options)
    assert isinstance(found, Run)
    return found


def value(box: Sandbox, code: str, **options: Any) -> Any:
    found = run(box, code, **options)
    assert found.status == "completed", found.error
    return found.result


def rows(data: bytes, tmp_path: Path, query: str = "SELECT * FROM t") -> list[Any]:
    """What the host's own SQLite finds in a file that a run made."""
    path = tmp_path / "made.db"
    path.write_bytes(data)
    with contextlib.closing(sqlite3.connect(path)) as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        return database.execute(query).fetchall()


def made_by_host(tmp_path: Path, *statements: str) -> bytes:
    path = tmp_path / "input.db"
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as database:
        for statement in statements:
            database.execute(statement)
    return path.read_bytes()


MADE = "db = sqlite3.connect('data.db')\ndb.execute('CREATE TABLE t (a, b)')\n"


class TestFiles:
    def test_a_new_database_is_a_file_of_the_run(self, shared_box: Sandbox, tmp_path: Path) -> None:
        found = run(shared_box, f"{MADE}with db:\n    db.execute('INSERT INTO t VALUES (1, ?)', ['x'])")
        assert rows(found.files["data.db"], tmp_path) == [(1, "x")]

    @pytest.mark.parametrize(
        "end",
        ["db.commit()", "db.commit()\ndb.close()", "db.execute('COMMIT')", "db.executescript('')", "db.commit()\n1/0"],
    )
    def test_what_was_committed_is_kept_however_the_run_ends(
        self, shared_box: Sandbox, tmp_path: Path, end: str
    ) -> None:
        found = run(shared_box, f"{MADE}db.execute('INSERT INTO t VALUES (1, 2)')\n{end}")
        assert rows(found.files["data.db"], tmp_path) == [(1, 2)]

    @pytest.mark.parametrize("end", ["", "db.rollback()", "db.close()", "1/0"])
    def test_what_was_not_committed_is_lost(self, shared_box: Sandbox, tmp_path: Path, end: str) -> None:
        found = run(shared_box, f"{MADE}db.execute('INSERT INTO t VALUES (1, 2)')\n{end}")
        assert rows(found.files["data.db"], tmp_path) == []

    def test_a_large_transaction_that_is_not_committed_is_lost(self, shared_box: Sandbox, tmp_path: Path) -> None:
        """It is larger than SQLite's cache, so that parts of it were written before its end."""
        found = run(
            shared_box,
            f"{MADE}db.execute('INSERT INTO t VALUES (0, 0)')\ndb.commit()\n"
            "db.executemany('INSERT INTO t VALUES (?, ?)', ((n, 'x' * 500) for n in range(10000)))",
        )
        assert rows(found.files["data.db"], tmp_path) == [(0, 0)]

    @pytest.mark.parametrize("journal", ["DELETE", "WAL"])
    def test_an_input_is_read_and_not_handed_back(self, shared_box: Sandbox, tmp_path: Path, journal: str) -> None:
        data = made_by_host(
            tmp_path, f"PRAGMA journal_mode = {journal}", "CREATE TABLE t (a)", "INSERT INTO t VALUES (7)"
        )
        found = run(shared_box, "sqlite3.connect('in.db').execute('SELECT a FROM t')", files={"in.db": data})
        assert found.result == [[7]]
        assert found.files.get("in.db", data) == data

    def test_an_input_that_was_changed_is_handed_back(self, shared_box: Sandbox, tmp_path: Path) -> None:
        data = made_by_host(tmp_path, "CREATE TABLE t (a)", "INSERT INTO t VALUES (7)")
        found = run(
            shared_box,
            "with sqlite3.connect('in.db') as db:\n    db.execute('UPDATE t SET a = 8')",
            files={"in.db": data},
        )
        assert rows(found.files["in.db"], tmp_path) == [(8,)]

    def test_the_file_can_be_looked_at_while_it_is_open(self, shared_box: Sandbox) -> None:
        code = (
            f"{MADE}import os, shutil\nbefore = os.path.getsize('data.db')\n"
            "with db:\n    db.executemany('INSERT INTO t VALUES (?, ?)', [(n, 'x' * 99) for n in range(1000)])\n"
            "shutil.copy('data.db', 'copy.db')\n"
            "[before < os.path.getsize('data.db'), sqlite3.connect('copy.db').execute('SELECT count(*) FROM t')]"
        )
        assert value(shared_box, code) == [True, [[1000]]]

    def test_two_connections_share_a_file(self, shared_box: Sandbox) -> None:
        code = (
            f"{MADE}other = sqlite3.connect('./data.db')\n"
            "with db:\n    db.execute('INSERT INTO t VALUES (1, 2)')\n"
            "seen = other.execute('SELECT * FROM t').fetchall()\n"
            "db.execute('INSERT INTO t VALUES (3, 4)')\n"
            "try:\n    other.execute('INSERT INTO t VALUES (5, 6)')\n"
            "except sqlite3.OperationalError as error:\n    seen.append(str(error))\n"
            "db.rollback()\nother.execute('INSERT INTO t VALUES (7, 8)')\nother.commit()\n"
            "[*seen, *db.execute('SELECT * FROM t')]"
        )
        assert value(shared_box, code) == [[1, 2], "database is locked", [1, 2], [7, 8]]

    def test_a_busy_timeout_does_not_wait_for_nobody(self, shared_box: Sandbox) -> None:
        code = (
            f"{MADE}db.commit()\nother = sqlite3.connect('data.db', timeout=60)\n"
            "other.execute('PRAGMA busy_timeout = 60000')\n"
            "db.execute('BEGIN IMMEDIATE')\nother.execute('BEGIN IMMEDIATE')"
        )
        found = run(shared_box, code)
        assert found.error is not None
        assert (found.error.kind, found.error.message) == ("OperationalError", "database is locked")

    @pytest.mark.parametrize(
        ("name", "options"),
        [("file:data.db?mode=ro", ", uri=True"), ("file:///home/guest/data.db?immutable=1", ", uri=True")],
    )
    def test_a_read_only_connection_writes_nothing(self, shared_box: Sandbox, name: str, options: str) -> None:
        found = run(shared_box, f"{MADE}sqlite3.connect('{name}'{options}).execute('INSERT INTO t VALUES (1, 2)')")
        assert found.error is not None
        assert found.error.message == "attempt to write a readonly database"

    @pytest.mark.parametrize(
        ("name", "options"),
        [
            ("file:missing.db?mode=ro", ", uri=True"),
            ("file:missing.db?mode=rw", ", uri=True"),
            ("no/such/folder.db", ""),
            (".", ""),
        ],
    )
    def test_a_file_that_can_not_be_opened_is_an_operational_error(
        self, shared_box: Sandbox, name: str, options: str
    ) -> None:
        found = run(shared_box, f"sqlite3.connect('{name}'{options})")
        assert found.error is not None
        assert found.error.kind == "OperationalError"
        assert found.error.message.startswith("unable to open database file: ")

    def test_a_file_that_is_no_database_is_a_database_error(self, shared_box: Sandbox) -> None:
        found = run(shared_box, "sqlite3.connect('a.txt').execute('SELECT 1')", files={"a.txt": b"hello " * 500})
        assert found.error is not None
        assert (found.error.kind, found.error.message) == ("DatabaseError", "file is not a database")
        assert found.files.get("a.txt", b"hello " * 500) == b"hello " * 500

    def test_a_removed_file_is_begun_anew(self, shared_box: Sandbox) -> None:
        code = (
            f"{MADE}import os\nos.remove('data.db')\nsqlite3.connect('data.db').execute('SELECT * FROM sqlite_master')"
        )
        assert value(shared_box, code) == []

    def test_file_limit_is_met_by_the_statement_that_exceeds_it(self, shared_box: Sandbox) -> None:
        found = run(
            shared_box,
            f"{MADE}for n in range(99):\n    with db:\n        db.execute('INSERT INTO t VALUES (1, zeroblob(9999))')",
            limits={"max_file_bytes": 200_000},
        )
        assert found.error is not None
        assert (found.error.kind, found.error.message) == ("OperationalError", "database or disk is full")
        assert "max_file_bytes" in (found.error.hint or "")
        assert 100_000 < len(found.files["data.db"]) <= 200_000

    @pytest.mark.parametrize(
        "trick",
        [
            "db.execute('PRAGMA max_page_count = 4000000')",
            "db.execute('PRAGMA page_size = 65536')\ndb.execute('VACUUM')",
            "db.set_authorizer(None)\ndb.execute('PRAGMA max_page_count = 4000000')",
            "sqlite3.Connection.__base__.set_authorizer(db, None)\ndb.execute('PRAGMA max_page_count = 4000000')",
        ],
    )
    def test_no_database_is_handed_over_beyond_the_file_limit(self, shared_box: Sandbox, trick: str) -> None:
        found = run(
            shared_box,
            f"db = sqlite3.connect('data.db')\n{trick}\ndb.execute('CREATE TABLE t AS SELECT zeroblob(1000000) AS z')",
            limits={"max_file_bytes": 200_000},
        )
        assert found.status == "error"
        assert len(found.files.get("data.db", b"")) <= 200_000

    def test_a_session_keeps_its_connections(self, shared_box: Sandbox, tmp_path: Path) -> None:
        with shared_box.session() as session:
            session.run_sync(f"import sqlite3\n{MADE}db.execute('INSERT INTO t VALUES (1, 2)')")
            found = session.run_sync("db.commit()")
            assert rows(found.files["data.db"], tmp_path) == [(1, 2)]
            assert session.run_sync("db.execute('SELECT * FROM t')").result == [[1, 2]]


class TestMemory:
    def test_the_results_of_queries_are_encoded(self, shared_box: Sandbox) -> None:
        code = (
            "db = sqlite3.connect(':memory:')\nquery = 'SELECT 1 AS a, 2.5 AS b, NULL AS c, ? AS d'\n"
            "found = [db.execute(query, ['x']).fetchall(), db.execute(query, [b'y'])]\n"
            "db.row_factory = sqlite3.Row\n[*found, db.execute(query, ['z']).fetchone(), db.execute(query, ['z'])]"
        )
        row = {"a": 1, "b": 2.5, "c": None, "d": "z"}
        assert value(shared_box, code) == [[[1, 2.5, None, "x"]], [[1, 2.5, None, "y"]], row, [row]]

    def test_what_a_connection_can_do(self, shared_box: Sandbox) -> None:
        code = """
db = sqlite3.connect(":memory:")
db.executescript("CREATE TABLE t (a INTEGER PRIMARY KEY, b BLOB); INSERT INTO t (b) VALUES (zeroblob(5));")
with db.blobopen("t", "b", 1) as blob:
    blob.write(b"hello")
db.create_function("twice", 1, lambda n: 2 * n, deterministic=True)
class Longest:
    def __init__(self): self.found = ""
    def step(self, text): self.found = max(self.found, text, key=len)
    def finalize(self): return self.found
db.create_aggregate("longest", 1, Longest)
db.create_collation("backwards", lambda a, b: (a < b) - (a > b))
copy = sqlite3.connect(":memory:")
db.backup(copy)
again = sqlite3.connect(":memory:")
again.deserialize(db.serialize())
[
    db.execute("SELECT b, twice(21) FROM t").fetchone(),
    db.execute("SELECT longest(value) FROM json_each('[\\"a\\", \\"ccc\\", \\"bb\\"]')").fetchone(),
    [x for (x,) in db.execute("SELECT value FROM json_each('[1, 3, 2]') ORDER BY value || '' COLLATE backwards")],
    copy.execute("SELECT count(*) FROM t").fetchone(),
    again.execute("SELECT b FROM t").fetchone(),
    list(copy.iterdump())[1],
    isinstance(db, sqlite3.Connection),
]
"""
        assert value(shared_box, code) == [
            ["hello", 42],
            ["ccc"],
            [3, 2, 1],
            [1],
            ["hello"],
            "CREATE TABLE t (a INTEGER PRIMARY KEY, b BLOB);",
            True,
        ]

    def test_connections_can_share_a_database_in_memory(self, shared_box: Sandbox) -> None:
        code = (
            "a, b, c = (sqlite3.connect(f'file:{n}?mode=memory&cache=shared', uri=True) for n in 'xxy')\n"
            "a.execute('CREATE TABLE t (n)')\n"
            "[len(one.execute('SELECT * FROM sqlite_master').fetchall()) for one in (a, b, c)]"
        )
        assert value(shared_box, code) == [1, 1, 0]

    def test_a_connection_of_the_codes_own_class(self, shared_box: Sandbox) -> None:
        code = (
            "class Mine(sqlite3.Connection):\n    def one(self, sql):\n        return self.execute(sql).fetchone()[0]\n"
            "sqlite3.connect('own.db', factory=Mine).one('SELECT 5')"
        )
        assert value(shared_box, code) == 5

    def test_an_authorizer_of_the_codes_own_is_asked(self, shared_box: Sandbox) -> None:
        code = (
            "db = sqlite3.connect(':memory:')\nasked = []\n"
            "db.set_authorizer(lambda *what: asked.append(what[0] == sqlite3.SQLITE_SELECT) or sqlite3.SQLITE_OK)\n"
            "db.execute('SELECT 1')\nany(asked)"
        )
        assert value(shared_box, code) is True

    def test_a_sort_larger_than_the_cache_needs_no_file(self, shared_box: Sandbox) -> None:
        code = (
            "db = sqlite3.connect(':memory:')\n"
            "many = 'WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 60000) SELECT n FROM c'\n"
            "db.execute(f'CREATE TABLE t AS SELECT n, hex(randomblob(30)) AS h FROM ({many})')\n"
            "db.execute('CREATE INDEX i ON t (h)')\n"
            "found = [h for (h,) in db.execute('SELECT h FROM t ORDER BY h, n DESC')]\n"
            "[len(found), found == sorted(found)]"
        )
        assert value(shared_box, code) == [60000, True]

    def test_random_numbers_differ_from_run_to_run(self, shared_box: Sandbox) -> None:
        query = "SELECT random(), hex(randomblob(8)), length(randomblob(3))"
        code = f"sqlite3.connect(':memory:').execute('{query}').fetchone()"
        first, second = value(shared_box, code), value(shared_box, code)
        assert first[:2] != second[:2]
        assert (first[2], len(first[1])) == (3, 16)


def test_a_missing_module_says_what_to_use(shared_box: Sandbox) -> None:
    found = shared_box.run_sync("import bz2")
    assert found.error is not None
    assert found.error.message == "module 'bz2' is not available in the sandbox"
    assert found.error.hint == "this CPython is built without it; use zlib, gzip or zipfile, or have a tool do it"
    code = "try:\n    import lzma\nexcept ImportError:\n    lzma = None\nlzma"
    assert shared_box.run_sync(code).status == "completed"

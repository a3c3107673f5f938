"""SQLite opens nothing but memory and the run's own files, and keeps to the run's limits."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from go_ent.sandbox import Run, Sandbox
from tests.security.breaking import Host, a_host, goes_on
from tests.security.corpus import attack

SMALL = {"memory_mb": 64, "cpu_s": 1, "timeout_s": 10}
PLAIN = "sqlite3.Connection.__base__"  # SQLite's own, without what the sandbox puts before it


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    with a_host(tmp_path_factory.mktemp("host")) as host:
        yield host


def case(mechanism: str, code: str, *outcome: str, family: str = "jail") -> object:
    return pytest.param(code, *outcome, marks=attack(family, mechanism), id=mechanism)


def tried(box: Sandbox, host: Host, code: str, **limits: float) -> Run:
    run = box.run_sync(f"import sqlite3\n{code}", host.inputs, limits={**SMALL, **limits})
    host.untouched(run)
    goes_on(box)
    return run


@pytest.mark.parametrize(
    ("code", "kind", "message"),
    [
        case(
            "a database by an absolute name",
            "sqlite3.connect(secret_file)",
            "PolicyRefusal",
            "only the run's own files can be opened",
        ),
        case(
            "a database by a file: URI",
            "sqlite3.connect(f'file://{secret_file}?mode=ro', uri=True)",
            "PolicyRefusal",
            "only the run's own files can be opened",
        ),
        case(
            "a database above the run's folder",
            "sqlite3.connect('../../../../../../..' + secret_file)",
            "PolicyRefusal",
            "only the run's own files can be opened",
        ),
        case(
            "a database by SQLite's own class",
            f"{PLAIN}(marker)",
            "OperationalError",
            "unable to open database file",
        ),
        case(
            "a database by SQLite's own class and another of its file systems",
            f"{PLAIN}(f'file:{{marker}}?vfs=unix-none', uri=True)",
            "OperationalError",
            "unable to open database file",
        ),
        case(
            "a file attached to a database",
            "sqlite3.connect(':memory:').execute(f\"ATTACH '{secret_file}' AS other\")",
            "DatabaseError",
            "not authorized",
        ),
        case(
            "a file attached by a parameter",
            "sqlite3.connect('a.db').execute('ATTACH ? AS other', [secret_file])",
            "DatabaseError",
            "not authorized",
        ),
        case(
            "a file attached in a script, behind a comment",
            "sqlite3.connect('a.db').executescript(f\"SELECT 1; /**/ ATTACH 'file:{secret_file}' AS other\")",
            "DatabaseError",
            "not authorized",
        ),
        case(
            "a file attached under an authorizer that allows everything",
            "db = sqlite3.connect('a.db')\ndb.set_authorizer(lambda *what: 0)\n"
            "db.execute(f\"ATTACH '{secret_file}' AS other\")",
            "DatabaseError",
            "not authorized",
        ),
        case(
            "a file attached without an authorizer",
            f"db = sqlite3.connect(':memory:')\n{PLAIN}.set_authorizer(db, None)\n"
            "db.execute(f\"ATTACH '{marker}' AS other\")\ndb.execute('CREATE TABLE other.t (a)')",
            "OperationalError",
            "unable to open database",
        ),
        case(
            "a database copied to a file, by VACUUM INTO",
            "db = sqlite3.connect('a.db')\ndb.execute(f\"VACUUM INTO '{marker}'\")",
            "DatabaseError",
            "authorization denied",
        ),
        case(
            "temporary files of SQLite on a disk",
            f"db = {PLAIN}(':memory:')\ndb.execute('PRAGMA temp_store = FILE')\n"
            "db.execute('PRAGMA temp.cache_size = 1')\ndb.execute('CREATE TEMP TABLE t (a)')\n"
            "db.executemany('INSERT INTO t VALUES (zeroblob(?))', [[9999]] * 99)",
            "OperationalError",
            "disk I/O error",
        ),
        case(
            "a library loaded by SQL",
            "sqlite3.connect(':memory:').execute('SELECT load_extension(?)', [marker])",
            "OperationalError",
            "no such function: load_extension",
        ),
        case(
            "a library loaded by a connection",
            "db = sqlite3.connect(':memory:')\ndb.enable_load_extension(True)\ndb.load_extension(marker)",
            "AttributeError",
            "has no attribute 'enable_load_extension'",
        ),
        case(
            "files read by SQL", "sqlite3.connect(':memory:').execute('SELECT readfile(?)', [secret_file])",
            "OperationalError", "no such function: readfile",
        ),
    ],
)  # fmt: skip
def test_nothing_else_can_be_opened(box: Sandbox, host: Host, code: str, kind: str, message: str) -> None:
    run = tried(box, host, code)
    assert run.error is not None
    assert run.error.kind == kind
    assert message in run.error.message
    if kind in ("PolicyRefusal", "DatabaseError"):
        assert run.error.hint


@pytest.mark.parametrize(
    ("code", "status"),
    [
        case(
            "an endless query",
            "sqlite3.connect(':memory:').execute("
            "'WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT count(*) FROM c').fetchall()",
            "cpu_limit",
            family="resources",
        ),
        case(
            "a cross join without end",
            "db = sqlite3.connect(':memory:')\ndb.execute('CREATE TABLE t (a)')\n"
            "db.executemany('INSERT INTO t VALUES (?)', ([n] for n in range(1000)))\n"
            "db.execute('SELECT sum(x.a * y.a) FROM t x, t y, t z, t w WHERE x.a + y.a + z.a + w.a < 0').fetchall()",
            "cpu_limit",
            family="resources",
        ),
        case(
            "a function of a query that never returns",
            "db = sqlite3.connect(':memory:')\n"
            "def forever():\n    while True:\n        try:\n            while 1: pass\n        except: pass\n"
            "db.create_function('forever', 0, forever)\ndb.execute('SELECT forever()').fetchall()",
            "cpu_limit",
            family="resources",
        ),
        case(
            "blobs that fill the memory, by a query",
            "sqlite3.connect(':memory:').execute("
            "'WITH RECURSIVE c(b) AS (SELECT randomblob(1000000) UNION ALL SELECT b || b FROM c) SELECT max(b) FROM c'"
            ").fetchall()",
            "memory_limit",
            family="resources",
        ),
        case(
            "one blob larger than the memory",
            "sqlite3.connect(':memory:').execute('SELECT randomblob(900000000)').fetchall()",
            "memory_limit",
            family="resources",
        ),
        case(
            "a database that fills the memory",
            "db = sqlite3.connect(':memory:')\ndb.execute('CREATE TABLE t (a)')\n"
            "while True:\n    db.execute('INSERT INTO t VALUES (zeroblob(1000000))')",
            "memory_limit",
            family="resources",
        ),
    ],
)
def test_a_query_keeps_to_the_limits(box: Sandbox, host: Host, code: str, status: str) -> None:
    cpu_s = 0.2 if status == "cpu_limit" else 1
    assert tried(box, host, code, cpu_s=cpu_s).status == status


@attack("state", "a database in a guest's memory, for the next run")
def test_no_database_outlives_its_run(box: Sandbox) -> None:
    made = "import sqlite3\ndb = sqlite3.connect('file:x?mode=memory&cache=shared', uri=True)\n"
    for _ in range(3):
        run = box.run_sync(f"{made}db.execute('CREATE TABLE t (a)')\ndb.execute('SELECT * FROM t')")
        assert (run.status, run.result) == ("completed", [])

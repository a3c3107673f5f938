"""Executions of a fleet: who is dead, who has lost what, and what is believed of the database."""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Callable, Iterator

import pytest

pytest.importorskip("psycopg", reason="the fleet's tests need its packages: make test-fleet installs them")

from go_ent.engine.core.errors import BadState, ExecutionConflict
from go_ent.engine.executions.store import ExecutionStore
from go_ent.engine.fleet import members
from go_ent.engine.fleet.database import Address, Database
from go_ent.engine.fleet.execution_storage import PostgresStorage
from tests.engine.executions.test_executions import fresh, result
from tests.support.fleet import storages

Open = Callable[[], PostgresStorage]


@pytest.fixture
def another(fleet: Address) -> Iterator[Open]:
    with storages(fleet) as opened:
        yield opened


@pytest.fixture
def database(fleet: Address) -> Iterator[Database]:
    database = Database(fleet)
    yield database
    database.close()


def killed(storage: PostgresStorage) -> None:
    """The process is gone: its session, and with it its lock."""
    member = storage.member
    assert member is not None
    member.over.set()
    assert member.thread is not None
    member.thread.join()
    assert member.session is not None
    backend = member.session.info.backend_pid
    member.session.close()
    end = time.monotonic() + 60
    while storage.database.ask("select from pg_stat_activity where pid = %s", (backend,)):
        assert time.monotonic() < end
        time.sleep(0.01)


def buried(storage: PostgresStorage) -> None:
    """Wait until a dead process is known to be."""
    end = time.monotonic() + 60
    while not any(one.dead for one in storage.members.bury()):
        assert time.monotonic() < end
        time.sleep(0.05)


class TestDeath:
    def test_what_a_dead_process_had_is_taken_before_its_silence_would_tell(
        self, another: Open, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(members, "SILENT_S", 3600.0)
        a, b = another(), another()
        held = ExecutionStore(a).create(fresh())
        held.move("running")
        killed(a)
        assert ExecutionStore(b).load(held.id).status == "interrupted"
        with ExecutionStore(b).hold(held.id) as again:
            again.finish_step("a", result("a"))
        assert list(ExecutionStore(b).load(held.id).results) == ["a"]

    def test_who_wakes_up_again_can_write_nothing(self, another: Open) -> None:
        a, b = another(), another()
        zombie = ExecutionStore(a).create(fresh())
        zombie.move("running")
        killed(a)
        with ExecutionStore(b).hold(zombie.id) as again:
            with pytest.raises(OSError, match="was taken over by another process") as raised:
                zombie.finish_step("late", result("late"))
            assert raised.value.errno == errno.ESTALE
            with pytest.raises(OSError, match="was taken over"):
                zombie.append("progress", {"text": "later"})
            zombie.release()
            assert b.is_held(again.id)
            again.finish_step("a", result("a"))
        assert list(ExecutionStore(b).load(zombie.id).results) == ["a"]

    def test_a_process_that_says_nothing_is_dead_though_its_connection_lives(
        self, another: Open, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(members, "SILENT_S", 0.3)
        a, b = another(), another()
        held = ExecutionStore(a).create(fresh())
        member = a.member
        assert member is not None
        member.over.set()  # stopped: it shows no more that it lives
        time.sleep(0.4)
        buried(b)
        assert not b.is_held(held.id)
        assert not member.beat()  # it wakes up, and is told

    @pytest.mark.more
    def test_a_server_that_comes_back_finds_all_alive(self, another: Open, database: Database) -> None:
        a, b = another(), another()
        held = ExecutionStore(a).create(fresh())
        b.joined()
        assert a.member is not None
        backend = next(seen.backend for seen in b.members.look() if seen.id == a.member.id)
        database.ask("select pg_terminate_backend(%s)", (backend,))  # every session, when a server restarts
        until = time.monotonic() + 3 * members.GRACE_S
        while time.monotonic() < until:
            assert not any(one.dead for one in b.members.bury())
            time.sleep(0.1)
        assert b.is_held(held.id)
        held.finish_step("a", result("a"))
        held.release()

    def test_nobody_else_is_touched(self, another: Open) -> None:
        a, b, c = another(), another(), another()
        one, two = ExecutionStore(a).create(fresh()), ExecutionStore(b).create(fresh())
        killed(a)
        buried(c)
        assert (c.is_held(one.id), c.is_held(two.id)) == (False, True)
        with pytest.raises(ExecutionConflict, match="is being run by process"):
            c.hold(two.id)
        two.release()


def test_only_the_last_wait_for_a_worker_counts(another: Open) -> None:
    a, b = another(), another()
    with ExecutionStore(a).create(fresh()) as held:
        held.place()
    first = a.queue(held.id)
    assert first is not None
    assert (a.queue(held.id), b.is_due(held.id, first)) == (None, True)
    b.ask_to_interrupt(held.id)
    assert not b.is_due(held.id, first)
    second = b.queue(held.id)
    assert second is not None
    assert (b.is_due(held.id, first), b.is_due(held.id, second)) == (False, True)
    with ExecutionStore(b).hold(held.id):
        assert not a.is_due(held.id, second)  # who has it lives


class TestWriting:
    def test_what_many_write_at_once_takes_few_transactions(self, another: Open, database: Database) -> None:
        store = ExecutionStore(another())
        held = [store.create(fresh()) for _ in range(8)]
        before = _commits(database)

        def steps(n: int) -> None:
            for number in range(10):
                held[n].finish_step(f"s{number}", result(f"s{number}"))

        threads = [threading.Thread(target=steps, args=(n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [len(one.state.results) for one in held] == [10] * 8
        for one in held:
            assert len(store.load(one.id).results) == 10
        assert _commits(database) - before < 8 * 10  # each by itself would be as many, and the reads come on top
        for one in held:
            one.release()

    def test_a_lost_connection_writes_nothing_twice(self, another: Open, database: Database) -> None:
        store = ExecutionStore(another())
        with store.create(fresh()) as held:
            for number in range(20):
                database.ask(
                    "select count(pg_terminate_backend(pid)) from pg_stat_activity where pid <> pg_backend_pid() "
                    "and application_name = 'go-ent' and query like '%%slots%%'"
                )
                held.finish_step(f"s{number}", result(f"s{number}"))
        assert [record["seq"] for record in store.records(held.id)] == list(range(1, 22))


class TestHostileRows:
    """Somebody who can write to the database: what is wrong is one bad item, and nothing is run."""

    def test_a_row_of_the_index(self, another: Open, database: Database) -> None:
        store = ExecutionStore(another())
        good, bad = store.create(fresh()), store.create(fresh())
        for held in (good, bad):
            held.move("running")
            held.move("completed")
            held.release()
        database.tell("update $.executions set kind = 'evil', title = repeat('x', 1000) where id = %s", (bad.id,))
        assert [row.id for row in store.rows()] == [good.id]
        assert store.load(bad.id).status == "completed"

    @pytest.mark.parametrize(
        "data",
        [
            b"",
            b"\x80\x04\x95.",
            b"cos\nsystem\n(S'false'\ntR.",
            b"[" * 100_000,
            b'{"seq": 1, "kind": "created"}\n',
            b"\n",
        ],
        ids=["empty", "pickle 4", "pickle 0", "deep", "no state", "blank"],
    )
    def test_lines_that_are_none(self, another: Open, database: Database, data: bytes) -> None:
        store = ExecutionStore(another())
        with store.create(fresh()) as held:
            held.move("running")
        good = store.create(fresh())
        database.tell("update $.lines set data = %s where slot = %s", (data, held.id))
        with pytest.raises(BadState):
            store.load(held.id)
        assert {row.id for row in store.rows()} == {held.id, good.id}
        good.release()

    def test_lost_lines_are_told(self, another: Open, database: Database) -> None:
        store = ExecutionStore(another())
        with store.create(fresh()) as held:
            held.move("running")
            held.finish_step("a", result("a"))
            held.move("completed")
        rows = database.ask("select start from $.lines where slot = %s order by start", (held.id,))
        database.tell("delete from $.lines where slot = %s and start = %s", (held.id, rows[2][0]))
        assert any("lost" in said for said in store.load(held.id).damage)
        database.tell("delete from $.lines where slot = %s and start > 0", (held.id,))
        assert any("lost" in said for said in store.load(held.id).damage)


def _commits(database: Database) -> int:
    """Transactions that have written something."""
    return int(database.ask("select pg_snapshot_xmax(pg_current_snapshot())::text::bigint")[0][0])

"""An executions folder that somebody else has filled: it is read within bounds, believed only where it fits, and
never left.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from go_ent.composer.catalogue.learned import learn
from go_ent.engine.core.errors import BadState, EngineError
from go_ent.engine.core.ids import new_id
from go_ent.engine.executions.past_runs import past_runs
from go_ent.engine.storage.records import MAX_JOURNAL, encode, read_records
from go_ent.engine.storage.slot import JOURNAL_FILE, STATE_FILE
from tests.engine.executions.test_executions import fresh, result
from tests.security.corpus import attack
from tests.support.executions import FileStore, folder_of


@pytest.fixture
def store(tmp_path: Path) -> FileStore:
    return FileStore(tmp_path / "project")


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_text("mine\n")
    return path


def made(store: FileStore) -> Path:
    with store.create(fresh()) as held:
        held.move("running")
    return folder_of(held)


def everything(store: FileStore, folder: Path) -> list[str]:
    """Look at it and take it in every way; what was said of those that were refused."""
    looks: list[Callable[[], object]] = [
        lambda: store.load(folder.name),
        lambda: store.hold(folder.name).release(),
        lambda: list(store.records(folder.name)),
        lambda: store.read_from(folder.name, 0),
        lambda: store.read_from(folder.name, 7),
        lambda: store.rows(),
        lambda: store.rows(5),
    ]
    said = []
    for look in looks:
        try:
            look()
        except (EngineError, OSError) as error:
            said.append(str(error))
    return said


class TestOtherThanFiles:
    @attack("paths", "a link in place of a journal or a state")
    @pytest.mark.parametrize("name", [JOURNAL_FILE, STATE_FILE])
    def test_a_link_is_not_followed(self, store: FileStore, secret: Path, name: str) -> None:
        folder = made(store)
        (folder / name).unlink()
        (folder / name).symlink_to(secret)
        said = everything(store, folder)
        assert bool(said) == (name == JOURNAL_FILE)  # the journal has all of the state
        assert "mine" not in " ".join(said)
        assert secret.read_text() == "mine\n"

    @attack("paths", "a pipe in place of a journal or a state")
    @pytest.mark.parametrize("name", [JOURNAL_FILE, STATE_FILE, ".tmp-" + STATE_FILE])
    def test_a_pipe_makes_nobody_wait(self, store: FileStore, name: str) -> None:
        folder = made(store)
        (folder / name).unlink(missing_ok=True)
        os.mkfifo(folder / name)
        said = everything(store, folder)
        assert bool(said) == (name == JOURNAL_FILE)
        if not said:
            with store.hold(folder.name) as held:
                held.move("paused")
            assert b'"status":"paused"' in (folder / STATE_FILE).read_bytes()

    @attack("paths", "a link in place of a file to be written")
    @pytest.mark.parametrize("name", [".tmp-" + STATE_FILE, ".tmp-" + JOURNAL_FILE, "journal.damaged-1.jsonl"])
    def test_nothing_is_written_through_a_link(self, store: FileStore, secret: Path, name: str) -> None:
        folder = made(store)
        (folder / name).symlink_to(secret)
        path = folder / JOURNAL_FILE
        path.write_bytes(b"?\n" + path.read_bytes())
        with store.hold(folder.name) as held:
            held.move("paused")
        assert secret.read_text() == "mine\n"
        assert (folder / "journal.damaged-1.jsonl").is_symlink() == (folder / "journal.damaged-2.jsonl").exists()

    @attack("paths", "an execution's folder that is a link")
    def test_a_folder_that_is_a_link_is_no_execution(self, store: FileStore, tmp_path: Path) -> None:
        folder = made(store)
        folder.rename(tmp_path / folder.name)
        folder.symlink_to(tmp_path / folder.name)
        before = sorted(os.listdir(tmp_path / folder.name))
        with pytest.raises(BadState, match="by a link"):
            store.hold(folder.name)
        everything(store, folder)
        assert sorted(os.listdir(tmp_path / folder.name)) == before

    @attack("records", "a journal larger than may be")
    def test_a_journal_that_is_too_large_is_not_read(self, store: FileStore) -> None:
        folder = made(store)
        os.truncate(folder / JOURNAL_FILE, MAX_JOURNAL + 1)
        assert any(f"has {MAX_JOURNAL + 1} bytes, and {MAX_JOURNAL} may be" in one for one in everything(store, folder))


class TestWhatIsWritten:
    @attack("records", "zeros at the end of a journal")
    def test_zeros_where_a_record_should_be_are_cut_off(self, store: FileStore) -> None:
        folder, size = made(store), 1 << 20
        path = folder / JOURNAL_FILE
        os.truncate(path, path.stat().st_size + size)
        assert everything(store, folder) == []
        texts = [record.get("text") for record in store.records(folder.name)]
        assert f"the last record was torn by a crash and cut off: {size} bytes" in texts

    @attack("records", "a forged state with a right checksum")
    @pytest.mark.parametrize(
        "state",
        [
            '{"version":2}',
            "[" * 100_000,
            '{"version":1,"a":' * 50_000,
            "null",
            '{"version":' + "9" * 5000 + "}",
            '{"version":1e999}',
            '"\\ud800"',
        ],
    )
    def test_a_state_with_a_right_checksum_is_still_checked(self, store: FileStore, state: str) -> None:
        folder = made(store)
        packed = f'{{"checksum":"{hashlib.sha256(state.encode()).hexdigest()}","state":{state}}}\n'
        (folder / STATE_FILE).write_text(packed)
        assert everything(store, folder) == []
        assert store.load(folder.name).status == "interrupted"  # made anew, from the journal

    @attack("records", "a place in a journal that is none")
    @pytest.mark.parametrize("number", [-1, 1 << 60])
    def test_a_place_in_the_journal_is_checked(self, store: FileStore, number: int) -> None:
        folder = made(store)
        text = store.load(folder.name).model_copy(update={"offset": number, "seq": 1}).model_dump_json()
        packed = f'{{"checksum":"{hashlib.sha256(text.encode()).hexdigest()}","state":{text}}}\n'
        (folder / STATE_FILE).write_text(packed)
        assert store.load(folder.name).status == "interrupted"

    @attack("records", "an execution in another's folder")
    def test_an_execution_in_the_folder_of_another_is_refused(self, store: FileStore) -> None:
        folder = made(store)
        other = folder.with_name(new_id())
        folder.rename(other)
        assert any("holds another execution" in one for one in everything(store, other))

    @attack("records", "numbers of records that leap")
    def test_numbers_that_leap_lose_nothing_that_is_there(self, store: FileStore) -> None:
        folder = made(store)
        leap = encode((1 << 53) - 2, 1.0, "status", {"changes": {"status": "paused"}})
        with open(folder / JOURNAL_FILE, "ab") as file:
            file.write(leap)
        looked = store.load(folder.name)
        with store.hold(folder.name) as held, pytest.raises(OSError, match="the journal of an execution may have"):
            held.append("progress", {})
        found = read_records(folder / JOURNAL_FILE)
        assert (found.torn, found.gaps) == (0, ())
        assert (looked.status, looked.damage) == (
            "paused",
            (f"records 3 to {(1 << 53) - 3} are lost: the journal was damaged",),
        )
        everything(store, folder)

    @attack("records", "damage without end")
    def test_damage_without_end_is_said_within_bounds(self, store: FileStore) -> None:
        folder = made(store)
        with open(folder / JOURNAL_FILE, "ab") as file:
            for number in range(3, 2000):
                file.write(encode(number, 1.0, "try", {"step": ["x" * 500]}))
        state = store.load(folder.name)
        assert len(state.damage) == 100
        assert len("".join(state.damage)) < 100_000


class TestWhatIsLearnedFromIt:
    DEEP = b"[" * 900 + b"]" * 900
    WORKS: tuple[dict[str, object], ...] = (
        {"guest": {"code": "1", "inputs": [1]}},
        {"guest": {"code": ["1"]}},
        {"guest": "code"},
        {"guest": {"code": "1", "inputs": {"x": "y" * 100_000}}},
        {"plan": {"task": [{"id": "run", "code": "1", "inputs": {"a": "${gone.output}"}}]}},
        {"tasks": 5},
        {},
    )
    RECORDS: tuple[tuple[str, dict[str, object], dict[str, bytes]], ...] = (
        ("guest", {"path": "run"}, {}),
        ("call", {"path": "run/1", "tool": "a.x", "arguments": "none"}, {}),
        ("answer", {"path": "run/1", "answer": {"1": 1}}, {}),
        ("call", {"path": "run/2", "tool": {"a": 1}, "arguments": [[], {}]}, {}),
        ("call", {"path": "run/3", "tool": "a.x"}, {"arguments": b"[[],%b]" % DEEP}),
        ("answer", {"path": "run/3"}, {"answer": b"[3,1,%b]" % DEEP}),
        ("answer", {"path": "run/9", "answer": [9, 1, "never asked"]}, {}),
        ("call", {"path": "", "tool": "a.x", "arguments": [1, 2]}, {}),
        ("call", {"path": "run/4", "tool": "a.x", "arguments": [[], {"n": 1}]}, {}),
        ("answer", {"path": "run/4"}, {"answer": b'[4,1,"%b"]' % (b"x" * 1_000_000)}),
        ("calls", {"path": "run", "calls": []}, {"calls": b'[{"name": 5}]'}),
        ("calls", {"path": "else", "calls": [{"name": "a.x", "arguments": 7}]}, {}),
    )

    @attack("records", "forged calls and code, for what is learned and suggested")
    def test_what_makes_no_sense_teaches_nothing_and_costs_no_other(self, store: FileStore) -> None:
        with store.create(fresh(kind="code", work={"guest": {"code": "len('a')"}})) as good:
            good.move("running")
            good.finish_step("run", result("run", structured=1))
        for work in self.WORKS:
            with store.create(fresh(kind="code", work=work)) as held:
                held.move("running")
                held.finish_step("run", result("run", structured=1))
                for kind, data, raw in self.RECORDS:
                    held.append(kind, data, raw=raw)
        runs = list(past_runs(store))
        assert [run.source for run in runs if run.source is not None] == ["len('a')"]
        calls = [call for run in runs for call in run.calls]
        assert {call.name for call in calls} == {"a.x"}
        results = [call.result for call in calls if call.kept and call.error is None]
        assert all(isinstance(result, list) for result in results)  # the deep one; the long one is not kept
        assert len(json.dumps(learn(results))) < 1000

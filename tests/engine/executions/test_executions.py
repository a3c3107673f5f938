"""Executions on disk: ids, states, the journal, and who owns what."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any, get_args

import pytest

from go_ent.engine.core.errors import BadState, ExecutionConflict, ExecutionNotFound
from go_ent.engine.core.ids import ID, new_id
from go_ent.engine.core.models import Attempt, RunResult, Tokens
from go_ent.engine.executions.owned import OwnedExecution
from go_ent.engine.executions.state import (
    FINISHED,
    TRANSITIONS,
    AgentSession,
    Environment,
    ExecutionState,
    ExecutionStatus,
    digest_of,
    pack,
    unpack,
)
from go_ent.engine.storage.claims import Claim
from go_ent.engine.storage.slot import STATE_FILE
from tests.support.executions import FileStore, folder_of
from tests.support.forked import Forked


def fresh(**changes: Any) -> ExecutionState:
    now = time.time()
    work = {"tasks": [{"description": "x"}], "one": True}
    state = ExecutionState(
        id=new_id(),
        kind="task",
        title="x",
        work=work,
        work_digest=digest_of(work),
        environment=Environment(go_ent="0", python="3"),
        created=now,
        updated=now,
    )
    return state.model_copy(update=changes)


def result(step: str, **fields: object) -> RunResult:
    return RunResult.model_validate(
        {"execution_id": "e", "task_id": step, "status": "completed", "output": f"{step} done", **fields}
    )


@pytest.fixture
def store(tmp_path: Path) -> FileStore:
    return FileStore(tmp_path)


class TestIds:
    def test_they_sort_by_when_they_were_made(self) -> None:
        made = [new_id() for _ in range(2000)]
        assert made == sorted(made)
        assert len(set(made)) == len(made)
        assert all(ID.fullmatch(one) for one in made)

    def test_they_hold_the_time(self) -> None:
        assert abs(int(new_id().replace("-", "")[:12], 16) / 1000 - time.time()) < 60


class TestStates:
    def test_every_status_has_a_line_in_the_table(self) -> None:
        assert set(TRANSITIONS) == set(get_args(ExecutionStatus))

    def test_what_has_finished_stays_so(self) -> None:
        for status in FINISHED:
            assert not TRANSITIONS[status]

    @pytest.mark.parametrize(
        ("now", "then"), [("completed", "running"), ("pending", "completed"), ("interrupted", "completed")]
    )
    def test_other_transitions_are_refused(self, now: ExecutionStatus, then: ExecutionStatus) -> None:
        with pytest.raises(ExecutionConflict, match=f"can't become {then}"):
            fresh(status=now).moved(then, 1.0)

    def test_a_state_survives_its_file(self) -> None:
        state = fresh(results={"a": result("a")})
        assert unpack(pack(state), "file") == state

    @pytest.mark.parametrize(
        "damage",
        [lambda data: data[:-20], lambda data: data.replace(b'"x"', b'"y"'), lambda data: b"", lambda data: b"{}"],
    )
    def test_a_damaged_file_is_noticed(self, damage: object) -> None:
        with pytest.raises(BadState, match="damaged"):
            unpack(damage(pack(fresh())), "file")  # type: ignore[operator]

    def test_a_newer_version_is_refused_by_name(self) -> None:
        import hashlib

        text = fresh().model_dump_json().replace('"version":3', '"version":7', 1)
        packed = f'{{"checksum":"{hashlib.sha256(text.encode()).hexdigest()}","state":{text}}}\n'.encode()
        with pytest.raises(BadState, match="has version 7, and this go-ent reads versions up to 3: update go-ent"):
            unpack(packed, "file")

    def test_a_digest_does_not_depend_on_order(self) -> None:
        assert digest_of({"a": 1, "b": [1, 2]}) == digest_of({"b": [1, 2], "a": 1}) != digest_of({"a": 1, "b": [2, 1]})


class TestStore:
    def test_what_was_done_is_there_again(self, store: FileStore) -> None:
        with store.create(fresh()) as held:
            held.move("running")
            assert held.start_try("a", "cli") == 1
            tokens = Tokens(input=10, output=5)
            attempt = Attempt(runtime="cli", status="completed", cost_usd=0.5, tokens=tokens)
            held.finish_step("a", result("a", attempts=(attempt,)))
            assert held.start_try("b", "claude-code") == 1
            held.session("b", AgentSession(runtime="claude-code", id="s1"))
            execution_id = held.id
        with store.hold(execution_id) as again:
            assert again.state.results["a"].output == "a done"
            assert again.state.tries == {"a": 1, "b": 1}
            assert again.state.sessions["b"].id == "s1"
            assert (again.state.spent_usd, again.state.spent_tokens) == (0.5, 15)
            assert again.start_try("b", "claude-code") == 2

    def test_a_lost_state_is_made_anew_from_the_journal(self, store: FileStore) -> None:
        with store.create(fresh()) as held:
            held.move("running")
            held.finish_step("a", result("a"))
        for damaged in (True, False):
            if damaged:
                (folder_of(held) / STATE_FILE).write_bytes(b"junk")
            else:
                (folder_of(held) / STATE_FILE).unlink()
            with store.hold(held.id) as again:
                assert again.state.status == "running"
                assert again.state.results["a"].ok
                again.write()

    def test_neither_state_nor_journal_is_said_to_be_damaged(self, store: FileStore) -> None:
        held = store.create(fresh())
        held.release()
        (folder_of(held) / STATE_FILE).write_bytes(b"junk")
        (folder_of(held) / "journal.jsonl").write_bytes(b"junk\n")
        with pytest.raises(BadState, match="its journal does not tell how it began"):
            store.hold(held.id)

    def test_one_process_owns_it(self, store: FileStore) -> None:
        with (
            store.create(fresh()) as held,
            pytest.raises(ExecutionConflict, match=f"is being run by process {os.getpid()}"),
        ):
            store.hold(held.id)
        store.hold(held.id).release()

    def test_running_without_an_owner_is_interrupted(self, store: FileStore) -> None:
        with store.create(fresh()) as held:
            held.move("running")
            assert store.load(held.id).status == "running"
        assert store.load(held.id).status == "interrupted"

    def test_a_killed_owner_lets_go(self, store: FileStore, tmp_path: Path) -> None:
        code = (
            "import sys, time; from pathlib import Path; from tests.engine.executions.test_executions import *\n"
            "held = FileStore(Path(sys.argv[1])).create(fresh()); held.move('running'); "
            "held.finish_step('a', result('a'))\n"
            "print(held.id, flush=True); time.sleep(60)"
        )
        child = Forked(str(tmp_path), code=code, stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        with child.stdout:
            execution_id = child.stdout.readline().strip()
        assert store.load(execution_id).status == "running"
        child.send_signal(signal.SIGKILL)
        child.wait()
        assert store.load(execution_id).status == "interrupted"
        with store.hold(execution_id) as held:
            assert held.state.results["a"].ok

    def test_a_request_to_stop_is_for_who_has_it_then(self, store: FileStore, monkeypatch: pytest.MonkeyPatch) -> None:
        with store.create(fresh()) as held:
            held.move("running")
            assert store.ask_to_interrupt(held.id) is None
        with store.hold(held.id) as again:
            assert not again.interrupt_requested(), "that was for who had it before"
        take = Claim.take

        def taken(claim: Claim) -> Claim:
            found = take(claim)
            assert store.ask_to_interrupt(held.id) is None
            return found

        monkeypatch.setattr(Claim, "take", taken)
        with store.hold(held.id) as asked:
            assert asked.interrupt_requested()

    def test_an_id_is_found_by_its_beginning(self, store: FileStore) -> None:
        with store.create(fresh()) as first, store.create(fresh(id="ffffffff" + new_id()[8:])) as second:
            assert store.find(second.id[:6]) == second.id
            assert store.find(first.id) == first.id
            assert [row.id for row in store.rows(10)] == [second.id, first.id]

    @pytest.mark.parametrize("text", ["", "..", "../../etc", "/etc/passwd", "a\0b", "*", "ABC", "0000", "x" * 10_000])
    def test_other_ids_are_refused(self, store: FileStore, text: str) -> None:
        with pytest.raises(ExecutionNotFound):
            store.find(text)

    def test_several_of_one_beginning_are_said(self, store: FileStore) -> None:
        same = new_id()
        with (
            store.create(fresh(id=same[:-1] + "1")),
            store.create(fresh(id=same[:-1] + "2")),
            pytest.raises(ExecutionNotFound, match="fits several executions"),
        ):
            store.find(same[:20])


class TestInterrupting:
    def ask(self, store: FileStore, held: OwnedExecution) -> str:
        with pytest.raises(ExecutionConflict) as caught:
            store.ask_to_interrupt(held.id)
        return str(caught.value)

    def test_the_owner_is_asked_once(self, store: FileStore) -> None:
        with store.create(fresh()) as held:
            held.move("running")
            store.ask_to_interrupt(held.id)
            assert [held.interrupt_requested(), held.interrupt_requested()] == [True, False]

    def test_what_has_finished_is_said_to_have(self, store: FileStore) -> None:
        with store.create(fresh()) as held:
            held.move("running")
            held.move("completed")
            assert "has finished: it is completed" in self.ask(store, held)

    def test_what_nobody_runs_is_said_not_to(self, store: FileStore) -> None:
        held = store.create(fresh())
        held.move("running")
        held.release()
        assert "is not running: it is interrupted" in self.ask(store, held)

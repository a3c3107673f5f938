"""A composed tool over the lines of stdin (`--each`): one execution, which is gone on with over the same lines."""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client

from go_ent.composer import Composer
from go_ent.composer.composed import toolfile
from go_ent.composer.composed.store import Store
from go_ent.engine import Engine, ExecutionConflict
from go_ent.engine.cli.commands.pipeline import Piped
from go_ent.engine.cli.inputs.sources import Item
from go_ent.engine.guest_runs.batch import Batch
from go_ent.engine.guest_runs.runs import GuestOrder, guest_order
from go_ent.engine.server import make_server
from go_ent.engine.storage.file_storage import owner
from go_ent.sandbox import Run, Status
from tests.composer.conftest import tool
from tests.engine.server.test_server import say
from tests.support.executions import FileStore, files_of
from tests.support.shell import Done, go_ent

DROP = 'def drop(n: int) -> int:\n    """Drop."""\n    return -n\n'
WORK = """async def work(n: int) -> int:
    \"\"\"Odd ones need approval; multiples of ten fail.\"\"\"
    checkpoint(f"line of {n}")
    return await tools.drop(n=n) if n % 2 else n // (n % 10)
"""


@pytest.fixture
def project(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (project / ".go-ent" / "config.toml").write_text('[grants]\napprove = ["drop"]\n')
    store = Store(project / ".go-ent" / "composed-tools", "project")
    for name, code in (("drop", DROP), ("work", WORK)):
        store.save(toolfile.read(tool(name, code)))
    monkeypatch.chdir(project)
    return project


def each(lines: str, *options: str) -> Done:
    return go_ent("tool", "run", "work", "--each", *options, stdin=lines.encode())


def resume(execution_id: str, lines: str) -> Done:
    return go_ent("resume", execution_id, stdin=lines.encode())


def only(project: Path) -> str:
    (row,) = json.loads(go_ent("ps", "--json", cwd=project).stdout)
    found: str = row["id"]
    return found


def status(execution_id: str) -> Any:
    return json.loads(go_ent("status", execution_id, "--json").stdout)


def records(project: Path, execution_id: str, kind: str) -> list[dict[str, Any]]:
    return [one for one in FileStore(project).records(execution_id) if one["kind"] == kind]


class TestLinesThatWait:
    LINES = "1\n2\n3\n4\n"

    def test_pause_it_and_are_done_when_they_were_approved(self, project: Path) -> None:
        done = each(self.LINES)
        execution_id = only(project)
        assert (done.returncode, done.stdout.split()) == (10, [b"1", b"1"])
        assert f"2 calls wait for approval: go-ent approve {execution_id[-8:]}".encode() in done.stderr
        state = status(execution_id)
        assert (state["status"], sorted(state["requests"])) == ("paused", ["1/2", "3/2"])
        assert go_ent("approve", execution_id).returncode == 0
        done = resume(execution_id, self.LINES)
        assert (done.returncode, done.stdout.split()) == (0, [b"-1", b"1", b"-3", b"1"])
        state = status(execution_id)
        assert (state["status"], state["requests"], state["lines"]) == ("completed", {}, {"done": 4, "failed": 0})
        assert sorted(one["n"] for one in records(project, execution_id, "line")) == [1, 2, 3, 4]
        begun = [one["path"] for one in records(project, execution_id, "guest")]
        assert sorted(begun) == ["1", "1/2", "2", "3", "3/2", "4"]  # none anew

    def test_go_on_waiting_where_nobody_has_decided(self, project: Path) -> None:
        each(self.LINES)
        execution_id = only(project)
        assert go_ent("approve", execution_id, "1/2").returncode == 0
        done = resume(execution_id, self.LINES)
        assert (done.returncode, done.stdout.split()) == (10, [b"-1", b"1", b"1"])
        assert go_ent("reject", execution_id).returncode == 0
        done = resume(execution_id, self.LINES)
        assert (done.returncode, done.stdout.split()) == (1, [b"-1", b"1", b"1"])
        assert b"the call was not approved" in done.stderr
        assert status(execution_id)["status"] == "completed"

    def test_can_be_approved_also_where_the_first_failure_ends_it(self, project: Path) -> None:
        done = each("1\n2\n", "--fail-fast", "--jobs", "1")
        execution_id = only(project)
        assert done.returncode == 10
        assert status(execution_id)["status"] == "paused"
        assert go_ent("approve", execution_id).returncode == 0
        assert resume(execution_id, "1\n2\n").stdout.split() == [b"-1", b"1"]


class TestFewerLines:
    def test_than_were_begun_leave_it_interrupted_and_say_so(self, project: Path) -> None:
        each("1\n2\n3\n")
        execution_id = only(project)
        go_ent("approve", execution_id)
        done = resume(execution_id, "1\n2\n")
        assert done.returncode == 130
        assert b"stdin ended before line 3, which was begun before: give it all the lines again" in done.stderr
        assert status(execution_id)["status"] == "interrupted"
        done = resume(execution_id, "1\n2\n3\n")
        assert (done.returncode, done.stdout.split()) == (0, [b"-1", b"1", b"-3"])

    def test_at_all_do_too(self, project: Path) -> None:
        each("1\n")
        execution_id = only(project)
        assert resume(execution_id, "").returncode == 130
        assert status(execution_id)["status"] == "interrupted"


class TestWithoutItsLines:
    def waiting(self, project: Path) -> str:
        each("1\n")
        return only(project)

    @pytest.mark.parametrize("how", ["resume", "resume_run"])
    def test_it_is_not_gone_on_with_and_says_how(self, project: Path, how: str) -> None:
        execution_id = self.waiting(project)

        async def main() -> None:
            async with Engine(project, trusted=True) as engine:
                with pytest.raises(ExecutionConflict, match=f"go-ent resume {execution_id} < LINES"):
                    await getattr(engine, how)(execution_id)
                assert owner(files_of(engine.store).folder / execution_id) is None

        asyncio.run(main())
        assert status(execution_id)["status"] == "paused"

    def test_a_client_is_told_the_same(self, project: Path) -> None:
        execution_id = self.waiting(project)

        async def main() -> tuple[bool, Any]:
            async with (
                Composer(project) as composer,
                Engine(project, composer=composer) as engine,
                Client(make_server(composer, engine)) as client,
            ):
                return await say(client, "engine_resume", execution_id=execution_id)

        failed, said = asyncio.run(main())
        assert failed
        assert f"go-ent resume {execution_id} < LINES" in str(said)
        assert status(execution_id)["status"] == "paused"


def test_how_it_was_to_be_run_is_kept(project: Path) -> None:
    done = each("10\n1\n2\n", "--fail-fast", "--jobs", "1")
    execution_id = only(project)
    assert (done.returncode, done.stdout) == (1, b"")
    order = guest_order(FileStore(project).load(execution_id))
    assert order is not None
    assert (order.each, order.fail_fast, order.jobs) == (True, True, 1)
    assert status(execution_id)["status"] == "failed"


class TestAfterTheFirstFailure:
    @pytest.mark.parametrize(("bad", "jobs"), [("10", "1"), ("10", "3"), ("no JSON", "1")])
    def test_a_resume_runs_what_was_left_out(self, project: Path, bad: str, jobs: str) -> None:
        lines = f"2\n{bad}\n4\n6\n"
        done = each(lines, "--fail-fast", "--jobs", jobs)
        execution_id = only(project)
        assert done.returncode == 1
        assert f"to resume: go-ent resume {execution_id[-8:]} < LINES".encode() in done.stderr
        done = resume(execution_id, lines)
        assert (done.returncode, done.stdout.split()) == (1, [b"1", b"1", b"1"])
        assert b"stdin ended" not in done.stderr
        state = status(execution_id)
        assert (state["status"], state["lines"]) == ("completed", {"done": 3, "failed": 1})

    def test_a_resume_stops_at_the_next(self, project: Path) -> None:
        lines = "10\n2\n20\n4\n"
        each(lines, "--fail-fast", "--jobs", "1")
        execution_id = only(project)
        done = resume(execution_id, lines)
        assert (done.returncode, done.stdout.split()) == (1, [b"1"])
        assert status(execution_id)["status"] == "failed"
        done = resume(execution_id, lines)
        assert (done.returncode, done.stdout.split()) == (1, [b"1", b"1"])
        assert status(execution_id)["status"] == "completed"


def test_lines_that_wait_are_not_counted_as_failed(project: Path) -> None:
    done = each("1\n10\n2\n")
    execution_id = only(project)
    assert b"1 of 3 lines failed" in done.stderr
    assert b"1 call waits for approval" in done.stderr
    state = status(execution_id)
    assert (state["result"]["output"], state["error"]) == ("3 lines, 1 failed (line 2), 1 waiting for approval", None)
    shown = go_ent("status", execution_id).stdout.decode()
    assert f"then resume: go-ent resume {execution_id[-8:]} < LINES" in shown
    assert f"to resume: go-ent resume {execution_id[-8:]} < LINES" in go_ent("approve", execution_id).stdout.decode()


def test_lines_are_counted_by_how_they_ended() -> None:
    piped = Piped()
    ended: list[Status] = ["completed", "timeout", "paused", "error", "interrupted"]
    counted = [piped.count(Item((number, b"", "")), status) for number, status in enumerate(ended, 1)]
    assert counted == [False, True, False, True, False]
    assert piped.said == "5 lines, 2 failed (line 2, line 4), 1 waiting for approval, 1 interrupted"
    for number in range(6, 12):
        piped.count(Item((number, b"", f"{number}.json")), "error")
    assert "8 failed (line 2, line 4, 6.json, 7.json, 8.json, …)" in piped.said
    assert piped.interrupted


def test_what_a_line_prints_goes_to_stderr(project: Path) -> None:
    code = 'def loud(n: int) -> int:\n    """Loud."""\n    print("x" * 5000)\n    return n\n'
    Store(project / ".go-ent" / "composed-tools", "project").save(toolfile.read(tool("loud", code)))
    done = go_ent("tool", "run", "loud", "--each", stdin=b"1\n2\n")
    assert done.stdout == b"1\n2\n"
    assert done.stderr.count(b"x" * 4000 + " …".encode()) == 2
    done = go_ent("tool", "run", "loud", "--input", '{"n": 3}')
    assert (done.stdout, b"x" * 5000 in done.stderr) == (b"3\n", True)


class TestAnError:
    """What brings the lines to their end fails in the middle."""

    async def failed_in_the_middle(self, engine: Engine, composer: Composer) -> tuple[Batch, asyncio.Task[Run]]:
        batch = await Batch.begin(engine.guests, GuestOrder(tool="spin", each=True), composer)
        with contextlib.suppress(ZeroDivisionError):
            async with batch:
                assert (await batch.line(1, b"0", {"n": 0}, None)).status == "completed"
                running = asyncio.create_task(batch.line(2, b"1", {"n": 1}, None))
                await asyncio.sleep(0.05)
                raise ZeroDivisionError
        return batch, running

    async def test_leaves_nothing_that_the_engine_waits_for(self, project: Path) -> None:
        spin = tool("spin", 'def spin(n: int) -> int:\n    """Spins."""\n    while n:\n        pass\n    return n\n')
        async with (
            asyncio.timeout(60),
            await asyncio.to_thread(lambda: Composer(project, trusted=True)) as composer,
            Engine(project, composer=composer, trusted=True) as engine,
        ):
            await composer.compose(spin)
            batch, running = await self.failed_in_the_middle(engine, composer)
            assert (await running).status == "interrupted"
            state = await engine.status(batch.held.id)
            assert (state.status, state.resumable) == ("interrupted", True)
            again, _ = await engine.resume_batch(batch.held.id)
            async with again:
                assert again.known == {1}
                await again.end("completed", "one line")
        assert (await asyncio.to_thread(status, batch.held.id))["status"] == "completed"

    async def test_of_who_runs_them_elsewhere_ends_it_too(self, project: Path) -> None:
        class Lost:
            at_once = 1

            async def line(self, number: int, digest: str, inputs: dict[str, Any]) -> Run:
                raise AssertionError

            def stop(self) -> None: ...

            async def close(self) -> None:
                raise OSError("it is gone")

        async def lost(*_: object) -> Lost:
            return Lost()

        async with (
            asyncio.timeout(60),
            await asyncio.to_thread(lambda: Composer(project, trusted=True)) as composer,
            Engine(project, composer=composer, trusted=True) as engine,
        ):
            batch = await Batch.begin(engine.guests, GuestOrder(tool="work", each=True), composer, lost)
            with pytest.raises(OSError, match="it is gone"):
                await batch.end("completed", "nothing")
        assert batch.held.slot.released

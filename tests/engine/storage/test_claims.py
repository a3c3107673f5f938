"""Claims: who runs something, who ran it before and died, and what such a process has left running."""

from __future__ import annotations

import os
import resource
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from go_ent.composer import Composer
from go_ent.composer.config import Config
from go_ent.composer.sources.server_config import ServerConfig
from go_ent.engine import ExecutionConflict
from go_ent.engine.storage.claims import Claim, held_by
from go_ent.engine.storage.slot import LOCK_FILE
from go_ent.sandbox import Sandbox
from go_ent.sandbox.children.proc import OWNER, identity, is_dead, own_identity
from tests.support.crashers import work
from tests.support.crashers.forking import Forker
from tests.support.crashers.world import World


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "lock"


@pytest.fixture(scope="module")
def box() -> Iterator[Sandbox]:
    with work.a_box() as made:
        yield made


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process
        process.kill()


def dead() -> str:
    """The name of a process that is gone."""
    with subprocess.Popen(["sleep", "600"]) as process:
        name = identity(process.pid)
        process.kill()
    assert name is not None
    return name


def test_one_whose_name_can_not_be_written_is_not_taken(path: Path) -> None:
    """As on a full disk: what is left open would be taken until this process ends."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = len(os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            Claim(path, "it").take()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert len(os.listdir("/proc/self/fd")) == before
    with Claim(path, "it"):
        assert held_by(path) == os.getpid()


class TestWhoHadIt:
    def test_is_nobody_of_what_is_new_or_was_let_go(self, path: Path) -> None:
        for _ in range(2):
            with Claim(path, "it") as claim:
                assert claim.before is None
                assert held_by(path) == os.getpid()
            assert held_by(path) is None

    def test_is_the_process_that_died_with_it(self, path: Path) -> None:
        path.write_text(name := dead())
        with Claim(path, "it") as claim:
            assert claim.before == name
            assert path.read_text() == own_identity()

    def test_is_no_process_that_lives(self, path: Path, sleeper: subprocess.Popen[bytes]) -> None:
        path.write_text(identity(sleeper.pid) or "")
        with Claim(path, "it") as claim:
            assert claim.before is None

    def test_is_another_than_the_one_that_has_its_number_now(
        self, path: Path, sleeper: subprocess.Popen[bytes]
    ) -> None:
        number, started, rest = (identity(sleeper.pid) or "").split("-", 2)
        path.write_text(name := f"{number}-{int(started) - 1}-{rest}")
        with Claim(path, "it") as claim:
            assert claim.before == name

    @pytest.mark.parametrize("said", ["", "7", "x" * 100, "1-1-1", "\0\n", "-1-0-0"])
    def test_is_nobody_who_could_be_seen_from_here(self, path: Path, said: str) -> None:
        """One of another container may live, and what is no name names nobody."""
        path.write_text(said)
        assert not is_dead(said)
        with Claim(path, "it") as claim:
            assert claim.before is None

    def test_who_has_it_is_named_to_others(self, path: Path) -> None:
        with Claim(path, "it"), pytest.raises(ExecutionConflict, match=f"it is being run by process {os.getpid()}"):
            Claim(path, "it").take()


async def test_a_server_knows_whose_it_is(tmp_path: Path, box: Sandbox) -> None:
    (tmp_path / ".go-ent").mkdir()
    told = tmp_path / "told"
    server = ServerConfig(command="sh", args=["-c", f'echo "${OWNER}" >{told}'])

    async with Composer(
        tmp_path, config=Config(allow=("x.*",), servers={"x": server}), box=box, trusted=True
    ) as composer:
        await composer.catalogue.tools(composer.grants, "x")
    assert told.read_text().strip() == own_identity()


def test_what_a_killed_process_has_started_is_ended_before_its_execution_goes_on(
    tmp_path: Path, box: Sandbox, forker: Forker
) -> None:
    world = World(work.make_project(tmp_path / "project", box))
    child = forker.start(world.project, "guest", "await tools.w.gate()\nawait tools.w.look(n=3)")
    until = time.monotonic() + 60
    while not any(list(world.records(row.id)) for row in world.rows()):  # it is on disk when it has run for a while
        assert time.monotonic() < until, child.stderr
        time.sleep(0.005)
    child.kill()
    (row,) = world.rows()
    name = (world.project / ".go-ent" / "executions" / row.id / LOCK_FILE).read_text()
    assert is_dead(name)
    (world.project / work.GATE).touch()
    with (
        subprocess.Popen(["sleep", "600"], env={**os.environ, OWNER: name}) as theirs,
        subprocess.Popen(["sleep", "600"], env={**os.environ, OWNER: own_identity()}) as mine,
    ):
        try:
            assert work.live(world.project, box, work.resume(row.id))["status"] == "completed"
            assert (theirs.poll(), mine.poll()) == (-9, None)
        finally:
            theirs.kill()
            mine.kill()

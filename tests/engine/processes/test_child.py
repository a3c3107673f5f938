"""A child process: what it is given, how it is ended, and that nothing of it is left."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from go_ent.engine.processes import trees
from go_ent.engine.processes.child import ChildLimits, Command, Ended, NotStarted, _Lines, run_child
from go_ent.sandbox.children.proc import own_identity
from tests.support import ROOT

ENV = {"PATH": os.environ["PATH"]}
# What a child prints once it can take signals; sleeping ends it if nobody else does.
READY = "import signal, time, os; {setup}; print('ready', flush=True); time.sleep(60)"
# Starts a process in a session of its own that holds none of the pipes, and is its pid.
SLEEPER = (
    "os.posix_spawn('/bin/sleep', ['sleep', '60'], {env}, setsid=True, file_actions=[(os.POSIX_SPAWN_CLOSE, fd) "
    "for fd in (1, 2)])"
)


def fresh() -> str:
    """A tag that no other process on this machine has."""
    return f"{uuid.uuid4().hex}/task/1"


def python(code: str, stdin: bytes = b"", cwd: Path = Path("/")) -> Command:
    return Command((sys.executable, "-I", "-S", "-c", code), cwd, ENV, stdin)


def run(
    command: Command | str, *, stop_at: bytes | None = None, tag: str | None = None, **limits: float
) -> tuple[Ended, list[bytes]]:
    """Runs a command to its end; `stop_at` is the line at which it is interrupted."""
    lines: list[bytes] = []

    async def main() -> Ended:
        stop = asyncio.Event()

        def on_line(line: bytes) -> None:
            lines.append(line)
            if line == stop_at:
                stop.set()

        given = command if isinstance(command, Command) else python(command)
        bounds = ChildLimits(**{"grace_s": 5.0, **limits})  # type: ignore[arg-type]
        return await run_child(given, on_line, limits=bounds, stop=stop, tag=fresh() if tag is None else tag)

    return asyncio.run(main()), lines


def alive(pid: int | bytes) -> bool:
    try:
        return bool(psutil.Process(int(pid)).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


@contextlib.contextmanager
def stranger(**environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that no `run_child` started."""
    with subprocess.Popen(["/bin/sleep", "60"], env=environment, start_new_session=True) as popen:
        try:
            yield popen
        finally:
            popen.kill()


class TestWhatItIsGiven:
    def test_stdin_is_written_whole_and_closed(self) -> None:
        ended, lines = run(python("import sys; print(len(sys.stdin.buffer.read()))", stdin=b"x" * 3_000_000))
        assert (ended.by, ended.code, lines) == ("exit", 0, [b"3000000"])

    def test_without_stdin_it_reads_nothing(self) -> None:
        assert run("import os; print(os.readlink('/proc/self/fd/0'))")[1] == [b"/dev/null"]

    def test_stdin_that_nobody_reads_is_no_fault(self) -> None:
        ended, lines = run(python("import os; os.close(0); print('done')", stdin=b"x" * 3_000_000))
        assert (ended.by, ended.code, lines) == ("exit", 0, [b"done"])

    def test_its_environment_is_what_was_given_and_the_tag(self) -> None:
        command = Command(("/usr/bin/env",), Path("/"), {"A": "1", "GO_ENT_RUN": "forged", "GO_ENT_OWNER": "forged"})
        assert sorted(run(command, tag="e/t/2")[1]) == [
            b"A=1",
            f"GO_ENT_OWNER={own_identity()}".encode(),
            b"GO_ENT_RUN=e/t/2",
        ]

    def test_its_folder_and_its_own_session(self, tmp_path: Path) -> None:
        code = "import os; print(os.getcwd()); print(os.getsid(0) == os.getpgid(0) == os.getpid())"
        assert run(python(code, cwd=tmp_path))[1] == [str(tmp_path).encode(), b"True"]

    def test_only_the_three_streams_are_open(self) -> None:
        assert run("import os; print([fd for fd in os.listdir('/proc/self/fd') if int(fd) > 3])")[1] == [b"[]"]


class TestNotStarted:
    def refused(self, *argv: str, cwd: Path = Path("/")) -> NotStarted:
        with pytest.raises(NotStarted) as caught:
            run(Command(argv, cwd, ENV))
        return caught.value

    def test_no_such_program(self) -> None:
        error = self.refused("no-such-program")
        assert (str(error), error.missing) == ("there is no program 'no-such-program' on the PATH", True)

    def test_no_such_path(self, tmp_path: Path) -> None:
        error = self.refused("./program", cwd=tmp_path)
        assert (str(error), error.missing) == ("there is no program './program'", True)

    def test_not_executable(self, tmp_path: Path) -> None:
        (tmp_path / "program").write_text("text")
        error = self.refused("./program", cwd=tmp_path)
        assert (str(error), error.missing) == (
            "'./program' is not a program that can be executed: Permission denied",
            True,
        )

    def test_no_interpreter(self, tmp_path: Path) -> None:
        (tmp_path / "program").write_text("#!/no/such/interpreter\n")
        (tmp_path / "program").chmod(0o700)
        error = self.refused("./program", cwd=tmp_path)
        expected = "'./program' can't be started: the interpreter that its first line names is not there"
        assert (str(error), error.missing) == (expected, True)

    def test_no_such_folder(self, tmp_path: Path) -> None:
        error = self.refused("true", cwd=tmp_path / "gone")
        assert (str(error), error.missing) == (f"the folder {tmp_path / 'gone'} is not there", False)

    def test_arguments_that_the_kernel_refuses(self) -> None:
        error = self.refused("true", *["x" * 100_000] * 100)
        expected = (
            "'true' can't be started: its arguments and environment are longer than the system allows; long text "
            "can go over stdin"
        )
        assert (str(error), error.missing) == (expected, False)

    def test_a_nul_in_an_argument(self) -> None:
        assert str(self.refused("true", "a\0b")) == "'true' can't be started: embedded null byte"

    def test_an_empty_command(self) -> None:
        assert str(self.refused()) == "there is no program to start: the command is empty"

    @pytest.mark.parametrize("tag", ["", "a\0b"])
    def test_a_tag_that_could_not_be_found_again(self, tag: str) -> None:
        with pytest.raises(ValueError, match="tag"):
            run("pass", tag=tag)


class TestOutput:
    def test_lines_come_without_newline_and_the_last_may_have_none(self) -> None:
        assert run(r"import sys; sys.stdout.write('a\n\nb\r\nc')")[1] == [b"a", b"", b"b\r", b"c"]

    @pytest.mark.parametrize(
        ("code", "expected"), [("pass", 0), ("raise SystemExit(3)", 3), ("import os; os.kill(os.getpid(), 9)", -9)]
    )
    def test_the_exit_code(self, code: str, expected: int) -> None:
        ended, lines = run(code)
        assert (ended.by, ended.code, lines) == ("exit", expected, [])

    def test_the_tail_of_stderr_is_kept(self) -> None:
        ended, _ = run("import sys; sys.stderr.buffer.write(b'x' * 500_000 + b'\\xff the end')", stderr_bytes=12)
        assert ended.stderr == "xxx� the end"

    def test_a_line_of_the_cap_is_read_and_a_longer_one_is_cut(self) -> None:
        ended, lines = run("print('a' * 1000)", line_bytes=1000)
        assert (ended.by, lines) == ("exit", [b"a" * 1000])
        ended, lines = run("print('first'); print('a' * 1001); print('never')", line_bytes=1000)
        assert (ended.by, lines) == ("output", [b"first", b"a" * 1000])

    def test_all_of_the_cap_is_read_and_no_more(self) -> None:
        ended, lines = run("print('a' * 99 + '\\n' + 'b' * 99)", total_bytes=200)
        assert (ended.by, lines) == ("exit", [b"a" * 99, b"b" * 99])
        ended, lines = run("print('a' * 99 + '\\n' + 'b' * 100)", total_bytes=199)
        assert (ended.by, lines) == ("output", [b"a" * 99, b"b" * 99])

    @given(data=st.text("ab\n", max_size=60).map(str.encode), cuts=st.lists(st.integers(0, 60)), cap=st.integers(0, 70))
    @settings(max_examples=100, deadline=None)
    def test_it_does_not_matter_in_which_pieces_output_comes(self, data: bytes, cuts: list[int], cap: int) -> None:
        got: list[bytes] = []
        lines = _Lines(got.append, line_bytes=60, total_bytes=cap)
        pieces = [data[start:end] for start, end in pairwise([0, *sorted(cuts), len(data)])]
        within = all(lines.feed(piece) for piece in pieces if piece)
        lines.end()
        expected = data[:cap].split(b"\n")
        assert got == (expected if expected[-1] else expected[:-1])
        assert within == (len(data) <= cap)

    def test_an_error_of_the_reader_ends_the_child_and_is_raised(self) -> None:
        seen: list[bytes] = []

        def on_line(line: bytes) -> None:
            seen.append(line)
            raise KeyError("mine")

        code = READY.format(setup=f"print({SLEEPER.format(env='os.environ')}, flush=True)")
        with pytest.raises(KeyError, match="mine"):
            asyncio.run(run_child(python(code), on_line, limits=ChildLimits(), tag=fresh()))
        assert len(seen) == 1
        assert not alive(seen[0])


class TestEnding:
    def test_an_interrupt_lets_it_say_its_last_words(self) -> None:
        code = r"""
import os, signal, time
def bye(*_):
    os.write(1, b"bye\n")
    os._exit(5)
signal.signal(signal.SIGINT, bye)
os.write(1, b"ready\n")
time.sleep(60)
"""
        ended, lines = run(code, stop_at=b"ready")
        assert (ended.by, ended.code, lines) == ("interrupted", 5, [b"ready", b"bye"])

    def test_sigterm_comes_after_sigint(self) -> None:
        ended, lines = run(READY.format(setup="signal.signal(2, signal.SIG_IGN)"), stop_at=b"ready", grace_s=0.05)
        assert (ended.by, ended.code, lines) == ("interrupted", -signal.SIGTERM, [b"ready"])

    async def test_what_was_stopped_before_is_not_started(self, tmp_path: Path) -> None:
        stop = asyncio.Event()
        stop.set()
        result = await run_child(
            Command(("touch", "made"), tmp_path, ENV), print, limits=ChildLimits(), stop=stop, tag=fresh()
        )
        assert result == Ended("interrupted", None, "", 0)
        assert os.listdir(tmp_path) == []

    @pytest.mark.parametrize(("timeout_s", "silence_s", "by"), [(0.2, 60, "timeout"), (60, 0.2, "silence")])
    def test_a_limit_of_time_ends_it_like_an_interrupt(self, timeout_s: float, silence_s: float, by: str) -> None:
        ended, _ = run(Command(("sleep", "60"), Path("/"), ENV), grace_s=0.5, timeout_s=timeout_s, silence_s=silence_s)
        assert ended.by == by
        assert ended.code in {
            -signal.SIGINT,
            -signal.SIGTERM,
        }  # the latter where the tests themselves are run without SIGINT

    def test_a_word_on_either_stream_is_no_silence(self) -> None:
        code = "import os, time; [(os.write(1 + n % 2, b'.'), time.sleep(0.1)) for n in range(13)]"
        ended, lines = run(code, silence_s=1.0)
        assert (ended.by, ended.stderr, lines) == ("exit", "......", [b"......."])

    def test_a_grandchild_that_holds_stdout_is_ended_with_its_words_kept(self) -> None:
        code = (
            "import os; os.fork() or [os.write(1, b'%d\\n' % os.getpid()), __import__('time').sleep(60)]; "
            "os.wait4(0, os.WNOHANG)"
        )
        ended, lines = run(code)
        assert (ended.by, ended.code, len(lines)) == ("exit", 0, 1)
        assert not alive(lines[0])

    @pytest.mark.parametrize("environment", ["os.environ", "{}"])
    def test_an_interrupt_ends_grandchildren_in_sessions_of_their_own(self, environment: str) -> None:
        """Also those whose environment no longer says whose they are: they were seen while their parent lived."""
        setup = f"signal.signal(2, signal.SIG_DFL); print({SLEEPER.format(env=environment)})"
        ended, lines = run(READY.format(setup=setup), stop_at=b"ready")
        assert (ended.by, ended.code) == ("interrupted", -signal.SIGINT)
        assert not alive(lines[0])

    def test_an_orphan_in_a_session_of_its_own_is_found_by_its_tag(self) -> None:
        ended, lines = run(f"import os; print({SLEEPER.format(env='os.environ')})")
        assert (ended.by, ended.code) == ("exit", 0)
        assert not alive(lines[0])


class TestCancelling:
    @pytest.mark.parametrize("times", [1, 5])
    async def test_the_tree_is_dead_when_the_error_comes(self, times: int) -> None:
        setup = f"signal.signal(15, signal.SIG_IGN); print({SLEEPER.format(env='os.environ')}); print(os.getpid())"
        lines: list[bytes] = []

        ready = asyncio.Event()

        def on_line(line: bytes) -> None:
            lines.append(line)
            if line == b"ready":
                ready.set()

        task = asyncio.create_task(
            run_child(python(READY.format(setup=setup)), on_line, limits=ChildLimits(grace_s=0.2), tag=fresh())
        )
        await ready.wait()
        for _ in range(times):
            task.cancel()
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not any(alive(pid) for pid in lines[:2])
        assert len(lines) == 3

    async def test_a_coroutine_that_is_thrown_away_leaves_nothing(self) -> None:
        before = set(psutil.Process().children())
        coroutine = run_child(
            python(READY.format(setup="0")), print, limits=ChildLimits(), stop=asyncio.Event(), tag=fresh()
        )
        coroutine.send(None)
        (child,) = set(psutil.Process().children()) - before
        coroutine.close()
        assert not child.is_running()


class TestHouseKeeping:
    async def test_no_descriptors_and_no_children_are_left(self) -> None:
        def held() -> tuple[int, int]:
            return len(os.listdir("/proc/self/fd")), len(psutil.Process().children())

        before = held()
        ends = await asyncio.gather(
            *(
                run_child(python(f"print({n})", stdin=b"x"), lambda _: None, limits=ChildLimits(), tag=fresh())
                for n in range(10)
            )
        )
        assert [ended.code for ended in ends] == [0] * 10
        with contextlib.suppress(NotStarted):
            await run_child(Command(("no-such-program",), Path("/"), ENV), print, limits=ChildLimits(), tag=fresh())
        assert held() == before

    def test_it_works_on_loops_in_any_thread(self) -> None:
        codes: list[int | None] = []
        threads = [threading.Thread(target=lambda: codes.append(run("raise SystemExit(4)")[0].code)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert codes == [4, 4, 4]


class TestReaping:
    def test_it_finds_what_a_dead_owner_left(self) -> None:
        tag = fresh()
        with (
            stranger(GO_ENT_RUN=tag) as mine,
            stranger(GO_ENT_RUN=f"{tag}1") as other,
            stranger(X=f"GO_ENT_RUN={tag}") as third,
        ):
            assert asyncio.run(trees.reap(tag)) == 1
            assert mine.wait() == -signal.SIGKILL
            assert (other.poll(), third.poll()) == (None, None)
            assert asyncio.run(trees.reap(tag)) == 0

    def test_one_that_was_started_just_now_is_found(self) -> None:
        """For a moment the kernel shows its environment as empty."""
        for _ in range(15):
            tag = fresh()
            with stranger(GO_ENT_RUN=tag) as popen:
                assert {one.pid for one in trees.members(tag)} == {popen.pid}

    def test_descendants_come_with_it_whatever_their_environment_says(self) -> None:
        tag = fresh()
        code = READY.format(setup=f"print({SLEEPER.format(env='{}')})")
        with subprocess.Popen([sys.executable, "-ISc", code], env={"GO_ENT_RUN": tag}, stdout=subprocess.PIPE) as popen:
            assert popen.stdout is not None
            pid = popen.stdout.readline()
            popen.stdout.readline()
            assert asyncio.run(trees.reap(tag)) == 2
        assert not alive(pid)

    def test_a_pid_that_became_another_process_is_left_alone(self) -> None:
        tag = fresh()
        with stranger(GO_ENT_RUN=tag) as popen:
            (seen,) = trees.members(tag)
            assert seen.pid == popen.pid
            before = replace(seen, started=seen.started - 1)  # whoever had that pid once
            assert trees.reap_now(fresh(), known=[before]) == 0
            trees._send(before, signal.SIGKILL)
            assert popen.poll() is None
            trees._send(seen, signal.SIGKILL)
            assert popen.wait() == -signal.SIGKILL

    def test_it_never_ends_itself_or_who_started_it(self) -> None:
        tag = fresh()
        code = (
            f"import os; from go_ent.engine.processes import trees; print(trees.reap_now('{tag}', os.getpgid(0)), "
            "flush=True)"
        )
        environment = {**ENV, "GO_ENT_RUN": tag}
        outer = f"import subprocess, sys; sys.exit(subprocess.run([sys.executable, '-c', {code!r}]).returncode)"
        root = ROOT
        done = subprocess.run(
            [sys.executable, "-c", outer],
            env=environment,
            capture_output=True,
            cwd=root,
            check=False,
            start_new_session=True,
        )
        assert (done.returncode, done.stdout) == (0, b"0\n")

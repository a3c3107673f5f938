"""`go-ent exec` and `go-ent image`, as a shell uses them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import get_args

import psutil
import pytest

from go_ent.engine.core.outcomes import EXIT_CODES
from go_ent.sandbox import Status
from tests.support import ROOT
from tests.support.forked import Forked
from tests.support.shell import COMMAND, go_ent


def busy(pid: int) -> bool:
    """Whether a worker of that process is at work on an endless loop: starting takes none of them so long."""
    spent = []
    for child in psutil.Process(pid).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            spent.append(child.cpu_times().user)
    return max(spent, default=0.0) > 1.0


class TestExec:
    @pytest.mark.parametrize(
        ("arguments", "stdin", "stdout"),
        [
            (["-c", "1+1"], b"", b"2\n"),
            (["-c", "'text'"], b"", b"text\n"),
            (["-c", "{'a': ['\u00e4']}"], b"", '{"a":["ä"]}\n'.encode()),
            (["-c", "x = 1"], b"", b""),
            (["-c", "print('out')\n5"], b"", b"out\n5\n"),
            (["-c", "print('no newline', end='')\n5"], b"", b"no newline\n5\n"),
            (["-c", "n * 2", "--input", '{"n": 21}'], b"", b"42\n"),
            (["-c", "-1"], b"", b"-1\n"),
            (["-"], b"6 * 7", b"42\n"),
        ],
    )
    def test_prints_the_result(self, arguments: list[str], stdin: bytes, stdout: bytes) -> None:
        done = go_ent("exec", *arguments, stdin=stdin)
        assert (done.returncode, done.stdout, done.stderr) == (0, stdout, b"")

    @pytest.mark.parametrize(
        ("arguments", "stdin", "stdout"),
        [
            (["-c", "len(stdin.splitlines())"], b"a\nb\n", b"2\n"),
            (["-c", "[type(stdin).__name__, len(stdin)]"], b"\xff\x00", b'["bytes",2]\n'),
            (["-c", "stdin", "--input", '{"stdin": 5}'], b"other", b"5\n"),
            (["-c", "[{'a': 1, 'b': None}]", "-o", "csv"], b"", b"a,b\n1,\n"),
            (["-c", "[{'a': 1, 'b': [2]}]", "-o", "yaml"], b"", b"- a: 1\n  b:\n  - 2\n"),
            (["-c", "[{'a': 1, 'b': 'x'}]", "-o", "table"], b"", b"a  b\n1  x\n"),
            (["-c", "'as it is'", "-o", "raw"], b"", b"as it is"),
            (["-c", "'text'", "-o", "json"], b"", b'"text"\n'),
        ],
    )
    def test_is_a_filter(self, arguments: list[str], stdin: bytes, stdout: bytes) -> None:
        done = go_ent("exec", *arguments, stdin=stdin)
        assert (done.returncode, done.stdout, done.stderr) == (0, stdout, b"")

    def test_files_go_in_and_come_out(self, tmp_path: Path) -> None:
        (tmp_path / "in.txt").write_text("hello")
        code = "text = open('in.txt').read() + open('d/other').read()\nopen('out.txt', 'w').write(text.upper())\n'done'"
        files = ("--file", "in.txt", "--file", "in.txt=d/other")
        done = go_ent("exec", *files, "--out", "left", "-c", code, cwd=tmp_path)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"done\n", b"saved: left/out.txt\n")
        assert [path.name for path in (tmp_path / "left").iterdir()] == ["out.txt"]
        assert (tmp_path / "left" / "out.txt").read_text() == "HELLOHELLO"
        again = go_ent("exec", *files, "--out", "left", "-c", code, cwd=tmp_path)
        assert (again.returncode, b"is there already" in again.stderr) == (2, True)

    @pytest.mark.parametrize(
        "arguments",
        [
            ("exec", "--input", r'{"a": "\ud800"}', "-c", "len(a)"),
            ("exec", "-c", "'\udcff'"),
            ("tool", "run", "count_words", "\udcff"),
            ("tool", "call", "count_words", "--input", r'{"text": "\ud800"}'),
            ("run", "--tool", "count_words", "--input", r'{"text": "\ud800"}'),
        ],
    )
    def test_what_is_not_valid_unicode_is_refused(self, tmp_path: Path, arguments: tuple[str, ...]) -> None:
        assert go_ent("init", cwd=tmp_path).returncode == 0
        done = go_ent(*arguments, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (2, b"")
        assert b"can't be put on record, so nothing was run: " in done.stderr
        assert done.stderr.count(b"\n") == 1
        assert go_ent("ps", "--json", cwd=tmp_path).stdout == b"[]\n"

    def test_code_without_end_is_not_read_whole(self, tmp_path: Path) -> None:
        with (tmp_path / "huge.py").open("wb") as file:
            file.truncate(1 << 40)  # of which nothing is on the disk
        done = go_ent("exec", "huge.py", cwd=tmp_path)
        assert (done.returncode, done.stderr.splitlines()[0]) == (
            3,
            b"SourceTooLarge: the source is longer than 1048576 bytes",
        )
        done = go_ent("exec", "-", stdin=b"#" * ((1 << 20) + 1), cwd=tmp_path)
        assert (done.returncode, done.stderr) == (2, b"go-ent: stdin is larger than 1 MB\n")

    def test_a_file_that_was_not_given_says_how(self, tmp_path: Path) -> None:
        (tmp_path / "data.csv").write_text("1")
        done = go_ent("exec", "-c", "open('data.csv')", cwd=tmp_path)
        assert b"hint: code sees only the files that it is given: pass it with --file data.csv\n" in done.stderr
        done = go_ent("exec", "-c", "open('/etc/hosts')", cwd=tmp_path)
        assert (
            b"hint: use a relative name; code sees only the files that it is given: pass it with --file /etc/hosts\n"
            in (done.stderr)
        )

    @pytest.mark.parametrize(
        ("files", "said"),
        [
            (["--file", "no"], "--file no: No such file"),
            (["--file", "a", "--file", "b=a"], "two files are called a"),
            (["--file", "b=../a"], "can't be the name of a file"),
        ],
    )
    def test_files_that_can_not_be(self, tmp_path: Path, files: list[str], said: str) -> None:
        for name in "ab":
            (tmp_path / name).write_text(name)
        done = go_ent("exec", *files, "-c", "1", cwd=tmp_path)
        assert (done.returncode != 0, said in done.stderr.decode()) == (True, True), done.stderr

    def test_what_nobody_would_read_is_refused(self) -> None:
        with Forked("exec", "-c", "1", stdin=subprocess.PIPE, stdout=-1, stderr=-1) as running:
            _, said = running.communicate(b"data", timeout=60)
        assert (running.returncode, b"stdin has data that nothing would read" in said) == (2, True)

    def test_file_and_input_file(self, tmp_path: Path) -> None:
        (tmp_path / "code.py").write_text("sum(numbers)")
        (tmp_path / "in.json").write_text('{"numbers": [1, 2]}')
        assert go_ent("exec", "code.py", "--input", "@in.json", cwd=tmp_path).stdout == b"3\n"

    def test_a_traceback_names_the_file(self, tmp_path: Path) -> None:
        (tmp_path / "script.py").write_text("1/0")
        done = go_ent("exec", "script.py", cwd=tmp_path)
        assert b'File "script.py", line 1' in done.stderr
        assert b"code.py" not in done.stderr
        assert b'File "code.py", line 1' in go_ent("exec", "-c", "1/0").stderr

    @pytest.mark.parametrize(
        ("code", "option", "helps"),
        [
            ("import asyncio\nawait asyncio.sleep(9)", "--timeout", True),
            ("while True: pass", "--cpu", False),
            ("1/0", "--cpu", False),
        ],
    )
    def test_a_resume_is_named_where_it_can_help(self, tmp_path: Path, code: str, option: str, helps: bool) -> None:
        (tmp_path / ".go-ent").mkdir()
        done = go_ent("exec", "-c", code, option, "0.3", cwd=tmp_path)
        assert (done.returncode != 0, b"to resume: go-ent resume" in done.stderr) == (True, helps)

    def test_json_is_the_whole_run(self) -> None:
        done = go_ent("exec", "-c", "print('x')\n1/0", "--json")
        run = json.loads(done.stdout)
        assert done.returncode == 1
        assert done.stderr == b""
        assert (run["status"], run["stdout"], run["error"]["line"]) == ("error", "x\n", 2)
        assert set(run) >= {"id", "result", "usage", "calls", "files", "image"}

    @pytest.mark.parametrize(
        ("arguments", "status"),
        [
            (["-c", "1/0"], "error"),
            (["-c", "import socket"], "refused"),
            (["-c", "import time; time.sleep(9)", "--timeout", "0.3"], "timeout"),
            (["-c", "while True: pass", "--cpu", "0.2"], "cpu_limit"),
            (["-c", "while True: pass", "--fuel", "9999999"], "fuel_limit"),
            (["-c", "x = 'x' * 10**9", "--memory", "64"], "memory_limit"),
            (["-c", "'x' * 2_000_000"], "result_limit"),
        ],
    )
    def test_each_status_has_an_exit_code(self, arguments: list[str], status: Status) -> None:
        done = go_ent("exec", *arguments)
        assert done.returncode == EXIT_CODES[status]
        assert done.stdout == b""
        assert done.stderr

    def test_error_goes_to_stderr_with_its_hint(self) -> None:
        done = go_ent("exec", "-c", "pritn(1)")
        assert b"NameError: name 'pritn' is not defined" in done.stderr
        assert b"hint: did you mean print?" in done.stderr

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ([], b"exec needs code"),
            (["file.py", "-c", "1"], b"code was given twice"),
            (["-c", "1", "--input", '{"a": NaN}'], b"NaN is not JSON"),
            (["no-such-file.py"], b"there is no file no-such-file.py; code itself is given with -c"),
            (["-c", "1", "--input", "{"], b"--input is not JSON"),
            (["-c", "1", "--input", "[1]"], b"--input must be a JSON object"),
            (["-c", "1", "--input", "@nowhere.json"], b"nowhere.json"),
            (["-c", "1", "--memory", "3"], b"memory_mb=3"),
            (["-c", "1", "--timeout", "-3"], b"timeout_s=-3"),
            (["-c", "1", "--cpu", "many"], b"many"),
            (["-c", "1", "--no-such-option"], b"--no-such-option"),
        ],
    )
    def test_usage_errors(self, arguments: list[str], message: bytes) -> None:
        done = go_ent("exec", *arguments)
        assert done.returncode == 2
        assert done.stdout == b""
        assert message in done.stderr
        assert b"Traceback" not in done.stderr

    def test_as_a_process(self, tmp_path: Path) -> None:
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            [*COMMAND, "exec", "-"], input=b"6 * 7", capture_output=True, cwd=tmp_path, env=environment, check=False
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, b"42\n", b"")

    def test_ctrl_c_interrupts(self) -> None:
        code = "print('started')\nwhile True: pass"
        with Forked("exec", "-c", code, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            until = time.monotonic() + 60
            while not busy(process.pid) and time.monotonic() < until:
                time.sleep(0.05)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
        assert process.returncode == 130
        assert out == b"started\n"
        assert b"interrupted; it was not on record: go-ent init" in err

    def test_closed_pipe(self) -> None:
        command = f'{sys.executable} -m go_ent exec -c "print(chr(10).join(map(str, range(20000))))" | head -1'
        done = subprocess.run(["bash", "-c", command], capture_output=True, timeout=60, check=False)
        assert done.stdout == b"0\n"
        assert b"Traceback" not in done.stderr


class TestImage:
    def test_list_and_info(self, tmp_path: Path) -> None:
        images = json.loads(go_ent("image", "list", "--json", cwd=tmp_path).stdout)
        current = [image for image in images if image["current"]]
        assert len(current) == 1
        info = json.loads(go_ent("image", "info", "--json", cwd=tmp_path).stdout)
        assert info == current[0]
        assert go_ent("image", "info", "feedfeed", cwd=tmp_path).returncode == 2

    def test_bad_config_is_named(self, tmp_path: Path) -> None:
        (tmp_path / ".go-ent").mkdir()
        (tmp_path / ".go-ent" / "config.toml").write_text("[image\n")
        done = go_ent("image", "build", cwd=tmp_path)
        assert done.returncode == 12
        assert b"config.toml:1: it is not valid TOML" in done.stderr


def test_every_status_is_in_the_table() -> None:
    assert set(EXIT_CODES) == set(get_args(Status))
    assert len(set(EXIT_CODES.values())) == len(EXIT_CODES)
    assert 2 not in EXIT_CODES.values()

"""`go-ent tool`: each command as a person or a pipeline uses it."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support import SMALL_SERVER
from tests.support.executions import FileStore
from tests.support.forked import Forked
from tests.support.shell import go_ent

CLEAN = '''# /// tool
# name = "clean"
# ///
# /// examples
# {"inputs": {"row": {"name": " A ", "n": "3"}}, "result": {"name": "a", "n": 3}}
# ///
from typing import Any


def clean(row: dict[str, Any]) -> dict[str, Any]:
    """Trim the name and make n a number."""
    return {"name": row["name"].strip().lower(), "n": int(row["n"])}
'''
RANK = '''# /// tool
# name = "rank"
# ///
def rank(rows: list[dict[str, int | str]], top: int = 2) -> list[str]:
    """The names with the largest n."""
    return [str(row["name"]) for row in sorted(rows, key=lambda row: -int(row["n"]))[:top]]
'''


@dataclass(frozen=True)
class Done:
    returncode: int
    stdout: str
    stderr: str


class Shell:
    """Runs `go-ent` in a project of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {**os.environ, "GO_ENT_DATA": str(folder.parent / "user")}

    def __call__(self, *arguments: str, stdin: str = "") -> Done:
        done = go_ent(*arguments, stdin=stdin.encode(), cwd=self.folder, env=self.environment)
        return Done(done.returncode, done.stdout.decode(), done.stderr.decode())

    def json(self, *arguments: str, stdin: str = "") -> Any:
        done = self(*arguments, stdin=stdin)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """A project with two tools. Tests that share it change nothing."""
    folder = tmp_path_factory.mktemp("filled") / "project"
    (folder / ".go-ent").mkdir(parents=True)
    (folder / "clean.py").write_text(CLEAN)
    (folder / "rank.py").write_text(RANK)
    shell = Shell(folder)
    done = shell("tool", "add", "clean.py", "rank.py")
    assert done.stdout == "clean: version 1, 1 example passed (project)\nrank: version 1, no examples (project)\n", (
        done.stderr
    )
    return shell


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    (tmp_path / "project" / ".go-ent").mkdir(parents=True)
    return Shell(tmp_path / "project")


class TestPipelines:
    def test_what_each_would_ignore_is_refused(self, shell: Shell) -> None:
        (shell.folder / "clean.py").write_text(CLEAN)
        shell("tool", "add", "clean.py")
        done = shell("tool", "run", "clean", "--each", "--output", "raw", stdin="1")
        assert done.returncode == 2
        assert "--output raw prints one result" in done.stderr
        assert "it is the name of a file" in shell("tool", "run", "clean", "--each", stdin="clean.py\n").stderr

    def test_each_then_slurp(self, filled: Shell) -> None:
        rows = "".join(json.dumps({"name": f" X{n} ", "n": str(n)}) + "\n" for n in range(25))
        cleaned = filled("tool", "run", "clean", "--each", stdin=rows)
        assert cleaned.returncode == 0, cleaned.stderr
        assert [json.loads(line)["n"] for line in cleaned.stdout.splitlines()] == list(range(25))  # in order
        assert filled.json("tool", "run", "rank", "--slurp", stdin=cleaned.stdout) == ["x24", "x23"]
        store = FileStore(filled.folder)
        (row,) = [row for row in store.rows() if "for each line" in row.title]  # one execution
        assert sum(record["kind"] == "line" for record in store.records(row.id)) == 25

    def test_a_failing_line_is_reported_and_passed_over(self, filled: Shell) -> None:
        done = filled(
            "tool", "run", "clean", "--each", stdin='{"name":"a","n":1}\nnope\n\n{"name":5}\n{"name":"b","n":2}'
        )
        assert done.returncode == 1
        assert [json.loads(line)["name"] for line in done.stdout.splitlines()] == ["a", "b"]
        assert "line 2: not JSON" in done.stderr
        assert "jq -R" not in done.stderr
        assert "line 4: error: AttributeError" in done.stderr
        assert "2 of 4 lines failed" in done.stderr

    def test_text_instead_of_json_is_told_what_to_do(self, filled: Shell) -> None:
        done = filled("tool", "run", "clean", "--each", stdin="hello\n")
        assert 'text needs quotes, like "hello"; jq -R makes them' in done.stderr

    def test_a_file_of_many_values_is_told_how_to_be_given(self, filled: Shell) -> None:
        said = "a file is one value: give many on stdin, or in a file that ends in .jsonl"
        for name, text, told in (("rows", "1\n2\n", True), ("rows.json", "1\n2", True), ("bad.json", "{\n", False)):
            (filled.folder / name).write_text(text)
            done = filled("tool", "run", "clean", "--each", name)
            assert done.returncode == 1
            assert (said in done.stderr) == told, done.stderr

    def test_fail_fast(self, filled: Shell) -> None:
        done = filled("tool", "run", "clean", "--each", "--fail-fast", "--jobs", "1", stdin='{"name":5}\n' * 50)
        assert (done.returncode, done.stdout) == (1, "")
        assert "1 of 1 lines failed" in done.stderr

    def test_lines_that_are_the_inputs_themselves(self, filled: Shell) -> None:
        done = filled(
            "tool",
            "run",
            "rank",
            "--each",
            "--input",
            '{"top": 1}',
            stdin='{"rows":[{"name":"a","n":1}]}\n[{"name":"b","n":1}]\n',
        )
        assert done.stdout == '["a"]\n["b"]\n', done.stderr

    def test_text_that_is_no_unicode(self, filled: Shell) -> None:
        done = filled("tool", "run", "clean", "--each", stdin='{"name": "\\ud800", "n": 1}\n{"name": "b", "n": 2}\n')
        assert done.stdout == '{"name":"b","n":2}\n'
        assert "line 1: " in done.stderr
        assert "Traceback" not in done.stderr

    def test_whole_runs(self, filled: Shell) -> None:
        done = filled("tool", "run", "clean", "--each", "--json", stdin='{"name":"a","n":1}\n{"name":5}\n')
        assert [json.loads(line)["status"] for line in done.stdout.splitlines()] == ["completed", "error"]

    def test_no_lines(self, filled: Shell) -> None:
        assert filled("tool", "run", "clean", "--each").returncode == 0
        assert filled.json("tool", "run", "rank", "--slurp") == []

    def test_results_do_not_wait_for_the_next_line(self, filled: Shell) -> None:
        command = ("tool", "run", "clean", "--each")
        pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
        with Forked(*command, cwd=filled.folder, env=filled.environment, **pipes) as child:
            assert child.stdin is not None
            assert child.stdout is not None
            for name in ("a", "b"):
                child.stdin.write(json.dumps({"name": name, "n": 1}) + "\n")
                child.stdin.flush()
                assert json.loads(child.stdout.readline())["name"] == name
            child.send_signal(signal.SIGINT)  # while it waits for more
            assert child.wait(30) == 130

    def test_interrupted(self, shell: Shell) -> None:
        source = (
            '# /// tool\n# name = "spin"\n# ///\ndef spin(n: int) -> int:\n    """Spin."""\n    while n:\n        '
            "pass\n    return n\n"
        )
        (shell.folder / "spin.py").write_text(source)
        assert shell("tool", "add", "spin.py").returncode == 0
        command = ("tool", "run", "spin", "--each", "--jobs", "2")
        pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        with Forked(*command, cwd=shell.folder, env=shell.environment, **pipes) as child:
            assert child.stdin is not None
            assert child.stdout is not None
            child.stdin.write("0\n1\n2\n3\n")
            child.stdin.flush()
            assert child.stdout.readline() == "0\n"
            child.send_signal(signal.SIGINT)
            child.stdin.close()
            assert child.wait(30) in (1, 130)


class TestCommands:
    def test_run(self, filled: Shell) -> None:
        done = filled("tool", "run", "rank", "--input", '{"rows": [{"name": "a", "n": 1}]}')
        assert (done.returncode, done.stdout) == (0, '["a"]\n')
        run = filled.json("tool", "run", "rank", "--input", '{"rows": []}', "--json")
        assert (run["status"], run["result"]) == ("completed", [])
        done = filled("tool", "run", "rank")
        assert (done.returncode, done.stdout) == (1, "")
        assert "the inputs do not fit: rows is required" in done.stderr

    def test_list_show_search_history(self, filled: Shell) -> None:
        assert [row["name"] for row in filled.json("tool", "list", "--json")] == ["clean", "rank"]
        assert "clean  v1   project" in filled("tool", "list").stdout
        assert (
            "async def rank(self, rows: list[dict[str, int | str]], top: int = 2) -> list[str]:"
            in filled("tool", "show", "rank").stdout
        )
        assert filled("tool", "show", "rank", "--source").stdout.startswith(
            '# /// tool\n# name = "rank"\n# version = 1\n'
        )
        assert filled("tool", "search", "largest").stdout.startswith("rank(rows:")
        assert [row["current"] for row in filled.json("tool", "history", "rank", "--json")] == [True]

    def test_test(self, filled: Shell) -> None:
        done = filled("tool", "test")
        assert (done.returncode, done.stdout) == (0, "ok     clean example 1\n-      rank: it has no examples\n")

    @pytest.mark.parametrize(
        ("arguments", "code", "said"),
        [
            (("run", "nope"), 2, "there is no composed tool nope"),
            (("run", "../x"), 2, "can't be the name of a composed tool"),
            (("run", "rank", "--each", "--slurp"), 2, "choose one"),
            (("run", "rank", "--input", "["), 2, "--input is not JSON"),
            (("run", "rank", "--memory", "1"), 2, "memory_mb"),
            (("add",), 2, "add needs a tool's file"),
            (("add", "nope.py"), 2, "nope.py: No such file"),
            (("add", "nope"), 2, "no ready-made tool of that name; there are call_for_each"),
            (("run", "rank", "--jobs", "2"), 2, "they go with --each"),
            (("run", "rank", "--slurp", "--fail-fast"), 2, "they go with --each"),
            (("test", "nope"), 2, "there is no composed tool nope"),
            (("rollback", "rank", "9"), 2, "rank has no version 9; it has 1"),
            (("rm", "nope"), 2, "there is no composed tool nope"),
            (("learn", "rank"), 12, "says itself what it returns"),
            (("suggest",), 0, "nothing to suggest yet"),
        ],
    )
    def test_what_goes_wrong_is_said(self, filled: Shell, arguments: tuple[str, ...], code: int, said: str) -> None:
        done = filled("tool", *arguments)
        assert (done.returncode, said in done.stderr) == (code, True), done.stderr
        assert done.stdout == ""

    def test_a_life(self, shell: Shell) -> None:
        """Added, changed, refused, brought back, exported, removed, imported."""
        path = shell.folder / "clean.py"
        path.write_text(CLEAN)
        shell("tool", "add", "clean.py")
        assert shell("tool", "add", "clean.py").stdout == "clean: unchanged, version 1, 1 example passed (project)\n"
        path.write_text(CLEAN.replace("lower", "upper"))
        done = shell("tool", "add", "clean.py")
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith(
            'clean.py: clean was not saved\n  - example 1: {"name": "a", "n": 3} was expected; it returned'
        )
        done = shell("tool", "add", "-", stdin=CLEAN.replace("Trim", "Cut"))
        assert done.stdout == "clean: version 2, 1 example passed (project)\n"
        assert shell("tool", "rollback", "clean", "1").stdout == "clean: version 3 is version 1 again\n"
        exported = shell("tool", "export").stdout
        assert shell("tool", "rm", "clean").returncode == 0
        assert shell.json("tool", "list", "--json") == []
        (shell.folder / "tools.json").write_text(exported)
        assert shell("tool", "import", "tools.json", "--global").stdout == "clean: version 1 (global)\n"
        assert [row["scope"] for row in shell.json("tool", "list", "--json")] == ["global"]

    def test_in_whatever_order(self, shell: Shell) -> None:
        """One requires the other, and comes first; exported alone, it brings the other along."""
        (shell.folder / "a_first.py").write_text(
            '# /// tool\n# name = "a_first"\n# ///\nasync def a_first(n: int) -> int:\n    """A."""\n    '
            "return await tools.b_second(n=n)\n"
        )
        (shell.folder / "b_second.py").write_text(
            '# /// tool\n# name = "b_second"\n# ///\ndef b_second(n: int) -> int:\n    """B."""\n    return n\n'
        )
        done = shell("tool", "add", "a_first.py", "b_second.py")
        assert (done.returncode, done.stderr) == (0, "")
        (shell.folder / "bundle.json").write_text(shell("tool", "export", "a_first").stdout)
        shell("tool", "rm", "a_first")
        shell("tool", "rm", "b_second")
        assert shell("tool", "import", "bundle.json").returncode == 0
        assert shell("tool", "run", "a_first", "--input", '{"n": 4}').stdout == "4\n"

    def test_code_over_the_projects_tools(self, shell: Shell) -> None:
        """`exec` in a project: its tools, its grants, its journal, approval."""
        shutil.copy(SMALL_SERVER, shell.folder / "server.py")
        config = f'[grants]\nallow = ["mine.*"]\n[servers.mine]\ncommand = "{sys.executable}"\nargs = ["server.py"]\n'
        (shell.folder / ".go-ent" / "config.toml").write_text(config)
        shell("trust", "--yes")
        below = shell.folder / "below"
        below.mkdir()  # servers start in the project's folder, wherever the command does
        inside = Shell(below)
        inside.environment = shell.environment
        assert inside("exec", "-c", "await tools.mine.size(text='abc')").stdout == "3\n"
        done = shell("exec", "-c", "await tools.mine.drop(text='t')")
        assert done.returncode == 10
        assert 'waits for approval: mine.drop with {"text":"t"}: this tool says that it is destructive' in done.stderr
        assert "--yes" in done.stderr
        assert shell("exec", "-c", "await tools.mine.drop(text='t')", "--yes").stdout == "dropped t\n"

    def test_ready_made_tools_by_name(self, shell: Shell) -> None:
        done = shell("tool", "add", "rank_groups")
        assert done.returncode == 0, done.stderr
        inputs = {"records": [{"a": 1}, {"a": 1}, {"a": 2}], "key": "a"}
        assert shell.json("tool", "run", "rank_groups", "--input", json.dumps(inputs))[0]["group"] == 1

    def test_older_files(self, shell: Shell) -> None:
        entry = {
            "id": "1",
            "name": "Double",
            "description": "D.",
            "code": "result = 2 * 21",
            "scope": "project",
            "created": "",
            "usage_count": 7,
        }
        (shell.folder / "old.json").write_text(json.dumps([entry, {"name": "x", "code": "var x = 1;"}]))
        done = shell("tool", "import", "old.json")
        assert done.returncode == 1
        assert "double: version 1 (project) (was 'Double'; its code became the body" in done.stdout
        assert "old.json: x: its code is not Python" in done.stderr
        assert shell("tool", "run", "double").stdout == "42\n"
        assert shell.json("tool", "list", "--json")[0]["calls"] == 8

    def test_a_config_that_can_not_be_used(self, shell: Shell) -> None:
        config = shell.folder / ".go-ent" / "config.toml"
        for text, said in (
            (
                "[grants]\nalow = []\n",
                "config.toml:2: grants.alow: there is no such setting; did you mean grants.allow?",
            ),
            ("[grants]\nallow = 'x'\n", "config.toml:2: grants.allow: it should be a list"),
            ("[grants]\nallow = ['a b']\n", "grants nothing"),
            ("[limits]\ncpu_s = -1\n", "config.toml:2: limits.cpu_s: it should be greater than 0"),
            ("nope", "is not valid TOML"),
            ("[servers.x]\n", "config.toml:1: servers.x: give either command"),
            ("[colours]\n", "config.toml:1: colours: there is no such setting"),
        ):
            config.write_text(text)
            done = shell("tool", "list")
            assert (done.returncode, said in done.stderr) == (12, True), done.stderr


@pytest.fixture(scope="module")
def typed(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """A project with two tools, to which tests add more, and runs."""
    shell = Shell(tmp_path_factory.mktemp("typed"))
    (shell.folder / ".go-ent").mkdir()
    for name, code in (("clean", CLEAN), ("rank", RANK)):
        (shell.folder / f"{name}.py").write_text(code)
        assert shell("tool", "add", f"{name}.py").returncode == 0
    return shell


class TestArguments:
    """What people type and name instead of JSON."""

    def test_each_file_is_a_run(self, typed: Shell) -> None:
        for number in range(3):
            (typed.folder / f"{number}.json").write_text(json.dumps({"name": f" X{number} ", "n": "1"}, indent=2))
        (typed.folder / "bad.json").write_text("nope")
        (typed.folder / "none.json").write_text("\n")
        done = typed("tool", "run", "clean", "--each", "0.json", "1.json", "bad.json", "none.json", "2.json")
        assert [json.loads(line)["name"] for line in done.stdout.splitlines()] == ["x0", "x1", "x2"]
        assert (done.returncode, "bad.json: not JSON" in done.stderr) == (1, True)
        assert "none.json: it is empty" in done.stderr
        assert "2 of 5 files failed" in done.stderr
        names = ", ".join(str(typed.folder / name) for name in ("bad.json", "none.json"))
        status = typed("status", "last").stdout
        assert f"5 lines, 2 failed ({names})" in status
        assert [re.sub(", [0-9.]+ m?s ", "", line) for line in status.splitlines() if ": completed" in line] == [
            f"  {line}: completed " + json.dumps({"name": f"x{at}", "n": 1}, separators=(",", ":"))
            for at, line in enumerate((1, 2, 5))
        ]
        logged = [line.split()[1] for line in typed("logs", "last").stdout.splitlines()]
        assert sorted(logged) == [*["begins"] * 3, *["completed"] * 4, "created", "error", "error"]
        assert typed("tool", "run", "clean", "--each", "nowhere.json").returncode == 2
        assert typed("tool", "run", "clean", "--each", "0.json", "--jobs", "0").returncode == 2
        assert len(json.loads(typed("ps", "--json").stdout)) == 1

    def test_the_results_of_each_as_one_table(self, typed: Shell) -> None:
        lines = json.dumps({"name": "A", "n": 1}) + "\n[1]\n" + json.dumps({"name": "B", "n": 2})
        done = typed("tool", "run", "clean", "--each", "--output", "csv", stdin=lines)
        assert (done.returncode, done.stdout) == (1, "name,n\na,1\nb,2\n")
        done = typed("tool", "run", "clean", "--each", stdin="[1]")
        assert "hint: it is one list; jq -c '.[]' makes each of its elements a line" in done.stderr

    def test_an_object_with_some_parameters_lacks_the_others(self, typed: Shell) -> None:
        (typed.folder / "pair.py").write_text(
            '# /// tool\n# name = "pair"\n# ///\ndef pair(a: int, b: int) -> int:\n    """x."""\n    return a + b\n'
        )
        assert typed("tool", "add", "pair.py").returncode == 0
        done = typed("tool", "run", "pair", "--each", stdin='{"a": 1}\n{"a": 1, "b": 2}\n')
        assert (done.stdout, "b is required" in done.stderr, '{"a"' in done.stderr) == ("3\n", True, False)

    def test_a_plan_with_several_pieces_of_code_is_not_saved_as_one_of_them(self, typed: Shell) -> None:
        (typed.folder / "two.toml").write_text('[[task]]\nid = "a"\ncode = "1"\n[[task]]\nid = "b"\ncode = "2"\n')
        assert typed("run", "--plan", "two.toml").returncode == 0
        saved = typed("tool", "save", "last", "--name", "one")
        assert saved.returncode != 0
        assert "ran code in several tasks (a, b)" in saved.stderr

    def test_what_fails_over_files_is_resumed_without_them(self, typed: Shell) -> None:
        (typed.folder / "fail.py").write_text(
            '# /// tool\n# name = "slowed"\n# ///\ndef slowed(n: int) -> int:\n    """x."""\n    return n\n'
        )
        assert typed("tool", "add", "fail.py").returncode == 0
        for number in range(3):
            (typed.folder / f"{number}.json").write_text(str(number) if number != 1 else "x")
        names = ["0.json", "1.json", "2.json"]
        done = typed("tool", "run", "slowed", "--each", "--fail-fast", "--jobs", "1", *names)
        assert "to resume: go-ent resume" in done.stderr
        assert "< LINES" not in done.stderr
        again = typed("resume", "last")
        assert again.stdout.splitlines() == ["0", "2"]

    def test_text_files_and_printed_json(self, typed: Shell) -> None:
        (typed.folder / "upper.py").write_text(
            '# /// tool\n# name = "upper"\n# ///\ndef upper(text: str) -> str:\n    """x."""\n    return text.upper()\n'
        )
        assert typed("tool", "add", "upper.py").returncode == 0
        (typed.folder / "a.txt").write_text("one\ntwo")
        assert typed("tool", "run", "upper", "--each", "a.txt").stdout == '"ONE\\nTWO"\n'
        printed = json.dumps({"name": " A ", "n": 2}, indent=2)
        done = typed("tool", "run", "clean", "--each", stdin=f"{printed}\n{printed}\n")
        assert done.stdout == '{"name":"a","n":2}\n' * 2

    def test_arguments_as_flags(self, typed: Shell) -> None:
        rows = '[{"name": "a", "n": 1}, {"name": "b", "n": 2}]'
        (typed.folder / "rows.json").write_text(rows)
        for words in (["--rows", "@rows.json", "--top", "1"], [f"rows:={rows}", "top=1"], ["@rows.json", "--top=1"]):
            assert typed.json("tool", "run", "rank", *words) == ["b"]
        assert typed.json("tool", "run", "rank", "--rows", "-", stdin=rows) == ["b", "a"]
        assert typed.json("tool", "run", "rank", "--input", "-", stdin=f'{{"rows": {rows}}}') == ["b", "a"]
        assert typed.json("tool", "run", "clean", "--input", '{"row": {"name": "A", "n": 1}}')["name"] == "a"
        wrong = typed("tool", "run", "rank", "--rwos", "x")
        assert (wrong.returncode, "did you mean --rows?" in wrong.stderr) == (2, True)

    def test_the_help_of_a_tool_is_its_own(self, typed: Shell) -> None:
        shown = typed("tool", "run", "rank", "--help").stdout
        for line in ("Usage: go-ent tool run rank --rows [--top]", "The names with the largest n.", "[default: 2]"):
            assert line in shown
        shown = typed("tool", "run", "clean", "--help").stdout
        assert """go-ent tool run clean --row '{"name": " A ", "n": "3"}'""" in shown

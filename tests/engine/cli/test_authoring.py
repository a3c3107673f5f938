"""`go-ent tool new`, `edit`, `record`, `diff`, `docs` and `test --watch`: a tool as its writer makes it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from go_ent.composer.composed.drafts import Drafts
from go_ent.composer.composed.example_block import with_example
from go_ent.composer.composed.skeleton import skeleton
from go_ent.composer.composed.toolfile import Example, read
from tests.support.shell import COMMAND, Done, go_ent

DOUBLE = '# /// tool\n# name = "double"\n# ///\ndef double(n: int) -> int:\n    """Twice n."""\n    return 2 * n\n'
TWICE = (
    '# /// tool\n# name = "twice"\n# ///\n'
    'async def twice(n: int) -> int:\n    """Four times n."""\n'
    "    return await tools.double(n=await tools.double(n=n))\n"
)


@pytest.fixture
def editor(tmp_path: Path) -> Path:
    """An editor whose path has a space: it replaces what it is told to, and fails if it is told so."""
    path = tmp_path / "my editor"
    path.write_text(
        f"#!{sys.executable}\nimport sys\nold, new, path = sys.argv[1:]\ntext = open(path).read()\n"
        "open(path, 'w').write(text.replace(old, new))\nsys.exit(old == 'fail')\n"
    )
    path.chmod(0o755)
    return path


def edit(project: Path, editor: Path, old: str, new: str, *options: str) -> Done:
    command = f"'{editor}' '{old}' '{new}'"
    return go_ent("tool", "edit", "double", *options, cwd=project, env={"EDITOR": command, "VISUAL": ""})


def add(project: Path, *sources: str) -> None:
    for number, source in enumerate(sources):
        (project / f"{number}.py").write_text(source)
        done = go_ent("tool", "add", f"{number}.py", cwd=project)
        assert done.returncode == 0, done.stderr


def test_a_new_tool_is_a_draft_that_works(project: Path) -> None:
    done = go_ent("tool", "new", "double", cwd=project)
    assert (done.returncode, done.stdout.decode().splitlines()[1]) == (0, "next: go-ent tool edit double")
    assert go_ent("tool", "list", "--json", cwd=project).stdout == b"[]\n"  # nobody can call a draft
    draft = Drafts(project).path("double")
    assert b"version 1, 2 examples passed" in go_ent("tool", "add", str(draft), cwd=project).stdout
    assert b"has a draft already" in go_ent("tool", "new", "double", cwd=project).stderr
    assert b"can't be the name" in go_ent("tool", "new", "Not-A-Name", cwd=project).stderr
    draft.unlink()
    assert b"there is a composed tool double already" in go_ent("tool", "new", "double", cwd=project).stderr
    assert not draft.exists()


@pytest.mark.more
def test_a_new_tool_from_code_and_from_an_execution(project: Path) -> None:
    code = b"words = 'b a b'.split()\nlen(words)"
    made = go_ent("tool", "new", "size", "--from", "-", "--print", stdin=code, cwd=project).stdout.decode()
    assert "async def size() -> Any:" in made
    assert "    return len(words)" in made
    (project / ".go-ent").mkdir(exist_ok=True)
    words = ("exec", "-c", "words = text.split()\nlen(words)", "--input", '{"text": "a b"}', "--json")
    run = json.loads(go_ent(*words, cwd=project).stdout)
    for which in (run["id"], "last", "last:completed"):
        made = go_ent("tool", "new", "odd", "--from", which, "--print", cwd=project).stdout.decode()
        assert '# {"inputs": {"text": "a b"}, "result": 2}' in made
    assert b"there is no file notes.py" in go_ent("tool", "new", "odd", "--from", "notes.py", cwd=project).stderr


def test_an_edit_is_checked_tested_and_saved(project: Path, editor: Path) -> None:
    add(project, DOUBLE)
    done = edit(project, editor, "2 * n", "n + n")
    assert (done.returncode, done.stdout) == (0, b"double: version 2, no examples (project)\n")
    assert Drafts(project).names() == []


def test_an_edit_that_fails_is_kept_as_a_draft(project: Path, editor: Path) -> None:
    add(project, DOUBLE)
    done = edit(project, editor, "n: int", "n: Nothing")
    assert done.returncode == 1
    assert b"double was not saved:\n  - " in done.stderr
    assert b"go-ent tool edit double continues with it" in done.stderr
    assert b"n: int" in go_ent("tool", "show", "double", "--source", cwd=project).stdout
    assert b"+def double(n: Nothing)" in go_ent("tool", "diff", "double", cwd=project).stdout
    done = edit(project, editor, "n: Nothing", "n: float")
    assert b"continuing with the draft" in done.stderr
    assert done.stdout == b"double: version 2, no examples (project)\n"
    assert Drafts(project).names() == []


@pytest.mark.more
def test_an_edit_that_changes_nothing_or_ends_badly_saves_nothing(project: Path, editor: Path) -> None:
    add(project, DOUBLE)
    assert b"nothing was changed" in edit(project, editor, "x", "x").stderr
    done = edit(project, editor, "fail", "")
    assert (done.returncode, b"exit code 1: nothing was saved" in done.stderr) == (1, True)
    assert Drafts(project).names() == []
    for wrong, told in (
        ("no-such-one", b"there is no program no-such-one"),
        ("'", b"can't be read as a command"),
        ("", b"there is no terminal to edit in"),
    ):
        done = go_ent("tool", "edit", "double", cwd=project, env={"EDITOR": wrong, "VISUAL": ""})
        assert (done.returncode, told in done.stderr) == (12, True)
    assert b"go-ent tool new nothing begins one" in go_ent("tool", "edit", "nothing", cwd=project).stderr


@pytest.mark.more
def test_a_broken_tool_can_be_edited(project: Path, editor: Path) -> None:
    add(project, DOUBLE)
    (project / ".go-ent/composed-tools/double.py").write_text(DOUBLE.replace("# ///\ndef", "# \ndef"))
    assert edit(project, editor, "# \ndef", "# ///\n# changed\ndef").returncode == 0


def test_a_real_run_becomes_an_example(project: Path) -> None:
    add(project, DOUBLE, TWICE)
    done = go_ent("tool", "record", "twice", "n=3", "--json", cwd=project)
    assert done.returncode == 0, done.stderr
    calls = [{"tool": "double", "arguments": {"n": n}, "result": 2 * n} for n in (3, 6)]
    assert json.loads(done.stdout)["example"] == {"inputs": {"n": 3}, "result": 12, "calls": calls}
    assert b"twice: it had that example already" in go_ent("tool", "record", "twice", "n=3", cwd=project).stderr
    assert go_ent("tool", "test", "twice", cwd=project).stdout == b"ok     twice example 1\n"
    done = go_ent("tool", "record", "double", "--input", '{"n": "x"}', cwd=project)
    assert b"nothing was recorded: --failing records the error" in done.stderr
    assert go_ent("tool", "record", "double", "--input", '{"n": "x"}', "--failing", cwd=project).returncode == 0
    assert b"leave --failing out" in go_ent("tool", "record", "double", "n=1", "--failing", cwd=project).stderr


def test_an_example_is_added_and_nothing_else_changes() -> None:
    file = read(skeleton("words"))
    more = with_example(file, Example(inputs={"text": "x"}, result=[]))
    assert [line for line in more.splitlines() if line not in file.source.splitlines()] == [
        '# {"inputs": {"text": "x"}, "result": []}'
    ]
    again = with_example(read(more), Example(inputs={"text": "x"}, result=["other"]))
    assert [example.result for example in read(again).metadata.examples] == [["be", "to"], [], ["other"]]
    bare = with_example(read(DOUBLE), Example(inputs={"n": 1}, result=2))
    block = '# ///\n# /// examples\n# {"inputs": {"n": 1}, "result": 2}\n# ///\n'
    assert bare == DOUBLE.replace("# ///\n", block)


def test_versions_are_compared(project: Path) -> None:
    add(project, DOUBLE)
    assert b"double has one version, 1" in go_ent("tool", "diff", "double", cwd=project).stderr
    add(project, DOUBLE.replace("2 * n", "n + n"), DOUBLE.replace("2 * n", "n * 2"))
    told = go_ent("tool", "diff", "double", cwd=project).stdout.decode().splitlines()
    assert told[:2] == ["--- double v2", "+++ double v3"]
    assert told[-2:] == ["-    return n + n", "+    return n * 2"]
    assert json.loads(go_ent("tool", "diff", "double", "1", "--json", cwd=project).stdout)["to"] == "3"
    assert b"v1 and double v1 are the same" in go_ent("tool", "diff", "double", "v1", "1", cwd=project).stderr
    assert b"has no version 9; it has 1, 2, 3" in go_ent("tool", "diff", "double", "9", cwd=project).stderr


def test_a_page_of_all_tools(project: Path) -> None:
    add(project, DOUBLE, skeleton("words"))
    page = go_ent("tool", "docs", cwd=project).stdout.decode()
    assert "## `double`\n\nTwice n.\n\n```python\ndouble(n: int) -> int\n```" in page
    assert "| `least` | `int` | `2` | A parameter with a default is optional. |" in page
    assert 'words(text="to be or not to be")\n["be", "to"]' in page
    assert "words" not in go_ent("tool", "docs", "double", cwd=project).stdout.decode()


@pytest.mark.more
def test_tools_are_tested_as_they_are_edited(project: Path) -> None:
    add(project, skeleton("words"))
    path = project / ".go-ent/composed-tools/words.py"
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    command = [*COMMAND, "tool", "test", "--watch"]
    with (
        subprocess.Popen(command, cwd=project, env=environment, stdout=-1, stderr=-1, text=True) as child,
        contextlib.ExitStack() as after,
    ):
        after.callback(child.kill)  # else a test that fails waits for it
        assert child.stdout is not None
        assert child.stderr is not None
        assert [child.stdout.readline() for _ in range(2)] == ["ok     words example 1\n", "ok     words example 2\n"]
        assert child.stderr.readline() == "watching; Ctrl-C ends this\n"
        path.write_text(path.read_text().replace(">= least", "> least"))
        assert child.stdout.readline().startswith('FAILED words example 1: ["be", "to"] was expected')
        child.send_signal(signal.SIGINT)
        assert child.wait(20) == 130


def test_a_tool_in_typescript_from_its_draft_to_its_example(project: Path, editor: Path) -> None:
    assert go_ent("tool", "new", "double", "-l", "ts", cwd=project).returncode == 0
    assert Drafts(project).path("double").name == "double.ts"
    done = edit(project, editor, "least: number = 2", "least: number = 1")
    assert b"example 1" in done.stderr  # it is kept as a draft
    done = edit(project, editor, 'result": ["be", "to"]', 'result": ["be", "not", "or", "to"]')
    assert b"double: version 1, 2 examples passed" in done.stdout, done.stderr
    recorded = go_ent("tool", "record", "double", "text=x", cwd=project).stdout
    assert recorded == b'{"inputs": {"text": "x"}, "result": ["x"]}\n'
    assert b'+// {"inputs": {"text": "x"}, "result": ["x"]}' in go_ent("tool", "diff", "double", cwd=project).stdout
    listed = json.loads(go_ent("tool", "list", "--json", cwd=project).stdout)
    assert [(row["name"], row["language"], row["version"]) for row in listed] == [("double", "typescript", 2)]
    assert b"double(args: { text: string; least?: number })" in go_ent("tool", "show", "double", cwd=project).stdout
    exported = go_ent("tool", "export", cwd=project).stdout
    assert json.loads(exported)["tools"][0]["language"] == "typescript"

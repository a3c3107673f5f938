"""Attacks on the terminal of a person who looks at what strangers wrote, and by the programs that show it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.engine.cli.test_run import Shell, shell
from tests.engine.cli.test_signals import terminal
from tests.security.corpus import attack
from tests.support.shell import go_ent

__all__ = ["shell"]

ACTS = "\x1b]0;owned\x07\x1b[2J\x1b]8;;http://evil.example\x1b\\\u202eevil\u2066\x9b31m\x00\u200b"
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
RICH = {"FORCE_COLOR": "1", "COLUMNS": "80", "TERM": "xterm-256color", "NO_COLOR": ""}


def obeyed(said: str) -> str:
    """What of a text a terminal would obey, besides colours."""
    return "".join(char for char in COLOUR.sub("", said) if char not in "\n\t" and not char.isprintable())


def looked_at(shell: Shell, *arguments: str) -> str:
    """A command's output as a terminal gets it."""
    done = go_ent(*arguments, cwd=shell.folder, env=RICH, merged=True)
    return done.stdout.decode()


@pytest.fixture
def planned(shell: Shell) -> Shell:
    """A project with a plan whose code, outputs and errors act on a terminal, and that has run."""
    acts = json.dumps(ACTS)
    tasks = [
        ["id = 'words'", f"code = {json.dumps(f'print({acts}){chr(10)}{acts}')}"],
        ["id = 'rows'", f"code = {json.dumps(f'[{{{acts}: {acts}}}]')}", "depends_on = ['words']"],
        ["id = 'fails'", f"code = {json.dumps(f'raise ValueError({acts})')}", "depends_on = ['rows']"],
    ]
    lines = [line for one in tasks for line in ("[[task]]", *one)]
    (shell.folder / "plan.toml").write_text("\n".join(lines))
    said = looked_at(shell, "run", "--plan", "plan.toml")
    assert "failed" in said
    assert obeyed(said) == ""
    return shell


TELL = (
    ("ps",),
    ("status",),
    ("logs",),
    ("output", "last", "words"),
    ("output", "last", "rows"),
    ("output", "last", "rows", "--output", "table"),
    ("plan", "graph", "plan.toml"),
    ("plan", "check", "plan.toml"),
    ("resume",),
)


@attack("terminal", "code, outputs and errors of a plan, in every command that tells of it")
def test_what_a_plan_says_is_plain(planned: Shell) -> None:
    for command in TELL:
        said = looked_at(planned, *command)
        assert (command, obeyed(said)) == (command, "")
        assert "evil" in said or command[0] in ("ps", "plan"), command


@attack("terminal", "code whose lines and errors act, where the failing line is shown")
def test_an_error_with_its_code_is_plain(shell: Shell) -> None:
    code = f"def f():\n    raise ValueError({ACTS!r})  # {ACTS}\nf()\n".replace("\0", "")
    (shell.folder / "code.py").write_text(code)
    said = looked_at(shell, "exec", "code.py")
    assert "line 2" in said
    assert obeyed(said) == ""


@attack("terminal", "a composed tool's words: its description, examples and parameters")
def test_what_a_tool_says_of_itself_is_plain(shell: Shell) -> None:
    words = ascii(ACTS)[1:-1]  # a tool's file may not have such characters, but it can spell them
    head = f'# /// tool\n# name = "acts"\n# ///\ndef acts(text: str = "{words}") -> str:\n'
    (shell.folder / "acts.py").write_text(f'{head}    """Acts {words} on it."""\n    return text\n')
    said = looked_at(shell, "tool", "add", "acts.py")
    for command in ("list", "show acts", "run acts --help", "run acts", "search acts", "docs"):
        said += looked_at(shell, "tool", *command.split())
    assert "Acts" in said
    assert obeyed(said) == ""


@attack("folder", "a pager and an editor in the project's folder, by a relative path of PATH")
def test_programs_of_the_folder_do_not_show_or_edit(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("less", "more", "nano", "vi", "editor"):
        planted = shell.folder / name
        planted.write_text(f"#!/bin/sh\ntouch {shell.folder}/started\n")
        planted.chmod(0o755)
    env = {"PATH": f".:{shell.folder.parent}/none::", "LESSOPEN": f"|touch {shell.folder}/started"}
    with terminal(shell, "exec", "-c", "'\\n'.join(map(str, range(200)))", env=env) as shown:
        assert shown.end() == 0
    assert b"199" in shown.said
    done = go_ent("config", "edit", cwd=shell.folder, env={**env, "EDITOR": "", "VISUAL": ""})
    assert done.returncode != 0
    assert not (shell.folder / "started").exists()


@attack("terminal", "an endless line, and more lines than anybody reads")
def test_long_output_is_bounded(shell: Shell) -> None:
    said = looked_at(shell, "exec", "-c", f"[{{'a': 'x' * 200, 'b': {ACTS!r}}} for _ in range(3000)]")
    assert "the first 2,000 of 3,000 rows" in said
    assert obeyed(said) == ""


@attack("terminal", "the name of a file, a folder or a project, in messages")
def test_names_of_files_are_plain(shell: Shell, tmp_path: Path) -> None:
    name = ACTS.replace("\x00", "").replace("/", "")
    folder = tmp_path / name
    folder.mkdir()
    there = ("-C", str(folder))
    for arguments in ((*there, "init"), (*there, "doctor"), ("exec", name), ("run", "--plan", name)):
        assert obeyed(looked_at(shell, *arguments)) == ""

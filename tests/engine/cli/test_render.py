"""Results on a terminal: pretty for people, and never obeyed by the terminal."""

from __future__ import annotations

import contextlib
import io
import re
import time
from typing import Any

import pytest

from go_ent.engine.cli.terminal import render, run_errors
from go_ent.engine.cli.terminal.formats import Format, show_as
from go_ent.sandbox import RunError

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
HOSTILE = "\x1b]0;owned\x07\x1b[2J\u202eevil\u2066\x9b31m\r\x00\u200b"
MARKDOWN = "# Title\n\nSome **bold** text and `code`.\n\n- one\n- two\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    made = io.StringIO()
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm-256color")
    return made


def shown(screen: io.StringIO, value: Any) -> str:
    with contextlib.redirect_stdout(screen):
        render.show_result(value)
    return screen.getvalue()


def test_records_are_a_table(screen: io.StringIO) -> None:
    lines = COLOUR.sub("", shown(screen, [{"name": "ada", "n": 1}, {"name": "bo", "n": 22}])).splitlines()
    assert [line.split() for line in lines if "─" not in line] == [["name", "n"], ["ada", "1"], ["bo", "22"]]
    assert lines[2].rstrip().endswith(" 1")  # numbers are at the right


@pytest.mark.parametrize("value", [{"a": [1, None]}, [{"a": {"b": "x" * 100}}], [1, 2], [{}], 5, True])
def test_anything_else_is_json_over_lines(screen: io.StringIO, value: Any) -> None:
    import json

    assert json.loads(COLOUR.sub("", shown(screen, value))) == value


def test_markdown_is_rendered(screen: io.StringIO) -> None:
    text = COLOUR.sub("", shown(screen, MARKDOWN))
    assert "**" not in text
    assert " • one" in text
    assert "|---|" not in text


@pytest.mark.parametrize("text", ["# a comment\nx = 1\n", "a\nb", "- one", "2 * 3 ** 4\nnext", "one line"])
def test_other_text_stays_as_it_is(screen: io.StringIO, text: str) -> None:
    assert shown(screen, text) == f"{text}\n"


@pytest.mark.parametrize(
    "value",
    [
        HOSTILE,
        [{HOSTILE: HOSTILE}],
        {"a": [HOSTILE]},
        f"{MARKDOWN}{HOSTILE}",
        f"{MARKDOWN}\n&#27;[31mred &#x202e;abc &#155;2J\n",
        f"{MARKDOWN}\n[text](https://a.example/{HOSTILE}) <https://b.example>\n",
        f"{MARKDOWN}\n```{HOSTILE}\n{HOSTILE}\n```\n",
        f"{MARKDOWN}\n![{HOSTILE}](https://c.example)\n",
    ],
)
def test_nothing_of_a_result_is_obeyed(screen: io.StringIO, value: Any) -> None:
    text = COLOUR.sub("", shown(screen, value))
    assert all(char == "\n" or char.isprintable() for char in text), ascii(text)


@pytest.mark.parametrize(
    "text",
    [
        "```\n" + "[" * 30_000,
        "```\n" + "|a" * 15_000 + "\n" + "|-" * 15_000,
        "-" * 30_000 + "\n```",
        "```\n" + "*a_" * 10_000,
        "```\n" + ">" * 30_000,
    ],
)
def test_markdown_that_was_made_to_take_long_does_not(screen: io.StringIO, text: str) -> None:
    began = time.process_time()
    shown(screen, text)
    assert time.process_time() - began < 3


@pytest.mark.parametrize(
    ("form", "value", "printed"),
    [
        ("csv", [{"a": 1, "b": "x,y"}, {"b": 'q"'}], 'a,b\n1,"x,y"\n,"q"""\n'),
        ("csv", {"a": [1, 2], "b": ["x", "y"]}, "a,b\n1,x\n2,y\n"),
        ("csv", [[1, 2], [3]], "1,2\n1,2\n3,\n"),
        ("csv", 5, "value\n5\n"),
        ("yaml", {"a": "yes", "b": float("nan")}, "a: 'yes'\nb: null\n"),
        ("json", "é", '"é"\n'),
        ("raw", {"a": 1}, '{"a":1}'),
    ],
)
def test_formats(monkeypatch: pytest.MonkeyPatch, form: Format, value: Any, printed: str) -> None:
    stream = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True)
    monkeypatch.setattr("sys.stdout", stream)
    show_as(value, form)
    assert stream.buffer.getvalue().decode() == printed


def test_an_error_shows_its_line_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    made = io.StringIO()
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr("sys.stderr", made)
    source = f"def f(a):\n    return a / 0  # {HOSTILE.replace(chr(13), '')}\n\nf(1)\n"
    traceback = 'Traceback:\n  File "code.py", line 4, in <module>\n    f(1)\n  File "code.py", line 2, in f\n'
    error = RunError(kind="ZeroDivisionError", message=HOSTILE, line=2, values={"a": HOSTILE})
    assert run_errors.show_marked(error, traceback, source, "code.py")
    text = COLOUR.sub("", made.getvalue())
    assert all(char == "\n" or char.isprintable() for char in text)
    lines = text.splitlines()
    assert "code.py, line 2, in f" in lines[1]
    assert lines[3].startswith("> 2 |     return a / 0")
    assert lines[-2].startswith("  a = ")
    assert lines[-1].strip() == "called from line 4: f(1)"
    assert not run_errors.show_marked(RunError(kind="x", message="", line=99), None, source, "code.py")

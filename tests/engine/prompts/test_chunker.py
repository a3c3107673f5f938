"""Chunks: files packed for a model that can't read them all at once."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from go_ent.engine import tokens
from go_ent.engine.core.errors import BadTask
from go_ent.engine.prompts import Chunk, Part, pack
from go_ent.engine.tokens import count

CODE = "import os\n\n\n" + "\n\n".join(
    f"@cached\ndef f{number}():\n    x = {number}\n\n    return x * {number}\n" for number in range(60)
)
WORDS = st.sampled_from(
    [
        "word ",
        "x" * 30,
        "\n",
        "\n\n",
        "def f():\n",
        "    y = 1\n",
        "# Heading\n",
        "`",
        "````",
        "漢",
        "😀",
        "<|endoftext|>",
        "\r\n",
        "\t",
        "\ud83d",
    ]
)
TEXTS = st.lists(WORDS, max_size=12).flatmap(lambda parts: st.integers(1, 25).map(lambda times: "".join(parts) * times))


def joined(chunks: list[Chunk]) -> list[tuple[str, str]]:
    """The files that are in the chunks: parts that follow each other belong together."""
    files: list[tuple[str, str]] = []
    for part in (part for chunk in chunks for part in chunk.parts):
        if part.start_line == 1 and not (files and files[-1][0] == part.path):
            files.append((part.path, ""))
        assert files[-1][0] == part.path
        files[-1] = (part.path, files[-1][1] + part.text)
    return files


@settings(max_examples=40, deadline=None)
@given(texts=st.lists(TEXTS, max_size=5), most=st.integers(64, 400))
def test_every_chunk_is_within_its_limit_and_together_they_are_the_files(texts: list[str], most: int) -> None:
    files = [(f"src/f{at}.py", text) for at, text in enumerate(texts)]
    chunks = pack(files, max_tokens=most)
    assert joined(chunks) == files
    assert chunks == pack(iter(files), max_tokens=most)
    for chunk in chunks:
        assert chunk.parts
        assert count(chunk.text()) == chunk.tokens <= most
        assert all(part.text in chunk.text() for part in chunk.parts)
    for part in (part for chunk in chunks for part in chunk.parts):
        before = dict(files)[part.path].split("\n")
        assert part.text.rstrip("\n").count("\n") <= part.end_line - part.start_line + 1 <= len(before)


def test_files_that_fit_share_a_chunk() -> None:
    (chunk,) = pack([("a.py", "x = 1\n"), ("empty.py", ""), ("b.txt", "one\ntwo")], max_tokens=200)
    assert chunk.parts == (Part("a.py", "x = 1\n", 1, 1), Part("empty.py", "", 1, 0), Part("b.txt", "one\ntwo", 1, 2))
    assert chunk.text() == (
        "### `a.py` (lines 1-1)\n\n```py\nx = 1\n```\n\n"
        "### `empty.py` (empty)\n\n```py\n```\n\n"
        "### `b.txt` (lines 1-2)\n\n```txt\none\ntwo\n```\n\n"
    )


def test_a_file_that_fits_is_not_split() -> None:
    files = [(f"{name}.py", f"{name} = 1\n" * 20) for name in "abcdef"]
    chunks = pack(files, max_tokens=250)
    assert len(chunks) > 1
    assert [(part.path, part.text) for chunk in chunks for part in chunk.parts] == files


def test_a_large_file_is_split_before_definitions() -> None:
    chunks = pack([("code.py", CODE)], max_tokens=300)
    starts = [chunk.parts[0].text for chunk in chunks]
    assert len(chunks) > 4
    assert all(text.startswith("@cached\ndef ") for text in starts[1:])
    lines = CODE.split("\n")
    for (part,) in (chunk.parts for chunk in chunks):
        assert part.text.split("\n")[0] == lines[part.start_line - 1]
        assert part.text.rstrip("\n").split("\n")[-1] in lines[part.start_line - 1 : part.end_line]


@pytest.mark.parametrize(
    ("text", "beginning"),
    [
        ("".join(f"## Part {n}\n\nSome words on it.\nMore of them.\n\n" for n in range(60)), r"## Part \d+\n"),
        ("".join(f"  some words {n}\n  more of them\n\n" for n in range(60)), r"  some words \d+\n"),
        ("".join(f"line {n} of many\n" for n in range(200)), r"line \d+ of many\n"),
    ],
    ids=["headings", "empty lines", "lines"],
)
def test_else_at_the_next_best_place(text: str, beginning: str) -> None:
    chunks = pack([("a.md", text)], max_tokens=200)
    assert len(chunks) > 3
    assert all(re.match(beginning, chunk.parts[0].text) for chunk in chunks)


def test_a_line_that_fits_nowhere_is_split_within() -> None:
    chunks = pack([("min.js", "short();\n" + "a+b;" * 1000 + "\nlast();\n")], max_tokens=200)
    assert len(chunks) > 5
    assert all(part.start_line <= 2 <= part.end_line for chunk in chunks[1:-1] for part in chunk.parts)
    assert max(chunk.tokens for chunk in chunks) > 150


def test_what_looks_like_a_special_token_is_text() -> None:
    text = "<|endoftext|>" * 200
    chunks = pack([("a", text)], max_tokens=100)
    assert len(chunks) > 5
    assert joined(chunks) == [("a", text)]


def test_long_runs_do_not_take_forever() -> None:
    for text in ("`" * 10_000, " " * 100_000, "x" * 30_000, "\n" * 10_000):
        chunks = pack([("a", text)], max_tokens=1000)
        assert joined(chunks) == [("a", text)]
        assert all(chunk.tokens <= 1000 for chunk in chunks)


def test_no_files_are_no_chunks() -> None:
    assert pack([], max_tokens=1) == []


def test_too_small_a_chunk_is_refused() -> None:
    with pytest.raises(BadTask, match=r"a chunk of 30 tokens has no room for a\.py: its heading alone takes \d+"):
        pack([("a.py", "x")], max_tokens=30)


def test_without_the_ranks_files_are_packed_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise tokens.RanksDamaged("the ranks are damaged")

    tokens._usable.cache_clear()
    monkeypatch.setattr(tokens, "_load", broken)  # nobody gets at them, by whatever name
    try:
        chunks = pack([("a.py", CODE)], max_tokens=400)
        assert joined(chunks) == [("a.py", CODE)]
        assert all(count(chunk.text()) <= 400 for chunk in chunks)
    finally:
        tokens._usable.cache_clear()

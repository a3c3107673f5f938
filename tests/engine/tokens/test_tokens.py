"""Counting tokens without a download."""

from __future__ import annotations

import pytest

from go_ent.engine.tokens import SLICE, count, encode, encoding


def test_known_counts() -> None:
    assert encoding().encode_ordinary("hello world") == [24912, 2375]
    assert count("") == 0
    assert count("<|endoftext|>") > 1
    text = "def f(x: int) -> str:\n    return 'äöü 日本語 🎉'\n"
    assert encoding().decode(encoding().encode_ordinary(text)) == text


@pytest.mark.parametrize("text", ["\ud800", "a\0b", "x" * 100_000])
def test_odd_text(text: str) -> None:
    assert count(text) > 0


def test_a_million_blanks_are_counted() -> None:
    assert 0 < count(" " * 1_200_000) < 100_000
    assert count("a b\n" * 40_000) == len(encoding().encode_ordinary("a b\n" * 40_000))


@pytest.mark.parametrize(
    "line", ["plain words here\n", "    indented code(x)\r\n", "/path/first\n\n", "日本語\n", '{"a": 1},\n']
)
def test_long_text_is_counted_as_if_it_were_whole(line: str) -> None:
    text = line * (2 * SLICE // len(line))
    whole = encoding().encode_ordinary(text)
    assert count(text) == len(encode(text))
    assert abs(count(text) - len(whole)) <= 2  # at the most one token more for each cut
    assert encoding().decode(encode(text)) == text

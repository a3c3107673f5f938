"""Times, sizes and money as people say them; text from outside as it can be shown."""

from __future__ import annotations

import pytest

from go_ent.engine.console import words


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (None, "–"),
        (0, "0 ms"),
        (0.0004, "0.4 ms"),
        (0.0421, "42 ms"),
        (0.4, "0.4 s"),
        (59.94, "59.9 s"),
        (60, "1 min"),
        (61.4, "1 min 1 s"),
        (3600, "1 h"),
        (5400, "1 h 30 min"),
        (90_000, "1 d 1 h"),
    ],
)
def test_durations(seconds: float | None, said: str) -> None:
    assert words.took(seconds) == said


@pytest.mark.parametrize(
    ("past", "said"), [(1, "just now"), (59, "59 s ago"), (60, "1 min ago"), (7200, "2 h ago"), (-90, "in 1 min")]
)
def test_times(past: float, said: str) -> None:
    assert words.ago(1_000_000 - past, 1_000_000) == said


@pytest.mark.parametrize(
    ("count", "said"), [(0, "0 B"), (999, "999 B"), (1234, "1.2 kB"), (99_600, "100 kB"), (3 << 20, "3.1 MB")]
)
def test_sizes(count: int, said: str) -> None:
    assert words.size(count) == said


@pytest.mark.parametrize(
    ("usd", "said"), [(None, "–"), (0, "$0"), (0.00001, "<$0.0001"), (0.0123, "$0.0123"), (1234.5, "$1,234.50")]
)
def test_money(usd: float | None, said: str) -> None:
    assert words.money(usd) == said


def test_what_cannot_be_seen_is_made_visible() -> None:
    assert words.visible("a\u202eb\x00c\u200bd\te\nf\x7f") == "a⟨202E⟩b␀c⟨200B⟩d\te\nf␡"
    assert words.line("a\n\n  b\r\nc") == "a b c"
    assert words.line("x" * 500, 10) == "x" * 9 + "…"


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("report.csv", "report.csv"),
        ("../../etc/passwd", "passwd"),
        ("..\\..\\evil.exe", "evil.exe"),
        ("", "file"),
        ("...", "file"),
        (".bashrc", "bashrc"),
        ('a"; filename=x.html', "a__ filename_x.html"),
        ("a\r\nset-cookie: x", "aset-cookie_ x"),
        ("gpj.\u202eexe", "gpj.exe"),
        ("é" * 300 + ".txt", "é" * 100 + ".txt"),
    ],
)
def test_names_of_files_are_harmless(name: str, safe: str) -> None:
    assert words.file_name(name) == safe

"""What a text says that can't be guessed, found by its form."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from go_ent.engine.context.facts import LONGEST_LINE, MOST, Fact, Facts, extract, missing, words
from tests.support.rows import each


def texts(facts: tuple[Fact, ...]) -> list[str]:
    return [fact.text for fact in facts]


@each(
    ("text", "paths"),
    [
        ("It is in src/app/main.py, I think.", ["src/app/main.py"]),
        ("see (./lib/a-b.ts:12:3).", ["./lib/a-b.ts"]),
        ("/etc/hosts and ~/.ssh/config and ../up", ["/etc/hosts", "~/.ssh/config", "../up"]),
        ("README.md, Makefile, .gitignore", ["README.md", "Makefile", ".gitignore"]),
        (r"on C:\Users\me\a.txt", [r"C:\Users\me\a.txt"]),
        ("node_modules/@scope/pkg/index.js", ["node_modules/@scope/pkg/index.js"]),
        ("GET /api/v1/users?id=3", ["/api/v1/users"]),
        ("he and/or she, 24/7, I/O bound", []),
    ],
)
def test_paths(text: str, paths: list[str]) -> None:
    assert texts(extract(text).paths) == paths


@each(
    ("text", "identifiers"),
    [
        ("CartStore calls parse_line and userName", ["CartStore", "parse_line", "userName"]),
        ("os.path.join, `run()` and Foo::Bar", ["os.path.join", "run()", "Foo::Bar"]),
        ("tenant 0b6b3f0e-9d2c-4b4a-8a3e-0123456789ab", ["0b6b3f0e-9d2c-4b4a-8a3e-0123456789ab"]),
        ("commit 28991252ec, or 7f3a9bc.", ["28991252ec", "7f3a9bc"]),
        ("ABC-123 and #45", ["ABC-123", "#45"]),
        ("v1.2.3 is newer than 0.14.2-rc1", ["v1.2.3", "0.14.2-rc1"]),
        ("with --dry-run and MAX_SIZE", ["--dry-run", "MAX_SIZE"]),
        ("db-3.eu.internal, 10.0.0.7:8080, k8s-node-3", ["db-3.eu.internal", "10.0.0.7:8080", "k8s-node-3"]),
        ("ann@example.com wrote", ["ann@example.com"]),
        ("Nothing of the kind, e.g. this; i.e. Well-known words. JSON too", []),
    ],
)
def test_identifiers(text: str, identifiers: list[str]) -> None:
    assert texts(extract(text).identifiers) == identifiers


@each(
    ("text", "numbers"),
    [
        ("it took 412 ms, not 3.5 s", ["412 ms", "3.5 s"]),
        ("18 % of 9,120 rows", ["18 %", "9,120 rows"]),
        ("$1,240.50 and 3,5 GB", ["$1,240.50", "3,5 GB"]),
        ("12h; ~40ms; 99.9%", ["12h", "~40ms", "99.9%"]),
        ("at 10:45 UTC on 2026-03-14", ["10:45 UTC", "2026-03-14"]),
        ("5 of them, and 7.", ["5", "7"]),
        ("until May 12", ["May 12", "12"]),
        ("one or two", []),
    ],
)
def test_numbers_with_their_units(text: str, numbers: list[str]) -> None:
    assert texts(extract(text).numbers) == numbers


def test_urls() -> None:
    assert texts(extract("see https://a.example/x?y=1&z=2), or http://b.example/.").urls) == [
        "https://a.example/x?y=1&z=2",
        "http://b.example/",
    ]


def test_each_fact_has_the_line_that_it_is_first_in() -> None:
    text = "Nothing.\nIt is in a/b.py.\n\nAgain a/b.py and c/d.py."
    assert extract(text).paths == (Fact("a/b.py", 2), Fact("c/d.py", 4))


def test_decisions_errors_and_open_items_are_sentences() -> None:
    facts = extract(
        "Fine so far. We decided to keep it. That is nice.\n"
        "You must not touch it.\n"
        "ValueError: no\n"
        "It ended with exit code 137 at noon.\n"
        "- [ ] write the docs\n"
        "- [x] read them\n"
        "TODO: more. Who owns it?\n"
    )
    assert facts.decisions == (Fact("We decided to keep it.", 1), Fact("You must not touch it.", 2))
    assert facts.errors == (Fact("ValueError: no", 3), Fact("It ended with exit code 137 at noon.", 4))
    assert facts.open_items == (Fact("- [ ] write the docs", 5), Fact("TODO: more.", 7), Fact("Who owns it?", 7))


def test_the_last_line_of_a_traceback_is_an_error_whatever_it_is_called() -> None:
    text = (
        'Traceback (most recent call last):\n  File "x.py", line 3, in f\n    go()\nmypkg.Gone: it went\nafterwards\n'
    )
    assert extract(text).errors == (Fact("mypkg.Gone: it went", 4),)


@each(
    ("wanted", "text", "there"),
    [
        ("api/user", "see api/user.", True),
        ("api/user", "see api/users", False),
        ("api/user", "see v1/api/user", False),
        ("src/a.py", "in src/a.py:12", True),
        ("src/a.py", "in src/a.pyc", False),
        ("1.2", "version 1.2.3", False),
        ("240", "it is 1,240", False),
        ("5 ms", "took 12.5 ms", False),
        ("user_id", "the user_id_2", False),
        ("user_id", "`user_id`, that is", True),
        ("Foo", "Foo::Bar", False),
        ("name", "first-name", False),
        ("- a text. With two!", "so:\n- a text. With two! Yes", True),
        ("It ends.", "Before.\nIt ends.\nAfter", True),
        ("x", "xx xx x", True),
    ],
)
def test_a_text_is_there_only_as_a_whole(wanted: str, text: str, there: bool) -> None:
    assert missing([wanted], text) == ([] if there else [wanted])


def test_what_is_missing_of_facts() -> None:
    facts = extract("a/b.py calls run_all in 30 ms")
    assert missing(facts, "30 ms in a/b.py") == ["run_all"]
    assert missing(["", "z", "z"], "y") == ["z"]


@settings(max_examples=40, deadline=None)
@given(st.text())
def test_any_text_has_all_of_its_own_words(text: str) -> None:
    facts = extract(text)
    assert all(
        fact.text in text for kind in (facts.paths, facts.urls, facts.identifiers, facts.numbers) for fact in kind
    )
    assert all(
        1 <= fact.line <= len(text.splitlines())
        for kind in (facts.paths, facts.decisions, facts.errors)
        for fact in kind
    )


@pytest.mark.parametrize(
    "piece", ["a", "a_", "a.", "aB", "a/", "1,", "a-", "0a", "a@", ". A", "--a-", "x1 ", "\\", "\0\n", " ", "?"]
)
def test_hostile_text_is_bounded_work(piece: str) -> None:
    facts = extract(piece * (40_000 // len(piece)))
    assert all(
        len(fact.text) <= 600
        for kind in (facts.paths, facts.identifiers, facts.decisions, facts.open_items)
        for fact in kind
    )


def test_the_number_of_facts_and_their_length_are_bounded() -> None:
    facts = extract(" ".join(f"name_{n}" for n in range(MOST + 100)) + "\n" + "We decided " + "x " * 2000)
    assert len(facts.identifiers) == MOST
    assert [len(fact.text) <= LONGEST_LINE for fact in facts.decisions] == [True]
    assert extract("") == Facts()
    assert list(words("")) == []

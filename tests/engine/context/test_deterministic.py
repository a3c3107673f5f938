"""The summariser that needs no model."""

from __future__ import annotations

import asyncio
import secrets

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.context_bench import BOUND_PINNED, BOUND_PLANTED, accuracy
from go_ent.engine import tokens
from go_ent.engine.context.counting import Counter
from go_ent.engine.context.deterministic import Deterministic
from go_ent.engine.context.facts import missing
from go_ent.engine.context.models import Message, Speaker, Summarizer, Summary, SummaryRequest

counter = Counter()
FILLER = "This goes on for a while and does not say very much at all about anything. "


def messages(*texts: str, speaker: Speaker = "assistant", pinned: bool = False) -> tuple[Message, ...]:
    return tuple(Message(id=f"{speaker}{n}", speaker=speaker, text=text, pinned=pinned) for n, text in enumerate(texts))


def summary(said: tuple[Message, ...], target: int, *keep: str) -> str:
    return Deterministic(counter).text(SummaryRequest(messages=said, target_tokens=target, keep=keep))


def test_it_is_a_summarizer_that_costs_nothing() -> None:
    summarizer: Summarizer = Deterministic()
    made = asyncio.run(
        summarizer.summarize(SummaryRequest(messages=messages("We decided to use Kafka."), target_tokens=100))
    )
    assert made == Summary(text=made.text, by="deterministic", cost_usd=0.0)
    assert "We decided to use Kafka." in made.text


def test_what_matters_is_kept_in_the_order_of_time() -> None:
    facts = [
        "We settled on nginx for the edge.",
        "The parser in src/feed/reader.py drops the last row.",
        "It took 412 ms on the replica.",
        "LeaseExpired was raised by the scheduler.",
        "TODO: rotate the key.",
    ]
    said = messages(*(FILLER * 8 + fact + " " + FILLER * 8 for fact in facts), "And that is where we are.")
    text = summary(said, 160)
    assert [fact for fact in facts if fact not in text] == []
    assert sorted(facts, key=text.index) == facts


def test_what_must_be_kept_comes_first_and_word_for_word() -> None:
    said = (*messages(FILLER * 40), *messages("Never  touch\n  prod-7.", pinned=True))
    text = summary(said, 80, "src/a.py", "two  blanks")
    assert text.startswith("Must be kept:\n- src/a.py\n- two  blanks\nNever  touch\n  prod-7.\n")


def test_the_latest_messages_are_word_for_word() -> None:
    said = messages(*(f"{FILLER * 3}Part {n}." for n in range(60)), "  indented\n\n  and odd  ")
    assert summary(said, 400).endswith("Latest, word for word:\nassistant:   indented\n\n  and odd  ")


def test_nothing_is_lost_between_the_latest_and_the_earlier_messages() -> None:
    texts = [f"Value number {n} is item_{n}." for n in range(10)]
    assert missing([f"item_{n}" for n in range(10)], summary(messages(*texts), 2000)) == []


def test_what_was_said_twice_is_told_once() -> None:
    said = messages(*["The port is 8080 on db_main."] * 30, "Bye for now, that was all of it from my side.")
    assert summary(said, 300).count("db_main") == 1


def test_an_error_in_a_log_is_worth_more_than_its_other_lines() -> None:
    lines = [
        f"2026-02-03T10:00:{n % 60:02}Z INFO billing: request {n * 7919:08x} took {n} ms status=200" for n in range(300)
    ]
    lines[140] = "2026-02-03T10:00:20Z ERROR billing: request deadbeef took 9 ms status=500"
    assert "deadbeef" in summary(messages("\n".join(lines), speaker="tool"), 120)


def test_a_summary_of_a_summary_keeps_what_was_chosen() -> None:
    facts = [f"We decided that shard_{n} moves to node-{n}." for n in range(6)]
    text = summary(messages(*(FILLER * 10 + fact for fact in facts), "So much for that."), 200)
    for round_ in range(5):
        text = summary((*messages(text, speaker="summary"), *messages(FILLER * 30, f"Round {round_} is over.")), 200)
    assert [fact for fact in facts if fact not in text] == []
    assert text.count("Earlier, in the order of time:") == 1


def test_the_same_makes_the_same() -> None:
    said = messages(*(f"{FILLER}Step {n} writes out_{n % 7}.json after {n} ms." for n in range(80)))
    assert len({summary(said, 300) for _ in range(3)}) == 1


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(("user", "assistant", "tool", "summary")), st.text(max_size=600), st.booleans()),
        max_size=12,
    ),
    st.lists(st.text(max_size=80), max_size=4),
    st.integers(50, 400),
)
def test_it_is_never_larger_than_asked_for(said: list[tuple[Speaker, str, bool]], keep: list[str], target: int) -> None:
    made = tuple(
        Message(id=str(n), speaker=speaker, text=text * 5, pinned=pinned)
        for n, (speaker, text, pinned) in enumerate(said)
    )
    assert counter.count(summary(made, target, *keep)) <= target


def test_the_model_that_others_summarise_with_makes_no_difference() -> None:
    said = messages(*(f"{FILLER} item_{n}" for n in range(99)))
    calibrated = Counter()
    calibrated.report("m", 1000, 600)
    assert Deterministic(calibrated).text(SummaryRequest(messages=said, target_tokens=200, model="m")) == summary(
        said, 200
    )


def test_without_the_ranks_it_is_within_the_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    said = messages(*(f"{FILLER} item_{n}" for n in range(99)))
    monkeypatch.setattr(tokens, "count", tokens.estimate)
    text = Deterministic().text(SummaryRequest(messages=said, target_tokens=200))
    assert "item_" in text
    assert tokens.estimate(text) <= 200


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \n\t ",
        "x" * 200_000,
        "\0\x01\ud800\xff" * 5000,
        "a,b;" * 20_000,
        "\n" * 50_000,
        "word " * 40_000,
        "日本語の文章です。" * 5000,
        "# \n- \n" * 999,
    ],
    ids=["empty", "blank", "one word", "binary", "no blanks", "newlines", "one line", "Japanese", "marks only"],
)
@pytest.mark.parametrize("target", [1, 50, 300])
def test_any_text_works(text: str, target: int) -> None:
    assert counter.count(summary(messages(text, text), target)) <= target


def test_a_sentence_that_is_too_long_is_cut() -> None:
    text = summary(messages("The key of the store is " + "deep_" * 70 + "end."), 50)
    assert "The key of the store is" in text
    assert text.endswith(" …")


@pytest.mark.more
def test_it_keeps_what_is_pinned_and_what_is_planted() -> None:
    seed = secrets.randbits(32)
    kept = accuracy(seed)
    assert kept.pinned.value >= BOUND_PINNED, f"seed {seed}: {kept}"
    assert kept.planted.value >= BOUND_PLANTED, f"seed {seed}: {kept}"
    assert kept.held_out.value >= BOUND_PLANTED, f"seed {seed}: {kept}"

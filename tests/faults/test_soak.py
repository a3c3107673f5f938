"""The soak in short: every bad kind of run among good ones, by clients of both protocol eras, on a real server."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from benchmarks.soak.__main__ import soak
from benchmarks.soak.driving import Answer, mismatch
from benchmarks.soak.kinds import BAD, GOOD, Orders, plain


def test_each_bad_kind_is_one_in_twenty() -> None:
    kinds = Counter(order.kind for order in Orders(400, 1).orders())
    assert len(kinds) == len(BAD) + len(GOOD)
    assert {kinds[make(2).kind] for make in BAD} == {20}
    assert sum(kinds[name] for name in GOOD) == 220


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Answer("error", "", "id", 4), "its status is error, not completed"),
        (Answer("completed", "", "id", 5), "its result is 5, not 4"),
        (Answer("completed", "", "", 4), "it has no id"),
    ],
)
def test_an_answer_that_is_not_what_had_to_come_is_found_out(answer: Answer, words: str) -> None:
    assert words in mismatch(plain(3), answer)


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_every_run_has_its_status_and_nothing_is_left_behind(tmp_path: Path) -> None:
    """Times and memory are the full one's to judge: this one is too short."""
    report = soak(tmp_path, 400, 8, early=100, seed=1)
    found = {what: (said, ok) for what, said, _, ok in report.verdicts()}
    assert len(report.done) == 400
    assert report.mismatches == []
    for what, (said, ok) in found.items():
        if what not in ("p99 of the good ones", "memory at rest"):
            assert ok, f"{what}: {said}"
    assert report.grown < 1.5

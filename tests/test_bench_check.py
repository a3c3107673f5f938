"""The gate on the benchmarks' ratios can fail, and says of what."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks import check, index, svg
from benchmarks.check import BENCHES, Kept, best_of, compare, middle_of, rows_of, summary, table
from benchmarks.measure import Better, Row, clocked
from benchmarks.report import DOCS, Report
from tests.support.rows import each


def word(before: float, now: float, better: Better = "lower") -> str:
    (verdict,) = compare({"a": Kept(before, better)}, {"a": Kept(now, better)})
    return verdict.word


@each(
    ("now", "better", "said"),
    [
        (1.26, "lower", "WORSE"),
        (1.24, "lower", "ok"),
        (1.0, "lower", "ok"),
        (0.8, "lower", "ok"),
        (0.5, "lower", "better"),
        (0.74, "higher", "WORSE"),
        (0.76, "higher", "ok"),
        (1.2, "higher", "ok"),
        (2.0, "higher", "better"),
    ],
)
def test_more_than_a_quarter_worse_fails(now: float, better: Better, said: str) -> None:
    assert word(1.0, now, better) == said
    assert word(0.04, 0.04 * now, better) == said, "it is the change that counts, not the size"


def test_one_row_that_is_worse_fails_all_and_is_shown() -> None:
    before = {"a": Kept(1.0, "lower"), "b": Kept(8.0, "higher")}
    found = {"sandbox": compare(before, {"a": Kept(1.26, "lower"), "b": Kept(8.1, "higher")}), "engine": []}
    assert table(found).splitlines()[2:] == ["| sandbox | a | 1 | 1.26 | 26% worse | WORSE |"]
    said, code = summary(found)
    assert (said.startswith("2 ratios: 1 more than 25% worse, 0 missing, 0 new, 0 more than 25% better"), code) == (
        True,
        1,
    )


def test_a_row_that_is_gone_fails_and_says_so() -> None:
    found = {"sandbox": compare({"a": Kept(1.0, "lower"), "b": Kept(2.0, "lower")}, {"b": Kept(2.0, "lower")})}
    assert table(found).splitlines()[2:] == ["| sandbox | a | 1 | – |  | MISSING |"]
    assert summary(found)[1] == 1


def test_a_new_row_and_a_better_one_are_told_and_pass() -> None:
    found = {"sandbox": compare({"a": Kept(1.0, "lower")}, {"a": Kept(0.1, "lower"), "b": Kept(2.0, "lower")})}
    assert [line.rpartition(" | ")[2] for line in table(found).splitlines()[2:]] == ["better |", "new |"]
    said, code = summary(found)
    assert (code, said.endswith("make bench-baseline takes them as they are")) == (0, True)


def test_the_best_round_counts_against_the_middle_one_of_the_baseline() -> None:
    rounds = [{"t": Kept(3.0, "lower"), "r": Kept(5.0, "higher")}, {"t": Kept(1.0, "lower"), "r": Kept(4.0, "higher")}]
    assert best_of(rounds) == {"t": Kept(1.0, "lower"), "r": Kept(5.0, "higher")}
    assert middle_of([*rounds, {"t": Kept(2.0, "lower")}]) == {"t": Kept(2.0, "lower"), "r": Kept(4.5, "higher")}


def test_what_looks_worse_is_measured_again_but_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    ratios = [2.0, 1.1, 9.0]
    asked: list[str] = []

    def run(bench: str) -> dict[str, Kept]:
        asked.append(bench)
        return {"a": Kept(ratios[len(asked) - 1], "lower")}

    monkeypatch.setattr(check, "run", run)
    (verdict,) = check.check("sandbox", {"a": Kept(1.0, "lower")})
    assert (verdict.word, len(asked)) == ("ok", 2)
    asked.clear()
    (verdict,) = check.check("sandbox", {"a": Kept(0.5, "lower")})
    assert (verdict.word, verdict.now, len(asked)) == ("WORSE", Kept(1.1, "lower"), 3)


def test_processor_time_is_compared_where_both_sides_have_it() -> None:
    ours, base = clocked(3, lambda: sum(range(200_000)), lambda: sum(range(100_000)))
    ours[:], base[:] = [9.0] * 3, [1.0] * 3  # as if others had been at work
    row = Row.of("sum", "", ours, "s", base)
    assert (row.ratio, row.compared) == (9.0, min(ours.cpu) / min(base.cpu))
    assert Row.of("sum", "", list(ours), "s", base).compared == 9.0


def test_of_rates_the_highest_are_compared() -> None:
    row = Row.of("rate", "", [10.0, 30.0, 20.0], "/s", [5.0, 6.0, 4.0], better="higher")
    assert (row.ratio, row.compared) == (4.0, 5.0)


ROWS = [
    Row("quick", "process", 2.0, "ms", 40.0, must=0.1, steady=0.04),
    Row("absolute", "", 300.0, "ms", must=200.0),
    Row("noisy", "", 3.0, "ms", 1.0, gated=False),
    Row("fast enough", "", 10.0, "/s", 2.0, must=6.0, better="higher"),
]


def report() -> Report:
    return Report("made", "Made & measured", "Some figures.", list(ROWS), quick=True)


def test_only_ratios_are_compared_and_the_steady_one_where_there_is_one() -> None:
    assert rows_of(report().data()) == {"quick (process)": Kept(0.04, "lower"), "fast enough": Kept(5.0, "higher")}


def test_a_report_says_what_was_measured_and_which_bounds_are_missed(tmp_path: Path) -> None:
    report().save(tmp_path)
    rows = {row["name"]: row for row in json.loads((tmp_path / "made.json").read_text())["rows"]}
    first = rows["quick (process)"]
    assert (first["ratio"], first["baseline"], first["bound"], first["met"], first["better"]) == (
        0.05,
        40.0,
        0.1,
        True,
        "lower",
    )
    assert [(name, row["met"]) for name, row in rows.items()][1:] == [
        ("absolute", False),
        ("noisy", None),
        ("fast enough", False),
    ]
    page = (tmp_path / "made.md").read_text()
    assert "| absolute | 300 ms |  |  | ≤ 200 ms |  | MISSED |" in page
    assert "![Made & measured](made.svg)" in page
    words = [
        element.text for element in ElementTree.parse(tmp_path / "made.svg").iter("{http://www.w3.org/2000/svg}text")
    ]
    assert "quick (process)" in words
    assert "absolute" not in words
    (tmp_path / "README.md").write_text(f"Before.\n{index.BEGIN}\nold\n{index.END}\nAfter.\n")
    index.write(tmp_path)
    made = (tmp_path / "README.md").read_text()
    assert (
        "| [Made & measured](made.md) | 4 | 1 of 3 | absolute: 300 ms, where 200 is the bound; fast enough: 5, "
        "where 6 is" in made
    )
    assert (made.startswith("Before.\n"), made.endswith("After.\n"), "old" in made) == (True, True, False)


def test_a_name_is_used_once() -> None:
    with pytest.raises(ValueError, match="several rows noisy"):
        Report("made", "Made", "", [ROWS[2], ROWS[2]], quick=True)


@pytest.mark.parametrize(
    "drawn",
    [
        svg.ratios(ROWS, "a & b"),
        svg.grouped("tokens", {"a < b": {"direct": 1000.0, "code mode": 10.0}}, "tokens"),
        svg.lines("resume", {"runs": [(100.0, 3.0), (1000.0, 20.0)]}, "calls", "ms"),
    ],
)
def test_a_plot_is_well_formed(drawn: str) -> None:
    assert ElementTree.fromstring(drawn).tag == "{http://www.w3.org/2000/svg}svg"


def test_the_committed_figures_are_those_of_the_benchmarks_there_are() -> None:
    baseline = check.read()
    assert set(baseline) == set(BENCHES)
    assert all(kept.ratio > 0 for rows in baseline.values() for kept in rows.values())
    for bench in BENCHES:
        data = json.loads((DOCS / f"{bench}.json").read_text(encoding="utf-8"))
        needed = {"name", "value", "unit", "ratio", "baseline", "bound", "met", "better"}
        assert all(needed <= set(row) for row in data["rows"])
        assert (DOCS / f"{bench}.svg").exists()
        assert (DOCS / f"{bench}.md").exists()

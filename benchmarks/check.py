"""`make bench-check`: are the ratios of a quick run as good as those that were committed? `make bench-baseline` writes those.

Only ratios are compared, never a time: a machine's speed changes from hour to hour, what it is slow at alike much less. Even so a
busy machine disturbs some. The baseline is the median of some rounds. What looks worse is measured again, some times in all, and
the best round counts.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from benchmarks.measure import Better, amount, median
from benchmarks.report import BUSY, DOCS, load, machine

BENCHES = ("sandbox", "composer", "engine", "executions", "context", "codemode")
FILE = DOCS / "baseline.json"
MOST = 0.25  # so much worse is let pass
ROUNDS = 3
Word = Literal["ok", "better", "WORSE", "MISSING", "new"]


@dataclass(frozen=True)
class Kept:
    """A ratio, and which way is better."""

    ratio: float
    better: Better

    def worse_by(self, before: Kept) -> float:
        """The share by which it is worse than *before*; negative if it is better."""
        if self.better == "lower":
            return self.ratio / before.ratio - 1
        return 1 - self.ratio / before.ratio


@dataclass(frozen=True)
class Verdict:
    """One row beside its baseline."""

    name: str
    before: Kept | None
    now: Kept | None
    word: Word

    @property
    def fails(self) -> bool:
        return self.word in ("WORSE", "MISSING")

    @property
    def change(self) -> str:
        if self.before is None or self.now is None:
            return ""
        worse = self.now.worse_by(self.before)
        return f"{abs(worse):.0%} {'worse' if worse > 0 else 'better'}"


def compare(before: Mapping[str, Kept], now: Mapping[str, Kept]) -> list[Verdict]:
    """Each row of either, and whether it still does. A row that is gone fails: nobody would see what it hid."""
    verdicts = []
    for name in dict.fromkeys((*before, *now)):
        was, found = before.get(name), now.get(name)
        if was is None or found is None:
            word: Word = "new" if was is None else "MISSING"
        else:
            worse = found.worse_by(was)
            word = "WORSE" if worse > MOST else "better" if worse < -MOST else "ok"
        verdicts.append(Verdict(name, was, found, word))
    return verdicts


def best_of(rounds: Iterable[Mapping[str, Kept]]) -> dict[str, Kept]:
    """Of each row the best that was found."""
    best: dict[str, Kept] = {}
    for found in rounds:
        for name, kept in found.items():
            if name not in best or kept.worse_by(best[name]) < 0:
                best[name] = kept
    return best


def middle_of(rounds: Sequence[Mapping[str, Kept]]) -> dict[str, Kept]:
    """Of each row the median of the rounds."""
    names = dict.fromkeys(name for found in rounds for name in found)
    return {
        name: Kept(median([found[name].ratio for found in rounds if name in found]), _better(rounds, name))
        for name in names
    }


def _better(rounds: Sequence[Mapping[str, Kept]], name: str) -> Better:
    return next(found[name].better for found in rounds if name in found)


def rows_of(data: Mapping[str, Any]) -> dict[str, Kept]:
    """The rows of a benchmark's JSON that are compared."""
    return {row["name"]: Kept(row["compared"], row["better"]) for row in data["rows"] if row["compared"] is not None}


def run(bench: str) -> dict[str, Kept]:
    """A quick look at one benchmark, in a process of its own."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "found.json"
        command = [sys.executable, "-m", f"benchmarks.{bench}_bench", "--quick", "--json", str(path)]
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"{bench} failed:\n{done.stderr[-4000:]}")
        found = rows_of(json.loads(path.read_text(encoding="utf-8")))
    print(f"{bench}: {len(found)} ratios in {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
    return found


def check(bench: str, before: Mapping[str, Kept], most: int = ROUNDS) -> list[Verdict]:
    """One benchmark beside its baseline, measured again while something looks worse."""
    rounds: list[dict[str, Kept]] = []
    verdicts: list[Verdict] = []
    for _ in range(most):
        rounds.append(run(bench))
        verdicts = compare(before, best_of(rounds))
        if not any(verdict.word == "WORSE" for verdict in verdicts):
            break
    return verdicts


def write(benches: Sequence[str], path: Path = FILE, most: int = ROUNDS) -> None:
    """Take the baseline of some benchmarks anew; that of the others stays."""
    data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"benches": {}}
    for bench in benches:
        rounds = [run(bench) for _ in range(most)]
        rows = {}
        for name, kept in middle_of(rounds).items():
            found = [each[name].ratio for each in rounds if name in each]
            rows[name] = {"ratio": kept.ratio, "better": kept.better, "spread": max(found) / min(found) - 1}
        data["benches"][bench] = rows
        about = {"machine": machine(), "rounds": most}
        path.write_text(
            json.dumps({**about, "benches": data["benches"]}, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
        )


def read(path: Path = FILE) -> dict[str, dict[str, Kept]]:
    if not path.exists():
        raise SystemExit(f"there is no {path.name} to compare with: make bench-baseline writes it")
    benches = json.loads(path.read_text(encoding="utf-8"))["benches"]
    return {
        bench: {name: Kept(row["ratio"], row["better"]) for name, row in rows.items()}
        for bench, rows in benches.items()
    }


def table(verdicts: Mapping[str, Sequence[Verdict]], *, every: bool = False) -> str:
    """What is not as it was; or, if it is asked for, every row."""
    lines = ["| benchmark | row | baseline | now | | |", "|---|---|---|---|---|---|"]
    for bench, found in verdicts.items():
        for verdict in found:
            if every or verdict.word != "ok":
                before, now = ("–" if kept is None else amount(kept.ratio) for kept in (verdict.before, verdict.now))
                lines.append(f"| {bench} | {verdict.name} | {before} | {now} | {verdict.change} | {verdict.word} |")
    return "\n".join(lines) if len(lines) > 2 else "every ratio is as it was"


def summary(verdicts: Mapping[str, Sequence[Verdict]]) -> tuple[str, int]:
    """What it comes to in a line, and the exit code."""
    every = [verdict for found in verdicts.values() for verdict in found]
    counts = {word: sum(verdict.word == word for verdict in every) for word in ("WORSE", "MISSING", "new", "better")}
    said = f"{len(every)} ratios: {counts['WORSE']} more than {MOST:.0%} worse, {counts['MISSING']} missing, {counts['new']} new, "
    said += f"{counts['better']} more than {MOST:.0%} better"
    if any(verdict.fails for verdict in every) and load() > BUSY * (os.cpu_count() or 1):
        said += (
            f"; others are at work on the machine ({load():.1f} processes want a core): check again when it is quiet"
        )
    if counts["new"] or counts["better"] or counts["MISSING"]:
        said += "; make bench-baseline takes them as they are"
    return said, int(any(verdict.fails for verdict in every))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("benches", nargs="*", metavar="BENCH", help=f"of {', '.join(BENCHES)}; all, if none is named")
    parser.add_argument("--write", action="store_true", help="take the baseline anew")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"of the baseline, or at the most; {ROUNDS}")
    parser.add_argument("--all", action="store_true", help="show every row")
    options = parser.parse_args()
    if unknown := set(options.benches) - set(BENCHES):
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))}")
    benches = options.benches or list(BENCHES)
    if options.write:
        write(benches, most=options.rounds)
        return
    before = read()
    verdicts = {bench: check(bench, before.get(bench, {}), options.rounds) for bench in benches}
    print(table(verdicts, every=options.all))
    said, code = summary(verdicts)
    print(f"\n{said}")
    raise SystemExit(code)


if __name__ == "__main__":
    main()

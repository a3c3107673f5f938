"""What a benchmark leaves behind: a page, its figures as JSON, plots; the same for each of them."""

from __future__ import annotations

import argparse
import json
import os
import platform
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import svg
from benchmarks.measure import Row, table

DOCS = Path(__file__).parents[1] / "docs" / "benchmarks"
BUSY = 0.75  # of the cores: from there on, others work on the machine, too


def machine() -> str:
    return f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}, Python {platform.python_version()}"


def load() -> float:
    """How many processes wanted a core in the last minute."""
    return os.getloadavg()[0]


@dataclass
class Report:
    """One benchmark's figures. The page has the introduction, the plots, the table, and what is to be said after it."""

    bench: str
    title: str
    intro: str
    rows: list[Row]
    quick: bool
    body: str = ""  # instead of the table of all rows, where there are many
    after: str = ""
    plots: dict[str, str] = field(default_factory=dict)  # by the end of the file's name, "" for the first: SVG
    more: dict[str, Any] = field(default_factory=dict)  # for the JSON
    load_before: float = field(default_factory=load)

    def __post_init__(self) -> None:
        keys = [row.key for row in self.rows]
        if twice := sorted({key for key in keys if keys.count(key) > 1}):
            raise ValueError(f"{self.bench}: there are several rows {', '.join(twice)}")
        if not self.plots:
            self.plots = {"": svg.ratios(self.rows, self.title)}

    @property
    def weather(self) -> str:
        """On what it was measured, and how quiet it was there."""
        said = f"On {machine()}."
        if self.quick:
            said = f"This was a quick look: few rounds. {said}"
        if self.load_before > BUSY * (os.cpu_count() or 1):
            said += f" Others were at work on the machine ({self.load_before:.1f} processes wanted a core)."
        return said

    def page(self) -> str:
        plots = [f"![{self.title}]({self.plot_name(name)})" for name in self.plots]
        parts = [
            f"# {self.title}",
            f"{self.intro.strip()} {self.weather}",
            *plots,
            self.body.strip() or table(self.rows),
            self.after.strip(),
        ]
        return "\n\n".join(part for part in parts if part) + "\n"

    def plot_name(self, name: str) -> str:
        return f"{self.bench}{'-' if name else ''}{name}.svg"

    def data(self) -> dict[str, Any]:
        rows = [row.data() for row in self.rows]
        about = {
            "bench": self.bench,
            "title": self.title,
            "machine": machine(),
            "load": round(self.load_before, 1),
            "quick": self.quick,
        }
        return {**about, "rows": rows, **self.more}

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(self.data(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")

    def save(self, folder: Path = DOCS) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for name, drawn in self.plots.items():
            (folder / self.plot_name(name)).write_text(drawn, encoding="utf-8")
        self.write(folder / f"{self.bench}.json")
        (folder / f"{self.bench}.md").write_text(self.page(), encoding="utf-8")


def command(measure: Callable[[bool], Report], about: str | None) -> None:
    """A benchmark as a program: it prints its table, and saves or hands over what it found if it is asked to."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--quick", action="store_true", help="fewer rounds and smaller sizes")
    parser.add_argument("--save", action="store_true", help="write the page, the plots and the JSON to docs/benchmarks")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to a file")
    options = parser.parse_args()
    before = load()
    report = measure(options.quick)
    report.load_before = before
    print(report.body.strip() or table(report.rows))
    print(f"\n{report.weather}")
    if options.json:
        report.write(options.json)
    if options.save:
        report.save()


def scratch(*, synced: bool = False) -> tempfile.TemporaryDirectory[str]:
    """A folder for a benchmark's files; on the project's disk if what is measured waits for one."""
    return tempfile.TemporaryDirectory(prefix=".bench-", dir=Path.cwd() if synced else None)

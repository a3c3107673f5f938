"""`make coverage`: the measured data of all processes as a table by package and room, in docs/coverage.md."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from coverage import Coverage

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "coverage.md"
HEAD = """# Coverage

Statements and branches that `make test` and `make test-more` take, with the processes that they start; made by
`make coverage`. Not in it: `sandbox/guest/`, which runs inside the image; worker processes, which have no environment
and may write no file, so that their code counts only where a test runs it in its own process; and processes that a test
kills.

| | statements | taken | branches | taken | both |
|---|---:|---:|---:|---:|---:|
"""


@dataclass
class Figures:
    statements: int = 0
    ran: int = 0
    branches: int = 0
    taken: int = 0

    def row(self, name: str) -> str:
        whole, done = self.statements + self.branches, self.ran + self.taken
        cells = (
            f"{self.statements:,}",
            _share(self.ran, self.statements),
            f"{self.branches:,}",
            _share(self.taken, self.branches),
            _share(done, whole),
        )
        return f"| {name} | {' | '.join(cells)} |\n"


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "–"


def main() -> None:
    measured = Coverage(config_file=str(ROOT / "pyproject.toml"))
    measured.combine()
    rooms: defaultdict[str, Figures] = defaultdict(Figures)
    for file in measured.get_data().measured_files():
        package, *folders = Path(file).relative_to(ROOT).parts[:-1]
        numbers = measured._analyze(file).numbers  # type: ignore[attr-defined]
        for name in ("all", f"**{package}**", "/".join((package, *folders[:1])) if folders else ""):
            if name:
                figures = rooms[name]
                figures.statements += numbers.n_statements
                figures.ran += numbers.n_executed
                figures.branches += numbers.n_branches
                figures.taken += numbers.n_executed_branches
    order = sorted(rooms, key=lambda name: (name != "all", name.strip("*")))
    PAGE.write_text(HEAD + "".join(rooms[name].row(name) for name in order), encoding="utf-8")
    print(rooms["all"].row("all").strip())


if __name__ == "__main__":
    main()

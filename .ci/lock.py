"""`make lock`: pin every package that set-up installs, with the digests of its files.

What tests and benchmarks are set up from are `requirements.txt` (with the `dev` extra), and what the `bench`, `fuzz`,
`test-fleet`, `test-browser` and `site` extras add to it, each beside what needs it. No file names an address: packages
come from wherever pip is told to look.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
LOCKED = ROOT / "requirements.txt"
MORE = {
    "bench": ROOT / "benchmarks" / "requirements.txt",
    "fuzz": ROOT / "tests" / "fuzz" / "requirements.txt",
    "test-fleet": ROOT / "tests" / "engine" / "fleet" / "requirements.txt",
    "test-browser": ROOT / "tests" / "browser" / "requirements.txt",
    "site": ROOT / "docs" / "requirements.txt",
}
BUILD = "setuptools>=77\n"  # what makes the editable install: without isolation, so that it is pinned, too
HEADER = "# Made by `make lock`; every file's digest is checked by pip.\n"


def compiled(*extras: str, known: Path | None = None) -> dict[str, str]:
    """Each package as its lines, by the first of them: one may be there twice, for different Pythons."""
    command = [
        sys.executable,
        "-m",
        "uv",
        "pip",
        "compile",
        "--quiet",
        "--universal",
        "--python-version",
        "3.11",
        "--generate-hashes",
    ]
    command += ["--no-annotate", "--no-header", *(f"--extra={extra}" for extra in extras), "pyproject.toml", "-"]
    if known is not None:
        command += ["--constraint", str(known)]
    text = subprocess.run(command, cwd=ROOT, input=BUILD, text=True, capture_output=True, check=True).stdout
    return {block.partition("\n")[0]: block for block in re.findall(r"(?m)^\S.*\n(?:    .*\n)*", text)}


def main() -> None:
    keep = LOCKED if LOCKED.exists() and "--upgrade" not in sys.argv else None
    base = compiled("dev", known=keep)
    LOCKED.write_text(HEADER + "".join(base.values()))
    for extra, path in MORE.items():
        found = compiled("dev", extra, known=LOCKED)
        path.write_text(HEADER + "".join(block for name, block in found.items() if name not in base))


if __name__ == "__main__":
    main()

"""`make fuzz`: every target, or those that are named, under atheris for a while each.

    python -m tests.fuzz.drive [--seconds 60] [--jobs 2] [NAME ...]

Each runs in a process of its own, with what was found before as its corpus. An input that crashes one is kept in the
corpus folder and named; it belongs into the target's seeds, with the mend.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

CORPUS = Path(os.environ.get("GO_ENT_FUZZ") or Path.home() / ".cache" / "go-ent-fuzz")
MAX_INPUT = 8192


def fuzz(name: str, arguments: list[str]) -> None:
    """In a process of its own: never returns."""
    import atheris

    with atheris.instrument_imports(include=["sandbox", "composer", "engine"], enable_loader_override=False):
        from tests.fuzz.target import targets

        found = targets()[name]
    atheris.Setup([f"fuzz-{name}", *arguments], lambda data: found(bytes(data)) and None)
    atheris.Fuzz()


def drive(name: str, seconds: int) -> tuple[str, bool]:
    """One target's line for the table, and whether it held."""
    from tests.fuzz.target import targets

    corpus = CORPUS / name
    corpus.mkdir(parents=True, exist_ok=True, mode=0o700)
    for number, seed in enumerate(targets()[name].seeds):
        (corpus / f"seed-{number}").write_bytes(seed[:MAX_INPUT])
    flags = [
        f"-max_total_time={seconds}",
        f"-max_len={MAX_INPUT}",
        "-timeout=20",
        "-rss_limit_mb=2048",
        "-print_final_stats=1",
    ]
    command = [
        sys.executable,
        "-m",
        "tests.fuzz.drive",
        "--one",
        name,
        *flags,
        f"-artifact_prefix={corpus}/crash-",
        str(corpus),
    ]
    started = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=seconds + 300, check=False)
    ran = re.search(r"number_of_executed_units:\s*(\d+)", done.stderr)
    runs = int(ran[1]) if ran else 0
    covered = re.findall(r"cov: (\d+)", done.stderr)
    held = done.returncode == 0 and runs > 0
    figures = f"{runs:>9,} inputs  {covered[-1] if covered else '-':>6} places  {time.monotonic() - started:4.0f} s"
    line = f"{name:16} {figures}  {'ok' if held else 'CRASHED'}"
    return line if held else f"{line}\n{done.stderr[-4000:]}", held


def main() -> int:
    if sys.argv[1:2] == ["--one"]:
        fuzz(sys.argv[2], sys.argv[3:])
        return 0
    from tests.fuzz.target import targets

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of: {', '.join(targets())}")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    names = given.names or list(targets())
    if unknown := set(names) - set(targets()):
        parser.error(f"there is no target {', '.join(sorted(unknown))}; there are: {', '.join(targets())}")
    crashed = 0
    with ThreadPoolExecutor(given.jobs) as pool:
        for line, held in pool.map(lambda name: drive(name, given.seconds), names):
            print(line, flush=True)
            crashed += not held
    print(f"{len(names) - crashed} passed, {crashed} failed")
    return 1 if crashed else 0


if __name__ == "__main__":
    sys.exit(main())

"""Why a run failed, for a person: the code around the line, that line marked, and who called it."""

from __future__ import annotations

import re
import sys

from go_ent.engine.cli.terminal.output import is_rich, is_utf8, plain, say
from go_ent.sandbox import RunError

FRAME = re.compile(r'^  File "[^"\n]{1,200}", line ([0-9]{1,7})(?:, in ([^\n]{1,100}))?$', re.MULTILINE)
AROUND = 2  # lines before and after
MOST_FRAMES = 8
MOST_LINE = 200  # characters


def show_marked(error: RunError, traceback: str | None, source: str, file: str) -> bool:
    """Show an error on a terminal, with the code; False where there is no terminal, or the line is not of the code.

    *traceback* and what is in the error are a guest's words: read for numbers alone, and printed plain.
    """
    line = error.line
    frames = [(int(number), name or "") for number, name in FRAME.findall(traceback or "")][-MOST_FRAMES:]
    if line is not None and not frames:
        frames = [(line, "")]
    lines = re.split(r"\r\n|\r|\n", source)  # as Python counts them
    if not is_rich(sys.stderr) or not frames or not 0 < frames[-1][0] <= len(lines):
        return False
    at, inside = frames[-1]
    say(f"{error.kind}: {error.message}", err=True, style="red")
    where = f", in {inside}" if inside not in ("", "<module>") else ""
    say(f"  {file}, line {at}{where}", err=True, style="dim")
    bar, mark = ("│", "❯") if is_utf8(sys.stderr) else ("|", ">")
    first, last = max(1, at - AROUND), min(len(lines), at + AROUND)
    for number in range(first, last + 1):
        text = plain(lines[number - 1].expandtabs(4)[:MOST_LINE])
        shown = f"{mark if number == at else ' '} {number:>{len(str(last))}} {bar} {text}".rstrip()
        say(shown, err=True, style="bold" if number == at else "dim")
    for name, value in (error.values or {}).items():
        say(f"  {plain(name)} = {plain(value)}", err=True, style="dim")
    for number, name in reversed(frames[:-1]):
        if 0 < number <= len(lines) and number != at:
            called = f" in {name}" if name not in ("", "<module>") else ""
            text = lines[number - 1].strip()[:MOST_LINE]
            say(f"  called from line {number}{called}: {text}", err=True, style="dim")
    return True

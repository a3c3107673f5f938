"""Quoting text that others wrote, so that it can't be taken for the prompt's own words."""

from __future__ import annotations

import re

MAX_RUN = 64  # a longer run of backticks would need a fence as long, twice
MAX_LABEL = 300
_RUNS = re.compile(r"`+")
_LONG_RUNS = re.compile(f"`{{{MAX_RUN + 1},}}")
_INFO = re.compile(r"[A-Za-z0-9+#-]{1,20}")


def quoted(text: str, info: str = "text") -> str:
    """*text* between fences that are longer than any run of backticks in it."""
    fence = "`" * max(3, _longest(text) + 1)
    end = "" if text.endswith("\n") or not text else "\n"
    return f"{fence}{info if _INFO.fullmatch(info) else 'text'}\n{text}{end}{fence}"


def language(path: str) -> str:
    """What a fence says of a file's text: the end of its name."""
    name, dot, end = path.rpartition("/")[2].rpartition(".")
    return end.lower() if name and dot else "text"


def label(name: str) -> str:
    """A name as inline code on one line: line breaks, controls and invisible signs in it are written out."""
    line = one_line(name)
    fence = "`" * (_longest(line) + 1)
    pad = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{pad}{line}{pad}{fence}"


def one_line(name: str) -> str:
    line = "".join(
        sign if sign.isprintable() else sign.encode("unicode_escape").decode("ascii") for sign in name[: MAX_LABEL + 1]
    )
    return line if len(name) <= MAX_LABEL else line[:MAX_LABEL] + "…"


def squeezed(text: str) -> str:
    """*text* with no run of backticks longer than `MAX_RUN`: what was left out is said in its place."""
    return _LONG_RUNS.sub(lambda run: f"{'`' * MAX_RUN}[… {len(run[0]) - MAX_RUN} backticks left out …]", text)


def printable(text: str) -> str:
    """*text* as any program can be given it, on stdin or as an argument: without NUL and lone surrogates."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _longest(text: str) -> int:
    return max((len(run) for run in _RUNS.findall(text)), default=0)

"""The languages that code may be in. Light: whoever names one needs nothing else."""

from __future__ import annotations

from typing import Literal

Language = Literal["python", "javascript", "typescript"]
LANGUAGES: tuple[Language, ...] = ("python", "javascript", "typescript")
SUFFIXES: dict[Language, str] = {"python": ".py", "javascript": ".js", "typescript": ".ts"}
# What people call them, and how the names of files end.
SPOKEN: dict[str, Language] = {
    "python": "python",
    "py": "python",
    "javascript": "javascript",
    "js": "javascript",
    "mjs": "javascript",
    "cjs": "javascript",
    "typescript": "typescript",
    "ts": "typescript",
    "mts": "typescript",
    "cts": "typescript",
}


def by_suffix(name: str) -> Language | None:
    """The language that the name of a file says, if it says one."""
    return SPOKEN.get(name.rpartition(".")[2].lower()) if "." in name else None

"""What may be written before any command: where, how quiet, as JSON, without colours."""

from __future__ import annotations

import os

NAMES = ("-C DIR, --project DIR", "--quiet, -q", "--json", "--no-color")


def take_globals(words: list[str]) -> tuple[list[str], str | None]:
    """The words of the command, with what stood before it put where the command reads it; and the folder to go to.

    `--no-color` may stand anywhere before `--`. A quiet or JSON command is told by its own option.
    """
    end = words.index("--") if "--" in words else len(words)
    if "--no-color" in words[:end]:
        os.environ["NO_COLOR"] = "1"
        os.environ.pop("FORCE_COLOR", None)
        words = [word for word in words[:end] if word != "--no-color"] + words[end:]
    folder: str | None = None
    later: list[str] = []
    rest = list(words)
    while rest:
        name, equals, value = rest[0].partition("=")
        if name in ("-C", "--project") and (equals or len(rest) > 1):
            folder = value if equals else rest[1]
            rest = rest[1:] if equals else rest[2:]
        elif rest[0] in ("--quiet", "-q", "--json") and len(rest) > 1:
            later.append(rest.pop(0))
        else:
            break
    end = rest.index("--") if "--" in rest else len(rest)
    return [*rest[:end], *later, *rest[end:]], folder

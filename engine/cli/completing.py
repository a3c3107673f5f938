"""What the Tab key completes most, without importing the command that it is for: executions and composed tools."""

from __future__ import annotations

from go_ent.engine.cli.terminal.completion_values import execution_ids, tool_names

IDS = frozenset("status output logs resume interrupt approve reject checkpoint context summarize".split())
TOOLS = frozenset("show run test history rollback rm export learn edit diff record".split())


def completed(words: list[str]) -> list[str] | None:
    """The candidates for the last of the words, which is the first argument of its command; None for any other."""
    if len(words) == 2 and words[0] in IDS and not words[1].startswith("-"):
        return execution_ids(None)
    if len(words) == 3 and words[0] == "tool" and words[1] == "save":
        return execution_ids(None)
    if len(words) == 3 and words[0] == "tool" and words[1] in TOOLS and not words[2].startswith("-"):
        return tool_names(None)
    return None


def show_completed(found: list[str]) -> None:
    """Print candidates as the shells' scripts read them: after a marker, one a line."""
    print("\n\x1fbegin")
    for name in found:
        if name.isprintable():
            print(name)

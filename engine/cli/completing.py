"""What the Tab key completes most, without importing the command that it is for: executions, tools, servers."""

from __future__ import annotations

from go_ent.engine.cli.terminal.completion_values import (
    any_tool_names,
    execution_ids,
    grant_patterns,
    granted_patterns,
    server_names,
    tool_names,
)

# The commands whose first argument is a name, by what names it may be. A test compares them with the commands.
FIRST = {
    execution_ids: "status output logs resume interrupt approve reject checkpoint context summarize tool+save",
    tool_names: "tool+test tool+history tool+rollback tool+rm tool+export tool+learn tool+edit tool+diff tool+record "
    "tool+docs",
    any_tool_names: "tool+show tool+run tool+call",
    grant_patterns: "grant",
    granted_patterns: "revoke",
    server_names: "server+login server+logout server+remove server+tools server+refresh",
}
VALUES = {tuple(command.split("+")): values for values, commands in FIRST.items() for command in commands.split()}


def completed(words: list[str]) -> list[str] | None:
    """The candidates for the last of the words, which is the first argument of its command; None for any other."""
    values = None if words[-1:] and words[-1].startswith("-") else VALUES.get(tuple(words[:-1]))
    return None if values is None else values(None)


def show_completed(found: list[str]) -> None:
    """Print candidates as the shells' scripts read them: after a marker, one a line."""
    print("\n\x1fbegin")
    for name in found:
        if name.isprintable():
            print(name)

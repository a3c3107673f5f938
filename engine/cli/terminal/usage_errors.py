"""What to say to somebody who has mistyped a command: the word that is wrong, the near one, and where to read on."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from cyclopts import App, CycloptsError, UnknownCommandError, UnusedCliTokensError

from go_ent.sandbox.messages.near_names import near

_OPTION = re.compile(r"--?[A-Za-z]")  # neither stdin nor a negative number


def misused(app: App, error: CycloptsError, words: Sequence[str]) -> str:
    """What was wrong with the arguments, and where to read what they are."""
    said = " ".join(str(error).split())
    said = f"{said[:1].lower()}{said[1:]}".partition(" Available commands:")[0]
    if isinstance(error, UnusedCliTokensError):
        said = unknown_option(app, words) or f"unexpected argument: {', '.join(error.unused_tokens or ())}"
    elif isinstance(error, UnknownCommandError) and _OPTION.match((error.unused_tokens or [""])[0]):
        said = unknown_option(app, words) or said
    return f"{said}\nsee: {' '.join(('go-ent', *(error.command_chain or ())))} --help"


def unknown_option(app: App, words: Sequence[str]) -> str | None:
    """The first option that the command does not have: where an argument may begin with a dash, it was taken for
    one.
    """
    _, apps, rest = app.parse_commands(list(words))
    known = dict(_options(apps[-1]))
    before = ""
    for word in rest:
        if word == "--":
            return None
        name = word.partition("=")[0]
        is_value = known.get(before, False) and "=" not in before
        before = "" if is_value else word
        if is_value or name in known or not _OPTION.match(name):
            continue
        meant = near(name, known, 1, 0.7)
        return f"unknown option: {name}." + (f" Did you mean {meant[0]}?" if meant else "")
    return None


def _options(command: App) -> Iterator[tuple[str, bool]]:
    """The options of a command, and whether a value follows."""
    for name in (*command.help_flags, *command.version_flags):
        yield name, False
    if command.default_command is not None:
        for argument in command.assemble_argument_collection():
            for name in argument.names:
                yield name, name.startswith("-") and argument.token_count(())[0] > 0

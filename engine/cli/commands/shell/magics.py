"""What the shell itself understands: lines that begin with `%` or `?`, or end with `?`."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

from go_ent.composer import ComposeRefused
from go_ent.composer.catalogue.catalogue import show, show_found
from go_ent.composer.composed.drafts import Drafts
from go_ent.composer.composed.toolfile import check_name
from go_ent.composer.project.files import write_new
from go_ent.composer.project.numbers import DIGITS
from go_ent.engine.cli import UsageError
from go_ent.engine.cli.commands.shell.session import ShellSession
from go_ent.engine.cli.terminal.output import say
from go_ent.sandbox import LimitError

HELP = """\
code            runs in the sandbox; names and files stay for the next piece
?tool, tool?    shows a tool
%tools [WORDS]  lists the tools that code may call, or searches them
%save NAME …    makes a composed tool of what you ran, or of pieces (3, or 2-5);
                names of literals in the code become its parameters: %save NAME 2-5 text
%files          lists the session's files; %files NAME PATH copies one out
%limits         shows the limits; %limits timeout_s=5 narrows one
%reset          forgets names, files and pieces
%history        lists what ran, with numbers
%exit, exit     leaves, as Ctrl-D does"""
QUESTION = re.compile(r"\?+\s*(?P<before>[\w.]*)|(?P<after>[\w.]+)\?+")
RANGE = re.compile(r"([0-9]{1,6})(?:-([0-9]{1,6}))?")
MOST_LISTED = 40
LEAVING = frozenset(("exit", "quit", "exit()", "quit()"))  # as in Python's own shell


class Leave(Exception):
    """Internal: raised when the shell is to end."""


def is_magic(text: str) -> bool:
    """Whether a line is the shell's own, and no code."""
    line = text.strip()
    return line.startswith("%") or line in LEAVING or QUESTION.fullmatch(line) is not None


async def run_magic(shell: ShellSession, text: str) -> None:
    """Do what a line asks for. `UsageError` says what was wrong with it."""
    line = text.strip()
    if line in LEAVING:
        raise Leave
    asked = QUESTION.fullmatch(line)
    if asked is not None:
        name = (asked["before"] or asked["after"] or "").removeprefix("tools.")
        return await _describe(shell, name)
    try:
        name, *words = shlex.split(line[1:]) or [""]
    except ValueError as error:
        raise UsageError(f"{line[:80]}: {error}") from None
    found = MAGICS.get(name)
    if found is None:
        raise UsageError(f"there is no %{name[:40]}; there are {', '.join(f'%{known}' for known in MAGICS)}")
    return await found(shell, words)


async def _describe(shell: ShellSession, name: str) -> None:
    if not name:
        say(HELP)
        return None
    catalogue, grants = shell.composer.catalogue, shell.composer.grants
    await catalogue.load_known()
    below = [one for one in catalogue.known_names(grants) if one.startswith(f"{name}.")]
    if catalogue.known(name) is None and below:
        return await _tools(shell, [], namespace=name)
    say(show([await catalogue.get(name, grants)], "stubs", language=shell.language).rstrip())
    return None


async def _help(shell: ShellSession, words: list[str]) -> None:
    say(HELP)


async def _exit(shell: ShellSession, words: list[str]) -> None:
    raise Leave


async def _tools(shell: ShellSession, words: list[str], namespace: str | None = None) -> None:
    catalogue, grants = shell.composer.catalogue, shell.composer.grants
    if words:
        found = await catalogue.search(" ".join(words), grants, limit=MOST_LISTED)
    else:
        found = await catalogue.tools(grants, namespace)
    if not found:
        say("no tool fits" if words else "no tool is granted here yet: go-ent tool new, or go-ent server add", err=True)
        return
    say(show_found(found[:MOST_LISTED], "brief", grants, "go-ent grant NAME lets code call it", shell.language))
    if len(found) > MOST_LISTED:
        say(f"and {len(found) - MOST_LISTED} more: %tools WORDS finds some", err=True)


async def _save(shell: ShellSession, words: list[str]) -> None:
    if not words:
        raise UsageError("%save needs a name: %save NAME, or %save NAME 2-4 for some pieces")
    name, about = check_name(words[0]), "Saved from the shell: say here what it is for."
    cells = shell.chosen(_numbers([word for word in words[1:] if word[0] in DIGITS]))
    source = await shell.source(name, about, cells, [word for word in words[1:] if word[0] not in DIGITS])
    try:
        saved = await shell.composer.compose(source)
    except ComposeRefused as error:
        path = Drafts(shell.composer.project).write(name, source, shell.language)
        for problem in error.problems:
            say(f"  - {problem}", err=True)
        raise UsageError(f"{name} was not saved, and kept as a draft, {path}: go-ent tool edit {name}") from None
    count = saved.examples
    say(f"{name}: version {saved.version}, {count or 'no'} example{'' if count == 1 else 's'}{' passed' * bool(count)}")
    called = show([replace(shell.composer.composed.found[name].spec, description="")], "brief", language=shell.language)
    ends = ") -> " if shell.language == "python" else "): "
    say(f"call it: await tools.{called.rpartition(ends)[0]})")
    if cells[-1].result is None:
        say("note: it returns nothing; end the last piece with the value to return, and save again", err=True)
    say(f"change it: go-ent tool edit {name}")


def _numbers(words: list[str]) -> list[int]:
    found: list[int] = []
    for word in words:
        match = RANGE.fullmatch(word)
        if match is None:
            raise UsageError(f"{word[:40]!r} is no piece: write a number, or a range like 2-5")
        found += range(int(match[1]), min(int(match[2] or match[1]), int(match[1]) + 10_000) + 1)
    return found


async def _files(shell: ShellSession, words: list[str]) -> None:
    if len(words) > 2:
        raise UsageError("%files lists the files; %files NAME PATH copies one out")
    if words:
        name, target = words[0], await asyncio.to_thread(_target, words[-1])
        data = shell.file(name)
        try:
            await asyncio.to_thread(write_new, target, data)
        except FileExistsError:
            raise UsageError(f"{target} is there already: give another path") from None
        except OSError as error:
            raise UsageError(f"{target}: {error.strerror or error}") from None
        say(f"{target}: {len(data):,} bytes")
        return
    found = await shell.files()
    for name, size in found.items():
        say(f"{size:>10,}  {name}")
    if not found:
        say("no files", err=True)


def _target(given: str) -> Path:
    """A path on this machine: below the folder that the shell was started in, unless it says where."""
    path = Path(os.path.expanduser(given))
    return path / os.path.basename(given) if path.is_dir() else path


async def _limits(shell: ShellSession, words: list[str]) -> None:
    pairs = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            raise UsageError(f"{word[:40]!r}: write NAME=VALUE, like timeout_s=5")
        pairs[key] = None if value == "none" else value
    try:
        now = shell.limit(pairs)
    except LimitError as error:
        raise UsageError(str(error)) from None
    for name, value in now.model_dump().items():
        say(f"{name:<18}{'none' if value is None else f'{value:,}'}")


async def _reset(shell: ShellSession, words: list[str]) -> None:
    shell.reset()
    say("names, files and pieces are forgotten", err=True)


async def _history(shell: ShellSession, words: list[str]) -> None:
    for cell in shell.cells:
        first, *rest = cell.code.split("\n")
        mark = "" if cell.status == "completed" else f"  # {cell.status}"
        say(f"[{cell.number}] {first}{mark}" + "".join(f"\n{' ' * len(str(cell.number))}   {line}" for line in rest))


MAGICS: dict[str, Callable[[ShellSession, list[str]], Awaitable[None]]] = {
    "save": _save,
    "files": _files,
    "limits": _limits,
    "reset": _reset,
    "history": _history,
    "tools": _tools,
    "help": _help,
    "exit": _exit,
}

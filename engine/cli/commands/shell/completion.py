"""What the Tab key offers in the shell: tools, their parameters, the shell's own commands, names that were used.

Names and words of tools come from elsewhere: only plain names are offered, and their descriptions as one plain line.
"""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Iterator

from go_ent.composer.catalogue import stubs
from go_ent.composer.catalogue.stub_names import clean, plain
from go_ent.dataclass import dataclass
from go_ent.engine.cli.commands.shell.magics import MAGICS
from go_ent.engine.cli.commands.shell.session import ShellSession

PATH = re.compile(r"(?:(?<![\w.])tools\.|^\s*\?+\s*(?:tools\.)?)((?:\w+\.)*)(\w*)$", re.ASCII)
CALL = re.compile(r"(?<![\w.])tools\.((?:\w+\.)*\w+)\(([^()]*)$", re.ASCII)
WORD = re.compile(r"(?<![\w.'\"])([A-Za-z_]\w*)$", re.ASCII)
NAMES = re.compile(r"(?<![\w.])[A-Za-z_]\w*", re.ASCII)
USED = re.compile(r"(\w+)\s*=", re.ASCII)
UNUSUAL = {"copyright", "credits", "exit", "license", "quit"}  # of Python's own shell
BUILTIN = sorted({*keyword.kwlist, "tools", *(name for name in dir(builtins) if name[0] != "_")} - UNUSUAL)
MOST = 200
MOST_TEXT = 20_000  # characters before the cursor that are looked at
MOST_CODE = 200_000  # of earlier pieces


@dataclass(frozen=True, slots=True)
class Offer:
    """A text to put in place of the last *replaces* characters, and what is said of it."""

    text: str
    replaces: int
    about: str = ""


def offers(shell: ShellSession, before: str) -> list[Offer]:
    """What could stand at the cursor, behind *before*."""
    found: dict[str, Offer] = {}
    for offer in _offers(shell, before[-MOST_TEXT:]):
        found.setdefault(offer.text, offer)
        if len(found) == MOST:
            break
    return list(found.values())


def _offers(shell: ShellSession, before: str) -> Iterator[Offer]:
    line = before.rpartition("\n")[2]
    if line.lstrip().startswith("%") and " " not in line.lstrip():
        typed = line.lstrip()
        yield from (Offer(f"%{name}", len(typed)) for name in MAGICS if f"%{name}".startswith(typed))
    elif path := PATH.search(line):
        yield from _tools(shell, path[1], path[2])
    else:
        if call := CALL.search(before):
            yield from _parameters(shell, call[1], call[2])
        if word := WORD.search(before):
            yield from (Offer(name, len(word[1])) for name in _names(shell) if name.startswith(word[1]))


def _tools(shell: ShellSession, namespace: str, typed: str) -> Iterator[Offer]:
    """The next part of a tool's name."""
    catalogue = shell.composer.catalogue
    for full in catalogue.known_names(shell.composer.grants):
        part, dot, _ = full.removeprefix(namespace).partition(".")
        if full.startswith(namespace) and part.startswith(typed) and plain(part):
            spec = None if dot else catalogue.known(full)
            yield Offer(f"{part}{dot}", len(typed), "" if spec is None else stubs.about(spec))


def _parameters(shell: ShellSession, name: str, arguments: str) -> Iterator[Offer]:
    """The parameters of a call that were not given yet."""
    spec = shell.composer.catalogue.known(name)
    last = arguments.rpartition(",")[2].lstrip()
    if spec is None or not shell.composer.grants.allows(name) or not re.fullmatch(r"\w*", last, re.ASCII):
        return
    given = set(USED.findall(arguments))
    for parameter, kind, default, note in stubs.fields(spec):
        if plain(parameter) and parameter.startswith(last) and parameter not in given:
            about = clean(f"{kind}{f' = {default}' if default else ''}  {note}", 120)
            yield Offer(f"{parameter}=", len(last), about)


def _names(shell: ShellSession) -> Iterator[str]:
    """Names of earlier pieces, the newest first, then Python's own."""
    seen, left = set(), MOST_CODE
    for cell in reversed(shell.cells):
        left -= len(cell.code)
        if left < 0:
            break
        for name in NAMES.findall(cell.code):
            if name not in seen:
                seen.add(name)
                yield name
    yield from BUILTIN

"""`go-ent shell`: from a terminal, or from a pipe."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from typing import Annotated

from cyclopts import Parameter

from go_ent.composer import Composer, ComposerError
from go_ent.composer.project.files import STATE, find_project
from go_ent.engine.cli import UsageError
from go_ent.engine.cli.commands.exec import language_of
from go_ent.engine.cli.commands.recorded import guests_for, say_unmatched
from go_ent.engine.cli.commands.shell.display import show_run
from go_ent.engine.cli.commands.shell.magics import Leave, is_magic, run_magic
from go_ent.engine.cli.commands.shell.pieces import pieces
from go_ent.engine.cli.commands.shell.session import KEEPS, ShellSession
from go_ent.engine.cli.terminal.advice import in_commands
from go_ent.engine.cli.terminal.ask import Person, approve_all
from go_ent.engine.cli.terminal.background import in_background
from go_ent.engine.cli.terminal.output import is_terminal, say
from go_ent.engine.cli.terminal.progress import QuietFlag, image_ready
from go_ent.engine.cli.terminal.signals import on_signals
from go_ent.engine.core.outcomes import EXIT_CODES
from go_ent.engine.storages import Storages, open_storages
from go_ent.sandbox.worker.languages import Language

MOST_LINE = 1 << 20


def shell_command(
    *,
    language: Annotated[
        str | None, Parameter(name=["-l", "--language"], help="What you type: python, js or ts.")
    ] = None,
    yes: Annotated[bool, Parameter(negative="", help="Approve calls that need approval.")] = False,
    quiet: QuietFlag = False,
) -> int:
    """Type Python, JavaScript or TypeScript over this project's tools; each piece runs in the sandbox, and names stay
    for the next.

    Tab completes tools and their parameters, ?tool shows one, %save NAME makes a composed tool of what you ran, and
    %help lists the rest. Ctrl-C interrupts a run; the shell goes on.

    From a pipe it reads lines: results go to stdout, and the exit code is that of the last piece that failed.

    Example: echo 'await tools.count_words(text="a b a")' | go-ent shell
    """
    at_terminal = is_terminal(sys.stdin) and is_terminal(sys.stdout)
    spoken = language_of(language, None)
    project = find_project(".")
    if not (project / STATE).is_dir():
        raise UsageError("this folder is no project, so there are no tools to type over: go-ent init makes it one")
    kept = open_storages(project)
    image_ready(project, quiet=quiet, kinds=("plain",), images=kept.images)
    try:
        return asyncio.run(_main(kept, spoken, at_terminal=at_terminal, yes=yes, quiet=quiet))
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


async def _main(kept: Storages, language: Language, *, at_terminal: bool, yes: bool, quiet: bool) -> int:
    composer = await asyncio.to_thread(lambda: Composer.open(".", **kept.for_composer))
    person = Person() if at_terminal else None
    if person is not None:
        person.wait_for(composer.box.limits)
    async with composer, guests_for(composer, kept) as guests:
        await composer.catalogue.load_known()
        approver = approve_all if yes else person.approve if person is not None else None
        loop = _Loop(ShellSession(composer, guests, approver, language), person)
        if not quiet:
            await say_unmatched(composer)
        if not at_terminal:
            return await loop.run(_piped(language))
        if not quiet:
            _greet(composer)
        return await loop.run(_typed(loop.shell))


def _greet(composer: Composer) -> None:
    count = len(composer.catalogue.known_names(composer.grants))
    say(f"go-ent shell, {composer.project}: {count} tool{'' if count == 1 else 's'} known", style="bold")
    say("?tool shows a tool, %help lists commands, Ctrl-D leaves")


async def _typed(shell: ShellSession) -> AsyncIterator[str]:
    from go_ent.engine.cli.commands.shell.history import history_file
    from go_ent.engine.cli.commands.shell.prompt import Prompt

    prompt = Prompt(shell, await asyncio.to_thread(history_file, shell.composer.project))
    while True:
        try:
            yield await prompt.ask()
        except KeyboardInterrupt:
            continue
        except EOFError:
            return


async def _piped(language: Language) -> AsyncIterator[str]:
    found = pieces(_lines(), language)
    while True:
        piece = await in_background(lambda: next(found, None))
        if piece is None:
            return
        yield piece


def _lines() -> Iterator[str]:
    """The lines of stdin; the shell's own commands are pieces by themselves."""
    while line := sys.stdin.readline(MOST_LINE):
        if len(line) == MOST_LINE and not line.endswith("\n"):
            raise UsageError(f"a line is longer than {MOST_LINE} characters")
        yield line.rstrip("\n")


class _Loop:
    """Runs pieces until there are no more. Ctrl-C interrupts the run of now; another signal ends the shell too."""

    def __init__(self, shell: ShellSession, person: Person | None) -> None:
        self.shell = shell
        self._person = person
        self._ended = False
        self._code = 0

    async def run(self, pieces: AsyncIterator[str]) -> int:
        async for piece in pieces:
            try:
                await self._piece(piece)
            except Leave:
                break
            if self._ended:
                raise KeyboardInterrupt
        return self._code if self._person is None else 0

    async def _piece(self, piece: str) -> None:
        if not piece.strip():
            return
        with on_signals(self._heard):
            try:
                await (run_magic(self.shell, piece) if is_magic(piece) else self._code_of(piece))
            except (UsageError, ComposerError) as error:
                told = error.told(in_commands) if isinstance(error, ComposerError) else str(error)
                say(f"go-ent: {told}", err=True, style="red")
                self._code = 2
        if self._person is not None:
            self._person.stopping.clear()

    async def _code_of(self, piece: str) -> None:
        run = await self.shell.run(piece)
        show_run(run)
        self._code = EXIT_CODES[run.status] or self._code
        if run.status in KEEPS or self._ended:
            return
        if run.status == "interrupted":
            say("interrupted", err=True, style="yellow")
        if not self.shell.cells:
            return
        why = await self.shell.restore()
        if why is None:
            say("names and files are back as they were before it", err=True)
        else:
            self.shell.reset()
            say(f"the session's names and files are gone: {why}", err=True)

    def _heard(self, number: signal.Signals) -> None:
        self._ended |= number != signal.SIGINT
        if self._person is not None:
            self._person.stopping.set()
        if not self.shell.guests.lifecycle.watch.stop_all():
            self.shell.composer.box.interrupt_all()

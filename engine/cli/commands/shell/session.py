"""The session behind the shell: pieces of code that ran in one guest, and what can be made of them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import field
from typing import Any

from go_ent.composer import Approver, Composer
from go_ent.composer.catalogue.scope import CallRecord, Scope, small
from go_ent.composer.codemode.past_runs import PastRun
from go_ent.composer.composed import toolfile
from go_ent.composer.composed.example_block import with_example
from go_ent.composer.composed.recordings import Recordings
from go_ent.composer.composed.skeleton import from_code
from go_ent.composer.composed.suggest import recorded
from go_ent.composer.composed.toolfile import Example
from go_ent.composer.errors import StoreError
from go_ent.dataclass import dataclass
from go_ent.engine.cli import UsageError
from go_ent.engine.cli.commands.tool_files import constants_of
from go_ent.engine.executions.past_runs import calls_of
from go_ent.engine.guest_runs.runs import STEP, GuestOrder, Guests
from go_ent.sandbox import Limits, Run, Status
from go_ent.sandbox.worker.languages import Language

NAME = "shell"
KEEPS = frozenset(("completed", "error", "refused"))  # statuses after which the guest is still there
LISTING = "import os\n{name: os.path.getsize(name) for name in sorted(os.listdir('.'))}"
SCRIPT_LISTING = (
    'Object.fromEntries(require("fs").readdirSync(".").sort().map((name) => [name, require("fs").statSync(name).size]))'
)


@dataclass(frozen=True, slots=True)
class Cell:
    """A piece that ran, its number as the prompt showed it, and the calls it made; None if they are not all known."""

    number: int
    code: str
    status: Status
    result: Any
    kept: bool  # whether the result is there
    calls: tuple[CallRecord, ...] | None


@dataclass(slots=True)
class ShellSession:
    """Runs pieces of code one after another, each on record. Belongs to one event loop."""

    composer: Composer
    guests: Guests
    approver: Approver | None
    language: Language = "python"
    cells: list[Cell] = field(default_factory=list)
    number: int = 1  # of the next piece
    limits: dict[str, Any] = field(default_factory=dict)  # narrower than the project's
    _files: dict[str, bytes] = field(default_factory=dict)  # as the last piece that wrote to them left them

    async def run(self, code: str) -> Run:
        """Run a piece; the guest keeps its names and files for the next, unless the run was ended from outside."""
        order = GuestOrder(code=code, language=self.language, session=NAME, cut=False, limits=self.limits or None)
        run = await self.guests.run(order, approver=self.approver)
        if run.status in KEEPS:
            calls = await asyncio.to_thread(calls_of, self.guests.lifecycle.store, run.id, STEP) if run.calls else []
            known = None if calls is None else tuple(calls)
            self.cells.append(Cell(self.number, code, run.status, *small(run.result), known))
            self._files |= run.files
        self.number += 1
        return run

    async def restore(self) -> str | None:
        """Bring the names back that a run which was ended took with it: earlier pieces run again, and their calls are
        answered as they were. Why that can't be done, if it can't.
        """
        self.composer.code.end_session(NAME)
        for cell in self.cells:
            answers = None if cell.calls is None else recorded(cell.calls, self.composer.catalogue)
            if answers is None:
                return f"what the calls of [{cell.number}] returned is not known any more"
            recordings = Recordings(answers)

            async def answer(
                name: str, arguments: dict[str, Any], scope: Scope, recordings: Recordings = recordings
            ) -> Any:
                return recordings.answer(name, arguments)

            run = await self.composer.code.execute(
                cell.code, session=NAME, cut=True, answer=answer, language=self.language
            )
            if run.status != cell.status:
                self.composer.code.end_session(NAME)
                return f"[{cell.number}] ended with {run.status} now"
        return None

    def reset(self) -> None:
        """Forget everything: names, files, pieces."""
        self.composer.code.end_session(NAME)
        self.cells.clear()
        self._files.clear()

    def limit(self, pairs: dict[str, Any]) -> Limits:
        """Narrow limits for the pieces to come; all that hold then."""
        now = self.composer.box.limits.narrowed({**self.limits, **pairs})
        self.limits |= pairs
        return now

    async def files(self) -> dict[str, int]:
        """The files in the guest, and their sizes."""
        listing = LISTING if self.language == "python" else SCRIPT_LISTING
        run = await self.composer.code.execute(listing, session=NAME, cut=False, language=self.language)
        found = run.result if isinstance(run.result, dict) else {}
        return {name: size for name, size in found.items() if isinstance(size, int)}

    def file(self, name: str) -> bytes:
        """A file as the last piece that wrote to it left it."""
        if name not in self._files:
            raise UsageError(f"no piece has left a file {name[:80]!r}: %files lists them")
        return self._files[name]

    def chosen(self, numbers: Iterable[int]) -> list[Cell]:
        """The pieces of those numbers, or all that completed."""
        wanted = list(numbers)
        done = [cell for cell in self.cells if cell.status == "completed"]
        missing = sorted(set(wanted) - {cell.number for cell in done})
        if missing:
            raise UsageError(f"[{missing[0]}] is no piece that completed")
        found = [cell for cell in done if cell.number in wanted] if wanted else done
        if not found:
            raise UsageError("there is nothing to save yet: run some code first")
        return found

    async def source(self, name: str, about: str, cells: list[Cell], parameters: list[str]) -> str:
        """The pieces as the source of a tool: their calls and the last result are its example, and literals that the
        code calls by these names its parameters.
        """
        calls = tuple(call for cell in cells for call in cell.calls or ())
        known = cells[-1].kept and all(cell.calls is not None for cell in cells)
        code = "\n".join(cell.code for cell in cells)
        await self.composer.catalogue.load_known()
        past = PastRun(code, {}, cells[-1].result, known, calls, self.language)
        try:
            return await self.composer.tool_of(past, name, about, constants=constants_of(parameters))
        except StoreError:  # too simple for parameters to be found in it
            file = toolfile.read(await from_code(code, name, about, self.composer.box, self.language), name)
            answers = recorded(calls, self.composer.catalogue) if known else None
            if answers is None:
                return file.source
            return with_example(file, Example(result=cells[-1].result, calls=answers))

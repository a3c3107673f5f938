"""`%%go_ent` in notebooks: a cell that runs in the sandbox, over the project's tools. Works wherever IPython does.

    %load_ext go_ent

    %%go_ent --in rows,least --out found
    [row for row in rows if row["n"] >= least]

IPython is not imported here: it hands over its shell.
"""

from __future__ import annotations

import argparse
import atexit
import shlex
from collections.abc import Callable, MutableMapping
from typing import Any, NoReturn, Protocol

from go_ent.composer.blocking import BlockingComposer
from go_ent.composer.codemode.codemode import CodeRun
from go_ent.sandbox.worker.languages import SPOKEN

SESSION = "notebook"


class NotebookShell(Protocol):
    """What is used of IPython's shell."""

    @property
    def user_ns(self) -> MutableMapping[str, Any]:
        """The notebook's variables."""

    def register_magic_function(self, func: Callable[..., Any], magic_kind: str, magic_name: str) -> Any: ...


class _Options(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ValueError(f"%%go_ent: {message}; {self.format_usage().strip()}")


class CellMagic:
    """Runs cells in one session of the project that the notebook's folder is in: names stay from cell to cell."""

    def __init__(self, shell: NotebookShell) -> None:
        self._shell = shell
        self._composer: BlockingComposer | None = None
        self._options = _Options("%%go_ent", add_help=False, allow_abbrev=False)
        self._options.add_argument("--in", dest="names", default="", metavar="NAME,…")
        self._options.add_argument("--out", default=None, metavar="NAME")
        self._options.add_argument("-l", "--language", choices=SPOKEN, default="python")
        self._options.add_argument("--reset", action="store_true")

    def __call__(self, line: str, cell: str) -> CodeRun:
        """Run *cell*, in Python or what `-l` says; each language has a session of its own. `--in` names variables of
        the notebook that it gets, `--out` the one that gets its value, and `--reset` forgets what earlier cells left.
        `ValueError` for anything else in *line*.
        """
        options = self._options.parse_args(shlex.split(line))
        names = [name.strip() for name in options.names.split(",") if name.strip()]
        missing = [name for name in names if name not in self._shell.user_ns]
        if missing:
            raise ValueError(f"%%go_ent: the notebook has no variable {missing[0]}")
        composer = self._opened()
        language = SPOKEN[options.language]
        session = SESSION if language == "python" else f"{SESSION} {language}"
        if options.reset:
            composer.composer.code.end_session(session)
        inputs = {name: self._shell.user_ns[name] for name in names}
        run = composer.execute(cell, inputs, session=session, cut=False, language=language)
        if options.out is not None and run.ok:
            self._shell.user_ns[options.out] = run.result
        return run

    def _opened(self) -> BlockingComposer:
        if self._composer is None:
            self._composer = BlockingComposer(".")
            atexit.register(self.close)
        return self._composer

    def close(self) -> None:
        """End the session and what it has started."""
        composer, self._composer = self._composer, None
        if composer is not None:
            composer.close()


def add_magic(shell: NotebookShell) -> CellMagic:
    """Make `%%go_ent` known to a shell."""
    magic = CellMagic(shell)
    shell.register_magic_function(magic, "cell", "go_ent")
    return magic

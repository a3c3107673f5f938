"""The command line: thin. Parse, call the library, print; results on stdout, everything else on stderr."""

from __future__ import annotations

import gc
import logging
import os
import sys
from typing import Any, TextIO

from go_ent.engine.cli.ahead import start_workers

start_workers(sys.argv[1:])  # before the imports that it is to overlap with

from cyclopts import App, CycloptsError, Group, Parameter  # noqa: E402

from go_ent.engine.cli.command_table import register  # noqa: E402
from go_ent.engine.cli.global_options import take_globals  # noqa: E402
from go_ent.engine.cli.terminal.output import aside, is_rich, is_terminal, not_strict, say  # noqa: E402
from go_ent.engine.cli.terminal.signals import all_are_interrupts  # noqa: E402
from go_ent.engine.cli.terminal.variables import unknown_variables  # noqa: E402
from go_ent.engine.core.logs import keep_plain  # noqa: E402

# Beside the codes of a run's statuses, which are in engine.outcomes.
USAGE_ERROR = 2
INTERRUPTED = 130
SETUP_ERROR = 12


class Help:
    """Help is drawn on a terminal, and plain in a pipe. What draws it is imported when it is asked for."""

    def __call__(self, console: Any, options: Any, panel: Any) -> None:
        from rich.theme import Theme

        from go_ent.engine.cli.terminal.help_format import STYLES

        with console.use_theme(Theme(STYLES)):
            self._chosen(console, options, panel)

    def render_usage(self, console: Any, options: Any, usage: Any) -> None:
        self._chosen.render_usage(console, options, usage)

    def render_description(self, console: Any, options: Any, description: Any) -> None:
        self._chosen.render_description(console, options, description)

    @property
    def _chosen(self) -> Any:
        from cyclopts.help import DefaultFormatter

        from go_ent.engine.cli.terminal.help_format import Columns

        return DefaultFormatter() if is_rich(sys.stdout) else Columns()


def _version() -> str:
    from importlib.metadata import version

    return version("go-ent")


app = App(
    name="go-ent",
    help="Run Python over your tools in a WebAssembly sandbox, and save what worked as tools.",
    group_commands=Group("Options", sort_key=99),  # what is in no group: --help and --version
    version=_version,
    help_format="plaintext",
    help_formatter=Help(),
    suppress_keyboard_interrupt=False,
    # A flag that is not given is off: nobody needs to be told so.
    default_parameter=Parameter(
        show_default=lambda value: None if value is None or value is False else value, negative_iterable=()
    ),
)
register(app)


class UsageError(Exception):
    """Internal: raised when the arguments make no sense together; the message says what to write."""


class _Log(logging.StreamHandler[TextIO]):
    """What is logged makes the progress line step aside."""

    def emit(self, record: logging.LogRecord) -> None:
        with aside():
            super().emit(record)


def main() -> None:
    """The console script. Exit codes: docs/reference/exit-codes.md."""
    _leave_folder()
    not_strict()
    keep_plain()
    log = _Log(sys.stderr)
    log.setFormatter(logging.Formatter("%(name)s: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[log], force=True)
    words, folder = take_globals(sys.argv[1:])
    try:
        code = _run(words, folder)
    except KeyboardInterrupt:
        say("interrupted", err=True)
        raise SystemExit(INTERRUPTED) from None
    except BrokenPipeError:
        sys.stderr.close()
        raise SystemExit(141) from None
    except CycloptsError as error:
        from go_ent.engine.cli.terminal.usage_errors import misused

        say(f"go-ent: {misused(app, error, words)}", err=True)
        raise SystemExit(USAGE_ERROR) from None
    except Exception as error:
        found = _explained(error)
        if found is None:
            raise
        said, code = found
        say(f"go-ent: {said}", err=True)
        raise SystemExit(code) from None
    finally:
        gc.freeze()  # the process ends: nothing is to be looked through for garbage once more
    raise SystemExit(code if isinstance(code, int) else 0)


def _run(words: list[str], folder: str | None) -> object:
    """The command that *words* are, in that folder; what it returns."""
    if folder is not None:
        os.chdir(folder)
    if words[:1] == ["__complete"] and _complete(words[1:]):
        return 0
    if is_terminal(sys.stderr) and words[:1] != ["__complete"]:
        for line in unknown_variables():
            say(line, err=True)
    named = _tool_asked_about(words)
    if {"--help", "-h"} & set(words) and named is None:
        from go_ent.engine.cli.command_examples import EXAMPLES
        from go_ent.engine.cli.terminal.help_format import tell_all

        tell_all(app, words, EXAMPLES)
    with all_are_interrupts():
        if named is not None:
            return _tool_help(named)
        return app(words, exit_on_error=False, print_error=False, result_action="return_value")


def _complete(words: list[str]) -> bool:
    """Complete what can be completed at once; the rest is the library's, which imports the command for it."""
    from go_ent.engine.cli.completing import completed, show_completed

    found = completed(words)
    if found is not None:
        show_completed(found)
    return found is not None


def _tool_asked_about(words: list[str]) -> str | None:
    """The tool whose own help is wanted: `tool run NAME --help`."""
    wanted = words[:1] == ["tool"] and words[1:2] in (["run"], ["call"]) and {"--help", "-h"} & set(words[3:])
    return words[2] if wanted and not words[2].startswith("-") else None


def _tool_help(name: str) -> object:
    from importlib import import_module

    return import_module("go_ent.engine.cli.commands.tool").help_command(name)


def _leave_folder() -> None:
    """Nothing is imported from the current folder, and no program is looked up in it, whichever library does: not by
    a relative name.
    """
    sys.path[:] = filter(os.path.isabs, sys.path)
    if (
        "PATH" in os.environ
    ):  # as sandbox.programs has it, whose import would be for nothing when help is all that is wanted
        os.environ["PATH"] = os.pathsep.join(filter(os.path.isabs, os.environ["PATH"].split(os.pathsep))) or os.defpath


def _explained(error: Exception) -> tuple[str, int] | None:
    """What to say of an error, and the exit code; None for one that nobody has foreseen, whose traceback is wanted."""
    from pydantic import ValidationError

    from go_ent.engine.cli.terminal.advice import in_commands
    from go_ent.engine.core.explain import explain
    from go_ent.sandbox.errors import AdvisedError

    if isinstance(error, ValidationError):
        return explain(error), USAGE_ERROR
    if isinstance(error, UsageError):
        return str(error), USAGE_ERROR
    if isinstance(error, AdvisedError) or type(error).__module__.startswith("go_ent."):
        is_usage = isinstance(error, ValueError | KeyError) and type(error).__name__ != "ConfigError"
        said = error.told(in_commands, "\n") if isinstance(error, AdvisedError) else str(error)
        return said, USAGE_ERROR if is_usage else SETUP_ERROR
    return (_of_system(error), SETUP_ERROR) if isinstance(error, OSError) else None


def _of_system(error: OSError) -> str:
    """What the system says, as a person would."""
    if error.filename is None or error.strerror is None:
        return str(error)
    return f"{error.filename}: {error.strerror}" + (
        "; go-ent doctor says what to do" if isinstance(error, PermissionError) else ""
    )

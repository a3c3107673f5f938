"""The command line: thin. Parse, call the library, print; results on stdout, everything else on stderr."""

from __future__ import annotations

import logging
import os
import sys
from typing import Any, TextIO

from cyclopts import App, CycloptsError, Parameter

from go_ent.engine.cli.terminal.output import aside, is_rich, not_strict, say
from go_ent.engine.cli.terminal.signals import all_are_interrupts
from go_ent.engine.core.logs import keep_plain

# Beside the codes of a run's statuses, which are in engine.outcomes.
USAGE_ERROR = 2
INTERRUPTED = 130
SETUP_ERROR = 12


class Help:
    """Help is drawn on a terminal, and plain in a pipe. What draws it is imported when it is asked for."""

    def __call__(self, console: Any, options: Any, panel: Any) -> None:
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
    help="A sandboxed code-mode tool composer: Python over your tools, run in WebAssembly.",
    version=_version,
    help_format="plaintext",
    help_formatter=Help(),
    suppress_keyboard_interrupt=False,
    # A flag that is not given is off: nobody needs to be told so.
    default_parameter=Parameter(
        show_default=lambda value: None if value is None or value is False else value, negative_iterable=()
    ),
)
app.command(
    "go_ent.engine.cli.commands.init:init_command",
    name="init",
    help="Make a project of a folder: its settings, a first tool.",
)
app.command("go_ent.engine.cli.commands.exec:exec_code", name="exec", help="Run Python code in the sandbox.")
app.command(
    "go_ent.engine.cli.commands.serve:serve_command",
    name="serve",
    help="Serve this project to an MCP client over stdio or HTTP.",
)
app.command(
    "go_ent.engine.cli.commands.install:install_command",
    name="install",
    help="Add this project's server to an MCP client.",
)
for _name, _module, _help in (
    ("run", "run", "Run a task on an agent, a command or in the sandbox; or a plan of tasks."),
    ("ps", "executions", "The executions of this project, the newest first."),
    ("status", "executions", "One execution: its steps, what they cost, where it stands."),
    ("interrupt", "executions", "Stop an execution, also one of another process."),
    ("resume", "executions", "Go on with an execution that was interrupted or has failed."),
    ("logs", "executions", "What an execution has done, record by record."),
    ("approve", "executions", "Approve calls that wait for it."),
    ("reject", "executions", "Reject calls that wait for approval."),
    ("checkpoint", "executions", "Mark where an execution stands now."),
    ("context", "context", "How full an execution's context is, and its summaries."),
    ("summarize", "context", "Summarise what an execution has come to, now."),
    ("loop", "loops", "Run a task again and again until a check passes."),
    ("budget", "project", "What was spent, and what the limits are."),
    ("trust", "project", "Let a project start what its configuration names."),
    ("doctor", "project", "Look at this machine and this project."),
):
    app.command(f"go_ent.engine.cli.commands.{_module}:{_name}_command", name=_name, help=_help)
for _group, _module, _about, _commands in (
    (
        "workflow",
        "workflows",
        "Named workflows: steps with wait points, and their history.",
        (
            ("start", "Start a workflow from its file."),
            ("status", "Where workflows stand."),
            ("approve", "Go on from the wait point, or try the failed step again."),
            ("cancel", "End a workflow where it stands."),
        ),
    ),
    (
        "executions",
        "records",
        "The record of all executions: its index, what is kept, what it adds up to.",
        (
            ("reindex", "Make the index anew from the executions' folders."),
            ("prune", "Remove old executions that can't be resumed."),
            ("totals", "Cost, tokens and success, by runtime, model, role, strategy, tool or day."),
        ),
    ),
    (
        "config",
        "settings",
        "This project's settings: what is in force, what is wrong, their schema.",
        (
            ("show", "The settings in force, and where each comes from."),
            ("check", "Look for everything that is wrong with this project."),
            ("schema", "The JSON schema of the settings, for editors."),
        ),
    ),
    (
        "completion",
        "completion",
        "Completion of commands in a shell: bash, zsh or fish.",
        (
            ("install", "Install it for a shell."),
            ("show", "Print its script."),
        ),
    ),
    (
        "image",
        "image",
        "Guest images: what is in the sandbox's Python.",
        (
            ("list", "The images in the cache, newest first."),
            ("info", "One image: this folder's, or one by its digest."),
            ("build", "Build this folder's image now."),
            ("prune", "Remove images that are not in use."),
        ),
    ),
    (
        "tool",
        "tool",
        "Composed tools: write, test, run, share.",
        (
            ("list", "The composed tools of this project and of the user."),
            ("show", "One tool: its interface, or its source."),
            ("add", "Check a tool's file, run its examples, and save it."),
            ("run", "Run a tool: once, for each line of stdin, or over all of it."),
            ("test", "Run the examples of tools."),
            ("history", "The versions of a tool."),
            ("rollback", "Bring an earlier version back."),
            ("rm", "Remove a tool; its versions stay in the history."),
            ("export", "Tools as one JSON document on stdout."),
            ("import", "Tools from such a document, or from JSON files of the older form."),
            ("suggest", "Tools that past code would make."),
            ("learn", "Learn what a tool returns from its past results."),
            ("search", "Search all tools that this project grants."),
        ),
    ),
):
    _app = App(name=_group, help=_about)
    app.command(_app)
    for _name, _help in _commands:
        # A function called test_… would be one of pytest's.
        _app.command(
            f"go_ent.engine.cli.commands.{_module}:{'examples' if _name == 'test' else _name}_command",
            name=_name,
            help=_help,
        )


class UsageError(Exception):
    """Raised when the arguments make no sense together; the message says what to write."""


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
    try:
        if {"--help", "-h"} & set(sys.argv):
            from go_ent.engine.cli.terminal.help_format import tell_all

            tell_all(app, sys.argv[1:])
        with all_are_interrupts():
            code = app(sys.argv[1:], exit_on_error=False, print_error=False, result_action="return_value")
    except KeyboardInterrupt:
        say("interrupted", err=True)
        raise SystemExit(INTERRUPTED) from None
    except BrokenPipeError:
        sys.stderr.close()
        raise SystemExit(141) from None
    except CycloptsError as error:
        from go_ent.engine.cli.terminal.usage_errors import misused

        say(f"go-ent: {misused(app, error, sys.argv[1:])}", err=True)
        raise SystemExit(USAGE_ERROR) from None
    except Exception as error:
        found = _explained(error)
        if found is None:
            raise
        said, code = found
        say(f"go-ent: {said}", err=True)
        raise SystemExit(code) from None
    raise SystemExit(code if isinstance(code, int) else 0)


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

    from go_ent.engine.core.errors import EngineError
    from go_ent.engine.core.explain import explain

    if isinstance(error, ValidationError):
        return explain(error), USAGE_ERROR
    if isinstance(error, UsageError):
        return str(error), USAGE_ERROR
    if isinstance(error, EngineError) or type(error).__module__.startswith("go_ent."):
        is_usage = isinstance(error, ValueError | KeyError) and type(error).__name__ != "ConfigError"
        return str(error), USAGE_ERROR if is_usage else SETUP_ERROR
    return (_of_system(error), SETUP_ERROR) if isinstance(error, OSError) else None


def _of_system(error: OSError) -> str:
    """What the system says, as a person would."""
    if error.filename is None or error.strerror is None:
        return str(error)
    return f"{error.filename}: {error.strerror}" + (
        "; go-ent doctor says what to do" if isinstance(error, PermissionError) else ""
    )

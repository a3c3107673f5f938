"""The command line: thin. Parse, call the library, print; results on stdout, everything else on stderr."""

from __future__ import annotations

import logging
import sys

from cyclopts import App

from engine.cli.texts import plain, say

# Beside the codes of a run's statuses, which are in engine.outcomes.
USAGE_ERROR = 2
SETUP_ERROR = 12


def _version() -> str:
    from importlib.metadata import version

    return version("go-ent")


app = App(
    name="go-ent",
    help="A sandboxed code-mode tool composer: Python over your tools, run in WebAssembly.",
    version=_version,
    help_format="markdown",
)
app.command("engine.cli.exec:exec_code", name="exec", help="Run Python code in the sandbox.")
app.command("engine.cli.serve:serve_command", name="serve", help="Serve this project to an MCP client over stdio.")
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
    app.command(f"engine.cli.{_module}:{_name}_command", name=_name, help=_help)
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
        _app.command(f"engine.cli.{_module}:{'examples' if _name == 'test' else _name}_command", name=_name, help=_help)


class UsageError(Exception):
    """Raised when the arguments make no sense together; the message says what to write."""


class _Log(logging.Formatter):
    """What is logged may quote a server or a file."""

    def format(self, record: logging.LogRecord) -> str:
        return plain(super().format(record))


def main() -> None:
    """The console script. Exit codes: docs/reference/exit-codes.md."""
    log = logging.StreamHandler(sys.stderr)
    log.setFormatter(_Log("%(name)s: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[log], force=True)
    try:
        code = app(sys.argv[1:], exit_on_error=False, print_error=True, result_action="return_value")
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except BrokenPipeError:
        sys.stderr.close()
        raise SystemExit(141) from None
    except Exception as error:
        if type(error).__module__.startswith("cyclopts"):
            raise SystemExit(USAGE_ERROR) from None
        found = _explained(error)
        if found is None:
            raise
        said, code = found
        say(f"go-ent: {said}", err=True)
        raise SystemExit(code) from None
    raise SystemExit(code if isinstance(code, int) else 0)


def _explained(error: Exception) -> tuple[str, int] | None:
    """What to say of an error, and the exit code; None for one that nobody has foreseen, whose traceback is wanted."""
    from pydantic import ValidationError

    from engine.errors import EngineError
    from engine.explaining import explain

    if isinstance(error, ValidationError):
        return explain(error), USAGE_ERROR
    if isinstance(error, UsageError):
        return str(error), USAGE_ERROR
    if isinstance(error, EngineError) or type(error).__module__.startswith(("sandbox.", "composer.", "engine.")):
        is_usage = isinstance(error, ValueError | KeyError) and type(error).__name__ != "ConfigError"
        return str(error), USAGE_ERROR if is_usage else SETUP_ERROR
    return (str(error), SETUP_ERROR) if isinstance(error, OSError) else None

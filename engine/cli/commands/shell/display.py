"""What a run in the shell shows: its output, its value, its error."""

from __future__ import annotations

import sys

from go_ent.engine.cli.commands.exec import show_run_pictures
from go_ent.engine.cli.terminal.advice import in_commands
from go_ent.engine.cli.terminal.output import say
from go_ent.engine.cli.terminal.render import show_result
from go_ent.sandbox import Run


def show_run(run: Run) -> None:
    """Print a run as a shell does. What it printed and its value go to stdout, everything else to stderr."""
    if run.stdout:
        say(run.stdout, end="" if run.stdout.endswith("\n") else "\n")
    if run.result is not None:
        show_result(run.result)
    sys.stdout.flush()
    if run.files:
        show_run_pictures(run)
    if run.warning:
        say(f"note: {run.warning}", err=True)
    error = run.error
    if error is None or run.status == "interrupted":
        return
    trace = error.traceback if error.line is not None else None
    say(trace or f"{error.kind}: {error.message}", err=True, style="red")
    if run.status not in ("error", error.kind):
        say(f"status: {run.status}", err=True)
    if hint := error.hint_in(in_commands):
        say(f"hint: {hint}", err=True)
